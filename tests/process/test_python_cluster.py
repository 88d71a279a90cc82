# SPDX-License-Identifier: Apache-2.0
"""Coordinators and workers in Python: python_cluster.py and python_steps.py under `muster run`, with the
interpreter that runs this.

behaviour: python / Functions on workers
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
from conftest import ROOT, WAIT_S, Process
from saving import PATIENT
from test_python import PACKAGE, pytestmark, under  # noqa: F401 (the marks are for all)

HERE = pathlib.Path(__file__).parent
PROMPT_MS = 100  # the best of three: a loaded machine is not what is looked at
LONG_LEASE = "60s"  # what is found before was seen otherwise


@pytest.fixture
def env(env, tmp_path):
    hold = tmp_path / "hold"
    hold.mkdir()
    return {**env, **PATIENT, "PYTHONPATH": f"{PACKAGE}:{HERE}", "PYTHONDONTWRITEBYTECODE": "1",
            "HOLD": str(hold)}


@pytest.fixture
def run(spawn):
    """run(mode, workers, flags...) starts a coordinator that does what the mode says, and workers."""

    def start(mode, *flags, workers=2, more=()):
        coordinator = (*under(), sys.executable, HERE / "python_cluster.py", mode)
        worker = (*under(), sys.executable, "-m", "muster.worker", "python_steps", *more)
        return spawn("run", "--no-label", "--lease", LONG_LEASE, "--max-restarts", 0, *flags, "-n", 1, *coordinator, ":",
                     "-n", workers, *worker)

    return start


def well(job):
    code = job.wait()
    assert code == 0 and job.out.having("well"), "\n".join(job.out.lines + job.log.lines)


def needs(module):
    return pytest.mark.skipif(
        subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode != 0,
        reason=f"{sys.executable} has no {module}",
    )


def test_values(run):
    """A coordinator in Python schedules functions, declared by a decorator, with arguments by
    position and by name, one by one and many at once, by function, by name, and by version. It
    fetches what they return, alone and in nested structures, in the order in which they end, and as
    bytes without a pickle. The functions see which attempt they are. A dismissal ends the run."""
    well(run("values"))


def test_exceptions(run):
    """A function raises. `fetch` raises the same exception, with what it came from and the worker's
    traceback as its causes; so do `join`, `done` and `schedule`, one of them, once, also when the
    value was thrown away. What cannot be pickled, or printed, arrives as text; so does what cannot be read. An exception that the function
    marks as worth another attempt is raised when no retry is left. A state server and a time limit
    have classes of their own, named as ClusterCoordinator's, and `muster`'s as bases."""
    well(run("errors"))


MISTAKES = [
    r"TypeError: schedule: argument 1 of 'square' cannot be pickled: cannot pickle '_thread.lock' object",
    r"TypeError: schedule: argument by of 'square' cannot be pickled: cannot pickle '_thread.lock' object",
    r"TypeError: schedule: argument 1 of 'square' cannot be pickled: a RemoteValue cannot be an argument"
    r" of a closure: fetch it, and pass its value",
    r"Invalid: schedule: len is not declared: decorate it with @muster.worker.function in a module that"
    r" the workers load, or use Coordinator\(code=True\), Executor\(code=True\) to send it",
    r"TypeError: schedule: a function or the name of one is expected, not 5",
    r"TypeError: schedule: args of 'square' is a tuple of arguments: args=\(7,\)",
    r"TypeError: schedule: args of 'square' is a tuple of arguments: args=\('word',\)",
    r"TypeError: schedule: kwargs of 'square' is a dict of arguments by name, not \[2\]",
    r"TypeError: schedule has no option 'speed'; it has idempotent, once, .*",
    r"TypeError: schedule: 'joins' takes bytes, and no arguments by name",
    r"Invalid: schedule: retries=-1: expected a number from 0, which is none",
    r"Invalid: schedule: crash_retries=1.5: expected a number from 0, which is none",
    r"TypeError: the iterator is on the workers: pass it to a closure, which calls next\(\)",
    r"TypeError: the result of 'keeps_a_lock' cannot be pickled: cannot pickle '_thread.lock' object",
    r"DeadlineError: fetch: closure \d+: .*",
    r"Timeout: fetch closure \d+.*timed out",
]


def test_mistakes_are_one_line(run):
    """An argument or a result cannot be pickled, a function is not declared, an option does not
    exist, and the like. Each is an exception with one line that names the function, the argument
    and what to do."""
    job = run("lines_of_errors")
    well(job)
    told = [line for line in job.out.lines if re.match(r"\w+: ", line)]
    assert len(told) == len(MISTAKES)
    for line, wanted in zip(told, MISTAKES):
        assert re.fullmatch(wanted, line), line


@needs("cloudpickle")
def test_functions_that_no_worker_has(run):
    """All workers of the run are here. A closure of a function that none of them has, under this name or
    in this version, or that is sent while no worker takes such, fails at once. Its line names the
    function, what the workers have instead, and what to do."""
    job = run("unknown_functions")
    well(job)
    wrong, version, sent = (line.partition("no worker has its function: ")[2] for line in job.out.having("told"))
    declare = ": correct its name, or start the workers with the module that declares it; worker 0 (and 1 more) has "
    assert wrong.startswith(f"'sqare'{declare}square, give, nothing,"), wrong
    assert version.startswith(f"'square' in version 7{declare}square in version 1, give,"), version
    assert sent.startswith("it is sent: start the workers with --code, or declare it in a module that they load; worker 0")


def test_a_coordinator_beside_the_run_waits_for_all_of_it(run):
    """The coordinator was not started with the workers, and one of those that were is not here. A closure
    of a function that no worker has waits for it until `unknown_grace` is over."""
    well(run("unknown_from_outside"))


def test_a_child_that_comes_out_of_a_function_ends(run):
    """A function forks, and its child returns from it, raises, or exits. The child ends with 0, 1 or
    its status, and reports nothing: the closure's result is that of the worker."""
    well(run("forks"))


def test_values_on_each_worker(run):
    """Each worker has an iterator of its own shard of a dataset, and a model that it builds once. A
    closure gets that of its worker, at any depth of its arguments; another iterator begins anew.
    What a builder raises is the cause of `ClosureInputError`, and such values outlive an error."""
    well(run("per_worker"))


def test_threads_wait_for_one_value(run):
    """Four threads wait again and again for a per-worker value whose builder failed. Each gets the whole
    exception every time. One that waits for a value that nothing builds keeps none of them."""
    well(run("waits_by_threads"))


def test_the_closure_of_a_killed_worker_runs_elsewhere(run):
    """A worker in Python gets SIGKILL in a function. The closure runs on the other one, its value
    arrives, nothing is an error; the new process builds its per-worker values again."""
    well(run("killed", "--max-restarts", 1))


def test_a_map_that_fails_leaves_nothing(run):
    """An iterable of `Coordinator.map` raises, or one of its elements cannot be pickled, after thousands
    were admitted. Those are cancelled, the exception is raised, and the coordinator works on."""
    well(run("maps_fail"))


def test_cancelling(run):
    """A closure, a group, and a series that failed are cancelled while their functions run. The
    functions see it and stop, fetches raise `ClosureAbortedError`, the others are not concerned;
    so it is when the coordinator is closed."""
    well(run("cancels"))


def test_functions_that_do_not_look_are_stopped(run):
    """A function that sleeps, waits for a lock, or computes, and never looks at whether it is
    cancelled, is cancelled, or is over its time limit. An exception is raised in it that `except
    Exception` does not catch, its `finally` runs, and its worker stays. In the middle of an import
    it is raised only when the import is over, so the module is whole."""
    well(run("stops"))


@needs("cloudpickle")
def test_executor(run):
    """`muster.cluster.Executor` does what users of `concurrent.futures` expect of submit, map, wait,
    as_completed, callbacks, time limits, cancel, shutdown and the `with` block. What is wrong with a
    function or its arguments is in the future; `max_workers` functions run at once at most. It refuses a
    coordinator whose errors do not stay in their futures."""
    well(run("executor", more=("--code",)))


@pytest.mark.parametrize("mode", ["leaves_work", "leaves_work_shut"])
def test_a_program_ends_when_its_futures_have(run, mode):
    """The main program ends while a function that it has submitted runs: without a shutdown, and after
    one that does not wait. The function ends, its callback is called, and the workers are dismissed."""
    job = run(mode)
    well(job)
    assert job.out.having("ended True")


def test_workers_that_are_left_are_mentioned(run):
    """A program ends well without a dismissal. Its workers wait for another coordinator, so the run goes on,
    and one line on its standard error says so, and what to call."""
    job = run("leaves_workers")
    job.out.wait_for("well")
    line = job.log.wait_for("the workers of cluster 'default' wait for another coordinator")
    assert "call dismiss(), or use Executor(dismiss=True), when the work is done" in str(line)
    job.signal(signal.SIGTERM)
    job.wait()
    assert len(job.log.having("wait for another coordinator")) == 1


def test_a_fork_leaves_the_coordinator_to_the_parent(run):
    """A program with a coordinator and an executor forks. The child is refused each use and may close
    both; the parent's future ends as if nothing was."""
    well(run("forked"))


def test_asyncio(run):
    """Two hundred values are awaited together, with `gather`; an exception, and one that is
    cancelled by a time limit. The loop runs meanwhile. Under FAIL_FAST the failure that was awaited
    is raised by `join` too, once."""
    well(run("waits_async"))


def test_a_job_is_closed_while_threads_use_its_cluster(run):
    """A thread opens a coordinator and schedules closures; the job is closed at one of many moments of
    that. The thread gets `Cancelled`, or `Invalid` if the job was closed before it began; the end waits
    for it, and nothing crashes."""
    well(run("closes_meanwhile"))


def test_callbacks_of_closures(run):
    """A callback raises an error, `SystemExit`, and `KeyboardInterrupt`; another one closes the
    coordinator. All others are called, and the thread that calls them ends with the coordinator."""
    well(run("callbacks"))


@needs("numpy")
def test_arrays_travel_beside_the_pickle(run):
    """Arrays of megabytes are arguments and results. They travel as parts of their own; a result's
    array is the memory that arrived, and lives as long as it is used. A function's array is its own
    to change, or with `borrow` the message itself, read-only: to keep one is an error that says so,
    to raise with one at hand is not.
    More than a message is `Limit`."""
    job = run("arrays")
    well(job)
    (line,) = job.out.having("borrowed")
    assert line == ("Invalid: function 'keeps_what_it_borrowed' kept an argument that it borrowed: copy"
                    " it, or register it without borrow")


@needs("cloudpickle")
def test_functions_that_are_sent(run):
    """With `code=True` a coordinator sends lambdas and closures of Python by cloudpickle to workers
    that have `--code`, also as builders of per-worker values. Each call has the values that its
    function holds then, and none is kept."""
    well(run("code", more=("--code",)))


def test_commands(run):
    """A worker in Python declares programs as functions. Their words and their output are bytes. One that
    crashes is not run again with `crash_retries=0`."""
    well(run("commands"))


def test_ctrl_c_ends_each_wait_of_a_coordinator(run):
    """Ctrl-C is typed during fetch, join, drain, as_completed, and while a second coordinator waits
    for its turn. There is `KeyboardInterrupt` in milliseconds, and the coordinator works on."""
    job = run("interrupted")
    well(job)
    told = dict(re.findall(r"(\w+) interrupted best_ms=([\d.]+)", "\n".join(job.out.lines)))
    assert set(told) == {"fetch", "timed", "many", "join", "as_completed", "drain", "open"}
    turn = float(told.pop("open"))  # it asks a few times a second
    assert max(map(float, told.values())) < PROMPT_MS and turn < 10 * PROMPT_MS, told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_worker_ends_at_a_signal(env, serve, started, number):
    """A worker in Python that has nothing to do gets SIGINT or SIGTERM. It leaves at once, with 130
    and 0."""
    service = serve()
    worker = Process([*under(), sys.executable, "-m", "muster.worker", "python_steps"],
                     {**env, "MUSTER_ADDR": service.address})
    started.append(worker)
    coordinator = Process([*under(), sys.executable, HERE / "python_cluster.py", "meets"],
                          {**env, "MUSTER_ADDR": service.address}, stdin=subprocess.PIPE)
    started.append(coordinator)
    coordinator.out.wait_for("met")
    worker.signal(number)
    assert worker.wait() == (130 if number == signal.SIGINT else 0), worker.log.lines
    coordinator.process.stdin.close()
    well(coordinator)


def test_ctrl_c_lets_a_function_end(run):
    """A worker gets SIGINT while it runs a function. The function ends, its value arrives, and the
    worker leaves with 130. At a second SIGINT there is `KeyboardInterrupt` in the function."""
    job = run("interrupts_workers", "--max-restarts", 4)
    well(job)
    assert len(job.log.having("ended with status 130")) == 2, job.log.lines


def test_mistakes_of_a_worker_are_one_line(env):
    """A worker is started without a module, with one that declares nothing, or without a service. It
    says so in one line."""

    def says(*words):
        done = subprocess.run([*under(), sys.executable, "-m", "muster.worker", *words], env=env,
                              capture_output=True, text=True, timeout=WAIT_S)
        return done.returncode, done.stderr.splitlines()[-1]

    assert says() == (2, "python3 -m muster.worker: error: name a module, or use --code")
    assert says("json") == (
        1, "muster.worker: serve: no function is declared: use @muster.worker.function")


EXAMPLE = ROOT / "examples" / "python" / "parameter_server.py"


def processes(word):
    """The pids of those whose command line ends so."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_text().split("\0")[:-1]
                if words[-len(word) :] == list(map(str, word)):
                    found.append(int(folder.name))
    return found


def test_the_parameter_server_of_the_guide(env, spawn, tmp_path):
    """`examples/python/parameter_server.py` runs as its head says, while its server, a worker and its
    coordinator are killed, one after the other. It restores its checkpoint where that is needed,
    learns to the end, and the run ends with 0."""
    command = re.search(r"(muster run .*?)\n\n", EXAMPLE.read_text(), re.S)[1].replace("\\\\\n", " ")
    words = command.replace("/tmp/model", f"{tmp_path}/model 120").split()
    words = [str(EXAMPLE) if word == EXAMPLE.name else word for word in words]
    words = [word for one in words for word in ([*under(), sys.executable] if one == "python3" else [one])]
    job = spawn("run", "--no-label", "--lease", LONG_LEASE, "--max-restarts", 3, *words[2:], env=env)
    job.out.wait_for("epoch 2:")
    (server,) = processes([EXAMPLE, "serve"])
    os.kill(server, signal.SIGKILL)
    job.out.wait_for("back to the checkpoint")
    epochs = len(job.out.having("epoch"))
    job.out.wait_for("epoch", count=epochs + 2)
    workers = [pid for pid in processes(["muster.worker", EXAMPLE]) if pid != job.pid]
    os.kill(workers[0], signal.SIGKILL)
    job.out.wait_for("epoch", count=epochs + 4)
    (coordinator,) = processes([EXAMPLE, "train", tmp_path / "model", 120])
    os.kill(coordinator, signal.SIGKILL)
    assert job.wait() == 0, "\n".join(job.out.lines + job.log.lines)
    assert job.out.having("epoch 120: training accuracy 1.00")
    (line,) = job.out.having("evaluation accuracy")
    assert float(line.split()[-1]) > 0.95
