# SPDX-License-Identifier: Apache-2.0
"""How many run, who waits, and who is let in again: with real processes. That the numbers are right
for every set of losses is shown by the unit tests of the assignment.

behaviour: restart
"""

import os
import signal

from restarting import job, pids  # noqa: F401 (a fixture)
from test_agent import LONG, hand  # noqa: F401 (a fixture)

# What muster_exit_code makes of MUSTER_ETOOFEW.
ETOOFEW_CODE = 1


def with_spares(hand, size, spares):
    """The ranks, in the function, and the spares, which wait in their runs. By hand, because the log
    of the service says when they do; a spare that has not come so far is none."""
    hand.runner = hand.service = hand.serve("--lease", LONG)
    common = hand.common = {"MUSTER_ADDR": hand.service.address, "MUSTER_SIZE": str(size),
                            "MUSTER_MAX_SIZE": str(size), "MUSTER_MIN_SIZE": "1"}
    for index in range(size + spares):
        hand.add(index, common)
    ranks = hand.entered(size, size=size)
    waiting = hand.wait("joined", spares, spare=1)
    for spare in waiting:
        waits(hand, spare)
    hand.all_helped(size + spares)
    return ranks, waiting


def waits(hand, spare, count=2):
    """Ready for the first time to be told that it is a spare, and again to be given a rank."""
    hand.service.log.wait_for(f"member-ready #{spare.index}", count=count)


def kill(rank):
    os.kill(rank.pid, signal.SIGKILL)


def never_entered(job, events):
    return not any(event.what == "entered" and event.pid in pids(events) for event in job.events)


def exported(ranks):
    return [event["RANK"] for event in ranks]


def end_all(job, ranks, spares, mark):
    """The ranks return OK; the spares' runs end with theirs, with OK as well. Nothing is left."""
    job.order(ranks, "ok")
    done = job.wait("done", len(ranks) + len(spares), mark)
    assert {event["status"] for event in done} == {"MUSTER_OK"}, done
    waited = {event.pid for event in done if event["spare"] == "1"}
    assert waited == pids(spares), done
    job.order(done, "end")
    if job.spawn:
        job.ended()
    else:
        assert {job.ranks[event.index].wait() for event in done} == {0}


def test_at_most_six_of_eight_and_a_spare_steps_in_77(hand):
    """At most 6 of 8 ranks run, and one of them is killed while two spares wait. 6 run again at
    once, a spare among them, with the ranks 0 to 5, in the environment too; the other spare
    returns OK at the end without having entered. [Atomic sections, leaving, giving up]"""
    job = hand
    ranks, spares = with_spares(hand, 6, 2)
    mark = job.mark()
    kill(ranks[2])
    again = job.entered(6, mark, generation=2, iteration=1, size=6)
    assert exported(again) == ["0", "1", "2", "3", "4", "5"]
    (new,) = pids(again) - pids(ranks)
    assert pids(ranks) - pids(again) == {ranks[2].pid}
    assert new in pids(spares)
    others = [event for event in spares if event.pid != new]
    assert never_entered(job, others)
    end_all(job, again, others, mark)


def test_a_multiple_of_four_of_eight_and_one_is_lost_78(job):
    """A multiple of 4 of 8 runs, and one is killed. 4 run, and 3 survivors that ran before wait
    as spares."""
    job.run(8, "--size-multiple", 4, "--min-size", 4, "--max-restarts", 0)
    ranks = job.entered(8, size=8)
    mark = job.mark()
    kill(ranks[5])
    again = job.entered(4, mark, generation=2, size=4)
    assert pids(again) < pids(ranks) - {ranks[5].pid}
    others = [event for event in ranks if event.pid not in pids(again) | {ranks[5].pid}]
    assert len(others) == 3
    end_all(job, again, others, mark)
    entered = [event for event in job.events[mark:] if event.what == "entered"]
    assert pids(entered) == pids(again)


def test_who_was_left_over_runs_again_when_it_is_a_multiple_78(job):
    """The lost rank of a multiple is started again. With it they are eight again, and all run."""
    job.run(8, "--size-multiple", 4, "--min-size", 4)
    ranks = job.entered(8, size=8)
    mark = job.mark()
    kill(ranks[5])
    again = job.entered(8, mark, size=8)
    assert len(pids(again) & pids(ranks)) == 7
    end_all(job, again, [], mark)


def test_a_spare_that_is_never_needed_ends_with_the_others_79(job):
    """A spare is never needed, as a restart that costs no rank does not need it. It never enters
    the function, and its run ends with OK when the others are done."""
    job.run(2, "--spares", 2)
    ranks = job.entered(2)
    spares = job.wait("joined", 2, spare=1)
    mark = job.mark()
    job.order(ranks[:1], "fail 1 without a loss")
    again = job.entered(2, mark, generation=2)
    assert pids(again) == pids(ranks)
    end_all(job, again, spares, mark)
    assert never_entered(job, spares)


def test_a_spare_that_dies_interrupts_nobody_79(hand):
    """A spare dies. It interrupts no rank and is in no record; what is started in its place waits
    as a spare, and steps in when it is needed."""
    job = hand
    ranks, (spare,) = with_spares(hand, 2, 1)
    mark = job.mark()
    kill(spare)
    job.service.log.wait_for(f"member-lost #{spare.index}")
    job.add(spare.index, job.common)
    (new,) = job.wait("joined", 1, mark, spare=1)
    waits(job, new, 4)
    assert not any(event.what in ("told", "entered") for event in job.events[mark:])
    kill(ranks[1])
    again = job.entered(2, mark, generation=2, iteration=1)
    assert pids(again) == {ranks[0].pid, new.pid}
    faults = [event for event in job.events if event.what == "fault"]
    assert pids(faults) == pids(again)
    assert {fault["index"] for fault in faults} == {str(ranks[1].index)}
    end_all(job, again, [], mark)


def test_too_few_end_together_80(hand):
    """At least 3 of 4 must run, and two are killed. The run ends on the others, together, with
    the same error and without another entry, once all know of both. (A `muster run` would end
    them, or restart all.)"""
    ranks = hand.start(4, MUSTER_MIN_SIZE="3", RR_CALLBACKS="finalize", RR_HOLD="finalize:1")
    hand.all_helped(4)
    mark = hand.mark()
    kill(ranks[1])
    held = [event for event in hand.wait("held", 3, mark) if event.pid != ranks[3].pid]
    kill(ranks[3])
    hand.order(held, "go")
    done = hand.wait("done", 2, mark)
    assert pids(done) == {ranks[0].pid, ranks[2].pid}
    assert {event["status"] for event in done} == {"MUSTER_ETOOFEW"}
    (text,) = {event.text for event in done}
    assert "2 ranks are left" in text and "min_size is 3" in text, text
    assert not any(event.what == "entered" for event in hand.events[mark:])
    hand.order(done, "end")
    assert {hand.ranks[index].wait() for index in (0, 2)} == {ETOOFEW_CODE}


def test_who_fails_once_too_often_leaves_alone_81(job):
    """`faults_max` is 1, and one rank fails twice. It leaves after the second time, the others go
    on; a rank that was only interrupted has no fault."""
    job.run(3, "--min-size", 1, "--max-restarts", 0, MUSTER_FAULTS_MAX="1")
    ranks = job.entered(3)
    for turn, which in enumerate((1, 0)):
        mark = job.mark()
        job.order(ranks[which : which + 1], f"fail {turn} forgiven")
        again = job.entered(3, mark, generation=turn + 2)
        assert pids(again) == pids(ranks)
        ranks = again
    mark = job.mark()
    job.order(ranks[1:2], "fail 2 once too often")
    (out,) = job.wait("done", 1, mark)
    assert (out.pid, out["status"]) == (ranks[1].pid, "MUSTER_EUNHEALTHY")
    assert out["why"] == "4"  # MUSTER_WHY_FAULTS
    assert out.text.startswith("run: this rank has failed more than 1 time (faults_max) and leaves")
    assert "once too often" in out.text
    again = job.entered(2, mark, generation=4, size=2)
    assert pids(again) == {ranks[0].pid, ranks[2].pid}
    job.order([out], "end")
    job.order(again, "ok")
    done = [event for event in job.wait("done", 3, mark) if event.pid != out.pid]
    assert {event["status"] for event in done} == {"MUSTER_OK"}
    job.order(done, "end")
    job.ended(None)
