# SPDX-License-Identifier: Apache-2.0
"""The real Slurm preempts a job: the recipe of docs/preemption.md as it is written there, on a
cluster of this machine's own that is set up by the lines beside it.

behaviour: preemption / Slurm and MPI, the real ones
"""

import re
import shlex
import socket
import subprocess
import time

import pytest

import slurm
from conftest import MUSTER, ROOT, WAIT_S
from mpi import SIZE, Launcher, saves_and_goes_on
from saving import LOOP, PATIENT

REASON = slurm.reason_not_to_run()

pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

PAGE = (ROOT / "docs" / "preemption.md").read_text().split("\n## Slurm\n")[1].split("\n## ")[0]
# Of the sites: how soon Slurm looks, and how soon a requeued job begins, which is as low as it can be.
SOON = "SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=0\n"
AUTH = ",cred_expire=5"
NODES = 2
RANKS = 4
MORE = 20  # steps of the second life

# The user's program, and when it is over: its second life ends soon.
TRAIN = """\
#!/bin/sh
if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then
    LOOP_STEPS=$(($(cat "$LOOP_DIR/$MUSTER_INDEX") + %d))
    export LOOP_STEPS
fi
exec %s
"""


def block(kind):
    (text,) = re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.M | re.S)
    return text


class Job:
    """A job of the partition `low`: the script of the page in a folder of its own."""

    def __init__(self, cluster, env, directory, script):
        self.cluster = cluster
        self.dir = directory
        self.out = directory / "out"
        self.saved_in = directory / "saved"
        self.saved_in.mkdir()
        train = directory / "train"
        train.write_text(TRAIN % (MORE, shlex.quote(str(LOOP))))
        train.chmod(0o755)
        (directory / "job.sh").write_text(script)
        self.env = {
            **cluster.env, **env, **PATIENT, "LOOP_DIR": str(self.saved_in),
            "MUSTER_STATE_DIR": env["MUSTER_RUNTIME_DIR"],
            "PATH": f"{MUSTER.parent}:{cluster.env['PATH']}",
        }
        self.id = self.submit("-p", "low", "-N", NODES, "-o", self.out, "job.sh")

    def call(self, name, *args):
        return subprocess.run([slurm.program(name), *map(str, args)], env=self.env, cwd=self.dir,
                              capture_output=True, text=True, check=True).stdout

    def submit(self, *args):
        return self.call("sbatch", "--parsable", "--exclusive", *args).strip()

    def said(self):
        return self.out.read_text().splitlines() if self.out.exists() else []

    def wait_for(self, what, words):
        """Until so many lines of the job's output hold the words."""
        return self.until(lambda: len([line for line in self.said() if words in line]) >= what)

    def until(self, found):
        deadline = time.monotonic() + 2 * WAIT_S
        while not (it := found()):
            assert time.monotonic() < deadline, "\n".join(self.said()) + self.cluster.logs()
            self.cluster.rest()
        return it

    def state(self, job=None):
        """What Slurm says of a job: {"JobState": "RUNNING", ...}"""
        return self.cluster.job(job or self.id)

    def begins(self):
        found = [re.search(r"\[(\d+)\]: begins at=(\d+)", line) for line in self.said()]
        return [(int(one[1]), int(one[2])) for one in found if one]

    def trains(self):
        self.wait_for(RANKS, "]: step ")
        return self

    def preempt(self):
        """A job of `high` wants the nodes; over once it has had them."""
        high = self.submit("-p", "high", "-N", NODES, "-o", self.dir / "high", "--wrap", "true")
        self.until(lambda: self.state(high)["JobState"] == "COMPLETED")

    def saved(self):
        """The step that all ranks have saved."""
        self.wait_for(RANKS, "MUSTER_EPREEMPTED save of step")
        saved = {int(path.name): int(path.read_text()) for path in self.saved_in.iterdir()}
        assert sorted(saved) == list(range(RANKS)), self.said()
        assert len(set(saved.values())) == 1 and saved[0] > 0
        return saved[0]

    def goes_on(self):
        """The same job begins again, with the step that all have saved, and gets to its end."""
        step = self.saved()
        self.until(lambda: self.state()["JobState"] == "COMPLETED")
        state = self.state()
        assert (state["Restarts"], state["ExitCode"]) == ("1", "0:0")
        assert sorted(self.begins()[RANKS:]) == [(index, step) for index in range(RANKS)]
        self.wait_for(RANKS, "]: done")


def start(more=""):
    return slurm.Cluster([socket.gethostname(), "zzz2"], partitions=SOON + more + block("conf"),
                         auth=AUTH)


@pytest.fixture(scope="module")
def cluster():
    cluster = start()
    yield cluster
    cluster.stop()


@pytest.fixture
def own(env):
    """What a task gets of ours; the rest is the cluster's."""
    return {"MUSTER_RUNTIME_DIR": env["MUSTER_RUNTIME_DIR"]}


@pytest.fixture
def job(own, tmp_path):
    jobs = []

    def begin(cluster, script):
        jobs.append(Job(cluster, own, tmp_path, script))
        return jobs[-1].trains()

    yield begin
    for one in jobs:  # of a test that failed
        one.call("scancel", one.id)


def test_a_preempted_job_saves_is_requeued_and_goes_on(cluster, job):
    """A job of high priority preempts one of low priority with a time of grace, on two nodes,
    under `srun muster run --requeue`. All four ranks save the same step; the nodes are free at
    once; the job is requeued once, begins with that step and gets to its end."""
    low = job(cluster, block("sh"))
    low.preempt()
    low.goes_on()
    assert f"muster run: saved by all: scontrol requeue {low.id}" in low.said()


def test_a_job_whose_tasks_get_sigterm_is_requeued_and_goes_on(cluster, job):
    """The tasks of a preempted job get SIGTERM, as before its time limit. All ranks save the same
    step; the job is requeued and goes on."""
    low = job(cluster, block("sh"))
    low.call("scancel", "-s", "TERM", low.id)
    low.goes_on()
    assert f"muster run: saved by all: scontrol requeue {low.id}" in low.said()


def without_requeue():
    script = block("sh").replace(" --requeue -- ", " -- ")
    assert script != block("sh")
    return script


def test_a_preempted_job_that_nobody_requeues_has_ended_with_75(cluster, job):
    """A job is preempted, and no user requeues it. It has ended with exit code 75, and Slurm
    leaves it at that."""
    low = job(cluster, without_requeue())
    low.preempt()
    low.saved()
    state = low.state()
    assert (state["JobState"], state["ExitCode"], state["Restarts"]) == ("FAILED", "75:0", "0")
    assert state["PreemptTime"] != "None"
    low.wait_for(1, "Exited with exit code 75")


@pytest.fixture
def another():
    cluster = start("RequeueExit=75\n")
    yield cluster
    cluster.stop()


def test_a_site_may_requeue_by_the_exit_code(another, job):
    """The site has `RequeueExit=75`. The job comes back and goes on, without `--requeue`."""
    low = job(another, without_requeue())
    low.preempt()
    low.goes_on()


@pytest.mark.parametrize("mpi, flag", [("openmpi", "pmix"), ("mpich", "pmi2")])
def test_an_mpi_job_of_srun_saves_one_step_and_ends_with_75(cluster, own, tmp_path, started, mpi, flag):
    """An MPI job is preempted under `srun --mpi=pmix` (Open MPI) or `srun --mpi=pmi2` (MPICH).
    All save the same step, the launcher ends with 75, and the same command goes on from there."""
    if flag not in cluster.run("--mpi=list").stdout:
        pytest.skip(f"this Slurm has no {flag}")
    command = cluster.srun(f"--mpi={flag}", "-p", "low", "-N1", f"-n{SIZE}")
    env = {**cluster.env, **own, "OMPI_MCA_mpi_yield_when_idle": "1"}
    assert saves_and_goes_on(Launcher(command, mpi, env, tmp_path, started)) == 75
