# SPDX-License-Identifier: Apache-2.0
"""`muster run` of processes that are workers of the job, and no ranks.

behaviour: run / What ranks get
"""

import json
import os
import re
import signal

import pytest
from conftest import BUILD, MUSTER
from running import until

WORKER = BUILD / "tests" / "process" / "run_worker"
HELLO = MUSTER.parent / "hello"
COUNT = 3
SHORT_LEASE = "3s"  # who waits for a processor for less does not stand still


@pytest.fixture
def run(spawn):
    """run(flags...): three workers, when all have said who they are."""

    def start(*flags, count=COUNT):
        started = spawn("run", "-n", count, "-j", "workers", *flags, "--", WORKER)
        for index in range(count):
            started.out.wait_for(f"worker index={index} ")
        return started

    return start


def processes(started, index):
    """What was in its place, in the order in which it came."""
    said = [re.search(r"pid=(\d+) incarnation=(\d+)", line)
            for line in started.out.having(f"worker index={index} ")]
    return [(int(one[1]), int(one[2])) for one in said]


def member(muster, index):
    done = muster("status", "--json", "-j", "workers")
    assert done.returncode == 0, done.stderr
    (one,) = [one for one in json.loads(done.stdout)["members"]
              if one["role"] == "worker" and one["index"] == index]
    return one


def test_a_killed_worker_is_lost_at_once_and_started_again(run, muster):
    """A run of workers has one killed, again and again. Its death is known at once, and it is
    started again at once, as a rank would be."""
    started = run("--lease", "1h")  # so it is not the lease that says it
    for time in (1, 2, 3):
        pid, _ = processes(started, 1)[-1]
        until(lambda pid=pid: member(muster, 1)["pid"] == pid)
        os.kill(pid, signal.SIGKILL)
        started.log.wait_for(f"#1 (pid {pid}) was killed by signal 9 (Killed); starting it again",
                             f"({time} of 3)")
        started.out.wait_for("worker index=1 ", f"incarnation={time + 1}")
    assert member(muster, 1)["losses"] == 3
    assert len(processes(started, 0)) == len(processes(started, 2)) == 1


def test_a_worker_that_stands_still_is_ended_and_started_again(run, muster):
    """A worker stands still for longer than its lease. It is killed and started again."""
    started = run("--lease", SHORT_LEASE)
    pid, _ = processes(started, 2)[-1]
    os.kill(pid, signal.SIGSTOP)
    started.log.wait_for(f"#2 (pid {pid}) was silent for longer than the lease and was killed")
    started.out.wait_for("worker index=2 ", "incarnation=2")
    started.signal(signal.SIGTERM)
    started.wait()
    for index in (0, 1):  # on a busy machine they may have stood still as well
        silent = started.log.having(f"#{index} (pid ", "was silent for longer than the lease")
        assert len(processes(started, index)) <= 1 + len(silent)


def test_the_first_cause_knows_that_it_was_a_worker(run):
    """A worker is the first cause of a run's end. The line says that it was a worker of the job:
    it never is in a generation."""
    started = run("--lease", SHORT_LEASE, "--max-restarts", "0", count=1)  # none but this one
    pid, _ = processes(started, 0)[-1]
    os.kill(pid, signal.SIGSTOP)  # what the agent hears of it then, it hears after it has joined
    assert started.wait() != 0
    (cause,) = started.log.having("first cause: ")
    assert re.search(rf"#0 \(pid {pid}\) .*, \d+ ms after its start, as a worker of the job", cause)


def test_a_rank_beside_workers_is_refused_and_told_what_to_do(muster):
    """One process of a run opens as a rank, the others as workers, before or after it. The rank is
    refused with one line, which names a worker and says what to do; the run ends with it."""
    done = muster("run", "-j", "mixed", "--max-restarts", 0, "-n", 1, HELLO, ":", "-n", 2, WORKER)
    assert done.returncode == 1
    assert re.search(
        r"^\[0\]: hello: join job 'mixed': this rank would wait forever for the others, as "
        r"#[12] \(pid \d+, node \S+\) is a worker: open this one with options.role = "
        r"MUSTER_ROLE_WORKER too \(a coordinator needs no rank\), or all of them as ranks$",
        done.stderr, re.M), done.stderr
