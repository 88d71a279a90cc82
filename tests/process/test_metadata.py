# SPDX-License-Identifier: Apache-2.0
"""What clouds announce, from fakes of their metadata services on loopback: the same requests, headers,
tokens, ETags and error codes, and what a network does to them.

behaviour: sources / The metadata services of clouds
"""

import contextlib
import json

import pytest

import metadata_fake as fakes
from conftest import BUILD, free_port, sanitized
from clouding import FAKES, announce, near, tell  # noqa: F401 (a fixture)
from metadata_fake import Amazon, Azure, Google


# ---- Google ----

def test_google_preempts(tell):
    """Google says that the machine is preempted. It is known at once, as the request hangs until
    then: certain, 30 s."""
    with Google() as fake:
        process = tell(f"google={fake.url}")
        fake.wait_for("preempted", 2)  # the second one hangs
        _, path, headers, _ = fake.wait_for("preempted")
        assert "wait_for_change=true" in path and path.endswith("last_etag=0")
        assert headers["Metadata-Flavor"] == "Google"
        assert fake.wait_for("preempted", 2)[1].endswith(f"last_etag={1:016x}")
        fake.set("preempted", "TRUE")
        line = process.out.wait_for("notice source=google level=certain", "preempted")
        near(line, 30)
        assert not process.out.having("say:")


def test_google_maintenance_is_announced_and_withdrawn(tell):
    """Google announces maintenance, and takes it back. A move is advice; what ends the machine is
    certain. NONE takes it back, and the next one is reported again."""
    with Google() as fake:
        process = tell(f"google={fake.url}")
        fake.wait_for("maintenance-event?", 2)  # so this machine is told of maintenance at all
        fake.set("maintenance-event", "MIGRATE_ON_HOST_MAINTENANCE")
        process.out.wait_for("level=advisory", "MIGRATE_ON_HOST_MAINTENANCE")
        fake.set("maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE")
        near(process.out.wait_for("level=certain", "TERMINATE_ON_HOST_MAINTENANCE"), 60)
        fake.set("maintenance-event", "NONE")
        process.out.wait_for("nothing")
        fake.set("maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE")  # the next one
        process.out.wait_for("level=certain", "TERMINATE_ON_HOST_MAINTENANCE", count=2)


def test_google_maintenance_that_is_planned_has_its_time(tell):
    """Google plans maintenance for a time. It is advice until then, with that time as the
    deadline."""
    with Google() as fake:
        window = json.dumps({"upcomingMaintenance": {
            "can_reschedule": "true", "type": "SCHEDULED", "maintenance_status": "PENDING",
            "window_start_time": fakes.rfc3339(fake.now() + 3000)}})
        fake.set("upcoming-maintenance", window)
        process = tell(f"google={fake.url}")
        near(process.out.wait_for("level=advisory", "planned: SCHEDULED"), 3000)
        fake.set("maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE")
        near(process.out.wait_for("level=certain", "TERMINATE_ON_HOST_MAINTENANCE"), 3000)
        fake.set("maintenance-event", "NONE")
        fake.set("upcoming-maintenance", "NONE")
        process.out.wait_for("nothing")


def test_google_machine_without_planned_maintenance(tell):
    """The machine is of a type without planned maintenance. 404 is healthy, and nothing is said
    of it."""
    with Google() as fake:
        fake.set("upcoming-maintenance", None)
        process = tell(f"google={fake.url}")
        fake.wait_for("upcoming-maintenance")
        announce(fake)
        process.out.wait_for("notice source=google")
        assert not process.out.having("say:")


def test_google_service_that_is_maintained_is_asked_again_soon(tell):
    """Google's server answers 503, or closes while a request hangs. One line says so; it is asked
    again after 1 s, or 5, without an ETag, so that no change is missed."""
    with Google() as fake:
        process = tell(f"google={fake.url}")
        fake.wait_for("preempted", 2)
        fake.change(status=503)
        process.out.wait_for("say:", "status 503")
        fake.set("preempted", "TRUE")  # while nobody can be told
        fake.change(status=None)
        process.out.wait_for("level=certain", "preempted")
        process.out.wait_for("say:", "answers again")
        assert len(process.out.having("status 503")) == 1


def test_google_closes_in_the_middle_of_the_wait(tell):
    """Google's server answers 503, or closes while a request hangs. One line says so; it is asked
    again after 1 s, or 5, without an ETag, so that no change is missed."""
    with Google() as fake:
        process = tell(f"google={fake.url}")
        fake.wait_for("preempted", 2)
        fake.change(trouble=fakes.close_in_the_middle)
        process.out.wait_for("say:", "the connection broke")
        fake.change(trouble=None)
        fake.set("preempted", "TRUE")
        process.out.wait_for("level=certain", "preempted")


def test_who_answers_without_googles_header_is_not_google(tell):
    """Something else answers in Google's place. It lacks the header, and is not believed."""
    with Google() as fake:
        fake.change(trouble=fakes.portal)
        process = tell(f"google={fake.url}")
        process.out.wait_for("say:", "it is not Google's")
        assert not process.out.having("notice source")


# ---- Azure ----

def test_azure_preempts(tell):
    """Azure preempts the machine; the event starts, and is gone. The notice is certain at its
    time, reported once, and taken back."""
    with Azure() as fake:
        process = tell(f"azure={fake.url}")
        _, path, headers, _ = fake.wait_for("/metadata/scheduledevents")
        assert path.endswith("?api-version=2020-07-01") and headers["Metadata"] == "true"
        fake.event("e-1", "Preempt", left_s=60)
        near(process.out.wait_for("notice source=azure level=certain assumed=0", "Preempt"), 60)
        fake.event("e-1", "Preempt", status="Started")  # tells no time any more
        fake.wait_for("scheduledevents", len(fake.requests) + 2)
        fake.gone("e-1")
        process.out.wait_for("nothing")
        assert len(process.out.having("notice source")) == 1


def test_azure_events_of_other_machines_are_not_ours(tell):
    """Azure's events are about other machines. They are not for this one, whatever their names
    begin with; letters' case does not matter."""
    with Azure() as fake:
        fake.event("e-1", "Reboot", left_s=600, resources=("trainer_11", "trainer_120"))
        process = tell(f"azure={fake.url}")
        fake.wait_for("scheduledevents", 2)
        fake.event("e-2", "Redeploy", left_s=500, resources=("trainer_13", "TRAINER_12"))
        near(process.out.wait_for("level=certain", "Redeploy"), 500)
        assert not process.out.having("Reboot")


def test_azure_machine_that_cannot_learn_its_name(tell):
    """An Azure machine cannot learn its own name. Events are advice until it can."""
    with Azure(name=None) as fake:
        fake.event("e-1", "Preempt", left_s=600)
        process = tell(f"azure={fake.url}")
        process.out.wait_for("level=advisory", "the name of this one is not known")
        fake.name = "trainer_12"
        process.out.wait_for("level=certain", "Preempt")


def test_azure_hardware_that_failed_tells_no_time(tell):
    """An event of Azure has begun without a warning. It is certain, for as long as is assumed."""
    with Azure() as fake:
        fake.event("e-1", "Reboot", status="Started")
        process = tell(f"azure={fake.url}")
        near(process.out.wait_for("level=certain assumed=1", "Reboot", "started"), 77)


def test_azure_freeze_and_what_is_not_known_are_advice(tell):
    """Azure announces a freeze, or an unknown type of event. That is advice."""
    with Azure() as fake:
        fake.event("e-1", "Freeze", left_s=800)
        process = tell(f"azure={fake.url}")
        process.out.wait_for("level=advisory", "Freeze")
        fake.gone("e-1")
        process.out.wait_for("nothing")
        fake.event("e-2", "Rebalance", left_s=800)
        process.out.wait_for("level=advisory", "Rebalance")


# ---- all three ----

TROUBLES = {"closes in the middle": (fakes.close_in_the_middle, "the connection broke"),
            "endless": (fakes.endless, "more than 64 KiB"),
            "endless headers": (fakes.endless_headers, "more than 64 KiB"),
            "garbage": (fakes.garbage, "the connection broke"),
            "drip": (fakes.drip, "no answer in time"),
            "no answer": (fakes.no_answer, "no answer in time")}


def words_of(cloud, trouble):
    """Amazon's first request is for a token, Azure's first one may take minutes."""
    words = TROUBLES[trouble][1]
    return "hop limit" if cloud == "amazon" and words == "no answer in time" else words


@pytest.mark.parametrize("cloud", FAKES)
def test_trouble_is_unknown_and_then_over(tell, cloud):
    """A service closes in the middle, has no end, drips, says nothing, or speaks no HTTP. The
    state is unknown, in one line, after 2 s or 64 KiB at most; the next good answer counts."""
    chosen = [trouble for trouble in TROUBLES if cloud != "azure" or
              TROUBLES[trouble][1] != "no answer in time"]
    with contextlib.ExitStack() as stack:
        all_ = [(trouble, stack.enter_context(FAKES[cloud]())) for trouble in chosen]
        for trouble, fake in all_:
            fake.change(trouble=TROUBLES[trouble][0])
        processes = [tell(f"{cloud}={fake.url}") for _, fake in all_]
        for (trouble, fake), process in zip(all_, processes):
            process.out.wait_for("say:", words_of(cloud, trouble))
            announce(fake)
            fake.change(trouble=None)
        for process in processes:
            process.out.wait_for(f"notice source={cloud} level=certain")


@pytest.mark.parametrize("cloud", FAKES)
def test_what_is_known_stays_while_nobody_answers(tell, cloud):
    """A service fails that has announced something. What was announced stays."""
    with FAKES[cloud]() as fake:
        announce(fake)
        process = tell(f"{cloud}={fake.url}")
        process.out.wait_for(f"notice source={cloud} level=certain")
        fake.change(status=500)
        process.out.wait_for("say:", "status 500")
        assert not process.out.having("nothing")


@pytest.mark.parametrize("cloud", FAKES)
def test_redirects_are_not_followed(tell, cloud):
    """A metadata service redirects, or variables name a proxy. Neither is followed."""
    with FAKES[cloud]() as fake, FAKES[cloud]() as other:
        announce(other)
        fake.change(trouble=fakes.redirect_to(other.url))
        process = tell(f"{cloud}={fake.url}")
        process.out.wait_for("say:", "status 302")
        assert other.requests == [] and not process.out.having("notice source")


@pytest.mark.parametrize("cloud", FAKES)
def test_proxies_are_not_asked(tell, cloud):
    """A metadata service redirects, or variables name a proxy. Neither is followed."""
    with FAKES[cloud]() as fake, a_proxy() as proxy:
        announce(fake)
        names = ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY")
        process = tell(f"{cloud}={fake.url}", **dict.fromkeys(names, proxy.url), no_proxy="")
        process.out.wait_for(f"notice source={cloud}")
        assert proxy.requests == []


def a_proxy():
    proxy = fakes.Fake()
    proxy.status = 502
    return proxy


@pytest.mark.parametrize("cloud", FAKES)
def test_nobody_is_there(tell, cloud):
    """No service is at the address. One line names it, once."""
    url = f"http://127.0.0.1:{free_port()}"
    process = tell(f"{cloud}={url}")
    process.out.wait_for("say:", f"'{cloud}'", "no connection", url)


@pytest.mark.parametrize("cloud", FAKES)
def test_the_end_waits_for_no_answer(tell, cloud):
    """The agent ends while a request hangs. It does not wait for it."""
    with FAKES[cloud]() as fake:
        fake.change(trouble=fakes.no_answer)
        process = tell(f"{cloud}={fake.url}")
        process.out.wait_for("asking")
        fake.wait_for("/")
        process.process.stdin.close()
        process.out.wait_for("ended")
        assert process.wait() == 0


def test_the_variables_of_clouds_say_where_to_ask(tell):
    """Variables of the clouds' own programs say where to ask. They count; what the user typed
    goes before."""
    with Google() as google, Amazon() as amazon:
        announce(google)
        announce(amazon)
        for variable, value in (("GCE_METADATA_HOST", google.address),
                                ("GCE_METADATA_IP", google.address)):
            tell("google", **{variable: value}).out.wait_for("notice source=google")
        process = tell("amazon", AWS_EC2_METADATA_SERVICE_ENDPOINT=amazon.url + "/")
        process.out.wait_for("notice source=amazon")


def test_a_source_that_is_switched_off_or_misspelled_says_so(tell):
    """A source is switched off, its address is none, or its name is misspelled. One line says so,
    and lists the names."""
    for sources, words, more in (
            ("amazon", "AWS_EC2_METADATA_DISABLED", {"AWS_EC2_METADATA_DISABLED": "true"}),
            ("azure=ftp://here", "is no address http://HOST:PORT", {}),
            ("gogle", "there are: signals, file=PATH", {})):
        process = tell(sources, **more)
        process.out.wait_for("refused:", words)
        assert process.wait() == 1


@pytest.mark.skipif(sanitized(), reason="a sanitizer finds its libraries in another way")
def test_a_machine_without_libcurl_says_what_to_install(tell, tmp_path):
    """A cloud is named, and libcurl is missing. One line says which package to install. Without a
    cloud libcurl is not needed."""
    (tmp_path / "libcurl.so.4").write_bytes(b"no library")
    process = tell("google", LD_LIBRARY_PATH=str(tmp_path))
    process.out.wait_for("refused:", "'google': libcurl cannot be loaded", "install the package libcurl4")
    assert process.wait() == 1


@pytest.mark.skipif(sanitized(), reason="what is loaded before it would stand before the sanitizer")
@pytest.mark.parametrize("source", FAKES)
def test_a_libcurl_of_before_7_85_will_do(tell, source):
    """The libcurl that is found is of before 7.85. It will do."""
    with FAKES[source]() as fake:
        announce(fake)
        process = tell(f"{source}={fake.url}",
                       LD_PRELOAD=str(BUILD / "tests/process/libcurl_before.so"))
        process.out.wait_for(f"notice source={source} level=certain")


def test_several_clouds_tell_the_worst(tell):
    """Several sources know something. The worst counts: certain before advice, then the first
    end."""
    with Google() as google, Azure() as azure:
        azure.event("e-1", "Freeze", left_s=5)
        process = tell(f"google={google.url},azure={azure.url}")
        process.out.wait_for("source=azure level=advisory")
        announce(google)
        process.out.wait_for("source=google level=certain")
