# SPDX-License-Identifier: Apache-2.0
"""The checker of linearizability that the strikes on the service are judged by: what it takes, and what
it notices.

behaviour: service / Linearizability
"""

import random
import time

import pytest

from histories import Register, Simulated, drawn, explained
from linearizable import UNKNOWN, Call, check, parse

CALLS = 2000    # of each of 8 clients, on 5 keys
CHECKED_S = 30  # on a machine that has much else to do; alone it takes two
TINY = 4000
SEEDS = 30


def history(*lines):
    return [parse(line) for line in lines]


@pytest.mark.parametrize("what, lines", [
    ("a stale read", ["0 0 1 put k 7 ok 1", "0 2 3 put k 8 ok 2", "1 4 5 get k ok 7 1"]),
    ("a lost write", ["0 0 1 put k 7 ok 1", "1 2 3 get k ok"]),
    ("an addition that was applied twice", ["0 0 1 add k 1 ok 1", "0 2 3 add k 1 ok 3"]),
    ("one that was applied twice and not answered", ["0 0 1 add k 1 unknown", "1 2 3 get k ok 2 2"]),
    ("a cas that succeeded twice", ["0 0 1 put k 7 ok 1", "1 2 5 cas k 1 8 ok 2", "2 2 5 cas k 1 9 ok 3"]),
    ("a cas that is refused for nothing", ["0 0 1 put k 7 ok 1", "0 2 3 cas k 1 8 conflict"]),
    ("a read that shows a value for a moment", ["0 0 1 put k 7 ok 1", "1 0 9 put k 8 unknown",
                                                "2 2 3 get k ok 8 2", "2 4 5 get k ok 7 1"]),
    ("a write that took effect before its start", ["0 0 1 get k ok 7 1", "1 2 3 put k 7 ok 1"]),
    ("a delete that took no effect", ["0 0 1 put k 7 ok 1", "0 2 3 delete k ok", "0 4 5 get k ok 7 1"]),
    ("a revision that falls", ["0 0 1 put k 7 ok 5", "0 2 3 put k 8 ok 4"])])
def test_what_no_order_explains_is_noticed(what, lines):
    """A history has a stale read, a lost write, an addition that was applied twice, a cas that
    succeeded twice, or another answer that no order of its calls explains. The checker names
    the key and the call."""
    found = check(history("0 0 9 put other 5 ok 3", *lines))
    assert [violation.key for violation in found] == ["k"], what
    assert "key k: no order of the calls explains: #" in str(found[0])


@pytest.mark.parametrize("what, lines", [
    ("calls that overlap take effect in any order", ["0 0 9 put k 7 ok 2", "1 0 9 put k 8 ok 1",
                                                     "2 3 4 get k ok", "2 10 11 get k ok 7 2"]),
    ("it was never applied", ["0 0 1 put k 7 ok 1", "1 0 1 put k 8 unknown", "2 2 3 get k ok 7 1"]),
    ("it is applied much later", ["1 0 1 put k 8 unknown", "0 2 3 put k 7 ok 1", "2 4 5 get k ok 7 1",
                                  "2 6 7 get k ok 8 2"]),
    ("several of them", ["1 0 1 add k 1 unknown", "2 0 1 add k 2 unknown", "3 0 1 add k 5 unknown",
                         "0 2 3 get k ok 6 2", "0 4 5 add k 1 ok 9"]),
    ("a delete, and an insert", ["0 0 1 put k 7 ok 1", "1 2 3 delete k unknown", "2 2 3 cas k 0 8 unknown",
                                 "0 4 5 get k ok 8 3"]),
    ("a cas of what an unknown write has written", ["0 0 1 add k 1 unknown", "1 0 1 get k ok 1 1",
                                                    "1 2 3 cas k 1 5 ok 2"]),
    ("what was refused has changed nothing", ["0 0 1 put k 7 refused", "1 2 3 get k ok"]),
    ("a read without an answer", ["0 0 1 get k unknown", "1 2 3 get k ok"])])
def test_an_unknown_outcome_stays_open(what, lines):
    """The client of a call has no answer. The call may have taken effect at any time since its
    start, or may never do so; a history that one of these explains is taken."""
    assert check(history(*lines)) == [], what


def test_histories_of_a_register_are_taken():
    """Random clients call a register, and some calls are not answered. The checker takes each
    such history; one of 8 clients with 2,000 calls on 5 keys takes it seconds."""
    for seed in range(SEEDS):
        assert check(Simulated(random.Random(seed), 8, 60, 2, unknown=seed / SEEDS / 6).history) == []
    large = Simulated(random.Random(SEEDS), 8, CALLS, 5, unknown=0.01).history
    assert len(large) == 8 * CALLS
    began = time.monotonic()
    assert check(large) == []
    assert time.monotonic() - began < CHECKED_S


class Faulty(Register):
    """One that does something wrong, rarely: `wrong` says what."""

    dice, wrong = None, None

    def __init__(self):
        super().__init__()
        self.before = (None, 0)
        self.done = 0

    def do(self, op, args):
        if self.dice.random() < 0.02 and (found := getattr(self, self.wrong)(op, args)):
            self.done += 1
            return found
        if op != "get":
            self.before = (self.value, self.revision)
        return super().do(op, args)

    def stale_read(self, op, _):
        value, revision = self.before
        return ("ok", (value, revision)) if (op == "get" and value is not None and
                                              self.before != (self.value, self.revision)) else None

    def lost_write(self, op, args):
        if op != "put":
            return None
        self.last += 1
        return "ok", (self.last,)

    def double_add(self, op, args):
        return op == "add" and (super().do(op, args), super().do(op, args))[1]

    def double_cas(self, op, args):
        if op != "cas" or args[0] in (0, self.revision):
            return None
        self.write(args[1])
        return "ok", (self.revision,)


@pytest.mark.parametrize("wrong", ["stale_read", "lost_write", "double_add", "double_cas"])
def test_a_register_that_is_wrong_at_times_is_noticed(monkeypatch, wrong):
    """A register rarely gives a stale read, loses a write, applies an addition twice, or lets a
    cas of a past revision succeed. The checker notices, and takes the histories without."""
    monkeypatch.setattr("histories.Register", Faulty)
    monkeypatch.setattr(Faulty, "wrong", wrong)
    noticed = 0
    for seed in range(SEEDS):
        monkeypatch.setattr(Faulty, "dice", random.Random(seed))
        made = Simulated(random.Random(seed), 3, 200, 1)
        found = check(made.history)
        if made.registers["k0"].done == 0:
            assert found == []
        noticed += len(found)
    # Concurrent calls hide some: a write that is lost is overwritten, a read is stale by an instant.
    assert noticed > SEEDS / 3


def test_the_checker_agrees_with_trying_every_order():
    """Thousands of tiny histories have answers that are drawn. The checker's verdict is the one
    that comes of trying every order of the calls."""
    taken = 0
    for seed in range(TINY):
        dice = random.Random(seed)
        tiny = [call for call in drawn(dice, dice.randrange(2, 7))
                if (call.op, call.outcome) != ("get", UNKNOWN)]
        found = check(tiny)
        assert (found == []) == explained(tiny), "\n".join(map(str, [f"seed {seed}", *tiny]))
        taken += found == []
    assert TINY / 10 < taken < TINY * 9 / 10


def test_a_line_of_a_client_is_read():
    """A client writes its calls as lines. The checker reads them."""
    assert parse("3 10 20 cas k1 4 70000 ok 9") == Call(3, 10, 20, "cas", "k1", (4, 70000), "ok", (9,))
    assert parse("3 10 20 get k1 ok") == Call(3, 10, 20, "get", "k1", (), "ok")
