# SPDX-License-Identifier: Apache-2.0
"""Ranks that make no progress: named, interrupted, ended and replaced.

Every rank is tests/process/rank/hang.c. It pings every 5 ms until it is told to hang.

behaviour: restart / Hangs
"""

import json
import os
import re
import shutil
import signal
import tempfile
import time

import pytest

from conftest import BUILD
from discovering import pidfds
from restarting import Job
from running import wait_gone

RANK = BUILD / "tests" / "process" / "ranks" / "hang"
# Long enough for a rank that waits for a processor, short enough to wait for.
SOFT_MS = 2000
HARD_MS = 4100
GRACE_MS = 1200
LONG_GRACE_MS = 5000  # half of it is more than a machine stands still for


def said(words, ms):
    """These words and so many seconds, or more: on a busy machine it is said late."""
    seconds = ms // 1000
    return re.compile(rf"{words} (?:[{seconds}-9]|\d\d+)\.\d s")


SOFT_SAID = said("made no progress for", SOFT_MS)
HARD_SAID = said("made no progress for", HARD_MS)


class Hangs(Job):
    """Ranks of a `muster run` that look for hangs after these times."""

    def start(self, count, *flags, soft=SOFT_MS, hard=HARD_MS, grace=GRACE_MS, of=(RANK,), nproc=None,
              **more):
        """`nproc`: what the run starts, where that is not each of the `count` ranks."""
        times = {
            "MUSTER_SOFT_TIMEOUT": f"{soft}ms" if soft >= 0 else "-1",
            "MUSTER_HARD_TIMEOUT": f"{hard}ms" if hard >= 0 else "-1",
            "MUSTER_GRACE": f"{grace}ms",
            **more,
        }
        self.runner = self.spawn(
            "run", "-n", nproc or count, *flags, "--", *of, self.path, env={**self.env, **times}
        )
        return self.entered(count)

    def order(self, events, words):
        for event in events:
            self.socket.sendto(words.encode(), f"{self.path}.{event.pid}")

    def hold(self, rank, how):
        """The rank hangs in this way; what happens from then on begins at the mark."""
        mark = self.mark()
        self.order([rank], f"block {how}")
        self.wait("blocked", 1, mark)
        return self.mark()

    def pings(self, rank, times=5):
        """It pings at least so often from now on: once before each order."""
        for _ in range(times):
            mark = self.mark()
            self.order([rank], "slow 0")
            self.wait("ready", 1, mark)

    def all_well(self, ranks):
        self.order(ranks, "ok")
        self.wait("closed", len(ranks))
        self.ended()

    def record(self, rank):
        """[kind, index, code] of each fault that this rank was told of as it entered."""
        return [
            [fault["kind"], fault.number("index"), fault.number("code")]
            for fault in self.events
            if fault.what == "fault" and fault.pid == rank.pid
            and fault["generation"] == rank["generation"]
        ]

    def entries(self, mark=0):
        """How often ranks have entered the function."""
        return len([event for event in self.events[mark:] if event.what == "entered"])

    def said(self, *words):
        return self.runner.log.having(*words)

    def told(self, *words):
        """Meanwhile the events are read, or who tells one more would wait for that."""
        return self.runner.log.wait_for(*words, meanwhile=self.drain)

    def all_again(self, count, mark):
        """The first generation with all `count` ranks: who is replaced may be one later."""
        while True:
            last = {}
            for event in self.events[mark:]:
                if event.what == "entered":
                    last.setdefault(event.number("generation"), {})[event.number("rank")] = event
            for ranks in last.values():
                if len(ranks) == count:
                    return [ranks[rank] for rank in sorted(ranks)]
            if not self.see(30):
                self.fail("not all of them came again")


@pytest.fixture
def job(spawn, env, started):
    folder = tempfile.mkdtemp(prefix="mst-", dir="/tmp")
    made = Hangs(spawn, env, folder, started)
    yield made
    made.socket.close()
    shutil.rmtree(folder, ignore_errors=True)


def named(rank):
    return f"rank {rank['rank']} (#{rank.index}, pid {rank.pid})"


# ---- soft ----


def test_blocked_in_read_is_interrupted_and_goes_on_48(job):
    """A rank that pinged in this attempt does not ping for `soft`: it is blocked in a call. One
    line names it, how far it and the others are, and where it is blocked. All are interrupted
    and go on in their processes."""
    ranks = job.start(3)
    mark = job.hold(ranks[1], "read")
    line = job.told(named(ranks[1]), SOFT_SAID, "blocked in read (sleeping)")
    assert re.search(r": \d+ pings? in this attempt, others \d+", line), line
    assert line.endswith("; all ranks are interrupted"), line
    again = job.all_again(3, mark)
    assert {rank.pid for rank in again} == {rank.pid for rank in ranks}
    assert {rank["generation"] for rank in again} == {"2"}
    assert len(job.said("all ranks are interrupted")) == 1
    job.all_well(again)


def test_who_never_called_muster_is_the_suspect(job):
    """Several ranks stand still, because they wait for one. The one that never called muster in
    this attempt is the suspect, else the one with the fewest pings, although it may still
    move, and of equally many the one with the fewest other calls. A rank between two attempts,
    or in another generation, is not compared.

    The record says so to all. The others have time to begin to wait before it is found by
    itself."""
    ranks = job.start(3, soft=2 * SOFT_MS, hard=2 * HARD_MS)
    mark = job.mark()
    job.order([ranks[2]], "dumb read")
    ranks = job.all_again(3, mark)
    job.wait("blocked", 1, mark)
    mark = job.mark()
    job.order(ranks[:2], "block read")
    job.wait("blocked", 2, mark)
    line = job.told("made no progress")
    assert named(ranks[2]) in line, line
    assert re.search(r"not one call of muster in this attempt, others \d+( to \d+)?; blocked", line)
    again = job.all_again(3, mark)
    for rank in again:
        assert job.record(rank) == [["soft-timeout", 2, 0]]
    text = [fault.text for fault in job.events[mark:] if fault.what == "fault"][-1]
    assert re.match(r"made no progress for \d+\.\d s: ", text), text
    assert "not one call of muster" in text and "blocked in read" in text, text
    job.all_well(again)


def test_progress_without_pings_is_none_once_there_was_a_ping_55(job):
    """A rank pings as fast as it can for 2 s, then calls muster but pings no more. That is no
    progress: it is found on time."""
    ranks = job.start(1)
    mark = job.hold(ranks[0], "rush")
    began = job.events[-1].at
    line = job.told(named(ranks[0]), SOFT_SAID, "running; all ranks are interrupted")
    pings = int(re.search(r": (\d+) pings", line)[1])
    assert pings > 10000, line
    freed = job.wait("returns", 1, mark)[0]
    assert freed.pid == ranks[0].pid
    assert freed.at - began > SOFT_MS / 2000  # it says that it holds some time behind its last ping
    job.all_well(job.all_again(1, mark))


def test_a_long_section_is_no_hang_52(job, pass_time):
    """A declared section without limit lasts longer than `soft` and `hard`. One entry, OK.
    [restart]"""
    ranks = job.start(2)
    job.order(ranks[:1], "section compile -1")
    job.hold(ranks[0], "quiet")
    pass_time(HARD_MS + GRACE_MS)
    job.order(ranks[:1], "end")
    job.wait("ends", 1)
    assert job.said("progress") == []
    job.all_well(ranks)
    assert job.entries() == 2


def test_after_a_section_the_time_counts_again_53(job, pass_time):
    """A declared section ends. The clock begins again there: the time within it does not count."""
    ranks = job.start(2)
    job.order(ranks[:1], "section compile -1")
    job.hold(ranks[0], "quiet")
    pass_time(SOFT_MS * 5 // 4)
    job.order(ranks[:1], "end")
    job.wait("ends", 1)
    mark = job.hold(ranks[0], "read")
    job.told(named(ranks[0]), SOFT_SAID)
    job.all_well(job.all_again(2, mark))
    assert job.entries() == 4


def test_a_section_over_its_limit(job):
    """A rank is in a declared section. The section's limit counts, of several the innermost's;
    without a limit nothing does. Over it, the line names the section."""
    ranks = job.start(2)
    job.order(ranks[:1], "section compile 200")
    mark = job.hold(ranks[0], "read")
    job.told(named(ranks[0]) + " was in the section compile for longer than its limit of 0.2 s; blocked")
    job.all_well(job.all_again(2, mark))


def test_who_is_done_early_is_not_flagged_56(job, pass_time):
    """A rank is done long before the others. It is not looked at."""
    ranks = job.start(2, MUSTER_COMPLETION_TIMEOUT="60s")
    job.order(ranks[:1], "ok")
    job.wait("returns", 1)
    pass_time(SOFT_MS * 3)
    assert job.said("progress") == []
    job.all_well(ranks[1:])
    assert job.entries() == 2


# ---- hard ----


def replaced(job, ranks, which, mark, *words):
    """The rank is ended, the others go on in their processes with a new one in its place."""
    gone = pidfds([ranks[which].pid])
    job.told(named(ranks[which]), *words)
    wait_gone(*gone)
    job.told(named(ranks[which]), "and was ended; starting it again")
    again = job.all_again(len(ranks), mark)
    old = {rank.pid for rank in ranks}
    assert {rank.pid for rank in again} & old == old - {ranks[which].pid}
    return again


def test_stopped_rank_is_continued_ended_and_replaced_28(job):
    """A rank is stopped (SIGSTOP), and nothing can interrupt it. Two faults are recorded: at
    `soft`, and at `hard`, when it is continued and gets SIGTERM; it is started again as any
    that failed, and the others have gone on."""
    ranks = job.start(3)
    mark = job.mark()
    os.kill(ranks[1].pid, signal.SIGSTOP)
    again = replaced(job, ranks, 1, mark, HARD_SAID, "; stopped by a signal: it is ended")
    with pytest.raises(ProcessLookupError):
        os.kill(ranks[1].pid, signal.SIGCONT)
    assert job.said(named(ranks[1]), "stopped by a signal; all ranks are interrupted")
    first = job.wait("entered", 2, mark, generation=2)[0]
    assert job.record(first) == [["soft-timeout", 1, 0], ["hard-timeout", 1, signal.SIGTERM]]
    job.all_well(again)


@pytest.mark.parametrize("how, where", [("spin", "running"), ("mutex", "blocked in futex"),
                                        ("deaf", "blocked in read")])
def test_what_cannot_be_interrupted_is_ended_29_31_32(job, how, where):
    """A rank spins without a call, waits for a mutex whose owner is dead, or repeats its call
    whenever that is interrupted. It is ended after `hard`, the others go on."""
    ranks = job.start(3)
    mark = job.hold(ranks[2], how)
    again = replaced(job, ranks, 2, mark, "made no progress", ": it is ended")
    assert job.said(named(ranks[2]), "made no progress", where, "all ranks are interrupted")
    job.all_well(again)


def test_ends_by_sigterm_49(job):
    """A rank is in a call that nothing interrupts, with `hard` 1 s. The process is ended by
    SIGTERM within 5 s, however short the grace is, and the run's cause names it. [restart]"""
    ranks = job.start(2, "--max-restarts", "0", grace=1)
    job.hold(ranks[1], "deaf")
    job.ended(128 + signal.SIGTERM)
    assert job.runner.log.lines[-1].startswith("muster run: first cause: " + named(ranks[1]))
    # By the record of the hang, or, if the other one's end is on record too by then, by its end.
    assert re.search(rf"({SOFT_SAID.pattern}.*; it did not stop|{HARD_SAID.pattern}) and was ended",
                     job.runner.log.lines[-1])
    assert job.said(named(ranks[1]), HARD_SAID)


def test_the_rank_that_was_ended_is_the_first_cause_and_not_the_suspect(job, tmp_path):
    """One rank is suspected because it stood lower, and another one could not be interrupted and
    was killed. The killed one is the first cause."""
    report = tmp_path / "report.json"
    ranks = job.start(2, "--max-restarts", "0", "--report", report)
    job.hold(ranks[0], "read")
    job.pings(ranks[1])
    job.hold(ranks[1], "deaf")
    job.ended(128 + signal.SIGTERM)
    assert job.said(named(ranks[0]), SOFT_SAID, "all ranks are interrupted")
    assert job.runner.log.lines[-1].startswith("muster run: first cause: " + named(ranks[1]))
    cause = json.loads(report.read_text())["first_cause"]
    assert (cause["kind"], cause["code"]) == ("hard-timeout", signal.SIGTERM)
    assert (cause["rank"], cause["index"], cause["pid"]) == (1, ranks[1].index, ranks[1].pid)


def test_who_mocks_sigterm_is_killed_after_the_grace_50(job):
    """A rank ignores SIGTERM. It gets SIGKILL after the grace time, not before. [restart]"""
    ranks = job.start(2)
    job.order(ranks[:1], "term mock")
    job.wait("ready", 1)
    gone = os.pidfd_open(ranks[0].pid)
    began = time.monotonic()
    job.pings(ranks[0], 1)
    mark = job.hold(ranks[0], "deaf")
    job.wait("mocks", 1, mark)
    wait_gone(gone)
    again = job.all_again(2, mark)
    assert again[0].at - began >= (HARD_MS + GRACE_MS) / 1000
    first = job.wait("entered", 1, mark, generation=2)[0]
    assert job.record(first)[1] == ["hard-timeout", 0, signal.SIGKILL]
    job.all_well(again)


def test_who_cleans_up_for_half_the_grace_has_cleaned_up_51(job):
    """A rank's handler of SIGTERM cleans up for half of the grace time. It finishes before the
    others enter the function again, and what it did is there."""
    ranks = job.start(2, grace=LONG_GRACE_MS)
    job.order(ranks[:1], "term heed")
    job.wait("ready", 1)
    mark = job.hold(ranks[0], "deaf")
    again = replaced(job, ranks, 0, mark, ": it is ended")
    first = job.wait("entered", 1, mark, generation=2)[0]
    assert job.record(first)[1] == ["hard-timeout", 0, signal.SIGTERM]
    told = [event.what for event in job.events[mark:] if event.what in ("cleaned", "entered")]
    assert told[0] == "cleaned", told
    job.all_well(again)


def test_an_atomic_section_that_never_ends_is_ended_66(job):
    """An atomic section never ends. Its process is ended after `hard`, the others go on.
    [restart]"""
    ranks = job.start(2)
    job.order(ranks[:1], "atomic")
    mark = job.hold(ranks[0], "deaf")
    again = replaced(job, ranks, 0, mark, said("was in an atomic section for", HARD_MS), "and was ended")
    assert job.said(named(ranks[0]), said("was in an atomic section for", SOFT_MS), "; blocked in read")
    job.all_well(again)


def test_who_waits_for_a_slow_peer_for_longer_than_the_hard_limit_is_not_ended_59(job):
    """A rank waits in muster for longer than `hard`: at the seal, for another one whose function
    and `finalize` together take too long. It is not killed."""
    ranks = job.start(3)
    slow_ms = HARD_MS * 3 // 5
    job.order(ranks[:1], f"slow {slow_ms}")
    job.wait("ready", 1)
    mark = job.mark()
    began = time.monotonic()  # the slow one may hear of it before this one tells that it returns
    job.order(ranks[1:2], "fail 1 as ordered")
    again = job.all_again(3, mark)
    assert [rank.pid for rank in again] == [rank.pid for rank in ranks]
    assert {rank["generation"] for rank in again} == {"2"}
    assert min(rank.at for rank in again) - began > 2 * slow_ms / 1000 > HARD_MS / 1000
    assert job.said("ended") == []
    job.all_well(again)


@pytest.mark.parametrize("how", ["deaf", "finalize", "health"])
def test_what_follows_the_function_and_never_ends_is_ended_60(job, how):
    """A rank blocks in what follows the function, `finalize`, or has a livelock there or in the
    health check, which pings. It is ended after `hard`, whatever it counts."""
    ranks = job.start(3)
    mark = job.mark()
    job.order(ranks[:1], f"after {how}")
    job.wait("blocked", 1, mark)
    again = replaced(job, ranks, 0, mark, said("spent", HARD_MS), " in abort, finalize and health check")
    first = job.wait("entered", 2, mark, generation=2)[0]
    assert job.record(first) == [["failed", 0, 1], ["hard-timeout", 0, signal.SIGTERM]]
    job.all_well(again)


def test_a_replaced_rank_is_watched_as_well(job):
    """A rank was replaced. The new process is watched as the first one was."""
    ranks = job.start(2)
    for _ in range(2):
        mark = job.mark()
        os.kill(ranks[1].pid, signal.SIGSTOP)
        ranks = replaced(job, ranks, 1, mark, HARD_SAID)
    job.all_well(ranks)


# ---- who looks ----


def test_a_run_that_was_stopped_blames_nobody_62(job, pass_time):
    """`muster run` is stopped for two leases and continued; a rank stood still meanwhile, and for
    a moment before and after. No rank is blamed for it. [restart]"""
    soft, hard = 2 * SOFT_MS, 5 * SOFT_MS // 2
    ranks = job.start(2, soft=soft, hard=hard)
    os.kill(ranks[0].pid, signal.SIGSTOP)
    pass_time(soft // 16)
    job.runner.signal(signal.SIGSTOP)
    pass_time(hard * 3 // 2)
    job.runner.signal(signal.SIGCONT)
    pass_time(soft // 16)
    os.kill(ranks[0].pid, signal.SIGCONT)
    pass_time(soft)
    assert job.said("progress") == []
    job.all_well(ranks)


def test_never_is_never(job, pass_time):
    """A limit is off. It is never reached."""
    ranks = job.start(2, soft=-1, hard=-1)
    job.hold(ranks[0], "quiet")
    pass_time(SOFT_MS)
    assert job.said("progress") == []
    job.order(ranks[:1], "ping")
    job.all_well(ranks)
