# SPDX-License-Identifier: Apache-2.0
"""Hundreds of sessions that stay within every limit of one, and ask for as much as they can.

    overloading.py ADDRESS COUNT watches|gets|lists|halves|drips|searches|sparse|bursts|jobs|waits|pins [AFTER]

Opens so many sessions of the job `crowd`, says "in", sends what the attack is made of, says "sent" when
all of it has gone, and goes on until its stdin ends. AFTER is the revision that `bursts` watches from. None
of them reads anything more, except in those of READS."""

import functools
import selectors
import struct
import sys
import threading
import time

from crowding import answered, begin, opening
from wire import COMMANDS, field, frame

MIB = 1 << 20
WATCHES = 39
OPENED = 2  # the next id
READS = ("searches", "sparse", "jobs")  # they do, and ask it all again
KINDS = 3  # of what one of them sends
PINNED = 250  # keys that one waits for
DRIP_S = 0.5


def request(number, command, body):
    return frame(field(1, number) + field(2, number) + field(16 + COMMANDS[command], body))


def watches(number):
    """Each waits; one change answers all of them."""
    return b"".join(frame(field(1, OPENED + i) + field(2, OPENED) +
                          field(16 + COMMANDS["watch"], field(1, 1) + field(3, "w/")))
                    for i in range(WATCHES))


def gets(number):
    return b"".join(request(OPENED + i, "get", field(2, "large")) for i in range(200))


def lists(number):
    return b"".join(request(OPENED + i, "list", field(2, "many/")) for i in range(200))


def halves(number):
    """A frame of sixteen MiB without its last byte."""
    return struct.pack(">I", 16 * MIB) + bytes(16 * MIB - 1)


def searches(number):
    """The key that changed last, asked for from the beginning, in a job of very many."""
    return b"".join(request(OPENED + i, "watch", field(1, 1) + field(3, "last")) for i in range(200))


def sparse(number):
    """Too many names to look at each, behind too many changes of others."""
    return b"".join(request(OPENED + i, "watch", field(1, 1) + field(3, "sparse/")) for i in range(200))


def drips(number):
    """Likewise, and it comes byte by byte."""
    return struct.pack(">I", 16 * MIB) + bytes(MIB // 2)


def bursts(number, after=0):
    """Each waits for a change among three thousand names."""
    return b"".join(frame(field(1, OPENED + i) + field(2, OPENED) +
                          field(16 + COMMANDS["watch"],
                                field(1, 1) + field(3, "w/") + field(4, int(after))))
                    for i in range(WATCHES))


def jobs(number):
    """Each listens for notices, and asks who does."""
    return (b"".join(request(OPENED + i, "watch", field(1, 1) + field(3, "muster/preempt/"))
                     for i in range(100)) +
            b"".join(request(OPENED + 100 + i, "jobs", b"") for i in range(32)))


def waits(number):
    """Each waits for a thousand keys, again and again."""
    names = b"".join(field(2, f"w{i:04}") for i in range(1024))
    return b"".join(request(OPENED + i, "wait", names) for i in range(256))


def pins(number):
    """Each waits for keys, and has enough to read before it is told of them."""
    first = PINNED * number
    return (b"".join(request(OPENED + i, "get", field(2, f"p/{first + i}") + field(3, 1))
                     for i in range(PINNED)) +
            b"".join(request(OPENED + PINNED + i, "get", field(2, "large")) for i in range(4)))


def come(address, count):
    socks = []
    for first in range(0, count, 100):
        batch = [begin(address) for _ in range(min(100, count - first))]
        for number, sock in enumerate(batch):
            sock.sendall(opening(first + number))
        answered(batch)
        socks += batch
    return socks


class Attack:
    def __init__(self, socks, make, reads, drips):
        shared = functools.cache(make)  # the same bytes for many of them
        self.left = {sock: memoryview(shared(number % KINDS)) for number, sock in enumerate(socks)}
        self.again = shared(0) if reads else b""
        self.drips = drips
        self.dripped = time.monotonic()
        self.sending = set(socks)
        self.selector = selectors.DefaultSelector()
        for sock in socks:
            sock.setblocking(False)
            self.selector.register(sock, selectors.EVENT_WRITE | (selectors.EVENT_READ * reads))

    def leave(self, sock):
        self.selector.unregister(sock)
        sock.close()
        self.sent(sock)

    def sent(self, sock):
        if sock in self.sending:
            self.sending.remove(sock)
            if not self.sending:
                print("sent", flush=True)

    def serve(self, sock, events):
        try:
            if events & selectors.EVENT_READ and not sock.recv(MIB):
                raise ConnectionError
            if events & selectors.EVENT_WRITE:
                self.left[sock] = self.left[sock][sock.send(self.left[sock][: MIB // 4]) :]
        except BlockingIOError:
            return
        except ConnectionError:
            self.leave(sock)
            return
        if not self.left[sock]:
            if self.again:
                self.left[sock] = memoryview(self.again)
            else:
                self.selector.unregister(sock)  # and stays connected
                self.sent(sock)

    def turn(self):
        for key, events in self.selector.select(0.1):
            self.serve(key.fileobj, events)
        if self.drips and time.monotonic() > self.dripped + DRIP_S:
            self.dripped = time.monotonic()
            for sock in [sock for sock, left in self.left.items() if not left]:
                self.drip(sock)

    def drip(self, sock):
        try:
            sock.send(b"\0")
        except BlockingIOError:
            pass
        except ConnectionError:
            sock.close()
            del self.left[sock]


def main(address, count, what, *more):
    socks = come(address, int(count))
    make = functools.partial(globals()[what], after=more[0]) if more else globals()[what]
    attack = Attack(socks, make, what in READS, what == "drips")
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    print("in", flush=True)
    while not over.is_set():
        attack.turn()


if __name__ == "__main__":
    main(*sys.argv[1:])
