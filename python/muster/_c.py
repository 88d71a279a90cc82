# SPDX-License-Identifier: Apache-2.0
"""Between C's types and Python's. Durations are seconds here, and named without `_ms`."""

from __future__ import annotations

import dataclasses
import enum
import math
import os

from ._muster import ffi, lib
from ._errors import Invalid, Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple, Type, TypeVar, Union

    _E = TypeVar("_E", bound=enum.IntEnum)
    Text = Union[str, bytes, bytearray, memoryview, "os.PathLike[str]", "os.PathLike[bytes]"]

MS = "_ms"
# Numbers that stand for none, by the field, or the field of a struct.
NOTHING: Dict[Union[str, Tuple[str, str]], int] = {
    "rank": lib.MUSTER_RANK_NONE,
    ("struct muster_notice", "index"): lib.MUSTER_INDEX_ALL,
    ("struct muster_notice", "agreed_step"): -1,
    ("struct muster_member", "node"): -1,
    ("struct muster_cluster_counts", "oldest_ms"): -1,
    ("struct muster_cluster_worker", "longest_ms"): -1,
}
# Sizes of structs that grow: in C the caller sets them.
NO_NEWS = {("struct muster_cluster_counts", "size"), ("struct muster_cluster_worker", "size")}
HIDDEN = ("size", "version", "reserved", "log", "log_ctx")


ENUMS: Dict[str, Type[enum.IntEnum]] = {}  # of a C enum that has one


def enum_of(name: str, c_name: str, doc: str = "") -> Any:
    """An IntEnum of a C enum, without the prefix that all its names share."""
    elements = {c: value for value, c in sorted(ffi.typeof(c_name).elements.items())}
    shared = os.path.commonprefix(list(elements)).rpartition("_")[0] + "_"
    members = {c[len(shared) :]: value for c, value in elements.items()}
    make: Any = enum.IntEnum  # type checkers want literal members
    made = make(name, members, module="muster")
    made.__doc__ = doc
    ENUMS[c_name] = made
    return made


if TYPE_CHECKING:  # from the headers, as what follows is: python/stubs.py
    from ._types import (
        Cause as Cause,
        Grow as Grow,
        Leave as Leave,
        Level as Level,
        Member as Member,
        MemberState as MemberState,
        Notice as Notice,
        NoticeLevel as NoticeLevel,
        OnLoss as OnLoss,
        Reach as Reach,
        Reduce as Reduce,
        Role as Role,
        View as View,
    )
else:
    Role = enum_of(
        "Role",
        "enum muster_role",
        "What a client is to the job: RANK takes part in generations, WORKER in none, AGENT "
        "watches the processes of a node, OBSERVER is no member.",
    )
    Grow = enum_of(
        "Grow",
        "enum muster_grow",
        "When a new rank is taken in: CHECK: at the next check of every rank; FAULT: with the "
        "next fault; OFF: never; DEFAULT: as MUSTER_GROW says, else CHECK.",
    )
    Level = enum_of("Level", "enum muster_level", "How important a line of the log is.")
    MemberState = enum_of(
        "MemberState",
        "enum muster_member_state",
        "Where a member of the job stands.",
    )
    Cause = enum_of("Cause", "enum muster_cause", "Why a member was lost, or a generation ended.")
    Reduce = enum_of(
        "Reduce",
        "enum muster_reduce",
        "What a round makes of the contributions: see Job.round.",
    )
    OnLoss = enum_of(
        "OnLoss",
        "enum muster_on_loss",
        "What the loss of a participant does to a round: FAIL fails it for all, PROCEED closes "
        "it with the contributions that are there.",
    )
    Reach = enum_of(
        "Reach",
        "enum muster_reach",
        "What Preempt.reached says of a step: GO_ON: compute it. SAVE_NOW: save it first. "
        "STOP: this process was replaced.",
    )
    NoticeLevel = enum_of(
        "NoticeLevel",
        "enum muster_notice_level",
        "CERTAIN: the process ends at the deadline. ADVISORY: it may end; no step is agreed "
        "on.",
    )
    Leave = enum_of(
        "Leave",
        "enum muster_preempt_leave",
        "Which processes exit after the save: ALL, or only those that were NOTICED; DEFAULT: "
        "as MUSTER_PREEMPT_LEAVE says, else ALL.",
    )


def milliseconds(seconds: Optional[float]) -> int:
    """None is without limit; nothing is rounded down to "do not wait"."""
    if seconds is None:
        return -1
    if seconds == 0:
        return 0
    if not seconds >= 0:
        raise Invalid(f"a timeout of {seconds} s: it cannot be negative", Status.EINVAL)
    return min(math.ceil(seconds * 1000), 2**62) if seconds < 1e15 else -1


def bytes_of(text: Text) -> bytes:
    """Bytes as they are, text and paths as UTF-8; what no UTF-8 was read from goes back as it was."""
    if type(text) is bytes:
        return text
    if isinstance(text, (bytes, bytearray, memoryview)):
        return bytes(text)
    if isinstance(text, (str, os.PathLike)):
        path = os.fspath(text)
        return path if isinstance(path, bytes) else path.encode(errors="surrogateescape")
    raise TypeError(f"bytes or str is needed, not {type(text).__name__}")


def string_of(text: Text) -> Any:
    """A C string to be passed; NUL bytes would cut it short in silence."""
    return ffi.new("char[]", name_of(text))


def name_of(text: Text) -> bytes:
    """The same for a parameter of a call, which borrows it."""
    text = text.encode(errors="surrogateescape") if type(text) is str else bytes_of(text)
    if 0 in text:
        raise Invalid(f"a NUL byte in {text!r}", Status.EINVAL)
    return text


def text_of(chars: Any) -> Optional[str]:
    return ffi.string(chars).decode(errors="surrogateescape") if chars else None


def slice_of(data: Text) -> Tuple[Dict[str, Any], Any]:
    """(struct muster_slice, what it borrows): the second is to be kept while the first is used."""
    kept = ffi.from_buffer(bytes_of(data))
    return {"data": kept, "size": len(kept)}, kept


def taken(piece: Any) -> Optional[bytes]:
    """The bytes of a struct muster_slice; None where it has no data."""
    if not piece.data:
        return None if piece.size == 0 else b""
    return bytes(ffi.buffer(piece.data, piece.size))


def enum_member(kind: Type[_E], value: Union[str, int]) -> _E:
    if isinstance(value, str):
        try:
            return kind[value.upper().replace("-", "_")]
        except KeyError:
            names = ", ".join(name.lower() for name in kind.__members__)
            raise Invalid(f"{value!r} is none of {names}", Status.EINVAL) from None
    return kind(value)


def options_of(
    initial: Callable[[], Any], given: Dict[str, Any], who: str
) -> Tuple[Any, List[Any]]:
    """(struct *, what it borrows) from keyword arguments; None leaves a default as it is."""
    value = initial()
    options = ffi.new(ffi.getctype(ffi.typeof(value), "*"), value)
    fields = {name: field.type for name, field in ffi.typeof(value).fields if name not in HIDDEN}
    kept: List[Any] = []
    for name, wanted in given.items():
        field = name + MS if name + MS in fields else name
        if field not in fields or name.endswith(MS):
            names = ", ".join(field.removesuffix(MS) for field in fields)
            raise TypeError(f"{who} has no option {name!r}; it has {names}")
        if wanted is None:
            continue
        kind = fields[field]
        if field.endswith(MS):
            wanted = milliseconds(wanted)
        elif kind.cname in ENUMS:
            wanted = enum_member(ENUMS[kind.cname], wanted)
        elif kind.kind == "pointer":
            kept.append(string_of(wanted))
            wanted = kept[-1]
        setattr(options, field, wanted)
    return options, kept


def record_of(name: str, c_name: str, doc: str) -> Tuple[Any, Callable[[Any], Any]]:
    """A frozen dataclass of a struct's fields, and the function that fills it."""
    fields = {}
    for field, kind in ffi.typeof(c_name).fields:
        if field not in HIDDEN[2:] and (c_name, field) not in NO_NEWS:
            fields[field] = converter(kind.type, c_name, field)
    made = dataclasses.make_dataclass(
        name, [field.removesuffix(MS) for field in fields], frozen=True, namespace={"__doc__": doc}
    )
    made.__module__ = "muster"

    def fill(struct: Any) -> Any:
        return made(*(convert(getattr(struct, field)) for field, convert in fields.items()))

    return made, fill


def converter(kind: Any, c_name: str, field: str) -> Callable[[Any], Any]:
    if kind.cname in ENUMS:
        known = ENUMS[kind.cname]
        return lambda value: known(value) if value in known.__members__.values() else value
    if kind.kind in ("pointer", "array"):
        return text_of
    nothing = NOTHING.get((c_name, field), NOTHING.get(field))
    if field.endswith(MS):
        return lambda value: None if value == nothing else value / 1000
    if nothing is not None:
        return lambda value: None if value == nothing else value
    return lambda value: value


if TYPE_CHECKING:
    view_of: Callable[[Any], View]
    notice_of: Callable[[Any], Notice]
    member_of: Callable[[Any], Member]
else:
    View, view_of = record_of("View", "struct muster_view", "Where this process stands.")
    Notice, notice_of = record_of(
        "Notice",
        "struct muster_notice",
        "What is known of a notice: `index` (None: the whole job), `left` and `deadline_unix` in seconds,"
        " `agreed_step` (None: none yet), `assumed`, `source`, `host`, `reason`.",
    )
    Member, member_of = record_of("Member", "struct muster_member", "One place of the job.")


def members_of(out: Any) -> List[Member]:
    """The list that a call has given, which is freed."""
    try:
        count = lib.muster_members_count(out[0])
        return [member_of(lib.muster_members_get(out[0], i)) for i in range(count)]
    finally:
        lib.muster_members_free(out[0])
        out[0] = ffi.NULL
