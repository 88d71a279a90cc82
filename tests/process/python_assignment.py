# SPDX-License-Identifier: Apache-2.0
"""Assignments as Python has them, beside a model of what each step is to do. Told by its first
argument what to do."""

import os
import random
import sys

import muster
from muster import Assignment, FillGaps, Filter, Group, Invalid, Layer, Max, Multiple, Place, Shift, Tree
from muster._assignment import assignment_of, to_c
from python_raised import raised

CASES = 3000


def world(chance):
    """Places of which some are dead, new, or were left out before."""
    count = chance.randint(1, 14)
    ranks = chance.sample(range(count + chance.choice((0, 0, 3))), count)
    gap = chance.choice((0, 0, 2))  # places that were never taken
    return [
        Place(
            index + gap * (index > 4),
            alive=chance.random() < 0.75,
            previous=None if chance.random() < 0.2 else ranks[index],
            node=chance.choice((None, 0, 1)),
            host=f"h{chance.randint(0, 3)}",
            label=chance.choice(("", "a", "caf\u00e9", "a/b", "a/c/d")),
        )
        for index in range(count)
    ]


def numbers(places):
    return [place.number for place in places]


# ---- the model ----


def begin(places):
    """Who takes part, by number: the previous rank, and newcomers behind all of these."""
    behind = max([place.previous for place in places if place.previous is not None], default=-1) + 1
    found = {}
    for place in places:
        if place.alive:
            number = place.previous
            if number is None:
                number, behind = behind, behind + 1
            found[number] = place
    return found


def key_of(key, place, number):
    if callable(key):
        return str(key(place))
    if isinstance(key, str) and key.startswith("label/"):
        return "/".join(place.label.split("/")[: int(key[6:])])
    if isinstance(key, int):
        number = place.previous if number is None else number
        return None if number is None else number // key
    return None if key == "all" else getattr(place, key)


def shift(found):
    return dict(enumerate(found[number] for number in sorted(found)))


def fill_gaps(found, renumbered):
    size = len(found)
    kept = {n: p for n, p in found.items() if n < size and (renumbered or p.previous is not None)}
    moved = [found[number] for number in sorted(found) if number not in kept]
    gaps = [number for number in range(size) if number not in kept]
    return {**kept, **dict(zip(gaps, moved))}


def model(steps, places):
    found, renumbered = begin(places), False
    for step in steps:
        size = len(found)
        if isinstance(step, Shift):
            found, renumbered = shift(found), True
        elif isinstance(step, FillGaps):
            found, renumbered = fill_gaps(found, renumbered), True
        elif isinstance(step, Group):
            keys = {n: key_of(step.key, place, n) for n, place in found.items()}
            sizes = list(keys.values())
            found = {n: p for n, p in found.items() if sizes.count(keys[n]) == step.count}
        elif isinstance(step, Tree):
            found = tree(step.layers, places)
        else:
            limit = {
                Max: lambda: step.count,
                Multiple: lambda: size // step.count * step.count,
                Filter: lambda: step.function(size),
            }[type(step)]()
            found = {n: place for n, place in found.items() if n < limit}
    at = {id(place): number for number, place in found.items()}
    return [at.get(id(place)) for place in places]


def tree(layers, places):
    leaves = [place for place in places if place.alive or place.previous is not None]
    given = {id(place): number for number, place in begin(places).items()}
    path = {}  # of a leaf: its groups from the root on, each named by the keys down to it
    for leaf in leaves:
        keys = [key_of(layer.key, leaf, given.get(id(leaf))) for layer in layers]
        path[id(leaf)] = [tuple(keys[: depth + 1]) for depth in range(len(keys))]
    first = {}
    for order, leaf in enumerate(leaves):
        for group in path[id(leaf)]:
            first.setdefault(group, order)
    leaves.sort(key=lambda leaf: [first[group] for group in path[id(leaf)]])
    members = {g: [leaf for leaf in leaves if g in path[id(leaf)]] for g in first}

    part = {id(leaf) for leaf in leaves if leaf.alive}
    for depth in reversed(range(len(layers))):
        for group in [group for group in members if len(group) == depth + 1]:
            if sum(id(leaf) in part for leaf in members[group]) < layers[depth].min:
                part -= {id(leaf) for leaf in members[group]}

    bound = max([leaf.previous for leaf in leaves if leaf.previous is not None], default=-1) + 1
    had = {leaf.previous: leaf for leaf in leaves if leaf.previous is not None}
    held = {number: leaf for number, leaf in had.items() if id(leaf) in part}
    runs = {id(leaf) for leaf in held.values()}
    for number in [number for number in range(bound) if number not in held]:
        if number in had:
            above = path[id(had[number])][::-1]
        else:
            above = path[id(leaves[0])][:1] if all(layer.reserve for layer in layers) else []
        for group in above:
            if not layers[len(group) - 1].reserve:
                break
            spares = [l for l in members[group] if id(l) in part and id(l) not in runs]
            if spares:
                held[number] = spares[-1]
                runs.add(id(spares[-1]))
                break

    depth = len(layers)
    while depth > 0 and layers[depth - 1].backfill:
        depth -= 1
    domains = {}
    for number in range(bound if depth < len(layers) else 0):
        leaf = held.get(number, had.get(number))
        if leaf is not None:
            domains.setdefault(path[id(leaf)][depth], []).append(number)
        elif depth == 0:
            domains.setdefault(path[id(leaves[0])][0], []).append(number)
    for of in domains.values():
        size = sum(number in held for number in of)
        gaps = [number for number in of[:size] if number not in held]
        for gap, number in zip(gaps, [number for number in of[size:] if number in held]):
            held[gap] = held.pop(number)

    found = shift(held)
    running = {group: sum(id(leaf) in runs for leaf in members[group]) for group in members}
    for leaf in leaves:
        above = path[id(leaf)]
        limits = [layers[len(group) - 1].max for group in above]
        if id(leaf) in part and id(leaf) not in runs:
            if all(limit is None or running[g] < limit for g, limit in zip(above, limits)):
                found[len(found)] = leaf
                for group in above:
                    running[group] += 1
    return found


# ---- what is tried ----


def host(place):
    return place.host


def random_key(chance):
    named = ("host", "node", "label", "label/1", "label/2", "all")
    return chance.choice((*named, 2, 3, host, lambda place: place.index % 3))


def random_steps(chance):
    numbering = (Shift, FillGaps)
    steps = [Group(chance.randint(1, 4), random_key(chance)) for _ in range(chance.choice((0, 0, 1, 2)))]
    steps.append(chance.choice(numbering)())
    for _ in range(chance.randint(0, 3)):
        count = chance.randint(1, 5)
        kind = chance.choice(("max", "multiple", "filter", "group", "numbers"))
        if kind == "group":
            steps += [Group(count, random_key(chance)), chance.choice(numbering)()]
        elif kind == "numbers":
            steps.append(chance.choice(numbering)())
        else:
            halves = Filter(lambda size: size // 2)
            steps.append({"max": Max(count), "multiple": Multiple(count), "filter": halves}[kind])
    return steps


def random_tree(chance):
    depth = chance.randint(1, 4)
    layers = [
        Layer(
            chance.choice((1, 1, 1, 2, 3)),
            chance.choice((None, None, 3, 4)),
            "all" if level == 0 else random_key(chance),
            reserve=chance.random() < 0.6,
            backfill=chance.random() < 0.6,
        )
        for level in range(depth)
    ]
    return [Tree(layers)] + [Filter(lambda size: size * 2 // 3)] * chance.choice((0, 0, 1))


def compared(make):
    for seed in range(CASES):
        chance = random.Random(seed)
        places, steps = world(chance), make(chance)
        assignment = Assignment(steps)
        for attempt in range(4):
            wanted = model(steps, places)
            assignment.apply(places)
            assert numbers(places) == wanted, (seed, attempt, steps, places, wanted)
            for place in places:  # the next attempt: some die, some are back
                # A rank of long ago may be another's by now.
                if place.alive or place.previous in numbers(places):
                    place.previous = place.number
                place.alive = chance.random() < 0.8


def steps():
    compared(random_steps)


def trees():
    compared(random_tree)


def functions():
    """A function in the place of any step, of a key, of a size."""
    places = [Place(index, previous=index, alive=index != 2, host=f"h{index // 2}") for index in range(6)]
    seen = []

    def reversed_order(given):
        seen.append(given)
        alive = [place for place in given if place.alive]
        for number, place in enumerate(reversed(alive)):
            place.number = number

    Assignment([FillGaps(), reversed_order, Max(4)]).apply(places)
    assert numbers(places) == [None, 3, None, 2, 1, 0], numbers(places)
    # What it is given: numbers of the steps before, and all else as it was.
    assert [place.number for place in seen[-1]] == [4, 3, None, 2, 1, 0]
    assert seen[-1][3] == Place(3, True, 2, 3, None, "h1", "")
    before = numbers(places)

    def broken(_):
        raise RuntimeError("a bug of mine")

    for steps in (
        broken,
        [Shift(), Filter(broken)],
        [Group(2, key=broken), Shift()],
        Tree([Layer(key=broken)]),
    ):
        raised(RuntimeError, lambda: assignment_of(steps).apply(places), "a bug of mine")
        given, made = to_c(assignment_of(steps))  # and C refuses it: the run ends on all ranks
        table = made.places(places)
        assert muster._lib.muster_assignment_try(given, table, 6, muster._ffi.NULL) < 0
        raised(RuntimeError, made.check, "a bug of mine")
    for kind, steps, words in (
        (Invalid, lambda given: None, ("rank 5 to #5", "without gaps")),
        (Invalid, [Shift(), Filter(lambda size: size + 1)], ("6 of 5 run",)),
        (Invalid, [Shift(), Filter(lambda size: -1)], ("-1 of 5 run",)),
        (Invalid, [Group(2, key=lambda place: "x" * 256), Shift()], ("#0 has 256 bytes",)),
        (Invalid, [Group(2, key=lambda place: "a\0b"), Shift()], ("NUL",)),
        (Invalid, Tree([Layer(key="host")]), ("'h0' for #0 and 'h1' for #2",)),
    ):
        raised(kind, lambda: Assignment(steps).apply(places), *words)
    assert numbers(places) == before, "a failure has changed them"
    assert muster.Compose(Max(4), reversed_order, FillGaps()).instances[2] == FillGaps()
    assert Assignment(muster.Compose(Max(4), Shift())).steps == (Shift(), Max(4))


def refused():
    for kind, make, words in (
        (Invalid, lambda: Assignment([Max(4)]), ("step 1 (max)", "must come first")),
        (Invalid, lambda: Assignment([Group(2)]), ("must follow",)),
        (Invalid, lambda: Assignment([]), ("no steps",)),
        (Invalid, lambda: Assignment(Tree([])), ("no layers",)),
        (Invalid, lambda: Assignment(Tree([Layer(min=3, max=2)])), ("`max` is less than `min`",)),
        (Invalid, lambda: Max(0), ("Max: expected a number from 1 on, not 0",)),
        (Invalid, lambda: Multiple(2**32), ("Multiple", str(2**32))),
        (Invalid, lambda: Group(8, key="rack"), ("'rack'", "host, node, label, all")),
        (Invalid, lambda: Group(8, key="label/0"), ("'label/0'", "label/N")),
        (Invalid, lambda: Group(8, key="host/1"), ("'host/1'",)),
        (Invalid, lambda: Layer(max=-1), ("Layer: max", "-1")),
        (TypeError, lambda: Filter(4), ("Filter", "int")),
        (TypeError, lambda: Tree([Shift()]), ("Layer", "Shift")),
        (TypeError, lambda: Assignment(4), ("int",)),
    ):
        raised(kind, make, *words)
    raised(TypeError, lambda: Assignment([Layer()]), "not Layer")
    assert repr(Group(8)) == "Group(count=8, key='host')" != repr(Group(8, "node"))
    assert Tree([Layer(2)]) == Tree([Layer(2)]) != Tree([Layer(3)]) and Shift() != FillGaps()
    assert assignment_of(None) is None and to_c(None)[0] == muster._ffi.NULL


def labels():
    """The label of this process: as it is given, or what a function of the state says."""
    state = muster.State(3, 8)
    for label, wanted in (("rack 7", b"rack 7"), (lambda state: f"rank {state.rank}", b"rank 3")):
        given, _made = to_c(Assignment(Shift(), label=label), state)
        assert muster._ffi.string(given.label) == wanted
    given, _made = to_c(Assignment(Shift()), state)
    assert not given.label


def composed():
    """What callbacks are made of: who is called when, and with what."""
    state, told = muster.State(3, 8, mode=muster.Mode.ACTIVE), []
    raised(AttributeError, lambda: setattr(state, "rank", 4), "rank")

    def first(given):
        told.append(("first", given))
        return "of first"

    def second(given):
        told.append(("second", given))

    assert muster.Compose(second, first)(state) == "of first"
    assert told == [("first", state), ("second", "of first")]
    assert muster.Compose(first, muster.Compose(second, second))(state) == "of first"
    assert [given for _, given in told[2:]] == [state] * 3


def many():
    """Places of a large job."""
    places = [Place(i, previous=i, alive=i % 16 != 5, host=f"h{i // 8}") for i in range(16384)]
    Assignment([Group(8), FillGaps(), Multiple(64)]).apply(places)
    by_name = numbers(places)
    assert sum(number is not None for number in by_name) == 8192
    Assignment([Group(8, key=host), FillGaps(), Multiple(64)]).apply(places)
    assert numbers(places) == by_name


globals()[sys.argv[1]]()
sys.stdout.flush()
os.write(1, b"well\n")
