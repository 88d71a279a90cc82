# SPDX-License-Identifier: Apache-2.0
"""Three processes that are one service, beside a single one that keeps a journal."""
import contextlib
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import tempfile
import time

from .figures import Bar, Measure, Pair
from .programs import Failed, Server, Service, measure, only
from .run import Skipped
from .traffic import CONNECTIONS

COUNT = 3
DEPTH = 16
SYNCED_PART = 16  # one of so many puts is measured with --sync too
SYNCED_MS = 1000  # of bare syncs
WRITERS = 4
DEPOSED = 76  # it lost the lead, as on a machine that stands still, and is to be started again
PATIENCE_S = 30
BESIDE = "journalled service"


class Replica(Server):
    """One of them; its address and its folder outlive its process."""

    def __init__(self, group, place):
        self.group = group
        self.at = str(group.ports[place])
        self.log = group.folder / f"log{place}"
        self.journal = group.folder / f"replica{place}"

    def begin(self):
        with open(self.log, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [self.group.programs / "muster", "serve", "--addr", f"127.0.0.1:{self.at}",
                 "--replica", self.group.addresses, "--journal", self.journal, *self.group.flags],
                stdout=subprocess.DEVNULL, stderr=log)

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def told(self, words):
        """The lines of its log with these words."""
        return [line for line in self.log.read_text(encoding="utf-8").splitlines() if words in line]

    def led(self):
        """The last term that it led; 0: none."""
        lines = self.told(" leads term=")
        return int(lines[-1].split("term=")[1].split()[0]) if lines else 0


class Replicas:
    """All of them, in a folder on the disk on which muster was built, while a `with` lasts."""

    def __init__(self, run, *flags):
        self.programs, self.flags = run.bin, flags
        self.ending = contextlib.ExitStack()
        self.folder = pathlib.Path(
            self.ending.enter_context(tempfile.TemporaryDirectory(dir=run.bin.parent)))
        with contextlib.ExitStack() as probes:
            sockets = [probes.enter_context(socket.socket()) for _ in range(COUNT)]
            for one in sockets:
                one.bind(("127.0.0.1", 0))
            self.ports = [one.getsockname()[1] for one in sockets]
        self.addresses = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        self.all = [Replica(self, place) for place in range(COUNT)]

    def environment(self):
        return {**os.environ, "MUSTER_ADDR": self.addresses, "MUSTER_JOB": "bench"}

    def until(self, holds, what):
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            for replica in self.all:
                code = replica.process.poll() if replica.process else None
                if code == DEPOSED:
                    replica.begin()
                elif code is not None:
                    line = "".join(replica.told("libraft")[:1])
                    raise (Skipped(f"replicas, skipped: {line}") if line else
                           Failed(f"a replica ended with {code}"))
            if time.monotonic() > deadline:
                raise Failed(f"{what} for {PATIENCE_S} s")
            time.sleep(0.01)

    def leader(self):
        """Who was elected last."""
        self.until(lambda: any(replica.led() for replica in self.all), "no replica leads")
        return max(self.all, key=Replica.led)

    def follower(self):
        leader = self.leader()
        return next(replica for replica in self.all if replica is not leader)

    def __enter__(self):
        for replica in self.all:
            self.ending.callback(replica.end)
            replica.begin()
        self.until(lambda: all(replica.told(f"members voters={COUNT} ") for replica in self.all),
                   "not all replicas vote")
        return self

    def __exit__(self, *details):
        self.ending.close()


@contextlib.contextmanager
def single(run, *flags):
    """The one that they stand beside."""
    with tempfile.TemporaryDirectory(dir=run.bin.parent) as folder, \
            Service(run.bin, None, "--journal", os.path.join(folder, "journal"), *flags) as service:
        yield service


def keys(run, synced):
    flags, count = ((["--sync"], max(run.arguments.puts // SYNCED_PART, 1)) if synced
                    else ([], run.arguments.puts))
    name = f"three replicas, {'synced ' if synced else ''}"
    measures = [Measure(f"{name}put", BESIDE, Bar.at_most(1.3 if synced else 4)),
                Measure(f"{name}get", BESIDE)]
    if synced:
        measures.append(Measure("    a bare sync, three processes at a time", "one alone"))

    def disk(processes):
        with tempfile.TemporaryDirectory(dir=run.bin.parent) as folder:
            return only(measure(run.bin / "bench_synced", "disk", folder, processes, SYNCED_MS))

    def pair():
        run.pinned_ping_pong()
        with single(run, *flags) as service:
            beside = measure(run.bin / "bench_keys", count, env=service.environment())
        with Replicas(run, *flags) as replicas:
            subject = measure(run.bin / "bench_keys", count, env=replicas.environment())
        pairs = [Pair.of_p50(subject[call], beside[call]) for call in ("put", "get")]
        return [*pairs, Pair.of_p50(disk(COUNT), disk(1))] if synced else pairs

    return run.pairs(measures, pair)


def requests(run):
    """And what they cost a follower, beside the leader."""
    measures = [
        Measure(f"three replicas, requests, {CONNECTIONS} connections, depth {DEPTH}", BESIDE,
                Bar(">= 50 %", lambda pair: pair.ratio >= 0.5), "/s"),
        Measure("    CPU of a request, a follower", "the leader", Bar.at_most(0.6)),
        Measure("    memory of a follower afterwards", "the leader", Bar.at_most(1.2), "KiB")]

    def drive(at):
        return only(measure(run.bin / "bench_generator", "muster", at, CONNECTIONS, DEPTH,
                            run.arguments.milliseconds))

    def pair():
        run.pinned_ping_pong()
        with single(run) as service:
            beside = drive(service.at)["per_second"]
        with Replicas(run) as replicas:
            both = replicas.follower(), replicas.leader()
            before = [replica.cpu_us() for replica in both]
            report = drive(both[1].at)
            spent = [(replica.cpu_us() - used) / report["done"]
                     for replica, used in zip(both, before)]
            memory = [replica.memory_kib() for replica in both]
        return Pair(report["per_second"], beside), Pair(*spent), Pair(*memory)

    return run.pairs(measures, pair)


def failover(run):
    """With the default lease. The killed one is back before the next is killed."""
    bar = Bar.below_us(1.2e6, 2e6, "p50 <= 1.2 s, p90 <= 2 s")
    one = Measure("three replicas, SIGKILL of the leader -> next answered put", bar=bar)

    def strike(replicas):
        leader = replicas.leader()
        report = only(measure(run.bin / "bench_failover", leader.process.pid,
                              env=replicas.environment()))
        if leader.process.wait() != -signal.SIGKILL:
            raise Failed(f"the leader ended with {leader.process.returncode}, not by the signal")
        followed = len(leader.told(" follows leader=127"))
        leader.begin()
        replicas.until(lambda: replicas.leader() is not leader
                       and len(leader.told(" follows leader=127")) > followed,
                       "the replica that was struck led no other, or follows none now")
        return report["p50_us"]

    def pair():
        run.pinned_ping_pong()
        with Replicas(run) as replicas:
            taken = sorted(strike(replicas) for _ in range(run.arguments.kills))
        return [Pair(statistics.median(taken), p90=taken[(len(taken) * 9 - 1) // 10])]

    return run.pairs([one], pair)


def restart(run):
    """Of all the records, for there is no snapshot yet. The one that led stays away."""
    records = run.arguments.records
    one = Measure(f"three replicas, {records:,} records, start of two -> one answers a put",
                  bar=Bar.below_us(1.5e6, text="p50 <= 1.5 s"))

    def fill(replicas):
        count = records // 2 // WRITERS  # a get is a record too
        writers = [subprocess.Popen([run.bin / "bench_keys", str(count)],
                                    stdout=subprocess.DEVNULL, env=replicas.environment())
                   for _ in range(WRITERS)]
        if any([writer.wait() for writer in writers]):
            raise Failed("bench_keys failed")

    def pair():
        run.pinned_ping_pong()
        with Replicas(run) as replicas:
            fill(replicas)
            leader = replicas.leader()
            for replica in replicas.all:
                replica.end()
            begun = time.monotonic()
            for replica in replicas.all:
                if replica is not leader:
                    replica.begin()
            replicas.until(lambda: replicas.leader() is not leader, "no follower leads")
            subprocess.run([run.bin / "muster", "key", "put", "after", "x"], check=True,
                           env=replicas.environment())
            return [Pair((time.monotonic() - begun) * 1e6)]

    return run.pairs([one], pair)
