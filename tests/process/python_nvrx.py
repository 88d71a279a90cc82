# SPDX-License-Identifier: Apache-2.0
"""muster.compat.nvrx, alone and beside the real package. Told by its first argument what to do."""

import contextlib
import copy
import dataclasses
import datetime
import inspect
import io
import random
import sys
import threading
import time
import warnings

import muster.compat.nvrx as ours
from python_raised import raised

MODULES = (
    "abort",
    "completion",
    "compose",
    "exception",
    "finalize",
    "health_check",
    "initialize",
    "monitor_thread",
    "nested_restarter",
    "rank_assignment",
    "state",
    "terminate",
    "wrap",
)
# What is not there, and why.
LEFT_OUT = {
    # They say why, and what to use instead.
    "health_check.ChainedGPUHealthCheck",
    "health_check.ChainedNVLHealthCheck",
    "health_check.ChainedNicHealthCheck",
    "abort.AbortPersistentCheckpointProcesses",
    # Parts of the other implementation, which are in no page of its documentation.
    "abort.AbortTorchDistributed.collect_fr_trace",
    "abort.AbortTorchDistributed.shutdown_all_process_group_backends",
    "abort.AbortTorchDistributed.shutdown_process_group_backend",
    "compose.find_common_ancestor",
    "monitor_thread.MonitorThread",
    "monitor_thread.async_abort_main_thread",
    "monitor_thread.async_raise",
    "monitor_thread.delayed_async_raise",
    "monitor_thread.reraise_if_unraisable",
    "nested_restarter.NestedRestarterLogger",
    "rank_assignment.FilterCountGroupedByKey.instance_count",
    "rank_assignment.Node",
    "rank_assignment.bounded_activate",
    "rank_assignment.propagate_terminations",
    "rank_assignment.Tree.build_tree",
    "rank_assignment.Tree.filter_active_world_size",
    "rank_assignment.Tree.get_state_from_tree",
    "rank_assignment.Tree.recompute_rank",
    "rank_assignment.Tree.replace_with_backfill",
    "rank_assignment.Tree.replace_with_inactive",
    "rank_assignment.Tree.shift_ranks",
    "rank_assignment.Tree.update_tree",
    "state.freeze_dataclass",
    "wrap.CallWrapper.shutdown",
    "wrap.HealthCheckPassed",
    "wrap.reserve_fn",
}
NO_PARAMETERS = ("wrap.CallWrapper", "compose.Compose")  # nobody makes the first; the second takes any


def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def parameters(function):
    found = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one.name for one in found if one.kind not in kinds and one.name != "self"]


def public(module):
    """(name, object) of what the module itself has."""
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(value) or inspect.isfunction(value):
            yield name, value


def names():
    """Each public name of the real package, with its parameters, is here, or in LEFT_OUT."""
    import nvidia_resiliency_ext.inprocess as real

    missing = []
    for name in dir(real):
        if name in MODULES or inspect.isclass(getattr(real, name)):
            assert hasattr(ours, name), name
    for module in MODULES:
        there, here = getattr(real, module), getattr(ours, module)
        for name, value in public(there):
            missing += compared(f"{module}.{name}", value, getattr(here, name, None))
    unknown = sorted(set(missing) - LEFT_OUT)
    assert not unknown, f"the real package has more: {unknown}"
    say("compared", sum(1 for module in MODULES for _ in public(getattr(real, module))))


def compared(name, there, here):
    """The names that are missing."""
    if here is None:
        return [name]
    missing = []
    if inspect.isclass(there):
        assert inspect.isclass(here), name
        if name not in NO_PARAMETERS:
            wanted, given = parameters(there.__init__), parameters(here.__init__)
            positional = [] if name == "wrap.Wrapper" else wanted
            assert given[: len(positional)] == positional, (name, wanted, given)
            assert set(wanted) <= set(given), (name, wanted, given)
        fields = []
        if dataclasses.is_dataclass(there):
            fields = [field.name for field in dataclasses.fields(there)]
            assert [field.name for field in dataclasses.fields(here)] == fields, name
        for kind in (Exception, BaseException):
            assert issubclass(there, kind) == issubclass(here, kind), name
        for method in vars(there):
            if not method.startswith("_") and method not in fields and not hasattr(here, method):
                missing.append(f"{name}.{method}")
        if issubclass(there, ours.Mode.__mro__[1]):  # an enumeration
            assert [one.name for one in there] == [one.name for one in here], name
    elif callable(there):
        assert parameters(there) == parameters(here), name
    return missing


def table():
    """The parameters of Wrapper, for the test that reads the page: here, and there if it is installed."""
    say("here", *parameters(ours.Wrapper.__init__))
    with contextlib.suppress(ImportError):
        from nvidia_resiliency_ext.inprocess import Wrapper

        say("there", *parameters(Wrapper.__init__))


# ---- rank assignments ----


class Store:
    """What a Tree asks of its store, for processes that all have the same tree."""

    def __init__(self, states, keys):
        self.states, self.keys = states, keys

    def send_state(self, state, rank):
        pass

    def send_key(self, key, rank):
        pass

    def get_states(self, ranks):
        return [copy.copy(self.states[rank]) for rank in ranks]

    def get_keys(self, ranks):
        return [self.keys[rank] for rank in ranks]


def real_ranks(real, chains, states, dead):
    """{place: rank} of the real assignments, each called as in its own process."""
    found = {}
    lost = {states[place].rank for place in dead if states[place].rank is not None}
    for place, chain in chains.items():
        if place in dead:
            continue
        ctx = real.rank_assignment.RankAssignmentCtx(states[place], chain.store, set(lost))
        try:
            states[place] = chain.assignment(ctx).state
        except real.rank_assignment.RankDiscarded:
            states[place].mode = real.Mode.TERMINATED
            continue
        if states[place].mode is real.Mode.ACTIVE:
            found[place] = states[place].active_rank
        states[place].advance()
    return found


@dataclasses.dataclass
class Chain:
    assignment: object
    store: Store = None


def makers(chance):
    """Makes the same assignment of either package; trees of blocks of ranks."""
    kind = chance.choice(("shift", "gaps", "limits", "tree", "tree"))
    count, divisor = chance.randint(2, 9), chance.randint(1, 3)
    depth = chance.randint(1, 3)
    blocks = sorted((chance.choice((2, 3, 4, 6)) for _ in range(depth - 1)), reverse=True)
    layers = [
        (chance.choice((1, 1, 2)), chance.choice((None, None, 2, 5)), chance.randint(0, 3))
        for _ in range(depth)
    ]

    def key(depth):
        return "root" if depth == 0 else lambda state: f"{depth}:{state.rank // blocks[depth - 1]}"

    def make(package):
        of = package.rank_assignment
        if kind in ("tree", "backfill"):
            return of.Tree(
                [
                    of.Layer(least, most, key(depth), of.LayerFlag(flags) if flags else None)
                    for depth, (least, most, flags) in enumerate(layers)
                ]
            )
        numbering = of.FillGaps() if kind == "gaps" else of.ShiftRanks()
        if kind != "limits":
            return package.Compose(of.ActivateAllRanks(), numbering)
        return package.Compose(
            of.ActiveWorldSizeDivisibleBy(divisor), of.MaxActiveWorldSize(count), numbering
        )

    if kind == "tree" and layers[-1][2] & 2:
        kind = "backfill"
    return make, [key(depth) for depth in range(depth)], [least for least, _, _ in layers], kind


def assignments():
    """At the first attempt and after one fault, the ranks are those of the real package."""
    import nvidia_resiliency_ext.inprocess as real

    warnings.simplefilter("ignore")
    for seed in range(3000):
        chance = random.Random(seed)
        size = chance.randint(1, 12)
        make, keys, least, kind = makers(chance)
        states = {i: real.State(i, size) for i in range(size)}
        of_rank = [[key if isinstance(key, str) else key(states[i]) for key in keys] for i in range(size)]
        small = any(
            [other[: depth + 1] for other in of_rank].count(one[: depth + 1]) < least[depth]
            for one in of_rank
            for depth in range(len(keys))
        )
        if small:  # the real one lets such a group run at first, and ends it then
            continue
        chains = {
            i: Chain(make(real), Store({j: real.State(j, size) for j in range(size)}, of_rank))
            for i in range(size)
        }
        made = ours.rank_assignment.assignment_of(make(ours))
        places = [ours.rank_assignment.Place(i) for i in range(size)]
        if made is not None and made.label is not None:
            for place in places:
                place.label = made.label(ours.FrozenState(place.index, size))
        dead = set()
        for attempt in range(2):
            left = size - len(dead)
            if kind == "gaps" and any(place >= left for place in dead):
                break  # the real one numbers beyond the world then
            wanted = real_ranks(real, chains, states, dead)
            for place in places:
                place.alive = place.index not in dead
            apply(made, places)
            given = {place.index: place.number for place in places if place.number is not None}
            # A tree here also lets spares run behind the others, where no `max` forbids it.
            added = {place: given[place] for place in given if place not in wanted and attempt > 0}
            assert given == {**wanted, **added}, (seed, attempt, kind, dead, given, wanted)
            assert not added or (kind in ("tree", "backfill") and min(added.values()) == len(wanted)), (seed, given)
            for place in places:
                place.previous = place.number
            dead = {i for i in range(size) if chance.random() < 0.3 and i in given}
            if kind == "backfill":  # of several the real one moves more than it has to
                dead = set(sorted(dead)[:1])
            if len(dead) == size:
                break
    say("well")


def apply(made, places):
    if made is None:  # all run, in the order of their places
        for number, place in enumerate(place for place in places if place.alive):
            place.number = number
        for place in places:
            place.number = place.number if place.alive else None
    else:
        made.apply(places)


def groups():
    """By a condition, by functions of a program's own, and what is left without a step."""
    of = ours.rank_assignment
    assert of.assignment_of(ours.Compose(of.ActivateAllRanks(), of.ShiftRanks())) is None
    assert of.assignment_of(of.ActivateAllRanks()) is None

    def numbers(assignment, dead=(), first=False):
        made = of.assignment_of(assignment)
        places = [of.Place(i, alive=i not in dead, previous=None if first else i) for i in range(8)]
        for place in places:
            place.label = made.label(ours.FrozenState(place.index, 8)) if made.label else ""
        made.apply(places)
        return [place.number for place in places]

    pairs = of.FilterCountGroupedByKey(lambda state: f"pair {state.rank // 2}", lambda size: size == 2)
    # 0 X 2 3 X X 6 7, of pairs
    dead, lost = (1, 4, 5), None
    assert numbers(ours.Compose(of.ShiftRanks(), pairs), dead) == [lost, lost, 0, 1, lost, lost, 2, 3]
    assert numbers(ours.Compose(of.FillGaps(), pairs), dead) == [lost, lost, 2, 3, lost, lost, 0, 1]
    assert numbers(ours.Compose(of.FillGaps(), pairs), dead, True) == [lost, lost, 0, 1, lost, lost, 2, 3]
    numbered = of.FilterCountGroupedByKey(lambda state: state.rank // 2, lambda size: size == 2)
    assert numbers(ours.Compose(of.ShiftRanks(), numbered), dead) == [lost, lost, 0, 1, lost, lost, 2, 3]
    long = of.FilterCountGroupedByKey(lambda state: "x" * 80 + str(state.rank // 4), lambda size: size > 2)
    wanted = [lost, lost, 0, 1, lost, lost, lost, lost]
    assert numbers(ours.Compose(of.ShiftRanks(), long, of.ShiftRanks(), pairs), (1, 4, 5)) == [lost] * 8
    assert numbers(ours.Compose(of.ShiftRanks(), long, pairs), (4,)) == [0, 1, 2, 3, lost, lost, lost, lost]
    assert numbers(ours.Compose(of.MaxActiveWorldSize(2), of.ShiftRanks(), pairs), dead) == wanted

    class Reversed(of.RankAssignment):
        def __call__(self, ctx):
            if ctx.state.rank == 3:
                raise of.RankDiscarded("3 is not liked")
            rank = ctx.state.world_size - 1 - ctx.state.rank
            rank -= rank > 4
            ctx.state = dataclasses.replace(ctx.state, rank=rank, world_size=ctx.state.world_size - 1)
            return ctx

    assert numbers(Reversed()) == [6, 5, 4, lost, 3, 2, 1, 0]
    five = ours.Compose(of.MaxActiveWorldSize(5), Reversed())
    assert numbers(five) == [lost, lost, 4, lost, 3, 2, 1, 0]
    every = (of.ActivateAllRanks(), of.MaxActiveWorldSize(4), of.ActiveWorldSizeDivisibleBy(3))
    chain = ours.Compose(Copied(), *reversed(every), of.FillGaps())
    assert numbers(chain, dead) == [0, lost, 2, lost, lost, lost, 1, lost], numbers(chain, dead)
    for kind, wrong in ((ValueError, pairs), (TypeError, ours.Compose(Copied(), pairs))):
        try:
            numbers(wrong)
        except kind:
            continue
        raise AssertionError(wrong)
    say("well")


class Copied(ours.rank_assignment.RankAssignment):
    """One of a program's own, that changes nothing."""

    def __call__(self, ctx):
        return dataclasses.replace(ctx)


# ---- the callbacks ----


def callbacks():
    state = ours.FrozenState(1, 4, 1, 3, 1, 4, 2, ours.Mode.ACTIVE)
    of = ours.exception
    retry = ours.initialize.RetryController
    assert retry(3, 4, 3)(state) is state and retry()(state) is state
    raised(of.RestartAbort, lambda: retry(2)(state), "attempt 3", "max_iterations is 2")
    raised(of.RestartAbort, lambda: retry(None, 5)(state), "4 ranks", "min_world_size is 5")
    raised(of.RestartAbort, lambda: retry(None, 4, 4)(state), "3 ranks", "min_active_world_size is 4")
    counter = ours.health_check.FaultCounter(1)
    failed = dataclasses.replace(state, fn_exception=ValueError("x"))
    assert counter(failed) is failed and counter(state) is state
    raised(ours.health_check.FaultCounterExceeded, lambda: counter(failed), "2 faults", "is 1")
    assert issubclass(ours.health_check.FaultCounterExceeded, of.RestartError)
    # No GPU is used here.
    assert ours.health_check.CudaHealthCheck(datetime.timedelta(seconds=1))(state) is state
    assert ours.abort.AbortTorchDistributed()(state) is state
    assert ours.abort.AbortTransformerEngine()(state) is state

    of_thread = []
    ran = ours.finalize.ThreadedFinalize(
        datetime.timedelta(seconds=60), lambda *a, **k: of_thread.append((a, k, threading.current_thread())),
        (1,), {"b": 2},
    )
    assert ran(state) is state and of_thread[0][:2] == ((1,), {"b": 2})
    assert of_thread[0][2] is not threading.current_thread()
    stuck = ours.finalize.ThreadedFinalize(datetime.timedelta(seconds=0.05), time.sleep, (60,))
    raised(of.TimeoutError, lambda: stuck(state), "ThreadedFinalize", "0.05 s")
    broken = ours.finalize.ThreadedFinalize(datetime.timedelta(seconds=60), lambda: 1 / 0)
    raised(ZeroDivisionError, lambda: broken(state))

    both = ours.Compose(ours.initialize.RetryController(9), counter.__class__(5))
    assert both(state) is state
    assert isinstance(ours.Compose(counter, ours.health_check.CudaHealthCheck()), ours.health_check.HealthCheck)
    assert isinstance(ours.Compose(counter, ours.Compose(counter, counter)), ours.health_check.HealthCheck)
    assert ours.Compose(lambda given: (given, "a"), lambda given: (given, "b"))(1) == ((1, "b"), "a")
    for name in ("ChainedGPUHealthCheck", "ChainedNicHealthCheck"):
        raised(AttributeError, lambda: getattr(ours.health_check, name), name, "health_command")
    raised(AttributeError, lambda: ours.abort.AbortPersistentCheckpointProcesses, "checkpointing")
    raised(ValueError, lambda: ours.abort.AbortTorchDistributed("/tmp"), "no trace is collected")
    raised(AttributeError, lambda: ours.health_check.nothing, "nothing")

    changed = ours.State(3, 8)
    assert (changed.initial_rank, changed.initial_world_size) == (3, 8)
    changed.fn_exception = ValueError("x")
    changed.advance()
    assert changed.iteration == 1 and changed.fn_exception is None
    frozen = changed.freeze()
    assert isinstance(frozen, ours.FrozenState) and frozen.rank == 3 and frozen.iteration == 1
    changed.copy_from(ours.State(5, 6), fields=["rank"])
    assert (changed.rank, changed.world_size) == (5, 8)
    nested()
    say("well")


def nested():
    import logging

    told = io.StringIO()
    logger = logging.getLogger("muster")
    handler = logging.StreamHandler(told)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    of = ours.nested_restarter
    first = ours.FrozenState(0, 4, initial_rank=0)
    callback = of.NestedRestarterHandlingCompleted()
    for one in (callback, of.NestedRestarterHandlingStarting(), callback, of.NestedRestarterAborted()):
        assert one(first) is first
    of.NestedRestarterFinalized()(ours.FrozenState(1, 4, initial_rank=1))
    assert [line.rpartition(": ")[2] for line in told.getvalue().splitlines()] == [
        "initialize", "handling (starting)", "handling (completed)", "aborted"
    ], told.getvalue()
    logger.removeHandler(handler)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
