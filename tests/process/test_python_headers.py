# SPDX-License-Identifier: Apache-2.0
"""What cffi is given of a header: python/cdef.py.

behaviour: python / The headers as cffi reads them
"""

import re
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "python"))
sys.dont_write_bytecode = True

import cdef  # noqa: E402

INCLUDE = ROOT / "include"


def words(text):
    return " ".join(text.split())


def test_comments_and_the_guard_are_left_out():
    """A header is read for Python. Comments, the guard and what is for C++ are left out, also
    where they look like each other."""
    header = """/* SPDX */
#ifndef MUSTER_X_H
#define MUSTER_X_H
#include <stddef.h>
#include "muster/status.h"
#ifdef __cplusplus
extern "C" {
#endif
/* One, /* two */
int muster_a(int b); // three "four"
/* "not a
 * string */ int muster_c(void);
#ifdef __cplusplus
}
#endif
#endif
"""
    assert words(cdef.declarations(header)) == "int muster_a(int b); int muster_c(void);"


def test_a_comment_in_a_string_stays():
    """A header is read for Python. Comments, the guard and what is for C++ are left out, also
    where they look like each other."""
    assert cdef.without_comments('"/* a */" /* b */ "\\"//" // c') == '"/* a */"   "\\"//"  '


def test_attributes_are_left_out_wherever_they_stand():
    """A header has macros. Attributes are left out, numbers become constants with the value that
    the compiler gives, the initial options become functions."""
    header = """
MUSTER_API MUSTER_MUST_USE muster_status
muster_a(muster_client *client);
MUSTER_API
void muster_b(void);
int MUSTER_APIARY;
"""
    said = "muster_status muster_a(muster_client *client); void muster_b(void); int MUSTER_APIARY;"
    assert words(cdef.declarations(header)) == said


def test_numbers_become_constants_that_the_compiler_knows():
    """A header has macros. Attributes are left out, numbers become constants with the value that
    the compiler gives, the initial options become functions."""
    header = """
#define MUSTER_ONE (-1)
#define MUSTER_TWO                                                          \\
    (MUSTER_ONE * 10000u + 1u)
#define MUSTER_NONE UINT32_MAX
#define MUSTER_TEXT "text"
#define MUSTER_CALL(x) (x)
#define MUSTER_EMPTY
#define MUSTER_X_INIT                                                       \\
    {                                                                       \\
        sizeof(struct muster_x), 0                                          \\
    }
"""
    assert cdef.declarations(header).split("\n") == [
        "#define MUSTER_ONE ...",
        "#define MUSTER_TWO ...",
        "#define MUSTER_NONE ...",
        "",
    ]
    assert cdef.initial_values(header) == [("MUSTER_X_INIT", "struct muster_x")]


def test_initial_options_become_functions():
    """A header has macros. Attributes are left out, numbers become constants with the value that
    the compiler gives, the initial options become functions."""
    heads, source = cdef.initialisers(['#define MUSTER_X_INIT { .size = sizeof(struct muster_x) }'])
    assert heads == "struct muster_x muster_x_init(void);\n"
    assert words(source) == (
        "static struct muster_x muster_x_init(void) { return (struct muster_x)MUSTER_X_INIT; }"
    )


def test_the_other_branch_of_a_condition_is_left_out():
    """A header is read for Python. Comments, the guard and what is for C++ are left out, also
    where they look like each other."""
    header = """
#if defined(__GNUC__)
int here;
#else
int there;
#endif
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#define MUSTER_NOT 1
#endif
"""
    assert words(cdef.declarations(header)) == "int here;"


@pytest.mark.parametrize("line", ["#if MUSTER_NEW", "#ifdef linux", "#error no", "#undef MUSTER_A"])
def test_what_it_does_not_know_stops_the_build(line):
    """A header has something unknown. The build stops at that line."""
    with pytest.raises(cdef.Unreadable, match=line.split()[-1]):
        cdef.declarations(line + "\nint a;\n#endif\n")


def test_headers_are_read_once_and_in_the_compilers_order(tmp_path):
    """A header includes others. Each is read once, in the compiler's order."""
    folder = tmp_path / "muster"
    folder.mkdir()
    for name, text in (
        ("muster.h", '#include "muster/a.h"\n#include "muster/b.h"\n'),
        ("a.h", '#include "muster/b.h"\nint a;\n'),
        ("b.h", "#include <stddef.h>\nint b;\n"),
    ):
        (folder / name).write_text(text)
    texts = cdef.read(tmp_path)
    assert words("".join(map(cdef.declarations, texts))) == "int b; int a;"


def test_every_exported_function_is_in_it():
    """A function is exported by the library. Python has it too."""
    said = "".join(map(cdef.declarations, cdef.read(INCLUDE)))
    symbols = (ROOT / "tests/abi/symbols.txt").read_text().split()
    known = set(re.findall(r"\b(muster_\w+)\s*\(", said))
    assert [name for name in symbols if name not in known] == []
    assert not re.search(r"__|MUSTER_API|MUSTER_MUST_USE|mst_|/\*", said)
