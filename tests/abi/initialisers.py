# SPDX-License-Identifier: Apache-2.0
"""A program in C or C++ initialises any options, with all warnings on. There is no warning, by gcc
and clang, from C99 and C++11 on: every MUSTER_*_INIT of the public headers is compiled as a user
would, by each compiler that is there, in each dialect.

behaviour: library / What it is built of

usage: initialisers.py SOURCE
"""

import pathlib
import shutil
import subprocess
import sys

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wmissing-field-initializers", "-Werror"]
COMPILERS = {
    ("g++", "clang++", "clang++-14"): ("c++", ["c++11", "c++14", "c++17", "c++20"]),
    ("gcc", "clang", "clang-14"): ("c", ["c99", "c11", "c17"]),
}


def text_of(include):
    import cdef

    pairs = [pair for text in cdef.read(include) for pair in cdef.initial_values(text)]
    macros = {macro for macro, _ in pairs}
    assert len(macros) == len(pairs) > 10, pairs
    lines = [f"void use_{macro}(void);\nvoid use_{macro}(void)\n{{\n    {struct} it = {macro};\n"
             f"    (void)it;\n}}\n" for macro, struct in pairs]
    return "#include <muster/muster.h>\n" + "".join(lines)


def main(source):
    root = pathlib.Path(source)
    sys.path.insert(0, str(root / "python"))
    text = text_of(root / "include")
    failed = compiled = 0
    for compilers, (language, dialects) in COMPILERS.items():
        for compiler in filter(shutil.which, compilers):
            for dialect in dialects:
                command = [compiler, "-x", language, f"-std={dialect}", *WARNINGS, f"-I{root / 'include'}",
                           "-fsyntax-only", "-"]
                done = subprocess.run(command, input=text, text=True, capture_output=True)
                compiled += 1
                if done.returncode != 0:
                    failed += 1
                    print(" ".join(command), done.stderr, sep="\n", file=sys.stderr)
    sys.exit(failed != 0 or compiled == 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
