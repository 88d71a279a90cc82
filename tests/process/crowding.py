# SPDX-License-Identifier: Apache-2.0
"""One of the processes that come to a service in great numbers at once.

    crowding.py ADDRESS COUNT open|silent

For each line on stdin it connects so many, says "in SECONDS" when each has been answered (silent: when
each is connected), and goes away again at the next line. Ends with its stdin."""

import os
import selectors
import socket
import struct
import sys
import time

from wire import OBSERVER, PREAMBLE, VERSION, field, fixed64, frame

BATCH = 200  # connections that are under way at a time: the backlog of a socket is finite


LEAVE = frame(field(1, 2) + field(2, 2) + field(16 + 4, b""))


def begin(address):
    if address.startswith("unix:"):
        sock = socket.socket(socket.AF_UNIX)
        name = address[len("unix:") :]
    else:
        sock = socket.socket()
        host, port = address.rsplit(":", 1)
        name = (host, int(port))
    sock.connect(name)  # waits where the backlog is full
    return sock


def opening(number):
    body = fixed64(1, number + 1) + fixed64(2, 77) + field(3, "crowd") + field(4, OBSERVER)
    return (PREAMBLE + frame(field(1, 1) + field(2, VERSION)) +
            frame(field(1, 1) + field(2, 1) + field(17, body)))


def frames(data):
    count = 0
    while len(data) >= 4 and len(data) >= 4 + struct.unpack(">I", data[:4])[0]:
        data = data[4 + struct.unpack(">I", data[:4])[0] :]
        count += 1
    return count


def answered(socks):
    """Waits until each has a welcome and a reply."""
    heard = {sock: b"" for sock in socks}
    with selectors.DefaultSelector() as selector:
        for sock in socks:
            selector.register(sock, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                data = key.fileobj.recv(4096)
                if not data:
                    sys.exit("hung up on")
                heard[key.fileobj] += data
                if frames(heard[key.fileobj]) == 2:
                    selector.unregister(key.fileobj)


def come(address, count, says, first):
    socks = []
    for done in range(0, count, BATCH):
        batch = [begin(address) for _ in range(min(BATCH, count - done))]
        if says:
            for number, sock in enumerate(batch):
                sock.sendall(opening(first + done + number))
            answered(batch)
        socks += batch
    return socks


def main(address, count, what):
    first = os.getpid() << 32  # of the tokens, so that no two processes have the same
    socks = []
    for _ in sys.stdin:
        if socks:
            for sock in socks:
                if what == "open":
                    sock.sendall(LEAVE)
                sock.close()
            socks = []
            print("gone", flush=True)
        else:
            begun = time.monotonic()
            socks = come(address, int(count), what == "open", first)
            print(f"in {time.monotonic() - begun:.2f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
