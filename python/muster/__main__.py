# SPDX-License-Identifier: Apache-2.0
"""`python -m muster`, and the `muster` that pip puts into the PATH: the program that came with this package."""

import os
import pathlib
import sys
from typing import NoReturn

PACKAGE = pathlib.Path(__file__).parent
# In a wheel, in a build tree, under a prefix: as from the package.
PLACES = ("bin/muster", "../../bin/muster", "../../../../bin/muster")


def is_program(path: pathlib.Path) -> bool:
    """Not what pip puts into an environment's bin, which would start itself for ever."""
    if not os.access(path, os.X_OK):
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def program() -> str:
    """The path of the program; $MUSTER_PROGRAM names another one."""
    given = os.environ.get("MUSTER_PROGRAM")
    found = [PACKAGE / place for place in PLACES if is_program(PACKAGE / place)]
    if not given and not found:
        sys.exit(f"muster: no program beside the package {PACKAGE}: set MUSTER_PROGRAM to its path")
    return given or os.path.normpath(found[0])


def main() -> NoReturn:
    path = program()
    try:
        os.execv(path, ["muster", *sys.argv[1:]])
    except OSError as wrong:
        sys.exit(f"muster: cannot start {path}: {wrong.strerror}: set MUSTER_PROGRAM to the program's path")


if __name__ == "__main__":
    main()
