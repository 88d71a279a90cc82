# SPDX-License-Identifier: Apache-2.0
"""Ranks in Python: python_rank.py under `muster run`, with the interpreter that runs this.

behaviour: python / Python
"""

import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from conftest import BUILD, MUSTER, ROOT, Process, sanitized
from running import Run
from saving import PATIENT, noting, on_disk_first
from test_serve import resident

PACKAGE = BUILD / "python"
RANK = pathlib.Path(__file__).parent / "python_rank.py"
SAYS_FIRST = "20s"  # then what has not ended by itself is killed
PROMPT_MS = 100  # the best of a few: a loaded machine is not what is looked at

pytestmark = [
    pytest.mark.skipif(
        not (PACKAGE / "muster").is_dir(), reason="this build found no python3 with cffi and Python.h"
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("cffi") is None, reason=f"{sys.executable} has no cffi"
    ),
]


def under():
    """What an interpreter needs that loads a library with a sanitizer in it."""
    program = MUSTER.read_bytes()
    for mark, name in ((b"__asan_init", "libasan.so"), (b"__tsan_init", "libtsan.so")):
        if mark in program:
            found = subprocess.run(
                ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
            )
            # Python keeps memory for good, and so do its modules.
            return ["env", f"LD_PRELOAD={found.stdout.strip()}", "ASAN_OPTIONS=detect_leaks=0"]
    return []


@pytest.fixture
def env(env):
    return {**env, **PATIENT, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def spawn_python(env, started):
    """spawn_python(program, VARIABLE=value...) starts an interpreter."""

    def start(program, **variables):
        process = Process([*under(), sys.executable, "-c", program], {**env, **variables})
        started.append(process)
        return process

    return start


@pytest.fixture
def run(spawn, muster):
    """run(size, mode, flags...) starts ranks that do what the mode says."""

    def start(size, mode, *flags, **options):
        rank = (*under(), sys.executable, RANK, mode)
        return Run(spawn, muster, size, *flags, rank=rank, **options)

    return start


def ends_well(job):
    code = job.run.wait()
    assert code == 0, "\n".join(job.out.lines + job.log.lines)
    assert len(job.out.having("well")) == job.size


@pytest.mark.parametrize("mode", ["keys", "rounds"])
def test_keys_and_rounds(run, mode):
    """Four ranks in Python read, write, compare, add to, append to, list and wait for keys. Each
    gets what C would get: bytes with a revision, or an exception of the status; a missing key
    is a `KeyError`, a name or number of another type a `TypeError`, a number that C cannot hold an
    `OverflowError`. They gather, reduce and compare: numbers in, numbers out, in the order of
    ranks; `Mismatch` has the result with the one that differs, `Timeout` is a `TimeoutError`."""
    ends_well(run(4, mode))


def test_watches_show_each_change(run):
    """Two ranks watch what a third one writes. Each gets the state, the changes and a deletion, and
    nothing of other keys; a timeout ends one wait only; a watch that begins after a revision has
    what came later. Closing ends the iteration of another thread, and Ctrl-C a wait."""
    job = run(3, "watches")
    ends_well(job)
    assert len(job.out.having("ended []")) == 2


def test_a_batch_is_applied_whole_or_not_at_all(run):
    """A rank collects writes in a `with` block. All are applied at its end; if one of them fails,
    whose key the error names, or the block is left by an exception, none is. A batch is applied twice."""
    ends_well(run(2, "batches"))


def test_an_event_loop_waits_without_a_thread(run):
    """Two ranks await 500 keys at once, a barrier, rounds, writes, a list and a watch in a loop of
    asyncio. Each gets what the blocking call gets, no thread is started, and a cancelled task leaves
    the job usable, as does a second loop. Another thread closes the job: what is awaited raises
    `Cancelled`."""
    job = run(2, "aio")
    ends_well(job)
    assert len(job.out.having("closed")) == 2


def test_other_threads_run_during_a_wait(run):
    """The main thread is at a barrier that opens only when another thread of the process has done
    its work. It opens: the interpreter's lock is free during the wait."""
    job = run(4, "threads")
    ends_well(job)
    assert len(job.out.having("counted 499500")) == 4


def test_ctrl_c_ends_each_kind_of_wait_at_once(run):
    """Ctrl-C is typed during a barrier, a round, a read, a wait for keys with and without a
    limit, and while a job is opened whose other rank never comes. There is `KeyboardInterrupt`
    in milliseconds, each time, and the job is as usable as before."""
    job = run(2, "interrupts")
    ends_well(job)
    told = dict(re.findall(r"(\w+) interrupted best_ms=([\d.]+)", "\n".join(job.out.lines)))
    assert set(told) == {"barrier", "round", "get", "wait", "timed", "open"}
    assert max(map(float, told.values())) < PROMPT_MS, told


def test_ctrl_c_while_the_service_is_away(env, serve, started):
    """Ctrl-C is typed while the service is stopped. There is `KeyboardInterrupt` in milliseconds;
    when the service goes on, so do calls."""
    service = serve("--lease", "60s")
    rank = (*under(), sys.executable, RANK, "away")
    alone = {**env, "MUSTER_ADDR": service.address, "MUSTER_INDEX": "0", "MUSTER_SIZE": "1"}
    program = Process(rank, alone, stdin=subprocess.PIPE)
    started.append(program)
    program.out.wait_for("ready")
    service.signal(signal.SIGSTOP)
    program.process.stdin.write("\n")
    program.process.stdin.flush()
    program.out.wait_for("interrupted all")
    service.signal(signal.SIGCONT)
    assert program.wait() == 0, program.log.lines


def test_a_forked_child_is_told(run):
    """A process forks. The child's calls say that the job is the parent's, `close` is harmless
    there, and the parent goes on."""
    job = run(2, "fork")
    ends_well(job)
    assert len(job.out.having("child was told")) == 2


def test_closing_ends_what_another_thread_waits_for(run):
    """One thread closes the job while another waits in it. The wait ends with `Cancelled`;
    whatever is called later raises `Invalid`."""
    job = run(1, "close")
    ends_well(job)
    job.out.wait_for("closed")


def test_a_computation_that_keeps_the_interpreter_costs_neither_lease_nor_lines(run):
    """A computation keeps the interpreter for three leases, while the service dies and comes
    back, which the library has to report. The lease is kept, the process stays in its
    generation, and Python's log has the line afterwards."""
    job = run(2, "busy", "--lease", "3s")
    job.out.wait_for("computes", count=2)
    os.kill(job.service(), signal.SIGKILL)
    job.out.wait_for("logged connected to the service again", count=2)
    ends_well(job)
    assert not job.log.having("lost")


def test_an_exception_ends_the_rank_and_the_others_are_told(run):
    """A rank ends by an exception of its own. The others' waits raise, its traceback is in the
    output, and the run ends with 1."""
    job = run(3, "fails", "--max-restarts", "0", "--grace", SAYS_FIRST)
    assert job.run.wait() == 1
    assert len(job.out.having("is told")) == 2
    assert job.log.having("RuntimeError: a bug of mine")


def test_the_killed_one_is_named(run):
    """A rank is killed while others are at a barrier. They get `Lost`, and its text names the
    rank."""
    job = run(3, "loses", "--max-restarts", "0", "--grace", SAYS_FIRST)
    assert job.run.wait() != 0
    assert len(job.out.having("Lost", "#1")) == 2, job.out.lines


def test_a_heartbeat_runs_and_stops(run):
    """Three ranks start the heartbeat; one stops it. It beats without a thread of Python, and no
    rank counts a failure."""
    ends_well(run(3, "heartbeat"))


def test_ctrl_c_while_the_others_start_no_heartbeat(run):
    """Ctrl-C is typed while the others do not start their heartbeat. There is `KeyboardInterrupt`
    in milliseconds."""
    job = run(2, "heartbeat_alone")
    ends_well(job)
    told = re.search(r"heartbeat interrupted best_ms=([\d.]+)", "\n".join(job.out.lines))
    assert float(told[1]) < PROMPT_MS


def test_a_heartbeat_that_ends_the_process_says_why_on_stderr(run):
    """A rank is frozen, and the heartbeat of the other one gives up. It aborts, and one line on
    stderr says why."""
    job = run(2, "dies", "--max-restarts", "0")
    job.log.wait_for("[0]:", "#1")
    assert job.run.wait() != 0
    assert job.log.having("Aborted")


def saved_steps(job):
    """What each rank says it has saved."""
    return [int(step) for step in re.findall(r"saved (?:step )?(\d+)", "\n".join(job.out.lines))]


def test_sigterm_to_one_and_all_save_one_step(run):
    """Four ranks count steps; one gets a SIGTERM, for which Python has a handler. All are to save
    the same step, which none had passed; the handler has run, in that process only; `saved`
    raises `Preempted`, and the run ends with 75. [Preemption]"""
    job = run(4, "preempted")
    assert job.run.wait() == 75, "\n".join(job.out.lines + job.log.lines)
    steps = saved_steps(job)
    assert len(steps) == 4 and len(set(steps)) == 1 and steps[0] >= 20


def test_a_loop_that_checkpoints_saves_the_agreed_step_too(run):
    """Four ranks take their steps from `checkpointing`, each tenth is saved; one gets a SIGTERM. All
    save one step more, the same, which none had begun; each save is committed when all have it, and
    the run ends with 75. [Preemption]"""
    job = run(4, "checkpoints")
    assert job.run.wait() == 75, "\n".join(job.out.lines + job.log.lines)
    steps = saved_steps(job)
    assert len(steps) == 4 and len(set(steps)) == 1


def test_a_loop_that_checkpoints_goes_on_without_the_noticed_rank(run):
    """One rank gets a notice by hand, with `leave="noticed"`. Its loop raises `Preempted` after the
    save, and the loops of the others go on. [Preemption]"""
    job = run(3, "goes_on")
    job.run.wait()
    told = job.out.having("goes on") + job.out.having("leaves")
    assert len(told) == 3 and len({line.split()[-1] for line in told}) == 1, job.out.lines


@pytest.mark.parametrize("mode", ["withdrawn", "held"])
def test_a_notice_that_is_taken_back_or_held_up(run, mode):
    """A notice is withdrawn when all were asked to save: they go on with the step they were at.
    Another comes while one rank cannot save: the step is agreed on when the region has ended.
    [Preemption]"""
    ends_well(run(3, mode))


def test_the_noticed_one_leaves_and_the_others_go_on(run):
    """One rank gets a notice by hand, with `leave="noticed"`. It gets `Preempted`, for the others
    `saved` is `True`, and `wait_exit` comes back when it is gone. [Preemption]"""
    job = run(3, "noticed")
    job.run.wait()
    assert len(job.out.having("goes on")) == 2 and len(job.out.having("leaves")) == 1


@pytest.mark.parametrize("mode, kinds", [("interrupted_saves", 2), ("interrupted_asking", 1)])
def test_ctrl_c_during_a_preemption(run, mode, kinds):
    """Ctrl-C is typed while the others have not saved, while the noticed rank has not left, and
    while a frozen rank holds the agreement up. There is `KeyboardInterrupt` in milliseconds.
    `saved` with the same step takes the wait up again; closing ends what was left.
    [Preemption]"""
    job = run(2, mode)
    job.out.wait_for("interrupted best_ms=", count=kinds)
    told = re.findall(r"interrupted best_ms=([\d.]+)", "\n".join(job.out.lines))
    assert max(map(float, told)) < PROMPT_MS, job.out.lines
    job.out.wait_for("closed" if mode == "interrupted_asking" else "well")


# SIGTERM to itself where it says that it has done a step: no race with the end of the training.
STRUCK = """
import builtins, os, runpy, signal, sys
def say(*words, say=print, **options):
    say(*words, **options)
    if words == ("step 100",):
        os.kill(os.getpid(), signal.SIGTERM)
builtins.print = say
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_a_training_loop_is_preempted_and_goes_on(spawn, muster, tmp_path):
    """`examples/python/train.py` is preempted in the middle and started again. All ranks save one
    step, the run ends with 75; the next one goes on at that step, and ends with the weights of
    a run that was not disturbed. [Preemption]"""
    program = ROOT / "examples" / "python" / "train.py"

    def train(folder, *before):
        rank = (*under(), sys.executable, *before, program, tmp_path / folder, "--steps", 300)
        job = Run(spawn, muster, 4, rank=rank)
        return job, job.run.wait()

    job, code = train("run", "-c", STRUCK)
    assert code == 75, "\n".join(job.out.lines + job.log.lines)
    steps = saved_steps(job)
    assert len(steps) == 4 and len(set(steps)) == 1 and steps[0] > 100
    files = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert files == [f"rank-{rank}.json" for rank in range(4)]
    # As though this one had been ended before it could commit what all had written.
    (tmp_path / "run" / "rank-2.json").rename(tmp_path / "run" / "rank-2.new")
    job, code = train("run")
    assert code == 0, "\n".join(job.out.lines + job.log.lines)
    assert job.out.having(f"resumes at step {steps[0]}")
    undisturbed, code = train("undisturbed")
    assert code == 0
    assert job.out.having("weights") == undisturbed.out.having("weights") != []


@pytest.mark.skipif(sanitized(), reason="a sanitizer wants to be loaded first")
def test_what_a_training_loop_saves_is_on_the_disk_before_it_counts(spawn, muster, env, tmp_path):
    """`preempt/train`, `mpi/train` or `python/train.py` saves. The file is on the disk before it
    is renamed to the one that counts. [examples / Preemption]"""
    program = ROOT / "examples" / "python" / "train.py"
    rank = (sys.executable, "-c", STRUCK, program, tmp_path / "run", "--steps", 300)
    job = Run(spawn, muster, 2, rank=rank, env={**env, **noting(tmp_path / "syncs")})
    assert job.run.wait() == 75, "\n".join(job.out.lines + job.log.lines)
    for index in range(2):
        assert on_disk_first(tmp_path / "syncs", tmp_path / "run" / f"rank-{index}.new")


STATUS = re.compile(r"^X\((\w+), (-?\d+), (\w+),", re.M)


def test_each_status_has_a_class_of_its_group(env):
    """A status is added to the table. There must be an exception class for it, in the group of
    the table; one that the package does not know is a `CallError`. `exit_code` is 75 for
    `Preempted`, that of a `SystemExit`, 0 for `None`, else 1."""
    table = STATUS.findall((ROOT / "src/proto/status.def").read_text())
    groups = {"CALL": "CallError", "SESSION": "SessionError", "MEMBERSHIP": "MembershipError"}
    lines = ["import muster, pickle", "from muster._errors import error_of"]
    for name, value, group in table:
        lines.append(f"assert muster.Status.{name} == {value}")
        if group != "NONE":
            lines += [
                f"error = error_of({value}, 'told', 2)",
                f"assert isinstance(error, muster.{groups[group]}), '{name}'",
                f"assert type(error) is not muster.{groups[group]}, '{name} has no class'",
                "assert (error.status, error.text, error.os_errno, str(error)) == "
                f"({value}, 'told', 2, 'told')",
                "assert str(pickle.loads(pickle.dumps(error))) == 'told'",
                f"assert muster.exit_code(error) == {75 if name == 'EPREEMPTED' else 1}",
            ]
    lines += [
        "assert type(error_of(-1000)) is muster.CallError",
        "codes = [None, muster.Status.OK, SystemExit(7), SystemExit(), SystemExit('no'), ValueError()]",
        "assert list(map(muster.exit_code, codes)) == [0, 0, 7, 0, 1, 1]",
    ]
    done = subprocess.run(
        [*under(), sys.executable, "-c", "\n".join(lines)], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_wrong_options_are_refused_with_what_there_is(env):
    """An option is misspelt, or has a value that makes no sense. It is refused, and the options
    there are are listed."""
    lines = """
import muster
for options, kind, words in (
    ({"adress": "x"}, TypeError, ("'adress'", "addr", "join_wait")),
    ({"join_wait_ms": 5}, TypeError, ("'join_wait_ms'", "join_wait")),
    ({"role": "king"}, muster.Invalid, ("'king'", "rank, worker, agent, observer")),
    ({"timeout": -1}, muster.Invalid, ("negative",)),
    ({"addr": 5}, TypeError, ("not int",)),
    ({"addr": "unix:/nowhere/at/all", "index": 0, "timeout": 0.1}, muster.Unreachable, ("/nowhere/at/all",)),
):
    try:
        muster.open(log=False, **options)
    except kind as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError(options)
"""
    done = subprocess.run(
        [*under(), sys.executable, "-c", lines], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(sanitized(), reason="nothing is installed with a sanitizer")
def test_the_package_is_found_where_it_was_installed(env, tmp_path):
    """The package is installed under a prefix, and that is moved. It is found by `PYTHONPATH`,
    and loads the library beside it."""
    done = subprocess.run(
        ["cmake", "--install", str(BUILD), "--prefix", str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (package,) = tmp_path.glob("lib/python3*/*-packages/muster")
    assert not list(package.rglob("__pycache__"))
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("bin", "lib"):
        (tmp_path / name).rename(moved / name)
    packages = moved / package.parent.relative_to(tmp_path)
    done = subprocess.run(
        [moved / "bin/muster", "run", "-n", "2", "--", sys.executable, RANK, "threads"],
        env={**env, "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    loaded = subprocess.run(
        [sys.executable, "-c", "import muster; print(open('/proc/self/maps').read())"],
        env={**env, "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
    )
    libraries = {line.split()[-1] for line in loaded.stdout.splitlines() if "libmuster" in line}
    assert libraries and all(str(moved) in name for name in libraries), libraries


NAMES = 20000
BARRIERS = f"""
import os
import muster
def resident():
    with open("/proc/self/statm", encoding="ascii") as text:
        return int(text.read().split()[1]) * os.sysconf("SC_PAGESIZE")
with muster.open() as job:
    for i in range({NAMES}):
        job.barrier(f"save of step {{i}}")
        if i in (1999, {NAMES - 1}):
            print(i, job.view.generation, resident(), flush=True)
            job.barrier("measured")
"""


@pytest.mark.skipif(sanitized(), reason="a sanitizer keeps what is freed")
def test_twenty_thousand_barriers_have_a_name_each(serve, env, spawn_python):
    """Two ranks pass 20,000 barriers of one generation, each with a name of its own. All open, the
    service needs no more memory for the last ones than for the first, and a rank keeps 200 bytes of
    a name at most: its count. [rounds / Meeting]"""
    service = serve()
    ranks = [spawn_python(BARRIERS, MUSTER_ADDR=service.address, MUSTER_INDEX=str(index),
                          MUSTER_SIZE="2", MUSTER_AGENT="0") for index in range(2)]
    ranks[0].out.wait_for("1999 1 ", patience_s=600)
    first = resident(service.pid)
    ranks[0].out.wait_for(f"{NAMES - 1} 1 ", patience_s=600)
    grown = resident(service.pid) - first
    for rank in ranks:
        assert rank.wait() == 0
        early, late = [int(line.split()[2]) for line in rank.out.lines]
        assert late - early < 200 * NAMES, rank.out.lines
    assert grown < (1 << 20), grown


HELD = 10000
HOLDS = f"""
import asyncio
import muster
async def hold(job):
    keys = job.aio.keys
    waits = [asyncio.ensure_future(keys.get(f"late/{{i}}", timeout=None)) for i in range({HELD})]
    leaked = [asyncio.ensure_future(keys.get(f"never/{{i}}", timeout=None)) for i in range({HELD})]
    await asyncio.sleep(0)
    await keys.put("held", "all")  # behind them
    print("held", flush=True)
    assert await keys.get("go", timeout=None) == b"on"
    for wait in leaked:
        wait.cancel()
    for i in range(0, {HELD}, 100):
        with job.keys.batch() as batch:
            for j in range(i, i + 100):
                batch.put(f"late/{{j}}", str(j))
    assert [int(value) for value in await asyncio.gather(*waits)] == list(range({HELD}))
    await keys.put("held", "none")
    print("answered", flush=True)
with muster.open() as job:
    asyncio.run(hold(job))
"""


def test_twenty_thousand_gets_are_held_by_one_connection(serve, env, muster, spawn_python, tmp_path):
    """One process waits for 20,000 keys at once. Each get costs the service 1,500 bytes at most, and
    other calls are answered meanwhile. The service is killed and goes on from its journal; half of
    the gets are cancelled, the keys of the other half are written, and each get has its value.
    [keys / Waiting]"""
    service = serve("--journal", str(tmp_path / "journal"), "--lease", "5m")
    before = resident(service.pid)
    holder = spawn_python(HOLDS, MUSTER_ADDR=service.address, MUSTER_AGENT="0", MUSTER_SIZE="1")
    holder.out.wait_for("held", patience_s=300)
    grown = resident(service.pid) - before
    assert sanitized() or grown < 1500 * 2 * HELD, grown
    service.kill()
    serve("--journal", str(tmp_path / "journal"), "--lease", "5m", "--addr", service.address)
    assert muster("key", "-j", "default", "--addr", service.address, "put", "go", "on").returncode == 0
    holder.out.wait_for("answered", patience_s=300)
    assert holder.wait() == 0


OVER = """
import asyncio
import muster
async def hold(job):
    keys = job.aio.keys
    waits = [asyncio.ensure_future(keys.get(f"never/{i}", timeout=None)) for i in range(400)]
    await asyncio.sleep(0)
    await keys.put("after", "x")  # answered behind all that are refused
    for wait in waits:
        if wait.done():
            print(wait.exception(), flush=True)
        wait.cancel()
with muster.open() as job:
    asyncio.run(hold(job))
"""


def test_gets_beyond_the_memory_of_a_connection_are_refused(serve, env, spawn_python):
    """A process waits for more keys than --waiting-bytes-max has room for. Each get beyond is
    refused with one line that names the flag; those that wait go on, and other calls are answered.
    [keys / Limits]"""
    service = serve("--waiting-bytes-max", "65536")
    holder = spawn_python(OVER, MUSTER_ADDR=service.address, MUSTER_AGENT="0", MUSTER_SIZE="1")
    assert holder.wait() == 0
    refused = [line for line in holder.out.lines if "over --waiting-bytes-max of the service" in line]
    assert 100 < len(refused) == len(holder.out.lines) < 400, holder.out.lines[:3]
    assert all(line.startswith("get 'never/") and "at most 65536" in line for line in refused)
