# SPDX-License-Identifier: Apache-2.0
"""The benchmark measures: small, so that its figures say nothing, but every part of it runs.

behaviour: examples / The benchmark
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import types
import xml.etree.ElementTree

import pytest
from conftest import sanitized
from interop import client

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from benchlib import figures, run as bench_run, struck  # noqa: E402 (the path comes first)
from pytorch import torch  # noqa: E402, F401

BUILD = pathlib.Path(os.environ.get("MUSTER_BUILD", ROOT / "build" / "dev"))


TINY = ["--pairs", "1", "--repeats", "0", "--kills", "1", "--ranks", "4", "--puts", "200", "--records", "400",
        "--restart-ranks", "4", "--notice-ranks", "4", "--notices", "2", "--milliseconds", "50",
        "--rounds", "3", "--members", "8",
        "--closures", "2000", "--queued", "20000",
        "--barriers", "120", "--idle", "50", "--idle-beside", "20"]


def bench(env, *words):
    return subprocess.run([ROOT / "tools" / "bench", "--bin", BUILD / "bin", *TINY, *words],
                          env=env, capture_output=True, text=True, timeout=900)


def measures_of(said):
    return {measure["name"]: measure for measure in said["measures"]}


def judges_itself(said):
    """The run is void exactly when an anchor is off: of each there is one figure."""
    slow = not 6 <= said["ping_pong_us"][0] <= 10 if len(said["ping_pong_us"]) == 1 else None
    off = any(rate < 200_000 for rate in said["echo_per_second"]) or any(
        us > 3200 for us in said["barrier_us"])
    if slow is not None:
        assert (said["void"] is not None) == (slow or off)
    for measure in said["measures"]:
        if "bar" in measure:
            assert measure["met"] == (measure["held"] == 1), measure


@pytest.mark.skipif(sanitized(), reason="a sanitizer's shadow of 1 GiB measures nothing")
def test_every_measure_gives_a_figure(env):
    """The benchmark is run. Every measure gives a figure beside its anchor; on a machine where
    the anchor is off, the run says that it is void."""
    done = bench(env, "--json", "--only", "^(?!requests)(?!.*closures?\\b)(?!.*at the front)")
    assert done.stdout, done.stderr
    said = json.loads(done.stdout)
    names = [measure["name"] for measure in said["measures"]]
    assert sum(name.startswith(("put, ", "get, ")) for name in names) == 4
    assert sum(name.startswith("TLS, ") for name in names) == 4
    assert sum(name.startswith("synced put, ") for name in names) == 4
    assert sum(name.startswith("SIGKILL at ") for name in names) == 6
    for fault in ("fn fails", "SIGKILL", "fn fails, others blocked in recv",
                  "soft timeout (beyond it)"):
        name = f"restart, {fault} -> fn entered again on the last of 4"
        assert name in names or f"{name}: nobody was interrupted, skipped" in done.stderr
    assert {"muster_restart_check", "muster_restart_ping",
            "muster_preempt_reached without a notice",
            "notice -> all of 4 ranks know the agreed step",
            "put with 20 idle members, one CPU", "get with 20 idle members, one CPU",
            "barrier of 8 processes, back to back, all CPUs",
            "barrier of 8 processes, last in to last out, all CPUs",
            "barrier of 120, 8 processes, Unix sockets, all CPUs, each member",
            "heartbeat of 50 members once per second, CPU of a beat, one CPU",
            "put with a full history and an open page, one CPU",
            "get with a full history and an open page, one CPU",
            "requests, 64 connections, depth 16, a full history and an open page, two CPUs",
            "50 members, a full history, memory of the service",
            "50 members, a full history and an open page, memory of the service",
            "50 idle members, memory of each",
            "50 idle members, CPU of a renewal, one CPU"} < set(names)
    assert {"three replicas, put", "three replicas, synced put",
            "three replicas, requests, 64 connections, depth 16",
            "    CPU of a request, a follower", "    memory of a follower afterwards",
            "three replicas, SIGKILL of the leader -> next answered put",
            "three replicas, 400 records, start of two -> one answers a put"
            } < set(names) or "replicas, skipped: " in done.stderr
    # Between two stamps of a restart there may be nothing, and fifty members may find room in
    # memory that the service has already.
    assert all(figure > 0 for name, measure in zip(names, said["measures"])
               for figure in measure["subject"]
               if not name.startswith("restart, ") and not name.endswith("memory of each"))
    judges_itself(said)
    assert done.returncode in (0, 1)  # 1: a bar was missed, which a test does not judge


@pytest.mark.skipif(not shutil.which("redis-server"), reason="redis-server is not installed")
def test_requests_stand_beside_those_of_other_servers(env):
    """Requests per second are measured, and Redis is installed. The same generator drives an echo
    server, the service and Redis; the bar is judged beside Redis."""
    done = bench(env, "--json", "--only", "^requests, depth 16")
    assert done.returncode in (0, 1) and done.stdout, done.stderr
    said = json.loads(done.stdout)
    judges_itself(said)
    beside = {measure["beside"]: measure for measure in said["measures"]}
    assert set(beside) == {"echo", "Redis SET"}
    redis = beside["Redis SET"]
    assert redis["subject"][0] > 0 and redis["anchor"][0] > 0
    assert redis["ratio"] == [redis["subject"][0] / redis["anchor"][0]]
    assert redis["met"] == (redis["ratio"][0] > 1)


@pytest.mark.skipif(sanitized(), reason="a sanitizer's figures are no product's")
def test_the_front_stands_beside_the_service_of_jaxlib(env):
    """Keys and a barrier of jaxlib's clients are measured at the front of a run and at jaxlib's own service.
    Each figure stands beside that of the other, and the set and the get have a bar."""
    client("jax")
    done = bench(env, "--json", "--only", "^JAX at the front: (keys|barrier of 8)")
    assert done.returncode in (0, 1) and done.stdout and "FAILED" not in done.stderr, done.stderr
    said = json.loads(done.stdout)
    assert [measure["name"] for measure in said["measures"]] == [
        *(f"JAX's {call} at the front, one CPU" for call in ("set", "get", "add")),
        "JAX's barrier of 8 at the front, last in to last out, all CPUs"]
    assert {measure["beside"] for measure in said["measures"]} == {"jaxlib's service"}
    assert all(measure["subject"][0] > 0 and measure["anchor"][0] > 0 for measure in said["measures"])
    assert [measure.get("bar") for measure in said["measures"]] == ["<= 0.7 x", "<= 0.7 x", None, "<= 0.8 x"]


def test_a_measure_without_its_clients_is_skipped(env):
    """There is no environment with torch. The measures of the front for its store say so, and how one is
    made; the benchmark does not fail."""
    env["TEST_TORCH"] = "/nowhere"
    done = bench(env, "--json", "--only", "^TCPStore at the front")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["measures"] == []
    assert done.stderr.count("skipped: no environment with torch: tools/interop --make torch") == 4


@pytest.mark.skipif(sanitized() or not (BUILD / "bin" / "bench_gearman").is_file()
                    or not shutil.which("gearmand", path=f"{os.environ['PATH']}:/usr/sbin"),
                    reason="Gearman is not installed")
def test_closures_stand_beside_jobs_of_gearman(env):
    """Empty closures are run as fast as possible, and Gearman is installed. Rate and round trip
    stand beside its jobs; a queued closure and the takeover of a killed worker's have their
    figures."""
    done = bench(env, "--json", "--only", "^(?!Python).*closure(?!.*Dask)")
    assert done.returncode in (0, 1) and done.stdout, done.stderr
    assert "FAILED" not in done.stderr
    said = json.loads(done.stdout)
    found = {(measure["name"], measure["beside"]): measure for measure in said["measures"]}
    alone = "an empty closure, there and back, one CPU"
    assert set(found) == {("empty closures, 2 workers, all CPUs", "Gearman"),
                          (alone, "TCP ping-pong"), (alone, "Gearman"),
                          ("20,000 queued closures, memory of each beside its arguments", ""),
                          ("SIGKILL of a worker -> its closure runs on another one", "")}
    assert all(figure > 0 for measure in said["measures"] for figure in measure["subject"])
    rates = found["empty closures, 2 workers, all CPUs", "Gearman"]
    assert rates["met"] == (rates["ratio"][0] >= 3)


@pytest.mark.skipif(sanitized() or not (BUILD / "python" / "muster").is_dir(),
                    reason="this build found no python3 with cffi and Python.h")
def test_closures_in_python_stand_beside_those_of_others(env):
    """Empty closures are run by Python workers. Rate and round trip stand beside Dask's and
    ClusterCoordinator's, where these are installed; the takeover of a killed worker's has its
    figure."""
    done = bench(env, "--json", "--only", "^Python")
    assert done.returncode in (0, 1) and done.stdout, done.stderr
    assert "FAILED" not in done.stderr, done.stderr
    said = json.loads(done.stdout)
    found = {(measure["name"], measure["beside"]): measure for measure in said["measures"]}
    skipped = {("empty closures in Python, fetched, 2 workers", "Dask"): "Dask is not installed",
               ("empty closures in Python, joined, 2 workers", "ClusterCoordinator"): "tensorflow-cpu",
               ("an empty closure in Python, there and back", "ClusterCoordinator"): "tensorflow-cpu"}
    assert ("SIGKILL of a Python worker -> its closure runs on another one", "") in found
    for name, why in skipped.items():
        assert name in found or why in done.stderr
    assert all(figure > 0 for measure in said["measures"] for figure in measure["subject"])


def test_one_that_fails_does_not_cost_the_others(env, tmp_path):
    """A measure of the benchmark fails. One line says which and why; the others are measured and
    printed, and the benchmark ends with 1."""
    for program in (BUILD / "bin").iterdir():
        if program.name != "bench_crowd":
            (tmp_path / program.name).symlink_to(program)
    done = bench(env, "--json", "--only", "^(barrier|idle members)$", "--bin", str(tmp_path))
    assert done.returncode == 1
    assert "bench: barrier: FAILED: " in done.stderr
    assert "50 idle members, memory of each" in measures_of(json.loads(done.stdout))


@pytest.mark.skipif(not shutil.which("perf"), reason="perf is not installed")
def test_the_profile_is_a_picture(env):
    """`tools/profile` draws where the time goes: a picture with one bar for each program given,
    from samples of perf."""
    done = subprocess.run([ROOT / "tools" / "profile", "--seconds", "1", "--bin", BUILD / "bin",
                           f"now={BUILD / 'bin'}"], env=env, capture_output=True, text=True,
                          timeout=60)
    if "perf took no samples" in done.stderr or "'perf', 'record'" in done.stderr:
        pytest.skip("perf may not look at processes here")
    assert done.returncode == 0, done.stderr
    picture = xml.etree.ElementTree.fromstring(done.stdout)
    told = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert told[0] == "now" and "our codec" in told


def test_only_what_is_named_is_measured(env):
    """`tools/bench --only` names no measure. It prints one line that lists them and ends with 1."""
    done = bench(env, "--only", "requests of whom")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("bench: --only requests of whom names none of: put and get, one CPU; ")


@pytest.mark.parametrize("ratios, met", [([1, 1, 1, 1, 2], True), ([1, 1, 1, 2, 2], False),
                                         ([1] * 8 + [2] * 2, True), ([2], False)])
def test_a_bar_is_met_when_it_holds_in_four_of_five_pairs(ratios, met):
    """A bar that holds in four of five pairs is met; one that holds in three is not."""
    measure = figures.Measure("a", "b", figures.Bar.at_most(1.5))
    measure.pairs = [figures.Pair(3 * ratio, 3) for ratio in ratios]
    assert measure.met() == met
    assert measure.row()[-1].endswith(f"{sum(ratio == 1 for ratio in ratios)} of {len(ratios)}")


def others(monkeypatch, shares):
    """What other processes use during one pair after the other."""
    left = iter(shares)
    monkeypatch.setattr(bench_run, "Others", lambda: types.SimpleNamespace(share=lambda: next(left)))


def test_a_disturbed_pair_is_measured_again(monkeypatch):
    """Other processes use more than 12 % of a CPU during a pair. It is measured again, a few
    times; if it is never quiet the least disturbed is taken, and the run says so."""
    others(monkeypatch, [0.5, 0.2, 0.11, 0.5, 0.4, 0.3])
    run = bench_run.Run(types.SimpleNamespace(bin=None, pairs=2, repeats=2))
    measure = figures.Measure("a")
    taken = iter(range(1, 7))
    run.pairs([measure], lambda: [figures.Pair(next(taken))])
    assert measure.subjects() == [3, 6]  # the quiet one; the least disturbed of three
    assert (run.repeated, run.disturbed, measure.disturbed) == (4, [0.3], 1)
    assert run.quietness().startswith("Pairs that stayed disturbed, also when measured again: 1;")


def test_the_run_is_void_where_an_anchor_is_off():
    """The ping-pong, the echo server or the bare barrier is not what it is where the bars were
    set. The run is void, and says which and how far off."""
    run = bench_run.Run(types.SimpleNamespace(bin=None))
    run.ping_pong, run.echo, run.barrier = [5, 7, 7], [200_000], [3200]
    assert run.void() is None
    run.ping_pong = [7, 11, 11]
    assert "ping-pong took 11.0 us" in run.void()
    run.ping_pong, run.echo, run.barrier = [7], [199_000], [3300]
    assert run.void().startswith("VOID: ")
    assert "199,000 requests per second" in run.void() and "took 3.3 ms" in run.void()


def test_the_anchor_refuses_what_it_does_not_know():
    """The anchor is called with unknown words. It prints its usage and ends with 2."""
    for words in ([], ["nothing"], ["death", "pidfd", "many"], ["-p", "here", "rtt", "tcp"]):
        done = subprocess.run([BUILD / "bin" / "anchor", *words], capture_output=True, text=True,
                              timeout=30)
        assert done.returncode == 2
        assert done.stderr.startswith("usage: anchor")


def test_what_is_measured_against_is_installed_before_it_is_built(tmp_path):
    """`make bench` runs on a fresh machine. What it measures against is installed before the
    build: Gearman's library decides what is built."""
    done = subprocess.run(["make", "-n", "-C", ROOT, "bench"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    steps = [done.stdout.index(step) for step in ("tools/deps --bench", "cmake --preset bench",
                                                  "cmake --build --preset bench", "tools/bench")]
    assert steps == sorted(steps), done.stdout


STAMPS = """\
1000 10 entered
1100 11 entered
2000 11 fault
2500 10 entered
2900 11 entered
3000 10 stepped
3300 11 stepped
4000 11 fault
4700 10 entered
"""


def test_a_fault_is_over_when_the_last_rank_is_back(tmp_path):
    """Ranks stamp when they enter the function and when they have done a step; one stamps a fault. A figure is
    from the fault to the last rank's stamp before the next fault."""
    stamps = tmp_path / "stamps"
    stamps.write_text(STAMPS)
    story = struck.Story(stamps)
    assert story.faults() == [2000, 4000]
    assert story.after(0, "entered") == [0.5, 0.9]
    assert story.after(0, "stepped") == [1.0, 1.3]
    assert story.after(1, "entered") == [0.7]
    assert story.after(1, "stepped") == []


def test_a_peer_that_never_comes_back_is_said_so():
    """A peer of the benchmark has not come back from a fault. The row says so, with the time that was waited, and
    one that has come back stands there with its middle figure; only NVRx's has a bar."""
    ours = [{"entered": 20_000.0, "stepped": 60_000.0}, {"entered": 31_000.0, "stepped": 70_000.0}]
    theirs = [{"entered": 11e6, "stepped": 12e6}, {"entered": 13e6, "stepped": 14e6}]
    beside = struck.measure("entered", "an exception", "exception", 4, ours, "nvrx", theirs)
    assert beside.anchors() == [12e6, 12e6] and beside.held() == 1
    never = struck.measure("entered", "an exception", "exception", 4, ours, "torchrun",
                           [{"entered": None, "stepped": None}])
    assert never.bar is None and never.row()[3] == "torchrun: never within 40.0 s"


@pytest.mark.skipif(sanitized(), reason="a sanitizer measures nothing")
def test_restarts_of_pytorch_stand_beside_nvrx_and_torchrun(env, torch):  # noqa: F811
    """A training of PyTorch is struck once by an exception under `muster.Wrapper`, under the real in-process Wrapper
    of nvidia-resiliency-ext and under the real torchrun. Each row has its figure beside the other's, and muster's is
    the smallest."""
    done = bench(env, "--json", "--python", torch.parent, "--python-ranks", "2", "--strikes", "1", "--only",
                 "^PyTorch, an exception")
    assert done.returncode in (0, 1) and "FAILED" not in done.stderr, done.stderr
    found = {(measure["name"], measure["beside"]): measure for measure in json.loads(done.stdout)["measures"]}
    assert set(found) == {(f"PyTorch DDP, an exception -> {what}, 2 ranks", peer)
                          for what in ("in the function again", "first step done") for peer in ("NVRx", "torchrun")}
    assert all(0 < measure["ratio"][0] < 1 for measure in found.values())
