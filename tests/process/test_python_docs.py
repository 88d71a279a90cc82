# SPDX-License-Identifier: Apache-2.0
"""Every block of Python in README and in the guides is run, as blocks.py says.

behaviour: python / The documentation
"""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

import blocks
from conftest import BUILD, MUSTER, ROOT, WAIT_S, sanitized

PACKAGE = BUILD / "python"
PAGES = sorted(
    path for path in [ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")]
    if re.search(r"^```python", path.read_text(), re.M)
)
# What a page may show and not every machine has. TEST_TORCH is an environment that has the large ones.
OPTIONAL = {"torch", "lightning", "pytorch_lightning", "transformers", "nvidia_resiliency_ext", "numpy",
            "cloudpickle", "tensorflow"}

pytestmark = [
    pytest.mark.skipif(
        not (PACKAGE / "muster").is_dir(), reason="this build found no python3 with cffi and Python.h"
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("cffi") is None, reason=f"{sys.executable} has no cffi"
    ),
    pytest.mark.skipif(sanitized(), reason="a sanitizer finds nothing in a page"),
]


def cases():
    for page in PAGES:
        for command in blocks.read(page.read_text())[1]:
            yield pytest.param(page, command, id=f"{page.relative_to(ROOT)}:{command.line}")


def has(python, package):
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    return subprocess.run([python, "-c", code]).returncode == 0


def interpreter(imported):
    """The python3 that has these packages of others; a machine may have none."""
    needed = sorted(OPTIONAL & imported)
    known = [sys.executable]
    if os.environ.get("TEST_TORCH"):
        known.append(os.path.join(os.environ["TEST_TORCH"], "bin", "python3"))
    for python in known:
        if all(has(python, package) for package in needed):
            return python
    pytest.skip(f"no python3 here has {', '.join(needed)}")


@pytest.mark.parametrize(("page", "command"), cases())
def test_blocks_of_a_page_run(page, command, env, tmp_path):
    """A page shows a program in Python. It runs as the page says, or by `muster run -n 2`, and ends
    as the page says."""
    imported = {package for program in command.programs for package in program.imports()}
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(interpreter(imported))
    for program in command.programs:
        (tmp_path / program.name).write_text(program.text)
    env["PATH"] = os.pathsep.join([str(tmp_path / "bin"), str(MUSTER.parent), env["PATH"]])
    env["PYTHONPATH"] = str(PACKAGE)
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(["bash", "-euc", command.typed], cwd=tmp_path, env=env, timeout=WAIT_S * 2,
                          capture_output=True, text=True)
    assert done.returncode == command.code, f"{command.typed}\n{done.stdout}{done.stderr}"


SAMPLE = """# A page
<!-- python: run -n 3, exits 4
x = 1
-->
```python
import muster
print(x)
```
words
```python
with a:
    b
```
```python
# worker.py
import os
```
```sh
pip install something
muster run -n 4 -- python3 train.py : -n 2 worker.py  # both
python3 -m muster run -n 1 -- python3 other.py
```
<!-- python: begins
def f():
    ...
    return 2
-->
```python
y

z
```
"""


def test_blocks_become_programs():
    """A page has blocks that begin a program, continue one, have a name, have a hidden part before
    or around them, and a shell block that runs two of them. Each is where the page says."""
    programs, commands = blocks.read(SAMPLE)
    assert [program.text for program in programs] == [
        "x = 1\nimport muster\nprint(x)\nwith a:\n    b\n", "# worker.py\nimport os\n",
        "def f():\n    y\n\n    z\n    return 2\n"]
    assert [(command.typed, command.code) for command in commands] == [
        ("muster run -n 3 -- python3 block5.py", 4), ("muster run -n 2 -- python3 worker.py", 0),
        ("muster run -n 2 -- python3 block28.py", 0)]


def test_a_program_is_called_as_the_next_shell_block_calls_it():
    """A program without a name stands above a shell block that runs one file. The two are one."""
    programs, commands = blocks.read(SAMPLE.replace("# worker.py\n", "").replace(" : -n 2 worker.py", "")
                                     .replace("-- python3 other.py", ""))
    assert [program.name for program in programs] == ["block5.py", "train.py", "block27.py"]
    assert commands[1].typed == "muster run -n 4 -- python3 train.py"


@pytest.mark.parametrize("page", [
    "```python\nx = 1\n```\n",
    "<!-- python: exit 4 -->\n```python\nimport x\n```\n",
    "<!-- python: exits 4 -->\n```sh\nls\n```\n",
    "<!-- python: exits 4 -->\ntext\n```python\nimport x\n```\n",
    "```python\n# a.py\nimport x\n```\n```python\n# a.py\nimport y\n```\n",
])
def test_what_a_page_does_not_say_clearly_is_refused(page):
    """A page has a block that continues nothing, words that mean nothing, a comment above no Python
    or far from it, two files of one name. It is refused: no block is left out in silence."""
    with pytest.raises(blocks.Unclear):
        blocks.read(page)
