# SPDX-License-Identifier: Apache-2.0
"""Faults in a group: one rank, two or all of them fail, end or hang, and the others go on without.

Nobody is started again here (`--max-restarts 0 --min-size 1`), so what is left is what was not lost.

behaviour: restart
"""

import contextlib
import os
import pathlib
import random
import signal
import time

import pytest

from conftest import sanitized
from running import status_at, until, wait_gone
from restarting import job, pids  # noqa: F401

ALONE = ("--max-restarts", 0, "--min-size", 1)
# From a death until the others are told, at best: a busy machine may delay one of several.
TOLD_S = 1.0 if sanitized() else 0.1
# Long enough for a rank that waits for a processor, short enough to wait for.
HANGS = {"MUSTER_SOFT_TIMEOUT": "3s", "MUSTER_HARD_TIMEOUT": "4s", "MUSTER_GRACE": "1s"}
# What a sanitizer does with them itself would not be the end of the program.
CRASHES = "handle_segv=0:handle_abort=0:handle_sigfpe=0:allow_user_segv_handler=1"


def entered_of(job, events, mark, **values):
    """The processes of these events stand in the next generation, and nobody else."""
    again = job.entered(len(events), mark, size=len(events), **values)
    assert pids(again) == pids(events)
    return again


def records(job, rank):
    """What this rank was told, as it entered, of why the attempt before had ended."""
    return [
        (fault["kind"], fault.number("index"), fault.number("code"))
        for fault in job.events
        if fault.what == "fault" and fault.pid == rank.pid and fault["entry"] == rank["generation"]
    ]


def finish(job, ranks, code=0):
    mark = job.mark()
    job.order(ranks, "ok")
    done = job.finish(len(ranks), mark)
    assert pids(done) == pids(ranks)
    job.ended(code)


def told_after(job, ranks, mark, since):
    """How long it took until all of them were told."""
    told = job.wait("told", len(ranks), mark)
    assert pids(told) == pids(ranks)
    return max(event.at for event in told) - since


# ---- one after the other ----


def test_one_fails_in_each_attempt_and_all_stay_22(job):
    """In each of four attempts one rank fails, another one each time. All are there in all
    attempts and end with 0."""
    dice = random.Random(22)
    job.run(4, *ALONE, MUSTER_ITERATIONS_MAX="5")
    ranks = job.entered(4, iteration=0)
    for turn in range(4):
        mark = job.mark()
        victim = ranks[dice.randrange(1, 4)]
        job.order([victim], f"fail {turn} in attempt {turn}")
        ranks = entered_of(job, ranks, mark, iteration=turn + 1, generation=turn + 2)
        for rank in ranks:
            assert records(job, rank) == [("failed", victim.index, turn)]
    finish(job, ranks)


def test_one_leaves_in_each_attempt_with_a_status_that_is_no_failure_23(job):
    """In each attempt one rank leaves by `exit`, with status 0 or 75. 4, 3, 2, 1 run, numbered
    from 0; the leaving rank has the code it asked for, the others end with 0."""
    dice = random.Random(23)
    job.run(4, *ALONE)
    ranks = job.entered(4)
    for code in (0, 75, 0):
        mark = job.mark()
        victim = dice.choice(ranks)
        turn = 4 - len(ranks)
        job.order([victim], f"exit {code}")
        ranks = entered_of(
            job, [rank for rank in ranks if rank is not victim], mark, iteration=turn + 1
        )
        assert records(job, ranks[0]) == [("left", victim.index, 0)]
        if code:
            job.runner.log.wait_for(f"pid {victim.pid}) left the job and ended with status {code}; ")
    finish(job, ranks, 75)


def in_each_attempt_one_is_lost(job, lateness, seed, order, kind, code):
    """It is lost by that order, or by what is done to its pid; the others hear of it at once."""
    dice = random.Random(seed)
    sizes = (4, 3, 2)
    job.run(max(sizes), *ALONE, ASAN_OPTIONS=f"{CRASHES}:detect_leaks=0", TSAN_OPTIONS=CRASHES)
    ranks = job.entered(max(sizes))
    took = []
    for turn in range(len(sizes)):
        mark = job.mark()
        victim = dice.choice(ranks)
        ranks = [rank for rank in ranks if rank is not victim]
        since = time.monotonic()
        order(victim)
        took.append(told_after(job, ranks, mark, since))
        ranks = entered_of(job, ranks, mark, iteration=turn + 1, generation=turn + 2)
        for rank in ranks:
            assert records(job, rank) == [(kind, victim.index, code)]
    assert min(took) < TOLD_S + lateness.spare_s(), took
    finish(job, ranks, None)


def test_one_kills_itself_in_each_attempt_24(job, lateness):
    """In each attempt one rank kills itself. There is one less each time, reported within 100 ms;
    the record says by which signal."""
    in_each_attempt_one_is_lost(
        job, lateness, 24, lambda rank: job.order([rank], "kill 9"), "signal", signal.SIGKILL)


def test_one_terminates_itself_in_each_attempt_25(job, lateness):
    """In each attempt one rank ends itself with SIGTERM. There is one less each time, reported
    within 100 ms; the record says by which signal."""
    in_each_attempt_one_is_lost(
        job, lateness, 25, lambda rank: job.order([rank], "kill 15"), "signal", signal.SIGTERM)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_one_is_killed_from_outside_in_each_attempt_26(job, lateness, number):
    """In each attempt another process kills a rank within the function, with SIGKILL or SIGTERM.
    There is one less each time, reported within 100 ms; the record says by which signal."""
    in_each_attempt_one_is_lost(
        job, lateness, 26, lambda rank: os.kill(rank.pid, number), "signal", number)


@pytest.mark.parametrize("how, number", [
    ("segv", signal.SIGSEGV), ("abort", signal.SIGABRT), ("fpe", signal.SIGFPE)])
def test_one_crashes_27(job, lateness, how, number):
    """A rank crashes by a segmentation fault, an `abort()` or a floating point trap. It is
    reported within 100 ms, and the record says by which signal."""
    in_each_attempt_one_is_lost(
        job, lateness, 27, lambda rank: job.order([rank], f"crash {how}"), "signal", number)


# ---- what cannot be interrupted ----


@pytest.mark.parametrize("how", ["deaf", "sleep-on", "mutex", "spin"])
def test_fault_of_another_while_one_cannot_be_freed_32(job, how):
    """A rank is in a library that repeats its call on EINTR; and another rank fails meanwhile.
    The first is killed after `hard`, from the interruption if that comes first; the others
    wait no longer, and both are in the record."""
    job.run(3, *ALONE, **HANGS)
    ranks = job.entered(3)
    gone = os.pidfd_open(ranks[1].pid)
    job.order(ranks[1:2], f"block {how}")
    job.wait("blocked")
    mark = job.mark()
    job.order(ranks[:1], "fail 3 first")
    again = entered_of(job, [ranks[0], ranks[2]], mark, iteration=1, generation=2)
    wait_gone(gone)
    for rank in again:
        assert records(job, rank) == [("failed", 0, 3), ("hard-timeout", 1, signal.SIGTERM)]
    assert not [event for event in job.events if event.what == "freed"]
    finish(job, again, None)


# ---- two at once ----


def test_two_fail_within_settle_and_all_restart_once_33(job):
    """Two ranks fail at the same time, with a `settle` or without. There is one restart, one
    iteration more, and both are in the record."""
    job.run(4, *ALONE, MUSTER_SETTLE="2s")
    ranks = job.entered(4)
    mark = job.mark()
    since = time.monotonic()  # it returns later, and the others may hear of it before it tells of that
    job.order(ranks[1:2], "fail 3 first")
    job.wait("returns", 1, mark)
    job.order(ranks[2:3], "fail 4 second")
    job.wait("returns", 2, mark)
    again = entered_of(job, ranks, mark, iteration=1, generation=2)
    for rank in again:
        assert sorted(records(job, rank)) == [("failed", 1, 3), ("failed", 2, 4)]
    told = [event for event in job.events[mark:] if event.what == "told"]
    assert pids(told) == pids([ranks[0], ranks[3]])
    assert min(event.at for event in told) - since > 1.9, "nobody waited for more faults"
    finish(job, again)


def test_another_fails_while_the_others_abort_34(job):
    """A rank fails while the others are in `abort`. That is the same restart: one next attempt,
    with its fault in the record."""
    job.run(3, *ALONE, MUSTER_INTERRUPT_SIGNAL="0", RR_CALLBACKS="abort", RR_HOLD="abort:1",
            RR_ONLY="1")
    ranks = job.entered(3)
    job.order(ranks[2:], "quiet")
    job.wait("quiet")
    mark = job.mark()
    job.order(ranks[:1], "fail 3 first")
    held = job.wait("held", 1, mark, name="abort")
    job.wait("told", 1, mark)
    job.order(ranks[2:], "fail 4 second")
    job.wait("returns", 2, mark, status=-17)
    job.order(held, "go")
    again = entered_of(job, ranks, mark, iteration=1, generation=2)
    for rank in again:
        assert records(job, rank) == [("failed", 0, 3), ("failed", 2, 4)]
    finish(job, again)


def test_another_fails_while_the_others_finalize_34(job):
    """A rank fails while the others are in `finalize`. That is the same restart: one next
    attempt, with its fault in the record."""
    job.run(3, *ALONE, MUSTER_INTERRUPT_SIGNAL="0", RR_CALLBACKS="finalize", RR_HOLD="finalize:1")
    ranks = job.entered(3)
    job.order(ranks[2:], "quiet")
    job.wait("quiet")
    mark = job.mark()
    job.order(ranks[:1], "fail 3 first")
    held = job.wait("held", 2, mark, name="finalize")
    job.order(ranks[2:], "fail 4 second")
    held += job.wait("held", 1, job.mark(), name="finalize")
    job.order(held, "go")
    again = entered_of(job, ranks, mark, iteration=1, generation=2)
    for rank in again:
        assert records(job, rank) == [("failed", 0, 3), ("failed", 2, 4)]
    finish(job, again)


def test_the_function_reads_the_sealed_record_although_the_next_fault_has_come(job):
    """A rank is slow to begin an attempt, and the next fault has come. It reads why the attempt
    before ended, as all others; its abort callback reads what is new. [Deaths]"""
    job.run(2, *ALONE, MUSTER_INTERRUPT_SIGNAL="0", RR_CALLBACKS="abort")
    ranks = job.entered(2)
    mark = job.mark()
    job.order(ranks[1:], "fail 1 first")
    slow, other = entered_of(job, ranks, mark)
    job.order([slow], "quiet")
    job.wait("quiet")
    mark = job.mark()
    job.order([other], "fail 2 second")
    abort = job.wait("callback", 2, mark, name="abort")
    assert {event["faults"] for event in abort} == {"1"}
    mark = job.mark()
    job.order([slow], "faults")
    job.wait("told-faults", 1, mark)
    again = [event for event in job.events[mark:] if event.what == "fault"]
    assert [(fault["generation"], fault["code"], fault["entry"]) for fault in again
            if fault.pid == slow.pid and fault["entry"] == slow["generation"]] == [("1", "1", "2")]
    finish(job, entered_of(job, ranks, mark))


def test_all_fail_at_once_and_restart_once_45(job):
    """All ranks fail at once. There is one restart, and all are there. [Failures]"""
    job.run(4, *ALONE)
    ranks = job.entered(4)
    mark = job.mark()
    job.order(ranks, "fail 1 all at once")
    again = entered_of(job, ranks, mark, iteration=1, generation=2)
    told = pids([event for event in job.events[mark:] if event.what == "told"])
    failed = {rank.index for rank in ranks if rank.pid not in told}
    for rank in again:
        assert {index for _, index, _ in records(job, rank)} == failed
    finish(job, again)


# ---- who must not be needed ----


def test_rank_zero_is_killed_and_the_others_go_on_42(job):
    """The rank that was number 0 is killed. The job goes on with the others."""
    job.run(4, *ALONE)
    ranks = job.entered(4)
    for left in (3, 2, 1):
        mark = job.mark()
        os.kill(ranks[0].pid, signal.SIGKILL)
        ranks = entered_of(job, ranks[1:], mark)
        assert [rank.index for rank in ranks] == list(range(4 - left, 4))
    finish(job, ranks, None)


def service_of(job):
    """The pid of the service that this run has started."""
    pid = job.runner.pid
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError):  # it has just ended
            if b"\0serve\0" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    return None


def kill_service(job):
    before = len(job.runner.log.having("it is started again"))
    os.kill(until(lambda: service_of(job)), signal.SIGKILL)
    job.runner.log.wait_for("it is started again", count=before + 1)


def test_the_service_is_killed_in_the_middle_and_nobody_restarts_43(job):
    """The service is killed and started again while the function runs. No rank restarts: the
    function runs on, calls of muster that wait go on as well, and the next fault is one as
    before."""
    job.run(3, *ALONE)
    ranks = job.entered(3)
    job.order(ranks[:1], "block barrier")
    job.wait("blocked")
    mark = job.mark()
    for _ in range(3):
        kill_service(job)
        job.order(ranks[1:], "step 1")
        job.wait("stepped", 2, job.mark(), status="MUSTER_OK")
    assert {event.what for event in job.events[mark:]} == {"stepped"}
    job.order(ranks[1:2], "fail 1 afterwards")
    again = entered_of(job, ranks, mark, iteration=1, generation=2)
    finish(job, again)


@pytest.mark.parametrize("arrived", [1, 2, 3])
def test_the_service_is_killed_during_the_seal_and_there_is_one_step_43(job, arrived):
    """The service is killed and started again while ranks stand at the seal; after the last one
    it may be in the middle of its answers. There is one generation."""
    http = pathlib.Path(job.env["MUSTER_RUNTIME_DIR"]) / "http.sock"
    job.run(3, *ALONE, "--http", f"unix:{http}", RR_CALLBACKS="finalize", RR_HOLD="finalize:1")
    ranks = job.entered(3)
    mark = job.mark()
    job.order(ranks[:1], "fail 1 first")
    held = job.wait("held", 3, mark)
    job.order(held[:arrived], "go")
    if arrived < 3:
        until(lambda: [one for one in (status_at(http) or {"rounds": []})["rounds"]
                       if one["name"] == "muster/seal" and one["arrived"] == arrived])
    kill_service(job)
    job.order(held[arrived:], "go")
    again = entered_of(job, ranks, mark, iteration=1, generation=2)
    for rank in again:
        assert records(job, rank) == [("failed", 0, 1)]
    finish(job, again)
