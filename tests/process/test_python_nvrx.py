# SPDX-License-Identifier: Apache-2.0
"""muster.compat.nvrx: a program for nvidia-resiliency-ext with another import. What needs the real package is
skipped where TEST_TORCH names no environment that has it.

behaviour: python / Coming from nvidia-resiliency-ext
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from conftest import ROOT
from running import Run
from saving import PATIENT
from test_python import PACKAGE, pytestmark, under  # noqa: F401

HERE = pathlib.Path(__file__).parent
TRIES, RANK = HERE / "python_nvrx.py", HERE / "python_nvrx_rank.py"
DDP = HERE / "python_nvrx_ddp.py"
PAGE = ROOT / "docs" / "python" / "restart.md"


@pytest.fixture
def env(env):
    return {**env, **PATIENT, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="module")
def nvrx():
    """The python3 of an environment that has the real package."""
    named = os.environ.get("TEST_TORCH")
    if not named:
        pytest.skip("TEST_TORCH names no environment with nvidia-resiliency-ext")
    python = pathlib.Path(named).absolute() / "bin" / "python3"
    if not list(python.parent.parent.glob("lib/python3*/site-packages/nvidia_resiliency_ext")):
        pytest.skip(f"{named} has no nvidia-resiliency-ext")
    return python


def tries(env, mode, *python):
    done = subprocess.run(
        [*python, TRIES, mode], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_name_of_the_real_package_is_there(env, nvrx):
    """The real package and `muster.compat.nvrx` are imported. Each public class and function of the
    modules that the first one documents is in the second, with its parameters, fields and
    methods, or in a list of those that are left out."""
    assert re.search(r"compared [5-9]\d", tries(env, "names", nvrx))


def test_assignments_give_the_ranks_of_the_real_package(env, nvrx):
    """3,000 random assignments of both packages, trees among them, number the processes of a job in
    the first attempt and after a fault. The ranks are the same; behind them a tree of muster lets
    spares run too. Cases in which the real one leaves gaps are left out."""
    assert "well" in tries(env, "assignments", nvrx)


def test_assignments_by_a_condition_and_of_a_programs_own(env):
    """Groups are left out by any condition on their size, with keys that each process computes; a
    program has an assignment of its own, composed with others. One process works it out for all,
    as the real package does in each."""
    assert "well" in tries(env, "groups", *under(), sys.executable)


def test_callbacks_of_the_real_package(env):
    """`RetryController`, `FaultCounter`, `ThreadedFinalize` and the others are called. They raise what
    they are known to raise, with a text that says the limit; a name that has no counterpart says
    what to use instead."""
    assert "well" in tries(env, "callbacks", *under(), sys.executable)


def rows():
    """[the first cell's names] of the table of parameters."""
    text = PAGE.read_text()
    table = text[text.index("<!-- parameters -->") : text.index("<!-- end of parameters -->")]
    for line in table.splitlines():
        if line.startswith("| `"):
            yield re.findall(r"`(\w+)`", line.split("|")[1])


def test_the_table_has_every_parameter(env):
    """A parameter of the real `Wrapper` is new, or a row of the table in `python/restart.md` is left
    out. The table, what `muster.compat.nvrx.Wrapper` takes, and the signature of the real one
    where it is installed are compared."""
    named = os.environ.get("TEST_TORCH")
    pythons = [(*under(), sys.executable)]
    if named and (pathlib.Path(named) / "bin" / "python3").exists():
        pythons.append((pathlib.Path(named).absolute() / "bin" / "python3",))
    table = [name for row in rows() for name in row]
    assert len(table) == len(set(table))
    for python in pythons:
        for line in tries(env, "table", *python).splitlines():
            where, *names = line.split()
            if where == "here":
                assert set(names) == set(table)
            elif where == "there":
                assert set(names) <= set(table), set(names) - set(table)


@pytest.fixture
def run(spawn, muster):
    def start(size, mode):
        return Run(spawn, muster, size, rank=(*under(), sys.executable, RANK, mode))

    return start


def ended(job):
    assert job.run.wait() == 0, "\n".join(job.out.lines + job.log.lines)
    return {line for line in job.out.lines}


def test_a_program_with_another_import(run):
    """A program for the real package, of which only the import is changed, has four processes of
    which three are active; one raises. The three are in the function again, in the same processes,
    and return its value; the spare returns None. Callbacks get the state, and parameters without
    a meaning were warned of once each."""
    said = ended(run(4, "port"))
    for rank in range(3):
        for iteration in (0, 1):
            assert f"[{rank}]: entered iteration={iteration} rank={rank} size=3" in said
            line = f"[{rank}]: initialize iteration={iteration} rank={rank} mode=ACTIVE initial={rank}/4"
            assert line in said
        assert f"[{rank}]: returned {100 + rank}" in said
    assert {"[3]: returned None", "[3]: completed 3", "[1]: finalized"} <= said


def test_a_training_of_torch_with_another_import(spawn, muster, nvrx):
    """A DDP training over gloo for the real package, of which only the import is changed, fails twice in
    one rank. All go on in the same processes, over torch's own store of rank 0, and end with the
    weights of a training that was not disturbed, bit for bit."""

    def trained(fails):
        job = Run(spawn, muster, 2, "--max-restarts", 0, rank=(nvrx, DDP, fails))
        said = ended(job)
        found = {line.partition("iterations=")[2] for line in said if "iterations=" in line}
        assert len(found) == 1 and len(job.out.having("iterations=")) == 2, said
        return found.pop().split(" ", 1)

    undisturbed, disturbed = trained(0), trained(2)
    assert (undisturbed[0], disturbed[0]) == ("0", "2") and undisturbed[1] == disturbed[1]


@pytest.mark.parametrize(
    "mode, cause",
    [
        ("unhealthy", """MemoryError("after ValueError('a bug')")"""),
        ("counted", "FaultCounterExceeded('2 faults of this process: max_rank_faults is 1')"),
        ("unclean", "IndexError('list index out of range')"),
    ],
)
def test_an_unhealthy_process_ends_alone(run, mode, cause):
    """A health check fails after a fault of its process, `FaultCounter` has counted too many, or
    `finalize` fails. There `HealthCheckError`, or `InternalError`, is raised, because of what the
    callback raised; the others go on without it."""
    said = ended(run(3, mode))
    what = "internal" if mode == "unclean" else "unhealthy"
    assert {f"[1]: {what}: {cause}", "[1]: terminated 1 TERMINATED"} <= said
    assert {"[0]: returned 100", "[2]: returned 101"} <= said


@pytest.mark.parametrize(
    "mode, why",
    [("gives_up", "attempt 3 is not begun: max_iterations is 2"), ("aborts", "no data"), ("limit", "iterations")],
)
def test_a_run_is_given_up_on_all(run, mode, why):
    """`RetryController`, or `iterations_max` of muster, allows two attempts, and both fail; or the
    function of one process raises `RestartAbort`. It is raised on all, with its text."""
    said = ended(run(3, mode))
    for rank in range(3):
        assert any(line.startswith(f"[{rank}]: aborted: ") and why in line for line in said), said
