# SPDX-License-Identifier: Apache-2.0
"""For tests with the real clients of JAX and torch: `make interop` puts each into a virtual environment
below build/interop, or a variable names one that is there."""

import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOBS = ROOT / "tests" / "interop"


def client(name):
    """The programs of the environment `name`; skips where it is not there."""
    named = os.environ.get(f"TEST_{name.upper()}")
    folder = pathlib.Path(named) if named else ROOT / "build" / "interop" / name
    if not (folder / "bin" / "python").exists():
        pytest.skip(f"no virtual environment with {name}: make interop")
    return folder / "bin"
