# SPDX-License-Identifier: Apache-2.0
"""A coordinator and workers under a test's orders: cluster_driver.c and cluster_worker.c."""

import itertools
import os
import pathlib
import subprocess
import time

from conftest import BUILD, MUSTER, WAIT_S, Process, pause

DRIVER = BUILD / "tests" / "process" / "cluster_driver"
WORKER = BUILD / "tests" / "process" / "cluster_worker"
LONG_LEASE_S = 120  # nobody can wait for its end here: what is found before was seen otherwise
SHORT_LEASE_S = 4  # for those who wait for its end; a busy machine stands still for a second or two
LONG_S = 120  # what has much to do, with a sanitizer
SOON_S = 10  # what takes a moment, on a machine that has others to serve


class Driver(Process):
    """The coordinator. Each order is answered with its status and its words."""

    def __init__(self, env, **options):
        super().__init__([DRIVER], env, stdin=subprocess.PIPE, **options)
        self.tags = itertools.count(1)
        self.out.wait_for("open\t")

    def begin(self, *words, beside=False):
        """Gives an order, and returns what waits for its answer."""
        tag = f"{'&' if beside else ''}@{next(self.tags)}@"
        self.process.stdin.write("\t".join([tag, *map(str, words)]) + "\n")
        self.process.stdin.flush()

        def answer():
            return self.out.wait_for(f"{tag}\t").split("\t")[1:]

        return answer

    def ask(self, *words):
        return self.begin(*words)()

    def schedule(self, name, function, *arguments, **options):
        given = [f"{key}={one}" for key, value in options.items()
                 for one in (value if isinstance(value, list) else [value])]
        assert self.ask("schedule", name, function, *given, "--", *arguments)[0] == "MUSTER_OK"

    def fetch(self, name, ms=25000):
        """The parts of its value."""
        status, *words = self.ask("fetch", name, ms)
        assert status == "MUSTER_OK", words
        return words

    def call(self, function, *arguments, **options):
        """The value of a closure, or how it failed: origin, code and text."""
        name = f"c{next(self.tags)}"
        self.schedule(name, function, *arguments, **options)
        deadline = time.monotonic() + LONG_S
        while self.ask("wait", name, 25000)[0] == "MUSTER_ETIMEDOUT":
            assert time.monotonic() < deadline, f"{function} does not end"
        status, *words = self.ask("failure", name)
        if status == "MUSTER_MORE":
            return self.fetch(name)
        self.ask("join", 25000)  # takes its failure
        return words[0], int(words[1]), words[3]

    def counts(self):
        return dict(word.split("=", 1) for word in self.ask("counts")[1:])

    def until(self, **wanted):
        """Until its counts are these."""
        deadline = time.monotonic() + WAIT_S
        while True:
            counts = self.counts()
            if all(counts[key] == str(value) for key, value in wanted.items()):
                return counts
            assert time.monotonic() < deadline, counts
            pause()

    def end(self):
        self.process.stdin.close()
        assert self.wait() == 0


class Worker(Process):
    def __init__(self, env, index=None, **settings):
        settings = {key: str(value) for key, value in settings.items()}
        if index is not None:
            settings["MUSTER_INDEX"] = str(index)
        super().__init__([WORKER], {**env, **settings})
        self.ready()

    def ready(self):
        words = self.out.wait_for("ready #").split()
        self.index, self.incarnation = int(words[1][1:]), int(words[2])

    def family(self):
        """The processes below it."""
        return family(self.pid)


def family(pid):
    found, ask = [], [pid]
    while ask:
        path = pathlib.Path(f"/proc/{ask.pop()}")
        try:
            tasks = list((path / "task").iterdir())
        except (FileNotFoundError, ProcessLookupError):
            continue
        for task in tasks:
            try:
                ask += map(int, (task / "children").read_text().split())
            except (FileNotFoundError, ProcessLookupError):  # the others of it are there still
                continue
        found += [child for child in ask if child not in found]
    return found


def lives(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


class Hold:
    """The folder in which functions leave marks and look for them."""

    def __init__(self, path):
        self.path = path
        path.mkdir()

    def lines(self, name):
        file = self.path / name
        return file.read_text().splitlines() if file.exists() else []

    def mark(self, name):
        (self.path / name).touch()


def run_workers(env, count, *flags, before=(), **settings):
    """`muster run` with so many of them; `before`: what is to start each."""
    settings = {key: str(value) for key, value in settings.items()}
    return Process([MUSTER, "run", "-j", "cluster", "-n", str(count), *flags, "--", *before, WORKER],
                   {**env, **settings})


def address_of(env):
    return "unix:" + os.path.join(env["MUSTER_RUNTIME_DIR"], "cluster.sock")
