# SPDX-License-Identifier: Apache-2.0
"""Ranks that restart, under the orders of a test.

Every rank is tests/process/rank/restart.c: it tells each step as one datagram and does what an order
says, so nothing here sleeps: a test waits for events and answers with orders.
"""

import contextlib
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile
import time

import pytest

from conftest import BUILD, MUSTER, WAIT_S, Process, free_port, pause

RANK = BUILD / "tests" / "process" / "ranks" / "restart"


# Of Linux: a datagram comes with the moment at which it was sent, by the kernel.
SO_TIMESTAMPNS = 35


def sent_at(ancillary):
    """When a datagram was sent, by the monotonic clock: however late it is read."""
    wall, now = both_clocks()
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
            seconds, nanoseconds = struct.unpack("qq", data)
            return now - (wall - seconds - nanoseconds / 1e9)
    return now


def both_clocks():
    """The wall clock and the monotonic one at one moment: without a pause between the two looks."""
    while True:
        before, wall, now = time.monotonic(), time.time(), time.monotonic()
        if now - before < 0.0001:
            return wall, now


class Event:
    """`PID INDEX WHAT key=value ...`; the value of `text`, always last, has blanks in it. `at`: when
    it was told."""

    def __init__(self, line, at):
        self.line = line
        pid, index, self.what, *rest = line.split(" ")
        self.pid, self.index = int(pid), int(index)
        words = " ".join(rest)
        self.text = ""
        if "text=" in words:
            words, self.text = words.split("text=", 1)
        self.values = dict(word.split("=", 1) for word in words.split())
        self.at = at

    def __getitem__(self, key):
        return self.values[key]

    def number(self, key):
        return int(self.values[key])

    def __repr__(self):
        return self.line


MARK = "RR_JOB"
LOOK_S = 0.5  # between two looks whether the runner has ended
GONE = ConnectionRefusedError, FileNotFoundError  # who listened has ended


def marked(path):
    """The processes that this job has started, and their descendants: {pid: command line}."""
    mark = f"{MARK}={path}".encode()
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                command = (entry / "cmdline").read_bytes()
                found[int(entry.name)] = command.replace(b"\0", b" ").decode()
        except OSError:  # it has just ended
            pass
    return found


def files_of(env):
    """What lies in the runtime directory."""
    return {path for path in pathlib.Path(env["MUSTER_RUNTIME_DIR"]).glob("**/*")}


class Job:
    """Ranks under orders in a `muster run`. Events stay in the list; `wait` looks at those from
    `mark` on."""

    def __init__(self, spawn, env, folder, started=()):
        self.started = started
        self.path = folder + "/e"
        # Whoever inherits the mark was started by this job.
        self.spawn, self.env = spawn, {**env, MARK: self.path}
        self.files = files_of(env)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.socket.bind(self.path)
        self.events = []
        self.runner = None
        self.tls = False

    def run(self, count, *flags, behind=(), **environment):
        rank = [*behind, RANK, self.path]
        if self.tls:
            address = f"127.0.0.1:{free_port()}"
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
            said, ancillary, _, _ = self.socket.recvmsg(4096, 64)
        except TimeoutError:
            return False
        self.events.append(Event(said.decode(), sent_at(ancillary)))
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
            if not self.see_more(until):
                self.fail(f"waited for {count} x {what} {values}, saw {len(found)}")

    def see_more(self, until):
        """False: nothing came in time, or nobody is left whom anything could come from."""
        while (left := until - time.monotonic()) > 0:
            over = self.runner is not None and self.runner.process.poll() is not None
            if self.see(0 if over else min(left, LOOK_S)):
                return True
            if over:
                return False
        return False

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
            # The end of one may be that of all: the run then ends those that have not been told yet.
            with contextlib.suppress(*GONE if words == "end" else ()):
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

    def alone(self, **environment):
        """One rank that nobody has started for us, so without a runner and its agent."""
        environment = {"MUSTER_PROGRAM": str(MUSTER), **environment}
        self.runner = Process([RANK, self.path], {**self.env, **environment})
        self.started.append(self.runner)

    def ended(self, code=0):
        """The runner ends with this code, and nothing is left of the job."""
        try:
            ended = self.runner.wait()
        except subprocess.TimeoutExpired:
            ended = "no end"
        if code is not None and ended != code:
            self.fail(f"the run ended with {ended}, not {code}")
        self.clean()

    def drain(self):
        """Takes in what was told: with a dozen events that nobody has read, who tells one more waits."""
        while self.see(0):
            pass

    def clean(self):
        """No process of the job is left, nor a socket; and what a rank had besides its memory before
        it opened its client is what it had after it closed it, to the last thread, descriptor,
        child, signal and variable."""
        self.drain()
        for event in self.events:
            if event.what == "closed" and event["clean"] != "1":
                self.fail(f"left in pid {event.pid}: {event.text}")
        until = time.monotonic() + WAIT_S
        while left := marked(self.path):
            if time.monotonic() > until:
                self.fail(f"processes left: {left}")
            pause()
        others = {
            pathlib.Path(one.address.removeprefix("unix:"))
            for one in self.started
            if hasattr(one, "address")
        }
        if left := files_of(self.env) - self.files - others:
            self.fail(f"files left: {left}")


@pytest.fixture
def job(spawn, env, started):
    folder = tempfile.mkdtemp(prefix="mst-", dir="/tmp")
    made = Job(spawn, env, folder, started)
    yield made
    made.socket.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["unix", "tls"])
def either_job(request, job):
    job.tls = request.param == "tls"
    return job


def pids(events):
    return {event.pid for event in events}


def belongings(events):
    """What these processes hold: descriptors, threads, mappings."""
    return [
        (
            len(os.listdir(f"/proc/{event.pid}/fd")),
            len(os.listdir(f"/proc/{event.pid}/task")),
        )
        for event in events
    ]


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
