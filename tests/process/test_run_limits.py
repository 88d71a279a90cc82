# SPDX-License-Identifier: Apache-2.0
"""`muster run --max-time` and `--bind`: a run that ends after a time, or whose ranks share out the CPUs.

behaviour: run / The time of a run
"""

import json
import os
import re
import signal

import pytest

from conftest import free_port
from running import Run
from saving import Loop, loop  # noqa: F401

STAYS = "echo up; while :; do sleep 0.05; done"


def test_a_run_ends_when_its_time_is_over(spawn, tmp_path):
    """The time of --max-time is over. The ranks get SIGTERM and have the grace time; the run ends with
    124, whatever they end with, and its last line and its report say why."""
    report = tmp_path / "report.json"
    script = "trap 'echo told; exit 0' TERM; " + STAYS
    run = spawn("run", "-n", 2, "--max-time", "5s", "--grace", "1h", "--report", report, "--", "sh",
                "-c", script)
    assert run.wait() == 124, run.log.lines
    assert len(run.out.having("told")) == 2
    assert run.log.having("muster run: --max-time 5.0 s: stopping within 3600.0 s")
    assert run.log.lines[-1] == "muster run: stopped: the run has lasted 5.0 s, its --max-time"
    told = json.loads(report.read_text())
    assert (told["ending"], told["exit_code"]) == ("stopped", 124)
    cause = told["first_cause"]
    assert (cause["kind"], cause["code"], cause["index"]) == ("max-time", None, None)
    assert cause["message"] == "stopped: the run has lasted 5.0 s, its --max-time"


def test_ranks_that_stay_are_killed(spawn):
    """The time of --max-time is over, and a rank does not end. It is killed after the grace time, or at
    the second signal to `muster run`; the exit code stays 124."""
    script = "trap '' TERM; " + STAYS
    run = spawn("run", "--max-time", "4s", "--grace", "200ms", "--", "sh", "-c", script)
    assert run.wait() == 124, run.log.lines
    run = spawn("run", "--max-time", "4s", "--grace", "1h", "--", "sh", "-c", script)
    run.log.wait_for("--max-time 4.0 s: stopping within")
    run.signal(signal.SIGTERM)
    run.log.wait_for("Terminated: stopping within")
    run.signal(signal.SIGTERM)
    assert run.wait() == 124, run.log.lines


@pytest.mark.parametrize("script, code", [("exit 0", 0), ("exit 3", 3)])
def test_a_run_that_ends_before_is_as_without_it(muster, script, code):
    """The ranks end before --max-time is over. The run ends at once, as without it."""
    assert muster("run", "-n", 2, "--max-time", "1h", "--", "sh", "-c", script).returncode == code


def test_ranks_that_take_notices_save(loop):  # noqa: F811
    """The time of --max-time is over, and a rank takes notices of preemption. The ranks are not
    signalled: all save one step, and the run ends with 75."""
    job = loop(2, "--max-time", "8s")
    assert job.run.wait() == 75, job.log.lines
    job.saved_by_all()
    assert job.log.having(
        "--max-time 8.0 s: a notice for the ranks, which save and end within 30.0 s")
    assert "preempted: step " in job.last_line()


def test_ranks_that_have_not_saved_are_ended(loop, tmp_path):  # noqa: F811
    """The ranks have had a notice because of --max-time, and one does not save in the time of the
    notice. The ranks are ended, and the run ends with 124."""
    report = tmp_path / "report.json"
    job = loop(2, "--max-time", "8s", "--preempt-grace", "4s", "--report", report, LOOP_STUCK=1)
    assert job.run.wait() == 124, job.log.lines
    assert job.log.having("the time of the notice is over; the ranks are ended")
    assert json.loads(report.read_text())["first_cause"]["kind"] == "max-time"


def test_all_nodes_end_by_the_time_of_node_0(loop, spawn, muster, env):  # noqa: F811
    """The run has several nodes, and node 0 a --max-time. All end with 124 and the same last line."""
    port = free_port()
    first = loop(1, "--nnodes", 2, "--listen", f"127.0.0.1:{port}", "--insecure", "--max-time", "10s",
                 LOOP_DEAF=1)
    second = Loop(spawn, muster, env, first.dir, 1, "--join", f"127.0.0.1:{port}", "--insecure",
                  LOOP_DEAF=1)
    assert first.run.wait() == 124, first.log.lines
    assert second.run.wait() == 124, second.log.lines
    assert first.last_line() == second.last_line()
    assert first.last_line() == "muster run: stopped: the run has lasted 10.0 s, its --max-time"


# ---- --bind ----

ALLOWED = sorted(os.sched_getaffinity(0))
SHOW = ("--", "sh", "-c", "grep Cpus_allowed_list /proc/$$/status; grep Cpus_allowed_list /proc/self/status")


def cpus_of(lines):
    """{index: the set of CPUs that the rank may use}; its children may use the same."""
    found = {}
    for line in lines:
        index, text = re.match(r"\[(\d+)\]: Cpus_allowed_list:\s*(\S+)", line).groups()
        cpus = set()
        for part in text.split(","):
            first, _, last = part.partition("-")
            cpus |= set(range(int(first), int(last or first) + 1))
        assert found.setdefault(int(index), cpus) == cpus
    return found


def test_cores_are_shared_out(muster):
    """Processes are started with --bind core. Each may use a share of the cores that `muster run` may
    use, and so may what it starts; no core is of two processes while there are enough, and none is
    left over. [The CPUs of a run]"""
    count = min(len(ALLOWED), 2)
    done = muster("run", "-n", count, "--bind", "core", *SHOW)
    assert done.returncode == 0, done.stderr
    cpus = cpus_of(done.stdout.splitlines())
    assert sorted(cpus) == list(range(count))
    assert set().union(*cpus.values()) == set(ALLOWED)
    cores = int(re.search(r"muster run: --bind: (\d+) core", done.stderr)[1])
    if cores >= count:
        assert sum(map(len, cpus.values())) == len(ALLOWED)


def test_only_the_runs_own_cpus_are_shared_out(muster):
    """`muster run` may use one CPU only, and starts two processes with --bind core. Both are on that
    one, and a line says that they share it. [The CPUs of a run]"""
    done = muster("run", "-n", 2, "--bind", "core", *SHOW,
                  preexec_fn=lambda: os.sched_setaffinity(0, {ALLOWED[-1]}))
    assert done.returncode == 0, done.stderr
    assert cpus_of(done.stdout.splitlines()) == {0: {ALLOWED[-1]}, 1: {ALLOWED[-1]}}
    assert "muster run: --bind: 1 core for 2 processes; several share one" in done.stderr


@pytest.mark.parametrize("flags", [(), ("--bind", "none")])
def test_without_it_all_cpus_may_be_used(muster, flags):
    """Processes are started without --bind. Each may use all CPUs that `muster run` may use.
    [The CPUs of a run]"""
    done = muster("run", "-n", 2, *flags, *SHOW)
    assert cpus_of(done.stdout.splitlines()) == {0: set(ALLOWED), 1: set(ALLOWED)}
    assert "--bind" not in done.stderr


def test_numa_nodes_are_shared_out(muster):
    """One process is started with --bind numa. It may use all NUMA nodes. [The CPUs of a run]"""
    done = muster("run", "--bind", "numa", *SHOW)
    assert cpus_of(done.stdout.splitlines()) == {0: set(ALLOWED)}
    assert re.search(r"muster run: --bind: \d+ NUMA nodes? for 1 process$", done.stderr, re.M)


def test_a_restarted_process_has_the_cpus_of_its_place(spawn, muster):
    """A rank of a run with --bind is killed and started again. It may use the CPUs of the one before.
    [The CPUs of a run]"""
    job = Run(spawn, muster, 2, "--bind", "core")
    pid = job.entered()[1]["pid"]
    before = os.sched_getaffinity(pid)
    os.kill(pid, signal.SIGKILL)
    ranks = job.entered(2)
    assert os.sched_getaffinity(ranks[1]["pid"]) == before
    assert ranks[1]["pid"] != pid
    job.all_well(ranks)
