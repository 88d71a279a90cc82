# SPDX-License-Identifier: Apache-2.0
"""Atomic sections, and what a function leaves behind as it returns: objects are destroyed and
sections are ended because the function returns, and for no other reason.

Every rank is tests/process/unwind_rank.cc. Cancelling a thread, jumping out of a handler and checks
that throw are not offered, so there is nothing of them to show.

behaviour: restart
"""

import os
import shutil
import tempfile

import pytest

from conftest import BUILD
from running import wait_gone
from restarting import Job, pids, settle
from test_hang import said

RANK = BUILD / "tests" / "process" / "unwind_rank"
# How long a section lasts after all others have been interrupted.
SECTION_MS = 500
SOFT_MS = 1000
HARD_MS = 2100
GRACE_MS = 1000


class Unwinding(Job):
    def start(self, count, *flags, **environment):
        self.runner = self.spawn(
            "run", "-n", count, *flags, "--", RANK, self.path, env={**self.env, **environment}
        )
        return self.entered(count, generation=1)

    def order(self, events, words):
        for event in events:
            self.socket.sendto(words.encode(), f"{self.path}.{event.pid}")

    def all_well(self, ranks, mark):
        """They return OK, and what a rank had before it opened its client it has after."""
        self.order(ranks, "ok")
        done = self.wait("done", len(ranks), mark)
        assert {(event["status"], event["clean"]) for event in done} == {("MUSTER_OK", "1")}, done
        self.ended()
        assert pids(ranks) <= {event.pid for event in self.events if event.what == "closed"}

    def of(self, rank, mark, *kinds):
        """What this process told from `mark` on, each as 'what value'."""
        return [
            " ".join([event.what, *event.values.values()])
            for event in self.events[mark:]
            if event.pid == rank.pid and event.what in kinds
        ]


@pytest.fixture
def job(spawn, env):
    folder = tempfile.mkdtemp(prefix="mst-", dir="/tmp")
    made = Unwinding(spawn, env, folder)
    yield made
    made.socket.close()
    shutil.rmtree(folder, ignore_errors=True)


def test_a_file_written_in_an_atomic_section_is_whole_63(pass_time, job, tmp_path):
    """A rank fails while another one writes a file in an atomic section that lasts for 500 ms.
    The other ranks are interrupted at once; the file is whole, no call was cut short, and the
    end of the section says that all restart."""
    ranks = job.start(3)
    path = tmp_path / "saved"
    mark = job.mark()
    job.order(ranks[:1], f"write {path}")
    job.wait("half", 1, mark)
    job.order(ranks[1:2], "fail while the other one writes")
    job.wait("told", 1, mark, status="MUSTER_EINTERRUPTED")
    pass_time(SECTION_MS)
    assert job.of(ranks[0], mark, "whole", "told", "returns", "callback") == []
    job.order(ranks[:1], "go")
    job.wait("whole", 1, mark, cut=0, inside="MUSTER_OK")
    assert job.wait("ended", 1, mark)[0]["status"] == "MUSTER_EINTERRUPTED"
    assert path.read_bytes() == b"a" * 100000 + b"b" * 100000
    again = job.entered(3, mark, generation=2, iteration=1)
    assert pids(again) == pids(ranks)
    job.all_well(again, mark)


def test_no_section_begins_after_the_interruption_64(job):
    """A function that was interrupted tries to begin an atomic section. It is refused at once,
    without a wait: nothing of its body runs."""
    ranks = job.start(2)
    mark = job.mark()
    job.order(ranks[:1], "deaf-write")
    job.wait("blocked", 1, mark)
    job.order(ranks[1:], "fail first")
    again = job.entered(2, mark, generation=2)
    assert job.of(ranks[0], mark, "half", "refused", "returns") == [
        "refused MUSTER_EINTERRUPTED", "returns MUSTER_EINTERRUPTED"]
    job.all_well(again, mark)


def test_a_failure_in_the_innermost_section_leaves_nothing_open_65(job):
    """The function fails in the innermost of nested atomic sections. That is a fault as any
    other. In the next attempt the rank is in no section: it is interrupted at once, and can
    begin one."""
    ranks = job.start(2)
    for turn in range(2):
        mark = job.mark()
        job.order(ranks[:1], "nest")
        ranks = job.entered(2, mark, generation=2 * turn + 2)
        mark = job.mark()
        job.order(ranks[:1], "frames")
        job.wait("blocked", 1, mark)
        job.order(ranks[1:], "fail and the other one hears of it")
        job.wait("freed", 1, mark, cut=1)
        ranks = job.entered(2, mark, generation=2 * turn + 3)
    job.all_well(ranks, mark)


def test_who_swallows_it_is_told_again_67(job):
    """The function goes on a few times although it was interrupted. It is interrupted again, by
    each call of muster and by the signal in each blocking call; then it returns, and its
    process goes on. That the reference repeats by raising an exception is not offered: nothing
    is thrown."""
    ranks = job.start(2)
    mark = job.mark()
    job.order(ranks[:1], "deaf 3")
    job.wait("blocked", 1, mark)
    job.order(ranks[1:], "fail and the other one does not heed it")
    again = job.entered(2, mark, generation=2, iteration=1)
    assert job.of(ranks[0], mark, "freed", "swallowed", "returns") == [
        "freed deaf 1", "swallowed MUSTER_EINTERRUPTED"] * 3 + ["returns MUSTER_EINTERRUPTED"]
    assert pids(again) == pids(ranks)
    job.all_well(again, mark)


def test_who_swallows_it_for_ever_is_ended_67(job):
    """The function always goes on although it was interrupted. It is killed after `hard`, and
    another process takes its place."""
    ranks = job.start(2, MUSTER_SOFT_TIMEOUT=f"{SOFT_MS}ms", MUSTER_HARD_TIMEOUT=f"{HARD_MS}ms",
                      MUSTER_GRACE=f"{GRACE_MS}ms")
    mark = job.mark()
    gone = os.pidfd_open(ranks[0].pid)
    job.order(ranks[:1], "deaf 0")
    job.wait("blocked", 1, mark)
    job.order(ranks[1:], "fail and the other one never heeds it")
    job.runner.log.wait_for(f"(#0, pid {ranks[0].pid})", said("no progress for", HARD_MS), meanwhile=job.drain)
    wait_gone(gone)
    again = settle(job, 2, mark)
    assert pids(again) & pids(ranks) == {ranks[1].pid}
    job.all_well(again, mark)


def test_interrupted_while_an_object_is_destroyed_68(job):
    """The interruption comes while an object is destroyed, and the function is done and does not
    look any more. It ends the call in which the destructor waits, and is not lost: the next
    attempt begins. An exception that a destructor would swallow is not offered."""
    ranks = job.start(2)
    mark = job.mark()
    job.order(ranks[:1], "late")
    job.wait("blocked", 1, mark, where="destructor")
    job.order(ranks[1:], "fail and the other one is on its way out")
    again = job.entered(2, mark, generation=2, iteration=1)
    assert job.of(ranks[0], mark, "freed", "destroyed", "returns", "callback") == [
        "freed destructor 1", "destroyed late", "returns MUSTER_OK", "callback finalize"]
    assert pids(again) == pids(ranks)
    job.all_well(again, mark)


OUT = ["destroyed inner", "destroyed middle", "destroyed outer"]


def test_objects_are_destroyed_once_and_innermost_first_69(job):
    """The function has objects in three frames, and is interrupted or throws within. They are
    destroyed exactly once, innermost first, before `finalize`, because the function returns.
    Cancelling its thread, which would unwind it from outside, is not offered."""
    ranks = job.start(2)
    mark = job.mark()
    job.order(ranks[:1], "frames")
    job.wait("blocked", 1, mark)
    job.order(ranks[1:], "throw")
    again = job.entered(2, mark, generation=2, iteration=1)
    kinds = ("destroyed", "returns", "callback")
    assert job.of(ranks[0], mark, *kinds) == [
        *OUT, "returns MUSTER_EINTERRUPTED", "callback finalize"]
    assert job.of(ranks[1], mark, *kinds)[:3] == OUT
    assert job.of(ranks[1], mark, *kinds)[4:] == ["callback finalize"]
    assert pids(again) == pids(ranks)
    job.all_well(again, mark)
