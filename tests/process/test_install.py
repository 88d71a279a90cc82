# SPDX-License-Identifier: Apache-2.0
"""What is installed is enough: under a prefix of its own, programs outside of this tree are built with
pkg-config and with CMake, and run.

behaviour: install / A program outside of the tree
"""

import functools
import os
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, MUSTER, ROOT, sanitized

pytestmark = pytest.mark.skipif(
    sanitized(), reason="what is installed carries no sanitizer; a program would need it too"
)

SYMBOLS = (ROOT / "tests/abi/symbols.txt").read_text().split()
CMAKELISTS = """
cmake_minimum_required(VERSION 3.16)
project(outside LANGUAGES C CXX)
find_package(muster 0.1 REQUIRED)
add_executable(shared x.c)
target_link_libraries(shared PRIVATE muster::muster)
add_executable(static x.c)
target_link_libraries(static PRIVATE muster::muster_static)
"""
CXX = """
#include <muster/muster.h>
int main()
{
    muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
    struct muster_round_count count = {};
    muster_client *client = nullptr;
    muster_error err = {};
    muster_status status = muster_client_open(&client, nullptr, 10000, &err);
    if (status == MUSTER_OK) {
        muster_round_result *result = nullptr;
        status = muster_round_join(client, "cxx", &options, muster_slice{}, 10000, &result, &err);
        muster_round_count(result, &count);
        muster_round_free(result);
    }
    muster_client_close(client);
    return status == MUSTER_OK && count.arrived == count.expected ? 0 : 1;
}
"""


@functools.lru_cache(maxsize=None)
def release():
    """Where it is built what `make install` installs."""
    folder = BUILD / "tests/process/release"
    for command in (["cmake", "--preset", "release", "-B", folder, "-DCMAKE_INSTALL_PREFIX=/usr/local"],
                    ["nice", "cmake", "--build", folder, "--parallel", str(os.cpu_count())]):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def install(prefix, destdir=""):
    """As `make install` does; the list of what came where."""
    done = subprocess.run(
        ["cmake", "--install", str(release()), "--prefix", str(prefix)],
        env={**os.environ, "DESTDIR": str(destdir)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return (release() / "install_manifest.txt").read_text()


class Installed:
    def __init__(self, prefix):
        self.prefix = prefix
        self.files = install(prefix).splitlines()
        self.muster = prefix / "bin" / "muster"
        (pc,) = prefix.glob("lib*/**/muster.pc")
        self.pkgconfig = pc.parent
        self.lib = self.pkgconfig.parent

    def shell(self, line, env, folder):
        env = {**env, "PKG_CONFIG_PATH": str(self.pkgconfig)}
        done = subprocess.run(["sh", "-c", line], env=env, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        return done


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    return Installed(tmp_path_factory.mktemp("outside") / "prefix with a long way")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A prefix whose path a shell does not part."""
    return Installed(tmp_path_factory.mktemp("outside") / "prefix")


@pytest.fixture
def outside(tmp_path):
    """A folder with the README's program as x.c, and nothing else."""
    (program,) = re.findall(r"^```c\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    (tmp_path / "x.c").write_text(program)
    return tmp_path


def runs(program, plain, env):
    """Alone it is a job of one; under the installed `muster run -n 2` it is both of its ranks."""
    alone = subprocess.run([program], env=env, capture_output=True, text=True, timeout=60)
    assert alone.stdout == "generation 1: rank 0 of 1\n", alone.stderr
    assert alone.returncode == 0 and "a job of one" in alone.stderr
    both = subprocess.run(
        [plain.muster, "run", "-n", "2", "--", program],
        env=env, capture_output=True, text=True, timeout=60,
    )
    assert sorted(both.stdout.splitlines()) == [
        "[0]: generation 1: rank 0 of 2",
        "[1]: generation 1: rank 1 of 2",
    ], both.stderr
    assert both.returncode == 0


def test_a_program_with_pkg_config(plain, outside, env):
    """The README's program is compiled with `cc x.c $(pkg-config --cflags --libs muster)`. It
    runs, without `LD_LIBRARY_PATH`."""
    plain.shell("cc x.c $(pkg-config --cflags --libs muster) -o x", env, outside)
    needed = subprocess.run(["readelf", "-d", outside / "x"], capture_output=True, text=True).stdout
    assert "[libmuster.so.0]" in needed and "protobuf" not in needed
    runs(outside / "x", plain, env)


def test_a_static_program_with_pkg_config(plain, outside, env):
    """The README's program is linked statically, all of it, by `pkg-config --static`. It needs no
    library and runs; `muster` is looked for in the `PATH`."""
    plain.shell("cc -static x.c $(pkg-config --cflags --libs --static muster) -o x", env, outside)
    said = subprocess.run(["readelf", "-d", outside / "x"], capture_output=True, text=True).stdout
    assert "NEEDED" not in said
    # What is linked in does not lie in the prefix any more: the program is looked for in the PATH.
    runs(outside / "x", plain, {**env, "PATH": f"{plain.muster.parent}:{env['PATH']}"})


def test_the_archive_is_for_any_compiler(plain, outside, env):
    """The product is optimised as a whole program. The installed archive is machine code all the
    same: another compiler links it. [What is installed]"""
    said = subprocess.run(["readelf", "-SW", plain.lib / "libmuster.a"], capture_output=True, text=True)
    assert ".text" in said.stdout and ".gnu.lto" not in said.stdout
    if shutil.which("clang-14"):
        plain.shell("clang-14 -static x.c $(pkg-config --cflags --libs --static muster) -o x", env, outside)
        runs(outside / "x", plain, {**env, "PATH": f"{plain.muster.parent}:{env['PATH']}"})


def test_the_library_alone_can_be_linked_in(plain, outside, env):
    """Only the library is linked in. The line of the page on installing does it."""
    line = next(
        line
        for line in (ROOT / "docs/install.md").read_text().splitlines()
        if line.startswith("cc ") and "libmuster.a" in line
    )
    plain.shell(line, env, outside)
    said = subprocess.run(["readelf", "-d", outside / "x"], capture_output=True, text=True).stdout
    assert "libc." in said and "protobuf" not in said and "libmuster" not in said
    runs(outside / "x", plain, {**env, "PATH": f"{plain.muster.parent}:{env['PATH']}"})


def configure(prefix, folder, env):
    return subprocess.run(
        ["cmake", "-G", "Ninja", "-S", folder, "-B", folder / "b", f"-DCMAKE_PREFIX_PATH={prefix}"],
        env=env, capture_output=True, text=True,
    )


def test_a_program_with_cmake(plain, outside, env):
    """The README's program is built with CMake's `find_package(muster 0.1)`, shared and static.
    Both run. Another minor version that is asked for is not found."""
    (outside / "CMakeLists.txt").write_text(CMAKELISTS)
    done = configure(plain.prefix, outside, env)
    assert done.returncode == 0, done.stderr
    plain.shell("cmake --build b", env, outside)
    runs(outside / "b" / "shared", plain, env)
    said = subprocess.run(["readelf", "-d", outside / "b/static"], capture_output=True, text=True)
    assert "libmuster" not in said.stdout
    runs(outside / "b" / "static", plain, {**env, "PATH": f"{plain.muster.parent}:{env['PATH']}"})
    # A version that this one does not promise to be.
    (outside / "CMakeLists.txt").write_text(CMAKELISTS.replace("muster 0.1 ", "muster 0.2 "))
    done = configure(plain.prefix, outside, env)
    assert done.returncode != 0 and "muster" in done.stderr


def test_a_program_in_cxx_without_a_warning(plain, outside, env):
    """The program is C++, with warnings as errors. There is none from muster's headers, also of
    `-Wshadow`."""
    (outside / "x.cc").write_text(CXX)
    flags = "-Wall -Wextra -Wshadow -Wconversion -Wold-style-cast -pedantic -Werror"
    plain.shell(
        f"c++ -std=c++11 {flags} x.cc $(pkg-config --cflags --libs muster) -o x", env, outside
    )
    done = subprocess.run([outside / "x"], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_prefix_with_blanks(installed, outside, env):
    """The prefix has blanks in its path. With CMake it makes no difference; pkg-config quotes its
    words for no shell."""
    (outside / "CMakeLists.txt").write_text(CMAKELISTS)
    done = configure(installed.prefix, outside, env)
    assert done.returncode == 0, done.stderr
    installed.shell("cmake --build b", env, outside)
    runs(outside / "b" / "shared", installed, env)


def test_a_prefix_that_is_moved(tmp_path, env):
    """The prefix is moved. The program runs, and the library of a program that asks the linker
    for it finds `muster` there."""
    there = Installed(tmp_path / "there")
    moved = tmp_path / "moved"
    there.prefix.rename(moved)
    done = subprocess.run(
        [moved / "bin/muster", "run", "-n", "2", "--", "sh", "-c", "echo here"],
        env=env, capture_output=True, text=True, timeout=60,
    )
    assert done.returncode == 0 and done.stdout.count("here") == 2, done.stderr
    # The library of a program finds it too, by where it lies itself.
    there.pkgconfig = moved / there.pkgconfig.relative_to(there.prefix)
    shutil.copy(ROOT / "examples/hello.c", tmp_path / "x.c")
    there.shell(
        "cc x.c $(pkg-config --define-prefix --cflags --libs muster) -o x", env, tmp_path
    )
    done = subprocess.run([tmp_path / "x"], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "rank 0 of 1" in done.stdout, done.stderr


def test_only_the_public_names_are_there(plain):
    """A program has functions named like some inside of muster. They cannot meet: the shared
    library and the archive show the names of tests/abi/symbols.txt and nothing else, and the
    archive lacks none of its own. [What is installed]"""
    said = subprocess.run(
        ["nm", "-g", "--defined-only", plain.lib / "libmuster.a"], capture_output=True, text=True
    ).stdout
    assert sorted(re.findall(r"^[0-9a-f]+ \w (\S+)$", said, re.M)) == sorted(SYMBOLS)
    assert len(re.findall(r"^\S+:$", said, re.M)) == 1
    said = subprocess.run(
        ["nm", "-u", plain.lib / "libmuster.a"], capture_output=True, text=True
    ).stdout
    assert re.findall(r" (?:mst_|muster_)\w+", said) == []
    subprocess.run(
        [ROOT / "tests/abi/check", plain.lib / "libmuster.so", ROOT / "tests/abi/symbols.txt"],
        check=True,
    )


def test_headers_need_three_of_the_language(plain):
    """The public headers include `<stddef.h>`, `<stdint.h>`, `<stdbool.h>` and each other,
    nothing else. [What is installed]"""
    headers = sorted((plain.prefix / "include/muster").iterdir())
    assert [h.name for h in headers] == sorted(h.name for h in (ROOT / "include/muster").iterdir())
    for header in headers:
        for system, own in re.findall(r'#\s*include (?:<(.*)>|"(.*)")', header.read_text()):
            assert system in ("", "stddef.h", "stdint.h", "stdbool.h"), header
            assert not own or (plain.prefix / "include" / own).is_file(), header


def test_links_and_versions(plain, env):
    """Program, pkg-config and the library's links say the same version. [What is installed]"""
    (version,) = re.findall(r"project\(muster VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert os.readlink(plain.lib / "libmuster.so") == "libmuster.so.0"
    assert os.readlink(plain.lib / "libmuster.so.0") == f"libmuster.so.{version}"
    said = subprocess.run([plain.muster, "--version"], env=env, capture_output=True, text=True)
    assert said.stdout == f"muster {version}\n"
    asked = plain.shell("pkg-config --modversion muster", env, plain.prefix)
    assert asked.stdout == f"{version}\n"
    # Found without a variable: by its path, not by LD_LIBRARY_PATH.
    found = subprocess.run(["ldd", plain.muster], capture_output=True, text=True).stdout
    assert "not found" not in found


def commands():
    said = subprocess.run([MUSTER, "--help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  (\w+)  ", said, re.M)


def test_every_command_has_its_page(plain):
    """A command is in the program. It has a page with the flags of its `--help`, in that order
    and with those words. [The manual]"""
    pages = {page.name for page in (plain.prefix / "share/man/man1").iterdir()}
    assert pages == {"muster.1"} | {f"muster-{name}.1" for name in commands()}
    for name in commands():
        said = subprocess.run([MUSTER, name, "--help"], capture_output=True, text=True).stdout
        page = (plain.prefix / f"share/man/man1/muster-{name}.1").read_text()
        flags = re.findall(r"^  (?:-(\w),|   ) --([\w-]+)", said, re.M)
        found = re.findall(r"^(?:\\fB\\-(\w)\\fR, )?\\fB\\-\\-(.*?)\\fR", page, re.M)
        assert [(letter, flag.replace("\\", "")) for letter, flag in found] == flags and flags
        # And what it says of each, whatever the lines.
        words = page.replace("\\-", "-").replace("\\(aq", "'").replace("\\(ga", "`")
        words = set(words.replace("\\&", "").split())
        for line in re.findall(r"^  (?:-\w,|   ) --[\w-]+(?: \S+)?  +(.*)$", said, re.M):
            assert set(line.split()) <= words, line


def test_every_setting_is_on_the_page_of_the_environment(plain):
    """A setting can be given in the environment. `man 7 muster-environment` has it. [The manual]"""
    rows = re.findall(r"^X\(\w+, (\w+),", (ROOT / "src/proto/settings.def").read_text(), re.M)
    page = (plain.prefix / "share/man/man7/muster-environment.7").read_text()
    found = re.findall(r"^\\fBMUSTER_(\w+)\\fR", page, re.M)
    assert {row.upper() for row in rows} <= set(found)
    assert len(found) == len(set(found))


@pytest.mark.parametrize("tool", [["mandoc", "-T", "lint"], ["groff", "-ww", "-man", "-Tutf8", "-z"]])
def test_pages_have_no_mistakes(tool, plain):
    """groff and mandoc read the pages. They have nothing to say. [The manual]"""
    if not shutil.which(tool[0]):
        pytest.skip(f"{tool[0]} is not installed: tools/deps --test")
    for page in sorted((plain.prefix / "share/man").glob("man*/*")):
        done = subprocess.run([*tool, page], capture_output=True, text=True)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_words_of_the_shells_are_where_they_look(plain, muster):
    """The shells' completion files are installed where they look. They are what `muster
    completion` prints, and zsh takes its one by name. [Completion]"""
    for shell, path in [
        ("bash", "bash-completion/completions/muster"),
        ("zsh", "zsh/site-functions/_muster"),
        ("fish", "fish/vendor_completions.d/muster.fish"),
    ]:
        there = plain.prefix / "share" / path
        assert there.read_text() == muster("completion", shell).stdout


def test_what_is_installed_is_where_the_page_says(plain):
    """Each installed file is below a folder that the page on installing names, with either kind
    of Python's."""
    page = (ROOT / "docs/install.md").read_text()
    table = page[page.index("| where | what |") : page.index("`DESTDIR`")]
    named = [name.replace(".X/", ".*/") for row in re.findall(r"^\| (`.*?) \|", table, re.M)
             for name in re.findall(r"`([^`]+)`", row)]
    files = [os.path.relpath(file, plain.prefix) for file in plain.files]
    lost = [file for file in files if not any(
        re.match(re.escape(name).replace(r"\.\*", r"\.[0-9]+"), file.replace("lib64/", "lib/"))
        for name in named)]
    assert lost == [], named
    assert len([name for name in named if "-packages/muster/" in name]) == 2


def test_uninstall_leaves_nothing_of_it(tmp_path):
    """`make uninstall` removes every file that came, with the folders that are then empty; what
    others put there stays. A second time says that there is nothing. [What is installed]"""
    stage = tmp_path / "stage"
    manifest = tmp_path / "manifest"
    manifest.write_text(install("/opt/muster", stage))
    there = stage / "opt/muster"
    assert all((stage / line[1:]).exists() for line in manifest.read_text().splitlines())
    listed = {str(path) for path in there.rglob("*") if not path.is_dir()}
    assert listed == {f"{stage}{line}" for line in manifest.read_text().splitlines()}
    assert "prefix=/opt/muster\n" in next(there.glob("lib*/**/muster.pc")).read_text()
    (there / "bin/mine").write_text("of somebody else\n")
    again = ["sh", ROOT / "tools/uninstall", manifest]
    subprocess.run(again, env={**os.environ, "DESTDIR": str(stage)}, check=True)
    assert [str(path.relative_to(stage)) for path in sorted(stage.rglob("*"))] == [
        "opt", "opt/muster", "opt/muster/bin", "opt/muster/bin/mine",
    ]
    done = subprocess.run(again, capture_output=True, text=True)
    assert done.returncode == 1 and "nothing was installed from here" in done.stderr


def test_make_passes_on_where(tmp_path):
    """`make install` is given a prefix and a `DESTDIR`. It passes on both, and so does `make
    uninstall`. All users can read what came, whatever the umask. [What is installed]"""
    def of(*words):
        return subprocess.run(
            ["make", "-n", *words, "PREFIX=/opt/some where", "DESTDIR=/stage"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout

    assert "-DCMAKE_INSTALL_PREFIX='/opt/some where'" in of("install")
    # Everybody can read it, whatever the umask of who installs.
    assert "umask 022; DESTDIR='/stage' cmake --install build/release" in of("install")
    assert "DESTDIR='/stage' tools/uninstall build/release/" in of("uninstall")
