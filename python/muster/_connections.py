# SPDX-License-Identifier: Apache-2.0
"""The connections of gloo, which has no abort: those that it has opened in this attempt are shut down,
and what waits for them fails. Nothing of torch is needed to find them: gloo watches the sockets of a
group by an epoll of its own, its listening one among them, and so they are told from those of the
program and of muster."""

from __future__ import annotations

import os

from ._muster import lib

DRAIN_S = 0.05  # at most, for what is on its way


def begin() -> None:
    """What is open now is not of this attempt."""
    _check(lib.muster_python_connections_begin())


def shut_down() -> None:
    """Each once; never a listening socket."""
    _check(lib.muster_python_connections_shut_down(int(DRAIN_S * 1e9)))


def _check(failed: int) -> None:
    if failed != 0:
        raise OSError(failed, f"look for gloo's connections in /proc/self/fd: {os.strerror(failed)}")
