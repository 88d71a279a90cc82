# SPDX-License-Identifier: Apache-2.0
"""The coordinator: admits closures, waits for them, and delivers their failures."""

import array
import atexit
import itertools
import logging
import os
import sys
import threading
import time
import weakref
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    NoReturn,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from .. import _job
from .. import _pickled as pickled
from .._c import milliseconds, options_of, string_of
from .._errors import Cancelled, Status, check, error_of
from .._muster import ffi, lib
from .._pickled import BUFFER, BUILD, ITERATE, PICKLE, RAW
from .._wait import Beside, on_main_thread
from ..worker import MARK
from ._calls import Prepared, Target, options_for, parts_of, target_of
from ._failures import Failure, error_text, failure_of, raised_of
from ._per_worker import PerWorkerDataset, PerWorkerValue
from ._pieces import PIECE_MS, in_pieces
from ._records import counts_of, worker_of
from ._values import VALUE, RemoteValue, fetch
from ._watcher import Watcher, call_back

CLAIM_MS = 250  # a piece of the wait for the term, which takes a few round trips
BATCH = 1024  # closures that are admitted together
ORPHANS = 1024  # so many closures without a handle are kept before those that have ended go


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
        self._targets: Dict[Any, Target] = {}
        self._orphans: List[Any] = []
        self._values: List["weakref.ref[RemoteValue]"] = []
        self._values_max = BATCH
        self._clearing = threading.Lock()
        self._due: Optional[BaseException] = None
        self._watcher: Optional[Watcher] = None
        self._own = _job.open(role="worker", timeout=timeout) if job is None else None
        self._job = self._own or job
        self._isolates = given.policy == lib.MUSTER_CLUSTER_ISOLATE
        self._closed = False
        self._cluster = ffi.NULL
        self._opening = threading.RLock()
        self._name = options.get("name") or os.environ.get("MUSTER_CLUSTER_NAME") or "default"
        try:
            if not isinstance(self._job, _job.Job):
                raise TypeError(f"Coordinator: job is a muster.Job or None, not {job!r}")
            # Before it opens: the end of the job waits until this is over.
            self._job._before_close.append(weakref.WeakMethod(self.close))
            with self._opening:
                self._open(given, timeout)
                self._memory = self._hold()
        except BaseException:
            if self._own is not None:
                self._own.close()
            raise
        del kept[:]
        _coordinators.add(self)

    def _open(self, given: Any, timeout: Optional[float]) -> None:
        out, err = ffi.new("muster_cluster **"), ffi.new("struct muster_error *")

        def open_unless_closed(ms: int) -> int:
            """C's call, in which another thread must not close the client."""
            if self._closed or self._job._closing:
                raise Cancelled("Coordinator: the job was closed meanwhile", Status.ECANCELLED)
            return lib.muster_cluster_open(out, client, given, ms, err)

        with self._job._handle as client:
            check(in_pieces(open_unless_closed, timeout, CLAIM_MS, always=True), err)
            self._cluster = out[0]

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
        with self._opening:  # on another thread, which sees that it is closed
            pass
        if watcher is not None:
            watcher.stop()
        self._note_workers()
        lib.muster_cluster_close(self._cluster)
        if watcher is not None:
            watcher.finish()
        for closure in self._orphans:
            lib.muster_closure_release(closure)
        self._orphans = []
        if self._own is not None:
            self._own.close()

    def _note_workers(self) -> None:
        """Whether workers are left that wait for another coordinator."""
        if not self._cluster:
            return
        if self.dismissed:
            _left.discard(self._name)
        elif self.counts().workers_present > 0:
            _left.add(self._name)

    # ---- scheduling ----

    def _target(self, fn: Any, raw: bool = False) -> Target:
        """Of what is sent none is kept: the next one may hold other values."""
        if not isinstance(fn, str) and getattr(fn, MARK, None) is None:
            return target_of(fn, raw, self._code)
        known = self._targets.get((fn, raw) if raw else fn)
        if known is None:
            known = self._targets[(fn, raw) if raw else fn] = target_of(fn, raw, self._code)
        return known

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
        return self._admit(self._prepare(self._target(fn, raw), args, kwargs, options), timeout)

    def _prepare(self, target: Target, args: Any, kwargs: Any, options: Dict[str, Any]) -> Prepared:
        """What can be wrong with a call is found here, before the cluster is concerned."""
        data, buffers, needs = parts_of(target, args, kwargs)
        if options or needs:
            given, kept = options_for(target, options, needs)
        else:
            given, kept = target.options, target.kept
        return Prepared(self._cluster, target, given, kept, data, buffers)

    def _admit(self, prepared: Prepared, timeout: Optional[float]) -> RemoteValue:
        admitted: List[RemoteValue] = []

        def admit(ms: int) -> int:
            # One that fails at once is looked for under this lock, when it is listed.
            with self._lock:
                status = prepared.call(ms)
                if status >= 0:
                    admitted.append(self._admitted(prepared.out[0]))
            return status

        status = admit(0)
        if status == lib.MUSTER_ELIMIT or status == lib.MUSTER_ETIMEDOUT:
            status = in_pieces(admit, timeout, always=True)
        if status < 0:
            self._fail(status, prepared.err)
        return admitted[0]

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
        those of schedule. Raises a failure of an earlier closure as schedule does. Whatever it raises,
        also from an iterable, those that it had admitted before are cancelled."""
        if self._due is not None:
            self._raise_due()
        target = self._target(fn, raw)
        end = None if timeout is None else time.monotonic() + timeout
        given, kept = options_for(target, options, []) if options else (target.options, target.kept)
        calls = zip(*iterables)
        values: List[RemoteValue] = []
        try:
            while True:
                some = list(itertools.islice(calls, BATCH))
                if not some:
                    return values
                self._map_batch(target, (given, kept), options, some, end, values)
        except BaseException:
            for value in values:
                value.cancel()
            raise

    schedule_many = map

    def _map_batch(
        self, target: Target, choice: Tuple[Any, List[Any]], options: Dict[str, Any], some: List[Tuple[Any, ...]],
        end: Optional[float], values: List[RemoteValue],
    ) -> None:
        """Appends to `values` what is admitted, also if not all is."""
        made: List[bytes] = []
        for args in some:
            data, buffers, needs = parts_of(target, args, None)
            if buffers or needs or data is None:  # one of many parts is one of its own
                for args in some:
                    left = None if end is None else max(0.0, end - time.monotonic())
                    values.append(self._admit(self._prepare(target, args, None, options), left))
                return
            made.append(data)
        sizes = array.array("I", map(len, made))
        joined = b"".join(made)
        out = ffi.new("muster_closure *[]", len(made))
        admitted, err = ffi.new("size_t *"), ffi.new("struct muster_error *")
        counts = ffi.from_buffer("uint32_t[]", sizes)
        before = len(values)
        kind = RAW if target.raw else PICKLE

        def admit(ms: int) -> int:
            at = len(values) - before
            skipped = sum(sizes[:at]) if at else 0
            with self._lock:
                status = lib.muster_python_schedule(
                    self._cluster, target.name, choice[0], ffi.from_buffer(joined) + skipped, counts + at,
                    kind, len(made) - at, ms, out, admitted, err,
                )
                values.extend(map(self._admitted, out[0 : admitted[0]]))
            return int(status)

        left = None if end is None else max(0.0, end - time.monotonic())
        status = in_pieces(admit, left, always=True)
        if status < 0:
            self._fail(status, err)

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
            return error_of(status, error_text(err))
        self._failures = [failure_of(taken.items[i]) for i in range(taken.kept)]
        lib.muster_failures_free(taken)
        first = self._failures[0]
        value = self._value_of(first.closure)
        self._over()
        known = value.exception(0) if value is not None else None
        return known or raised_of(status, error_text(err), first, [])

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
                self._watcher = Watcher(self)
            watcher = None if self._closed else self._watcher
        if watcher is None:
            call_back(callback, value)
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
        data, buffers, needs = parts_of(target, args, kwargs)
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
        return counts_of(out)

    def workers(self) -> List[Any]:
        """[WorkerInfo] of every worker that was ever there, by its number."""
        out = ffi.new("struct muster_cluster_worker *")
        listed: List[Any] = []
        while True:
            out.size = ffi.sizeof("struct muster_cluster_worker")
            if not lib.muster_cluster_look_worker(self._cluster, len(listed), out):
                return listed
            listed.append(worker_of(out))

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
        status = in_pieces(lambda ms: call(self._cluster, ms, err), timeout)
        if status < 0:
            self._fail(status, err)

    @property
    def dismissed(self) -> bool:
        """Whether the work was done already: by a coordinator that was killed after its dismiss."""
        return bool(lib.muster_cluster_dismissed(self._cluster))


ClusterCoordinator = Coordinator
_left: Set[str] = set()  # clusters whose workers wait for another coordinator
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
    _left.clear()


def _at_exit() -> None:
    """A run ends with its last process: one line instead of a run that hangs. A program that ends with
    an exception is started again."""
    for coordinator in list(_coordinators):
        if not coordinator._closed:
            coordinator._note_workers()
    if _left and "MUSTER_PROCESS_TAG" in os.environ and getattr(sys, "last_value", None) is None:
        logging.getLogger("muster").warning(
            "the workers of cluster %s wait for another coordinator, and the run for them: call dismiss(), or use"
            " Executor(dismiss=True), when the work is done",
            ", ".join(map(repr, sorted(_left))),
        )


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_in_child)
