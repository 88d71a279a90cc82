# SPDX-License-Identifier: Apache-2.0
"""Machines of a test: network namespaces on a switch, each with a host name of its own. Everything
is inside the namespaces, so that nothing of it is left when they are removed."""

import contextlib
import os
import re
import shlex
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from conftest import MUSTER, WAIT_S
from wire import AGENT, OK, Closed, Reply, Wire, field, parse

SWITCH = "sw"


def missing():
    """Why there can be none here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "nsenter", "unshare"):
        if shutil.which(tool) is None:
            return f"there is no {tool} here"
    probe = f"mst{os.getpid()}-probe"
    try:
        for step in (["ip", "netns", "add", probe],
                     ["ip", "-n", probe, "link", "add", "bridge", "type", "bridge"],
                     ["ip", "-n", probe, "link", "add", "eth0", "type", "veth", "peer", "name", "n0"],
                     ["unshare", "--uts", "true"]):
            done = subprocess.run(step, capture_output=True, text=True)
            if done.returncode != 0:
                return f"no machines can be made: {' '.join(step[:-1])}: {done.stderr.strip()}"
    finally:
        subprocess.run(["ip", "netns", "delete", probe], capture_output=True, check=False)
    return None


class Cluster:
    def __init__(self, env, spawn):
        self.env = env
        self.spawn = spawn
        self.prefix = f"mst{os.getpid()}-"
        self.made = []
        self.directories = []
        try:
            self.namespace(SWITCH)
            self.ip(SWITCH, "link", "add", "bridge", "type", "bridge")
            self.ip(SWITCH, "link", "set", "bridge", "up")
        except BaseException:
            self.remove()
            raise

    def namespace(self, name):
        subprocess.run(["ip", "netns", "add", self.prefix + name], check=True)
        self.made.append(name)

    def ip(self, name, *words):
        subprocess.run(["ip", "-n", self.prefix + name, *map(str, words)], check=True)

    def add(self):
        """One more machine, by its number."""
        number = len(self.made) - 1
        name = f"n{number}"
        self.namespace(name)
        self.ip(name, "link", "set", "lo", "up")
        self.ip(name, "link", "add", "eth0", "type", "veth", "peer", "name", name, "netns",
                self.prefix + SWITCH)
        self.ip(name, "address", "add", f"{self.address(number)}/24", "dev", "eth0")
        self.ip(name, "link", "set", "eth0", "up")
        self.ip(SWITCH, "link", "set", name, "master", "bridge", "up")
        directory = tempfile.mkdtemp(prefix="mst-", dir="/tmp")
        self.directories.append(directory)
        return number

    @staticmethod
    def address(number):
        return f"10.77.0.{number + 1}"

    @staticmethod
    def host(number):
        return f"host-{number}"

    def cable(self, number, state):
        self.ip(SWITCH, "link", "set", f"n{number}", state)

    def environment(self, number):
        return {**self.env, "MUSTER_RUNTIME_DIR": self.directories[number],
                "MUSTER_STATE_DIR": os.path.join(self.env["MUSTER_RUNTIME_DIR"], "home")}

    def words(self, number, *command):
        """`command` on that machine; the process that is started becomes it."""
        return ["nsenter", f"--net=/run/netns/{self.prefix}n{number}", "unshare", "--uts", "sh",
                "-c", 'hostname "$0" && exec "$@"', self.host(number), *map(str, command)]

    def start(self, number, *arguments, **variables):
        return self.spawn(self.words(number, MUSTER, *arguments),
                          {**self.environment(number), **variables})

    def muster(self, number, *arguments):
        """A command of the program on that machine, to its end."""
        return subprocess.run(self.words(number, MUSTER, *arguments), text=True, timeout=2 * WAIT_S,
                              env=self.environment(number), capture_output=True)

    def pids_in(self, name):
        said = subprocess.run(["ip", "netns", "pids", self.prefix + name], text=True,
                              capture_output=True).stdout
        return [int(pid) for pid in said.split()]

    def pids(self, number):
        """All that runs on that machine."""
        return self.pids_in(f"n{number}")

    @staticmethod
    def muster_path():
        return MUSTER

    def remove(self):
        for name in self.made:
            for pid in self.pids_in(name):
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.kill(pid, signal.SIGKILL)
            subprocess.run(["ip", "netns", "delete", self.prefix + name], check=False)
        for directory in self.directories:
            shutil.rmtree(directory, ignore_errors=True)


MEMBERS, ITEM_MEMBER, LOST = 2, 3, 4


class Losses:
    """What one who watches the members of a job is told of losses: page by page, and when, by the
    clock that all namespaces share."""

    def __init__(self, address, job, lease_s):
        self.pages = []  # (when, {(role, index)})
        self.wire = Wire(address)
        assert self.wire.open(job=job).status == OK
        self.lease_s = lease_s
        self.over = False
        self.thread = threading.Thread(target=self._follow, daemon=True)
        self.thread.start()

    def _watch(self, after):
        self.wire.post("watch", field(1, MEMBERS) + field(4, after))
        return self.wire.last_id

    def _follow(self):
        try:
            self._take_pages()
        except (Closed, ConnectionError):  # the run is over
            pass

    def _take_pages(self):
        waiting = self._watch(0)
        last = None  # a renewal at the end: what was told before its answer has been taken in
        while True:
            if last is None and self.over:
                self.wire.post("renew")
                last = self.wire.last_id
            if last is None and not select.select([self.wire.sock], [], [], self.lease_s / 10)[0]:
                self.wire.post("renew")
                continue
            payload = self.wire.receive()
            if Reply(payload).id == last:
                return
            if Reply(payload).id == waiting:
                self._take(time.monotonic(), parse(payload))
                waiting = self._watch(parse(payload)[5][0])

    def _take(self, now, page):
        lost = set()
        for item in map(parse, page.get(10, [])):
            who = parse(item[8][0]) if item[1] == [ITEM_MEMBER] else {}
            if who.get(5) == [LOST]:
                lost.add(("agent" if who[4] == [AGENT] else "rank", who.get(1, [0])[0]))
        if lost:
            self.pages.append((now, lost))

    def close(self):
        self.over = True
        self.thread.join()
        self.wire.close()
        return self.pages


LINE = re.compile(r"muster run (--join .*)")


def joining(first, *more):
    """What node 0 says is to be typed on the others: the words after `muster run`."""
    said = first.log.wait_for("nodes: on ", "muster run --join")
    words = shlex.split(LINE.search(said)[1])
    at = words.index("--")
    return [*words[:at], *more, *words[at:]]
