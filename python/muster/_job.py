# SPDX-License-Identifier: Apache-2.0
"""A process's session with the service, and its place in the job."""

from __future__ import annotations

import logging
import os
import weakref

from . import _heartbeat as heartbeat
from . import _rounds
from ._c import members_of, milliseconds, options_of, string_of, view_of
from ._errors import Error, check
from ._keys import Keys
from ._log import Log
from ._muster import ffi, lib, make
from ._preempt import Preempt
from ._wait import Beside, Handle, on_main_thread
from ._watch import Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, List, Literal, Optional, Union

    from ._aio import Aio
    from ._c import Member, OnLoss, Reduce, Text, View
    from ._rounds import Data, Result

BARRIER = lib.MUSTER_PYTHON_BARRIER
_open_jobs: weakref.WeakSet[Job] = weakref.WeakSet()


def open(
    *, timeout: Optional[float] = None, log: Union[logging.Logger, Literal[False], None] = None, **options: Any
) -> Job:  # as muster.open
    """Connects, claims a place in the job, and waits until this process is in a generation.

    Options are those of struct muster_client_options, each from its MUSTER_ variable if it is not
    given: addr, job, role, index, size_of_job, min_size, max_size, size_multiple, join_wait (in
    seconds), grow, host, secret_file, insecure. `log`: a logging.Logger that is told what happens
    (default: the one named "muster"), or False."""
    given, kept = options_of(lib.muster_client_options_init, options, "muster.open")
    told = None
    if log is not False:
        told = Log((log or logging.getLogger("muster")).log)
        told.put_into(given)

    def connect() -> Any:
        out = ffi.new("muster_client **")
        err = ffi.new("struct muster_error *")
        try:
            check(lib.muster_client_open(out, given, milliseconds(timeout), err), err)
        except Error:
            if told:
                told.close()
            raise
        del kept[:]
        return out[0]

    def forget(client: Any) -> None:
        lib.muster_client_close(client)
        if told:
            told.close()

    opened = Beside(connect, forget).wait() if on_main_thread() else connect()
    return Job(Handle(opened), told)


class Job:
    """What muster.open returns; a context manager that closes it. Any thread may use it."""

    def __init__(self, handle: Handle, log: Optional[Log]) -> None:
        self._handle = handle
        self._log = log
        self._owner = os.getpid()
        self._aio: Optional[Aio] = None
        self.keys = Keys(handle)
        self.preempt = Preempt(handle)
        # Weak methods of what needs the client to close.
        self._before_close: List[Callable[[], Optional[Callable[[], object]]]] = []
        self._closing = False  # from before these are called: what comes later is refused
        _open_jobs.add(self)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the session: a rank leaves the job, which is no fault. Calls that other threads wait
        for end with Cancelled. Closing again does nothing."""
        self._closing = True
        for method in self._before_close:
            close = method()
            if close is not None:
                close()
        self._handle.close(self.preempt._close)
        aio, self._aio = self._aio, None
        if aio is not None:
            aio.closed()
        log, self._log = self._log, None
        if log and os.getpid() == self._owner:
            log.close()

    @property
    def aio(self) -> Aio:
        """The calls that wait, as coroutines of asyncio: `await job.aio.barrier("all")`. See Aio."""
        if self._aio is None:
            from ._aio import Aio  # a program without an event loop does not pay for asyncio

            self._aio = Aio(self._handle)
        return self._aio

    @property
    def view(self) -> View:
        """Where this process stands now: generation, rank (None: in no generation), size (of the
        generation), size_of_job, index, incarnation, iteration, spare. Costs no round trip."""
        view = ffi.new("struct muster_view *")
        with self._handle.lock:
            lib.muster_client_view(self._handle.get(), view)
        return view_of(view)

    def members(self, *, timeout: Optional[float] = None) -> List[Member]:
        """[Member] of every place of the job that was ever taken."""
        out = ffi.new("muster_members **")
        try:
            self._handle.call(lib.muster_member_list_start, milliseconds(timeout), out)
            return members_of(out)
        finally:
            lib.muster_members_free(out[0])

    def barrier(self, name: Text, timeout: Optional[float] = None) -> None:
        """Waits until every rank of the generation is here."""
        make(self._handle.address, BARRIER, name, b"", 0, 0, False, timeout)

    def round(
        self,
        name: Text,
        data: Data = b"",
        *,
        reduce: Union[str, Reduce] = "none",
        on_loss: Union[str, OnLoss] = "fail",
        participants: Optional[Iterable[int]] = None,
        deadline: Optional[float] = None,
        present_only: bool = False,
        root: int = 0,
        timeout: Optional[float] = None,
    ) -> Result:
        """Contributes `data` and waits for the Result. reduce: none, gather or equal (of bytes),
        min, max, sum or xor (of an int or a list of them), sum_double, min_double or max_double (of
        a float or a list of them), broadcast (all receive the bytes of rank `root`). A round that
        fails raises with it as `result` of the exception, if the service gave one."""
        mine = _rounds.Contribution(
            string_of(name),
            data,
            reduce,
            on_loss,
            participants,
            deadline,
            present_only,
            root,
            timeout,
        )
        return _rounds.join(self._handle, mine)

    def broadcast(self, name: Text, data: Text = b"", *, root: int = 0, timeout: Optional[float] = None) -> bytes:
        """The bytes that rank `root` gives as `data`, on every rank. Waits until all are here."""
        value: bytes = self.round(name, data, reduce="broadcast", root=root, timeout=timeout).value
        return value

    def watch(
        self,
        prefix: str = "",
        *,
        kinds: Union[str, Iterable[str]] = "keys",
        generation: int = 0,
        after: int = 0,
    ) -> Watch:
        """for event in job.watch("config/"): each change of a key under `prefix` as an Event, first
        the whole current state. kinds: one or several of keys, members, faults, view. `after`: only
        what comes after this revision. See Watch."""
        return Watch(self._handle, prefix, kinds, generation, after)

    def heartbeat(
        self, period: Optional[float] = None, *, timeout: Optional[float] = None, failures_max: Optional[int] = None
    ) -> heartbeat.Heartbeat:
        """Starts the collective heartbeat, and waits until all ranks have: once per `period` (in
        seconds; default 60) all show each other that they are here, and a process that finds somebody
        missing `failures_max` times in a row (3) ends by abort(), with one line on stderr. See
        Heartbeat.stop."""
        return heartbeat.start(
            self._handle, {"period": period, "timeout": timeout, "failures_max": failures_max}
        )

    def leave(self, timeout: Optional[float] = None) -> None:
        """Leaves the job for good; only close() is useful afterwards."""
        self._handle.call(lib.muster_member_leave_start, milliseconds(timeout))

    def fault(self, code: int, text: Optional[Text] = None, timeout: Optional[float] = None) -> None:
        """Reports a fault of this rank: all ranks of its generation are interrupted."""
        line = ffi.NULL if text is None else string_of(text)
        self._handle.call(lib.muster_member_fault_start, code, line, milliseconds(timeout))


def _in_child() -> None:
    for job in _open_jobs:
        job._handle.in_child()


os.register_at_fork(after_in_child=_in_child)
