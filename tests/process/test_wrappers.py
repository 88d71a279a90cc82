# SPDX-License-Identifier: Apache-2.0
"""Ranks behind wrappers, some of which give them a process group, a session or a parent of their own:
whatever ends, nothing is left behind. What is left is looked for by a variable of the test's, which
all that the run has started inherits.

behaviour: run / Descriptors and signals
"""

import os
import pathlib
import shutil
import signal
import tempfile

import pytest

from conftest import BUILD, MUSTER
from restarting import files_of, marked
from running import until, wait_gone
from test_agent import kill
from test_hang import Hangs

RANK = BUILD / "tests" / "process" / "ranks" / "hang"
QUICK = {"soft": 1800, "hard": 2700, "grace": 200}
# Each is started with the rank and its arguments.
WRAPPERS = {
    "shell": ("sh", "-c", '"$0" "$@"; true'),
    "timeout": ("timeout", "600"),
    "timeout in a shell": ("sh", "-c", 'timeout 600 "$0" "$@"; true'),
    "setsid": ("setsid", "-w"),
    "setsid in a shell": ("sh", "-c", 'setsid -w "$0" "$@"; true'),
    "nohup": ("nohup",),
    "nohup in a shell": ("sh", "-c", 'nohup "$0" "$@"; true'),
    "shell with job control": ("bash", "-m", "-c", '"$0" "$@" & wait $!'),
    "daemon": ("sh", "-c", 'setsid "$0" "$@" & while kill -0 $!; do sleep 0.05; done'),
    "setsid without the variable": ("setsid", "-w", "env", "-u", "MUSTER_PROCESS_TAG"),
}


# Or with all ranks: a run in a run.
NESTED = {
    "another run": (),
    "another run behind a shell": ("sh", "-c", '"$0" "$@"; true'),
    "another run behind setsid": ("setsid", "-w"),
}


@pytest.fixture
def job(spawn, env, started):
    folder = tempfile.mkdtemp(prefix="mst-", dir="/tmp")
    made = Hangs(spawn, env, folder, started)
    yield made
    made.socket.close()
    shutil.rmtree(folder, ignore_errors=True)


def start_wrapped(job, wrapper, count, *flags, **more):
    if wrapper in NESTED:
        inner = (MUSTER, "run", "-n", count, "-j", "inner", "--", RANK)
        return job.start(count, *flags, of=(*NESTED[wrapper], *inner), nproc=1, **more)
    return job.start(count, *flags, of=(*WRAPPERS[wrapper], RANK), **more)


@pytest.fixture(params=[*WRAPPERS, *NESTED])
def wrapped(request, job):
    """wrapped.ranks(count, flags...): ranks behind the wrapper, in the function."""

    def start(count, *flags, **more):
        return start_wrapped(job, request.param, count, *flags, **more)

    job.ranks = start
    job.wrapper = request.param
    return job


def left(job):
    """Processes, and what services keep in files."""
    return marked(job.path) or files_of(job.env) - job.files


def state_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def is_stopped(pid):
    return state_of(pid) == "T"


def is_run(pid):
    return pathlib.Path(f"/proc/{pid}/comm").read_text() == "muster\n"


def nothing_left(job):
    until(lambda: not left(job), lambda: f"left behind: {left(job)}")


def keeper_of(pid):
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (keeper,) = [int(child) for child in children
                 if pathlib.Path(f"/proc/{child}/comm").read_text() == "muster-keeper\n"]
    return keeper


def test_a_killed_launcher_leaves_nothing(wrapped):
    """`muster run` is SIGKILLed while its ranks run behind `timeout`, `setsid -w`, `nohup`, `bash
    -m` or as daemons, so in process groups, sessions or with parents of their own. Nothing is
    left. All that the run has started is found by a variable it inherited,
    `MUSTER_PROCESS_TAG`."""
    wrapped.ranks(2)
    assert len(marked(wrapped.path)) > 3
    wrapped.runner.kill()
    nothing_left(wrapped)


@pytest.mark.parametrize("wrapper", [*WRAPPERS, "another run"])
def test_a_launcher_that_is_killed_with_its_keeper_leaves_no_rank(job, wrapper):
    """`muster run` is SIGKILLed together with its keeper. The parent-death signal ends what it
    has started, and no rank is left: one that it is not the parent of looks for its end, once
    it has opened a client."""
    ranks = start_wrapped(job, wrapper, 2)
    gone = [os.pidfd_open(rank.pid) for rank in ranks]
    keeper = keeper_of(job.runner.pid)
    os.kill(job.runner.pid, signal.SIGSTOP)
    wait_gone(*kill(keeper))
    job.runner.kill()
    wait_gone(*gone)
    nothing_left(job)


def test_a_launcher_that_is_stopped_leaves_nothing(wrapped):
    """`muster run` is stopped while its ranks run behind wrappers. Nothing is left."""
    wrapped.ranks(2, "--grace", "100ms")
    wrapped.runner.signal(signal.SIGTERM)
    assert wrapped.runner.wait() in (143, 137)
    nothing_left(wrapped)


def test_a_frozen_rank_is_gone_before_another_takes_its_place(wrapped):
    """A rank behind a wrapper hangs. It is gone before another takes its place."""
    ranks = wrapped.ranks(2, **QUICK)
    mark = wrapped.mark()
    os.kill(ranks[1].pid, signal.SIGSTOP)
    again = wrapped.all_again(2, mark)
    assert ranks[1].pid not in marked(wrapped.path)
    wrapped.order(again, "ok")
    wrapped.wait("closed", 2)
    assert wrapped.runner.wait() == 0
    nothing_left(wrapped)


def known(job, ranks):
    """The run looks who its ranks are before it says what became of one: a rank without a tag is
    known to nothing else."""
    mark = job.mark()
    os.kill(ranks[0].pid, signal.SIGKILL)
    job.runner.log.wait_for("starting it again")
    return job.all_again(len(ranks), mark)


def test_a_frozen_rank_goes_with_a_killed_launcher(wrapped):
    """A rank behind `setsid` has no `MUSTER_PROCESS_TAG`, as its program clears or overwrites its
    environment; it hangs, or the run ends or is SIGKILLed while it is stopped. The rank is
    killed all the same: its progress page has its pid and the time at which it was started. A
    process that took over the pid is not."""
    ranks = wrapped.ranks(2)
    if wrapped.wrapper == "setsid without the variable":
        ranks = known(wrapped, ranks)
    os.kill(ranks[1].pid, signal.SIGSTOP)
    until(lambda: is_stopped(ranks[1].pid))
    wrapped.runner.kill()
    nothing_left(wrapped)


def test_a_rank_that_dies_behind_a_shell_that_ends_well_is_started_again(job):
    """A rank behind `sh -c '...; true'` is killed, and the shell ends with 0 before the run, which
    is stopped, knows. The rank was killed: another takes its place."""
    ranks = start_wrapped(job, "shell", 2)
    mark = job.mark()
    shell = int(pathlib.Path(f"/proc/{ranks[1].pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    os.kill(job.runner.pid, signal.SIGSTOP)
    wait_gone(*kill(ranks[1].pid))
    until(lambda: state_of(shell) == "Z")
    job.runner.signal(signal.SIGCONT)
    again = job.all_again(2, mark)
    job.order(again, "ok")
    assert job.runner.wait() == 0
    nothing_left(job)


def test_when_a_wrapper_is_killed_its_rank_is_gone_before_another_takes_its_place(job):
    """The wrapper of a rank is killed. The rank is gone before another takes its place."""
    ranks = job.start(2, of=("sh", "-c", 'echo wrapper $$; setsid -w "$0" "$@"; true', RANK))
    pid = int(job.runner.out.wait_for("[1]: wrapper ").split()[-1])
    mark = job.mark()
    os.kill(pid, signal.SIGKILL)
    again = job.all_again(2, mark)
    assert ranks[1].pid not in marked(job.path)
    job.order(again, "ok")
    assert job.runner.wait() == 0
    nothing_left(job)


def test_what_a_rank_started_elsewhere_ends_with_it(spawn, tmp_path):
    """A rank ends that has started a daemon. The daemon ends with it, those of other ranks do
    not."""
    daemon = 'echo "pid $$"; touch "$0/$RANK"; while :; do sleep 1; done'
    script = 'setsid -f sh -c "$1" "$0"; until [ -e "$0/$RANK" ]; do sleep 0.01; done; ' \
             '[ $RANK = 1 ] || exit 0; trap "exit 0" USR1; echo waits; while :; do sleep 0.01; done'
    run = spawn("run", "-n", 2, "--", "sh", "-c", script, tmp_path, daemon)
    run.out.wait_for("pid ", count=2)
    pids = {int(line[1]): int(line.split()[-1]) for line in run.out.having("pid ")}
    run.out.wait_for("waits")
    until(lambda: not os.path.exists(f"/proc/{pids[0]}"))
    assert os.path.exists(f"/proc/{pids[1]}")
    run.signal(signal.SIGUSR1)
    assert run.wait() == 0
    until(lambda: not os.path.exists(f"/proc/{pids[1]}"))


def test_a_run_in_a_run_clears_up_when_the_outer_one_is_killed(job):
    """A `muster run` is started by another one, which is SIGKILLed. The inner one's keeper and
    service are not the outer one's to kill: they end its ranks, which use no muster, behind
    wrappers, and remove its journal and socket."""
    script = "timeout 600 sh -c 'echo waits; sleep 600; true'; true"
    job.runner = job.spawn("run", "-n", 1, "-j", "outer", "--", MUSTER, "run", "-n", 2, "-j", "inner", "--",
                           "sh", "-c", script, env=job.env)
    job.runner.out.wait_for("waits", count=2)
    outer = keeper_of(job.runner.pid)
    (inner,) = [pid for pid, line in marked(job.path).items()
                if line.startswith(f"{MUSTER} run ") and " outer " not in line and is_run(pid)]
    keeper = keeper_of(inner)
    gone = [os.pidfd_open(pid) for pid in (outer, inner)]
    os.kill(keeper, signal.SIGSTOP)
    until(lambda: is_stopped(keeper))
    job.runner.kill()
    wait_gone(*gone)
    os.kill(keeper, signal.SIGCONT)
    nothing_left(job)
