# SPDX-License-Identifier: Apache-2.0
"""Very many at once: who connects, who says nothing, who never reads, who never finishes a frame.

behaviour: attacks / Crowds
"""

import os
import pathlib
import resource
import signal
import struct
import subprocess
import sys
import time

import pytest

from crowding import answered, begin, opening
from conftest import WAIT_S, Process, sanitized
from running import until
from test_http import Http
from test_serve import resident
from wire import ELIMIT, EPROTO, OK, PUT, Closed, Reply, Wire, connect, field, frame, parse

MIB = 1 << 20
LEASE_S = 60


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def limit(count):
    """Of the service's descriptors."""
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


# ---- ten thousand at once ----

PROCESSES = 8
EACH = 125 if sanitized() else 1250
CROWD = PROCESSES * EACH
HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
enough = pytest.mark.skipif(HARD < CROWD + 1000, reason=f"{CROWD} descriptors in one process")


class Crowd:
    def __init__(self, address, env, started, what):
        program = pathlib.Path(__file__).with_name("crowding.py")
        self.members = [Process([sys.executable, program, address, EACH, what], env,
                                stdin=subprocess.PIPE) for _ in range(PROCESSES)]
        started.extend(self.members)
        self.said = 0

    def order(self, word, meanwhile):
        """All at once; `meanwhile` is asked again and again until they are done."""
        for member in self.members:
            member.process.stdin.write("\n")
            member.process.stdin.flush()
        for member in self.members:
            member.out.wait_for(word, count=self.said // 2 + 1, meanwhile=meanwhile)
        self.said += 1

    def end(self):
        for member in self.members:
            member.process.stdin.close()
            assert member.wait() == 0


@enough
@pytest.mark.parametrize("where", ["unix", "tcp"])
def test_ten_thousand_connect_at_once(serve, env, started, where):
    """Ten thousand clients connect at once, from eight processes, over the socket or over TCP.
    All are answered. A member that was there before renews meanwhile and is not lost. When
    they have left, their descriptors and sessions are gone, and a second time takes no more
    memory than the first."""
    service = serve("--lease", f"{LEASE_S}s", "--http", "127.0.0.1:0",
                    *(["--addr", "127.0.0.1:0"] if where == "tcp" else []),
                    preexec_fn=limit(CROWD + 1000))
    http = Http(service)
    member = Wire(service.address)
    assert member.open_rank(0, 1).status == OK
    slowest = 0.0

    def renew():
        nonlocal slowest
        begun = time.monotonic()
        assert member.renew().status == OK
        slowest = max(slowest, time.monotonic() - begun)

    before = descriptors(service.pid)
    crowd = Crowd(service.address, env, started, "open")
    peaks = []
    for _ in range(2):
        crowd.order("in ", renew)
        there = [member.process.poll() for member in crowd.members]
        assert descriptors(service.pid) >= before + CROWD, (there, service.log.lines[-5:])
        peaks.append(resident(service.pid))
        crowd.order("gone", renew)
        until(lambda: renew() or descriptors(service.pid) <= before)
        until(lambda: renew() or http.metrics().value("muster_sessions") == 1)
    crowd.end()
    assert slowest < LEASE_S
    assert not service.log.having("member-lost") and not service.log.having("connection-refused")
    if not sanitized():
        assert peaks[1] <= peaks[0] + 2 * MIB, peaks


# ---- who says nothing ----


def test_who_says_nothing_gives_way_to_who_does(serve):
    """Silent connections hold all descriptors, and the lease for which they may be silent is
    long. A newcomer is let in: a silent connection gives way, and the log says which.

    The lease is an hour; there is room for some 90."""
    service = serve("--lease", "1h", preexec_fn=limit(120))
    witness = service.wire()
    silent = [connect(service.address) for _ in range(150)]
    assert service.wire().renew().status == OK  # behind 60 others who wait and will say nothing
    assert witness.renew().status == OK
    service.log.wait_for("connection-refused", "gives way to others: it has asked nothing so far")
    for sock in silent:
        sock.close()


def test_who_says_nothing_gives_way_at_the_limit_of_connections(serve):
    """Silent connections hold all connections that are allowed. A newcomer is refused, and let in
    when it tries again."""
    service = serve("--lease", "1h", "--connections-max", "20")
    witness = service.wire()
    silent = [connect(service.address) for _ in range(30)]
    deadline = time.monotonic() + 30
    while True:
        try:
            assert service.wire().renew().status == OK
            break
        except (Closed, ConnectionError):
            assert time.monotonic() < deadline
    assert witness.renew().status == OK
    for sock in silent:
        sock.close()


def test_a_connection_whose_session_is_over_is_not_kept(serve):
    """A client opened a session and then says nothing more: its host was switched off without a
    goodbye, or it stopped in the middle of a frame. After two leases without a request its
    session is over, and the connection is closed."""
    service = serve("--lease", "2s")
    gone, half = service.wire(), service.wire()
    half.send(half.request("renew")[:-1])
    for wire in (gone, half):
        wire.sock.settimeout(0.05)
        while not wire.ended():  # always another one: this process may stand still for a lease
            assert service.wire().renew().status == OK
    service.log.wait_for("connection-ended", "asks nothing any more", count=2)
    assert service.wire().renew().status == OK


def test_a_stopped_service_keeps_the_connections_of_those_it_forgives(serve, pass_time):
    """The service is stopped for more than two leases and goes on first; its clients were stopped
    too, and have sent nothing meanwhile. All have a whole lease to speak, over the connections
    that they have."""
    service = serve("--lease", "3s")
    member = Wire(service.address)
    assert member.open_rank(0, 1).status == OK
    service.signal(signal.SIGSTOP)
    pass_time(6500)
    service.signal(signal.SIGCONT)
    assert service.wire().renew().status == OK  # it has had a turn since
    assert member.renew().status == OK


@enough
def test_ten_thousand_who_say_nothing_keep_nobody_out(serve, env, started):
    """Ten thousand connect and say nothing, for an hour if they may, where there is room for a
    fifth of them. Members go on, and a client that speaks is let in behind those that came
    before: a connection that has asked nothing within a second gives way."""
    service = serve("--lease", "1h", preexec_fn=limit(CROWD // 5))
    member = service.wire()
    crowd = Crowd(service.address, env, started, "silent")
    for one in crowd.members:
        one.process.stdin.write("\n")
        one.process.stdin.flush()
    service.log.wait_for("accepting-paused")
    for _ in range(5):
        with begin(service.address) as late:
            late.sendall(opening(0))
            answered([late])
        assert member.renew().status == OK
    for one in crowd.members:
        one.out.wait_for("in ", meanwhile=member.renew)
    assert service.wire().renew().status == OK
    crowd.end()


# ---- who never reads ----


def send_until_stuck(wire, frames):
    """Sends them until the socket takes no more, or until all are sent; how many bytes it took."""
    wire.sock.setblocking(False)
    data = b"".join(frames)
    sent = 0
    try:
        while sent < len(data):
            sent += wire.sock.send(data[sent : sent + MIB])
    except (BlockingIOError, ConnectionError):
        pass
    wire.sock.settimeout(WAIT_S)
    return sent


def longest(ask, count):
    """The longest of so many answers, in seconds."""
    most = 0.0
    for _ in range(count):
        begun = time.monotonic()
        assert ask().status == OK
        most = max(most, time.monotonic() - begun)
    return most


READERS = 5
READERS_LEASE_S = 4
OUTPUT_MAX = 8 * MIB


def test_who_never_reads_costs_no_more_than_its_limit(serve):
    """Clients ask for large values, lists, watches and members without end and read nothing. They
    are read no further, what is kept for each stays under its limit, others are answered at
    once meanwhile, and in the end they are closed. [Clients that never read or finish]"""
    service = serve("--output-bytes-max", OUTPUT_MAX, "--lease", f"{READERS_LEASE_S}s")
    witness = service.wire()
    assert witness.put("large", b"x" * 1_000_000).status == OK
    many = b"".join(field(2, field(1, PUT) + field(3, f"many/{i:04}") + field(4, b"y" * 500))
                    for i in range(100))
    assert witness.ask("write", many).status == OK
    before = resident(service.pid)
    bodies = {"get": field(2, "large"), "list": field(2, "many/"),
              "watch": field(1, 1) + field(3, "many/"), "members": b"", "renew": b""}
    silent = []
    for command in list(bodies) * (READERS // len(bodies)):
        silent.append(service.wire())
        # A thousand at a time: the window allows any number of reads.
        send_until_stuck(silent[-1], (silent[-1].request(command, bodies[command])
                                      for _ in range(20000)))
    witness = service.wire()  # who was there before may have been silent for a lease
    slowest = longest(witness.renew, 50)
    slowest = max(slowest, longest(lambda: witness.get("many/0001"), 50))
    if not sanitized():
        assert slowest < READERS_LEASE_S, slowest  # it did not wait until they were closed
        assert resident(service.pid) - before < READERS * 2 * OUTPUT_MAX
    service.log.wait_for("reason=\"asks nothing any more\"", count=1, meanwhile=witness.renew)
    until(lambda: witness.renew() and descriptors(service.pid) < 20)
    assert service.wire().get("large").value == b"x" * 1_000_000


CHANGES, KEYS = 100_000, 100


def test_a_watcher_that_never_reads_is_told_the_newest(serve):
    """A watcher does not read while a hundred thousand changes happen. It costs no memory; when
    it reads it gets what is, not what was. [Clients that never read or finish]"""
    service = serve("--lease", "1h")
    writer, watcher = service.wire(), service.wire()

    def write(turn):
        ops = b"".join(field(2, field(1, PUT) + field(3, f"w/{i:03}") + field(4, f"{turn:0500}"))
                       for i in range(KEYS))
        assert writer.ask("write", ops).status == OK

    write(0)
    watch = field(1, 1) + field(3, "w/")
    position = parse(watcher_reply(watcher, watch))[5][0]
    # The one that is answered at the first change, and as many as it likes that are answered too.
    for _ in range(50):
        watcher.post("watch", watch + field(4, position))
    write(1)
    before = resident(service.pid)
    for turn in range(2, CHANGES // KEYS):
        write(turn)
    if not sanitized():
        assert resident(service.pid) - before < 8 * MIB
    for _ in range(50):
        assert len(parse(watcher.receive())[10]) >= 1
    items = parse(watcher_reply(watcher, watch + field(4, position)))[10]
    assert len(items) == KEYS
    assert {parse(item)[7][0] for item in items} == {f"{CHANGES // KEYS - 1:0500}".encode()}


def watcher_reply(wire, body):
    wire.post("watch", body)
    return wire.receive()


# ---- who never finishes ----


def test_a_frame_that_comes_byte_by_byte_does_not_keep_its_sender(serve):
    """A frame comes byte by byte, without end. Bytes that are no request yet are no sign of life:
    without RENEW the lease ends, and after two leases the connection is closed.
    [Clients that never read or finish]"""
    service = serve("--lease", "2s")
    begun = time.monotonic()
    slow = service.wire()
    frame_of_a_mib = slow.request("write", field(2, field(1, PUT) + field(3, "k") +
                                                 field(4, b"v" * MIB)))
    with pytest.raises(ConnectionError):
        for byte in frame_of_a_mib:
            slow.send(bytes([byte]))
            # Always another one, welcomed: this process may stand still for a lease.
            Wire(service.address).close()
    assert time.monotonic() - begun >= 4
    service.log.wait_for("reason=\"asks nothing any more\"")


PARTIAL = 200 if sanitized() else 2000


@pytest.mark.skipif(HARD < PARTIAL + 200, reason=f"{PARTIAL} descriptors")
def test_thousands_of_frames_that_are_not_whole(serve):
    """Two thousand connections announce sixteen MiB each and send three KiB. What is kept is what
    came. [Clients that never read or finish]"""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    resource.setrlimit(resource.RLIMIT_NOFILE, (HARD, HARD))
    service = serve("--lease", "60s")
    witness = service.wire()
    wires = [service.wire() for _ in range(PARTIAL)]
    before = resident(service.pid)
    for wire in wires:
        wire.send(struct.pack(">I", 16 * MIB) + b"\x08" * 3000)
    assert longest(witness.renew, 20) < WAIT_S
    if not sanitized():
        assert resident(service.pid) - before < PARTIAL * 8192
    for wire in wires:
        wire.close()
    until(lambda: witness.renew() and descriptors(service.pid) < 20)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, HARD))


def test_frames_of_the_greatest_size_and_one_byte_more(serve):
    """A frame of the greatest size is read and answered, here refused for the value in it, and
    the memory it took is given back. One byte more costs the connection as soon as its length
    is there. [Clients that never read or finish]"""
    service = serve("--lease", f"{LEASE_S}s")
    witness, large = service.wire(), service.wire()
    most = 17825792
    head = field(1, 2) + field(2, 2)

    def holding(size):
        value = field(1, PUT) + field(3, "k") + field(4, bytes(size))
        return head + field(16 + 6, field(2, value))

    payload = holding(most - (len(holding(most - 100)) - (most - 100)))
    assert len(payload) == most
    before, kept = resident(service.pid), []
    for sender in (large, *(service.wire() for _ in range(7))):
        sender.send(frame(payload))
        assert Reply(sender.receive()).status == ELIMIT
        assert sender.renew().status == OK
        kept.append(sender)
    if not sanitized():  # what one of them took is kept back by the C library, and not by each
        assert resident(service.pid) - before < 5 * most
    other = service.wire()
    other.send(struct.pack(">I", most + 1))
    assert Reply(other.receive()).status == EPROTO
    assert other.ended()
    assert witness.renew().status == OK
