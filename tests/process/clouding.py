# SPDX-License-Identifier: Apache-2.0
"""Programs that ask the fakes of metadata services, and what they make of the answers."""

import json
import re

import pytest

import metadata_fake as fakes
from conftest import BUILD, Process
from metadata_fake import Amazon, Azure, Google

FAKES = {"google": Google, "amazon": Amazon, "azure": Azure}


@pytest.fixture
def tell(env, started):
    """tell(list) starts a program that prints what the sources of the list know."""

    def start(sources, **more):
        process = Process([BUILD / "tests" / "process" / "tell_notices", sources], {**env, **more},
                          stdin=-1)
        started.append(process)
        return process

    return start


def left_s(line):
    return int(re.search(r"left_ms=(-?\d+)", line)[1]) / 1000


def near(line, seconds, apart=12):
    """How long there is; a loaded machine may be late, and dates have whole seconds."""
    assert seconds - apart <= left_s(line) <= seconds + 1.5, line


def announce(fake):
    """What ends this machine soon, as each cloud says it."""
    if isinstance(fake, Google):
        fake.set("preempted", "TRUE")
    elif isinstance(fake, Amazon):
        fake.set(Amazon.ACTION, json.dumps({"action": "terminate",
                                            "time": fakes.rfc3339(fake.now() + 120)}))
    else:
        fake.event("e-1", "Preempt", left_s=60)
