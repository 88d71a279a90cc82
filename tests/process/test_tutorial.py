# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md, typed by a reader who does what it says: tutorial.py tells how.

behaviour: program / The documentation
"""

import os
import re
import shutil
import tempfile

import pytest

from conftest import BUILD, ROOT
from tutorial import Page, blocks, matches

PAGE = (ROOT / "docs" / "tutorial.md").read_text()


@pytest.fixture
def reader(env):
    """In a clone that was built."""
    folder = tempfile.mkdtemp(prefix="mst-", dir="/tmp")
    clone = f"{folder}/muster"
    os.makedirs(f"{clone}/build")
    os.symlink(BUILD, f"{clone}/build/dev")
    env = {name: value for name, value in env.items() if name != "OMP_NUM_THREADS"}
    reader = Page(clone, {**env, "MUSTER_STATE_DIR": folder, "HOME": folder})
    yield reader
    reader.close()
    shutil.rmtree(folder, ignore_errors=True)


def test_every_command_says_what_the_page_shows(reader):
    """A reader types docs/tutorial.md, in three terminals. What comes out is what the page shows;
    its program is the example that is built."""
    reader.run(PAGE)


def test_the_program_of_the_page_is_the_example():
    """The program of the tutorial is the example that is built."""
    (program,) = re.findall(r"^```c\n(.*?)^```", PAGE, re.M | re.S)
    assert (ROOT / "examples/tutorial/steps.c").read_text().split("\n", 1)[1] == program


def test_every_block_is_typed_or_compared():
    """Every block of the tutorial is typed, or compared with the output."""
    kinds = re.findall(r"^```(\w+)", PAGE, re.M)
    assert set(kinds) == {"console", "c"} and len(blocks(PAGE)) == kinds.count("console")
    assert sum(line.startswith("$ ") for _, lines in blocks(PAGE) for line in lines) > 20


def test_what_is_shown_is_compared_in_the_order_of_each_rank():
    """The lines that the tutorial shows are compared in the order of each rank."""
    said = ["[0]: a", "[1]: b", "muster run: pid 4711 ended", "[0]: c"]
    assert matches(["[1]: b", "[0]: a", "[0]: c", "muster run: pid ... ended"], said, True)
    assert matches(["[1]: b", "...", "muster run: ... ended"], said, True)
    assert matches(["muster run: pid 4711 ended"], ["muster run: pid 4711 ended", "more"], False)
    assert not matches(["[1]: b", "[0]: c", "[0]: a", "muster run: pid ... ended"], said, True)
    assert not matches(["[1]: b", "[0]: a", "[0]: c"], said, True)
    assert not matches(["[0]: a"], [], False)
