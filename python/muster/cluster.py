# SPDX-License-Identifier: Apache-2.0
"""The coordinator of a cluster: schedules functions on workers (muster.worker), which may join, leave
and crash; each result counts once.

    from muster.cluster import Coordinator
    from steps import square                      # declared with @muster.worker.function

    with Coordinator() as coordinator:
        values = [coordinator.schedule(square, args=(x,)) for x in range(1000)]
        coordinator.join()
        print(sum(coordinator.fetch(values)))
        coordinator.dismiss()

Named as tf.distribute.coordinator.ClusterCoordinator and its values. docs/python/cluster.md is the
guide."""

import array
import atexit
import concurrent.futures
import copy
import dataclasses
import importlib
import itertools
import logging
import os
import pickle
import queue
import select
import threading
import time
import weakref
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Generator,
    Iterable,
    Iterator,
    List,
    NoReturn,
    Optional,
    Sequence,
    Set,
    Tuple,
    Type,
    Union,
)

from . import _job
from . import _pickled as pickled
from ._c import enum_of, milliseconds, options_of, record_of, string_of, text_of
from ._errors import Cancelled, Error, Failed, StateServer, Status, Timeout, check, error_of
from ._muster import ffi, lib
from ._pickled import BUFFER, BUILD, ITERATE, PICKLE, RAW, RemoteError, RemoteTraceback, local
from ._wait import Beside, on_main_thread
from .worker import MARK, Function

__all__ = [
    "ClosureAbortedError",
    "ClosureError",
    "ClosureInputError",
    "ClusterCoordinator",
    "Coordinator",
    "Counts",
    "DeadlineError",
    "Executor",
    "Failure",
    "Origin",
    "PSUnavailableError",
    "PerWorkerDataset",
    "PerWorkerIterator",
    "PerWorkerValue",
    "PerWorkerValues",
    "Policy",
    "RemoteError",
    "RemoteTraceback",
    "RemoteValue",
    "WorkerInfo",
    "WorkerLostError",
    "WorkerState",
    "as_completed",
    "fetch",
]

if TYPE_CHECKING:  # from the headers, as what follows is: python/stubs.py
    from ._types import (
        Counts as Counts,
        Origin as Origin,
        Policy as Policy,
        WorkerInfo as WorkerInfo,
        WorkerState as WorkerState,
    )

    _counts_of: Callable[[Any], Counts]
    _worker_of: Callable[[Any], WorkerInfo]
else:
    Policy = enum_of(
        "Policy",
        "enum muster_cluster_policy",
        "What a failure does to the other closures: FAIL_FAST: the first one ends the series. COLLECT:"
        " join raises all of them at the end. ISOLATE: none is raised by join.",
    )
    Origin = enum_of("Origin", "enum muster_origin", "Where the failure of a closure comes from.")
    WorkerState = enum_of(
        "WorkerState", "enum muster_worker_state", "Where a worker stands; SILENT: its connection broke."
    )
    for _made in (Policy, Origin, WorkerState):
        _made.__module__ = "muster.cluster"
    Counts, _counts_of = record_of("Counts", "struct muster_cluster_counts", "Coordinator.counts().")
    WorkerInfo, _worker_of = record_of("WorkerInfo", "struct muster_cluster_worker", "One worker.")
PIECE_MS = 20  # of a wait on the main thread, where Ctrl-C ends it between two of them
OPTIONS = (
    "idempotent", "once", "pure", "version", "group", "key", "start", "run", "total", "retries",
    "crash_retries", "exhausted_retries",
)  # fmt: skip
CLAIM_MS = 250  # the same, of the wait for the term, which takes a few round trips
BATCH = 1024  # closures that are admitted together
ORPHANS = 1024  # so many closures without a handle are kept before those that have ended go
QUIET = 4  # a look at all pending closures takes at most one part in so many of the time


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why a closure has no value: struct muster_failure."""

    origin: Any
    code: int
    worker: Optional[int]
    attempt: int
    incarnation: int
    closure: int
    text: str
    state_server: str
    cause: "Optional[Failure]"


class ClosureError(Failed):
    """A closure has no value, and no exception of its function. `failure` says why."""

    __module__ = "muster.cluster"
    failure: Optional[Failure] = None


class ClosureInputError(ClosureError):
    """A per-worker value that the closure needs could not be built: `original_exception` says why."""

    __module__ = "muster.cluster"

    @property
    def original_exception(self) -> Optional[BaseException]:
        """What building the value raised."""
        return self.__cause__


class WorkerLostError(ClosureError):
    """Its worker ended, or was lost, and it must not run again (`once`), or has cost too many."""

    __module__ = "muster.cluster"


class DeadlineError(ClosureError, TimeoutError):
    """One of its time limits is over."""

    __module__ = "muster.cluster"


class ClosureAbortedError(Cancelled):
    """It was cancelled: by a call, or because another closure of its series failed."""

    __module__ = "muster.cluster"
    failure: Optional[Failure] = None


class PSUnavailableError(StateServer):
    """A state server failed: `failure.state_server`."""

    __module__ = "muster.cluster"
    failure: Optional[Failure] = None


CLASSES: Dict[int, Type[Error]] = {
    lib.MUSTER_ORIGIN_INPUT: ClosureInputError,
    lib.MUSTER_ORIGIN_STATE: PSUnavailableError,
    lib.MUSTER_ORIGIN_CANCELLED: ClosureAbortedError,
    lib.MUSTER_ORIGIN_DEADLINE: DeadlineError,
    lib.MUSTER_ORIGIN_CRASH: WorkerLostError,
    lib.MUSTER_ORIGIN_LOST: WorkerLostError,
    lib.MUSTER_ORIGIN_POISON: WorkerLostError,
}
OF_FUNCTION = (lib.MUSTER_ORIGIN_FUNCTION, lib.MUSTER_ORIGIN_RETRYABLE)


def _failure_of(struct: Any) -> Failure:
    known = struct.origin in Origin.__members__.values()
    return Failure(
        Origin(struct.origin) if known else struct.origin,
        struct.code,
        None if struct.worker == lib.MUSTER_WORKER_NONE else struct.worker,
        struct.attempt,
        struct.incarnation,
        struct.closure,
        text_of(struct.text) or "",
        text_of(struct.state_server) or "",
        _failure_of(struct.cause) if struct.cause else None,
    )


def _error_text(err: Any) -> str:
    return str(ffi.string(err.text).decode(errors="replace"))


def _raised(status: int, text: str, failure: Optional[Failure], parts: Sequence[bytes]) -> BaseException:
    """What a closure that failed raises: what its function did, or an error of ours."""
    raised = pickled.exception_of_parts(parts)
    origin = lib.MUSTER_ORIGIN_NONE if failure is None else failure.origin
    if raised is not None and origin in OF_FUNCTION:
        if hasattr(raised, "add_note"):
            raised.add_note(text)
        return raised
    other: Type[Error] = type(error_of(status))
    if status == lib.MUSTER_EFAILED:
        other = ClosureError
    kind = CLASSES.get(origin, other)
    made: BaseException = kind(text, Status(status))
    if failure is not None:
        setattr(made, "failure", failure)
    made.__cause__ = raised
    return made


def _pieces(
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


# ---- values ----

PENDING, VALUE, FAILED = range(3)


class RemoteValue:
    """The result of a closure: what Coordinator.schedule returns. It may be awaited."""

    __slots__ = ("_coordinator", "_closure", "_state", "_outcome", "_lent", "__weakref__")

    def __init__(self, coordinator: "Coordinator", closure: Any) -> None:
        self._coordinator = coordinator
        self._closure = closure
        self._state = PENDING
        self._outcome: Any = None
        self._lent = False  # its memory is that of arrays in the value

    def __del__(self) -> None:
        if not self._lent:
            self._coordinator._leave(self._closure, self._state)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a RemoteValue cannot be an argument of a closure: fetch it, and pass its value")

    def __repr__(self) -> str:
        return f"<RemoteValue of closure {lib.muster_closure_number(self._closure)}>"

    def fetch(self, timeout: Optional[float] = None) -> Any:
        """Waits for the value and returns it, or raises what the function raised. muster.Timeout: it
        has not ended yet."""
        if self._state == PENDING:
            self._settle(timeout)
        if self._state == FAILED:
            raise self._outcome
        return self._outcome

    get = fetch

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        """Waits for the end; what fetch would raise, or None."""
        if self._state == PENDING:
            self._settle(timeout)
        return self._outcome if self._state == FAILED else None

    def done(self) -> bool:
        """Whether it has ended, in whichever way."""
        return self._state != PENDING or bool(lib.muster_python_ended(self._closure))

    def cancel(self) -> None:
        """Asks for its end, and does not wait. One that has ended stays as it is."""
        lib.muster_closure_cancel(self._closure)

    @property
    def number(self) -> int:
        """From 1, in the order of admission."""
        return int(lib.muster_closure_number(self._closure))

    def progress(self) -> Tuple[str, Optional[float], str]:
        """(its state, the fraction that the function reported last or None, its text)."""
        out = ffi.new("struct muster_closure_progress *")
        lib.muster_closure_look(self._closure, out)
        names = ("", "queued", "running", "value", "failed")
        return names[out.state], None if out.fraction < 0 else out.fraction, text_of(out.text) or ""

    def add_done_callback(self, callback: "Callable[[RemoteValue], object]") -> None:
        """callback(this) when it has ended: on a thread of the coordinator, or now."""
        self._coordinator._watch(self, callback)

    def __await__(self) -> Generator[Any, None, Any]:
        return self._ended().__await__()

    async def _ended(self) -> Any:
        import asyncio  # the one who awaits has it

        loop = asyncio.get_running_loop()
        future: "asyncio.Future[None]" = loop.create_future()

        def wake() -> None:
            if not future.done():
                future.set_result(None)

        def tell(_: RemoteValue) -> None:
            try:
                loop.call_soon_threadsafe(wake)
            except RuntimeError:  # the loop is closed: nobody waits
                pass

        self.add_done_callback(tell)
        try:
            await future
        except asyncio.CancelledError:
            self.cancel()
            raise
        return self.fetch(0)

    # ---- its end ----

    def _settle(self, timeout: Optional[float]) -> None:
        out, err = ffi.new("struct muster_python_value *"), ffi.new("struct muster_error *")
        closure = self._closure
        if on_main_thread():
            status = _pieces(lambda ms: lib.muster_python_fetch(closure, ms, out, err), timeout)
        else:
            status = lib.muster_python_fetch(closure, milliseconds(timeout), out, err)
        self._settled(status, out, err)

    def _settled(self, status: int, out: Any, err: Any) -> None:
        """What C said becomes the outcome, once. What is unpickled runs code of its own, without a lock."""
        if status == lib.MUSTER_OK:
            state, outcome = self._read(out)
        else:
            state, outcome = FAILED, self._read_failure(status, out, err)
        with self._coordinator._lock:
            if self._state == PENDING:
                self._state, self._outcome = state, outcome

    def _read(self, out: Any) -> Tuple[int, Any]:
        try:
            return VALUE, self._value(out)
        except Exception as why:  # its class is not here, or whatever that raises
            failure = RemoteError(f"a value that cannot be read here: {why!r}")
            failure.__cause__ = why
            return FAILED, failure

    def _value(self, out: Any) -> Any:
        if out.count == 1 and out.type == PICKLE:
            return pickle.loads(ffi.buffer(out.data, out.size))
        if out.count == 0:
            return None
        if out.type == PICKLE:
            return self._with_buffers(out)
        parts = [pickled.bytes_of_part(out.parts[i]) for i in range(out.count)]
        return parts[0] if len(parts) == 1 else parts

    def _with_buffers(self, out: Any) -> Any:
        """Arrays in the value are the memory of the result itself: it lives as long as they do."""
        with self._coordinator._lock:
            if not self._lent:
                self._closure, self._lent = ffi.gc(self._closure, lib.muster_closure_release), True
            kept = self._closure

        def view(part: Any) -> Any:
            return ffi.buffer(ffi.gc(ffi.cast("char *", part.data), lambda _, kept=kept: None), part.size)

        views = [view(out.parts[i]) for i in range(1, out.count)]
        return pickle.loads(ffi.buffer(out.data, out.size), buffers=views)

    def _read_failure(self, status: int, out: Any, err: Any) -> BaseException:
        struct = ffi.new("struct muster_failure *")
        text = _error_text(err)
        if not lib.muster_closure_failure(self._closure, struct):
            if status == lib.MUSTER_ECANCELLED and self._coordinator._closed:
                return ClosureAbortedError(text, Status(status))
            check(status, err)  # of the call: it has not ended
        parts = [
            pickled.bytes_of_part(out.parts[i])
            for i in range(out.count)
            if out.parts[i].type == lib.MUSTER_PART_ERROR
        ]
        return _raised(status, text, _failure_of(struct), parts)


class PerWorkerValue:
    """A value on each worker. As an argument of a closure, at any depth, it is the one of the worker
    that runs the closure."""

    def __init__(self, coordinator: "Coordinator", value: Any) -> None:
        self._coordinator = coordinator
        self._value = ffi.gc(value, lib.muster_per_worker_drop)

    def __reduce__(self) -> Any:
        needs = local.needs
        if needs is None:
            raise TypeError("a per-worker value can only be an argument of a closure")
        if self not in needs:
            needs.append(self)
        return pickled.need, (needs.index(self),)

    def wait(self, worker: int, timeout: Optional[float] = None) -> None:
        """Waits until it is built on the worker of that number; does not start that. Raises what its
        function raised there; muster.Lost: the worker is away."""
        parts, count = ffi.new("const struct muster_part **"), ffi.new("size_t *")
        err = ffi.new("struct muster_error *")
        status = _pieces(
            lambda ms: lib.muster_per_worker_fetch(self._value, worker, ms, parts, count, err), timeout
        )
        if status == lib.MUSTER_EFAILED:
            listed = [pickled.bytes_of_part(parts[0][i]) for i in range(count[0])]
            raise pickled.exception_of_parts(listed) or ClosureError(_error_text(err), Status(status))
        check(status, err)


PerWorkerValues = PerWorkerValue  # the reference's name


class PerWorkerIterator(PerWorkerValue):
    """An iterator on each worker: next() is for the functions that it is passed to."""

    def __iter__(self) -> "PerWorkerIterator":
        return self

    def __next__(self) -> NoReturn:
        raise TypeError("the iterator is on the workers: pass it to a closure, which calls next()")


class PerWorkerDataset:
    """What create_per_worker_dataset returns: each iter() of it is a new PerWorkerIterator, which
    begins at the beginning."""

    def __init__(self, coordinator: "Coordinator", dataset: Any) -> None:
        self._coordinator = coordinator
        self._dataset = ffi.gc(dataset, lib.muster_dataset_drop)

    def __iter__(self) -> PerWorkerIterator:
        out, err = ffi.new("muster_per_worker **"), ffi.new("struct muster_error *")
        check(lib.muster_dataset_iterate(self._dataset, out, err), err)
        return PerWorkerIterator(self._coordinator, out[0])


def fetch(structure: Any, timeout: Optional[float] = None) -> Any:
    """As Coordinator.fetch."""
    values: List[RemoteValue] = []
    _each(structure, values.append)
    pending = [value for value in values if value._state == PENDING]
    end = None if timeout is None else time.monotonic() + timeout
    if len(pending) > 1:
        _await_all(pending, end)
    return _each(structure, lambda value: value.fetch(None if end is None else max(0.0, end - time.monotonic())))


def _await_all(values: List[RemoteValue], end: Optional[float]) -> None:
    """Until all have ended, or some call of a closure will say why not."""
    several: Dict[int, List[Any]] = {}
    for value in values:
        several.setdefault(id(value._coordinator), []).append(value._closure)
    for closures in several.values():
        listed, err = ffi.new("muster_closure *[]", closures), ffi.new("struct muster_error *")
        left = None if end is None else max(0.0, end - time.monotonic())
        _pieces(
            lambda ms: lib.muster_closure_fetch_many(listed, len(closures), ms, ffi.NULL, err), left
        )


def _each(structure: Any, function: Callable[[RemoteValue], Any]) -> Any:
    """The structure with function(value) instead of each RemoteValue in it."""
    if isinstance(structure, RemoteValue):
        return function(structure)
    # Lists, not generators: these would turn a StopIteration of a function into another error.
    if isinstance(structure, dict):
        made = copy.copy(structure)  # with what it has besides: a default
        for key, value in structure.items():
            made[key] = _each(value, function)
        return made
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*[_each(value, function) for value in structure])
    if isinstance(structure, (list, tuple, set, frozenset)):
        return type(structure)([_each(value, function) for value in structure])
    return structure


def as_completed(
    values: Iterable[RemoteValue], timeout: Optional[float] = None
) -> Iterator[RemoteValue]:
    """The values in the order in which they end. muster.Timeout: not all have ended by then."""
    ended: "queue.SimpleQueue[RemoteValue]" = queue.SimpleQueue()
    end = None if timeout is None else time.monotonic() + timeout
    count = 0
    for value in values:
        value.add_done_callback(ended.put)
        count += 1
    for left in range(count, 0, -1):
        try:
            yield ended.get(timeout=None if end is None else max(0.0, end - time.monotonic()))
        except queue.Empty:
            text = f"as_completed: {left} of {count} closures have not ended in time"
            raise Timeout(text, Status.ETIMEDOUT) from None


# ---- the end of closures, told to callbacks ----


class _Watcher:
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
            _call_back(callback, value)

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
            if len(self.pending) > BATCH:
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
            _call_back(callback, value, BaseException)  # the thread has others to call

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
            _call_back(callback, value)
        os.close(self.stop_read)
        os.close(self.stop_write)


def _call_back(
    callback: Callable[[RemoteValue], object],
    value: RemoteValue,
    caught: Type[BaseException] = Exception,
) -> None:
    try:
        callback(value)
    except caught:
        logging.getLogger("muster").exception("a callback of a closure has raised")


# ---- the coordinator ----


class _Target:
    """What C is told of a function: its name, its options, and how its arguments become parts."""

    __slots__ = ("name", "options", "kept", "raw", "code", "text")

    def __init__(self, name: str, version: int, raw: bool, code: Optional[bytes]) -> None:
        self.text = name
        self.name = string_of(name)
        self.raw = raw
        self.code = code
        self.kept: List[Any] = []
        self.options = ffi.NULL
        if version:
            self.options, self.kept = options_of(lib.muster_closure_options_init, {}, "schedule")
            self.options.version = version

    def value_of(self, args: Any, kwargs: Any) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
        given = () if args is None else tuple(args)
        named = {} if kwargs is None else kwargs
        return (given, named) if self.code is None else ((self.code, given, named), {})


class Coordinator:
    """Becomes the coordinator of a cluster. A context manager that closes it.

    job: a muster.Job; None: opened here with role "worker", and closed with the coordinator. code:
    functions that are not declared are sent by cloudpickle, to workers that accept it. timeout: of
    the wait until there is no other coordinator. Options are those of struct muster_cluster_options
    by name, durations in seconds: name, policy ("fail_fast", "collect", "isolate"), queue_limit,
    min_workers, poison, prefetch, transient_limit, recovery_max, cancel_grace, series_grace,
    start_delay, unknown_grace, watchdog, listen."""

    def __init__(
        self, job: Any = None, *, code: bool = False, timeout: Optional[float] = None, **options: Any
    ) -> None:
        given, kept = options_of(lib.muster_cluster_options_init, options, "Coordinator")
        self._lock = threading.RLock()
        self._code = code
        self._targets: Dict[Any, _Target] = {}
        self._orphans: List[Any] = []
        self._values: List["weakref.ref[RemoteValue]"] = []
        self._values_max = BATCH
        self._clearing = threading.Lock()
        self._due: Optional[BaseException] = None
        self._watcher: Optional[_Watcher] = None
        self._own = _job.open(role="worker", timeout=timeout) if job is None else None
        self._job = self._own or job
        self._isolates = given.policy == lib.MUSTER_CLUSTER_ISOLATE
        self._closed = False
        try:
            self._cluster = self._open(given, timeout)
        except BaseException:
            if self._own is not None:
                self._own.close()
            raise
        del kept[:]
        self._memory = self._hold()
        _coordinators.add(self)
        self._job._before_close.append(weakref.WeakMethod(self.close))

    def _open(self, given: Any, timeout: Optional[float]) -> Any:
        out, err = ffi.new("muster_cluster **"), ffi.new("struct muster_error *")
        with self._job._handle as client:
            check(
                _pieces(
                    lambda ms: lib.muster_cluster_open(out, client, given, ms, err), timeout, CLAIM_MS
                ),
                err,
            )
        return out[0]

    def _hold(self) -> Any:
        """Calls of a closed coordinator end with ECANCELLED, for this keeps its memory."""
        out, err = ffi.new("muster_dataset **"), ffi.new("struct muster_error *")
        status = lib.muster_cluster_dataset(
            self._cluster, b"-", ffi.NULL, 0, ffi.NULL, out, err
        )
        check(status, err)
        return ffi.gc(out[0], lib.muster_dataset_drop)

    def __enter__(self) -> "Coordinator":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Cancels all closures and releases the workers, which wait for the next coordinator; see
        dismiss. Values that were fetched stay. Closing again does nothing."""
        with self._lock:
            closed, self._closed = self._closed, True
            watcher = self._watcher
        if closed:
            return
        if watcher is not None:
            watcher.stop()
        lib.muster_cluster_close(self._cluster)
        if watcher is not None:
            watcher.finish()
        for closure in self._orphans:
            lib.muster_closure_release(closure)
        self._orphans = []
        if self._own is not None:
            self._own.close()

    # ---- scheduling ----

    def _target(self, fn: Any, raw: bool = False) -> _Target:
        """Of what is sent none is kept: the next one may hold other values."""
        if not isinstance(fn, str) and getattr(fn, MARK, None) is None:
            return self._make_target(fn, raw)
        known = self._targets.get((fn, raw) if raw else fn)
        if known is None:
            known = self._targets[(fn, raw) if raw else fn] = self._make_target(fn, raw)
        return known

    def _make_target(self, fn: Any, raw: bool) -> _Target:
        if isinstance(fn, str):
            return _Target(fn, 0, raw, None)
        mark: Optional[Function] = getattr(fn, MARK, None)
        if mark is not None:
            return _Target(mark.name, mark.version, mark.raw, None)
        if not callable(fn):
            raise TypeError(f"schedule: a function or the name of one is expected, not {fn!r}")
        name = getattr(fn, "__qualname__", repr(fn))
        if not self._code:
            raise pickled.invalid(
                f"schedule: {name} is not declared: decorate it with @muster.worker.function in a "
                "module that the workers load, or use Coordinator(code=True) to send it"
            )
        return _Target(pickled.CALL, 0, False, _code_of(fn, name))

    def _parts(self, target: _Target, args: Any, kwargs: Any) -> Tuple[Any, List[Any], List[Any]]:
        """(the first part or None, what is beside it, per-worker values)"""
        if target.raw:
            return self._raw_parts(target, args, kwargs)
        needs: List[PerWorkerValue] = []
        local.needs = needs
        try:
            data, buffers = pickled.dumps(target.value_of(args, kwargs))
        except Exception as why:
            raise self._unpicklable(target, args, kwargs, why) from why
        finally:
            local.needs = None
        return data, buffers, needs

    @staticmethod
    def _raw_parts(target: _Target, args: Any, kwargs: Any) -> Tuple[Any, List[Any], List[Any]]:
        given = list(args or ())
        if kwargs or not all(isinstance(one, (bytes, bytearray, memoryview)) for one in given):
            raise TypeError(f"schedule: {target.text!r} takes bytes, and no arguments by name")
        return (given[0] if given else None), given[1:], []

    @staticmethod
    def _unpicklable(target: _Target, args: Any, kwargs: Any, why: BaseException) -> BaseException:
        """Which argument it is, in one line."""
        listed = [*enumerate(args or (), 1), *(kwargs or {}).items()]
        for place, value in listed:
            local.needs = []
            try:
                pickled.dumps(value)
            except Exception as failure:
                return TypeError(f"schedule: argument {place} of {target.text!r} cannot be pickled: {failure}")
            finally:
                local.needs = None
        return TypeError(f"schedule: the arguments of {target.text!r} cannot be pickled: {why}")

    def schedule(
        self,
        fn: Any,
        args: Optional[Sequence[Any]] = None,
        kwargs: Optional[Dict[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        raw: bool = False,
        **options: Any,
    ) -> RemoteValue:
        """Admits a call of fn(*args, **kwargs) on some worker. fn: a declared function, the name of
        one, or with Coordinator(code=True) any function. Waits while the queue is full. Raises the
        failure of an earlier closure, if one is due: then nothing was admitted. raw: fn is the name of
        a command, or of a function of a worker in C: its arguments and its result are bytes.

        Options: idempotent, once, pure (bools), version, group (an int, for cancel), key, start, run
        and total (time limits in seconds), retries (after Retry), crash_retries, exhausted_retries."""
        if self._due is not None:
            self._raise_due()
        return self._schedule(self._target(fn, raw), args, kwargs, timeout, options)

    def _schedule(
        self, target: _Target, args: Any, kwargs: Any, timeout: Optional[float], options: Dict[str, Any]
    ) -> RemoteValue:
        data, buffers, needs = self._parts(target, args, kwargs)
        out, err = ffi.new("muster_closure **"), ffi.new("struct muster_error *")
        if options or needs:
            given, kept = self._options(target, options, needs)
        else:
            given, kept = target.options, target.kept
        call = self._call_of_parts(target, given, data, buffers, out, err)
        admitted: List[RemoteValue] = []

        def admit(ms: int) -> int:
            # One that fails at once is looked for under this lock, when it is listed.
            with self._lock:
                status = call(ms)
                if status >= 0:
                    admitted.append(self._admitted(out[0]))
            return status

        status = admit(0)
        if status == lib.MUSTER_ELIMIT or status == lib.MUSTER_ETIMEDOUT:
            status = _pieces(admit, timeout, always=True)
        if status < 0:
            self._fail(status, err)
        return admitted[0]

    def _call_of_parts(
        self, target: _Target, given: Any, data: Any, buffers: List[Any], out: Any, err: Any
    ) -> Callable[[int], int]:
        if not buffers and data is not None:
            kind = RAW if target.raw else PICKLE
            return lambda ms: lib.muster_python_schedule_one(
                self._cluster, target.name, given, data, len(data), kind, ms, out, err
            )
        kinds = (RAW, RAW) if target.raw else (PICKLE, BUFFER)
        first = [] if data is None else [pickled.part_of(data, kinds[0])]
        made = [*first, *(pickled.part_of(one, kinds[1]) for one in buffers)]
        parts = ffi.new("struct muster_part[]", [part for part, _ in made])

        def call(ms: int) -> int:
            count = len(made)  # it keeps what the parts borrow
            return lib.muster_cluster_schedule(
                self._cluster, target.name, parts, count, given, ms, out, err
            )

        return call

    @staticmethod
    def _options(target: _Target, options: Dict[str, Any], needs: List[PerWorkerValue]) -> Tuple[Any, List[Any]]:
        unknown = options.keys() - OPTIONS
        if unknown:
            raise TypeError(f"schedule has no option {unknown.pop()!r}; it has {', '.join(OPTIONS)}")
        named = {"error_retries" if name == "retries" else name: one for name, one in options.items()}
        version = named.pop("version", None) or (target.options.version if target.options else 0)
        given, kept = options_of(lib.muster_closure_options_init, named, "schedule")
        given.version = version
        if needs:
            listed = ffi.new("muster_per_worker *[]", [value._value for value in needs])
            kept += [listed, needs]
            given.needs, given.need_count = listed, len(needs)
        return given, kept

    def _admitted(self, closure: Any) -> RemoteValue:
        value = RemoteValue(self, closure)
        if not self._isolates:
            self._values.append(weakref.ref(value))
            if len(self._values) > self._values_max:
                self._forget_values()
        return value

    def _forget_values(self) -> None:
        with self._lock:
            kept = []
            for one in self._values:
                value = one()
                if value is None or value._state == VALUE:
                    continue
                if not lib.muster_python_has_value(value._closure):
                    kept.append(one)  # it may fail, or has failed and that was not raised yet
            self._values = kept
            self._values_max = 2 * len(kept) + BATCH

    def map(
        self,
        fn: Any,
        *iterables: Iterable[Any],
        timeout: Optional[float] = None,
        raw: bool = False,
        **options: Any,
    ) -> List[RemoteValue]:
        """schedule(fn, args) for the args of zip(*iterables), admitted in batches. The options are
        those of schedule. Raises a failure of an earlier closure as schedule does; those that were
        admitted before it are cancelled with their series."""
        if self._due is not None:
            self._raise_due()
        target = self._target(fn, raw)
        end = None if timeout is None else time.monotonic() + timeout
        given, kept = self._options(target, options, []) if options else (target.options, target.kept)
        calls = zip(*iterables)
        values: List[RemoteValue] = []
        while True:
            some = list(itertools.islice(calls, BATCH))
            if not some:
                return values
            values += self._map_batch(target, given, options, some, end)

    schedule_many = map

    def _map_batch(
        self, target: _Target, given: Any, options: Dict[str, Any], some: List[Tuple[Any, ...]],
        end: Optional[float],
    ) -> List[RemoteValue]:
        made: List[bytes] = []
        for args in some:
            data, buffers, needs = self._parts(target, args, None)
            if buffers or needs or data is None:  # one of many parts is one of its own
                left = None if end is None else max(0.0, end - time.monotonic())
                return [self._schedule(target, args, None, left, options) for args in some]
            made.append(data)
        sizes = array.array("I", map(len, made))
        joined = b"".join(made)
        out = ffi.new("muster_closure *[]", len(made))
        admitted, err = ffi.new("size_t *"), ffi.new("struct muster_error *")
        counts = ffi.from_buffer("uint32_t[]", sizes)
        values: List[RemoteValue] = []
        kind = RAW if target.raw else PICKLE

        def admit(ms: int) -> int:
            at = len(values)
            skipped = sum(sizes[:at]) if at else 0
            with self._lock:
                status = lib.muster_python_schedule(
                    self._cluster, target.name, given, ffi.from_buffer(joined) + skipped, counts + at,
                    kind, len(made) - at, ms, out, admitted, err,
                )
                values.extend(map(self._admitted, out[0 : admitted[0]]))
            return int(status)

        left = None if end is None else max(0.0, end - time.monotonic())
        status = _pieces(admit, left, always=True)
        if status < 0:
            self._fail(status, err)
        return values

    # ---- its end ----

    def join(self, timeout: Optional[float] = None) -> None:
        """Waits until all closures that were admitted before this call have ended. Raises the failure
        of one, as its function raised it, and then none of its series runs any more."""
        if self._due is not None:
            self._raise_due()

        def ask(ms: int) -> Tuple[int, Any]:
            err = ffi.new("struct muster_error *")
            return lib.muster_cluster_join(self._cluster, ms, err), err

        if not on_main_thread():
            status, err = ask(milliseconds(timeout))
        else:
            end = None if timeout is None else time.monotonic() + timeout
            first = PIECE_MS if timeout is None else min(PIECE_MS, milliseconds(timeout))
            status, err = ask(first)
            if status == lib.MUSTER_ETIMEDOUT and (end is None or time.monotonic() < end):
                # What is admitted meanwhile does not count, so it is one call of C.
                left = None if end is None else max(0.0, end - time.monotonic())
                status, err = Beside(lambda: ask(milliseconds(left)), self._left_early).wait()
        if status < 0:
            self._fail(status, err)
        self._taken_elsewhere()
        self._over()

    def _taken_elsewhere(self) -> None:
        """The thread that calls back may have taken the failure that ended a wait."""
        with self._clearing:
            pass
        if self._due is not None:
            self._raise_due()

    def _left_early(self, said: Tuple[int, Any]) -> None:
        """A join that Ctrl-C has ended takes a failure: the next call has it."""
        self._take_due(*said)

    def _over(self) -> None:
        with self._lock:
            orphans, self._orphans = self._orphans, []
        self._release(orphans, lib.muster_python_ended)

    def done(self) -> bool:
        """Whether all closures have ended. Raises a failure as join does."""
        if self._due is not None:
            self._raise_due()
        out, err = ffi.new("bool *"), ffi.new("struct muster_error *")
        status = lib.muster_cluster_done(self._cluster, out, err)
        if status < 0:
            self._fail(status, err)
        self._taken_elsewhere()
        return bool(out[0])

    def fetch(self, structure: Any, timeout: Optional[float] = None) -> Any:
        """The structure (lists, tuples, dicts) with the values of the RemoteValues in it. Waits for
        them; raises what the first failed one raises."""
        return fetch(structure, timeout)

    def cancel(self, group: Optional[int] = None) -> None:
        """Cancels all closures, or those of a group. Does not wait."""
        if group is None:
            lib.muster_cluster_cancel_all(self._cluster)
        else:
            lib.muster_cluster_cancel_group(self._cluster, group)

    def failures(self) -> List[Failure]:
        """The failures behind the last one that was raised by schedule, join or done: the first 64."""
        return list(self._failures)

    _failures: List[Failure] = []

    # ---- failures ----

    def _raise_due(self) -> None:
        with self._lock:
            due, self._due = self._due, None
        if due is not None:
            raise due

    def _fail(self, status: int, err: Any) -> NoReturn:
        if status in (lib.MUSTER_EFAILED, lib.MUSTER_ESTATE):
            raise self._delivered(status, err)
        check(status, err)
        raise AssertionError(status)

    def _delivered(self, status: int, err: Any) -> BaseException:
        """The exception of a failure that C has delivered: of the closure itself, if it is still known."""
        taken = lib.muster_cluster_failures(self._cluster)
        if not taken:
            return error_of(status, _error_text(err))
        self._failures = [_failure_of(taken.items[i]) for i in range(taken.kept)]
        lib.muster_failures_free(taken)
        first = self._failures[0]
        value = self._value_of(first.closure)
        self._over()
        known = value.exception(0) if value is not None else None
        return known or _raised(status, _error_text(err), first, [])

    def _value_of(self, number: int) -> Optional[RemoteValue]:
        with self._lock:
            for one in self._values:
                value = one()
                if value is not None and lib.muster_closure_number(value._closure) == number:
                    return value
            # Taken out: whatever is collected meanwhile may release those that are in the list.
            orphans, self._orphans = self._orphans, []
            found = [one for one in orphans if lib.muster_closure_number(one) == number]
            self._orphans += [one for one in orphans if one not in found]
            return RemoteValue(self, found[0]) if found else None

    def _leave(self, closure: Any, state: int) -> None:
        """Nobody has its RemoteValue any more. Its exception is wanted all the same."""
        if state == VALUE or self._isolates or self._closed:
            lib.muster_closure_release(closure)
            return
        self._orphans.append(closure)
        if len(self._orphans) >= self._orphans_max:
            with self._lock:
                orphans, self._orphans = self._orphans, []
            self._release(orphans, lib.muster_python_has_value)

    _orphans_max = ORPHANS

    def _release(self, closures: List[Any], when: Callable[[Any], bool]) -> None:
        kept = []
        for closure in closures:
            if when(closure):
                lib.muster_closure_release(closure)
            else:
                kept.append(closure)
        with self._lock:
            self._orphans += kept
            self._orphans_max = 2 * len(self._orphans) + ORPHANS

    # ---- callbacks ----

    def _watch(self, value: RemoteValue, callback: Callable[[RemoteValue], object]) -> None:
        with self._lock:
            if self._watcher is None and not self._closed:
                self._watcher = _Watcher(self)
            watcher = None if self._closed else self._watcher
        if watcher is None:
            _call_back(callback, value)
        else:
            watcher.add(value, callback)

    def _clear(self) -> None:
        """Puts the descriptor down. A failure that is taken with that is due at the next call."""
        out, err = ffi.new("bool *"), ffi.new("struct muster_error *")
        with self._clearing:
            status = lib.muster_cluster_done(self._cluster, out, err)
            self._take_due(status, err)

    def _take_due(self, status: int, err: Any) -> None:
        if status in (lib.MUSTER_EFAILED, lib.MUSTER_ESTATE):
            due = self._delivered(status, err)
            with self._lock:
                self._due = self._due or due

    # ---- per-worker values ----

    def create_per_worker_dataset(
        self,
        fn: Any,
        args: Optional[Sequence[Any]] = None,
        kwargs: Optional[Dict[str, Any]] = None,
        *,
        eager: bool = False,
    ) -> PerWorkerDataset:
        """fn(*args, **kwargs) makes an iterable on each worker. iter() of what is returned is an
        iterator there, to be passed to closures; each iter() begins anew."""
        out, err = ffi.new("muster_dataset **"), ffi.new("struct muster_error *")
        self._build(lib.muster_cluster_dataset, fn, args, kwargs, eager, ITERATE, out, err)
        return PerWorkerDataset(self, out[0])

    def create_per_worker_value(
        self,
        fn: Any,
        args: Optional[Sequence[Any]] = None,
        kwargs: Optional[Dict[str, Any]] = None,
        *,
        eager: bool = False,
    ) -> PerWorkerValue:
        """fn(*args, **kwargs) makes a value on each worker, once, and again on a new process. eager:
        as soon as a worker is there, else before the first closure that needs it."""
        out, err = ffi.new("muster_per_worker **"), ffi.new("struct muster_error *")
        self._build(lib.muster_cluster_per_worker, fn, args, kwargs, eager, BUILD, out, err)
        return PerWorkerValue(self, out[0])

    create_per_worker_resource = create_per_worker_value

    def _build(
        self, call: Any, fn: Any, args: Any, kwargs: Any, eager: bool, kind: int, out: Any, err: Any
    ) -> None:
        target = self._target(fn)
        if target.raw:
            raise TypeError(f"{target.text!r} takes bytes: a per-worker value is built of a pickle")
        data, buffers, needs = self._parts(target, args, kwargs)
        if needs:
            raise TypeError("a per-worker value cannot be an argument of another one's function")
        made = [pickled.part_of(data, kind), *(pickled.part_of(one, BUFFER) for one in buffers)]
        parts = ffi.new("struct muster_part[]", [part for part, _ in made])
        given, kept = options_of(
            lib.muster_per_worker_options_init, {"eager": eager}, "create_per_worker_value"
        )
        given.version = target.options.version if target.options else 0
        check(call(self._cluster, target.name, parts, len(made), given, out, err), err)

    # ---- state, and the end of the work ----

    def state_server(self, name: str) -> None:
        """Registers a process that functions depend on: see muster.worker.StateServerFailed."""
        err = ffi.new("struct muster_error *")
        check(lib.muster_cluster_state_server(self._cluster, string_of(name), err), err)

    def counts(self) -> Any:
        """Counts: queued, running, values, failures, workers_present, ... Costs no round trip."""
        out = ffi.new("struct muster_cluster_counts *", lib.muster_cluster_counts_init())
        lib.muster_cluster_look(self._cluster, out)
        return _counts_of(out)

    def workers(self) -> List[Any]:
        """[WorkerInfo] of every worker that was ever there, by its number."""
        out = ffi.new("struct muster_cluster_worker *")
        listed: List[Any] = []
        while True:
            out.size = ffi.sizeof("struct muster_cluster_worker")
            if not lib.muster_cluster_look_worker(self._cluster, len(listed), out):
                return listed
            listed.append(_worker_of(out))

    def drain_worker(self, number: int) -> None:
        """The worker takes nothing new, finishes what it runs, and leaves."""
        err = ffi.new("struct muster_error *")
        check(lib.muster_cluster_drain_worker(self._cluster, number, err), err)

    def drain(self, timeout: Optional[float] = None) -> None:
        """Admits nothing more, and waits until all has ended."""
        self._end(lib.muster_cluster_drain, timeout)

    def dismiss(self, timeout: Optional[float] = None) -> None:
        """The work of this job is done: drains, and ends all workers, also those that come later."""
        self._end(lib.muster_cluster_dismiss, timeout)

    def _end(self, call: Callable[..., int], timeout: Optional[float]) -> None:
        if self._due is not None:
            self._raise_due()
        err = ffi.new("struct muster_error *")
        status = _pieces(lambda ms: call(self._cluster, ms, err), timeout)
        if status < 0:
            self._fail(status, err)

    @property
    def dismissed(self) -> bool:
        """Whether the work was done already: by a coordinator that was killed after its dismiss."""
        return bool(lib.muster_cluster_dismissed(self._cluster))


ClusterCoordinator = Coordinator
_coordinators: "weakref.WeakSet[Coordinator]" = weakref.WeakSet()  # open, or not collected yet


def _in_child() -> None:
    """A coordinator is dead there: what it shares with its parent is its parent's, and no thread is
    there to let go of a lock."""
    for coordinator in _coordinators:
        coordinator._lock = threading.RLock()
        coordinator._clearing = threading.Lock()
        coordinator._watcher = None
        coordinator._orphans = []
        coordinator._closed = True
    for executor in _executors:
        executor._mutex = threading.Lock()
        executor._futures = weakref.WeakSet()
        executor._shut = True
    _executors.clear()


os.register_at_fork(after_in_child=_in_child)


def _code_of(fn: Any, name: str) -> bytes:
    try:
        cloudpickle = importlib.import_module("cloudpickle")
    except ImportError as why:
        raise pickled.invalid(f"schedule: to send {name}, cloudpickle is needed: install it", why)
    try:
        return bytes(cloudpickle.dumps(fn, pickled.PROTOCOL))
    except Exception as why:
        raise TypeError(f"schedule: {name} cannot be sent: {why}") from why


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


def _at_exit() -> None:
    """As the standard library's: a program ends when all that it has submitted has."""
    for executor in list(_executors):
        executor.shutdown()


atexit.register(_at_exit)
