# SPDX-License-Identifier: Apache-2.0
"""Random histories of keys, for the tests of the checker: of a real register, whose answers are those of
one order, and of answers that are drawn."""

import heapq
import itertools

from linearizable import UNKNOWN, Call, State, apply


class Register:
    """A key as the service keeps it, with revisions that only grow."""

    def __init__(self):
        self.value, self.revision, self.last = None, 0, 0

    def write(self, value):
        self.last += 1
        self.value, self.revision = value, self.last if value is not None else 0

    def do(self, op, args):
        """(outcome, seen)"""
        if op == "get":
            return "ok", (self.value, self.revision) if self.value is not None else ()
        if op == "cas" and args[0] != self.revision:
            return "conflict", ()
        if op == "add":
            self.write((self.value or 0) + args[0])
            return "ok", (self.value,)
        self.write(None if op == "delete" else args[-1])
        return "ok", () if op == "delete" else (self.revision,)


def draw(dice, number, last):
    """(op, args) of the next call of a client that has seen the key at revision `last`."""
    op = dice.choices(("get", "put", "cas", "add", "delete"), (35, 20, 20, 20, 5))[0]
    value = number * 10000
    return op, {"put": (value,), "cas": (last, value), "add": (1,)}.get(op, ())


class Simulated:
    """Clients that call one register each after its own last call. Every call takes effect at an instant
    between its start and its end; some are not answered, and take effect much later or never."""

    def __init__(self, dice, clients, calls, keys=1, unknown=0.0):
        self.dice, self.keys, self.unknown = dice, keys, unknown
        self.history, self.numbers = [], itertools.count(1)
        self.registers = {f"k{key}": Register() for key in range(keys)}
        self.last = {}      # (client, key): the revision that it saw
        self.left = dict.fromkeys(range(clients), calls)
        self.events, self.order = [], itertools.count()
        for client in range(clients):
            self.at(dice.randrange(100), self.begin, client)
        while self.events:
            now, _, what, words = heapq.heappop(self.events)
            what(now, *words)

    def at(self, when, what, *words):
        heapq.heappush(self.events, (when, next(self.order), what, words))

    def begin(self, now, client):
        if self.left[client] == 0:
            return
        self.left[client] -= 1
        key = f"k{self.dice.randrange(self.keys)}"
        op, args = draw(self.dice, next(self.numbers), self.last.get((client, key), 0))
        if self.dice.random() < self.unknown:
            end = now + self.dice.randrange(1, 100)
            self.history.append(Call(client, now, end, op, key, args, UNKNOWN))
            if self.dice.random() < 0.5:
                self.at(now + self.dice.randrange(1, 2000), self.late, key, op, args)
            self.at(end + 1, self.begin, client)
        else:
            self.at(now + self.dice.randrange(1, 50), self.take, client, now, key, op, args)

    def late(self, _, key, op, args):
        self.registers[key].do(op, args)

    def take(self, now, client, start, key, op, args):
        outcome, seen = self.registers[key].do(op, args)
        if op in ("put", "cas", "get") and outcome == "ok":
            self.last[client, key] = seen[-1] if seen else 0
        end = now + self.dice.randrange(1, 50)
        self.history.append(Call(client, start, end, op, key, args, outcome, seen))
        self.at(end + 1, self.begin, client)


def drawn(dice, calls):
    """A few calls whose answers are drawn: some are linearizable, some not."""
    history = []
    for client in range(calls):
        start = dice.randrange(12)
        op = dice.choice(("get", "put", "cas", "add", "delete"))
        value = dice.randrange(1, 4)
        args = {"put": (value,), "cas": (dice.randrange(4), value),
                "add": (dice.choice((-1, 1, 2)),)}.get(op, ())
        outcome, seen = "ok", ()
        if dice.random() < 0.25:
            outcome = UNKNOWN
        elif op == "cas" and dice.random() < 0.5:
            outcome = "conflict"
        elif op in ("put", "cas"):
            seen = (dice.randrange(1, 6),)
        elif op == "add":
            seen = (dice.randrange(0, 5),)
        elif op == "get" and dice.random() < 0.8:
            seen = (dice.randrange(1, 5), dice.randrange(1, 6))
        history.append(Call(client, start, start + dice.randrange(1, 8), op, "k", args, outcome, seen))
    return history


def explained(history, state=State()):
    """By trying every order of every choice of the unknown calls: for a few calls."""
    if all(call.outcome == UNKNOWN for call in history):
        return True
    first_end = min(call.end for call in history if call.outcome != UNKNOWN)
    for number, call in enumerate(history):
        rest = history[:number] + history[number + 1:]
        if call.start <= first_end:
            after = apply(state, call)
            if after is not None and explained(rest, after):
                return True
    return False
