# SPDX-License-Identifier: Apache-2.0
"""Waiting in C without the interpreter's lock, and where Ctrl-C reaches it."""

from __future__ import annotations

import _thread
import threading

from ._errors import Invalid, Status, check
from ._muster import ffi, lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Optional, Set, TypeVar

    _T = TypeVar("_T")

# Python runs handlers of signals between two steps of the main thread only, so a signal ends the
# wait in C, which is continued after them.
SLEEP_MS = 250  # a signal may have come right before it, or its handler taken what it was to be woken by
MORE = lib.MUSTER_MORE


def on_main_thread() -> bool:
    return _thread.get_ident() == threading.main_thread().ident


class Handle:
    """A client. Any thread may use it, and one may close it meanwhile: what is started is started
    under the lock, and a started call outlives the client."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.gate = ffi.gc(lib.muster_python_gate_new(client), lib.muster_python_gate_free)
        self.address = int(ffi.cast("uintptr_t", self.gate))  # for make()
        self.lock = threading.RLock()
        self.calls = threading.Condition(self.lock)
        self.inside: Set[int] = set()  # threads that are in C for longer

    def get(self) -> Any:
        if self.client is None:
            raise Invalid("the job is closed", Status.EINVAL)
        return self.client

    def call(
        self, start: Callable[..., int], *args: Any, over: Callable[[], object] = lambda: None
    ) -> None:
        """start(client, *args, call_out, err), waited for. Whatever ends this, the call is over;
        over() comes before it is freed."""
        box = ffi.new("muster_call **")
        err = ffi.new("struct muster_error *")
        try:
            with self.lock:
                check(start(self.get(), *args, box, err), err)
            check(self._wait(box[0], err), err)
        finally:
            over()
            lib.muster_call_free(box[0])

    def _wait(self, call: Any, err: Any) -> int:
        status = MORE
        while status == MORE:
            status = lib.muster_call_wait_signal(call, SLEEP_MS, err)
        return status

    def __enter__(self) -> Any:
        """For calls that are in C for longer: close() comes back when they have ended. A handler of
        a signal may leave the main thread's name behind: its next call puts that right."""
        with self.lock:
            client = self.get()
            self.inside.add(_thread.get_ident())
            return client

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside.discard(_thread.get_ident())
            if self.client is None:
                self.calls.notify_all()

    def ask(self, function: Callable[[Any], _T], undo: Optional[Callable[[_T], object]] = None) -> Beside:
        """function(client), a blocking call, as something to be waited for beside. `undo` is told
        the result of one that was left early, unless the client is closed by then."""

        def run() -> _T:
            with self as client:
                return function(client)

        def undo_if_open(result: _T) -> None:
            with self.lock:
                if undo and self.client is not None:
                    undo(result)

        return Beside(run, undo_if_open)

    def beside(self, function: Callable[[Any], _T], undo: Optional[Callable[[_T], object]] = None) -> _T:
        """function(client), a blocking call, where Ctrl-C reaches the one who waits for it."""
        if on_main_thread():
            asked: _T = self.ask(function, undo).wait()
            return asked
        with self as client:
            return function(client)

    def close(self, before: Callable[[], object] = lambda: None) -> None:
        """`before` is what is to be closed before the client; after it, if calls are in progress
        that only the client's end ends."""
        me = {_thread.get_ident()}
        with self.lock:
            client, self.client = self.client, None
            lib.muster_python_gate_shut(self.gate)
            busy = bool(self.inside - me)
        if client is None:
            return
        if not busy:
            before()
        lib.muster_client_close(client)
        if busy:
            with self.calls:
                self.calls.wait_for(lambda: not self.inside - me)
            before()

    def in_child(self) -> None:
        """A thread that held a lock is not here to let it go; the handle is dead, and says so."""
        self.lock = threading.RLock()
        self.calls = threading.Condition(self.lock)
        self.inside = set()
        lib.muster_python_gate_forked(self.gate)


class Thread:
    """A thread that Ctrl-C cannot harm. Those of `threading` wait for each other in Python, where an
    exception between two steps can leave a lock taken for good; these locks are C's."""

    def __init__(self, function: Callable[[], object]) -> None:
        self.function = function
        self.once = _thread.allocate_lock()
        self.running = _thread.allocate_lock()
        self.running.acquire()
        self.ended = False

    def start(self) -> None:
        """Again, if nobody knows whether it was: it runs once."""
        _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        if self.once.acquire(False):
            try:
                self.function()
            finally:
                self.ended = True
                self.running.release()

    def join(self) -> None:
        while not self.ended:
            if self.running.acquire(True, SLEEP_MS / 1000):
                self.running.release()


class Beside:
    """function() on a thread of its own: for what C offers only as a blocking call. One that is left
    early goes on, and may be waited for again; when it ends well and nobody did, undo(result)."""

    def __init__(self, function: Callable[[], _T], undo: Callable[[_T], object] = lambda result: None) -> None:
        self.function = function
        self.undo = undo
        self.lock = _thread.allocate_lock()
        self.left = self.over = self.taken = False
        self.result: Any = None
        self.failure: Optional[BaseException] = None
        self.thread = Thread(self._run)

    def _run(self) -> None:
        try:
            self.result = self.function()
        except BaseException as failure:  # it is raised where it is waited for
            self.failure = failure
        with self.lock:
            self.over = True
            left = self.left
        if left and self.failure is None:
            self.undo(self.result)

    def finish(self) -> None:
        if not self.over:
            self.thread.start()
        self.thread.join()

    def wait(self) -> Any:
        try:
            self.left = False
            self.finish()
        except BaseException:
            with self.lock:
                self.left = True
                over = self.over
            if over and self.failure is None:
                self.undo(self.result)
            raise
        self.taken = True
        if self.failure is not None:
            raise self.failure
        return self.result
