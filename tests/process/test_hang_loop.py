# SPDX-License-Identifier: Apache-2.0
"""The loop that most programs are, `step; compute; barrier`, in which one rank hangs: every way to
hang, in jobs of several sizes. The right rank is named, or nobody where nothing tells them apart,
and no other process is ended.

Every rank is tests/process/rank/loop.c. A few of the sizes of each way are tried; with
MUSTER_TEST_ALL=1 all of them, which is `make hangs`.

behaviour: restart / Hangs
"""

import json
import os
import re
import signal

import pytest

from conftest import BUILD, Process
from test_hang import Hangs, job, named  # noqa: F401
from test_nodes import WHY_NOT, Nodes, cluster  # noqa: F401

RANK = BUILD / "tests" / "process" / "ranks" / "loop"
SOFT_MS = 700
HARD_MS = 3000  # who is interrupted may wait for a processor until it hears of it
GRACE_MS = 200
BARRIER_MS = 4800  # where it alone is set hard is 3600, grace 600 and soft 2400

# Where the thread stands is told to people too.
ENDED = {"mutex": "blocked in futex", "spin": "running", "stop": "stopped by a signal",
         "malloc": "running", "condition": "blocked in futex", "join": "blocked in futex",
         "frozen": "stopped by a signal"}
FREED = {"sleep": "blocked in", "read": "blocked in read", "printf": "blocked in write",
         "dumb": "blocked in"}
PATIENT = ["straggler", "checkpoint", "section"]

SIZES = [2, 3, 5, 16]
ALL = os.environ.get("MUSTER_TEST_ALL") == "1"


def some(ways):
    """(way, size, the rank that hangs): each way in a job of three, and the sizes in turn."""
    picked = []
    for number, way in enumerate(ways):
        sizes = SIZES if ALL else {3, SIZES[number % len(SIZES)]}
        picked += [(way, size, (number + size) % size) for size in sizes]
    return picked


@pytest.fixture
def loop(job):  # noqa: F811
    def start(way, size, rank, *flags, times=1):
        job.start(size, *flags, soft=times * SOFT_MS, hard=times * HARD_MS, grace=GRACE_MS,
                  of=(RANK, way, rank), MUSTER_BARRIER_TIMEOUT="60s")
        return job.entered(size, iteration=0)

    job.loop = start
    return job


def done_well(job):  # noqa: F811
    """All came to the end; `iteration` is that of the last attempt."""
    size = len({event.index for event in job.events if event.what == "entered"})
    job.wait("done", size, status="MUSTER_OK")
    job.ended()


def restarted(job):  # noqa: F811
    return job.said("starting it again")


@pytest.mark.parametrize("way, size, rank", some(ENDED))
def test_what_cannot_be_interrupted_is_named_and_it_alone_is_ended(loop, way, size, rank):
    """A rank is stopped while it waits in muster, in the loop `step; compute; barrier`. It is
    named, and it alone is killed, once its attempt is over."""
    # Who freezes is to be in the barrier before the others come, and they are not to wait for a processor for long.
    ranks = loop.loop(way, size, rank, times=2 if way == "frozen" else 1)
    first = loop.told("made no progress")
    assert named(ranks[rank]) in first and ENDED[way] in first, first
    done_well(loop)
    assert len(restarted(loop)) == 1 and named(ranks[rank]) in restarted(loop)[0]
    assert len(loop.said("all ranks are interrupted")) == 1


@pytest.mark.parametrize("way, size, rank", some(FREED))
def test_what_can_be_interrupted_is_named_and_nobody_is_ended(loop, way, size, rank):
    """One rank hangs in the loop `step; compute; barrier`, in any of 12 ways; the others wait in
    the barrier. The right rank is named. It alone is killed, if it cannot be interrupted, and
    else none."""
    ranks = loop.loop(way, size, rank)
    first = loop.told("made no progress")
    assert named(ranks[rank]) in first and FREED[way] in first, first
    done_well(loop)
    assert restarted(loop) == []
    assert len(loop.said("all ranks are interrupted")) == 1


@pytest.mark.parametrize("way, size, rank", some(PATIENT))
def test_who_waits_for_one_that_makes_progress_is_left_alone(loop, way, size, rank):
    """Ranks wait in muster for one that makes progress: it pings slowly, saves for long, or is in
    a section. Nothing happens: a rank that waits in muster has no clock. What it does before
    and after the wait counts."""
    loop.loop(way, size, rank, times=3)  # it may wait for a processor between two pings
    done_well(loop)
    assert loop.said("progress") == [] and restarted(loop) == []
    assert loop.entries() == size


@pytest.mark.parametrize("size", SIZES)
def test_two_names_of_a_barrier(loop, size):
    """All ranks wait in muster for longer than `soft`: for two names of a barrier, or for one
    that has returned. The line says which ranks wait in which round, and which are missing
    there; named is the one that is alone with its name, or stands lowest; of two either may be
    wrong. None is killed."""
    rank = size // 2
    ranks = loop.loop("names", size, rank)
    first = loop.told("made no progress")
    if size == 2:
        assert "any of them" in first, first
        assert not any(named(one) in first for one in ranks), first
    else:
        assert named(ranks[rank]) in first, first
    assert "barrier 'step'" in first and "barrier 'other'" in first and "missing" in first, first
    done_well(loop)
    assert restarted(loop) == []


@pytest.mark.parametrize("size", SIZES if ALL else [2, 3])
def test_two_names_of_a_barrier_that_all_try_again_and_again(loop, size):
    """All ranks wait in muster again and again for a short time, as in `while (barrier(1 s) ==
    ETIMEDOUT)`, and none pings any more. It is found as one long wait is, if they have pinged
    before: `soft` after the last ping of any."""
    rank = size // 2
    ranks = loop.loop("livelock", size, rank)
    first = loop.told("made no progress")
    if size == 2:
        assert "any of them" in first, first
    else:
        assert named(ranks[rank]) in first, first
    assert "barrier 'step'" in first and "barrier 'other'" in first and "missing" in first, first
    done_well(loop)
    assert restarted(loop) == []


@pytest.mark.parametrize("way, size, rank", [("dumb", 3, 1), ("dumb", 2, 0), ("deadlock", 3, 2)])
def test_one_that_never_called_muster_is_found_where_no_limit_was_set(job, way, size, rank):  # noqa: F811
    """All ranks wait in muster for longer than `soft` but one, which has not called muster in
    this attempt for as long; no limit was set, so none has a clock. That one is the suspect:
    named, interrupted with all others, and killed after `hard` if it goes on. One that has
    just entered, or is in a section, is not."""
    job.runner = job.spawn("run", "-n", size, "--", RANK, way, rank, job.path,
                           env={**job.env, "MUSTER_BARRIER_TIMEOUT": f"{BARRIER_MS}ms"})
    ranks = job.entered(size, iteration=0)
    first = job.told("made no progress")
    assert named(ranks[rank]) in first, first
    assert ": not one call of muster in this attempt, other" in first, first
    assert ", waiting in barrier 'step'; blocked in" in first, first
    done_well(job)
    assert len(restarted(job)) == (way == "deadlock")
    assert all(named(ranks[rank]) in line for line in restarted(job))
    assert len(job.said("all ranks are interrupted")) == 1


def test_one_that_returned_is_missing_in_the_barrier_of_the_others(loop):
    """All ranks wait in a barrier from which one has returned. That one is named as missing
    there."""
    loop.loop("done", 3, 1)
    first = loop.told("made no progress")
    assert "barrier 'step'" in first and "missing" in first, first
    done_well(loop)
    assert restarted(loop) == []


# ---- ranks that several agents watch ----


TIMES = {"MUSTER_SOFT_TIMEOUT": f"{SOFT_MS}ms", "MUSTER_HARD_TIMEOUT": f"{HARD_MS}ms",
         "MUSTER_GRACE": f"{GRACE_MS}ms", "MUSTER_BARRIER_TIMEOUT": "60s"}


class Apart:
    """Ranks of which no agent watches all: two on each of two nodes, or each started by hand."""

    def __init__(self, job, how, request):  # noqa: F811
        self.job, self.how = job, how
        if how == "nodes":
            cluster = request.getfixturevalue("cluster")  # noqa: F811
            self.start = lambda words, times: Nodes(cluster, [*words, job.path], count=2, **times).on
        else:
            service = request.getfixturevalue("serve")("--lease", "10m")
            self.start = lambda words, times: [
                Process([*words, job.path], {**job.env, **times, "MUSTER_ADDR": service.address,
                                             "MUSTER_SIZE": "4", "MUSTER_INDEX": str(index)})
                for index in range(4)]

    def run(self, way, rank, times=TIMES):
        self.processes = self.start([RANK, way, rank], times)
        self.job.started.extend(self.processes)
        self.job.entered(4, iteration=0)

    def done(self):
        self.job.wait("done", 4, status="MUSTER_OK")
        assert [process.wait() for process in self.processes] == [0] * len(self.processes)
        return [event for event in self.job.events if event.what == "entered"]


@pytest.fixture(params=["nodes", "by hand"])
def apart(request, job):  # noqa: F811
    if request.param == "nodes" and WHY_NOT is not None:
        pytest.skip(str(WHY_NOT))
    return Apart(job, request.param, request)


def test_all_wait_though_no_agent_watches_all(apart):
    """All ranks of the job wait in muster, and no agent watches all of them. The agents report to
    each other through the service. The record says how many wait in which round and names no
    rank; all are interrupted."""
    apart.run("names", 2)
    entered = apart.done()
    assert len(entered) == 8 and len({event.pid for event in entered}) == 4
    (text,) = {event.text for event in apart.job.events if event.what == "fault"}
    assert text.startswith("the ranks made no progress for "), text
    assert ": any of them, as all wait: " in text, text
    assert "3 ranks wait in barrier 'step'" in text, text
    assert "rank 2 waits in barrier 'other'" in text, text


@pytest.mark.parametrize("rank", [0, 2])
def test_one_that_never_called_muster_though_no_agent_watches_all(apart, rank):
    """All ranks wait but one, which never called muster, and no agent watches all of them; no
    limit was set. The agents find out together: the agent of rank 0 names the rank in the
    record where it watches it."""
    apart.run("dumb", rank, {"MUSTER_BARRIER_TIMEOUT": f"{BARRIER_MS}ms"})
    entered = apart.done()
    assert len(entered) == 8 and len({event.pid for event in entered}) == 4
    (text,) = {event.text for event in apart.job.events if event.what == "fault"}
    assert text.startswith("rank 0 " if rank == 0 else "the ranks "), text
    assert f": not one call of muster by rank {rank} in this attempt, all others wait: 3 ranks " \
        "wait in barrier 'step'" in text, text


@pytest.mark.parametrize("way", PATIENT if ALL else ["checkpoint"])
def test_who_waits_for_one_of_another_agent_is_left_alone(apart, way):
    """All ranks of a node, or of a helper, wait in muster, and others do not. Nothing happens: a
    rank elsewhere may be why they wait."""
    apart.run(way, 3)
    assert len(apart.done()) == 4


@pytest.mark.parametrize("size", SIZES if ALL else [2, 5])
def test_the_hard_timeout_is_the_first_cause_also_in_the_report(loop, tmp_path, size):
    """A rank is killed at its hard timeout, after another one was suspected. The killed one is
    the first cause, on the last line and in `--report`."""
    report = tmp_path / "report.json"
    rank = size - 2
    ranks = loop.loop("mutex", size, rank, "--max-restarts", 0, "--report", report)
    loop.ended(128 + signal.SIGTERM)
    assert loop.runner.log.lines[-1].startswith("muster run: first cause: " + named(ranks[rank]))
    cause = json.loads(report.read_text())["first_cause"]
    assert (cause["rank"], cause["index"], cause["pid"]) == (
        rank, ranks[rank].index, ranks[rank].pid)
    assert re.search("made no progress", cause["message"])
