# SPDX-License-Identifier: Apache-2.0
"""The wheel of tools/wheel, in an environment that has neither a compiler nor this tree.

behaviour: python / The wheel
"""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

import blocks
from conftest import BUILD, ROOT, WAIT_S, sanitized

VERSION = re.search(r"project\(muster VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
GLIBC = r"linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|resolv|util|anl)\.so"
ZLIB = r"libz\.so\.1 "  # not bundled: wheels for Linux may count on it

pytestmark = [
    pytest.mark.skipif(
        not (BUILD / "python" / "muster").is_dir(), reason="this build found no python3 with cffi and Python.h"
    ),
    pytest.mark.skipif(importlib.util.find_spec("venv") is None, reason=f"{sys.executable} has no venv"),
    pytest.mark.skipif(sanitized(), reason="what is installed carries no sanitizer"),
]


def ran(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=10 * WAIT_S, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The folder with the source distribution and the wheel of this build."""
    out = tmp_path_factory.mktemp("published")
    done = subprocess.run([ROOT / "tools" / "wheel", "--built", BUILD, out], capture_output=True, text=True)
    if done.returncode == 69:
        pytest.skip(f"the Python package index is not reached: {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def wheel(published):
    (path,) = published.glob("*.whl")
    return path


class Environment:
    """A new environment of Python, whose folder of programs is all the PATH."""

    def __init__(self, folder, python=sys.executable):
        ran([python, "-m", "venv", folder])
        self.bin = folder / "bin"
        self.variables = {name: value for name, value in os.environ.items()
                          if not name.startswith(("MUSTER_", "PYTHON"))}
        self.variables["PATH"] = str(self.bin)
        for compiler in ("cc", "gcc", "c99", "clang", "cmake"):
            assert not shutil.which(compiler, path=self.variables["PATH"])

    def run(self, *command, env=None, **options):
        return ran(command, env={**self.variables, **(env or {})}, **options)


@pytest.fixture(scope="module")
def clean(tmp_path_factory, wheel):
    """Where the wheel was installed as a user does it."""
    made = Environment(tmp_path_factory.mktemp("clean"))
    made.run(made.bin / "pip", "install", "--disable-pip-version-check", wheel)
    return made


@pytest.fixture
def env(env):
    return {name: value for name, value in env.items() if name == "MUSTER_RUNTIME_DIR"}


def test_two_commands_from_a_wheel_to_a_job(clean, env, tmp_path):
    """An environment has nothing but Python. After `pip install` of the wheel, the Python program of
    README runs as four ranks by the command that README shows."""
    programs, commands = blocks.read((ROOT / "README.md").read_text())
    (hello,) = [program for program in programs if program.name == "hello.py"]
    (command,) = [command.typed for command in commands if command.programs == [hello]]
    (tmp_path / hello.name).write_text(hello.text)
    program, *words = command.split()
    out = clean.run(clean.bin / program, *words, cwd=tmp_path, env=env)
    assert sorted(out.splitlines()) == [f"[{n}]: rank {n} of 4: the sum of all ranks is 6" for n in range(4)]


MODULE = """
import os, pathlib, sys, muster
with muster.open() as job:
    print(job.view.rank, muster.__version__, pathlib.Path(muster.__file__).parent)
"""


def test_the_module_and_the_program_are_those_of_the_wheel(clean, env, tmp_path):
    """`python -m muster` and the `muster` beside python are one program, of the version of the module
    and of the distribution. `muster run -m` runs a module, and it has the package of the wheel."""
    (tmp_path / "work.py").write_text(MODULE)
    said = [clean.run(*command, "--version", env=env).split()
            for command in ([clean.bin / "python", "-m", "muster"], [clean.bin / "muster"])]
    assert said == [["muster", VERSION]] * 2
    code = "from importlib.metadata import version; print(version('muster-run'))"
    assert clean.run(clean.bin / "python", "-c", code).strip() == VERSION
    out = clean.run(clean.bin / "muster", "run", "-n", "2", "-m", "work", cwd=tmp_path, env=env)
    ranks = sorted(line.split(maxsplit=3) for line in out.splitlines())
    assert [rank[1:3] for rank in ranks] == [["0", VERSION], ["1", VERSION]]
    assert all(str(clean.bin.parent) in rank[3] for rank in ranks)


ALONE = """
import os, pathlib, muster
with muster.open() as job:
    pids = pathlib.Path("/proc").glob("[0-9]*/exe")
    print(*{os.readlink(exe) for exe in pids if os.access(exe, os.R_OK) and "/muster/bin/" in os.readlink(exe)})
"""


def test_a_program_that_is_started_alone_finds_the_service_of_the_wheel(clean, env):
    """A program is started without `muster run`, in an environment with the wheel. The service that
    it starts is the wheel's."""
    out = clean.run(clean.bin / "python", "-c", ALONE, env=env)
    assert str(clean.bin.parent) in out


def test_what_the_wheel_holds(wheel):
    """The wheel is for Python's stable ABI and for a glibc that is named, and has nothing outside of
    its package: no test, no header of others. It says that it is typed."""
    assert re.fullmatch(rf"muster_run-{re.escape(VERSION)}-cp39-abi3-manylinux_2_\d+_\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"muster", "muster_run.libs", f"muster_run-{VERSION}.dist-info"}
    modules = {str(path.relative_to(ROOT / "python")) for path in (ROOT / "python" / "muster").glob("**/*.py")}
    rest = {"muster/_muster.abi3.so", "muster/_muster.pyi", "muster/_types.pyi", "muster/py.typed", "muster/bin/muster",
            "muster/lib/libmuster.so.0"}
    assert {name for name in names if name.startswith("muster/")} == modules | rest


def test_no_library_of_the_machine_but_glibc_and_zlib_is_needed(clean):
    """The wheel's library and module load: they need nothing of the machine but glibc. Its program needs zlib too, which
    pip itself has."""
    (package,) = clean.bin.parent.glob("lib/python*/site-packages/muster")
    for binary in ("bin/muster", "lib/libmuster.so.0", "_muster.abi3.so"):
        lines = ran(["ldd", package / binary]).splitlines()
        ours = rf"{clean.bin.parent}|{GLIBC}" + (f"|{ZLIB}" if binary == "bin/muster" else "")
        foreign = [line for line in lines if not re.search(ours, line)]
        assert foreign == []


def test_the_source_distribution_builds_a_wheel(published, tmp_path):
    """The source distribution has no tests. `pip install` of it, in a new environment, compiles the
    package with what pyproject.toml requires, and the package works."""
    (source,) = published.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = archive.getnames()
    assert not [name for name in names if re.match(r"[^/]+/(tests|docs|bench|packaging|tools|\.)", name)]
    made = Environment(tmp_path / "new")
    # Not optimised: that it compiles is what is looked at.
    made.run(made.bin / "pip", "install", "-q", "--disable-pip-version-check",
             "--config-settings=cmake.build-type=Debug",
             "--config-settings=cmake.define.CMAKE_INTERPROCEDURAL_OPTIMIZATION=OFF",
             "--config-settings=cmake.define.CMAKE_C_FLAGS_DEBUG=-O0", source,
             env={"PATH": os.environ["PATH"]}, cwd=tmp_path)
    assert made.run(made.bin / "muster", "--version").split() == ["muster", VERSION]
    out = made.run(made.bin / "muster", "run", "-n", "2", "python", "-c", MODULE)
    assert len([line for line in out.splitlines() if VERSION in line]) == 2


def test_the_source_distribution_names_what_is_missing(published, tmp_path):
    """`pip install` of the source distribution does not find the headers of libraries. One line names
    all of them, and the packages that have them."""
    (source,) = published.glob("*.tar.gz")
    made = Environment(tmp_path / "new")
    done = subprocess.run(
        [made.bin / "pip", "install", "--disable-pip-version-check", source], capture_output=True, text=True,
        cwd=tmp_path, timeout=10 * WAIT_S,
        env={**made.variables, "PATH": os.environ["PATH"], "PKG_CONFIG_LIBDIR": str(tmp_path), "PKG_CONFIG_PATH": ""})
    assert done.returncode != 0
    (line,) = [line.strip() for line in done.stdout.splitlines() + done.stderr.splitlines() if "cannot be built" in line]
    assert line == (
        "muster cannot be built: not found: libuv, jansson, libmicrohttpd, libnghttp2, zlib, libcurl; on Debian: "
        "apt-get install libuv1-dev libjansson-dev libmicrohttpd-dev libnghttp2-dev zlib1g-dev libcurl4-openssl-dev")


EVERYTHING = """
import importlib, pkgutil, sys
import muster

for module in pkgutil.walk_packages(muster.__path__, "muster."):
    if module.name.rpartition(".")[2] not in ("torch", "lightning", "transformers", "__main__"):
        importlib.import_module(module.name)

@muster.Wrapper()
def train(call: muster.Call):
    call.job.barrier("met", timeout=60)
    if call.iteration == 0 and call.rank == 1:
        raise ValueError("once")
    while call.iteration == 0:
        call.check()
    return call.size

print(f"3.{sys.version_info[1]}: {train()} ranks")
"""


def interpreter(minor):
    """A python3 of this version in the PATH or of pyenv; None: there is none with venv."""
    root = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    found = [shutil.which(f"python3.{minor}"), *sorted(root.glob(f"versions/3.{minor}.*/bin/python3"))]
    works = "import ensurepip, sys; sys.exit(sys.version_info[1] != int(sys.argv[1]))"
    return next((path for path in found if path and subprocess.run(
        [path, "-c", works, str(minor)], capture_output=True, timeout=WAIT_S).returncode == 0), None)


@pytest.mark.parametrize("minor", range(9, 15))
def test_one_wheel_serves_each_python(wheel, env, tmp_path, minor):
    """The wheel is installed for each Python from the oldest that it allows on, if the machine has it.
    All modules are imported, and two ranks begin again after one has failed."""
    python = interpreter(minor)
    if python is None:
        pytest.skip(f"no python3.{minor} with venv in the PATH or of pyenv")
    made = Environment(tmp_path / "new", python)
    made.run(made.bin / "pip", "install", "-q", "--disable-pip-version-check", wheel)
    (tmp_path / "all.py").write_text(EVERYTHING)
    out = made.run(made.bin / "muster", "run", "-n", "2", "python", "all.py", cwd=tmp_path, env=env)
    assert sorted(out.splitlines()) == [f"[{rank}]: 3.{minor}: 2 ranks" for rank in range(2)]


def test_a_package_without_its_program_says_so(tmp_path):
    """The program was removed from an installed package. The command `muster` of the environment says
    so in one line, and does not start itself again and again."""
    package = tmp_path / "lib" / "python3" / "site-packages" / "muster"
    package.mkdir(parents=True)
    shutil.copy(ROOT / "python" / "muster" / "__main__.py", package)
    command = tmp_path / "bin" / "muster"
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\nexec '{sys.executable}' -B '{package}/__main__.py' \"$@\"\n")
    command.chmod(0o755)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    done = subprocess.run([command, "--version"], env=variables, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 1
    assert done.stderr == f"muster: no program beside the package {package}: set MUSTER_PROGRAM to its path\n"
