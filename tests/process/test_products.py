# SPDX-License-Identifier: Apache-2.0
"""What hundreds of connections can do together when each stays within every limit of its own: the
memory of the service, how long its loop stands still, and what a client notices that does nothing
unusual. Each attack is a process of its own (overloading.py). The time for which the service and this
process were ready to run and had no processor is not counted: the machine may be busy with others.

behaviour: attacks / Clients that never read or finish
"""

import functools
import os
import pathlib
import resource
import subprocess
import sys
import threading
import time

import pytest

from conftest import WAIT_S, Process, sanitized
from running import until
from test_serve import resident
from wire import OK, PUT, Closed, Wire, field, parse

MIB = 1 << 20
SANITIZED = sanitized()
CONNECTIONS = 40 if SANITIZED else 300
KEYS = 2_000 if SANITIZED else 50_000
RSS_MAX = 512 * MIB
KEPT_MAX = 24 * MIB  # when all have gone, beyond what was there before
STANDSTILL_S = 0.25
P99_S = 0.05
CALLS = 480  # of the victim, of each kind a sixth
DELETE = 6  # of the kinds of writes
HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def session(service):
    """In the job of the attackers."""
    wire = Wire(service.address)
    assert wire.open(job="crowd").status == OK
    return wire


def operation(name, value):
    return field(2, field(1, PUT) + field(3, name) + field(4, value))


def fill(wire, names, value):
    names = list(names)
    for first in range(0, len(names), 100):
        ops = b"".join(operation(name, value) for name in names[first : first + 100])
        assert wire.ask("write", ops).status == OK


def prepare(wire, what):
    if what == "gets":
        assert wire.put("large", b"x" * 1_000_000).status == OK
    elif what == "pins":
        assert wire.put("large", b"x" * 1_000_000).status == OK
    elif what == "bursts":
        fill(wire, (f"w/{i}" for i in range(3_000)), b"v")
    elif what == "lists":
        fill(wire, (f"many/{i}" for i in range(100)), b"y" * 3_000)
    elif what in ("searches", "sparse"):
        fill(wire, (f"other/{i}" for i in range(KEYS)), b"v")
        fill(wire, (f"sparse/{i}" for i in range(KEYS // 30)), b"v")
        assert wire.put("last", b"v").status == OK


class Peak:
    """The most memory a process has had, looked at all the time."""

    def __init__(self, pid):
        self.pid, self.most, self.over = pid, 0, False
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self):
        while not self.over and pathlib.Path(f"/proc/{self.pid}").exists():
            self.most = max(self.most, resident(self.pid))
            time.sleep(0.005)

    def end(self):
        self.over = True
        self.thread.join(WAIT_S)
        return self.most


def waited(pid):
    """For a processor, in seconds."""
    try:
        return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except FileNotFoundError:  # a kernel that does not count it
        return 0


def took(service, call):
    pids = service.pid, os.getpid()
    waits = sum(map(waited, pids))
    begun = time.monotonic()
    assert call().status == OK
    return time.monotonic() - begun - (sum(map(waited, pids)) - waits)


def calls_of(wire):
    """What a client does that holds little: small and middling values, written and read."""
    values = {"tiny": b"v", "small": b"v" * 8_192, "middling": b"v" * 102_400}
    return [functools.partial(wire.put, key, value) for key, value in values.items()] + [
        functools.partial(wire.get, key) for key in values]


PINNED = 100 if SANITIZED else 750


def change(service, what):
    """What the attackers wait for happens."""
    wire = session(service)
    if what == "watches":
        assert wire.put("w/1", b"z" * 200_000).status == OK
    elif what == "bursts":
        wire.send(wire.request("write", operation("w/1", b"n")) +
                  b"".join(wire.request("write", b"".join(operation(f"o/{batch}/{i}", b"v")
                                                          for i in range(128)))
                           for batch in range(31)))
    elif what == "waits":
        fill(wire, (f"w{i:04}" for i in range(1024)), b"v")
    elif what == "pins":
        for i in range(PINNED):
            assert wire.put(f"p/{i}", b"z" * 1_000_000).status == OK
            assert wire.ask("write", field(2, field(1, DELETE) + field(3, f"p/{i}"))).status == OK


def revision_of(wire, key):
    wire.post("get", field(2, key))
    return parse(wire.receive())[5][0]


ATTACKS = ["watches", "gets", "lists", "halves", "drips", "searches", "sparse", "bursts", "jobs", "waits",
           "pins"]


@pytest.mark.parametrize("what", ATTACKS)
@pytest.mark.skipif(HARD < CONNECTIONS + 200, reason=f"{CONNECTIONS} descriptors")
def test_the_product_of_the_limits_is_bounded(serve, env, started, lateness, what):
    """Three hundred connections do together what each may: one change answers 39 watches of each
    with 200 KB, or has each search among four thousand other changes; they ask for large
    values or lists and read nothing; they send sixteen MiB without the last byte, or byte by
    byte; they wait for a thousand keys 256 times; they wait for values that are deleted before
    they read them; they search a job of very many keys again and again; each listens for
    notices of preemption with a hundred watches and asks for the list of jobs, which counts
    the listeners. The service stays below 512 MiB and gives the memory back, its loop stands
    still for less than 250 ms, and 99 of 100 puts and gets of another client, of up to 100
    KiB, take less than 50 ms."""
    service = serve("--lease", "1m")
    victim = session(service)
    prepare(victim, what)
    before = resident(service.pid)
    program = pathlib.Path(__file__).with_name("overloading.py")
    after = [revision_of(victim, "w/2999")] if what == "bursts" else []
    attack = Process([sys.executable, program, service.address, CONNECTIONS, what, *after], env,
                     stdin=subprocess.PIPE)
    started.append(attack)
    attack.out.wait_for("in")
    peak = Peak(service.pid)
    if what in ("bursts", "waits", "pins"):
        attack.out.wait_for("sent")
        assert victim.put("tiny", b"v").status == OK  # behind what was sent
    calls, times = calls_of(victim), []
    changing = threading.Thread(target=change, args=(service, what))
    changing.start()
    for number in range(CALLS):
        times.append(took(service, calls[number % len(calls)]))
        time.sleep(0.005)  # so that they span some seconds
    changing.join()
    attack.process.stdin.close()
    assert attack.wait() == 0
    times += [took(service, call) for call in calls]
    p99, longest = sorted(times)[CALLS * 99 // 100], max(times)
    assert victim.put("large", b"x" * 1_000_000).status == OK  # it is still one of them
    most = peak.end()
    print(f"{what}: peak {most >> 20} MiB, p99 {p99 * 1000:.1f} ms, longest {longest * 1000:.1f} ms")
    if SANITIZED:
        return
    assert most < RSS_MAX
    assert longest < STANDSTILL_S + lateness.so_far_s()
    assert p99 < P99_S
    until(lambda: victim.renew().status == OK and resident(service.pid) < before + KEPT_MAX)


# ---- those who do read and write ----


def reader(address, answers, out):
    """One that reads what it is told, on a thread of its own."""
    try:
        out.append([len(address.receive()) for _ in range(answers)])
    except (Closed, ConnectionError, TimeoutError) as why:
        out.append(why)


def in_threads(wires, answers):
    """What each was told."""
    told = []
    threads = [threading.Thread(target=reader, args=(wire, answers, told)) for wire in wires]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


READERS = 20 if SANITIZED else 100


def test_who_reads_is_told_everything_beyond_the_bound(serve):
    """A hundred watchers that read get one change in 800 replies of 200 KB, ten times what all
    connections may hold: it waits in the state. All of it arrives, no connection is closed,
    and memory stays near the bound."""
    service = serve("--buffered-bytes-max", "16m", "--lease", "1m")
    writer = session(service)
    wires = [session(service) for _ in range(READERS)]
    for wire in wires:
        for _ in range(8):
            wire.post("watch", field(1, 1) + field(3, "w/"))
    for wire in wires:
        assert wire.renew_behind().status == OK  # so the watches wait
    before = resident(service.pid)
    assert writer.put("w/1", b"z" * 200_000).status == OK
    peak = Peak(service.pid)
    told = in_threads(wires, 8)
    most = peak.end()
    assert all(isinstance(sizes, list) and min(sizes) > 200_000 for sizes in told), told
    assert not service.log.having("connection-refused")
    if not SANITIZED:
        assert most - before < 64 * MIB


def test_large_values_of_many_at_once_beyond_the_bound(serve):
    """A hundred clients write a MiB each at the same moment, six times what the connections may
    hold together. They are read one after the other; all of it arrives, and no connection is
    closed."""
    service = serve("--buffered-bytes-max", "16m", "--lease", "1m")
    victim = session(service)
    wires = [session(service) for _ in range(READERS)]
    senders = [threading.Thread(target=wire.post, args=(
        "write", field(2, field(1, PUT) + field(3, f"large/{number}") + field(4, b"v" * (MIB - 1)))))
               for number, wire in enumerate(wires)]
    for thread in senders:
        thread.start()
    assert took(service, calls_of(victim)[0]) < WAIT_S
    told = in_threads(wires, 1)
    for thread in senders:
        thread.join()
    assert all(isinstance(sizes, list) for sizes in told), told
    assert not service.log.having("connection-refused")
    found = sum(victim.get(f"large/{number}").status == OK for number in range(READERS))
    assert found == READERS
