# SPDX-License-Identifier: Apache-2.0
"""A `muster run` of ranks/run, its ranks told what to do through keys of the job."""

import contextlib
import http.client
import json
import os
import re
import select
import socket
import time
import urllib.error
import urllib.request

from conftest import BUILD, WAIT_S, pause

RANK = BUILD / "tests" / "process" / "ranks" / "run"


class Run:
    def __init__(self, spawn, muster, size, *flags, rank=(RANK,), **options):
        self.muster = muster
        self.size = size
        self.job = f"test-{os.getpid()}"
        self.run = spawn("run", "-n", size, "-j", self.job, *flags, "--", *rank, **options)
        self.out = self.run.out
        self.log = self.run.log

    def generations(self):
        """{generation: {index: what its rank said when it entered the function}}"""
        found = {}
        for line in self.out.having("entered generation="):
            values = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", line)}
            found.setdefault(values["generation"], {})[values["index"]] = values
        return found

    def entered(self, generation=1, size=None):
        """Waits until all ranks of a generation, this or a later one, are in the function. A lost
        rank's replacement gets into the next one, or finds that sealed and gets into a third."""
        size = self.size if size is None else size

        def whole():
            return [
                ranks
                for number, ranks in self.generations().items()
                if number >= generation and len(ranks) == size
            ]

        with self.out.changed:
            self.out.changed.wait_for(lambda: whole() or self.out.ended, WAIT_S)
            assert whole(), "\n".join(self.out.lines + self.log.lines)
            return whole()[-1]

    def order(self, index, generation, what, then=False):
        key = f"order-{index}-{generation}" + ("-then" if then else "")
        done = self.muster("key", "put", key, what, "-j", self.job)
        assert done.returncode == 0, done.stderr

    def all_well(self, ranks):
        """All ranks of a generation are told to return, and the run ends well."""
        for index, rank in ranks.items():
            self.order(index, rank["generation"], "ok")
        code = self.run.wait()
        assert code == 0, "\n".join(self.log.lines)

    def children(self):
        return children_of(self.run.pid)

    def service(self):
        return service_of(self.run.pid)

    def last_line(self):
        return self.log.lines[-1]


def children_of(run):
    """{pid: its command line} of what a run itself has started."""
    with open(f"/proc/{run}/task/{run}/children", encoding="ascii") as pids:
        found = [int(pid) for pid in pids.read().split()]
    words = {}
    for pid in found:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as line:
                words[pid] = line.read()
    return words


def service_of(run):
    """The pid of its service. One that has died is there again in a moment."""
    (pid,) = until(lambda: [pid for pid, line in children_of(run).items() if "\0serve\0" in line])
    return pid


def wait_gone(*pidfds):
    """Waits until all the processes are gone."""
    for pidfd in pidfds:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        assert poll.poll(WAIT_S * 1000), "the process lives"
        os.close(pidfd)


def until(holds, instead=lambda: "it never came to be"):
    """Asks until it is so: what makes it so is already on its way."""
    deadline = time.monotonic() + WAIT_S
    while not (found := holds()):
        assert time.monotonic() < deadline, instead()
        pause()
    return found


def trained(run, steps):
    """Waits for the end of a training, as long as it gets on: on a busy machine, with a sanitizer, one
    wait is not enough for all of it."""
    for step in range(20, steps + 1, 20):
        run.out.wait_for(f" step {step} ")
    run.out.wait_for(" result ")


def read(url):
    """What the service says there. Its loop may answer too late on a busy machine: 503."""
    def answer():
        try:
            with urllib.request.urlopen(url, timeout=WAIT_S) as said:
                return said.read().decode()
        except urllib.error.HTTPError as error:
            assert error.code == 503, (url, error)
            return None

    return until(answer)


def status_at(path):
    """What the service that was given --http unix:PATH says; None: it is not there, or answers too late."""
    asking = http.client.HTTPConnection("service", timeout=WAIT_S)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as asking.sock:
        try:
            asking.sock.connect(str(path))
            asking.request("GET", "/status.json")
            answer = asking.getresponse()
            return json.loads(answer.read()) if answer.status == 200 else None
        except (OSError, http.client.HTTPException):
            return None
