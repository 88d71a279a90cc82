# SPDX-License-Identifier: Apache-2.0
"""Programs that know nothing of muster, and what they print of their environment."""

import re
import sys

from conftest import BUILD, ROOT

# Each prints its variables and fails as rank 1 until the attempt that its argument names.
SCRIPT = ROOT / "tests" / "process" / "plain.py"
PROGRAM = BUILD / "tests" / "process" / "plain"
PROGRAMS = {"python": [sys.executable, SCRIPT], "c": [PROGRAM]}

LINE = re.compile(r"attempt (\d+) rank (\d+): (\w+)=(.*)")


def attempts_of(lines):
    """[attempt: {rank: {name: value}}] of all lines that the program printed, labelled or not. A rank that was
    ended meanwhile has not printed all of them."""
    found = {}
    for line in lines:
        if match := LINE.search(line):
            attempt, rank, name, value = match.groups()
            found.setdefault(int(attempt), {}).setdefault(int(rank), {})[name] = value
    assert sorted(found) == list(range(len(found))), sorted(found)
    return [found[attempt] for attempt in sorted(found)]


def ports_of(attempts):
    """The MASTER_PORT of each attempt, which all of its ranks have."""
    ports = [{rank["MASTER_PORT"] for rank in ranks.values() if "MASTER_PORT" in rank} for ranks in attempts]
    assert all(len(port) == 1 for port in ports), ports
    return [port.pop() for port in ports]
