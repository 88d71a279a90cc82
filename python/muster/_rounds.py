# SPDX-License-Identifier: Apache-2.0
"""Rounds: all contribute, all receive what it came to."""

from __future__ import annotations

import dataclasses
import struct

from ._c import OnLoss, Reduce, enum_member, member_of, milliseconds, slice_of, taken
from ._errors import Error, Status
from ._muster import ffi, lib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple, Union

    from ._c import Member, Text
    from ._wait import Handle

    Data = Union[Text, int, float, Iterable[int], Iterable[float]]

# How the numbers of a vector are packed, and which function of the library reads one.
NUMBERS: Dict[Reduce, Tuple[str, Callable[[Any, int], float], str]] = {
    Reduce.MIN: ("q", lib.muster_round_int64, "integers of 64 bits"),
    Reduce.MAX: ("q", lib.muster_round_int64, "integers of 64 bits"),
    Reduce.SUM: ("q", lib.muster_round_int64, "integers of 64 bits"),
    Reduce.XOR: ("Q", lambda result, i: lib.muster_round_int64(result, i) % 2**64, "integers from 0 to 2**64 - 1"),
    Reduce.SUM_DOUBLE: ("d", lib.muster_round_double, "floats"),
    Reduce.MIN_DOUBLE: ("d", lib.muster_round_double, "floats"),
    Reduce.MAX_DOUBLE: ("d", lib.muster_round_double, "floats"),
}
LARGEST = 8  # members that a result names


@dataclasses.dataclass(frozen=True)
class Result:
    """`value`: of the reductions of numbers the number or list of numbers; of gather a list of bytes
    in the order of ranks (`indices`: whose they are); of equal and broadcast the bytes; of none
    None."""

    value: Any
    number: int
    arrived: int
    expected: int
    lost: int
    missing: int
    status: Status
    who: Tuple[Member, ...]  # Members that are lost, missing or differ, the first few
    indices: Tuple[int, ...]


def contribution(reduce: Reduce, data: Any) -> Tuple[Any, bool]:
    """(bytes, whether one number stands for a list of one)"""
    if reduce not in NUMBERS:
        return data, False
    letter, _read, kind = NUMBERS[reduce]
    alone = isinstance(data, (int, float))
    numbers = [data] if alone else list(data)
    try:
        return struct.pack(f"<{len(numbers)}{letter}", *numbers), alone
    except (struct.error, OverflowError) as wrong:
        raise TypeError(f"{reduce.name.lower()} is of {kind}: {wrong}") from None


def result_of(result: Any, reduce: Reduce, alone: bool) -> Result:
    count = ffi.new("struct muster_round_count *")
    lib.muster_round_count(result, count)
    indices = []
    value: Any = None
    if reduce is Reduce.GATHER:
        value = []
        whose = ffi.new("uint32_t *")
        for i in range(lib.muster_round_part_count(result)):
            value.append(taken(lib.muster_round_part(result, i, whose)) or b"")
            indices.append(whose[0])
    elif reduce in NUMBERS:
        held = lib.muster_round_value(result).size // 8
        value = [NUMBERS[reduce][1](result, i) for i in range(held)]
        if alone:
            value = value[0] if value else None
    elif reduce in (Reduce.EQUAL, Reduce.BROADCAST):
        value = taken(lib.muster_round_value(result)) or b""
    who = (lib.muster_round_missing(result, i) for i in range(LARGEST))
    return Result(
        value,
        lib.muster_round_number(result),
        count.arrived,
        count.expected,
        count.lost,
        count.missing,
        Status(lib.muster_round_status(result)),
        tuple(member_of(member) for member in who if member),
        tuple(indices),
    )


class Contribution:
    """A round as the arguments of muster_round_join_start, `args`, and what it came to. To be freed."""

    def __init__(
        self,
        name: Any,
        data: Data,
        reduce: Union[str, Reduce],
        on_loss: Union[str, OnLoss],
        participants: Optional[Iterable[int]],
        deadline: Optional[float],
        present_only: bool,
        root: int,
        timeout: Optional[float],
    ) -> None:
        self.reduce = enum_member(Reduce, reduce)
        options = ffi.new("struct muster_round_options *", lib.muster_round_options_init())
        options.reduce = self.reduce
        options.on_loss = enum_member(OnLoss, on_loss)
        options.present_only = present_only
        options.root = root
        if deadline is not None:
            options.deadline_ms = max(milliseconds(deadline), 1)
        self.indices = ffi.new("uint32_t[]", [] if participants is None else list(participants))
        if participants is not None:
            options.participants = self.indices
            options.participant_count = len(self.indices)
        packed, self.alone = contribution(self.reduce, data)
        piece, self.kept = slice_of(packed)
        self.out = ffi.new("muster_round_result **")
        self.args = (name, options, piece, milliseconds(timeout), self.out)

    def result(self) -> Result:
        return result_of(self.out[0], self.reduce, self.alone)

    def explain(self, failure: Error) -> None:
        failure.result = self.result() if self.out[0] else None

    def free(self) -> None:
        lib.muster_round_free(self.out[0])
        self.out[0] = ffi.NULL


def join(handle: Handle, contribution: Contribution) -> Result:
    try:
        handle.call(lib.muster_round_join_start, *contribution.args)
        return contribution.result()
    except Error as failure:
        contribution.explain(failure)
        raise
    finally:
        contribution.free()
