# SPDX-License-Identifier: Apache-2.0
"""Rank assignments in Python and what goes with them, without a job: python_assignment.py.

behaviour: python / Assignment
"""

import importlib.util
import pathlib
import subprocess
import sys

import pytest

from conftest import sanitized
from test_python import PACKAGE, under

TRIES = pathlib.Path(__file__).parent / "python_assignment.py"

pytestmark = [
    pytest.mark.skipif(
        not (PACKAGE / "muster").is_dir(), reason="this build found no python3 with cffi and Python.h"
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("cffi") is None, reason=f"{sys.executable} has no cffi"
    ),
]


def tries(env, mode):
    done = subprocess.run(
        [*under(), sys.executable, TRIES, mode],
        env={**env, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout == "well\n", done.stdout + done.stderr


@pytest.mark.parametrize("mode", ["steps", "trees"])
@pytest.mark.skipif(sanitized(), reason="the same steps as in unit tests, a hundred times slower")
def test_an_assignment_in_python_is_that_of_c(env, mode):
    """Assignments at random, of steps and of trees, with keys by name and by function, are worked
    out for 3,000 jobs, each over four attempts in which processes die and return. The ranks are
    those of a model in Python, by the rules of `assignment.h`."""
    tries(env, mode)


def test_functions_of_an_assignment(env):
    """A function stands in for a step, a key or a size. It gets the places as the steps before left
    them. What it raises is raised; a number, a size or a key that cannot be is `Invalid`, and
    says which; no place is changed."""
    tries(env, "functions")


def test_an_assignment_that_cannot_be_is_refused(env):
    """Steps in a wrong order, a count of 0, an unknown key, or something that is no step. It is
    refused where it is written, in one line that says what is expected."""
    tries(env, "refused")


def test_the_label_of_a_process(env):
    """The label for the keys of an assignment is given as text or as a function of the state. C
    gets it; without one the environment's counts."""
    tries(env, "labels")


def test_composed_callables(env):
    """Callables are composed. The last is called first, each gets what the one before returned, or
    what that was given if it returned nothing; the state cannot be changed."""
    tries(env, "composed")


def test_an_assignment_of_16384_places(env):
    """An assignment by host of 16,384 places, with the key by name and by function. Both give the
    same ranks."""
    tries(env, "many")
