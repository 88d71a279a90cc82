# SPDX-License-Identifier: Apache-2.0
"""The real Slurm: a cluster of this machine's own, four nodes that are all this host.

behaviour: discover / Finding a place
"""

import os
import re
import shlex
import socket

import pytest

import slurm
from conftest import MUSTER, Process, Service
from discovering import RANK, marked, pidfds, placed, told, wait_for_no_service
from running import until, wait_gone

REASON = slurm.reason_not_to_run()

pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.fixture(scope="module")
def cluster():
    # The first is named as this host: a name that the others can look up.
    cluster = slurm.Cluster([socket.gethostname(), "zzz2", "zzz3", "zzz4"])
    yield cluster
    cluster.stop()


@pytest.fixture
def env(env):
    """What a task gets of ours; the rest is the cluster's."""
    return {"MUSTER_RUNTIME_DIR": env["MUSTER_RUNTIME_DIR"]}


@pytest.mark.parametrize("flags", [[], ["--mpi=pmi2"], ["--mpi=pmix"]], ids=str)
def test_tasks_of_srun_join_by_themselves(cluster, env, flags):
    """`srun` starts a program on one node, with or without PMI or PMIx. Its tasks join by
    themselves, under the name of the job and the step."""
    done = cluster.run("-N1", "-n4", *flags, RANK, "SLURM_PROCID", env=env)
    if flags and "plugin" in done.stderr:
        pytest.skip(f"this Slurm has no {flags[0]}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert placed(done.stdout) == {rank: 4 for rank in range(4)}
    (line,) = told(done.stderr)
    assert "job 'slurm-" in line and ".0'" in line
    wait_for_no_service(env)


def test_two_steps_of_one_job_are_two_jobs(cluster, env):
    """One job of Slurm has two steps at once. They are two jobs."""
    script = f"srun -n2 --overlap {RANK} SLURM_PROCID & srun -n2 --overlap {RANK} SLURM_PROCID; wait"
    said, code = cluster.batch(script, "-N1", "-n2", env=env)
    assert code == 0, said
    assert said.count("rank 0 of 2") == said.count("rank 1 of 2") == 2
    names = [line.split("job '")[1].split("'")[0] for line in told(said)]
    assert sorted(name[-2:] for name in names) == [".0", ".1"]


def test_a_batch_script_outside_srun_is_told(cluster, env):
    """A batch script of Slurm starts the program without `srun`. It is refused: it is no task,
    though it has a rank's variables. [Not guessing]"""
    said, code = cluster.batch(f"{RANK} SLURM_PROCID", "-N1", "-n4", env=env)
    assert code == 1
    assert "but this process is no task of srun: it is in the batch script" in said
    assert "of 4 tasks: start it with srun, or set MUSTER_INDEX and MUSTER_SIZE" in said


def test_a_batch_script_of_one_task_is_a_job_of_one(cluster, env):
    """The launcher started one process. It is a job of its own, as a program started by hand."""
    said, code = cluster.batch(f"{RANK} SLURM_PROCID", "-N1", "-n1", env=env)
    assert code == 0, said
    assert placed(said) == {0: 1} and "a job of one" in said


def test_tasks_on_several_nodes_need_an_address(cluster, env):
    """The ranks are on several nodes and no address is set. They are refused: one line says where
    this process is and how to start a service."""
    done = cluster.run("-N3", "-n3", RANK, "SLURM_PROCID", env=env)
    assert done.returncode == 1
    assert "this is rank 2 of 3 (Slurm), not all on this machine" in done.stderr
    assert "srun --ntasks-per-node=1 muster run" in done.stderr


def test_tasks_on_several_nodes_join_at_the_address(cluster, env, started):
    """`MUSTER_ADDR` is set. The rank joins there, with the index, size and job's name of its
    launcher."""
    service = Service(["--addr", "127.0.0.1:0"], {**os.environ, **env})
    started.append(service)
    done = cluster.run(
        "-N3", "-n6", RANK, "SLURM_PROCID", env={**env, "MUSTER_ADDR": service.address}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert placed(done.stdout) == {rank: 6 for rank in range(6)}
    service.log.wait_for("slurm-", "member-ready #5")


def test_mpirun_in_an_allocation_counts_and_not_its_daemon(cluster, env):
    """`mpirun` or `mpiexec` runs in an allocation of Slurm, whose variables say something else.
    Its numbers count, not those of its daemons."""
    if not slurm.program("mpiexec.mpich"):
        pytest.skip("MPICH is not installed")
    command = f"mpiexec.mpich -launcher fork -n 3 {RANK} PMI_RANK"
    said, code = cluster.batch(command, "-N1", "-n2", env=env)
    assert code == 0, said
    assert placed(said) == {rank: 3 for rank in range(3)}


def test_env_in_a_step(cluster, env):
    """`muster env` runs under a launcher. It says which row won and why, the place, the runtime
    directory, and what of the kernel's help works here; `-v` adds every row. [muster env]"""
    done = cluster.run("-N3", "--ntasks-per-node=2", MUSTER, "env", "-v", env=env)
    assert done.returncode == 0, done.stderr
    assert "place      rank 5 of 6, local rank 1 of 2, node 2 of 3" in done.stdout
    assert done.stdout.count(f"rank 0 on  {cluster.names[0]}\n") == 6


def test_muster_run_in_a_step(cluster, env):
    """`muster run` starts the ranks, itself started by a launcher. A rank's place is the run's."""
    done = cluster.run(
        "-N1", "-n1", MUSTER, "run", "-n", "2", "--no-label", "--", RANK, "MUSTER_INDEX", env=env
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert placed(done.stdout) == {0: 2, 1: 2}


def test_muster_run_in_a_batch_script_of_one_node(cluster, env):
    """`muster run` starts the ranks, itself started by a launcher. A rank's place is the run's."""
    command = shlex.join(
        map(str, [MUSTER, "run", "-n", "2", "--no-label", "--", RANK, "MUSTER_INDEX"])
    )
    said, code = cluster.batch(command, "-N1", "-n2", env=env)
    assert code == 0, said
    assert placed(said) == {0: 2, 1: 2}


def test_muster_run_on_three_nodes_needs_no_flag(cluster, env, muster):
    """`srun` starts one `muster run` on each of three nodes. No flag is needed: they are one run."""
    if "--nnodes" not in muster("run", "--help").stdout:
        pytest.skip("this muster runs on one node")
    more = {"MUSTER_STATE_DIR": env["MUSTER_RUNTIME_DIR"],
             "MUSTER_KEEP_RUNS": "0"}
    done = cluster.run(
        "-N3", "--ntasks-per-node=1", MUSTER, "run", "-n", "2", "--no-label", "--", RANK,
        "MUSTER_INDEX", env={**env, **more},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert placed(done.stdout) == {rank: 6 for rank in range(6)}


def test_the_first_three_nodes_of_a_step_have_the_replicas(cluster, env, muster, started):
    """A step has four nodes. Without a flag, the service of its run has replicas on the first three of
    the node list, and the fourth has none. [nodes / Replicas of the service]"""
    if b"without replicas" in MUSTER.read_bytes():
        pytest.skip("this muster was built without replicas")
    more = {"MUSTER_STATE_DIR": env["MUSTER_RUNTIME_DIR"], "MUSTER_KEEP_RUNS": "0"}
    step = Process(cluster.srun("-N4", "--ntasks-per-node=1", MUSTER, "run", "--", RANK, "MUSTER_INDEX", "hold"),
                   {**cluster.env, **env, **more})
    started.append(step)
    for rank in range(4):
        step.out.wait_for(f"rank {rank} of 4")
    (running,) = until(lambda: len(steps := cluster.steps()) == 1 and steps)

    def replicas():
        keys = muster("key", "ls", "muster/run-replica/").stdout
        return sorted(int(key) for key in re.findall(r"muster/run-replica/(\d+)", keys))

    until(lambda: len(replicas()) == 3)
    assert replicas() == [0, 1, 2]
    cluster.cancel(running)
    assert step.wait() != 0


@pytest.mark.parametrize("what", ["job", "step"])
def test_what_is_cancelled_ends_on_all_nodes(cluster, env, started, what):
    """A step or its job is cancelled (`scancel`). Nothing of it lives on. A job gets SIGTERM
    first, also the service and the keepers, and leaves no file either.
    [nodes / A run over several nodes]"""
    step = Process(
        cluster.srun("-N3", "--ntasks-per-node=1", MUSTER, "run", "-n", "2", "--", RANK,
                     "MUSTER_INDEX", "hold"),
        {**cluster.env, **env, "MUSTER_STATE_DIR": env["MUSTER_RUNTIME_DIR"],
             "MUSTER_KEEP_RUNS": "0"},
    )  # fmt: skip
    started.append(step)
    for rank in range(6):
        step.out.wait_for(f"rank {rank} of 6")
    left = pidfds(pid for pid in marked(env["MUSTER_RUNTIME_DIR"]) if pid != step.pid)
    (running,) = until(lambda: len(steps := cluster.steps()) == 1 and steps)
    cluster.cancel(running if what == "step" else running.split(".")[0])
    assert step.wait() != 0
    wait_gone(*left)
    if what == "job":
        assert os.listdir(env["MUSTER_RUNTIME_DIR"]) == []
