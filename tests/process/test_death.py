# SPDX-License-Identifier: Apache-2.0
"""Which ends of a process are deaths that the others are told of, under `muster run`. The lease is
ten minutes: whoever is lost in a test was told of, and did not fall silent.

behaviour: run / How a death is known
"""

import os
import signal

import pytest

from conftest import MUSTER, pause
from running import RANK, Run

LEASE = ("--lease", "10m")


@pytest.fixture
def run(spawn, muster):
    def start(size, *flags, **options):
        return Run(spawn, muster, size, *LEASE, *flags, **options)

    return start


def replaced(job, index):
    """The place has a new process, and the others are the same."""
    before, after = job.generations()[1], job.entered(2)
    assert [i for i in before if before[i]["pid"] != after[i]["pid"]] == [index]
    job.all_well(after)


@pytest.mark.parametrize("mib", [1, 64])
def test_a_killed_rank_of_any_size(run, mib):
    """A rank of any size is killed, also while it computes. The others are notified at once."""
    job = run(3, rank=(RANK, mib))
    os.kill(job.entered()[2]["pid"], signal.SIGKILL)
    replaced(job, 2)


def test_a_crash_without_dump(run):
    """A rank crashes, with or without a core dump. It is reported: without a dump at once, with
    one when the dump is written."""
    job = run(2)
    job.entered()
    job.order(1, 1, "crash segv")
    replaced(job, 1)


def test_a_crash_with_dump(run, tmp_path):
    """A rank crashes, with or without a core dump. It is reported: without a dump at once, with
    one when the dump is written."""
    job = run(2, "--core", cwd=tmp_path)
    job.entered()
    job.order(1, 1, "crash segv")
    replaced(job, 1)


def test_an_exit_without_close(run):
    """A rank exits, or becomes another program, without closing its client. That is a death."""
    job = run(2)
    job.entered()
    job.order(0, 1, "exit 3")
    replaced(job, 0)
    job.log.wait_for("#0", "pid ", "ended with status 3; starting it again")


def test_an_exec_without_close(run):
    """A rank exits, or becomes another program, without closing its client. That is a death."""
    job = run(2)
    job.entered()
    job.order(1, 1, "exec")
    replaced(job, 1)


@pytest.mark.parametrize("what", ["thread", "child"])
def test_the_end_of_a_thread_or_a_child_is_none(run, what):
    """Another thread of the rank, or a child of it, ends. That is no death."""
    job = run(2)
    job.entered()
    job.order(1, 1, what)
    job.out.wait_for(f"{what} ended")
    job.order(1, 1, "ok", then=True)
    job.order(0, 1, "ok")
    assert job.run.wait() == 0
    assert not job.out.having("generation=2")


def test_a_stopped_rank_is_none(run, muster):
    """A rank is stopped and continued within its lease. That is no death."""
    job = run(2)
    ranks = job.entered()
    pid = ranks[1]["pid"]
    os.kill(pid, signal.SIGSTOP)
    while open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "T":
        pause()
    assert muster("status", "-j", job.job).returncode == 0
    os.kill(pid, signal.SIGCONT)
    job.all_well(ranks)
    assert not job.out.having("generation=2")


def test_an_exec_after_close_and_a_program_without_client_are_none(muster):
    """A process never opens a client. Its end is not reported as the loss of a member.

    `sh` opens no client; the command it runs does, and closes it; then `sh` becomes `true`."""
    script = "\"$0\" key put k v --addr $MUSTER_ADDR -j $MUSTER_JOB && exec true"
    done = muster("run", "-n", 2, *LEASE, "--", "sh", "-c", script, MUSTER)
    assert done.returncode == 0, done.stderr
