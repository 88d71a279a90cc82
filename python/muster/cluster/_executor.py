# SPDX-License-Identifier: Apache-2.0
"""The interface of concurrent.futures over a coordinator."""

import atexit
import concurrent.futures
import os
import threading
import weakref
from typing import Any, List, Set

from .. import _pickled as pickled
from ._coordinator import Coordinator
from ._failures import ClosureAbortedError
from ._values import RemoteValue


class _Future(concurrent.futures.Future):  # type: ignore[type-arg]
    value: RemoteValue

    def running(self) -> bool:
        """Whether a worker has it: it runs there, or is next."""
        return not self.done() and self.value.progress()[0] == "running"

    def cancel(self) -> bool:
        """One that runs is asked to stop, other than in the standard library. False: it has ended."""
        if super().cancel():
            self.value.cancel()
        return self.cancelled()

    def ended(self, value: RemoteValue) -> None:
        if not self.set_running_or_notify_cancel():
            return
        try:
            self.set_result(value.fetch(0))
        except ClosureAbortedError as failure:
            self.set_exception(concurrent.futures.CancelledError(str(failure)))
        except BaseException as failure:  # it is raised by result()
            self.set_exception(failure)


class Executor(concurrent.futures.Executor):
    """A concurrent.futures.Executor whose functions run on the workers of a cluster.

    coordinator: one whose policy is "isolate", for an executor's errors stay in its futures; or
    None, or a muster.Job: it is opened here, with the options of Coordinator, and shutdown closes it,
    and dismisses its workers if dismiss is True."""

    def __init__(
        self, coordinator: Any = None, *, dismiss: bool = False, **options: Any
    ) -> None:
        self._own = not isinstance(coordinator, Coordinator)
        if self._own:
            coordinator = Coordinator(coordinator, policy="isolate", **options)
        elif options:
            raise TypeError("options are those of a coordinator that the executor opens itself")
        if not coordinator._isolates:
            raise pickled.invalid('an executor needs a coordinator with policy="isolate"')
        self.coordinator: Coordinator = coordinator
        self._dismiss = dismiss
        self._mutex = threading.Lock()
        self._futures: "weakref.WeakSet[_Future]" = weakref.WeakSet()
        self._shut = False
        _executors.add(self)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A Future of fn(*args, **kwargs): fn as for Coordinator.schedule."""
        with self._mutex:
            if self._shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            future = _Future()
            future.value = self.coordinator.schedule(fn, args, kwargs)
            self._futures.add(future)
        future.value.add_done_callback(future.ended)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes nothing more. wait: until all futures have ended; an executor's own coordinator is
        closed then, or else when the last one has."""
        with self._mutex:
            first, self._shut = not self._shut, True
            _executors.discard(self)
            pending = [future for future in self._futures if not future.done()]
        if cancel_futures:
            for future in pending:
                if not future.running():
                    future.cancel()
        if wait:
            concurrent.futures.wait(pending)
            if first and self._own:
                self._close()
        elif first and self._own:
            threading.Thread(target=self._close_later, args=(pending,)).start()  # the program waits for it

    def _close_later(self, pending: List[Any]) -> None:
        concurrent.futures.wait(pending)
        self._close()

    def _close(self) -> None:
        try:
            if self._dismiss:
                self.coordinator.dismiss()
        finally:
            self.coordinator.close()


_executors: Set[Executor] = set()  # not shut down


def _in_child() -> None:
    """The futures are the parent's, as its coordinator is."""
    for executor in _executors:
        executor._mutex = threading.Lock()
        executor._futures = weakref.WeakSet()
        executor._shut = True
    _executors.clear()


os.register_at_fork(after_in_child=_in_child)


def _at_exit() -> None:
    """As the standard library's: a program ends when all that it has submitted has."""
    for executor in list(_executors):
        executor.shutdown()


atexit.register(_at_exit)
