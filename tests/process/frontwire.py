# SPDX-License-Identifier: Apache-2.0
"""The protocols of the fronts, spoken by hand: enough of JAX's and of TCPStore's to be a process of a job where
neither is installed. As a program, `frontwire.py PORT INDEX [BEAT_MS]` registers as a process of JAX, then waits
for the error of another one; with heartbeats of that time it aborts then, as JAX does."""

import os
import socket
import struct
import sys
import threading
import time

from wire import WAIT_S, field, fixed64

OK, FAILED = 0, -1
DATA, HEADERS, RST_STREAM, SETTINGS, PING = 0, 1, 3, 4, 6
ACK = END_STREAM = 1
END_HEADERS = 4
SERVICE = "/xla.coordination.CoordinationService/"


def literal(name, value):
    """A header without indexing or Huffman's code."""
    return b"".join([b"\0", bytes([len(name)]), name.encode(), bytes([len(value)]), value.encode()])


def fixed64_of(message, number):
    """The field of that number, if the message begins with it."""
    return struct.unpack_from("<Q", message, 1)[0] if message[:1] == bytes([number << 3 | 1]) else 0


class Jax:
    """The coordination client of one process, as jaxlib 0.10 has it: calls of gRPC over plain HTTP/2."""

    def __init__(self, port, index, of=None):
        """`of`: another connection of the same process."""
        self.index = index
        self.incarnation = of.incarnation if of else int.from_bytes(os.urandom(7), "little") + 1
        self.service = of.service if of else 0
        self.stream = -1
        self.socket = socket.create_connection(("127.0.0.1", int(port)), timeout=WAIT_S)
        self.input = self.socket.makefile("rb")
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self.frame(SETTINGS, 0, 0, b"")

    def close(self):
        self.input.close()
        self.socket.close()

    def frame(self, kind, flags, stream, payload):
        head = struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream)
        self.socket.sendall(head + payload)

    def answer(self, stream):
        """The message of the stream, once it has ended; None: it ended with an error."""
        data = b""
        while True:
            head = self.input.read(9)
            assert len(head) == 9, "the front has closed the connection"
            size = int.from_bytes(head[:3], "big")
            kind, flags, number = struct.unpack(">BBI", head[3:])
            payload = self.input.read(size)
            if kind in (SETTINGS, PING) and not flags & ACK:
                self.frame(kind, ACK, 0, payload if kind == PING else b"")
            elif number == stream and kind == DATA:
                data += payload
            if number == stream and (kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM)):
                return data[5:] if data else None

    def call(self, method, message, **more):
        self.stream += 2
        headers = {":method": "POST", ":scheme": "http", ":path": SERVICE + method, ":authority": "localhost"}
        headers.update({"te": "trailers", "content-type": "application/grpc", **more})
        self.frame(HEADERS, END_HEADERS, self.stream, b"".join(literal(*pair) for pair in headers.items()))
        self.frame(DATA, END_STREAM, self.stream, struct.pack(">BI", 0, len(message)) + message)
        return self.answer(self.stream)

    def member_call(self, method, message=b"", **more):
        who = field(1, fixed64(2, self.incarnation) + fixed64(3, self.service))
        return FAILED if self.call(method, who + message, **more) is None else OK

    def register(self):
        got = self.call("RegisterTask", fixed64(3, self.incarnation) + field(5, self.index))
        self.service = fixed64_of(got, 1) if got else 0
        return FAILED if got is None else OK

    def beat(self, every_ms):
        message = fixed64(2, self.incarnation) + field(3, self.index)
        return self.member_call("Heartbeat", message, **{"grpc-timeout": f"{every_ms}m"})

    def poll(self):
        return self.member_call("PollForError", field(2, self.index))

    def shutdown(self):
        return self.member_call("ShutdownTask", field(2, self.index))

    def insert(self, key, value):
        return self.member_call("InsertKeyValue", field(2, field(1, key) + field(2, value)))

    def get(self, key):
        return self.member_call("GetKeyValue", field(2, key))


class Store:
    """A client of TCPStore, as torch 2.13 has it."""

    VALIDATE, SET, GET = 0, 1, 3

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", int(port)), timeout=WAIT_S)
        self.input = self.socket.makefile("rb")
        self.socket.sendall(struct.pack("<BI", self.VALIDATE, 0x3C85F7CE))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.input.close()
        self.socket.close()

    def ask(self, opcode, *fields):
        self.socket.sendall(bytes([opcode]) + b"".join(struct.pack("<Q", len(one)) + one for one in fields))

    def set(self, key, value):
        self.ask(self.SET, key.encode(), value)

    def get(self, key):
        """The value of a key that is set."""
        self.ask(self.GET, key.encode())
        (size,) = struct.unpack("<Q", self.input.read(8))
        return self.input.read(size)


def beat(jax, every_ms):
    while True:
        time.sleep(every_ms / 10000)
        jax.beat(every_ms)


def main(port, index, every_ms=None):
    jax = Jax(port, int(index))
    ok = jax.register() == OK
    if every_ms:
        beats = Jax(port, jax.index, of=jax)
        ok = ok and beats.beat(int(every_ms)) == OK
        threading.Thread(target=beat, args=(beats, int(every_ms)), daemon=True).start()
    print(f"registered {index} pid {os.getpid()}" if ok else "refused", flush=True)
    jax.socket.settimeout(None)
    print("polled" if jax.poll() == OK else "error", flush=True)
    if every_ms:
        os.abort()


if __name__ == "__main__":
    main(*sys.argv[1:])
