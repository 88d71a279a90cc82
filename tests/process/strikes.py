# SPDX-License-Identifier: Apache-2.0
"""A service on machines of a test that are struck, and the clients that call it meanwhile."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import time

from conftest import BUILD, MUSTER, WAIT_S, Process, pause
from linearizable import Call, parse
from nodes import Cluster
from replicas import ENDED, leading
from running import until

CLIENT = BUILD / "tests/process/register_client"
# Some calls of one "mute" are repeated, and few of these show whether they were applied twice.
KINDS = ("kill", "freeze", "cut", "full", *["mute"] * 4)
AT_LEADER = ("kill", "freeze", "cut", "host")  # of several replicas
FROZEN_S = 5
PORT = 7000
JOB = "struck"
LARGE = 1000000
OTHERS = "10.77.0.0/25"  # every machine
KEYS = 5
# A session that is silent for a lease is over, and the outcomes of its writes with it.
LEASE = "20s"
FREEZE_S, CUT_S, MUTE_S = (1, 5), (1, 4), (0.1, 0.3)
PROGRESS = 50  # calls between two strikes


class Services:
    """`muster serve` on a machine."""

    def __init__(self, cluster: Cluster, machines, disk, secret, flags=()):
        self.cluster, self.machines, self.disk, self.secret = cluster, machines, disk, secret
        self.flags = ("--secret-file", secret, "--lease", LEASE, "--job", JOB, *flags)
        self.on = {}
        for machine in machines:
            self.run(machine, "sh", "-c", "echo 1 >/proc/sys/net/ipv4/tcp_orphan_retries")
            self.start(machine)

    @property
    def address(self):
        return ",".join(f"{self.cluster.address(machine)}:{PORT}" for machine in self.machines)

    def start(self, machine):
        self.on[machine] = self.cluster.start(
            machine, "serve", "--addr", f"{self.cluster.address(machine)}:{PORT}", "--journal",
            self.disk / f"journal-{machine}", *self.flags)
        self.on[machine].out.wait_for("muster: serving on ")

    def leader(self):
        (machine,) = self.machines
        return machine

    def run(self, machine, *words):
        return subprocess.run(self.cluster.words(machine, *words), text=True, check=True, timeout=WAIT_S,
                              capture_output=True, env=self.cluster.environment(machine)).stdout

    def closing(self, machine):
        """Connections of a process that has ended, which the kernel still serves."""
        return self.run(machine, "ss", "-Htn", "state", "fin-wait-1", "sport", "=", PORT).strip()

    # ---- strikes ----

    def kill(self, machine, _):
        self.on[machine].kill()
        self.start(machine)

    def freeze(self, machine, dice):
        self.on[machine].signal(signal.SIGSTOP)
        time.sleep(dice.uniform(*FREEZE_S))  # nothing but time is struck with
        self.on[machine].signal(signal.SIGCONT)

    def cut(self, machine, dice):
        self.cluster.cable(machine, "down")
        time.sleep(dice.uniform(*CUT_S))
        self.cluster.cable(machine, "up")

    def mute(self, machine, dice):
        """What it answers does not arrive, and then it is killed: clients repeat what was applied. Its
        kernel would still send the answers when the way is open again, if it did not give up before."""
        self.cluster.ip(f"n{machine}", "route", "add", "blackhole", OTHERS)
        time.sleep(dice.uniform(*MUTE_S))
        self.on[machine].kill()
        until(lambda: not self.closing(machine))
        self.cluster.ip(f"n{machine}", "route", "delete", "blackhole", OTHERS)
        self.start(machine)

    def full(self, machine, _):
        """Until a write was refused. What the journal has reserved is used up first."""
        log = self.on[machine].log
        before = len(log.having("journal-full"))
        filler = self.disk / "filler"
        with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"f" * 65536)
        while len(log.having("journal-full")) == before:
            subprocess.run(self.cluster.words(machine, MUSTER, "key", "put", "large", "-"),
                           input="v" * LARGE, text=True, timeout=WAIT_S, capture_output=True,
                           env={**self.cluster.environment(machine), "MUSTER_ADDR": self.address,
                                "MUSTER_JOB": JOB, "MUSTER_SECRET_FILE": str(self.secret)})
        filler.unlink()
        log.wait_for("journal-has-room-again", count=before + 1)

    def strike(self, kind, dice):
        getattr(self, kind)(self.leader(), dice)


class Replicas(Services):
    """Three machines whose services are one. Each strike is at the one that leads, another one leads
    then, and in the end there are three again."""

    def __init__(self, cluster, machines, disk, secret):
        addresses = ",".join(f"{cluster.address(machine)}:{PORT}" for machine in machines)
        super().__init__(cluster, machines, disk, secret, ("--replica", addresses))
        self.whole()

    def whole(self):
        """Each of them votes: a strike while one is away would leave no majority."""
        for machine in self.machines:
            self.on[machine].log.wait_for("members", f"voters={len(self.machines)}")
        leader = f"{self.cluster.address(self.leader())}:{PORT}"
        for machine in self.machines:
            if machine != self.leader():
                self.on[machine].log.wait_for("follows", leader)

    def leader(self):
        return until(lambda: leading(self.on.items()))[-1]

    def next_leader(self, last):
        until(lambda: [machine for machine in leading(self.on.items()) if machine != last])

    def ended(self, machine):
        """It was deposed, and says with its status that it is to be started again."""
        assert self.on[machine].wait() == ENDED, self.on[machine].log.lines
        self.start(machine)

    # ---- strikes ----

    def kill(self, machine, _):
        self.on[machine].kill()
        self.next_leader(machine)
        self.start(machine)

    def freeze(self, machine, _):
        self.on[machine].signal(signal.SIGSTOP)
        time.sleep(FROZEN_S)  # nothing but time is struck with
        self.on[machine].signal(signal.SIGCONT)
        self.next_leader(machine)
        self.ended(machine)

    def cut(self, machine, _):
        """Nothing comes to it and nothing from it, until another one leads."""
        self.cluster.cable(machine, "down")
        self.next_leader(machine)
        self.cluster.cable(machine, "up")
        self.ended(machine)

    def host(self, machine, _):
        """It dies with all on it, in silence, and comes back with an empty disk."""
        self.cluster.cable(machine, "down")
        self.on[machine].kill()
        self.next_leader(machine)
        shutil.rmtree(self.disk / f"journal-{machine}")
        self.cluster.cable(machine, "up")
        self.start(machine)

    def strike(self, kind, dice):
        super().strike(kind, dice)
        self.whole()


def plan(seed, count, kinds=KINDS):
    """`count` strikes in an order that the seed decides, of every kind among len(kinds) of them."""
    dice = random.Random(seed)
    strikes = [kind for _ in range(-(-count // len(kinds))) for kind in dice.sample(kinds, len(kinds))]
    return strikes[:count]


class Clients:
    """Processes on one machine that call the keys until they are stopped."""

    def __init__(self, cluster, machine, address, secret, seed, count=8, pause_ms=8, job=JOB):
        self.cluster, self.machine = cluster, machine
        self.env = {**cluster.environment(machine), "MUSTER_ADDR": address, "MUSTER_JOB": job,
                    "MUSTER_SECRET_FILE": str(secret)}
        self.all = [Process(cluster.words(machine, CLIENT, number, seed, KEYS, pause_ms), self.env,
                            stdin=subprocess.PIPE) for number in range(count)]
        cluster.started += self.all
        for client in self.all:
            client.out.wait_for("open")

    def progress(self, calls=PROGRESS):
        """Waits until each client has ended so many calls more."""
        for client in self.all:
            wanted = len(client.out.lines) + calls
            deadline = time.monotonic() + WAIT_S
            while len(client.out.lines) < wanted and not client.out.ended:
                assert time.monotonic() < deadline, client.out.lines[-3:]
                pause()

    def stop(self):
        for client in self.all:
            client.process.stdin.close()
        for client in self.all:
            assert client.wait() == 0, client.out.lines[-1]

    def said(self):
        return [line for client in self.all for line in client.out.lines]

    def history(self):
        return [parse(line) for line in self.said() if line[0].isdigit()]

    def own(self):
        """{key: what its client knows of its insertion}"""
        return dict(line.split()[1:] for line in self.said() if line.startswith("own "))

    def read(self, prefix):
        """(key, value, revision) of what is there now."""
        done = subprocess.run(self.cluster.words(self.machine, MUSTER, "key", "ls", prefix, "--json"),
                              env=self.env, text=True, capture_output=True, timeout=WAIT_S)
        assert done.returncode == 0, done.stderr
        return [(key["key"], key["value"], key["revision"]) for key in json.loads(done.stdout)]

    def last_reads(self):
        """Calls that read every key at the end."""
        start = time.monotonic_ns()
        found = {key: (int(value), revision) for key, value, revision in self.read("k")}
        end = time.monotonic_ns()
        return [Call(len(self.all), start, end, "get", key, (), "ok", found.get(key, ()))
                for key in (f"k{number}" for number in range(KEYS))]


def lost(own, found):
    """What is wrong with the keys that were inserted once each: lost, applied twice, or of nobody."""
    there = {key for key, _, _ in found}
    return [f"{key} was {outcome}, and is {'' if key in there else 'not '}there"
            for key, outcome in own.items()
            if outcome == "conflict" or (outcome == "kept") > (key in there) or
            (outcome == "refused") > (key not in there)] + \
        [f"{key} was never inserted" for key in there - own.keys()]


def seed_of(environment=os.environ):
    return int(environment.get("MUSTER_SEED", 1))
