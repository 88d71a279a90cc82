# SPDX-License-Identifier: Apache-2.0
"""What stands between a client and the service and does it harm: bytes are cut, held back and taken
apart, and a service answers nothing or nonsense.

Each direction of a connection is a `Way`; the test says what becomes of the next connections, or
gives a function that says it of every one. Where dice decide, they have a seed.
"""

import collections
import random
import select
import selectors
import socket
import struct
import threading
import time

from wire import COMMANDS, PREAMBLE, connect, field, frame, parse

CHUNK = 65536
NEVER = float("inf")


class Way:
    """What becomes of the bytes of one direction.

    cut    after so many bytes `end` happens, once
    end    "reset": both sides get an RST. "close": both get an orderly end. "half": only who reads
           here gets one, the other direction goes on. "stall": nothing for `stall_s`, then `then`
    piece  () -> how many bytes are delivered at a time
    edit   (bytes) -> bytes: what goes on in the place of those that came
    """

    def __init__(self, cut=None, end="reset", stall_s=0.0, piece=None, then=None, edit=None):
        self.then = then
        self.edit = edit or (lambda data: data)
        self.cut = NEVER if cut is None else cut
        self.end, self.stall_s = end, stall_s
        self.piece = piece or (lambda: CHUNK)


class Refusal:
    """The ways of one connection on which the first WATCH for `kinds` is answered with `status`."""

    def __init__(self, kinds, status):
        self.kinds, self.status, self.id, self.refused = kinds, status, None, False
        self.left = [b"", b""]
        self.begun = [False, True]  # the preamble is the client's
        self.ways = (Way(edit=lambda data: self.carry(0, data)), Way(edit=lambda data: self.carry(1, data)))

    def carry(self, side, data):
        data = self.left[side] + data
        out = b""
        if not self.begun[side]:
            if len(data) < len(PREAMBLE):
                self.left[side] = data
                return b""
            self.begun[side], out, data = True, data[: len(PREAMBLE)], data[len(PREAMBLE):]
        while len(data) >= 4 and len(data) >= 4 + struct.unpack(">I", data[:4])[0]:
            size = 4 + struct.unpack(">I", data[:4])[0]
            out += self.look(side, data[:size])
            data = data[size:]
        self.left[side] = data
        return out

    def look(self, side, whole):
        if self.refused:
            return whole
        said = parse(whole[4:])
        number = said.get(1, [None])[0]
        asked = said.get(16 + COMMANDS["watch"], [b""])[0] if side == 0 else b""
        if asked and parse(asked).get(1) == [self.kinds]:
            self.id = number
        elif side == 1 and self.id is not None and number == self.id:
            self.refused = True
            return frame(field(1, self.id) + field(2, COMMANDS["watch"]) + field(3, -2 * self.status - 1))
        return whole


class Flow:
    """One direction of one connection, as it stands."""

    def __init__(self, link, source, sink, way):
        self.link, self.source, self.sink, self.way = link, source, sink, way
        self.held = b""
        self.passed = 0
        self.until = 0.0  # nothing moves before
        self.source_ended = self.over = False

    def wants_read(self, now):
        return not self.over and not self.source_ended and not self.held and now >= self.until

    def wants_write(self, now):
        return not self.over and bool(self.held) and now >= self.until

    def take(self):
        came = self.source.recv(CHUNK)
        self.source_ended = not came
        self.held = self.way.edit(came) if came else b""
        self.settle()

    def give(self):
        room = min(self.way.piece(), self.way.cut - self.passed, len(self.held))
        sent = self.sink.send(self.held[: int(room)])
        self.held = self.held[sent:]
        self.passed += sent
        self.settle()

    def settle(self):
        if self.passed >= self.way.cut and not self.over:
            way = self.way
            self.way, self.passed = way.then or Way(piece=way.piece), 0
            self.link.proxy.cuts += 1
            if way.end == "stall":
                self.until = time.monotonic() + way.stall_s
            elif way.end == "half":
                self.finish()
            else:
                self.link.close(way.end == "reset")
                return
        if self.source_ended and not self.held and not self.over:
            self.finish()

    def finish(self):
        self.over = True
        self.sink.shutdown(socket.SHUT_WR)


class Link:
    """One connection and the one that stands for it at the service."""

    def __init__(self, proxy, client, ways):
        self.proxy, self.client = proxy, client
        self.service = connect(proxy.address)
        for sock in (self.client, self.service):
            sock.setblocking(False)
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.flows = [Flow(self, self.client, self.service, ways[0]),
                      Flow(self, self.service, self.client, ways[1])]
        self.open = True
        for flow in self.flows:  # those that are cut at byte 0
            if self.open:
                flow.settle()

    def close(self, reset=False):
        if not self.open:
            return
        self.open = False
        for sock in (self.client, self.service):
            if reset:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()

    def move(self, readable, writable):
        try:
            for flow in self.flows:
                if self.open and flow.source in readable and not flow.over:
                    flow.take()
                if self.open and flow.sink in writable and flow.held:
                    flow.give()
        except BlockingIOError:
            pass
        except OSError:
            self.close()
        if self.open and all(flow.over for flow in self.flows):
            self.close()


class Proxy:
    """Listens on loopback before the service at `address`. `ways(number)` gives the two ways, to the
    service and to the client, of connection `number`, from 0; without, all is carried as it comes."""

    def __init__(self, address, ways=None):
        self.address = address
        self.ways = ways or (lambda number: (Way(), Way()))
        self.planned = collections.deque()  # of the next connections, before `ways` is asked
        self.accepted = self.cuts = 0
        self.stalled = self.ended = False
        self.links = []
        self.wake, self.awake = socket.socketpair()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.name = self.listener.getsockname()
        self.client_address = f"127.0.0.1:{self.name[1]}"
        self.accepting = True
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    # ---- orders ----

    def order(self, **changes):
        for name, value in changes.items():
            setattr(self, name, value)
        self.wake.send(b"x")

    def stall(self):
        """From now on nothing moves."""
        self.order(stalled=True)

    def go(self):
        self.order(stalled=False)

    def hold(self):
        """Connections wait to be accepted."""
        self.order(accepting=False)

    def accept(self):
        self.order(accepting=True)

    def calm(self):
        """Whoever connects from now on is left alone."""
        self.order(ways=lambda number: (Way(), Way()))

    def end(self):
        """Everything is closed: who connects from now on is refused."""
        if not self.ended:
            self.order(ended=True)
            self.thread.join()

    # ---- carrying ----

    def let_in(self):
        client = self.listener.accept()[0]
        ways = self.planned.popleft() if self.planned else self.ways(self.accepted)
        self.accepted += 1
        try:
            self.links.append(Link(self, client, ways))
        except OSError:
            client.close()  # there is no service now

    def turn(self):
        now = time.monotonic()
        flows = [flow for link in self.links for flow in link.flows if not self.stalled]
        read = [flow.source for flow in flows if flow.wants_read(now)]
        write = [flow.sink for flow in flows if flow.wants_write(now)]
        pauses = [flow.until - now for flow in flows if flow.until > now and not flow.over]
        with selectors.DefaultSelector() as selector:
            for sock in {*read, *write}:
                selector.register(sock, selectors.EVENT_READ * (sock in read)
                                  | selectors.EVENT_WRITE * (sock in write))
            selector.register(self.awake, selectors.EVENT_READ)
            if self.accepting and not self.stalled:
                selector.register(self.listener, selectors.EVENT_READ)
            ready = selector.select(min(pauses) if pauses else None)
        readable = {key.fileobj for key, events in ready if events & selectors.EVENT_READ}
        writable = {key.fileobj for key, events in ready if events & selectors.EVENT_WRITE}
        if self.awake in readable:
            self.awake.recv(CHUNK)
        if self.stalled:
            return
        for link in self.links:
            link.move(readable, writable)
        if self.listener in readable:
            self.let_in()
        self.links = [link for link in self.links if link.open]

    def serve(self):
        while not self.ended:
            self.turn()
        self.listener.close()
        for link in self.links:
            link.close()


def one_by_one(number=0):
    """Every byte by itself, both ways."""
    return Way(piece=lambda: 1), Way(piece=lambda: 1)


def chaos(seed, bytes_max=1500, stall_s=0.2):
    """Of every connection: odd pieces, and an end somewhere in one of its directions."""
    dice = random.Random(seed)

    def way(harmed):
        def piece():
            return dice.choice((1, 2, 3, 7, 40, 1000))

        if not harmed:
            return Way(piece=piece)
        end = Way(dice.randrange(bytes_max), dice.choice(("reset", "close", "half")), piece=piece)
        if dice.randrange(2):
            return end
        return Way(dice.randrange(bytes_max), "stall", dice.random() * stall_s, piece, end)

    def ways(_):
        harmed = dice.randrange(2)
        return way(harmed == 0), way(harmed == 1)

    return ways


class Impostor:
    """Listens like a service, says `words` to everyone, and reads what it is told; `hangs_up`: once
    it has been told something."""

    def __init__(self, words=b"", hangs_up=False):
        self.words, self.hangs_up = words, hangs_up
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.wake, self.awake = socket.socketpair()
        self.heard = 0
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        socks = []
        while True:
            for sock in select.select([self.listener, self.awake, *socks], [], [])[0]:
                if sock is self.awake:
                    for each in (self.listener, *socks):
                        each.close()
                    return
                if sock is self.listener:
                    socks.append(sock.accept()[0])
                    continue
                try:
                    data = sock.recv(CHUNK)
                    if data:
                        self.heard += 1
                        sock.sendall(self.words)
                except OSError:
                    data = b""
                if not data or self.hangs_up:
                    socks.remove(sock)
                    sock.close()

    def end(self):
        self.wake.send(b"x")
        self.thread.join()
