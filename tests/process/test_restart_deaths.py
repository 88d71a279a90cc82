# SPDX-License-Identifier: Apache-2.0
"""Deaths where they hurt most: while ranks are being assigned, with whoever watches them, with their
whole machine; and ranks that cannot be reached. What is done a thousand times is in
test_restart_thousand.py.

behaviour: restart
"""

import os
import pathlib
import random
import signal
import time

import pytest

from conftest import Process, sanitized
from discovering import sockets, told, wait_for_no_service
from restarting import RANK, job, pids  # noqa: F401
from running import status_at, until, wait_gone
from test_agent import hand, kill, left_of  # noqa: F401
from test_discover import LAUNCHERS
from wire import Wire

# ---- while an assignment is worked out ----

PAIRS = {"RR_CALLBACKS": "pairs"}
# From the word that all begin again: within it they meet, and are assigned their ranks.
SPREAD_S = 0.02 if sanitized() else 0.005


def running(job, count, mark=0, without=frozenset()):
    """The ranks of the newest generation in which exactly `count` run and all have entered."""
    while True:
        generations = {}
        for event in job.events[mark:]:
            if event.what == "entered" and event.number("size") == count:
                generations.setdefault(event.number("generation"), {})[event.pid] = event
        for _, found in sorted(generations.items(), reverse=True):
            if len(found) == count and not without & set(found):
                ranks = sorted(found.values(), key=lambda event: event.number("rank"))
                assert [event.number("rank") for event in ranks] == list(range(count))
                return ranks
        if not job.see(30):
            job.fail(f"no generation of {count} is complete")


def whole_pairs(ranks):
    indices = {event.index for event in ranks}
    return all(index ^ 1 in indices for index in indices)


@pytest.mark.parametrize("victim", ["who works it out", "who waits for it"])
def test_killed_while_pairs_are_assigned_36(job, victim):
    """A rank is killed while an assignment by pairs is worked out: the one that works it out, or
    one that waits for it. The assignment begins again with the ranks that are left. A rank
    that lost the other one of its pair waits as a spare."""
    job.run(6, "--max-restarts", 0, "--min-size", 2, RR_HOLD="pairs:2", **PAIRS)
    ranks = job.entered(6)
    mark = job.mark()
    job.order(ranks[3:4], "fail 1 so that all are assigned anew")
    (held,) = job.wait("held", 1, mark, name="pairs")
    others = [rank for rank in ranks if rank.pid != held.pid]
    killed = held if victim == "who works it out" else others[-1]
    gone = os.pidfd_open(killed.pid)
    os.kill(killed.pid, signal.SIGKILL)
    wait_gone(gone)
    if killed is not held:
        job.order([held], "go")
    again = running(job, 4, mark)
    assert whole_pairs(again)
    assert killed.index not in {event.index for event in again}
    assert pids(again) < pids(ranks)
    mark = job.mark()
    job.order(again, "ok")
    done = job.finish(5, mark)  # the one without its pair has waited as a spare
    assert {event.pid for event in done if event["spare"] == "1"} == pids(ranks) - pids(again) - {killed.pid}
    job.ended(None)


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_any_moment_of_an_assignment_36(job, seed):
    """A rank is killed at any moment of an assignment by pairs, and started again. Each time all
    pairs are whole again in the end."""
    dice = random.Random(seed)
    job.run(4, "--max-restarts", 1000, "--min-size", 1, **PAIRS)
    ranks = running(job, 4)
    for turn in range(12):
        mark = job.mark()
        failed, victim = dice.sample(ranks, 2)
        job.order([failed], f"fail {turn} and then a death")
        job.wait("told", 1, mark)
        time.sleep(dice.uniform(0, SPREAD_S))
        os.kill(victim.pid, signal.SIGKILL)
        again = running(job, 4, mark, {victim.pid})
        assert pids(ranks) - {victim.pid} < pids(again)
        for event in job.events[mark:]:
            if event.what == "entered":
                assert event.number("size") in (2, 4), event
        ranks = again
    mark = job.mark()
    job.order(ranks, "ok")
    job.finish(4, mark)
    job.ended()


# ---- with whoever watches them ----

LEASE_S = 4


def stand_at_seal(http, indices):
    """Waits until all of these wait at the seal."""
    until(lambda: {member["index"] for member in (status_at(http) or {"members": []})["members"]
                   if member["waits_at"] == "muster/seal"} >= indices)


def stop(pid):
    """All its threads stand still."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: all(task.read_text().rsplit(")", 1)[1].split()[0] == "T"
                      for task in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")))


@pytest.mark.parametrize("victims", [(2,), (1, 2)])
def test_killed_with_its_monitor_after_it_stood_at_the_seal_37(hand, victims):
    """A rank and its monitor are killed together, when it stands at the seal already; two
    neighbours too. They are counted into the next generation, and no agent reports that they
    are dead. They are lost with their lease, in one step, as unresponsive; no other rank is."""
    http = hand.path + ".http"
    ranks = hand.start(4, "--http", f"unix:{http}", lease=f"{LEASE_S}s")
    helpers = hand.all_helped(4)
    mark = hand.mark()
    hand.order(ranks[3:], "atomic")
    hand.wait("atomic", 1, mark)
    hand.order(ranks[:1], "fail 1 first")
    stand_at_seal(http, {0, 1, 2})
    for index in victims:  # it would be faster than its own end
        stop(helpers[index])
    wait_gone(*kill(*(ranks[index].pid for index in victims)))
    wait_gone(*kill(*(helpers[index] for index in victims)))
    silent = Wire(hand.service.address)
    assert silent.open_rank(0, 2, job="silent").status == 0
    hand.order(ranks[3:], "atomic-end")
    left = [rank for rank in ranks if rank.index not in victims]
    second = hand.wait("entered", len(left), mark, generation=2, size=4, iteration=1)
    assert pids(second) == pids(left)
    third = hand.entered(len(left), mark, generation=3, size=len(left))
    assert pids(third) == pids(left)
    hand.wait("told", len(left), hand.events.index(second[-1]))
    faults = [event for event in hand.events if event.what == "fault" and event["generation"] == "2"]
    assert {(event["kind"], event.number("index")) for event in faults} == {
        ("unresponsive", index) for index in victims}
    hand.service.log.wait_for("silent: member-lost #0", "cause=lease")
    lost = [line.split(": ")[0].split()[-1] for line in hand.service.log.having("member-lost #")]
    assert lost == ["default"] * len(victims) + ["silent"]
    silent.close()
    hand.end(third, mark)
    assert len(hand.service.log.having("default: member-lost #")) == len(victims)
    assert left_of(hand.env) == []


# ---- who is done first ----


def test_first_to_leave_takes_nothing_with_it_44(job):
    """The rank that would own a store, rank 0 of a run, finishes first. No rank owns anything:
    the service is the run's. It ends at once; the others restart and finish without it."""
    job.run(3, "--min-size", 1)
    ranks = job.entered(3)
    first = os.pidfd_open(ranks[0].pid)
    mark = job.mark()
    job.order(ranks[:1], "leave")
    job.order(job.wait("done", 1, mark), "end")
    wait_gone(first)
    again = job.entered(2, mark, size=2)
    mark = job.mark()
    job.order(again, "fail 1 both, without the first")
    again = job.entered(2, mark, size=2)
    job.order(again, "ok")
    job.finish(2, mark)
    job.ended()


def test_who_started_the_shared_service_does_not_wait_for_the_others_44(job, env, started):
    """The rank that started the shared service of a machine finishes first. It ends at once; the
    service ends after the last of the others."""
    clean = {key: value for key, value in job.env.items() if not LAUNCHERS.match(key)}
    clean["MUSTER_RUNTIME_DIR"] = env["MUSTER_RUNTIME_DIR"]
    place = {"PMI_SIZE": "3", "MPI_LOCALNRANKS": "3", "MUSTER_MIN_SIZE": "1"}
    processes = {}
    for rank in map(str, range(3)):
        process = Process([RANK, job.path],
                          {**clean, **place, "PMI_RANK": rank, "MPI_LOCALRANKID": rank})
        started.append(process)
        processes[process.pid] = job.runner = process
    ranks = job.entered(3)
    (starter,) = until(lambda: [pid for pid, process in processes.items()
                                if told("\n".join(process.log.lines))])
    job.runner = next(process for pid, process in processes.items() if pid != starter)  # who stays
    mark = job.mark()
    job.order([rank for rank in ranks if rank.pid == starter], "leave")
    job.order(job.wait("done", 1, mark), "end")
    assert processes[starter].wait() == 0
    again = job.entered(2, mark, size=2)
    (path,) = sockets(env)
    assert path.exists()
    mark = job.mark()
    job.order(again, "fail 1 both, without the one that started it")
    again = job.entered(2, mark, size=2)
    job.order(again, "ok")
    job.finish(2, mark)
    for rank in again:
        assert processes[rank.pid].wait() == 0
    wait_for_no_service(env)
    job.files.add(pathlib.Path(env["MUSTER_RUNTIME_DIR"], ".start"))  # the lock of those who start
    job.clean()
