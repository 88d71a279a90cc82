# SPDX-License-Identifier: Apache-2.0
"""Unmodified processes of JAX beside a `muster agent --front`: plain subprocesses, without `muster run`. The
program is tests/interop/jax_job.py.

behaviour: fronts / muster agent --front
"""

import pytest

from agents import Agent, ended, members
from conftest import Process
from interop import JOBS, client
from running import until


@pytest.fixture
def agent(service, spawn):
    """agent(flags...): one, beside a service of this user."""
    return lambda *flags: Agent(spawn, *flags)


@pytest.fixture
def clients(started):
    """Processes that end before the agent, which waits for them."""
    yield from ended()


@pytest.fixture
def jax(clients, env):
    """jax(agent, size, steps...): processes of JAX with the agent's variables, and a place each as Slurm
    gives it."""
    python = client("jax") / "python"

    def start(agent, size, *steps):
        found = []
        for index in range(size):
            place = {
                "SLURM_JOB_ID": "77",
                "SLURM_STEP_NODELIST": "localhost",
                "SLURM_NTASKS": str(size),
                "SLURM_PROCID": str(index),
                "SLURM_LOCALID": str(index),
            }
            found.append(Process([python, JOBS / "jax_job.py", *steps], {**env, **agent.variables, **place}))
            clients.append(found[-1])
        return found

    return start


def test_a_job_of_jax_without_muster_run(agent, jax):
    """Four processes of JAX are started by hand. Sum, keys, barrier, live processes and the end are as
    with JAX's own service; the agent with --until-idle ends after them."""
    one = agent("--front", "xla", "--size", 4, "--until-idle")
    job = jax(one, 4, "psum", "kv", "barrier=one", "live")
    for index, process in enumerate(job):
        process.out.wait_for("ended", patience_s=180)
        assert process.wait() == 0, "\n".join(process.log.lines[-40:])
        assert process.out.having(f"{index} sum 10") and process.out.having("barrier one passed")
        assert process.out.having(f"{index} live [0, 1, 2, 3]")
    assert one.process.wait() == 0


def test_a_killed_process_of_jax_without_muster_run(agent, jax, muster, tmp_path):
    """Two processes of JAX are started by hand and one is killed. Status names it as lost with its pid, and
    the other one ends by JAX's own error, which names it too."""
    one = agent("--front", "xla", "--size", 2)
    job = jax(one, 2, "barrier=one", f"wait={tmp_path}/never")
    for process in job:
        process.out.wait_for("waits", patience_s=180)
    assert {index: (m["state"], m["pid"]) for index, m in members(muster).items()} == {
        index: ("present", process.pid) for index, process in enumerate(job)
    }
    job[1].kill()
    assert job[0].wait() != 0
    errors = [line for line in job[0].log.lines if "Terminating process because" in line]
    assert errors and f"(pid {job[1].pid} on " in errors[0], job[0].log.lines[-40:]
    until(lambda: members(muster)[1]["state"] == "lost")
    assert members(muster)[1]["pid"] == job[1].pid


def test_process_0_of_jax_dies_without_muster_run(agent, jax, tmp_path):
    """With --jax-recoverable and JAX's recovery process 0 is killed. The others go on and end well."""
    one = agent("--front", "xla", "--size", 3, "--jax-recoverable")
    job = jax(one, 3, "recoverable", "barrier=one", f"steps={tmp_path}/go")
    for process in job:
        process.out.wait_for("barrier one passed", patience_s=180)
    job[0].kill()
    one.log.wait_for("process 0: its process")
    (tmp_path / "go").touch()
    for index in (1, 2):
        assert job[index].wait() == 0, "\n".join(job[index].log.lines[-40:])
        assert job[index].out.having(f"{index} lived [1, 2]")
