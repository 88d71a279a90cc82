# SPDX-License-Identifier: Apache-2.0
"""Restart of a function in the same processes: real ranks, real signals. restarting.py says how the
ranks are told what to do.

behaviour: restart / Deaths
"""

import contextlib
import os
import random
import signal

import pytest

from conftest import BUILD, WAIT_S, sanitized
from restarting import belongings, either_job, job, pids, settle  # noqa: F401


def test_all_return_ok(either_job):
    """The function returns OK everywhere. The run is over on all ranks. [The good case]"""
    either_job.run(3)
    either_job.order(either_job.entered(3, generation=1, iteration=0, size=3), "ok")
    either_job.finish(3)
    either_job.ended()


def test_ok_waits_for_the_others(job):
    """One rank is done earlier. It waits: another may still fail, and then all run again.
    [The good case]"""
    job.run(2)
    ranks = job.entered(2)
    job.order(ranks[:1], "ok")
    job.wait("returns", 1)
    mark = job.mark()
    job.order(ranks[1:], "status -17")
    again = job.entered(2, mark, generation=2, iteration=1)
    assert pids(again) == pids(ranks)
    assert not any(event.what == "done" for event in job.events)
    job.order(again, "ok")
    job.finish(2)
    job.ended()


@pytest.mark.parametrize("order", ["fail 3 disk full", "status -17", "status 42", "again"])
def test_one_fails_all_restart(either_job, order):
    """One rank fails by report or by what it returns, or asks to restart. All enter again, in the
    next generation, in the same processes, and the others were notified. [Failures]"""
    either_job.run(3)
    ranks = either_job.entered(3)
    mark = either_job.mark()
    either_job.order(ranks[1:2], order)
    again = either_job.entered(3, mark, generation=2, iteration=1, size=3)
    assert pids(again) == pids(ranks)
    told = [event for event in either_job.events[mark:] if event.what == "told"]
    assert pids(told) == pids([ranks[0], ranks[2]])
    either_job.order(again, "ok")
    either_job.finish(3)
    either_job.ended()


def test_many_restarts(either_job):
    """There are many restarts. The processes are the same after 50 of them, with as many
    descriptors and threads as before. [Failures]"""
    either_job.run(3)
    ranks = either_job.entered(3)
    before = belongings(ranks)
    for turn in range(50):
        mark = either_job.mark()
        either_job.order(ranks[turn % 3 : turn % 3 + 1], f"fail {turn} once more")
        again = either_job.entered(3, mark, generation=turn + 2, iteration=turn + 1)
        assert [event.pid for event in again] == [event.pid for event in ranks]
        ranks = again
    assert belongings(ranks) == before
    either_job.order(ranks, "ok")
    either_job.finish(3)
    either_job.ended()


@pytest.mark.parametrize("how", ["read", "recv", "poll", "sleep", "semaphore", "barrier"])
def test_blocked_on_a_healthy_peer_30(job, how, lateness):
    """A rank is blocked in `read`, `recv`, `poll`, a sleep, a semaphore or a barrier of muster,
    on a peer that is well, and has no abort callback. It is freed within 100 ms and survives:
    the call ends with EINTR, a call of muster with EINTERRUPTED. [Being called out]"""
    job.run(3)
    ranks = first = job.entered(3)
    took = []
    for generation in (2, 3, 4):
        mark = job.mark()
        job.order(ranks[:1], f"block {how}")
        job.wait("blocked", 1, mark)
        job.order(ranks[2:], "fail 9 the blocked one must hear of it")
        returned = job.wait("returns", 1, mark, status=-17)[0]
        freed = job.wait("freed", 1, mark)[0]
        took.append(freed.at - returned.at)
        if how == "barrier":
            assert freed["status"] == "MUSTER_EINTERRUPTED"
        else:
            assert freed["errno"] == "4"  # EINTR
        ranks = job.entered(3, mark, generation=generation)
        assert pids(ranks) == pids(first)
    assert min(took) < (2.0 if sanitized() else 0.1) + lateness.spare_s(), took
    job.order(ranks, "ok")
    job.finish(3)
    job.ended()


def test_killed_rank_is_replaced_83(job):
    """A rank is killed while another one waits for it or for a third. The others are freed,
    `muster run` starts a new process in the place, which joins at the next generation, and all
    survivors are the processes they were."""
    job.run(4)
    ranks = job.entered(4)
    job.order(ranks[:1], "block recv")
    job.wait("blocked", 1)
    mark = job.mark()
    os.kill(ranks[2].pid, signal.SIGKILL)
    job.wait("freed", 1, mark, errno=4)
    again = settle(job, 4, mark)
    survivors = pids(ranks) - {ranks[2].pid}
    assert survivors < pids(again)
    assert ranks[2].pid not in pids(again)
    assert [event.index for event in again] == [0, 1, 2, 3]
    job.order(again, "ok")
    job.finish(4, mark)
    job.ended()


def test_rank_zero_killed_and_replaced_42(job):
    """Rank 0 is killed while others wait for it. They are freed, and the place gets a new
    process."""
    job.run(3)
    ranks = job.entered(3)
    mark = job.mark()
    os.kill(ranks[0].pid, signal.SIGKILL)
    again = settle(job, 3, mark)
    job.order(again, "ok")
    job.finish(3, mark)
    job.ended()


def test_killed_while_others_complete(job):
    """A rank is killed while the others are done already. They run again with the new one: no
    rank is done alone."""
    job.run(3)
    ranks = job.entered(3)
    job.order(ranks[:2], "ok")
    job.wait("returns", 2)
    mark = job.mark()
    os.kill(ranks[2].pid, signal.SIGKILL)
    again = settle(job, 3, mark)
    assert not any(event.what == "done" for event in job.events)
    job.order(again, "ok")
    job.finish(3, mark)
    job.ended()


@pytest.mark.parametrize("point", ["returned", "told", "freed"])
def test_killed_on_the_way_to_the_seal(job, point):
    """A rank is killed on the way to the seal, as soon as it knows of a failure. The others seal
    the next generation."""
    job.run(4)
    ranks = job.entered(4)
    job.order(ranks[3:], "block read")
    job.wait("blocked", 1)
    mark = job.mark()
    job.order(ranks[1:2], "fail 1 first")
    if point == "returned":
        victim = job.wait("returns", 1, mark)[0]
    else:
        victim = job.wait(point, 1, mark)[0]
    os.kill(victim.pid, signal.SIGKILL)
    # It may have got as far as the next generation before it dies.
    again = settle(job, 4, mark, victim.pid)
    assert victim.pid not in pids(again)
    assert pids(ranks) - {victim.pid} < pids(again)
    job.order(again, "ok")
    job.finish(4, mark)
    job.ended()


def test_killed_at_the_seal(job):
    """A rank stands at the seal while another has not returned yet, and is killed there. The
    others seal the next generation."""
    job.run(3)
    ranks = job.entered(3)
    job.order(ranks[2:], "block deaf")
    job.wait("blocked", 1)
    mark = job.mark()
    job.order(ranks[:1], "fail 1 first")
    job.wait("told", 1, mark)
    os.kill(ranks[0].pid, signal.SIGKILL)
    job.wait("started", 1, mark)
    os.kill(ranks[2].pid, signal.SIGKILL)
    again = settle(job, 3, mark)
    assert ranks[1].pid in pids(again)
    job.order(again, "ok")
    job.finish(3, mark)
    job.ended()


@pytest.mark.parametrize("seed", range(6))
def test_storm(job, seed):
    """Failures and kills come again and again at any moment, by a seed. No rank hangs, no
    survivor is replaced, all that were in a generation saw the same one, and in the end all
    are there."""
    dice = random.Random(seed)
    job.run(4, "--max-restarts", 100)
    ranks = settle(job, 4, 0)
    for turn in range(6):
        mark = job.mark()
        failed, killed, blocked = dice.sample(ranks, 3)
        if dice.random() < 0.5:
            job.order([blocked], "block " + dice.choice(["read", "barrier", "semaphore"]))
        if dice.random() < 0.7:
            job.order([failed], f"fail {turn} storm")
        for _ in range(dice.randrange(8)):
            job.see(0.02)
        os.kill(killed.pid, signal.SIGKILL)
        # Until the killed one is replaced; generations with fewer ranks may come before.
        ranks = settle(job, 4, mark + 1, without=killed.pid)
        assert pids(ranks) >= {event.pid for event in (failed, blocked)}
    job.order(ranks, "ok")
    job.finish(4, job.mark())
    job.ended()
    generations = {}
    for event in job.events:
        if event.what == "entered":
            seen = generations.setdefault(event["generation"], {})
            assert seen.setdefault("size", event["size"]) == event["size"]
            assert seen.setdefault(event["rank"], event.pid) == event.pid


@pytest.mark.parametrize("seed", range(8))
def test_killed_at_the_completion(job, seed):
    """All return OK while one rank is killed. Either all living ranks are done, or all run again,
    never some of them this and some that."""
    dice = random.Random(seed)
    job.run(4)
    ranks = job.entered(4)
    victim = dice.choice(ranks)
    job.order(ranks, "ok")
    for _ in range(dice.randrange(9)):
        job.see(0.02)
    os.kill(victim.pid, signal.SIGKILL)
    survivors = pids(ranks) - {victim.pid}
    while True:
        done = [event for event in job.events if event.what == "done" and event.pid in survivors]
        again = [event for event in job.events if event.what == "entered" and event["iteration"] != "0"]
        if again:
            assert not done, "some are done and some run again"
            ranks = settle(job, 4, 0, without=victim.pid)
            assert survivors < pids(ranks)
            job.order(ranks, "ok")
            job.finish(4, job.mark())
            break
        if len(done) == 3:
            assert {event["status"] for event in done} == {"MUSTER_OK"}
            job.order(done, "end")
            break
        if not job.see(WAIT_S):
            job.fail("neither done nor again")
    # Who is started in the place of the dead one is told that all is over, if it comes to ask.
    while job.runner.process.poll() is None:
        if job.see(0.02) and job.events[-1].what == "done":
            assert job.events[-1]["status"] == "MUSTER_OK"
            with contextlib.suppress(ConnectionRefusedError):  # the run has ended it already
                job.order(job.events[-1:], "end")
    job.ended(None)


def test_who_does_not_return_is_evicted(job):
    """A rank never comes back from the function, and nothing looks for hangs. At the seal's
    deadline it is evicted, its agent kills it, and a new process takes its place."""
    job.run(3, MUSTER_BARRIER_TIMEOUT="4s", MUSTER_SOFT_TIMEOUT="-1", MUSTER_HARD_TIMEOUT="-1")
    ranks = job.entered(3)
    job.order(ranks[2:], "block deaf")
    job.wait("blocked", 1)
    mark = job.mark()
    job.order(ranks[:1], "fail 1 first")
    first = job.wait("entered", 2, mark, generation=2)
    assert pids(first) == pids(ranks[:2])
    again = settle(job, 3, mark)
    assert ranks[2].pid not in pids(again)
    job.runner.log.wait_for(f"pid {ranks[2].pid}) did not come to the restart in time and was killed")
    job.order(again, "ok")
    job.finish(3, mark)
    job.ended()


def test_too_few(job):
    """Fewer than `min_size` are left. The run ends on all of them together, with the numbers
    (ETOOFEW). [Fewer, and the end]"""
    job.run(3, "--min-size", 3, "--max-restarts", 0)
    ranks = job.entered(3)
    job.order(ranks[1:2], "leave")
    done = job.wait("done", 3)
    few = [event for event in done if event.pid != ranks[1].pid]
    assert {event["status"] for event in few} == {"MUSTER_ETOOFEW"}
    assert all("2" in event.text and "3" in event.text for event in few), few
    job.order(done, "end")
    job.ended(1)


def test_the_run_after_too_few_waits_for_the_replacement(job, tmp_path):
    """A run that ended with ETOOFEW, without a wait for the replacement, is followed by another. One
    call waits until the missing ranks are back, without entering the function, for
    `barrier_timeout` at most. [Fewer, and the end]"""
    held = tmp_path / "held"  # while it is there no process begins
    hold = ("sh", "-c", 'while [ -e "$0" ]; do sleep 0.05; done; exec "$@"', held)
    job.run(3, "--min-size", 3, "--max-restarts", 1, "--replace-wait=0", behind=hold)
    ranks = job.entered(3)
    held.touch()
    mark = job.mark()
    os.kill(ranks[1].pid, signal.SIGKILL)
    few = job.wait("done", 2, mark)
    assert {event["status"] for event in few} == {"MUSTER_ETOOFEW"}
    mark = job.mark()
    job.order(few, "run")
    held.unlink()
    again = job.entered(3, mark, iteration=0)
    assert not [event for event in job.events[mark:] if event.what == "done"]
    mark = job.mark()
    job.order(again, "ok")
    job.finish(3, mark)
    job.ended()


def test_too_few_then_the_group_is_started_again(job):
    """One rank has left and the others are too few, and restarts are left. The whole group is
    started anew. [Fewer, and the end]"""
    job.run(3, "--min-size", 3, "--max-restarts", 1)
    ranks = job.entered(3)
    mark = job.mark()
    job.order(ranks[1:2], "leave")
    done = job.wait("done", 3)
    job.order(done, "end")
    again = job.entered(3, mark, iteration=0)
    assert not pids(again) & pids(ranks)
    mark = job.mark()
    job.order(again, "ok")
    job.finish(3, mark)
    job.ended()


def test_shrinks_when_allowed(job):
    """Fewer ranks are allowed. The survivors go on with fewer, renumbered. [Fewer, and the end]"""
    job.run(3, "--min-size", 2, "--max-restarts", 0)
    ranks = job.entered(3)
    mark = job.mark()
    os.kill(ranks[0].pid, signal.SIGKILL)
    again = job.entered(2, mark, size=2)
    assert [event.index for event in again] == [1, 2]
    job.order(again, "ok")
    job.finish(2, mark)
    job.ended(None)


def test_leave(job):
    """A rank leaves for good. Its own run ends well; the others seal a generation without it.
    [Fewer, and the end]"""
    job.run(3, "--min-size", 2)
    ranks = job.entered(3)
    mark = job.mark()
    job.order(ranks[1:2], "leave")
    left = job.wait("done", 1, mark)
    assert pids(left) == {ranks[1].pid}
    assert left[0]["status"] == "MUSTER_OK"
    job.order(left, "end")
    again = job.entered(2, mark, size=2)
    mark = job.mark()
    job.order(again, "ok")
    job.finish(2, mark)
    job.ended()


def test_two_runs_on_one_client(job):
    """A second run is made on the same client. It works as the first one. [The good case]"""
    job.run(2)
    ranks = job.entered(2)
    job.order(ranks, "ok")
    done = job.wait("done", 2)
    mark = job.mark()
    job.order(done, "run")
    ranks = job.entered(2, mark, generation=1, iteration=0)
    mark = job.mark()
    job.order(ranks[:1], "fail 1 in the second run")
    ranks = job.entered(2, mark, generation=2, iteration=1)
    job.order(ranks, "ok")
    job.finish(2, mark)
    job.ended()


def test_nested_run_is_refused(job):
    """A run is started within a run. It fails with EDEADLK, and the outer one goes on.
    [What is refused]"""
    job.run(1)
    ranks = job.entered(1)
    job.order(ranks, "nested")
    nested = job.wait("nested")[0]
    assert nested["status"] == "MUSTER_EDEADLK"
    job.order(ranks, "ok")
    job.finish(1)
    job.ended()


def test_without_the_signal(job):
    """The signal is switched off. The ranks are interrupted at calls of muster only.
    [Being called out]"""
    job.run(2, MUSTER_INTERRUPT_SIGNAL="0")
    ranks = job.entered(2)
    job.order(ranks[:1], "block barrier")
    job.wait("blocked", 1)
    mark = job.mark()
    job.order(ranks[1:], "fail 1 no signal")
    job.wait("freed", 1, mark, status="MUSTER_EINTERRUPTED")
    job.order(job.entered(2, mark, generation=2), "ok")
    job.finish(2)
    job.ended()


def test_what_is_refused(muster):
    """The function asks for its view. Generation, rank, size and iteration are those of this
    call. [The good case]"""
    done = muster("run", "-n", 1, "--", BUILD / "tests" / "process" / "restart_refused")
    assert done.returncode == 0, done.stdout + done.stderr
