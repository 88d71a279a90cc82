# SPDX-License-Identifier: Apache-2.0
"""For tests with the real PyTorch: pip installs it into the virtual environment that TEST_TORCH names,
several GB, so only where that is asked for."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

from benchlib.pytorch import TESTS, VERSION, install  # noqa: E402, F401 (the path comes first)


@pytest.fixture(scope="module")
def torch():
    """The programs of a virtual environment with PyTorch."""
    named = os.environ.get("TEST_TORCH")
    if not named:
        pytest.skip("TEST_TORCH names no folder for PyTorch (5 GB)")
    venv = pathlib.Path(named).absolute()
    why = install(venv, TESTS)
    if why is not None:
        pytest.skip(why)
    return venv / "bin"
