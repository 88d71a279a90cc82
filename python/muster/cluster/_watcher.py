# SPDX-License-Identifier: Apache-2.0
"""The end of closures, told to callbacks."""

import logging
import os
import select
import threading
import time
from typing import TYPE_CHECKING, Callable, List, Tuple, Type

from .._errors import Error, Status
from .._muster import ffi, lib
from ._values import RemoteValue

if TYPE_CHECKING:
    from ._coordinator import Coordinator

MANY = 1024  # pending closures
QUIET = 4  # a look at more of them takes at most one part in so many of the time


class Watcher:
    """A thread that calls back when closures have ended. The coordinator's descriptor says that some
    may have; all that are waited for are looked at then, in C, and not too often if they are many."""

    def __init__(self, coordinator: "Coordinator") -> None:
        self.coordinator = coordinator
        self.lock = threading.Lock()
        self.pending: List[Tuple[RemoteValue, Callable[[RemoteValue], object]]] = []
        self.descriptor = lib.muster_cluster_fd(coordinator._cluster)
        if self.descriptor < 0:
            raise Error("no descriptor is left to watch closures with", Status.ELIMIT)
        self.stop_read, self.stop_write = os.pipe()
        self.stopped = False
        self.thread = threading.Thread(target=self._run, name="muster.cluster", daemon=True)
        self.thread.start()

    def add(self, value: RemoteValue, callback: Callable[[RemoteValue], object]) -> None:
        """What ends before it is listed is seen here, and what ends later by the thread."""
        entry = (value, callback)
        with self.lock:
            self.pending.append(entry)
            over = value.done()
            if over:
                self.pending.remove(entry)
        if over:
            call_back(callback, value)

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        poll.register(self.stop_read, select.POLLIN)
        while not self.stopped:  # by a callback, which has closed the descriptors
            ready = [descriptor for descriptor, _ in poll.poll()]
            if self.stop_read in ready:
                return
            self.coordinator._clear()
            began = time.monotonic()
            self._look()
            if len(self.pending) > MANY:
                time.sleep((time.monotonic() - began) * QUIET)

    def _look(self) -> None:
        with self.lock:
            listed = self.pending
            closures = ffi.new("muster_closure *[]", [value._closure for value, _ in listed])
            places = ffi.new("uint32_t[]", max(len(listed), 1))
            count = lib.muster_python_which_ended(closures, len(listed), places)
            over = list(places[0:count])
            gone = set(over)
            if over:
                self.pending = [one for i, one in enumerate(listed) if i not in gone]
        for place in over:
            value, callback = listed[place]
            call_back(callback, value, BaseException)  # the thread has others to call

    def stop(self) -> None:
        self.stopped = True
        os.write(self.stop_write, b"x")
        if threading.current_thread() is not self.thread:
            self.thread.join()

    def finish(self) -> None:
        """After the cluster was closed: all that is pending was cancelled."""
        with self.lock:
            listed, self.pending = self.pending, []
        for value, callback in listed:
            call_back(callback, value)
        os.close(self.stop_read)
        os.close(self.stop_write)


def call_back(
    callback: Callable[[RemoteValue], object],
    value: RemoteValue,
    caught: Type[BaseException] = Exception,
) -> None:
    try:
        callback(value)
    except caught:
        logging.getLogger("muster").exception("a callback of a closure has raised")
