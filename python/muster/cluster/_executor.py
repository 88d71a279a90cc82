# SPDX-License-Identifier: Apache-2.0
"""The interface of concurrent.futures over a coordinator."""

import atexit
import collections
import concurrent.futures
import operator
import os
import threading
import weakref
from typing import Any, Deque, List, Optional, Set, Tuple

from .. import _pickled as pickled
from .._errors import Invalid, Limit
from ._calls import Prepared
from ._coordinator import Coordinator
from ._failures import ClosureAbortedError
from ._values import RemoteValue


class _Future(concurrent.futures.Future):  # type: ignore[type-arg]
    value: Optional[RemoteValue] = None  # once it is admitted

    def running(self) -> bool:
        """Whether a worker has it: it runs there, or is next."""
        return not self.done() and self.value is not None and self.value.progress()[0] == "running"

    def cancel(self) -> bool:
        """One that runs is asked to stop, other than in the standard library. False: it has ended."""
        if super().cancel() and self.value is not None:
            self.value.cancel()
        return self.cancelled()

    def fail(self, failure: BaseException) -> None:
        """It has no closure, and result() raises this."""
        if self.set_running_or_notify_cancel():
            self.set_exception(failure)

    def ended(self, value: RemoteValue) -> None:
        if not self.set_running_or_notify_cancel():
            return
        try:
            self.set_result(value.fetch(0))
        except ClosureAbortedError as failure:
            self.set_exception(concurrent.futures.CancelledError(str(failure)))
        except BaseException as failure:  # it is raised by result()
            self.set_exception(failure)


# What executors of the standard library take, and what to do here instead.
ELSEWHERE = {
    "initializer": "what a worker needs once is at the top of the module that it loads, or a per-worker value",
    "initargs": "see create_per_worker_value",
    "mp_context": "leave it out",
    "max_tasks_per_child": "leave it out",
    "thread_name_prefix": "leave it out",
}
UNSET = (None, "", ())  # what their defaults are there


class Executor(concurrent.futures.Executor):
    """A concurrent.futures.Executor whose functions run on the workers of a cluster.

    coordinator: one whose policy is "isolate", for an executor's errors stay in its futures; or
    None, or a muster.Job: it is opened here, with the options of Coordinator, and shutdown closes it,
    and dismisses its workers if dismiss is True. max_workers: so many of its functions run at once at
    most; None: as many as the workers have slots."""

    def __init__(
        self, coordinator: Any = None, *, max_workers: Optional[int] = None, dismiss: bool = False, **options: Any
    ) -> None:
        if isinstance(coordinator, int):
            raise TypeError(f"Executor({coordinator}): write Executor(max_workers={coordinator})")
        if max_workers is not None and operator.index(max_workers) < 1:
            raise pickled.invalid(f"Executor: max_workers={max_workers}: expected a number from 1")
        for name in options.keys() & ELSEWHERE.keys():
            if options.pop(name) in UNSET:
                continue
            raise TypeError(
                f"Executor has no option {name!r}, for its workers are started by `muster run`: {ELSEWHERE[name]}"
            )
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
        self._free = max_workers
        self._admits = False  # a thread admits those that wait
        self._waiting: Deque[Tuple[_Future, Prepared]] = collections.deque()  # for one of these
        self._shut = False
        _executors.add(self)

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A Future of fn(*args, **kwargs): fn as for Coordinator.schedule. What is wrong with the
        function or its arguments is raised by its result()."""
        future = _Future()
        prepared: Optional[Prepared] = None
        try:
            prepared = self.coordinator._prepare(self.coordinator._target(fn), args, kwargs, {})
        except Exception as failure:
            future.fail(failure)
        with self._mutex:
            if self._shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if prepared is None:
                return future
            self._futures.add(future)
            if self._free == 0:
                self._waiting.append((future, prepared))
                return future
            if self._free is not None:
                self._free -= 1
        try:
            self._admit(future, prepared)
        except (Invalid, Limit) as failure:  # of this call; others are of the cluster
            future.fail(failure)
            self._next()
        except BaseException:
            self._next()
            raise
        return future

    def _admit(self, future: _Future, prepared: Prepared) -> None:
        value = future.value = self.coordinator._admit(prepared, None)
        if future.cancelled():
            value.cancel()
        value.add_done_callback(future.ended)
        if self._free is not None:
            value.add_done_callback(lambda _: self._next())

    def _next(self) -> None:
        """One is over, and has made room. One thread at a time admits those that wait: what ends at once
        leads here again, and a row of them would be a stack of calls."""
        with self._mutex:
            if self._free is None:
                return
            self._free += 1
            if self._admits:
                return
            self._admits = True
        try:
            while self._admit_one():
                pass
        except BaseException:
            self._admits = False
            raise

    def _admit_one(self) -> bool:
        with self._mutex:
            if not self._waiting or not self._free:
                self._admits = False
                return False
            self._free -= 1
            future, prepared = self._waiting.popleft()
        try:
            if not future.cancelled():
                self._admit(future, prepared)
                return True
            future.set_running_or_notify_cancel()  # wait() and as_completed() see it now
        except Exception as failure:
            future.fail(failure)
        with self._mutex:
            self._free += 1
        return True

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
        executor._waiting.clear()
        executor._shut = True
    _executors.clear()


os.register_at_fork(after_in_child=_in_child)


def _at_exit() -> None:
    """As the standard library's: a program ends when all that it has submitted has."""
    for executor in list(_executors):
        executor.shutdown()


atexit.register(_at_exit)
