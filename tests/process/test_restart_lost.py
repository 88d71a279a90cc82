# SPDX-License-Identifier: Apache-2.0
"""A rank says that its connection to another one broke: real ranks under `muster run`.

behaviour: restart / A peer's socket breaks
"""

import os
import signal

from restarting import either_job, job, pids  # noqa: F401


def faults(job, mark, generation):
    """What the ranks of this generation read of why the one before ended, without repeats."""
    return {(event["kind"], event.number("index"), event.number("code"), event.text)
            for event in job.events[mark:]
            if event.what == "fault" and event["entry"] == str(generation)}


def test_a_broken_connection_to_a_dead_peer_is_no_fault_of_the_survivor(job):
    """Two ranks lose their connections to a third one, which is killed. They wait, each is
    interrupted, and the record has the death alone: nothing is said about the survivors, which
    keep their processes."""
    job.run(3, "--max-restarts", 0, "--min-size", 1)
    ranks = job.entered(3)
    mark = job.mark()
    job.order(ranks[:2], "lost 2 60000")
    job.wait("loses", 2, mark)
    os.kill(ranks[2].pid, signal.SIGKILL)
    again = job.entered(2, mark, generation=2, iteration=1, size=2)
    assert pids(again) == pids(ranks[:2])
    returned = job.wait("returns", 2, mark)
    assert {event["status"] for event in returned} == {"-12"}  # EINTERRUPTED
    assert faults(job, mark, 2) == {("signal", 2, signal.SIGKILL, "")}
    assert not job.runner.log.having("failed")
    job.order(again, "ok")
    job.finish(2, mark)
    job.ended(None)


def test_a_broken_connection_to_a_living_peer_is_a_fault_of_that_peer(either_job):
    """A rank loses its connection to another one that goes on, and nothing else happens within the
    time. That other rank is in the record, with both ends in the text and in the log of
    `muster run`. All continue in their processes, the other one as well."""
    either_job.run(3)
    ranks = either_job.entered(3)
    mark = either_job.mark()
    either_job.order(ranks[:1], "lost 2 200")
    again = either_job.entered(3, mark, generation=2, iteration=1, size=3)
    assert pids(again) == pids(ranks)
    assert pids(either_job.wait("told", 2, mark)) == pids(ranks[1:])
    text = "the connection of rank 0 (#0) to #2 broke, and no other fault was reported within 0.2 s"
    assert faults(either_job, mark, 2) == {("failed", 2, -15, text)}
    either_job.runner.log.wait_for(f"rank 2 (#2) failed: code -15: {text}; generation 2 follows")
    assert len(either_job.runner.log.having("failed")) == 1
    either_job.order(again, "ok")
    either_job.finish(3, mark)
    either_job.ended()
