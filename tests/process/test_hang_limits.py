# SPDX-License-Identifier: Apache-2.0
"""Time limits beyond one hang: the limits of a run, of its beginning and of its end; who is not
watched; who hangs twice; and what becomes of the limits when a clock, a service or a node is not
what it should be. Ranks as in test_hang.py.

behaviour: restart
"""

import json
import os
import pathlib
import shutil
import signal
import struct
import tempfile
import time

import pytest

from conftest import BUILD, Process
from discovering import pidfds
from restarting import files_of
from running import wait_gone
from test_agent import left_of
from test_disk import ENOSPACE, fill, make_room, preloaded, small_disk  # noqa: F401
from test_hang import (GRACE_MS, HARD_MS, HARD_SAID, LONG_GRACE_MS, RANK, SOFT_MS,  # noqa: F401
                       SOFT_SAID, Hangs, job, named, replaced, said)
from test_nodes import WHY_NOT, Nodes, cluster  # noqa: F401
from wire import Wire

BARRIER_MS = 4800  # then hard is 3600, grace 600 and soft 2400


# ---- giving up ----


def test_a_hang_of_the_only_attempt_is_the_end_47(job):
    """The function pings once and works on without, in a thousand naps of 10 ms; `soft` is 1 s
    and one attempt is allowed. The run ends within 5 s."""
    ranks = job.start(1, "--max-restarts", 0, hard=4000, MUSTER_ITERATIONS_MAX="1")
    job.hold(ranks[0], "naps")
    began = job.events[-1].at
    done = job.wait("done")[0]
    assert done["status"] == "MUSTER_EFAILED"
    assert done.text.startswith("run: given up after 1 attempt that failed (iterations_max 1); the "
                                "last: rank 0 (#0) made no progress for "), done.text
    assert SOFT_SAID.search(done.text), done.text
    assert done.at - began > SOFT_MS / 2000  # it says that it holds some time behind its last ping
    assert done.at - began < 8  # and not after all the naps
    assert job.entries() == 1
    job.ended(1)
    assert SOFT_SAID.search(job.runner.log.lines[-1])


def test_the_third_attempt_succeeds_48(job):
    """The function hangs, with `soft` 0.5 s; the third attempt returns. The run ends with OK,
    entered three times, within 5 s."""
    ranks = job.start(1, hard=4000)
    began = time.monotonic()
    for generation in (2, 3):
        mark = job.hold(ranks[0], "naps")
        ranks = job.entered(1, mark, generation=generation, iteration=generation - 1)
    job.all_well(ranks)
    assert job.entries() == 3
    assert len({event.pid for event in job.events}) == 1
    assert time.monotonic() - began < 15  # two times ten seconds of naps are cut short


# ---- sections ----


def test_a_failure_in_a_section_ends_the_section_54(job):
    """A function fails, or its process dies, within a declared section. All restart as outside of
    one, and begin outside of any section."""
    ranks = job.start(2)
    job.order(ranks[:1], "section compile -1")
    mark = job.mark()
    job.order(ranks[:1], "fail 1 as ordered")
    ranks = job.entered(2, mark, generation=2)
    mark = job.hold(ranks[0], "read")
    job.told(named(ranks[0]), SOFT_SAID)
    job.all_well(job.all_again(2, mark))


def test_a_death_in_a_section_is_noticed_54(job):
    """A function fails, or its process dies, within a declared section. All restart as outside of
    one, and begin outside of any section."""
    ranks = job.start(2)
    job.order(ranks[:1], "section compile -1")
    mark = job.hold(ranks[0], "quiet")
    gone = os.pidfd_open(ranks[0].pid)
    os.kill(ranks[0].pid, signal.SIGKILL)
    wait_gone(gone)
    again = job.all_again(2, mark)
    assert ranks[1].pid in {rank.pid for rank in again}
    job.all_well(again)


# ---- beginning and end ----


def test_who_never_returns_but_pings_costs_all_a_restart_57(job):
    """A rank never ends but pings, a second after the first is done; `completion_timeout` is 1 s.
    All restart after 1 s, it is interrupted as by any fault, and may be done then."""
    ranks = job.start(2, MUSTER_COMPLETION_TIMEOUT="1s")
    mark = job.mark()
    job.order(ranks[:1], "ok")
    done = job.wait("returns", 1, mark)[0]
    again = job.entered(2, mark, generation=2)
    assert [rank.pid for rank in again] == [rank.pid for rank in ranks]
    assert 1 <= again[0].at - done.at < 10
    assert job.said("progress") == []
    job.all_well(again)


class Entry(Hangs):
    """Ranks started by hand, of which some never come."""

    def __init__(self, serve, started, env, folder):
        super().__init__(None, env, folder, started)
        self.serve = serve

    def begin(self):
        self.runner = self.serve("--lease", "10m")

    def add(self, size, index=None, open_ms=60000, **more):
        place = {} if index is None else {"MUSTER_INDEX": str(index)}
        process = Process([RANK, self.path],
                          {**self.env, "MUSTER_ADDR": self.runner.address, "MUSTER_SIZE": str(size),
                           "HANG_OPEN_MS": str(open_ms), **place, **more})  # fmt: skip
        self.started.append(process)
        return process


@pytest.fixture
def entry(serve, started, env):
    folder = tempfile.mkdtemp(prefix="mst-", dir="/tmp")  # of a short name: there are sockets in it
    made = Entry(serve, started, env, folder)
    yield made
    made.socket.close()
    shutil.rmtree(folder, ignore_errors=True)


def test_who_never_comes_is_named_to_those_who_waited_58(entry):
    """One of four never opens a client; a fifth does. The three get ETIMEDOUT after the timeout
    of their open, which names the missing one, and nothing is left. A fifth without an index
    is refused alone; where `max_size` is 4 it waits as a spare."""
    entry.begin()
    began = time.monotonic()
    # One long before the others: two could give up in the same moment, and each miss the other.
    ranks = [entry.add(4, index, open_ms=10000 if index else 5000, MUSTER_MIN_SIZE="4")
             for index in (0, 1, 3)]
    refused = entry.wait("refused", 3)
    assert {event["status"] for event in refused} == {"MUSTER_ETIMEDOUT"}
    for event in refused:
        assert "#2 (never started)" in event.text, event.text
    first = "3 of 4 ranks are ready; missing #2 (never started)"
    assert any(first in event.text for event in refused), refused
    assert 5 <= time.monotonic() - began < 25
    for rank in ranks:
        assert rank.wait() == 1
    assert left_of(entry.env) == []


def test_a_fifth_of_four_is_refused_alone_58(entry):
    """One of four never opens a client; a fifth does. The three get ETIMEDOUT after the timeout
    of their open, which names the missing one, and nothing is left. A fifth without an index
    is refused alone; where `max_size` is 4 it waits as a spare."""
    entry.begin()
    ranks = [entry.add(4, number) for number in range(4)]
    there = entry.entered(4)
    mark = entry.mark()
    fifth = entry.add(4)
    refused = entry.wait("refused", 1, mark)[0]
    assert refused["status"] == "MUSTER_ELIMIT"
    assert refused.text == (
        "open: over the job's size (ranks): 5 asked for, at most 4; let one of its ranks end, or "
        "give the job a max_size above it for spares"
    )
    assert fifth.wait() == 1
    assert [event.what for event in entry.events[mark:]] == ["refused"]
    entry.order(there, "ok")
    entry.wait("closed", 4)
    for rank in ranks:
        assert rank.wait() == 0
    assert entry.entries() == 4
    assert left_of(entry.env) == []


def test_a_fifth_where_four_are_the_most_waits_and_disturbs_nobody_58(entry):
    """One of four never opens a client; a fifth does. The three get ETIMEDOUT after the timeout
    of their open, which names the missing one, and nothing is left. A fifth without an index
    is refused alone; where `max_size` is 4 it waits as a spare."""
    entry.begin()
    ranks = [entry.add(4, number, MUSTER_MAX_SIZE="4") for number in range(4)]
    there = entry.entered(4)
    ranks.append(entry.add(4, 4, MUSTER_MAX_SIZE="4"))
    entry.runner.log.wait_for("member-ready #4", count=2)  # in its open, and in its run
    entry.order(there, "ok")
    entry.wait("closed", 5)
    for rank in ranks:
        assert rank.wait() == 0
    assert entry.entries() == 4
    assert left_of(entry.env) == []


# ---- who is watched, with the defaults ----


class Defaults(Hangs):
    """Limits that nobody has set, but shrunk with another one."""

    def start(self, count, *flags):
        shrunk = {"MUSTER_BARRIER_TIMEOUT": f"{BARRIER_MS}ms"}
        self.runner = self.spawn("run", "-n", count, *flags, "--", RANK, self.path,
                                 env={**self.env, **shrunk})
        return self.entered(count)


@pytest.fixture
def defaults(spawn, env, started):
    folder = tempfile.mkdtemp(prefix="mst-", dir="/tmp")
    made = Defaults(spawn, env, folder, started)
    yield made
    made.socket.close()
    shutil.rmtree(folder, ignore_errors=True)


def test_with_the_defaults_who_never_calls_muster_is_left_alone_until_the_first_ping(defaults, pass_time):
    """A rank never called muster in this attempt, and no limit was set. Nothing is counted,
    however long it computes, unless all others wait for it; from its first ping on it is
    watched. [Hangs]"""
    job = defaults
    (rank,) = job.start(1)
    mark = job.mark()
    job.order([rank], "dumb compute")
    job.wait("computes", 1, mark)
    (rank,) = job.entered(1, mark, generation=2)
    pass_time(BARRIER_MS * 3 // 2)
    assert job.said("progress") == []
    job.order([rank], "ping")
    mark = job.hold(rank, "naps")
    job.told(named(rank), SOFT_SAID)
    job.all_well(job.entered(1, mark, generation=3))


def test_with_a_limit_that_was_set_who_never_calls_muster_is_ended(job):
    """A rank never calls muster, and a limit was set. It is killed: the limit counts from the
    start of the function. [Hangs]"""
    ranks = job.start(1)
    mark = job.mark()
    job.order(ranks, "dumb compute")
    job.wait("computes", 1, mark)
    ranks = job.entered(1, mark, generation=2)
    gone = pidfds([ranks[0].pid])  # it may have been ended already
    job.told(named(ranks[0]), SOFT_SAID, " s: not one call of muster in this attempt")
    job.told(named(ranks[0]), HARD_SAID, "and was ended; starting it again")
    wait_gone(*gone)
    job.all_well(job.entered(1, mark, generation=3))


# ---- who hangs twice ----


def hangs_twice(job, ranks, which):
    """A rank hangs in two attempts in a row, and the others stand still with it. It can be freed
    each time; but after the second its place is taken by a new process."""
    others = [rank for rank in ranks if rank is not ranks[which]]
    for generation in (2, 3):
        mark = job.hold(ranks[which], "read")
        suspect = ranks[which]
        if generation == 2:
            ranks = job.all_again(len(ranks), mark)
            assert ranks[which].pid == suspect.pid
            for rank in ranks:
                assert job.record(rank) == [["soft-timeout", suspect.index, 0]]
    done = job.wait("done", 1, mark)[0]
    assert done.pid == suspect.pid and done["status"] == "MUSTER_EFAILED"
    assert done["why"] == "8"  # MUSTER_WHY_SUSPECT
    assert done.text == ("run: this rank made no progress in two attempts, one after the other, and "
                         "ends for a new process to take its place")
    return mark, {rank.pid for rank in others}


@pytest.mark.parametrize("which", [0, 2])
def test_the_suspect_of_two_attempts_is_started_anew(job, which):
    """A rank is the suspect of two attempts in a row. If it alone stood lowest of all ranks both
    times, those that waited in muster left out, its run ends, and the agent that started it
    starts a new process in its place, on any node; no other rank is killed, and the new one
    begins without a strike. [Hangs]"""
    ranks = job.start(3)
    mark, others = hangs_twice(job, ranks, which)
    again = job.all_again(3, mark)
    assert {rank.pid for rank in again} > others
    assert ranks[which].pid not in {rank.pid for rank in again}
    job.told("starting it again")
    assert len(job.said("starting it again")) == 1
    # The strikes of the former process do not count against the new one.
    mark = job.hold(again[which], "read")
    again2 = job.all_again(3, mark)
    assert {rank.pid for rank in again2} == {rank.pid for rank in again}
    job.all_well(again2)


@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
def test_the_suspect_of_two_attempts_on_another_node_is_started_anew(job, cluster):  # noqa: F811
    """The suspect of two attempts is on another node. The agent of that node starts it anew; all
    nodes agree on which it is. [Hangs]"""
    times = {"MUSTER_SOFT_TIMEOUT": f"{SOFT_MS}ms", "MUSTER_HARD_TIMEOUT": f"{HARD_MS * 2}ms"}
    nodes = Nodes(cluster, [RANK, job.path], count=2, **times)
    job.runner = nodes.on[0]
    ranks = job.entered(4)
    mark, others = hangs_twice(job, ranks, 2)
    again = job.all_again(4, mark)
    assert {rank.pid for rank in again} > others
    nodes.on[1].log.wait_for("#2", "; starting it again")
    assert nodes.on[0].log.having("starting it again") == []
    job.order(again, "ok")
    job.wait("closed", 5)
    assert nodes.codes() == [0, 0], nodes.told()


@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
def test_a_rank_of_another_node_that_was_ended_is_the_first_cause(job, cluster, tmp_path):  # noqa: F811
    """A rank of another node was killed for a hang. It is the first cause, not the suspect of
    this node; both nodes say so, also in their reports. [Hangs]"""
    times = {"MUSTER_SOFT_TIMEOUT": f"{SOFT_MS}ms", "MUSTER_HARD_TIMEOUT": f"{HARD_MS}ms",
             "MUSTER_GRACE": f"{GRACE_MS}ms"}
    reports = [tmp_path / "0", tmp_path / "1"]
    nodes = Nodes(cluster, [RANK, job.path], "--max-restarts", 0, "--report", reports[0], count=2,
                  others=("--report", reports[1]), **times)
    job.runner = nodes.on[0]
    ranks = job.entered(4)
    job.hold(ranks[0], "read")
    job.pings(ranks[2])
    job.hold(ranks[2], "deaf")
    assert nodes.codes() == [128 + signal.SIGTERM] * 2, nodes.told()
    causes = [json.loads(report.read_text())["first_cause"] for report in reports]
    for cause in causes:
        # In the words of its end; or where its own node found it first, in those of where it stood.
        assert cause["index"] == 2, nodes.told()
        assert cause["kind"] in ("hard-timeout", "soft-timeout"), nodes.told()
        assert "first cause: " + named(ranks[2]) in cause["message"]


# ---- clocks ----

HOUR_S = 3600


def steps(path):
    """Lets the wall clock jump forth and back, for who watches the file."""
    return [lambda seconds=seconds: path.write_bytes(struct.pack("=q", seconds))
            for seconds in (HOUR_S, -HOUR_S, 0)]


@preloaded
@pytest.mark.parametrize("who", ["rank", "all"])
def test_a_wall_clock_that_jumps_an_hour_is_not_noticed_61(job, tmp_path, pass_time, who):
    """The wall clock jumps by an hour, forth and back: in one rank, or in all, their agent and
    the service. No rank is lost, interrupted or blamed, and a hang is found on time as before."""
    path = tmp_path / "step"
    path.write_bytes(bytes(8))
    shim = {"LD_PRELOAD": str(BUILD / "tests/process/libstep_clock.so"), "STEP_CLOCK": str(path)}
    of = (RANK,)
    if who == "rank":
        words = " ".join(f"{key}={value}" for key, value in shim.items())
        of = ("sh", "-c", f'test $MUSTER_INDEX != 1 || export {words}; exec {RANK} "$0"')
        shim = {}
    ranks = job.start(3, of=of, **shim)
    mark = job.mark()
    for step in steps(path):
        step()
        pass_time(1000)
    assert job.events[mark:] == []
    job.drain()
    assert job.events[mark:] == [] and job.said("progress") == [] and job.said("lease") == []
    mark = job.hold(ranks[1], "read")
    steps(path)[0]()
    job.told(named(ranks[1]), SOFT_SAID)
    again = job.all_again(3, mark)
    assert [rank.pid for rank in again] == [rank.pid for rank in ranks]
    job.all_well(again)


# ---- what is ended ----


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_who_is_ended_takes_its_children_along(job, when):
    """A rank that is killed for a hang has children, or leaves one behind as it ends. They end
    with it, those that ignore SIGTERM too. [Hangs]"""
    ranks = job.start(2)
    job.order(ranks[:1], "child-deaf" if when == "before" else "term fork")
    job.wait("child" if when == "before" else "ready", 1)
    mark = job.hold(ranks[0], "deaf")
    child = job.wait("child", 1)[0]
    gone = pidfds([child.pid])  # it may have been ended already
    again = replaced(job, ranks, 0, mark, ": it is ended")
    wait_gone(*gone)
    job.all_well(again)


@pytest.mark.parametrize("how", ["heed", "mock"])
def test_a_rank_in_a_shell_has_the_grace_too_51(job, how):
    """What `muster run` started is a shell, which ends at once at SIGTERM. The rank in it has the
    grace time all the same. [Hangs]"""
    ranks = job.start(2, grace=LONG_GRACE_MS if how == "heed" else GRACE_MS,
                      of=("sh", "-c", f'{RANK} "$0"; exit $?'))
    job.order(ranks[:1], f"term {how}")
    job.wait("ready", 1)
    gone = os.pidfd_open(ranks[0].pid)
    began = time.monotonic()
    job.pings(ranks[0], 1)
    mark = job.hold(ranks[0], "deaf")
    job.wait("cleans" if how == "heed" else "mocks", 1, mark)
    wait_gone(gone)
    again = job.all_again(2, mark)
    first = job.wait("entered", 1, mark, generation=2)[0]
    told = [event.what for event in job.events[mark:] if event.what in ("cleaned", "entered")]
    if how == "heed":
        assert told[0] == "cleaned" and job.record(first)[1] == ["hard-timeout", 0, signal.SIGTERM]
    else:
        assert first.at - began >= (HARD_MS + GRACE_MS) / 1000
        assert job.record(first)[1] == ["hard-timeout", 0, signal.SIGKILL]
    job.all_well(again)


# ---- a service that does not answer ----


def service_of(run):
    children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    (pid,) = [int(pid) for pid in children
              if b"\0serve\0" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]
    return pid


def test_while_the_service_is_away_nobody_is_ended(job, pass_time):
    """A rank hangs and the service does not answer, or has no room for the report. It is reported
    again. Until the service has it no rank was interrupted, so no limit runs and no rank is
    killed; then all go on in their processes. [Hangs]"""
    ranks = job.start(3, "--lease", "60s")
    service = service_of(job.runner)
    os.kill(service, signal.SIGSTOP)
    mark = job.hold(ranks[0], "read")
    job.told(named(ranks[0]), SOFT_SAID)
    pass_time(2 * HARD_MS)
    os.kill(service, signal.SIGCONT)
    again = job.all_again(3, mark)
    assert [rank.pid for rank in again] == [rank.pid for rank in ranks]
    for rank in again:
        assert job.record(rank) == [["soft-timeout", 0, 0]]
    assert job.said("ended") == []
    job.all_well(again)


def test_a_hang_on_a_full_disk_is_told_when_there_is_room(job, small_disk, pass_time):  # noqa: F811
    """A rank hangs while the disk is full. The service keeps no report of it; the agent reports
    it again when there is room. [Hangs]"""
    job.env = {**job.env, "MUSTER_RUNTIME_DIR": str(small_disk)}
    job.files = files_of(job.env)
    ranks = job.start(2, "-j", "full", "--lease", "60s")
    wire = Wire(f"unix:{small_disk}/full.sock")
    assert wire.open(job="full").status == 0
    assert fill(wire)[1].status == ENOSPACE
    mark = job.hold(ranks[0], "read")
    job.told(named(ranks[0]), SOFT_SAID)
    pass_time(2 * HARD_MS)
    assert job.entries() == 2 and job.said("ended") == []
    make_room(small_disk)
    again = job.all_again(2, mark)
    assert [rank.pid for rank in again] == [rank.pid for rank in ranks]
    wire.close()
    job.all_well(again)
