# SPDX-License-Identifier: Apache-2.0
"""Sockets of a program, some as gloo has them: which does muster shut down? One line for each, `NAME open|shut`."""

import contextlib
import select
import socket
import time

from muster import _connections


def pair(server):
    """Two ends of a connection through the listening socket."""
    client = socket.create_connection(server.getsockname())
    return client, server.accept()[0]


def listening():
    return socket.create_server(("127.0.0.1", 0))


def epoll_of(*sockets):
    epoll = select.epoll()
    for one in sockets:
        epoll.register(one, select.EPOLLIN)
    return epoll


def is_shut(one):
    """The peer of what was shut down reads its end."""
    one.setblocking(False)
    try:
        return one.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False


def fill(one):
    """Sends until the peer, which reads nothing, and the kernel have no room. How much that was."""
    one.setblocking(False)
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            sent += one.send(bytes(65536))
    return sent


def read_all(one):
    """How much comes until the end."""
    return sum(map(len, iter(lambda: one.recv(65536), b"")))


def waits(what, limit_s):
    """For as long as it may?"""
    _connections.DRAIN_S = limit_s
    began = time.monotonic()
    _connections.shut_down()
    print(f"{what}: {time.monotonic() - began >= limit_s}", flush=True)


old = listening()
old_client, old_end = pair(old)
kept = [epoll_of(old, old_client, old_end)]
_connections.begin()

server = listening()
client, end = pair(server)
kept.append(epoll_of(server, client, end))
plain_client, plain_end = pair(server)
lonely_client, lonely_end = pair(server)
kept.append(epoll_of(lonely_client, lonely_end))
unix_client, unix_end = socket.socketpair()
kept.append(epoll_of(server, unix_client, unix_end))

_connections.shut_down()
for name, one in {"gloo's": client, "of before": old_client, "in no epoll": plain_client,
                  "in an epoll without a listening one": lonely_client, "of Unix": unix_client}.items():
    print(f"{name}: {'shut' if is_shut(one) else 'open'}", flush=True)
pair(server)
pair(old)
print("both listen", flush=True)

later_client, later_end = pair(server)
kept.append(epoll_of(server, later_client))
later_end.send(b"read by nobody")
waits("what gloo has not read is waited for", 1)
waits("once", 30)
print(f"then: {'shut' if is_shut(later_end) else 'open'}", flush=True)

full_client, full_end = pair(server)
full = epoll_of(server, full_client)
sent = fill(full_client)
full.modify(full_client, select.EPOLLIN | select.EPOLLOUT)
waits("what gloo has half sent is waited for", 1)
print(f"then: {'shut' if read_all(full_end) == sent else 'open'}", flush=True)

taken_client, taken_end = pair(server)
kept.append(epoll_of(server, taken_client))
sent = fill(taken_client)
waits("what the kernel has is waited for", 30)
print(f"it arrives: {read_all(taken_end) == sent}", flush=True)
