# SPDX-License-Identifier: Apache-2.0
"""`muster why`: what happened to the job, and what it cost.

behaviour: program / muster why
"""

import json
import os
import signal
import time

import pytest

from restarting import job, pids  # noqa: F401
from running import service_of, until

MAX_RESTARTS = 4


@pytest.fixture
def why(muster):
    """why(name of the job, flags...) is what the command prints."""

    def ask(name, *flags):
        done = muster("why", "-j", name, *flags)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return ask


def told(why, name):
    return json.loads(why(name, "--json"))


def test_a_kill_is_told_with_what_it_cost(job, muster, why):
    """A rank is killed and replaced. The story says who, why, how many restarts are left, and how long it
    took until all were there: no longer than the test saw, from the kill to the last rank in its function, and no shorter
    than from the first rank that heard of it to the last. [generations / What happened to a job]"""
    name = "why-kill"
    job.run(3, "--job", name, "--min-size", "3", "--max-restarts", MAX_RESTARTS)
    ranks = job.entered(3, generation=1)
    assert [incident["what"] for incident in told(why, name)["incidents"]] == ["started"]
    until(lambda: told(why, name)["restarts_left"] == MAX_RESTARTS)
    mark = job.mark()
    killed_at = time.monotonic()
    os.kill(ranks[1].pid, signal.SIGKILL)
    again = job.entered(3, mark, generation=2)
    until(lambda: told(why, name)["restarts_left"] == MAX_RESTARTS - 1)
    story = told(why, name)
    started, lost, restarted = story["incidents"]
    assert (started["what"], started["after"], started["number"]) == ("started", 3, 1)
    assert (lost["what"], lost["index"], lost["rank"], lost["cause"], lost["code"]) == ("lost", 1, 1, "signal", 9)
    assert lost["pid"] == ranks[1].pid
    assert "(#1)" in lost["sentence"] and "was killed by signal 9 (Killed)" in lost["sentence"]
    assert (restarted["what"], restarted["before"], restarted["after"], restarted["faults"]) == ("restarted", 3, 3, 1)
    assert (story["restarts"], story["lost"], story["from_the_start"]) == (1, 1, True)
    assert story["restart_ms"] == restarted["interrupt_ms"] + restarted["gather_ms"]
    heard = [event.at for event in job.events[mark:] if event.what == "told"]
    assert len(heard) == 2
    assert 1000 * (max(heard) - min(heard)) - 2 <= story["restart_ms"]
    assert story["restart_ms"] <= 1000 * (max(event.at for event in again) - killed_at) + 2
    lines = why(name).splitlines()
    assert lines[0].startswith("job why-kill: restarted 1 time, lost 1 process, in ")
    left = json.loads(muster("status", "-j", name, "--json").stdout)["restarts_left"]
    assert left == MAX_RESTARTS - 1
    assert lines[0].endswith(f"%) of it in restarts; {left} of {MAX_RESTARTS} restarts left")
    cost = story["restart_ms"]
    assert (f"; {cost} ms (" if cost < 1000 else f"; {(cost + 50) // 100 / 10} s (") in lines[0]
    assert lines[-1].startswith("what to do: ")
    assert [line[15:] for line in lines[1:-1]] == [incident["sentence"] for incident in story["incidents"]]
    job.order(again, "ok")
    job.finish(3)
    job.ended()


def test_a_fault_and_its_words_are_told(job, why):
    """A rank fails by report. Its words are in the story, after them the restart in the same
    processes. [generations / What happened to a job]"""
    name = "why-fault"
    job.run(2, "--job", name)
    ranks = job.entered(2, generation=1)
    mark = job.mark()
    job.order(ranks[:1], "fail 3 loss is nan")
    again = job.entered(2, mark, generation=2)
    assert pids(again) == pids(ranks)
    until(lambda: told(why, name)["restarts_left"] is not None)  # of --max-restarts by default: none is used
    _, fault, restarted = told(why, name)["incidents"]
    assert (fault["what"], fault["index"], fault["cause"], fault["code"]) == ("fault", 0, "fault", 3)
    assert fault["text"] == "loss is nan"
    assert restarted["sentence"].startswith("restarted with 2 of 2 ranks, generation 2")
    job.order(again, "ok")
    job.finish(2)
    job.ended()


def test_the_service_dies_and_remembers(job, muster, why):
    """The service of a run is killed after a restart. The next one tells the story as before, and
    that it was started again. [generations / What happened to a job]"""
    name = "why-service"
    job.run(2, "--job", name)
    ranks = job.entered(2, generation=1)
    mark = job.mark()
    job.order(ranks[:1], "again")
    again = job.entered(2, mark, generation=2)
    before = [(one["number"], one["sentence"]) for one in told(why, name)["incidents"]]
    killed = service_of(job.runner.pid)
    os.kill(killed, signal.SIGKILL)
    until(lambda: service_of(job.runner.pid) != killed and muster("why", "-j", name).returncode == 0)
    after = [(one["number"], one["sentence"]) for one in told(why, name)["incidents"]]
    assert after == [*before, (len(before) + 1, "the service was started again")]
    job.order(again, "ok")
    job.finish(2)
    job.ended()


def test_nothing_is_remembered(job, why):
    """The service was told to remember nothing. It says so."""
    name = "why-not"
    job.run(1, "--job", name, "--history", "0")
    ranks = job.entered(1)
    assert why(name) == "job why-not: nothing is remembered\n"
    job.order(ranks, "ok")
    job.finish(1)
    job.ended()
