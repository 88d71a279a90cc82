# SPDX-License-Identifier: Apache-2.0
"""Which processes run the function, and as which rank. One process works it out for all, from steps
of muster.Assignment; only keys are asked of each process itself, when its run begins.

A process that an assignment leaves out waits as a spare. It is not ended by RankDiscarded."""

from __future__ import annotations

import abc
import dataclasses
import datetime
import enum
import hashlib
from typing import Any, Callable, List, Optional, Sequence, Union

from ... import _assignment
from ..._assignment import Assignment, Custom, Place, Step
from ..._state import Compose, State as FrozenState
from ._callback import Composable
from .exception import RestartError
from .state import Mode, State

LABEL_BYTES_MAX = 63
BETWEEN = "/"
KeyOrFn = Union[str, Callable[[State], str]]


class RankDiscarded(RestartError):
    """Raised by an assignment of a program's own: the process of this state is left out."""


@dataclasses.dataclass
class RankAssignmentCtx:
    """What an assignment of a program's own is given, and returns: the state of one process. There is
    no store."""

    state: State
    store: Any
    terminated_ranks: set[int]


class RankAssignment(Composable):
    """A base for assignments. One of a program's own is called for each process, by one of them: it
    may depend on nothing but what it is given."""

    @abc.abstractmethod
    def __call__(self, ctx: RankAssignmentCtx) -> RankAssignmentCtx:
        """Sets rank and world_size of ctx.state, or active_rank, active_world_size and mode."""


class RankFilter(RankAssignment):
    """A base for those that only choose who runs."""


class ActivateAllRanks(RankFilter):
    """All run."""

    def __call__(self, ctx: RankAssignmentCtx) -> RankAssignmentCtx:
        return _limited(ctx, ctx.state.world_size)


class MaxActiveWorldSize(RankFilter):
    """At most `max_active_world_size` run; None: all."""

    def __init__(self, max_active_world_size: Optional[int] = None) -> None:
        self.max_active_world_size = max_active_world_size

    def __call__(self, ctx: RankAssignmentCtx) -> RankAssignmentCtx:
        size = _size(ctx)
        limit = self.max_active_world_size
        return _limited(ctx, size if limit is None else min(size, limit))


class ActiveWorldSizeDivisibleBy(RankFilter):
    """The largest multiple of `divisor` runs."""

    def __init__(self, divisor: int = 1) -> None:
        self.divisor = divisor

    def __call__(self, ctx: RankAssignmentCtx) -> RankAssignmentCtx:
        return _limited(ctx, _size(ctx) // self.divisor * self.divisor)


class ShiftRanks(RankAssignment):
    """Keeps the order, closes the gaps."""

    def __call__(self, ctx: RankAssignmentCtx) -> RankAssignmentCtx:
        rank = _alive(ctx)
        return _renumbered(ctx, rank - sum(lost < rank for lost in ctx.terminated_ranks))


class FillGaps(RankAssignment):
    """Ranks stay where possible; the last ones move into the gaps."""

    def __call__(self, ctx: RankAssignmentCtx) -> RankAssignmentCtx:
        rank, lost = _alive(ctx), ctx.terminated_ranks
        size = ctx.state.world_size - len(lost)
        if rank >= size:
            before = sum(other not in lost for other in range(size, rank))
            rank = sorted(lost)[before]  # the gaps are the first of these, as many as move
        return _renumbered(ctx, rank)


class FilterCountGroupedByKey(RankAssignment):
    """Leaves out the groups by `key_or_fn` for whose size `condition` is false. ShiftRanks or FillGaps
    must follow. `timeout` has no meaning: nobody waits for others here."""

    def __init__(
        self,
        key_or_fn: KeyOrFn,
        condition: Callable[[int], bool],
        timeout: datetime.timedelta = datetime.timedelta(seconds=60),
    ) -> None:
        self.key_or_fn = key_or_fn
        self.condition = condition
        self.timeout = timeout

    def __call__(self, ctx: RankAssignmentCtx) -> RankAssignmentCtx:
        raise _for_all(self)


class LayerFlag(enum.Flag):
    """RESERVE: a spare of the group replaces a rank of the group. BACKFILL: the group's last ranks move
    into its gaps."""

    RESERVE = enum.auto()
    BACKFILL = enum.auto()


@dataclasses.dataclass
class Layer:
    """A layer of a Tree. A group of it with fewer than `min_ranks` alive is left out; at most `max_ranks`
    of it run."""

    min_ranks: int = 1
    max_ranks: Optional[int] = None
    key_or_fn: KeyOrFn = ""
    flag: Optional[LayerFlag] = None


class Tree(RankAssignment):
    """Layers from the root, whose key all share, to the groups that hold ranks.
    `world_size_filter(size)` returns how many of them run."""

    def __init__(
        self,
        layers: List[Layer],
        world_size_filter: Optional[Callable[[int], int]] = None,
    ) -> None:
        self.layers = layers
        self.world_size_filter = world_size_filter

    def __call__(self, ctx: RankAssignmentCtx) -> RankAssignmentCtx:
        raise _for_all(self)


# ---- for one process at a time ----


def _size(ctx: RankAssignmentCtx) -> int:
    active, size = ctx.state.active_world_size, ctx.state.world_size
    return size if active is None else min(active, size)


def _limited(ctx: RankAssignmentCtx, size: int) -> RankAssignmentCtx:
    rank = ctx.state.rank
    runs = rank is not None and rank < size
    ctx.state = dataclasses.replace(
        ctx.state,
        mode=Mode.ACTIVE if runs else Mode.INACTIVE,
        active_rank=rank if runs else None,
        active_world_size=size,
    )
    return ctx


def _alive(ctx: RankAssignmentCtx) -> int:
    rank = ctx.state.rank
    if rank is None or rank in ctx.terminated_ranks:
        raise RankDiscarded(f"rank {rank} is lost")
    return rank


def _renumbered(ctx: RankAssignmentCtx, rank: int) -> RankAssignmentCtx:
    size = ctx.state.world_size - len(ctx.terminated_ranks)
    ctx.state = dataclasses.replace(ctx.state, rank=rank, world_size=size)
    ctx.terminated_ranks = set()
    return ctx


def _for_all(assignment: RankAssignment) -> TypeError:
    return TypeError(
        f"{type(assignment).__name__} is worked out for all processes at once: it cannot be called, nor"
        " composed with an assignment that only has a __call__"
    )


def _one_by_one(chain: Sequence[Callable[..., Any]]) -> Custom:
    """The chain, called for each process."""

    def assign(places: List[Place]) -> None:
        numbers = {place.number for place in places if place.number is not None}
        size = max(numbers, default=-1) + 1
        for place in places:
            if place.number is None:
                continue
            ctx = RankAssignmentCtx(
                State(place.number, size, initial_rank=place.index, initial_world_size=len(places)),
                None,
                set(range(size)) - numbers,
            )
            try:
                for assignment in chain:
                    ctx = assignment(ctx)
            except RankDiscarded:
                place.number = None
                continue
            state = ctx.state
            place.number = state.rank if state.mode is Mode.INITIALIZED else state.active_rank

    return assign


# ---- as steps ----


class _Keys:
    """The keys of a process, in its label: each as it is, or a part of its hash where it is too long."""

    def __init__(self) -> None:
        self.asked: list[KeyOrFn] = []

    def add(self, key: KeyOrFn) -> Callable[[Place], str]:
        number = len(self.asked)
        self.asked.append(key)

        def key_of(place: Place) -> str:
            parts = place.label.split(BETWEEN)
            return parts[number] if number < len(parts) else ""

        return key_of

    def label(self, state: FrozenState) -> str:
        room = (LABEL_BYTES_MAX + 1) // len(self.asked) - 1
        given = State(state.rank, state.world_size)
        return BETWEEN.join(
            self._short(str(key(given)) if callable(key) else key, room) for key in self.asked
        )

    def _short(self, key: str, room: int) -> str:
        if len(key.encode()) <= room and key.isprintable() and BETWEEN not in key:
            return key
        return hashlib.sha256(key.encode()).hexdigest()[:room]


def _grouped(
    filters: Sequence[tuple[Callable[[Place], str], Callable[[int], bool]]],
    numbering: Step,
    renumbered: bool,
) -> Custom:
    """Leaves out groups by any condition, which C does not know, and numbers the rest."""

    def assign(places: List[Place]) -> None:
        left = [place for place in places if place.number is not None]
        for key, condition in filters:
            keys = [key(place) for place in left]
            sizes = {one: keys.count(one) for one in set(keys)}
            kept = {one for one, size in sizes.items() if condition(size)}
            left = [place for place, one in zip(left, keys) if one in kept]
        copies = [
            dataclasses.replace(
                place, previous=place.number if renumbered else place.previous, number=None
            )
            for place in left
        ]
        Assignment(numbering).apply(copies)
        numbers = {copy.index: copy.number for copy in copies}
        for place in places:
            place.number = numbers.get(place.index)

    return assign


def _chain_of(given: Any) -> list[Any]:
    """In the order in which they are called."""
    if isinstance(given, Compose):
        return [one for inner in reversed(given.instances) for one in _chain_of(inner)]
    return [given]


def _steps_of(chain: Sequence[Any], keys: _Keys) -> list[Union[Step, Custom]]:
    steps: list[Union[Step, Custom]] = []
    filters: list[tuple[Callable[[Place], str], Callable[[int], bool]]] = []
    for one in chain:
        if isinstance(one, (ShiftRanks, FillGaps)):
            step = _assignment.Shift() if isinstance(one, ShiftRanks) else _assignment.FillGaps()
            steps.append(_grouped(filters, step, bool(steps)) if filters else step)
            filters = []
        elif isinstance(one, FilterCountGroupedByKey):
            filters.append((keys.add(one.key_or_fn), one.condition))
        elif isinstance(one, Tree):
            steps += _tree(one, keys)
        elif not isinstance(one, ActivateAllRanks):
            if not steps:
                steps.append(_assignment.Shift())
            steps += _limits(one)
    if filters:
        raise ValueError("FilterCountGroupedByKey: ShiftRanks or FillGaps must follow, left of it")
    return steps


def _limits(one: Any) -> list[Step]:
    if isinstance(one, ActiveWorldSizeDivisibleBy):
        return [_assignment.Multiple(one.divisor)]
    limit = one.max_active_world_size
    return [] if limit is None else [_assignment.Max(limit)]


def _tree(tree: Tree, keys: _Keys) -> list[Step]:
    """A layer's key is the first parts of the label: no function is called for each place."""
    layers = [
        _assignment.Layer(
            max(layer.min_ranks, 1),
            layer.max_ranks,
            f"label/{depth + 1}",
            reserve=bool(layer.flag and layer.flag & LayerFlag.RESERVE),
            backfill=bool(layer.flag and layer.flag & LayerFlag.BACKFILL),
        )
        for depth, layer in enumerate(tree.layers)
    ]
    for layer in tree.layers:
        keys.add(layer.key_or_fn)
    limit = tree.world_size_filter
    return [_assignment.Tree(layers)] + ([] if limit is None else [_assignment.Filter(limit)])


KNOWN = (
    ActivateAllRanks,
    MaxActiveWorldSize,
    ActiveWorldSizeDivisibleBy,
    ShiftRanks,
    FillGaps,
    FilterCountGroupedByKey,
    Tree,
)


def assignment_of(given: Any) -> Optional[Assignment]:
    """What muster.Wrapper takes. None: all run, in the order of their places, which costs no meeting; so
    does a ShiftRanks alone."""
    chain = _chain_of(given)
    if not all(type(one) in KNOWN for one in chain):
        return Assignment(_one_by_one(chain))
    keys = _Keys()
    steps = _steps_of(chain, keys)
    if steps in ([], [_assignment.Shift()]):
        return None
    return Assignment(steps, label=keys.label if keys.asked else None)
