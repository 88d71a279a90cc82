# SPDX-License-Identifier: Apache-2.0
"""Restart of a function in the same processes: real ranks, real signals.

Every rank is tests/process/restart_rank.c: it tells each step as one datagram and does what an order
says, so nothing here sleeps: a test waits for events and answers with orders.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

from conftest import BUILD, WAIT_S, sanitized
from running import wait_gone

RANK = BUILD / "tests" / "process" / "restart_rank"


class Event:
    """`PID INDEX WHAT key=value ...`; the value of `text`, always last, has blanks in it."""

    def __init__(self, line):
        self.line = line
        pid, index, self.what, *rest = line.split(" ")
        self.pid, self.index = int(pid), int(index)
        words = " ".join(rest)
        self.text = ""
        if "text=" in words:
            words, self.text = words.split("text=", 1)
        self.values = dict(word.split("=", 1) for word in words.split())
        self.at = time.monotonic()

    def __getitem__(self, key):
        return self.values[key]

    def number(self, key):
        return int(self.values[key])

    def __repr__(self):
        return self.line


class Job:
    """Ranks under orders in a `muster run`. Events stay in the list; `wait` looks at those from
    `mark` on."""

    def __init__(self, spawn, env, folder):
        self.spawn, self.env = spawn, env
        self.path = folder + "/e"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.events = []
        self.runner = None
        self.tls = False

    def run(self, count, *flags, **environment):
        rank = [RANK, self.path]
        if self.tls:
            with socket.create_server(("127.0.0.1", 0)) as probe:
                address = f"127.0.0.1:{probe.getsockname()[1]}"
            # Where another node might join, the service listens on TCP too. These ranks go there.
            flags = ("--nnodes", "1:2", "--listen", address, "--join-wait", "100ms", *flags)
            rank = ["env", f"MUSTER_ADDR={address}", *rank]
            environment["MUSTER_STATE_DIR"] = os.path.dirname(self.path)
        self.runner = self.spawn(
            "run", "-n", count, *flags, "--", *rank, env={**self.env, **environment}
        )

    def see(self, timeout):
        self.socket.settimeout(max(timeout, 0.001))
        try:
            event = Event(self.socket.recv(4096).decode())
        except TimeoutError:
            return False
        self.events.append(event)
        return True

    def wait(self, what, count=1, mark=0, timeout=WAIT_S, **values):
        """The first `count` events `what` of different processes from `mark` on."""
        until = time.monotonic() + timeout
        while True:
            found = {}
            for event in self.events[mark:]:
                if event.what == what and event.pid not in found and all(
                        event.values.get(key) == str(value) for key, value in values.items()):
                    found[event.pid] = event
            if len(found) >= count:
                return list(found.values())
            left = until - time.monotonic()
            if left <= 0 or not self.see(left):
                self.fail(f"waited for {count} x {what} {values}, saw {len(found)}")

    def fail(self, why):
        story = "\n".join(event.line for event in self.events)
        log = "\n".join(self.runner.log.lines)
        pytest.fail(f"{why}\n--- events\n{story}\n--- run\n{log}", pytrace=False)

    def mark(self):
        return len(self.events)

    def order(self, events, words):
        """To the processes of these events; to a function, only while it is in that generation."""
        for event in events:
            when = f"@{event['generation']} " if event.what == "entered" else ""
            self.socket.sendto((when + words).encode(), f"{self.path}.{event.pid}")

    def entered(self, count, mark=0, **values):
        """`count` ranks stand in the function, in one generation, numbered from 0."""
        found = self.wait("entered", count, mark, **values)
        assert len({event["generation"] for event in found}) == 1, found
        assert sorted(event.number("rank") for event in found) == list(range(count)), found
        return sorted(found, key=lambda event: event.number("rank"))

    def finish(self, count, mark=0, status="MUSTER_OK"):
        done = self.wait("done", count, mark)
        assert {event["status"] for event in done} == {status}, done
        assert {event["clean"] for event in done} == {"1"}, done
        self.order(done, "end")
        return done

    def ended(self, code=0):
        try:
            ended = self.runner.wait()
        except subprocess.TimeoutExpired:
            ended = "no end"
        if code is not None and ended != code:
            self.fail(f"the run ended with {ended}, not {code}")


@pytest.fixture
def job(spawn, env):
    folder = tempfile.mkdtemp(prefix="mst-", dir="/tmp")
    made = Job(spawn, env, folder)
    yield made
    made.socket.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["unix", "tls"])
def either_job(request, job):
    job.tls = request.param == "tls"
    return job


def pids(events):
    return {event.pid for event in events}


def test_all_return_ok(either_job):
    either_job.run(3)
    either_job.order(either_job.entered(3, generation=1, iteration=0, size=3), "ok")
    either_job.finish(3)
    either_job.ended()


def test_ok_waits_for_the_others(job):
    """The first to return is not done while another may still fail."""
    job.run(2)
    ranks = job.entered(2)
    job.order(ranks[:1], "ok")
    job.wait("returns", 1)
    mark = job.mark()
    job.order(ranks[1:], "status -17")
    again = job.entered(2, mark, generation=2, iteration=1)
    assert pids(again) == pids(ranks)
    assert not any(event.what == "done" for event in job.events)
    job.order(again, "ok")
    job.finish(2)
    job.ended()


@pytest.mark.parametrize("order", ["failed 3 disk full", "status -17", "status 42", "again"])
def test_one_fails_all_restart(either_job, order):
    either_job.run(3)
    ranks = either_job.entered(3)
    mark = either_job.mark()
    either_job.order(ranks[1:2], order)
    again = either_job.entered(3, mark, generation=2, iteration=1, size=3)
    assert pids(again) == pids(ranks)
    told = [event for event in either_job.events[mark:] if event.what == "told"]
    assert pids(told) == pids([ranks[0], ranks[2]])
    either_job.order(again, "ok")
    either_job.finish(3)
    either_job.ended()


def test_all_fail_at_once(job):
    job.run(3)
    ranks = job.entered(3)
    mark = job.mark()
    job.order(ranks, "failed 1 all at once")
    again = job.entered(3, mark, generation=2, iteration=1)
    job.order(again, "ok")
    job.finish(3)
    job.ended()


def belongings(events):
    """What these processes hold: descriptors, threads, mappings."""
    return [
        (
            len(os.listdir(f"/proc/{event.pid}/fd")),
            len(os.listdir(f"/proc/{event.pid}/task")),
        )
        for event in events
    ]


def test_many_restarts(either_job):
    """Always the same processes, and nothing of a restart is left in them."""
    either_job.run(3)
    ranks = either_job.entered(3)
    before = belongings(ranks)
    for turn in range(50):
        mark = either_job.mark()
        either_job.order(ranks[turn % 3 : turn % 3 + 1], f"failed {turn} once more")
        again = either_job.entered(3, mark, generation=turn + 2, iteration=turn + 1)
        assert [event.pid for event in again] == [event.pid for event in ranks]
        ranks = again
    assert belongings(ranks) == before
    either_job.order(ranks, "ok")
    either_job.finish(3)
    either_job.ended()


@pytest.mark.parametrize("how", ["read", "recv", "poll", "semaphore", "barrier"])
def test_blocked_on_a_healthy_peer(job, how):
    """Freed within 100 ms, and the process lives."""
    job.run(3)
    ranks = job.entered(3)
    job.order(ranks[:1], f"block {how}")
    job.wait("blocked", 1)
    mark = job.mark()
    job.order(ranks[2:], "failed 9 the blocked one must hear of it")
    returned = job.wait("returns", 1, mark, status=-17)[0]
    freed = job.wait("freed", 1, mark)[0]
    assert freed.at - returned.at < (2.0 if sanitized() else 0.1)
    if how == "barrier":
        assert freed["status"] == "MUSTER_EINTERRUPTED"
    else:
        assert freed["errno"] == "4"  # EINTR
    again = job.entered(3, mark, generation=2)
    assert pids(again) == pids(ranks)
    job.order(again, "ok")
    job.finish(3)
    job.ended()


def settle(job, count, mark, without=None):
    """The generation in which all `count` are: a replacement may be in the first one after a loss or
    grow into a later one."""
    while True:
        generations = {}
        for event in job.events[mark:]:
            if event.what == "entered" and event.number("size") == count:
                generations.setdefault(event.number("generation"), {})[event.pid] = event
        for found in generations.values():
            if len(found) == count and without not in found:
                ranks = sorted(found.values(), key=lambda event: event.number("rank"))
                assert [event.number("rank") for event in ranks] == list(range(count))
                return ranks
        if not job.see(WAIT_S):
            job.fail(f"no generation of {count} is complete")


def test_killed_rank_is_replaced(job):
    job.run(4)
    ranks = job.entered(4)
    job.order(ranks[:1], "block recv")
    job.wait("blocked", 1)
    mark = job.mark()
    os.kill(ranks[2].pid, signal.SIGKILL)
    job.wait("freed", 1, mark, errno=4)
    again = settle(job, 4, mark)
    survivors = pids(ranks) - {ranks[2].pid}
    assert survivors < pids(again)
    assert ranks[2].pid not in pids(again)
    assert [event.index for event in again] == [0, 1, 2, 3]
    job.order(again, "ok")
    job.finish(4, mark)
    job.ended()


def test_rank_zero_killed(job):
    job.run(3)
    ranks = job.entered(3)
    mark = job.mark()
    os.kill(ranks[0].pid, signal.SIGKILL)
    again = settle(job, 3, mark)
    job.order(again, "ok")
    job.finish(3, mark)
    job.ended()


def test_killed_while_others_complete(job):
    job.run(3)
    ranks = job.entered(3)
    job.order(ranks[:2], "ok")
    job.wait("returns", 2)
    mark = job.mark()
    os.kill(ranks[2].pid, signal.SIGKILL)
    again = settle(job, 3, mark)
    assert not any(event.what == "done" for event in job.events)
    job.order(again, "ok")
    job.finish(3, mark)
    job.ended()


@pytest.mark.parametrize("point", ["returned", "told", "freed"])
def test_killed_on_the_way_to_the_seal(job, point):
    """One fails, and another is killed as soon as it shows that it heard of it."""
    job.run(4)
    ranks = job.entered(4)
    job.order(ranks[3:], "block read")
    job.wait("blocked", 1)
    mark = job.mark()
    job.order(ranks[1:2], "failed 1 first")
    if point == "returned":
        victim = job.wait("returns", 1, mark)[0]
    else:
        victim = job.wait(point, 1, mark)[0]
    os.kill(victim.pid, signal.SIGKILL)
    again = settle(job, 4, mark)
    assert victim.pid not in pids(again)
    assert pids(ranks) - {victim.pid} < pids(again)
    job.order(again, "ok")
    job.finish(4, mark)
    job.ended()


def test_killed_at_the_seal(job):
    """One stands at the seal while another has not returned yet, and is killed there."""
    job.run(3)
    ranks = job.entered(3)
    job.order(ranks[2:], "block mute")
    job.wait("blocked", 1)
    mark = job.mark()
    job.order(ranks[:1], "failed 1 first")
    job.wait("told", 1, mark)
    os.kill(ranks[0].pid, signal.SIGKILL)
    job.wait("started", 1, mark)
    os.kill(ranks[2].pid, signal.SIGKILL)
    again = settle(job, 3, mark)
    assert ranks[1].pid in pids(again)
    job.order(again, "ok")
    job.finish(3, mark)
    job.ended()


@pytest.mark.parametrize("seed", range(6))
def test_storm(job, seed):
    """Failures and kills at seeded moments of the restarts of others. Whoever was in a generation
    saw the same one, nobody hangs, no survivor is replaced, and in the end all are there."""
    dice = random.Random(seed)
    job.run(4, "--max-restarts", 100)
    ranks = settle(job, 4, 0)
    for turn in range(6):
        mark = job.mark()
        failed, killed, blocked = dice.sample(ranks, 3)
        if dice.random() < 0.5:
            job.order([blocked], "block " + dice.choice(["read", "barrier", "semaphore"]))
        if dice.random() < 0.7:
            job.order([failed], f"failed {turn} storm")
        for _ in range(dice.randrange(8)):
            job.see(0.02)
        os.kill(killed.pid, signal.SIGKILL)
        # Until the killed one is replaced; generations with fewer ranks may come before.
        ranks = settle(job, 4, mark + 1, without=killed.pid)
        assert pids(ranks) >= {event.pid for event in (failed, blocked)}
    job.order(ranks, "ok")
    job.finish(4, job.mark())
    job.ended()
    generations = {}
    for event in job.events:
        if event.what == "entered":
            seen = generations.setdefault(event["generation"], {})
            assert seen.setdefault("size", event["size"]) == event["size"]
            assert seen.setdefault(event["rank"], event.pid) == event.pid


@pytest.mark.parametrize("seed", range(8))
def test_killed_at_the_completion(job, seed):
    """All return OK while one is killed: either all who live are done, or all run again. Never some
    of them this and some that."""
    dice = random.Random(seed)
    job.run(4)
    ranks = job.entered(4)
    victim = dice.choice(ranks)
    job.order(ranks, "ok")
    for _ in range(dice.randrange(9)):
        job.see(0.02)
    os.kill(victim.pid, signal.SIGKILL)
    survivors = pids(ranks) - {victim.pid}
    while True:
        done = [event for event in job.events if event.what == "done" and event.pid in survivors]
        again = [event for event in job.events if event.what == "entered" and event["iteration"] != "0"]
        if again:
            assert not done, "some are done and some run again"
            ranks = settle(job, 4, 0, without=victim.pid)
            assert survivors < pids(ranks)
            job.order(ranks, "ok")
            job.finish(4, job.mark())
            break
        if len(done) == 3:
            assert {event["status"] for event in done} == {"MUSTER_OK"}
            job.order(done, "end")
            break
        if not job.see(WAIT_S):
            job.fail("neither done nor again")
    job.ended(None)


def test_who_does_not_return_is_evicted(job):
    """Given up at the seal's deadline, killed by its agent, and replaced."""
    job.run(3, MUSTER_BARRIER_TIMEOUT="300ms")
    ranks = job.entered(3)
    job.order(ranks[2:], "block mute")
    job.wait("blocked", 1)
    mark = job.mark()
    job.order(ranks[:1], "failed 1 first")
    first = job.wait("entered", 2, mark, generation=2)
    assert pids(first) == pids(ranks[:2])
    again = settle(job, 3, mark)
    assert ranks[2].pid not in pids(again)
    job.order(again, "ok")
    job.finish(3, mark)
    job.ended()


def test_too_few(job):
    """Below min_size all who are left end together, with the numbers."""
    job.run(3, "--min-size", 3, "--max-restarts", 0)
    ranks = job.entered(3)
    job.order(ranks[1:2], "leave")
    done = job.wait("done", 3)
    few = [event for event in done if event.pid != ranks[1].pid]
    assert {event["status"] for event in few} == {"MUSTER_ETOOFEW"}
    assert all("2" in event.text and "3" in event.text for event in few), few
    job.order(done, "end")
    job.ended(1)


def test_too_few_although_started_again(job):
    """One has left, the others are too few and end; what is started in their place waits for
    nobody. That is no success."""
    job.run(3, "--min-size", 3, "--max-restarts", 2)
    ranks = job.entered(3)
    job.order(ranks[1:2], "leave")
    done = job.wait("done", 3)
    leaver = os.pidfd_open(ranks[1].pid)
    job.order([event for event in done if event.pid == ranks[1].pid], "end")
    wait_gone(leaver)
    job.order([event for event in done if event.pid != ranks[1].pid], "end")
    job.ended(1)


def test_shrinks_when_allowed(job):
    job.run(3, "--min-size", 2, "--max-restarts", 0)
    ranks = job.entered(3)
    mark = job.mark()
    os.kill(ranks[0].pid, signal.SIGKILL)
    again = job.entered(2, mark, size=2)
    assert [event.index for event in again] == [1, 2]
    job.order(again, "ok")
    job.finish(2, mark)
    job.ended(None)


def test_leave(job):
    job.run(3, "--min-size", 2)
    ranks = job.entered(3)
    mark = job.mark()
    job.order(ranks[1:2], "leave")
    left = job.wait("done", 1, mark)
    assert pids(left) == {ranks[1].pid}
    assert left[0]["status"] == "MUSTER_OK"
    job.order(left, "end")
    again = job.entered(2, mark, size=2)
    mark = job.mark()
    job.order(again, "ok")
    job.finish(2, mark)
    job.ended()


def test_two_runs_on_one_client(job):
    job.run(2)
    ranks = job.entered(2)
    job.order(ranks, "ok")
    done = job.wait("done", 2)
    mark = job.mark()
    job.order(done, "run")
    ranks = job.entered(2, mark, generation=1, iteration=0)
    mark = job.mark()
    job.order(ranks[:1], "failed 1 in the second run")
    ranks = job.entered(2, mark, generation=2, iteration=1)
    job.order(ranks, "ok")
    job.finish(2, mark)
    job.ended()


def test_nested_run_is_refused(job):
    job.run(1)
    ranks = job.entered(1)
    job.order(ranks, "nested")
    nested = job.wait("nested")[0]
    assert nested["status"] == "MUSTER_EDEADLK"
    job.order(ranks, "ok")
    job.finish(1)
    job.ended()


def test_without_the_signal(job):
    """Interrupted at calls of muster only."""
    job.run(2, MUSTER_INTERRUPT_SIGNAL="0")
    ranks = job.entered(2)
    job.order(ranks[:1], "block barrier")
    job.wait("blocked", 1)
    mark = job.mark()
    job.order(ranks[1:], "failed 1 no signal")
    job.wait("freed", 1, mark, status="MUSTER_EINTERRUPTED")
    job.order(job.entered(2, mark, generation=2), "ok")
    job.finish(2)
    job.ended()


def test_what_is_refused(muster):
    done = muster("run", "-n", 1, "--", BUILD / "tests" / "process" / "restart_refused")
    assert done.returncode == 0, done.stdout + done.stderr
