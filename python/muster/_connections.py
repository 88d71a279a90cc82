# SPDX-License-Identifier: Apache-2.0
"""The connections of gloo, which has no abort: those that it has opened in this attempt are shut down,
and what waits for them fails. Nothing of torch is needed to find them."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import select
import socket
import stat
import termios
import time
from typing import Any, Callable, List, NamedTuple, Set, Tuple

DRAIN_S = 0.05  # at most, for what is on its way
LOOK_S, QUIET_LOOKS = 0.0005, 3
_before: Set[Tuple[int, int]] = set()  # sockets that are not of this attempt: (descriptor, inode)


class Watched(NamedTuple):
    """A socket of an epoll. `sending`: the epoll is to tell when more can be sent."""

    number: int
    inode: int
    sending: bool


def begin() -> None:
    """What is open now is not of this attempt."""
    _before.clear()
    _before.update(_sockets())


def shut_down() -> None:
    """Never a listening socket: gloo ends the process when its accept() fails."""
    _let_drain()
    for one in connections():
        _of_tcp(one, lambda connection: connection.shutdown(socket.SHUT_RDWR))


def connections() -> List[Watched]:
    """gloo watches the sockets of a group by an epoll of its own, its listening one among them: so they
    are told from those of the program and of muster."""
    found: List[Watched] = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            if "eventpoll" in os.readlink(f"/proc/self/fd/{name}"):
                listening = {one: _of_tcp(one, _is_listening) for one in _watched(name)}
                if True in listening.values():
                    found += [one for one, listens in listening.items() if listens is False]
    return [one for one in found if (one.number, one.inode) not in _before]


def _sockets() -> Set[Tuple[int, int]]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                found.add((int(name), status.st_ino))
    return found


def _watched(epoll: str) -> List[Watched]:
    """The lines `tfd: 5 events: 19 data: 7f pos:0 ino:61af sdev:7` of /proc."""
    found = []
    with open(f"/proc/self/fdinfo/{epoll}", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("tfd:"):
                words = line.split()
                inode = next(word[len("ino:") :] for word in words if word.startswith("ino:"))
                sending = bool(int(words[3], 16) & select.EPOLLOUT)
                found.append(Watched(int(words[1]), int(inode, 16), sending))
    return found


def _let_drain() -> None:
    """Waits a moment for what is on its way. A rank that has half sent a piece when its connection ends
    is held by gloo until the group's time-out: gloo does not tell who waits for that (waitSend). All
    ranks that are alive take what is sent to them, so the moment is short."""
    until, quiet = time.monotonic() + DRAIN_S, 0
    watched = connections()
    while watched and quiet < QUIET_LOOKS and time.monotonic() < until:
        busy = any(one.sending or _of_tcp(one, _queued) for one in watched)
        quiet = 0 if busy else quiet + 1
        time.sleep(LOOK_S)
        watched = connections()


def _queued(one: socket.socket) -> bool:
    """Whether the kernel has bytes to send, or to be read."""
    number = array.array("i", [0])
    for ask in (termios.FIONREAD, termios.TIOCOUTQ):
        fcntl.ioctl(one.fileno(), ask, number)
        if number[0]:
            return True
    return False


def _of_tcp(watched: Watched, act: Callable[[socket.socket], Any]) -> Any:
    """act(a second descriptor of the socket), if it is still the one that was meant, and of TCP: its
    thread may close it at any time."""
    with contextlib.suppress(OSError):
        copy = os.dup(watched.number)
        status = os.fstat(copy)
        if not stat.S_ISSOCK(status.st_mode) or status.st_ino != watched.inode:
            os.close(copy)
            return None
        with socket.socket(fileno=copy) as one:
            if one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM:
                return act(one)
    return None


def _is_listening(one: socket.socket) -> bool:
    return bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
