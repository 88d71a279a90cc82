# SPDX-License-Identifier: Apache-2.0
"""Values of closures: one, several in a structure, and those that end first."""

import copy
import pickle
import queue
import time
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
    Tuple,
)

from .. import _pickled as pickled
from .._c import milliseconds, text_of
from .._errors import Status, Timeout, check
from .._muster import ffi, lib
from .._pickled import PICKLE, RemoteError
from .._wait import on_main_thread
from ._failures import ClosureAbortedError, error_text, failure_of, raised_of
from ._pieces import in_pieces

if TYPE_CHECKING:
    from ._coordinator import Coordinator

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

    get = result = fetch

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        """Waits for the end; what fetch would raise, or None."""
        if self._state == PENDING:
            self._settle(timeout)
        return self._outcome if self._state == FAILED else None

    def done(self) -> bool:
        """Whether it has ended, in whichever way."""
        return self._state != PENDING or bool(lib.muster_python_ended(self._closure))

    def cancelled(self) -> bool:
        """Whether it has ended because it was cancelled."""
        return self.done() and isinstance(self.exception(), ClosureAbortedError)

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
            status = in_pieces(lambda ms: lib.muster_python_fetch(closure, ms, out, err), timeout)
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
        text = error_text(err)
        if not lib.muster_closure_failure(self._closure, struct):
            if status == lib.MUSTER_ECANCELLED and self._coordinator._closed:
                return ClosureAbortedError(text, Status(status))
            check(status, err)  # of the call: it has not ended
        parts = [
            pickled.bytes_of_part(out.parts[i])
            for i in range(out.count)
            if out.parts[i].type == lib.MUSTER_PART_ERROR
        ]
        return raised_of(status, text, failure_of(struct), parts)


def fetch(structure: Any, timeout: Optional[float] = None) -> Any:
    """As Coordinator.fetch."""
    values: List[RemoteValue] = []
    each(structure, values.append)
    pending = [value for value in values if value._state == PENDING]
    end = None if timeout is None else time.monotonic() + timeout
    if len(pending) > 1:
        await_all(pending, end)
    return each(structure, lambda value: value.fetch(None if end is None else max(0.0, end - time.monotonic())))


def await_all(values: List[RemoteValue], end: Optional[float]) -> None:
    """Until all have ended, or some call of a closure will say why not."""
    several: Dict[int, List[Any]] = {}
    for value in values:
        several.setdefault(id(value._coordinator), []).append(value._closure)
    for closures in several.values():
        listed, err = ffi.new("muster_closure *[]", closures), ffi.new("struct muster_error *")
        left = None if end is None else max(0.0, end - time.monotonic())
        in_pieces(
            lambda ms: lib.muster_closure_fetch_many(listed, len(closures), ms, ffi.NULL, err), left
        )


def each(structure: Any, function: Callable[[RemoteValue], Any]) -> Any:
    """The structure with function(value) instead of each RemoteValue in it."""
    if isinstance(structure, RemoteValue):
        return function(structure)
    # Lists, not generators: these would turn a StopIteration of a function into another error.
    if isinstance(structure, dict):
        made = copy.copy(structure)  # with what it has besides: a default
        for key, value in structure.items():
            made[key] = each(value, function)
        return made
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*[each(value, function) for value in structure])
    if isinstance(structure, (list, tuple, set, frozenset)):
        return type(structure)([each(value, function) for value in structure])
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
