# SPDX-License-Identifier: Apache-2.0
"""Ordinary MPI jobs that are preempted: one rank gets SIGTERM, all save one step, and what becomes
of the exit code is the launcher's word. Under srun: test_slurm_preempt.py.

behaviour: preemption / Slurm and MPI, the real ones
"""

import os
import re
import signal

import pytest

from conftest import MUSTER, Process
from mpi import SIZE, Launcher, saves_and_goes_on
from saving import noting, on_disk_first
from test_demo import CHARLM, HOLD, STEPS, ended, events, folder, result  # noqa: F401
from test_discover import MPI, env, installed  # noqa: F401


@pytest.fixture
def launcher(env, tmp_path, started):  # noqa: F811
    def of(name, *flags):
        command, _ = installed(name)
        return Launcher([*command, SIZE, *flags], name, env, tmp_path, started)

    return of


@pytest.mark.parametrize("name", MPI)
def test_an_mpi_job_saves_one_step_ends_with_75_and_goes_on(launcher, name):
    """One rank of an MPI program gets SIGTERM, under Open MPI's `mpirun` or MPICH's `mpiexec`.
    All save the same step, the launcher ends with 75, and the same command goes on from there
    to the result of an undisturbed run."""
    assert saves_and_goes_on(launcher(name)) == 75


@pytest.mark.parametrize("name", MPI)
def test_an_mpi_job_is_told_by_hand(launcher, name, muster, env):  # noqa: F811
    """`muster preempt` gives an MPI job a notice. All save the same step, the launcher ends with
    75, and the same command goes on from there."""
    run = launcher(name).begin()
    job = re.search(r"are job '(.*?)'", run.log.wait_for("are job '"))[1]
    assert muster("preempt", "-j", job, "--in", "60s", env=env).returncode == 0
    assert run.wait() == 75
    run.saved()


@pytest.mark.parametrize("name", MPI)
def test_an_mpi_job_is_told_by_a_source(launcher, name, env, tmp_path):  # noqa: F811
    """A file that the environment of an MPI job names as a source appears. The helper of the
    node's first rank sees it, and all save the same step."""
    stop, ready = tmp_path / "stop", tmp_path / "ready"
    env["MUSTER_PREEMPT_SOURCES"] = f"signals,file={stop}"
    run = launcher(name).begin()
    ready.write_text("60s the rack is drained\n")
    ready.rename(stop)
    assert run.wait() == 75
    run.saved()
    assert run.log.having("a notice of 'file' for this node: the rack is drained; ")


@pytest.mark.parametrize("name", MPI)
def test_what_an_mpi_job_saves_is_on_the_disk_before_it_counts(launcher, name, env, tmp_path):  # noqa: F811
    """`preempt/train`, `mpi/train` or `python/train.py` saves. The file is on the disk before it
    is renamed to the one that counts. [examples / Preemption]"""
    env.update(noting(tmp_path / "syncs"))
    run = launcher(name).begin()
    os.kill(run.pid_of(1), signal.SIGTERM)
    assert run.wait() == 75
    for rank in range(SIZE):
        assert on_disk_first(tmp_path / "syncs", f"{run.saves}.{rank}.new")


def test_sigterm_to_mpiexec_of_mpich_is_handed_on(launcher):
    """MPICH's `mpiexec` itself gets SIGTERM. It hands it on: all save the same step, and each
    says so. Its own exit code is 75 or 0: once it was sent a signal, Hydra 4.0 takes a rank's
    status for 0 now and then, and those of all ranks at once in one of seven."""
    run = launcher("mpich").begin()
    run.signal(signal.SIGTERM)
    assert run.wait() in (75, 0)
    run.saved()


def test_sigterm_to_mpirun_of_open_mpi_is_the_end(launcher):
    """Open MPI's `mpirun` itself gets SIGTERM. It kills its ranks a second later, whether they
    have saved or not, and ends with 1."""
    run = launcher("openmpi").begin()
    run.signal(signal.SIGTERM)
    assert run.wait() == 1


def test_mpirun_starts_muster_run_which_replaces_a_killed_rank(env, folder, started):  # noqa: F811
    """`mpirun -n 3 muster run -n 1 -- PROG`: Open MPI's launcher starts one `muster run` per task,
    and these are the nodes of one job. A rank is killed: its `muster run` starts it again, the
    others go on in their processes, and `mpirun` ends with 0. [discover / Finding a place]"""
    command, _ = installed("openmpi")
    run = Process([*command, SIZE, MUSTER, "run", "-n", 1, "--max-restarts", 1, "--", CHARLM, "--steps",
                   STEPS, folder], {**env, "CHARLM_HOLD": str(HOLD)})
    started.append(run)
    run.out.wait_for(" holding ")
    run.out.wait_for(" started ", count=SIZE)
    pids = {event.index: int(event["pid"]) for event in events(run, "started")}
    os.kill(pids[1], signal.SIGKILL)
    assert ended(run) == 0, "\n".join(run.log.lines)
    assert result(run)["steps"] == str(STEPS)
    assert run.log.having(f"rank 1 (#1, pid {pids[1]}) was killed by signal 9", "starting it again (1 of 1)")
    again = [(event.index, int(event["pid"])) for event in events(run, "started")]
    assert len(again) == SIZE + 1 and {index for index, pid in again if pid not in pids.values()} == {1}
