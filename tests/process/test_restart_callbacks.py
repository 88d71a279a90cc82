# SPDX-License-Identifier: Apache-2.0
"""Callbacks, atomic sections, spares and the ends of a run, on several ranks.

behaviour: restart / Atomic sections, leaving, giving up
"""

import os
import signal

import pytest

from restarting import job, pids  # noqa: F401

ALL = "precondition,initialize,health,abort,finalize,completion,terminate"


def at(events, **values):
    """The positions of the events with these values."""
    return [
        number
        for number, event in enumerate(events)
        if all(event.values.get(key) == value for key, value in values.items())
    ]


def calls(job, rank):
    """What happened on the process of this event, callbacks by their name."""
    return [
        event["name"] if event.what == "callback" else event.what
        for event in job.events
        if event.pid == rank.pid and event.what in ("callback", "entered", "returns", "told")
    ]


def test_callbacks_come_in_order_on_all_ranks(job):
    """A run has callbacks of every kind and one rank fails. On each rank: precondition once;
    before each attempt initialize and the health check; after a fault abort, finalize and the
    health check; at the end completion. No rank enters again before all have finalized.
    [Options, callbacks and clients]"""
    job.run(3, RR_CALLBACKS=ALL)
    ranks = job.entered(3)
    mark = job.mark()
    job.order(ranks[1:2], "fail 3 disk full")
    again = job.entered(3, mark, iteration=1)
    job.order(again, "ok")
    job.finish(3)
    job.ended()
    before = ["initialize", "health", "entered"]
    after = ["finalize", "health"]
    for rank in ranks:
        seen = calls(job, rank)
        between = seen[4:6]  # the callback runs beside the function, also where that has failed
        assert sorted(between) == ["abort", "returns" if rank is ranks[1] else "told"]
        assert seen == ["precondition", *before, *between, *after, *before, "returns", "completion"]
    finalized = at(job.events, name="finalize")
    entered = [number for number, event in enumerate(job.events)
               if event.what == "entered" and event["iteration"] == "1"]
    assert len(finalized) == 3 and max(finalized) < min(entered)


def test_the_fault_is_told_to_callbacks_and_to_the_next_attempt(job):
    """A callback or the next attempt asks why the last one ended. Kind, code, text, index and
    rank of the first fault, the same on all ranks; of a text with several lines one.
    [Options, callbacks and clients]"""
    job.run(2, RR_CALLBACKS="finalize")
    ranks = job.entered(2)
    mark = job.mark()
    job.order(ranks[1:], "fail 3 disk full")
    again = job.entered(2, mark, iteration=1, faults=1)
    for event in job.wait("callback", 2, mark, name="finalize"):
        assert event["faults"] == "1"
    for event in job.wait("fault", 2, mark):
        assert (event["kind"], event["index"], event["rank"], event["code"]) == (
            "failed", "1", "1", "3")
        assert event.text == "disk full"
    job.order(again, "ok")
    job.finish(2)
    job.ended()


def test_what_is_said_of_a_loss_is_a_fault_where_nobody_was_lost(job):
    """The function returns ELOST or EFENCED. If the service knew that a rank was lost, failed or
    left, this adds nothing to the record of that; if it learns of that later, both are on
    record, and the other is the first cause. Else it is a fault of this rank, and all read
    that it returned it. [Fewer, and the end]"""
    job.run(2)
    ranks = job.entered(2)
    mark = job.mark()
    job.order(ranks[1:], "status -15")
    again = job.entered(2, mark, iteration=1, faults=1)
    for event in job.wait("fault", 2, mark):
        assert (event["kind"], event["index"], event["code"]) == ("failed", "1", "-15")
        assert event.text == "the function returned MUSTER_ELOST (-15)"
    job.order(again, "ok")
    job.finish(2)
    job.ended()


def test_what_is_said_of_a_loss_hides_no_loss(job):
    """A function returns ELOST before the loss is known. The loss is on record then.
    [Fewer, and the end]"""
    job.run(3, "--min-size", 2, "--max-restarts", 0)
    ranks = job.entered(3)
    mark = job.mark()
    os.kill(ranks[1].pid, signal.SIGKILL)
    job.order([ranks[0], ranks[2]], "status -15")
    again = job.entered(2, mark, size=2, iteration=1)
    recorded = {event["kind"] for event in job.events[mark:] if event.what == "fault"}
    assert {"signal"} <= recorded <= {"signal", "failed"}
    job.order(again, "ok")
    job.finish(2)
    job.ended(None)


def test_an_atomic_section_is_not_interrupted_63(job):
    """A peer fails while this rank is in an atomic section. It is not interrupted, cut short or
    aborted before the end of the section; right after it is."""
    job.run(2, RR_CALLBACKS="abort")
    ranks = job.entered(2)
    job.order(ranks[:1], "listen")
    job.wait("listens")
    job.order(ranks[:1], "atomic")
    job.wait("atomic")
    mark = job.mark()
    job.order(ranks[1:], "fail 1 while the other writes")
    job.wait("heard", 1, mark, status="MUSTER_EINTERRUPTED")
    job.order(ranks[:1], "check")
    assert job.wait("checked", 1, mark)[0]["status"] == "MUSTER_OK"
    job.order(ranks[:1], "atomic-end")
    assert job.wait("atomic-end", 1, mark)[0]["status"] == "MUSTER_EINTERRUPTED"
    again = job.entered(2, mark, iteration=1)
    # Tells on two threads: the callback has waited for the end, of which the function tells after.
    own = [event for event in job.events[mark:] if event.pid == ranks[0].pid]
    assert at(own, name="abort")[0] > [event.what for event in own].index("checked")
    job.order(again, "ok")
    job.finish(2)
    job.ended()


def test_no_atomic_section_after_the_interruption_64(job):
    """A rank begins an atomic section after the interruption. It is refused, at once."""
    job.run(2, MUSTER_INTERRUPT_SIGNAL="0", RR_CALLBACKS="abort")
    ranks = job.entered(2)
    job.order(ranks[:1], "quiet")
    job.wait("quiet")
    mark = job.mark()
    job.order(ranks[1:], "fail 1 first")
    job.wait("callback", 1, mark, name="abort", rank=0)
    job.order(ranks[:1], "atomic")
    assert job.wait("atomic", 1, mark)[0]["status"] == "MUSTER_EINTERRUPTED"
    job.order(job.entered(2, mark, iteration=1), "ok")
    job.finish(2)
    job.ended()


def test_a_failing_finalize_ends_its_rank_alone(job):
    """`finalize` fails. That rank's run ends with its status, without a health check.
    [Options, callbacks and clients]"""
    job.run(3, "--min-size", 2, "--max-restarts", 0, RR_CALLBACKS="finalize,terminate",
            RR_FAIL="finalize:1")
    ranks = job.entered(3)
    mark = job.mark()
    # The others' first call fails as well: so one fault ends all three.
    job.order(ranks[:1], "fail 1 first")
    done = job.wait("done", 3, mark)
    for event in done:
        assert event.text.startswith("run: finalize failed: callback returned MUSTER_EFAILED (-17)")
    assert len(job.wait("callback", 3, mark, name="terminate")) == 3
    job.order(done, "end")
    job.ended(None)


def test_given_up_after_the_attempts_that_are_allowed_8(job):
    """The allowed attempts have failed. All ranks end together after exactly as many entries,
    with the cause of the last one."""
    job.run(3, "--max-restarts", 0, MUSTER_ITERATIONS_MAX="4")
    for turn in range(4):
        ranks = job.entered(3, iteration=turn)
        job.order(ranks[turn % 3 : turn % 3 + 1], f"fail {turn} again")
    done = job.finish(3, status="MUSTER_EFAILED")
    for event in done:
        assert event.text == (
            "run: given up after 4 attempts that failed (iterations_max 4); the last: rank 0 (#0) "
            "failed: code 3: again")
        assert event["why"] == "1"  # MUSTER_WHY_ITERATIONS
    assert len([event for event in job.events if event.what == "entered"]) == 12
    job.ended(None)


def test_an_abort_ends_all_with_its_text(job):
    """One rank aborts the job. All end, with its text."""
    job.run(3)
    ranks = job.entered(3)
    job.order(ranks[2:], "abort 5 wrong data")
    done = job.finish(3, status="MUSTER_EFAILED")
    for event in done:
        assert event.text == (
            "run: ended for all: rank 2 (#2) asked that all end: code 5: wrong data")
        assert event["why"] == "3"  # MUSTER_WHY_ABORTED
    job.ended(None)


def test_exit_in_the_function_leaves_23(job):
    """The function calls `exit()` with status 0 or 75. The rank leaves, the others go on without
    it, renumbered, and it is no death."""
    job.run(3, "--min-size", 1, "--max-restarts", 0)
    ranks = job.entered(3)
    mark = job.mark()
    job.order(ranks[:1], "exit 0")
    again = job.entered(2, mark, size=2)
    assert [event.index for event in again] == [1, 2]
    assert job.wait("fault", 1, mark)[0]["kind"] == "left"
    mark = job.mark()
    job.order(again, "ok")
    job.finish(2, mark)
    job.ended()


def test_underscore_exit_in_the_function_is_a_death(job):
    """The function calls `_exit()`. That is a death, with its status."""
    job.run(2, "--min-size", 1, "--max-restarts", 0)
    ranks = job.entered(2)
    mark = job.mark()
    job.order(ranks[:1], "_exit 3")
    again = job.entered(1, mark, size=1)
    fault = job.wait("fault", 1, mark)[0]
    # Its end is told when it is known, which may be before its status is.
    assert (fault["kind"], fault["index"], fault["code"]) in (("exit", "0", "3"), ("gone", "0", "0"))
    mark = job.mark()
    job.order(again, "ok")
    job.finish(1, mark)
    job.ended(None)


def test_an_assignment_of_ones_own(job):
    """A program gives the steps of an assignment. One rank works them out before the first
    attempt and after each fault, and all obey; if that fails the run ends for all.
    [Options, callbacks and clients]"""
    job.run(3, RR_CALLBACKS="assign")
    ranks = job.entered(3, iteration=0)
    assert [event.index for event in ranks] == [2, 1, 0]
    mark = job.mark()
    job.order(ranks[:1], "fail 1 once more")
    again = job.entered(3, mark, iteration=1)
    assert [event.index for event in again] == [2, 1, 0]
    assert len([event for event in job.events if event.values.get("name") == "assign"]) == 2
    job.order(again, "ok")
    job.finish(3)
    job.ended()


def test_a_failing_assignment_ends_the_run_for_all_16(job):
    """The first or the second assignment fails. The run ends with the assignment's status after 0
    or 1 entries. [restart]"""
    job.run(2, "--max-restarts", 0, RR_CALLBACKS="assign", RR_FAIL="assign:1")
    done = job.finish(2, status="MUSTER_EFAILED")
    assert all(event.text.startswith("run: the assignment failed: ") for event in done), done
    assert {event["why"] for event in done} == {"7"}  # MUSTER_WHY_ASSIGNMENT
    assert not any(event.what == "entered" for event in job.events)
    job.ended(None)


@pytest.mark.parametrize("how", ["abort", "signal"])
def test_freed_by_either_rung_of_the_ladder_30(job, how):
    """A blocked rank has an abort callback, or none. The signal comes when the callback has
    returned, or at once."""
    job.run(2, RR_CALLBACKS="abort" if how == "abort" else "")
    ranks = job.entered(2)
    job.order(ranks[:1], "block recv")
    job.wait("blocked")
    mark = job.mark()
    job.order(ranks[1:], "fail 1 the blocked one must hear of it")
    freed = job.wait("freed", 1, mark, errno=4)[0]
    if how == "abort":
        aborted = job.wait("callback", 1, mark, name="abort", rank=0)[0]
        assert job.events.index(aborted) < job.events.index(freed)
    job.order(job.entered(2, mark, iteration=1), "ok")
    job.finish(2)
    job.ended()


def test_a_health_command_and_a_folder_are_looked_at(job, tmp_path):
    """A health command or a folder is given. The command has to end with 0 in time, whatever
    signals come meanwhile, and nothing of it is left; a file has to be writable in the folder.
    A rank that is not healthy leaves with the reason. [Options, callbacks and clients]"""
    flag = tmp_path / "healthy"
    flag.write_text("")
    job.run(1, "--max-restarts", 0, MUSTER_HEALTH_COMMAND=f"test -e {flag}",
            MUSTER_HEALTH_FOLDER=str(tmp_path))
    ranks = job.entered(1)
    mark = job.mark()
    job.order(ranks, "fail 1 but healthy")
    ranks = job.entered(1, mark)
    flag.unlink()
    job.order(ranks, "fail 2 and not healthy")
    done = job.finish(1, status="MUSTER_EUNHEALTHY")[0]
    assert done.text == f"run: health_command 'test -e {flag}': ended with status 1"
    assert list(tmp_path.iterdir()) == []
    job.ended(None)
