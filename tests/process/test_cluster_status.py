# SPDX-License-Identifier: Apache-2.0
"""What the clusters of a job tell of themselves, as people and scrapers see it; written here as a
coordinator writes it, and as somebody who means harm would.

behaviour: http / Status
"""

import json
import re

import pytest

from clusters import LONG_LEASE_S, Driver, Hold, Worker
from running import read, until
from test_http import Http
from wire import OK, Wire

WORKER = 2  # MST_ROLE_WORKER
LEASE = ("--lease", f"{LONG_LEASE_S}s")  # connections of a test renew none
KEY = "muster/cluster-status/{}"
RUN = "0,0,0,3,12,0,0,0,0,0,0,1,0,0,0,0;4.120000000"
BUSY = (
    "queued=12 in_flight=8 slots=8 slots_free=0 workers=3 present=2 values=100 failures=2 retried=4 "
    "put_back=5 rate=1034500 oldest=17 oldest_ms=3661000 waits=slot oldest_function=resize longest=5 "
    f"longest_ms=180000 longest_worker=1 longest_function=train run={RUN} "
    f"failed_crash=2 failed={','.join(['0'] * 15)},3;9.000000000"
)


@pytest.fixture
def told(serve):
    """told({name: value}) -> a service in which these clusters told this."""

    def start(values):
        service = serve("--http", "127.0.0.1:0", *LEASE)
        service.http = Http(service)
        service.teller = service.wire()
        for name, value in values.items():
            assert service.teller.put(KEY.format(name), value).status == OK
        return service

    return start


def clusters_of(service):
    return json.loads(read(service.http.url + "/status.json"))["clusters"]


def test_status_says_why_a_closure_is_not_running(told, muster):
    """A closure of a cluster does not run. `muster status` says which one waits longest, for how
    long and why, and which one runs longest."""
    told({"default": BUSY})
    lines = muster("status").stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("cluster "))
    assert lines[at : at + 4] == [
        "cluster default: 12 queued, 8 in flight; 0 of 8 slots free, 2 of 3 workers here; 1034.5 per second",
        "  ended: 100 with a value, 2 failed, 0 cancelled; 4 retried, 5 put back by a loss",
        "  waits longest: closure 17 (resize), for 61 min: all slots that could run it are busy",
        "  runs longest: closure 5 (train), for 3 min, on worker #1",
    ]


@pytest.mark.parametrize(
    "word, sentence",
    [
        ("workers", "there is no worker"),
        ("function", "no worker has that function in that version"),
        ("backoff", "it failed and will be tried again"),
    ],
)
def test_each_reason_is_a_sentence(told, muster, word, sentence):
    """A closure of a cluster does not run. `muster status` says which one waits longest, for how
    long and why, and which one runs longest."""
    service = told({"default": f"queued=1 oldest=1 waits={word} oldest_function=f"})
    assert re.search(rf"closure 1 \(f\), for [\d.]+ s: {sentence}\n", muster("status").stdout)
    assert clusters_of(service)[0]["oldest"]["waits_for"] == word


def test_status_json_is_that_of_the_command(told, muster):
    """The status of a cluster is read as JSON. It says what the command says, with ages as of
    now."""
    service = told({"a": "queued=1", "default": BUSY})
    both = [clusters_of(service), json.loads(muster("status", "--json").stdout)["clusters"]]
    for clusters in both:  # it grows older
        assert 3661000 <= clusters[1]["oldest"].pop("ms") < 4000000
        assert 180000 <= clusters[1]["longest"].pop("ms") < 480000
    assert both[0] == both[1]
    assert (both[0][0]["name"], both[0][0]["queued"], both[0][0]["oldest"]) == ("a", 1, None)
    busy = both[0][1]
    assert busy["oldest"] == {"closure": 17, "function": "resize", "waits_for": "slot"}
    assert busy["longest"] == {"closure": 5, "function": "train", "worker": 1}
    assert (busy["per_second"], busy["put_back"], busy["workers"]) == (1034.5, 5, 3)


def test_clusters_are_told_to_scrapers(told):
    """Clusters of closures report their state to scrapers: queue, workers, outcomes and times,
    with the labels job and cluster, of at most 64 clusters of a job; they go with their
    coordinator. [Metrics]"""
    service = told({"default": BUSY, "other": "queued=1"})
    found = service.http.metrics()
    of = {"job": "default", "cluster": "default"}
    assert found.value("muster_closures_queued", **of) == 12
    assert found.value("muster_closures_queued", job="default", cluster="other") == 1
    assert found.value("muster_closures_in_flight", **of) == 8
    assert found.value("muster_cluster_workers", **of) == 2
    assert found.value("muster_cluster_slots", **of, state="busy") == 8
    assert found.value("muster_closures_total", **of, outcome="value") == 100
    assert found.value("muster_closures_total", **of, outcome="failure") == 2
    assert found.value("muster_closure_repeats_total", **of, reason="loss") == 5
    assert found.value("muster_closure_failures_total", **of, **{"class": "crash"}) == 2
    assert found.value("muster_closure_failures_total", **of, **{"class": "deadline"}) == 0
    value = {**of, "outcome": "value"}
    assert found.value("muster_closure_run_seconds_count", **value) == 16
    assert found.value("muster_closure_run_seconds_sum", **value) == 4.12
    assert found.value("muster_closure_run_seconds_bucket", **value, le="0.001") == 15
    assert found.value("muster_closure_run_seconds_count", **of, outcome="failure") == 3
    assert found.value("muster_function_resolve_seconds_count", **of) == 0


def test_hostile_statuses_are_passed_over(told, muster):
    """A client writes keys that look like a cluster's status and are none. They are passed over;
    the text stays whole and the others are shown. [Metrics]"""
    service = told({
        "good": "queued=1",
        "a/b": "queued=1",
        'quote"': "queued=1",
        b"\xff\n\\": "queued=1",
        "\\xff": "queued=1",
        "n" * 65: "queued=1",
        "empty": "",
        "lines": 'queued=1\nmuster_leader 7',
        "huge": "queued=" + "9" * 30,
        "negative": "queued=-1",
        "wraps": f"run={','.join(['9223372036854775807'] * 16)};0.000000000",
        "short": "run=1,2,3;4.000000000",
        "noise": bytes(range(256)),
        "long": "x=" + "y" * 100000,
    })
    assert [cluster["name"] for cluster in clusters_of(service)] == ["good"]
    assert muster("status").stdout.count("cluster ") == 1
    samples = service.http.metrics().families["muster_closures_queued"].samples  # a strict reader
    assert [sample.labels["cluster"] for sample in samples] == ["good"]


def test_many_clusters_are_told_up_to_a_bound(told):
    """A job has more clusters than may be reported. As many as the limit allows are, however many
    keys there are. [Metrics]"""
    service = told({f"c{i:04}": "queued=1" for i in range(200)} | {"a": "no status"})
    assert len(clusters_of(service)) == 64
    found = service.http.metrics()
    assert len(found.families["muster_closures_queued"].samples) == 64


def test_a_cluster_behind_many_keys_is_told(told):
    """Before the status of a cluster lie more keys than the core lists in one page. The status is
    reported all the same. [Metrics]"""
    service = told({f"a{i:04}": "no status" for i in range(300)} | {"z": "queued=1"})
    assert [cluster["name"] for cluster in clusters_of(service)] == ["z"]
    samples = service.http.metrics().families["muster_closures_queued"].samples
    assert [sample.labels["cluster"] for sample in samples] == ["z"]


def test_a_cluster_goes_with_its_coordinator(told):
    """A coordinator closes. The status of its cluster and its metrics go with it. [Metrics]"""
    service = told({})
    owner = Wire(service.address)
    assert owner.open_rank(0, 1).status == OK
    assert owner.put(KEY.format("default"), "queued=1", owned=True).status == OK
    assert [cluster["name"] for cluster in clusters_of(service)] == ["default"]
    assert owner.ask("leave").status == OK
    service.http.until(lambda found: not found.families["muster_closures_queued"].samples)


def test_a_coordinator_tells_of_itself(env, started, serve, muster, tmp_path):
    """A coordinator is given closures, a worker comes, all is done, and it closes. Each time the
    status and the metrics say so, a second later at most, from the first closure that no
    worker runs to the last that is counted; then nothing is left of it."""
    service = serve("--http", "127.0.0.1:0", *LEASE)
    http = Http(service)
    hold = Hold(tmp_path / "hold")
    env.update(MUSTER_ADDR=service.address, CW_HOLD=str(hold.path))
    driver = Driver(env)
    started.append(driver)

    def tells(text):
        return until(lambda: re.search(text, (said := muster("status").stdout)) and said)

    driver.schedule("first", "until", "go")
    tells(r"waits longest: closure 1 \(until\), for \d+ s: there is no worker\n")
    worker = Worker(env, 0)
    started.append(worker)
    tells(r"runs longest: closure 1 \(until\), for \d+ s, on worker #0\n")
    for number in range(9):
        driver.schedule(f"next{number}", "until", "go")
    said = tells(": all slots that could run it are busy\n")
    assert "0 of 1 slot free, 1 of 1 worker here" in said
    hold.mark("go")
    assert driver.ask("join", 25000)[0] == "MUSTER_OK"
    of = {"job": "default", "cluster": "default"}
    found = http.until(
        lambda found: found.value("muster_closures_total", **of, outcome="value") == 10
        and found.value("muster_closures_in_flight", **of) == 0
    )
    assert found.value("muster_closure_run_seconds_count", **of, outcome="value") == 10
    assert found.value("muster_closure_run_seconds_count", **of, outcome="failure") == 0
    assert found.value("muster_result_fetch_seconds_count", **of) == 10
    assert driver.ask("close")[0] == "MUSTER_OK"
    http.until(lambda found: not found.families["muster_closures_total"].samples)
    driver.end()


def test_a_coordinator_with_nothing_to_do_says_so(env, started, serve, muster):
    """A coordinator has nothing more to do. A moment later its rate is reported as 0, with all
    that changed while its last report was on its way, though nothing else happens."""
    service = serve("--http", "127.0.0.1:0", *LEASE)
    service.http = Http(service)
    env.update(MUSTER_ADDR=service.address)
    driver = Driver(env)
    worker = Worker(env, 0)
    started.extend([driver, worker])

    def tells(test):
        return any(map(test, clusters_of(service)))

    # A second after the last one none is told any more: so some end until it is told.
    until(lambda: driver.call("add", 1, 0) == ["1"] and tells(lambda one: one["per_second"] > 0))
    until(lambda: tells(lambda one: one["per_second"] == 0))
    driver.end()


def test_in_a_job_of_workers_no_rank_is_missing(serve, muster):
    """A job has a size, as `muster run -n 4` gives it one, and only workers came. `muster status`
    counts those, and names no rank as missing; once a rank came it does."""
    service = serve(*LEASE)
    workers = []
    for index in range(3):
        workers.append(Wire(service.address))
        assert workers[-1].open(role=WORKER, index=index, size=4).status == OK
        assert workers[-1].ask("join").status == OK
    said = muster("status").stdout
    assert said == "job default: all 3 workers are here\n  3 workers\n", said
    assert "missing" not in said
    assert json.loads(muster("status", "--json").stdout)["missing"] == []
    rank = Wire(service.address)
    assert rank.open_rank(1, 4).status == OK
    said = muster("status").stdout
    assert "\nno generation yet, 1 of 4 here\nmissing: #0 (never came)" in said
