# SPDX-License-Identifier: Apache-2.0
"""What the library tells, line by line, on a thread that waits for it."""

from __future__ import annotations

import _thread
import logging
import socket

from ._muster import ffi, lib
from ._wait import Thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional

LEVELS = {
    lib.MUSTER_LEVEL_ERROR: logging.ERROR,
    lib.MUSTER_LEVEL_WARN: logging.WARNING,
    lib.MUSTER_LEVEL_INFO: logging.INFO,
    lib.MUSTER_LEVEL_DEBUG: logging.DEBUG,
}


class Log:
    """tell(level, line) for each line; see extra.c for why it goes through a socket."""

    def __init__(self, tell: Callable[[int, str], object]) -> None:
        self.tell = tell
        self.mine, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.reader: Optional[int] = None
        self.thread = Thread(self._read)
        self.thread.start()

    def put_into(self, options: Any) -> None:
        options.log = lib.muster_python_log_address()
        options.log_ctx = ffi.cast("void *", self.theirs.fileno())

    def _read(self) -> None:
        self.reader = _thread.get_ident()
        while message := self.mine.recv(2048):
            line = message.decode(errors="replace")
            try:
                self.tell(LEVELS[int(line[0])], line[1:])
            except Exception:  # of the one who is told: the next line is told all the same
                logging.getLogger(__name__).exception("a line of the log could not be told")

    def close(self) -> None:
        """The library does not write any more: what it has written is told."""
        self.theirs.shutdown(socket.SHUT_WR)
        if self.reader != _thread.get_ident():
            self.thread.join()
            self.mine.close()
        self.theirs.close()
