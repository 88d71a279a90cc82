# SPDX-License-Identifier: Apache-2.0
"""A wait in C, where Ctrl-C ends it."""

import time
from typing import Callable, Optional

from .._c import milliseconds
from .._muster import lib
from .._wait import on_main_thread

PIECE_MS = 20  # of a wait on the main thread, where Ctrl-C ends it between two of them


def in_pieces(
    call: Callable[[int], int],
    timeout: Optional[float],
    piece_ms: int = PIECE_MS,
    always: bool = False,
) -> int:
    """A call that waits, in pieces where it is the main thread that does, or always."""
    if not always and not on_main_thread():
        return call(milliseconds(timeout))
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = piece_ms
        if end is not None:
            left = min(piece_ms, milliseconds(max(0.0, end - time.monotonic())))
        status = call(left)
        if status != lib.MUSTER_ETIMEDOUT or (end is not None and time.monotonic() >= end):
            return status
