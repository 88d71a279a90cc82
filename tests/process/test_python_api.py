# SPDX-License-Identifier: Apache-2.0
"""What `import muster` offers: each public name is documented and has hints, and the import is quick.

behaviour: python / What can be imported
"""

import ast
import dataclasses
import enum
import importlib.util
import inspect
import os
import pickle
import pkgutil
import re
import shutil
import statistics
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT, sanitized

PACKAGE = BUILD / "python"
ALIASES = {"ClusterCoordinator", "PerWorkerValues"}  # of classes that have a place under their own name
IMPORT_MS = 60
COUNT_MS = 20
TIMES = 9
# Beside what an interpreter has imported when it starts, and the private modules of these.
MAY_BE_IMPORTED = {
    "array", "ast", "atexit", "collections", "contextlib", "contextvars", "copy", "copyreg", "dataclasses", "datetime",
    "dis", "enum", "errno", "functools", "importlib", "inspect", "itertools", "keyword", "linecache", "logging", "math",
    "muster", "opcode", "operator", "re", "reprlib", "select", "selectors", "signal", "socket", "string", "struct",
    "textwrap", "threading", "time", "token", "tokenize", "traceback", "types", "warnings", "weakref",
}

pytestmark = [
    pytest.mark.skipif(
        not (PACKAGE / "muster").is_dir(), reason="this build found no python3 with cffi and Python.h"
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("cffi") is None, reason=f"{sys.executable} has no cffi"
    ),
    pytest.mark.skipif(sanitized(), reason="a library with a sanitizer is not loaded into this process"),
]


def python(code, **variables):
    env = {**os.environ, "PYTHONPATH": str(PACKAGE), **variables}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout


def test_import_takes_few_modules_of_python_and_none_of_others():
    """`import muster` imports itself, cffi's module in C and a part of Python's own library: no
    asyncio, no concurrent.futures, nothing that is installed beside it."""
    said = python("import sys; before = set(sys.modules); import muster; print(*set(sys.modules) - before)")
    names = {name.partition(".")[0] for name in said.split()}
    assert {name for name in names if not name.startswith("_")} <= MAY_BE_IMPORTED
    foreign = names - set(sys.stdlib_module_names) - {"muster", "_cffi_backend"}
    assert foreign == set()


def test_the_syntax_is_that_of_the_oldest_python():
    """The source of the package has no syntax that is newer than the Python that it requires. (mypy
    looks for what of the standard library is.)"""
    declared = re.search(r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text())[1]
    sources = sorted((ROOT / "python" / "muster").rglob("*.py"))
    assert len(sources) > 20
    for path in sources:
        ast.parse(path.read_text(), path.name, feature_version=(3, int(declared)))
    with pytest.raises(SyntaxError):
        ast.parse("match 1:\n    case 1: pass", feature_version=(3, int(declared)))


def test_import_is_quick(tmp_path):
    """`import muster` takes at most 60 ms of a processor that counts to a million in 20 ms. One that
    others use as well has more time. The bytecode is there, as pip writes it."""
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    python("import muster", **compiled)
    assert list(tmp_path.rglob("_c.*.pyc"))
    code = """import time
def count():
    for _ in range(1000000):
        pass
a = time.process_time(); import muster; b = time.process_time(); count(); print(b - a, time.process_time() - b)"""
    measured = [[1000 * float(word) for word in python(code, **compiled).split()] for _ in range(TIMES)]
    took, counted = (statistics.median(column) for column in zip(*measured))
    assert took <= IMPORT_MS * max(1, counted / COUNT_MS), measured


@pytest.fixture(scope="module")
def modules():
    """The package and its public modules; those that need what this machine has not are left out."""
    sys.path.insert(0, str(PACKAGE))
    try:
        import muster

        found = [muster]
        for module in pkgutil.walk_packages(muster.__path__, "muster."):
            if not any(part.startswith("_") for part in module.name.split(".")):
                try:
                    found.append(importlib.import_module(module.name))
                except ModuleNotFoundError as missing:
                    assert not (missing.name or "muster").startswith("muster"), missing
        return found
    finally:
        sys.path.remove(str(PACKAGE))


def public(modules):
    """(what a user writes, the thing) of all that the modules offer."""
    for module in modules:
        own = [name for name in dir(module) if not name.startswith("_")]
        for name in getattr(module, "__all__", own):
            thing = getattr(module, name)
            if not (inspect.isclass(thing) or inspect.isfunction(thing)):
                continue
            if not (thing.__module__ or "").startswith("muster" if hasattr(module, "__all__") else module.__name__):
                continue
            yield f"{module.__name__}.{name}", thing
            if inspect.isclass(thing):
                for attribute, value in vars(thing).items():
                    if attribute.startswith("_"):
                        continue
                    if isinstance(value, (staticmethod, classmethod)):
                        value = value.__func__
                    if inspect.isfunction(value) or isinstance(value, property):
                        yield f"{module.__name__}.{name}.{attribute}", value


def described(thing):
    """Whether it has words of its own: not those that Python gives every enum, dataclass or exception."""
    own = inspect.cleandoc(thing.__doc__ or "")
    signature = f"{thing.__name__}(" if dataclasses.is_dataclass(thing) else "\0"
    given = {"", "An enumeration."} | {inspect.cleandoc(base.__doc__ or "") for base in getattr(thing, "__mro__", ())[1:]}
    return own not in given and not own.startswith(signature)


def test_every_public_name_is_documented(modules):
    """Every class, function, method and property that the package and its public modules offer has a
    docstring."""
    names = dict(public(modules))
    assert {"muster.open", "muster.Job.round", "muster.Keys.cas", "muster.View", "muster.Reach"} <= set(names)
    assert [name for name, thing in names.items() if not described(thing)] == []


def test_every_name_is_offered_once(modules):
    """`muster.__all__` has every public name of the package, once, in the order of the alphabet: type
    checkers take what is not in it for private."""
    names = modules[0].__all__
    assert names == sorted(set(names))
    assert [name for name in names if not hasattr(modules[0], name)] == []
    there = {name for name, thing in vars(modules[0]).items()
             if not name.startswith("_") and not inspect.ismodule(thing)}
    assert there <= set(names)


def test_a_pickle_has_the_name_that_users_write(modules):
    """Every class and function that the public modules offer is pickled by a name that can be imported;
    what `muster.cluster` offers by that name, in whichever of its files it is written."""
    for module in modules:
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                assert pickle.loads(pickle.dumps(thing)) is thing, name
                assert thing.__module__ == "muster.cluster" or module.__name__ != "muster.cluster", name


def test_the_pages_of_the_api_have_every_name(modules, tmp_path):
    """`make apidoc` writes pages of the API, one for each module. Every class, function, method and
    property has its place there, with its hints."""
    done = subprocess.run([ROOT / "tools" / "apidoc", BUILD, tmp_path], capture_output=True, text=True)
    if done.returncode == 69:
        pytest.skip(f"the Python package index is not reached: {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr
    own = [module for module in modules if module.__name__ in ("muster", "muster.cluster", "muster.worker")]
    assert len(own) == 3
    for module in own:
        page = tmp_path.joinpath(*module.__name__.split(".")).with_suffix(".html").read_text()
        listed = [name.removeprefix(f"{module.__name__}.") for name, _ in public([module])]
        names = [name for name in listed if name.split(".")[0] not in ALIASES]
        assert [name for name in names if f'id="{name}"' not in page] == []
    page = (tmp_path / "muster.html").read_text()
    assert "Optional" in page and "Handle" in page


def test_stubs_say_what_is_made_at_run_time(modules):
    """Enums, records and the functions of C are made at run time. The stubs that type checkers read have
    the same names, values and fields."""
    from muster import _muster

    stubs = {}
    exec((PACKAGE / "muster" / "_types.pyi").read_text(), stubs)
    compared = 0
    for name, stub in stubs.items():
        made = next((getattr(module, name) for module in modules if hasattr(module, name)), None)
        if not inspect.isclass(stub) or stub.__module__ != "builtins" or name == "Level":  # of _log.py alone
            continue
        compared += 1
        assert made is not None, name
        if issubclass(stub, enum.Enum):
            assert {one.name: one.value for one in stub} == {one.name: one.value for one in made}, name
        else:
            assert [field.name for field in dataclasses.fields(stub)] == \
                [field.name for field in dataclasses.fields(made)], name
    assert compared >= 15
    library = (PACKAGE / "muster" / "_muster.pyi").read_text().split("class _Lib:")[1]
    said = set(re.findall(r"^    (?:def )?(\w+)", library, re.M))
    assert said == set(dir(_muster.lib))


PROGRAM = """import muster

with muster.open(timeout=5) as job:
    rank = job.view.rank
    job.keys["a"] = "b"
    if job.preempt.reached(1) is muster.Reach.SAVE_NOW:
        print(job.members()[0].state is muster.MemberState.LOST, rank)
"""
MISTAKES = """import muster

with muster.open() as job:
    job.view.rank + 1
    job.view.rang
    job.barrier(5)
    muster.Reach.SAVE
    found: bytes = job.keys.get("a")
"""


@pytest.mark.skipif(not shutil.which("mypy"), reason="no mypy")
def test_a_type_checker_sees_the_package(tmp_path):
    """A program that uses the package is checked by `mypy --strict`. What is right passes; each mistake
    is found: a rank that may be None, a field and a member of an enum that are not there, a number for a
    name, a key that may be missing."""
    (tmp_path / "right.py").write_text(PROGRAM)
    (tmp_path / "wrong.py").write_text(MISTAKES)
    env = {**os.environ, "MYPYPATH": str(PACKAGE)}

    def check(name):
        done = subprocess.run(["mypy", "--strict", "--cache-dir", tmp_path / "cache", name], cwd=tmp_path, env=env,
                              capture_output=True, text=True)
        return [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line]

    assert check("right.py") == []
    assert check("wrong.py") == [4, 5, 6, 7, 8]
