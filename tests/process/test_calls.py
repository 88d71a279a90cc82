# SPDX-License-Identifier: Apache-2.0
"""Ranks that never block in muster, while the service dies and while their job restarts.

behaviour: library / Calls that do not block
"""

import os
import re
import signal

import pytest

from conftest import BUILD
from running import Run

RANK = BUILD / "tests" / "process" / "ranks" / "calls"


@pytest.fixture
def run(spawn, muster):
    def start(size, mode):
        return Run(spawn, muster, size, rank=(RANK, mode))

    return start


def added(job):
    return len(job.out.having("added "))


def test_a_killed_service_costs_open_calls_time_only(run):
    """The service of a run is killed while calls are open, and comes back. They take longer; each
    write is applied once."""
    job = run(1, "add")
    for kills in (1, 2):
        job.out.wait_for("added ", count=added(job) + 2)
        os.kill(job.service(), signal.SIGKILL)
        job.log.wait_for("it is started again", count=kills)
        job.out.wait_for("added ", count=added(job) + 2)
    job.muster("key", "put", "stop", "now", "-j", job.job)
    told = job.out.wait_for("well=")
    well, total = map(int, re.search(r"well=(\d+) sum=(\d+)", told).groups())
    assert well == total > 1000  # each was applied once
    assert job.run.wait() == 0


def test_an_interruption_ends_open_calls(run):
    """The job restarts while calls are open. They end with EINTERRUPTED, and a loop that polls
    wakes up."""
    job = run(3, "restart")
    job.out.wait_for("waits", count=3)
    victim = re.search(r"pid=(\d+)", job.out.wait_for("attempt=0", "index=1"))[1]
    os.kill(int(victim), signal.SIGKILL)
    job.out.wait_for("ended MUSTER_EINTERRUPTED MUSTER_EINTERRUPTED", count=2)
    job.out.wait_for("met ", count=2)  # the third comes back when it can
    assert job.run.wait() == 0
    assert len(job.out.having("ended ")) == 2
