# SPDX-License-Identifier: Apache-2.0
"""What Amazon announces, from a fake of its metadata service on loopback.

behaviour: sources / The metadata services of clouds
"""

import json
import time

import metadata_fake as fakes
from clouding import announce, near, tell  # noqa: F401 (a fixture)
from metadata_fake import Amazon


def test_amazon_interrupts_a_spot_machine(tell):
    """Amazon interrupts a spot machine. It is certain, at the time it names."""
    with Amazon() as fake:
        process = tell(f"amazon={fake.url}")
        fake.wait_for("target-lifecycle-state")
        method, _, headers, body = fake.wait_for("/latest/api/token")
        assert (method, body) == ("PUT", b"")
        assert headers["X-aws-ec2-metadata-token-ttl-seconds"] == "21600"
        announce(fake)
        near(process.out.wait_for("notice source=amazon level=certain assumed=0",
                                  "spot interruption: terminate"), 120)
        assert fake.given == 1 and not process.out.having("say:")


def test_amazon_hibernates_at_once(tell):
    """Amazon hibernates the machine, or the time of the interruption has passed. It is certain,
    and the time that is left is assumed."""
    with Amazon() as fake:
        fake.set(Amazon.ACTION, '{"action":"hibernate","time":"2027-03-01T04:07:10Z"}')
        fake.clock_s = 1803960430 + 60 - time.time()  # its time has passed by its own clock
        process = tell(f"amazon={fake.url}")
        near(process.out.wait_for("level=certain assumed=1", "hibernate"), 77)


def test_a_deadline_is_read_by_the_clock_that_it_was_written_by(tell):
    """This machine's clock is wrong by hours. The time left is right: a deadline is read by the
    clock of its writer."""
    with Amazon(clock_s=-7200) as fake:
        announce(fake)
        process = tell(f"amazon={fake.url}")
        near(process.out.wait_for("level=certain assumed=0", "terminate"), 120)


def test_amazon_token_that_is_refused_is_renewed_once(tell):
    """Amazon's token is near its end, or refused. It is renewed in time; once more when it is
    refused, and then not until the next round."""
    with Amazon() as fake:
        process = tell(f"amazon={fake.url}")
        fake.wait_for("target-lifecycle-state")
        fake.forget_tokens()
        announce(fake)
        process.out.wait_for("notice source=amazon level=certain")
        assert fake.given == 2 and not process.out.having("say:")


def test_amazon_token_is_renewed_before_its_end(tell):
    """Amazon's token is near its end, or refused. It is renewed in time; once more when it is
    refused, and then not until the next round."""
    with Amazon() as fake:
        fake.ttl_s = 5  # no longer than the pause
        tell(f"amazon={fake.url}")
        fake.wait_for("/latest/api/token", 2)
        assert not [one for one in fake.requests if one[0] == "GET" and
                    one[2].get(Amazon.HEADER) not in fake.tokens]


def test_amazon_service_that_never_takes_a_token(tell):
    """Amazon's token is near its end, or refused. It is renewed in time; once more when it is
    refused, and then not until the next round."""
    with Amazon() as fake:
        fake.change(status=401)
        process = tell(f"amazon={fake.url}")
        process.out.wait_for("say:", "status 401")
        assert len(fake.requests) < 5
        fake.change(status=None)
        process.out.wait_for("say:", "answers again")


def test_amazon_service_that_is_switched_off(tell):
    """Amazon's service is switched off. One line says so, and it is asked once per minute."""
    with Amazon() as fake:
        fake.change(status=403)
        process = tell(f"amazon={fake.url}")
        process.out.wait_for("say:", "status 403")


def test_amazon_in_a_container_with_too_few_hops_is_told_once(tell):
    """The request for a token gets no answer, as in a container with too few hops. One line says
    what to set, once; what needs no token is asked without."""
    with Amazon() as fake:
        fake.drops_token = True
        process = tell(f"amazon={fake.url}")
        process.out.wait_for("say:", "hop limit must be 2 or more")
        fake.wait_for("/latest/api/token", 2)
        process.out.wait_for("say:", "status 401")
        assert len(process.out.having("hop limit")) == 1


def test_amazon_service_of_the_first_version(tell):
    """The request for a token gets no answer, as in a container with too few hops. One line says
    what to set, once; what needs no token is asked without."""
    with Amazon() as fake:
        fake.without = True
        announce(fake)
        process = tell(f"amazon={fake.url}")
        process.out.wait_for("notice source=amazon level=certain")
        assert Amazon.HEADER not in fake.wait_for("instance-action")[2]


def test_amazon_rebalance_is_advice(tell):
    """Amazon recommends to leave. That is advice; the interruption itself is certain."""
    with Amazon() as fake:
        fake.set(Amazon.REBALANCE, json.dumps({"noticeTime": fakes.rfc3339(fake.now())}))
        process = tell(f"amazon={fake.url}")
        process.out.wait_for("level=advisory", "rebalance")
        announce(fake)
        process.out.wait_for("level=certain", "spot interruption")


def scheduled(fake, left, state="active", id_="instance-event-0a1b2c3d"):
    return json.dumps([{"Code": "system-reboot", "Description": "scheduled reboot", "EventId": id_,
                        "NotBefore": fakes.gmt(fake.now() + left), "State": state}])


def test_amazon_scheduled_event_becomes_certain_and_is_canceled(tell):
    """Amazon has an event scheduled, and cancels it. It is advice while it is more than an hour
    away, then certain; then taken back."""
    with Amazon() as fake:
        fake.set(Amazon.SCHEDULED, scheduled(fake, 86400))
        process = tell(f"amazon={fake.url}")
        near(process.out.wait_for("level=advisory", "system-reboot: scheduled reboot"), 86400)
        fake.set(Amazon.SCHEDULED, scheduled(fake, 600))
        near(process.out.wait_for("level=certain assumed=0", "system-reboot"), 600)
        fake.set(Amazon.SCHEDULED, scheduled(fake, 600, state="canceled"))
        process.out.wait_for("nothing")


def test_amazon_auto_scaling_takes_a_machine_away(tell):
    """Auto Scaling terminates the machine. It is certain, for as long as is assumed."""
    with Amazon() as fake:
        fake.set(Amazon.LIFECYCLE, "Terminated")
        process = tell(f"amazon={fake.url}")
        near(process.out.wait_for("level=certain assumed=1", "Auto Scaling"), 77)


def test_amazon_of_a_machine_that_has_ipv6_alone(tell):
    """A machine of Amazon's has IPv6 alone, and its variable says so. The service is looked for
    at that address."""
    process = tell("amazon", AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE="IPv6")
    process.out.wait_for("does not know", "(http://[fd00:ec2::254])")
    with Amazon() as fake:
        announce(fake)
        process = tell("amazon", AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE="IPv6",
                       AWS_EC2_METADATA_SERVICE_ENDPOINT=fake.url)
        process.out.wait_for("notice source=amazon")
