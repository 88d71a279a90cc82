# SPDX-License-Identifier: Apache-2.0
"""What `muster status`, `muster why` and `muster top` say of the same job at the same time.

behaviour: program / muster why
"""

import json
import os
import shutil
import signal
import tempfile
import time

import pytest

from conftest import MUSTER, Process, holds, sanitized
from restarting import job  # noqa: F401
from running import service_of, until
from saving import loop  # noqa: F401
from test_hang import Hangs
from test_stragglers import pace  # noqa: F401

SHOWN_S = 2  # after the service knows of it
SOON = ("--interval", "100ms")


class Told:
    """The three commands, of one job."""

    def __init__(self, muster, env, started, lateness, job):
        self.muster, self.job, self.lateness = muster, job, lateness
        self.top = Process([MUSTER, "top", "-j", job, *SOON], env)
        started.append(self.top)
        self.top.out.wait_for(f"job {job}: ")

    def ask(self, *words):
        done = self.muster(*words, "-j", self.job)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def knows(self, *words):
        """Waits until the service has remembered an incident with these words. A service that is being started
        again answers nobody."""

        def look():
            done = self.muster("why", "-j", self.job, "--json")
            told = json.loads(done.stdout)["incidents"] if done.returncode == 0 else []
            return any(holds(one["sentence"], words) for one in told)

        until(look)

    def names(self, member, cause):
        """All three name that member, or none where there is none to name, and that cause. The first answer after
        the service knows it has it; `top` prints it by itself, no later than it takes, and a busy machine."""
        self.knows(member, cause)
        known = time.monotonic()
        for command in ("why", "status"):
            text = self.ask(command)
            assert has(text.splitlines(), member, cause), (command, text)
        self.top.out.wait_for(member, cause)
        shown = time.monotonic() - known
        assert sanitized() or shown < SHOWN_S + self.lateness.spare_s(), (shown, self.lateness.so_far_s())

    def over(self):
        self.top.signal(signal.SIGINT)
        self.top.wait()


def has(lines, *words):
    return any(holds(line, words) for line in lines)


@pytest.fixture
def told(muster, env, started, lateness):
    made = []

    def start(job):
        made.append(Told(muster, env, started, lateness, job))
        return made[-1]

    yield start
    for one in made:
        one.over()


@pytest.fixture
def hangs(spawn, env, started):
    folder = tempfile.mkdtemp(prefix="mst-", dir="/tmp")
    made = Hangs(spawn, env, folder, started)
    yield made
    made.socket.close()
    shutil.rmtree(folder, ignore_errors=True)


def test_a_kill(job, told):  # noqa: F811
    """A rank is killed, and replaced. All three name it and the signal."""
    job.run(3, "--job", "same-kill", "--min-size", "3")
    entered = job.entered(3, generation=1)
    seen = told("same-kill")
    mark = job.mark()
    os.kill(entered[1].pid, signal.SIGKILL)
    seen.names("#1", "was killed by signal 9 (Killed)")
    job.order(job.entered(3, mark, generation=2), "ok")
    job.finish(3)
    job.ended()


def test_a_hang(hangs, told):
    """A rank blocks in a call, and all are interrupted. All three name it, and the call."""
    entered = hangs.start(3, "--job", "same-hang", "--min-size", "3")
    seen = told("same-hang")
    mark = hangs.hold(entered[1], "read")
    again = hangs.all_again(3, mark)
    seen.names("#1", "blocked in read")
    hangs.all_well(again)


def test_a_freeze(hangs, told):
    """A rank is stopped by a signal, and is ended and replaced. All three name it, and that it made no progress."""
    entered = hangs.start(3, "--job", "same-freeze", "--min-size", "3")
    seen = told("same-freeze")
    mark = hangs.mark()
    os.kill(entered[2].pid, signal.SIGSTOP)
    again = hangs.all_again(3, mark)
    seen.names("#2", "made no progress")
    hangs.all_well(again)


def test_a_straggler(pace, told):  # noqa: F811
    """Of 8 ranks that meet in each step one works 30 % longer. All three name it as a straggler."""
    run = pace("barrier", 5, 30)
    until(lambda: run.muster("status", "-j", run.job).returncode == 0)
    told(run.job).names("#5", "is a straggler")


def test_a_preemption(loop, told):  # noqa: F811
    """A notice of preemption is given. All three name the rank, and the reason."""
    trains = loop(2, LOOP_SLOW=1).trains()
    seen = told(trains.job)
    done = trains.muster("preempt", "-j", trains.job, "--in", "50s", "--reason", "b2 goes away", "1")
    assert done.returncode == 0, done.stderr
    seen.names("#1", "b2 goes away")
    (trains.dir / "go").touch()
    assert trains.run.wait() == 75, trains.log.lines


def test_a_restart_of_all(job, told):  # noqa: F811
    """A rank asks that all begin again. All three name it, and that it asked."""
    job.run(2, "--job", "same-again", "--min-size", "2")
    entered = job.entered(2, generation=1)
    seen = told("same-again")
    mark = job.mark()
    job.order(entered[:1], "again")
    again = job.entered(2, mark, generation=2)
    seen.names("#0", "asked for a restart")
    job.order(again, "ok")
    job.finish(2)
    job.ended()


def test_a_killed_service(job, told):  # noqa: F811
    """The service is killed, and `muster run` starts it again. All three say that, and blame no rank."""
    job.run(2, "--job", "same-service", "--min-size", "2")
    entered = job.entered(2, generation=1)
    seen = told("same-service")
    os.kill(service_of(job.runner.pid), signal.SIGKILL)
    seen.names("", "the service was started again")
    job.order(entered, "ok")
    job.finish(2)
    job.ended()
