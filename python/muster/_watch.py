# SPDX-License-Identifier: Apache-2.0
"""A stream of changes: keys, members, faults, views."""

from __future__ import annotations

import dataclasses
import threading

from ._c import Member, View, enum_of, member_of, milliseconds, string_of, taken, text_of, view_of
from ._errors import Cancelled, Invalid, Status, check
from ._keys import Value
from ._muster import ffi, lib
from ._wait import Handle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Iterator, Optional, Union

    from ._types import EventType as EventType, WatchKind as WatchKind
else:
    EventType = enum_of("EventType", "enum muster_event_type", "What an Event says: see Event.")
    WatchKind = enum_of("WatchKind", "enum muster_watch_kind", "What a watch follows.")
KEYED = (EventType.KEY, EventType.DELETED)
OF_MEMBER = (EventType.MEMBER, EventType.FAULT)


@dataclasses.dataclass(frozen=True)
class Event:
    """`type`: muster.EventType. KEY: `key` was written, `value`; DELETED: `key`; both have an `age`
    in seconds. MEMBER and FAULT: `member`. VIEW: `view`. RESET: too far behind, discard all state,
    it is listed again. `revision`: to continue after this event (`after`)."""

    type: Any
    revision: int
    key: Optional[str] = None
    value: Optional[Value] = None
    age: Optional[float] = None
    member: Optional[Member] = None
    view: Optional[View] = None


def event_of(event: Any) -> Event:
    kind = EventType(event.type)
    if kind in KEYED:
        value = None
        if kind is EventType.KEY:
            value = Value.of(taken(event.value) or b"", event.revision)
        return Event(kind, event.revision, text_of(event.key), value, event.age_ms / 1000)
    if kind in OF_MEMBER:
        return Event(kind, event.revision, member=member_of(event.member))
    view = view_of(event.view) if kind is EventType.VIEW else None
    return Event(kind, event.revision, view=view)


def kinds_of(kinds: Union[str, int, Iterable[Any]]) -> int:
    given = [kinds] if isinstance(kinds, (str, int)) else list(kinds)
    bits = 0
    for kind in given:
        try:
            bits |= WatchKind[kind.upper()] if isinstance(kind, str) else WatchKind(kind)
        except (KeyError, ValueError):
            names = ", ".join(name.lower() for name in WatchKind.__members__)
            raise Invalid(f"watch: {kind!r} is none of {names}", Status.EINVAL) from None
    return bits


class Watch:
    """Iterate over it: each change is an Event, first the whole current state. A slow reader gets the
    newest state of each object once, never a growing queue. One thread at a time; close() ends the
    iteration, also of another thread."""

    def __init__(
        self, handle: Handle, prefix: str, kinds: Any, generation: int, after: int
    ) -> None:
        self._handle = handle
        self._lock = threading.Lock()
        self._call: Any = None  # that waits now
        self._closed = False
        self._event = ffi.new("struct muster_event *")
        options = ffi.new("struct muster_watch_options *", lib.muster_watch_options_init())
        name = string_of(prefix)
        options.prefix = name
        options.kinds = kinds_of(kinds)
        options.generation = generation
        options.after = after
        self.revision = after
        out = ffi.new("muster_watch **")
        err = ffi.new("struct muster_error *")
        with handle.lock:
            check(lib.muster_watch_open(out, handle.get(), options, err), err)
        self._watch = ffi.gc(out[0], lib.muster_watch_close)  # it needs no client for its end

    def start(self, client: Any, limit: int, box: Any, err: Any) -> int:
        """As X_start, for a call to come; close() cancels it."""
        with self._lock:
            if self._closed:
                raise Cancelled("watch: it is closed", Status.ECANCELLED)
            status: int = lib.muster_watch_next_start(self._watch, limit, self._event, box, err)
            self._call = box[0]
        return status

    def over(self) -> None:
        """The call is, and not freed yet."""
        with self._lock:
            self._call = None

    def taken(self) -> Event:
        """What the call that is over came to."""
        event = event_of(self._event)
        self.revision = event.revision
        return event

    def next(self, timeout: Optional[float] = None) -> Event:
        """The next change; Timeout if there is none in time, and the watch continues."""
        self._handle.call(self.start, milliseconds(timeout), over=self.over)
        return self.taken()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        try:
            return self.next()
        except Cancelled:
            if self._closed:
                raise StopIteration from None
            raise

    def close(self) -> None:
        """Ends it, and whoever iterates. Closing again does nothing."""
        with self._lock:
            self._closed = True
            if self._call is not None:
                lib.muster_call_cancel(self._call)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
