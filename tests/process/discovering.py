# SPDX-License-Identifier: Apache-2.0
"""What discover_rank says, and the service that its ranks start for themselves."""

import os
import pathlib
import re
import time

from conftest import BUILD, WAIT_S, pause

RANK = BUILD / "tests" / "process" / "discover_rank"


def placed(out):
    """{rank: the others' count} of what discover_rank said, which must be what it expected."""
    ranks = {}
    for line in out.splitlines():
        words = re.fullmatch(r"round \d+ rank (\d+) of (\d+) index (\d+) expected (\d+)", line)
        if words:
            rank, size, index, expected = map(int, words.groups())
            assert rank == index == expected, line
            ranks[rank] = size
    return ranks


def sockets(env):
    return sorted(pathlib.Path(env["MUSTER_RUNTIME_DIR"]).glob("*.sock"))


def wait_for_no_service(env):
    """The service ends after the last rank has gone, so its socket goes a moment later."""
    deadline = time.monotonic() + WAIT_S
    while sockets(env) and time.monotonic() < deadline:
        pause()
    assert sockets(env) == []


def marked(directory):
    """The processes that inherited this runtime directory, whoever started them."""
    mark = f"MUSTER_RUNTIME_DIR={directory}".encode()
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:  # it has just ended
            pass
    return found


def pidfds(pids):
    """Of those that still are there."""
    found = []
    for pid in pids:
        try:
            found.append(os.pidfd_open(pid))
        except ProcessLookupError:
            pass
    return found


def told(stderr):
    return [line for line in stderr.splitlines() if "no MUSTER_ADDR" in line]
