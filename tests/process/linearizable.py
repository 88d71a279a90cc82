# SPDX-License-Identifier: Apache-2.0
"""A checker of linearizability, for histories of keys that are put, read, compared and set, added to and
deleted.

A history is linearizable if every call appears to take effect at one instant between its start and its
end. Linearizability is local (Herlihy and Wing 1990), so each key is checked alone. The search is that
of Wing and Gong (1993) with Lowe's memo (2017) of the pairs (calls that took effect, state), in Lowe's
order "just in time": a call takes effect only when some call that needs it returns.

A call whose outcome its client does not know may have taken effect, at any time since its start, or may
never do so. It is open for ever, so a search that tries every subset of these calls does not end. Two
rules keep it short. An unknown call takes effect only directly before a call whose outcome needs it. Of
two configurations in one state, the one that used more of the unknown calls is dropped: it can do
nothing that the other cannot.

Nothing in Debian or in the Python index does this. Porcupine (Go) has the same search, and no rule for
unknown calls."""

import collections
import itertools
from typing import NamedTuple

UNKNOWN = "unknown"


class Call(NamedTuple):
    """`args` of put: value; cas: expected revision, value; add: delta. `outcome` is ok, conflict (of
    cas), refused (nothing was changed, and nothing is known) or unknown. `seen` with ok: of put and cas
    the revision (None: not known), of get the value and the revision, or nothing where the key was
    absent, of add the sum."""

    client: int
    start: int
    end: int
    op: str
    key: str
    args: tuple
    outcome: str
    seen: tuple = ()

    def __str__(self):
        words = [*self.args, self.outcome, *self.seen]
        return f"#{self.client} {self.start}..{self.end} {self.op} {self.key} {' '.join(map(str, words))}"


ARGS = {"put": 1, "cas": 2, "add": 1, "get": 0, "delete": 0}


def parse(line):
    """A line that register_client writes."""
    client, start, end, op, key, *rest = line.split()
    args = tuple(map(int, rest[:ARGS[op]]))
    outcome, *seen = rest[ARGS[op]:]
    return Call(int(client), int(start), int(end), op, key, args, outcome, tuple(map(int, seen)))


# ---- the model ----


class State(NamedTuple):
    """A key. `value` None: it is absent. `revision` None: it has one that no call has shown, which is
    larger than `low`, the largest that a call has shown. Revisions only grow."""

    value: int | None = None
    revision: int | None = 0
    low: int = 0


def known(value, revision, low):
    """The state after a write with this revision; None: no such write can follow."""
    if revision is None:
        return State(value, None, low)
    return State(value, revision, revision) if revision > low else None


def may_have(state, revision):
    """Whether the key's revision may be this one (0: it is absent)."""
    if state.value is None or revision == 0:
        return state.value is None and revision == 0
    return state.revision == revision or (state.revision is None and revision > state.low)


def must_have(state, revision):
    """What is excluded for a revision that no call has shown is not kept. Clients expect only what a
    call has shown to them, and what is not shown yet is larger."""
    return state.revision == revision


def apply(state, call):
    """The state after the call, or None: it cannot end like this in this state. Of an unknown call, the
    state if it takes effect."""
    seen = call.seen or (None,)
    if call.op == "put":
        return known(call.args[0], seen[0], state.low)
    if call.op == "delete":
        return State(None, 0, state.low)
    if call.op == "add":
        total = (state.value or 0) + call.args[0]
        return State(total, None, state.low) if seen[0] in (None, total) else None
    if call.op == "cas":
        expected, value = call.args
        if call.outcome == "conflict":
            return None if must_have(state, expected) else state
        if not may_have(state, expected):
            return None
        return known(value, seen[0], max(state.low, expected))
    if not call.seen:
        return state if state.value is None else None
    value, revision = call.seen
    if state.value != value or not may_have(state, revision):
        return None
    return State(value, revision, max(state.low, revision))


# ---- the search ----


class Open:
    """The unknown calls that have started."""

    def __init__(self):
        self.calls = []
        self.down = self.up = 0     # what all additions together may do to a value
        self.expects = 0            # the largest revision that a cas expects
        self.inserts = False        # whether a cas expects an absent key

    def start(self, call):
        self.calls.append(call)
        if call.op == "add":
            self.down += min(call.args[0], 0)
            self.up += max(call.args[0], 0)
        if call.op == "cas":
            self.expects = max(self.expects, call.args[0])
            self.inserts = self.inserts or call.args[0] == 0

    def may_lead_to(self, state, value):
        """Whether these may make `value` of the state; True where that is not plain."""
        may_set = self.inserts if state.value is None else (state.revision is None and
                                                            self.expects > state.low)
        if state.value == value or may_set:
            return True
        return value is not None and self.down <= value - (state.value or 0) <= self.up

    def candidates(self, used):
        """Each that is not used. Of calls that are alike the first one: they are interchangeable."""
        alike = set()
        for number, call in enumerate(self.calls):
            if not used >> number & 1 and (call.op, call.args) not in alike:
                alike.add((call.op, call.args))
                yield number, call


def wanted(call):
    """(the value that the key must have before the call,), or () where no value matters."""
    if call.op == "get":
        return (call.seen[0] if call.seen else None,)
    if call.op == "cas" and call.outcome == "ok" and call.args[0] == 0:
        return (None,)
    return (call.seen[0] - call.args[0],) if call.op == "add" and call.seen else ()


def beyond_help(state, call):
    """No unknown call before it makes the call end as it did: it does not depend on the value, or
    expects a revision that is past."""
    if call.op == "cas" and call.outcome == "ok":
        return 0 < call.args[0] <= state.low
    return call.op in ("put", "delete")


class Least:
    """The sets of unknown calls with which something was reached, without any that contains another."""

    def __init__(self):
        self.sets = collections.defaultdict(list)

    def add(self, what, used):
        """Whether it is new."""
        if any(less & used == less for less in self.sets[what]):
            return False
        self.sets[what] = [more for more in self.sets[what] if used & more != used] + [used]
        return True


def prepare(opened, state, used, call):
    """The (state, used) in which the call can end as it did, by as few unknown calls as possible."""
    if apply(state, call) is not None:
        return [(state, used)]
    found, least, layer = [], Least(), [(state, used)]
    target = wanted(call)
    while layer:
        further = []
        for before, so_far in layer:
            if apply(before, call) is not None:
                found.append((before, so_far))
            elif not beyond_help(before, call):
                for number, unknown in opened.candidates(so_far):
                    after = apply(before, unknown)
                    if (after is not None and (not target or opened.may_lead_to(after, target[0])) and
                            least.add(after, so_far | 1 << number)):
                        further.append((after, so_far | 1 << number))
        layer = further
    return found


class Violation(NamedTuple):
    """No order explains the calls of the key up to the return of this one."""

    key: str
    call: Call
    states: tuple   # those that the key may have been in before
    around: tuple   # calls that overlap it

    def __str__(self):
        lines = [f"key {self.key}: no order of the calls explains: {self.call}",
                 *(f"  it may have been in {state}" for state in self.states[:10]),
                 *(f"  meanwhile {call}" for call in self.around[:40])]
        return "\n".join(lines)


def returned(bit, waiting, opened, configurations):
    """The configurations in which the call of this bit has taken effect. A configuration is (state, bits
    of the calls that took effect and have not returned) with the unknown calls that were used."""
    reached, seen = Least(), Least()
    work = [(*where, used) for where, sets in configurations.sets.items() for used in sets]
    while work:
        state, done, used = work.pop()
        if done & bit:
            reached.add((state, done ^ bit), used)
            continue
        for other, call in waiting.items():
            if not done & other:
                for before, more in prepare(opened, state, used, call):
                    after = (apply(before, call), done | other)
                    if seen.add(after, more):
                        work.append((*after, more))
    return reached


def events(calls):
    """(call, whether it returns), in their order. A call that starts at the instant at which another
    ends overlaps it. An unknown call never returns."""
    found = [(call.start, 0, call) for call in calls]
    found += [(call.end, 1, call) for call in calls if call.outcome != UNKNOWN]
    return [(call, returns) for _, returns, call in sorted(found, key=lambda event: event[:2])]


def check_key(key, calls):
    """None, or the violation."""
    opened, configurations = Open(), Least()
    configurations.add((State(), 0), 0)
    waiting, bits = {}, {}  # call by bit, and bit by call
    for call, returns in events(calls):
        if call.outcome == UNKNOWN:
            opened.start(call)
        elif not returns:
            bits[call] = next(bit for bit in (1 << n for n in itertools.count()) if bit not in waiting)
            waiting[bits[call]] = call
        else:
            after = returned(bits[call], waiting, opened, configurations)
            if not after.sets:
                return Violation(key, call, tuple({state for state, _ in configurations.sets}),
                                 tuple(one for one in calls if one.start <= call.end and
                                       (one.end >= call.start and one != call)))
            del waiting[bits.pop(call)]
            configurations = after
    return None


def check(history):
    """The violations of a history, at most one of each key. What was refused has changed nothing, and
    a read without an answer has seen nothing."""
    keys = collections.defaultdict(list)
    for call in history:
        if call.outcome != "refused" and (call.op, call.outcome) != ("get", UNKNOWN):
            keys[call.key].append(call)
    return [found for key, calls in sorted(keys.items()) if (found := check_key(key, calls))]
