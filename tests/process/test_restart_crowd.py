# SPDX-License-Identifier: Apache-2.0
"""Many ranks through many faults of all kinds: what is left is exactly what was not taken away.

64 processes, 56 of which run the function; the others are spares. In each attempt one to three
ranks fail, are killed, stopped, or hang, and in some of them another is killed at any moment of
the restart.

behaviour: restart
"""

import os
import random
import signal

from conftest import WAIT_S, sanitized
from restarting import job  # noqa: F401

SEATS = 56
SPARES = 8
ATTEMPTS = 40 if sanitized() else 200
SEED = int(os.environ.get("MUSTER_SEED", 46))
# Who waits for a processor no longer than that does not hang: 64 processes begin again at once.
TIMES = {
    "MUSTER_SOFT_TIMEOUT": "4800ms",
    "MUSTER_HARD_TIMEOUT": "7200ms",
    "MUSTER_GRACE": "1600ms",
    "MUSTER_STALLED_MAX": "-1",
    "RR_BEAT": "50",
}
# These take as long as the limits of time are: so many attempts have one of them.
SLOW_PART = 0.12 if sanitized() else 0.05
DEAF = ("block deaf", "block spin", "block mutex", "block sleep-on")
EFAILED = -17
# What those who were lost were ended by.
LOSSES = {"signal": {signal.SIGKILL}, "hard-timeout": {signal.SIGTERM, signal.SIGKILL}}


class Generation:
    """What those who entered it have told of it."""

    def __init__(self, event, records):
        self.number = event.number("generation")
        self.iteration, self.size = event.number("iteration"), event.number("size")
        self.records = records  # of the one before
        self.ranks = {}  # who entered: {pid: its event}
        self.failed = set()

    def whole(self):
        return len(self.ranks) == self.size


class Crowd:
    """A job whose events are sorted as they come, and what is done to it."""

    def __init__(self, job):
        self.job = job
        self.generations = {}
        self.told = {}  # {(pid, generation): [record]}, until it has entered
        self.at = {}  # {pid: its newest generation}
        self.spares = set()
        self.lost = {}  # what was done to it: {pid: (generation, kinds of its record, codes)}
        self.hangs = set()  # (generation, pid)
        self.blocked = set()

    def see(self):
        if not self.job.see(WAIT_S):
            self.job.fail("nobody does anything any more")
        event = self.job.events[-1]
        if event.what == "fault":
            record = (event["kind"], event.number("index"), event.number("code"),
                      event.number("of"), event.number("generation"))
            self.told.setdefault((event.pid, event.number("entry")), []).append(record)
        elif event.what == "entered":
            self.enters(event)
        elif event.what == "joined" and event["spare"] == "1":
            self.spares.add(event.pid)
        elif event.what == "returns" and event.number("status") == EFAILED:
            self.generations[self.at[event.pid]].failed.add(event.pid)
        elif event.what == "blocked":
            self.blocked.add(event.pid)
        return event

    def enters(self, event):
        """All who are in a generation saw the same view, iteration and records."""
        number = event.number("generation")
        records = self.told.pop((event.pid, number), [])
        generation = self.generations.setdefault(number, Generation(event, records))
        seen = (event.number("iteration"), event.number("size"), records)
        assert seen == (generation.iteration, generation.size, generation.records), event.line
        assert event.number("faults") == len(records), event.line
        assert 0 <= event.number("rank") < generation.size and event["spare"] == "0", event.line
        assert event["rank"] not in {one["rank"] for one in generation.ranks.values()}, event.line
        assert self.at.get(event.pid, 0) < number, event.line
        generation.ranks[event.pid] = event
        self.at[event.pid] = number
        self.spares.discard(event.pid)

    def newest(self):
        return self.generations[max(self.generations)] if self.generations else None

    def next(self, after, spares=0):
        """The next generation, all of whose ranks have entered and none was taken away; once so many
        spares wait."""
        while True:
            now = self.newest()
            if (now and now.number > after and now.whole() and now.size == SEATS
                    and not now.ranks.keys() & self.lost.keys() and len(self.spares) >= spares):
                return now
            self.see()

    # ---- what is done ----

    def hang(self, generation, rank, order, deaf):
        self.blocked.discard(rank.pid)
        self.job.order([rank], order)
        while rank.pid not in self.blocked and self.newest() is generation:
            self.see()
        if rank.pid in self.blocked:
            self.hangs.add((generation.number, rank.pid))
            if deaf:
                self.lost[rank.pid] = (generation.number, {"hard-timeout"})

    def kill(self, generation, rank, number):
        hard = number == signal.SIGSTOP
        self.lost[rank.pid] = (generation.number, {"hard-timeout"} if hard else {"signal"})
        if hard:
            self.hangs.add((generation.number, rank.pid))
        os.kill(rank.pid, number)

    def take(self, dice, generation, avoid):
        """Hangs first and failures last, for whoever was told to stop does as it is told no more."""
        count = dice.randrange(1, 4)
        victims = dice.sample([rank for pid, rank in sorted(generation.ranks.items())
                               if pid not in avoid], count)
        slow = dice.random() < SLOW_PART
        what = dice.choice(["hang", "deaf", "stop"]) if slow else ""
        if what == "hang":
            self.hang(generation, victims[0], "block read", False)
        elif what == "deaf":
            self.hang(generation, victims[0], dice.choice(DEAF), True)
        elif what == "stop":
            self.kill(generation, victims[0], signal.SIGSTOP)
        rest = victims[1:] if slow else victims
        if slow and dice.random() < 0.5:
            rest = []
        killed = [rank for rank in rest if dice.random() < 0.4]
        for rank in killed:
            self.kill(generation, rank, signal.SIGKILL)
        for rank in rest:
            if rank not in killed:
                self.job.order([rank], f"fail {generation.iteration} in this attempt")
        if dice.random() < 0.3:
            self.kill_later(dice)
        return {victims[0].pid} if slow else set()

    def kill_later(self, dice):
        for _ in range(dice.randrange(2 * SEATS)):
            self.see()
        generation = self.newest()
        left = sorted(generation.ranks.keys() - self.lost.keys())
        if left:
            self.kill(generation, generation.ranks[dice.choice(left)], signal.SIGKILL)

    # ---- what came of it ----

    def history(self):
        """Between two generations exactly those are lost who were taken away, each recorded once."""
        numbers = sorted(self.generations)
        recorded = set()
        for before, after in zip(numbers, numbers[1:]):
            self.step(self.generations[before], self.generations[after], recorded)
        left = self.generations[numbers[-1]].ranks.keys()
        assert self.at.keys() - left <= self.lost.keys(), "somebody was lost on the way"
        for pid in self.lost.keys() - recorded:
            last = self.at[pid]  # that it was in, but for one that it did not come to enter
            assert not {last + 1, last + 2} <= self.generations.keys(), f"{pid} is not recorded"

    def step(self, before, after, recorded):
        gap = after.number - before.number  # some may have been over before anybody was in them
        assert 1 <= after.iteration - before.iteration <= gap
        gone = before.ranks.keys() - after.ranks.keys()
        assert not after.whole() or gone <= self.lost.keys(), "somebody was lost to whom nothing was done"
        assert not after.ranks.keys() & recorded, "somebody came back"
        self.seats(before, after)
        if gap > 1:
            return
        if not after.records:
            assert after.size > before.size, "a restart without a fault"
        for kind, index, code, pid, generation in after.records:
            assert generation == before.number
            self.record(before, kind, index, code, pid)
            if kind in LOSSES:
                assert pid not in recorded
                recorded.add(pid)
        told = {pid for kind, _, _, pid, _ in after.records if kind == "failed"}
        # Who is killed as it returns may not have come to say why.
        killed = {pid for pid, (number, _) in self.lost.items() if number == before.number}
        assert told <= before.failed, "who is in the record has not failed"
        assert before.failed - told <= killed, "who failed is not in the record"

    def seats(self, before, after):
        """Who had one before, entered or not: all others have come since."""
        new = after.ranks.keys() - before.ranks.keys()
        old = {pid for pid in new if self.first(pid) < before.number}
        old |= {pid for _, _, _, pid, generation in after.records if generation == before.number}
        seated = len(before.ranks.keys() | old)
        assert seated <= before.size, "somebody was passed over"
        assert before.size <= seated + len(new - old), "somebody is missing"

    def first(self, pid):
        return min(number for number, one in self.generations.items() if pid in one.ranks)

    def record(self, before, kind, index, code, pid):
        if pid in before.ranks:
            assert before.ranks[pid].index == index
        if kind == "failed":
            assert pid in before.failed and code == before.iteration
        elif kind == "soft-timeout":
            assert (before.number, pid) in self.hangs, "somebody was flagged who did not hang"
        else:
            assert kind in self.lost[pid][1], (kind, pid)
            assert code in LOSSES[kind], (kind, code)


def test_64_processes_live_through_200_attempts_with_every_kind_of_fault_46(job, record_property):
    """64 processes, 8 of which are spares, live through 200 attempts; in each one to four fail,
    are killed, stopped or hang, by a fixed seed, some at any moment of the restart. There is
    no hang; all that were in a generation saw the same view, iteration and record; exactly the
    struck ones are lost, and each fault is recorded once, as what it was."""
    dice = random.Random(SEED)
    crowd = Crowd(job)
    job.run(SEATS, "--spares", SPARES, "--max-restarts", 100000, **TIMES)
    generation = crowd.next(0, SPARES)
    avoid = set()
    while generation.iteration < ATTEMPTS:
        avoid = crowd.take(dice, generation, avoid)
        # As many spares as can be lost in one attempt.
        generation = crowd.next(generation.number, 4)
    generation = crowd.next(generation.number - 1, SPARES)
    crowd.history()
    kinds = [record[0] for one in crowd.generations.values() for record in one.records]
    for kind in ("failed", "signal", "soft-timeout", "hard-timeout"):
        assert kind in kinds
        record_property(kind, kinds.count(kind))
    job.order(generation.ranks.values(), "ok")
    closed = set()
    while len(closed) < SEATS + SPARES:
        event = crowd.see()
        if event.what == "done":
            assert event["status"] == "MUSTER_OK", event.line
            job.order([event], "end")
        elif event.what == "closed":
            closed.add(event.pid)
    job.ended()
