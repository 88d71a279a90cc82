# SPDX-License-Identifier: Apache-2.0
"""Sockets of a program, some as gloo has them: which does muster shut down? One line for each, `NAME open|shut`."""

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

_connections.DRAIN_S = 5
later_client, later_end = pair(server)
kept.append(epoll_of(server, later_client))
later_end.send(b"read by nobody")
for what in ("what is on its way is waited for", "once"):
    began = time.monotonic()
    _connections.shut_down()
    print(f"{what}: {(time.monotonic() - began) >= _connections.DRAIN_S}", flush=True)
print(f"then: {'shut' if is_shut(later_end) else 'open'}", flush=True)
