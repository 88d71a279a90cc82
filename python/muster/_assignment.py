# SPDX-License-Identifier: Apache-2.0
"""Which processes run the function, and as which rank: the steps of muster/assignment.h as values.

    [Group(8, key="host"), FillGaps()]      # only hosts with all their 8 ranks

The steps apply in the order of the list. One process works them out for all."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterator, List, Optional, Sequence, Union

from ._c import string_of, text_of
from ._errors import Invalid, Status, check
from ._muster import ffi, lib
from ._state import Compose, State

NONE = lib.MUSTER_NUMBER_NONE


@dataclasses.dataclass
class Place:
    """One place of the job, as an assignment sees it. `number` is its rank after the steps so far,
    None: it takes no part; before the first step the rank of the last attempt, or one behind all
    of these. `previous`: its rank in the last attempt, None: none. `node`: the agent that started
    it. A place that is not alive keeps its last values."""

    index: int
    alive: bool = True
    number: Optional[int] = None
    previous: Optional[int] = None
    node: Optional[int] = None
    host: str = ""
    label: str = ""


# "host", "node", "label", "label/2": the first 2 parts of a label such as "pod3/rack7/b2", "all", the
# size of a block of ranks, or a function of the Place, which is called for each on one rank.
Key = Union[str, int, Callable[[Place], Any]]
KEYS = {
    "host": ffi.addressof(lib, "muster_assignment_key_host"),
    "node": ffi.addressof(lib, "muster_assignment_key_node"),
    "label": ffi.NULL,
    "all": ffi.addressof(lib, "muster_assignment_key_all"),
}
KEY_OF_PARTS = ffi.addressof(lib, "muster_assignment_key_label")
KEY_OF_BLOCK = ffi.addressof(lib, "muster_assignment_key_block")


def _number(value: int, what: str) -> int:
    if not isinstance(value, int) or not 0 < value < NONE:
        raise Invalid(f"{what}: expected a number from 1 on, not {value!r}", Status.EINVAL)
    return value


def _parts(key: str) -> int:
    """How many of a label's; 0: it is no such key."""
    what, _, count = key.partition("/")
    return int(count) if what == "label" and count.isdecimal() and len(count) < 10 else 0


def _key(key: Key, who: str) -> Key:
    if isinstance(key, str):
        if key not in KEYS and not _parts(key):
            raise Invalid(
                f"{who}: key {key!r} is none of {', '.join(KEYS)}, label/N, a number of ranks, or a"
                " function",
                Status.EINVAL,
            )
        return key
    return key if callable(key) else _number(key, f"{who}: key")


class _Values:
    """What is written is what is shown and compared. No dataclass: each takes a quarter of a
    millisecond of `import muster`."""

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)


class Step(_Values):
    """A step of an assignment: one of the classes below, or a function that sets the `number` of
    every Place of a list. Steps with the same values are equal."""

    def _into(self, made: Made) -> dict[str, Any]:
        """The fields of struct muster_assignment_step."""
        raise NotImplementedError


class Shift(Step):
    """Keeps the order, closes the gaps."""

    def _into(self, made: Made) -> dict[str, Any]:
        return {"kind": lib.MUSTER_ASSIGN_SHIFT}


class FillGaps(Step):
    """Ranks stay where possible; the last ones move into the gaps, then newcomers into what is
    left."""

    def _into(self, made: Made) -> dict[str, Any]:
        return {"kind": lib.MUSTER_ASSIGN_FILL_GAPS}


class Group(Step):
    """Leaves out groups by `key` that do not have exactly `count` members. Shift or FillGaps must
    follow."""

    def __init__(self, count: int, key: Key = "host") -> None:
        self.count = _number(count, "Group")
        self.key = _key(key, "Group")

    def _into(self, made: Made) -> dict[str, Any]:
        return {"kind": lib.MUSTER_ASSIGN_GROUP, "count": self.count, **made.key(self.key)}


class Max(Step):
    """At most `count` run."""

    def __init__(self, count: int) -> None:
        self.count = _number(count, "Max")

    def _into(self, made: Made) -> dict[str, Any]:
        return {"kind": lib.MUSTER_ASSIGN_MAX, "count": self.count}


class Multiple(Step):
    """The largest multiple of `count` runs."""

    def __init__(self, count: int) -> None:
        self.count = _number(count, "Multiple")

    def _into(self, made: Made) -> dict[str, Any]:
        return {"kind": lib.MUSTER_ASSIGN_MULTIPLE, "count": self.count}


class Filter(Step):
    """`function(size)` returns how many of `size` run."""

    def __init__(self, function: Callable[[int], int]) -> None:
        if not callable(function):
            raise TypeError(f"Filter: a function is needed, not {type(function).__name__}")
        self.function = function

    def _into(self, made: Made) -> dict[str, Any]:
        return made.filter(self.function)


class Layer(_Values):
    """A layer of a Tree. A group of it with fewer than `min` alive is left out; at most `max` of it
    run (None: all). `reserve`: a spare of the group replaces a rank of the group. `backfill`: the
    group's last ranks move into its gaps."""

    def __init__(
        self,
        min: int = 1,
        max: Optional[int] = None,
        key: Key = "host",
        reserve: bool = False,
        backfill: bool = False,
    ) -> None:
        self.min = _number(min, "Layer: min")
        self.max = None if max is None else _number(max, "Layer: max")
        self.key = _key(key, "Layer")
        self.reserve = reserve
        self.backfill = backfill

    def _into(self, made: Made) -> dict[str, Any]:
        flags = lib.MUSTER_LAYER_RESERVE if self.reserve else 0
        flags |= lib.MUSTER_LAYER_BACKFILL if self.backfill else 0
        return {"min": self.min, "max": self.max or 0, "flags": flags, **made.key(self.key)}


class Tree(Step):
    """Layers from the root, whose key all share, to the groups that hold ranks. It is the first
    step, and only Filter may follow."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        for layer in layers:
            if not isinstance(layer, Layer):
                raise TypeError(f"Tree: a Layer is needed, not {type(layer).__name__}")
        self.layers = list(layers)

    def _into(self, made: Made) -> dict[str, Any]:
        layers = made.keep(
            ffi.new("struct muster_assignment_layer[]", [layer._into(made) for layer in self.layers])
        )
        return {"kind": lib.MUSTER_ASSIGN_TREE, "layers": layers, "layer_count": len(layers)}


Custom = Callable[[List[Place]], None]
Steps = Union["Assignment", Step, Custom, Compose, Sequence[Union[Step, Custom, Compose]]]


def _steps_of(steps: Any) -> Iterator[Union[Step, Custom]]:
    if isinstance(steps, Compose):
        steps = steps.instances[::-1]
    elif isinstance(steps, Assignment):
        steps = steps.steps
    if isinstance(steps, Step) or callable(steps):
        yield steps
    elif isinstance(steps, (list, tuple)):
        for step in steps:
            yield from _steps_of(step)
    else:
        raise TypeError(f"an assignment is steps or a function, not {type(steps).__name__}")


class Assignment:
    """A list of steps, checked. `label` is of this process, for the key of that name: text of at
    most 63 bytes, or a function of the State that returns it (default: MUSTER_ASSIGNMENT_LABEL)."""

    def __init__(
        self, steps: Steps, *, label: Union[None, str, Callable[[State], str]] = None
    ) -> None:
        self.steps = tuple(_steps_of(steps))
        self.label = label
        self.apply([])

    def apply(self, places: Sequence[Place]) -> None:
        """Works the steps out without a job, to try them: sets `number` of the places, which ascend
        by index. Changes nothing on failure."""
        made = Made(self.steps)
        table = made.places(places)
        err = ffi.new("struct muster_error *")
        status = lib.muster_assignment_try(made.assignment, table, len(places), err)
        made.check()
        check(status, err)
        for place, after in zip(places, table):
            place.number = _or_none(after.number)


def assignment_of(given: Optional[Steps]) -> Optional[Assignment]:
    """What a user passed as rank_assignment, checked; None is none."""
    return given if given is None or isinstance(given, Assignment) else Assignment(given)


def to_c(assignment: Optional[Assignment], state: Any = None) -> tuple[Any, Made]:
    """(struct muster_assignment *, what is to be kept as long as that is used). Where a callback of
    the assignment raises, the run ends on all ranks; there the second one's check() raises it."""
    if assignment is None:
        return ffi.NULL, Made(())
    made = Made(assignment.steps)
    label = assignment.label(state) if callable(assignment.label) else assignment.label
    if label is not None:
        made.assignment.label = made.keep(string_of(label))
    return made.assignment, made


class Made:
    """The C of some steps, and what it borrows."""

    def __init__(self, steps: Sequence[Union[Step, Custom]]) -> None:
        self.failure: Optional[BaseException] = None
        self._kept: list[Any] = []
        self._keys = False
        fields = [step._into(self) if isinstance(step, Step) else self.custom(step) for step in steps]
        if self._keys:
            # C's keys cannot fail, and a group by a key that nobody computed is no answer.
            fields.append(self.filter(self._guard))
        self.assignment = self.keep(
            ffi.new("struct muster_assignment *", lib.muster_assignment_init())
        )
        self.assignment.list = self.keep(ffi.new("struct muster_assignment_step[]", fields))
        self.assignment.count = len(fields)

    def check(self) -> None:
        """Raises what a callback has raised."""
        if self.failure is not None:
            raise self.failure

    def keep(self, borrowed: Any) -> Any:
        self._kept.append(borrowed)
        return borrowed

    def _handle(self, function: Callable[..., Any]) -> Any:
        return self.keep(ffi.new_handle((self, function)))

    def key(self, key: Key) -> dict[str, Any]:
        if isinstance(key, str) and key in KEYS:
            return {"key": KEYS[key]}
        if isinstance(key, str):
            parts = self.keep(ffi.new("uint32_t *", _parts(key)))
            return {"key": KEY_OF_PARTS, "arg": parts}
        if callable(key):
            self._keys = True
            return {"key": lib.muster_python_key, "arg": self._handle(key)}
        size = self.keep(ffi.new("uint32_t *", key))
        return {"key": KEY_OF_BLOCK, "arg": size}

    def filter(self, function: Callable[[int], int]) -> dict[str, Any]:
        return {
            "kind": lib.MUSTER_ASSIGN_FILTER,
            "filter": lib.muster_python_filter,
            "arg": self._handle(function),
        }

    def custom(self, function: Custom) -> dict[str, Any]:
        return {
            "kind": lib.MUSTER_ASSIGN_CUSTOM,
            "assign": lib.muster_python_assign,
            "arg": self._handle(function),
        }

    def _guard(self, size: int) -> int:
        self.check()
        return size

    def places(self, places: Sequence[Place]) -> Any:
        """An array of struct muster_place."""
        return ffi.new(
            "struct muster_place[]",
            [
                {
                    "index": place.index,
                    "alive": place.alive,
                    "number": _or_nothing(place.number),
                    "previous": _or_nothing(place.previous),
                    "node": _or_nothing(place.node),
                    "host": self.keep(string_of(place.host)),
                    "label": self.keep(string_of(place.label)),
                }
                for place in places
            ],
        )


def _or_none(number: int) -> Optional[int]:
    return None if number == NONE else number


def _or_nothing(number: Optional[int]) -> Any:
    return NONE if number is None else number


def _place_of(place: Any) -> Place:
    return Place(
        place.index,
        place.alive,
        _or_none(place.number),
        _or_none(place.previous),
        _or_none(place.node),
        text_of(place.host) or "",
        text_of(place.label) or "",
    )


# ---- what C calls: nothing may be raised there ----


@ffi.def_extern()
def muster_python_key(arg: Any, place: Any, key: Any, room: int) -> None:
    made, function = ffi.from_handle(arg)
    try:
        text = str(function(_place_of(place))).encode(errors="surrogateescape")
        if 0 in text or len(text) >= room:
            raise Invalid(
                f"the key of #{place.index} has {len(text)} bytes: at most {room - 1} are possible,"
                " and no NUL",
                Status.EINVAL,
            )
        ffi.memmove(key, text + b"\0", len(text) + 1)
    except BaseException as failure:
        made.failure = made.failure or failure


@ffi.def_extern()
def muster_python_filter(arg: Any, size: int) -> int:
    made, function = ffi.from_handle(arg)
    try:
        wanted = function(size)
        if not isinstance(wanted, int) or not 0 <= wanted <= size:
            raise Invalid(f"{function!r} says that {wanted!r} of {size} run", Status.EINVAL)
        return wanted
    except BaseException as failure:
        made.failure = made.failure or failure
        return NONE  # more than there are, which C refuses


@ffi.def_extern()
def muster_python_assign(arg: Any, places: Any, count: int) -> int:
    made, function = ffi.from_handle(arg)
    try:
        given = [_place_of(places[i]) for i in range(count)]
        function(given)
        for i, place in enumerate(given):
            places[i].number = _or_nothing(place.number)
        return lib.MUSTER_OK
    except BaseException as failure:
        made.failure = made.failure or failure
        return lib.MUSTER_EFAILED
