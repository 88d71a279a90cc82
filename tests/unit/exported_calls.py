# SPDX-License-Identifier: Apache-2.0
"""The exported functions, made from the public headers at each build, and which of them return when a time is
over at the latest: these block.

usage: exported_calls.py SOURCE OUT.c     SOURCE: the project
"""

import pathlib
import sys

from null_calls import functions


def blocks(parameters):
    """It has a limit of time, and is none of those that begin a call and return."""
    return "int64_t timeout_ms" in parameters and not any(one.startswith("muster_call **") for one in parameters)


def main(source, out):
    sys.path.insert(0, str(pathlib.Path(source) / "python"))
    import cdef

    found = functions([cdef.declarations(text) for text in cdef.read(pathlib.Path(source) / "include")])
    rows = [f'    {{"{name}", {int(blocks(parameters))}}},' for name, (_, parameters) in sorted(found.items())]
    pathlib.Path(out).write_text("\n".join([
        "/* Made by exported_calls.py. */", '#include "exported_calls.h"', "",
        "const struct exported_call exported_calls[] = {", *rows, "    {0, 0}};", ""]), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
