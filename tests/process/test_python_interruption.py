# SPDX-License-Identifier: Apache-2.0
"""Where the function is when the job restarts, and how it leaves: the table of docs/python/restart.md.

behaviour: python / Interruption
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import test_python
from conftest import ROOT, sanitized
from running import Run
from saving import PATIENT
from test_python import PACKAGE

RANK = pathlib.Path(__file__).parent / "python_interruption.py"
PAGE = ROOT / "docs" / "python" / "restart.md"
AT_ONCE_S = 5.0  # on two busy cores; milliseconds otherwise
LEAVES = "20,40"  # soft and hard timeout: what does not leave is ended, and so noticed
IS_ENDED = "2,4"
OF_TORCH = {"gloo", "ddp", "data_loader"}

pytestmark = [
    *test_python.pytestmark,
    pytest.mark.skipif(sanitized(), reason="it looks at times; test_python_restart has the same code"),
]


def rows():
    """{place: (seconds that it may take, or None: it is ended)} of the table."""
    text = PAGE.read_text()
    table = text[text.index("<!-- places -->") : text.index("<!-- end of places -->")]
    found = {}
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        name = re.search(r"<!-- (\w+) -->", line)
        if name and len(cells) == 3:
            seconds = re.fullmatch(r"(at once)|(\d+) s|`hard_timeout`", cells[1])
            assert seconds, line
            found[name[1]] = 0 if seconds[1] else seconds[2] and int(seconds[2])
    return found


ROWS = rows()


def interpreter(place):
    """The python3 that has what the place needs."""
    needed = "numpy" if place == "numpy" else "torch" if place in OF_TORCH else "muster"
    pythons = [sys.executable]
    if os.environ.get("TEST_TORCH"):
        pythons.append(str(pathlib.Path(os.environ["TEST_TORCH"]).absolute() / "bin" / "python3"))
    for python in pythons:
        code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({needed!r}) is None)"
        env = {**os.environ, "PYTHONPATH": str(PACKAGE)}
        if subprocess.run([python, "-c", code], env=env, check=False).returncode == 0:
            return python
    pytest.skip(f"no python3 here has {needed}")


@pytest.fixture
def env(env):
    return {**env, **PATIENT, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.parametrize("place", ROWS)
def test_the_function_leaves_this_place(spawn, muster, tmp_path, place):
    """A peer fails while the function is in one of the places of the table in `python/restart.md`:
    a loop, a system call, a lock, a collective, a `finally`, an import, a call of C, an atomic
    section, a thread and others. It leaves by `Restart` within the time of the table, what cleans
    up is not cut short, a module is whole, no child is left, and the process goes on; or it is
    ended by its agent, and replaced."""
    limit = ROWS[place]
    python = interpreter(place)
    rank = (python, RANK, place, tmp_path, IS_ENDED if limit is None else LEAVES)
    job = Run(spawn, muster, 2, "--max-restarts", 1, rank=rank)
    assert job.run.wait() == 0, "\n".join(job.out.lines + job.log.lines)
    told = "\n".join(job.out.lines)
    if limit is None:
        assert re.search(r"replaced .*faults=FAILED,HARD_TIMEOUT", told), told
    else:
        left = re.search(r"left .*after=(-?[\d.]+) by=Restart clean=1 attempt=1", told)
        assert left and 0 < float(left[1]) < limit + AT_ONCE_S, told


def test_the_table_has_every_place():
    """A place is added to the ranks of these tests, or a row to the table. Each has the other."""
    names = re.search(r"^PLACES = \{\n(.*?)^\}", RANK.read_text(), re.M | re.S)[1]
    assert re.findall(r'"(\w+)":', names) == list(ROWS)
