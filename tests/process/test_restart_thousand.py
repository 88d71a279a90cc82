# SPDX-License-Identifier: Apache-2.0
"""What is only seen when it is done a thousand times: deaths at the seal, and restarts in one process.
A job lasts for all of them; with a sanitizer, which makes each start slow, there are fewer.

behaviour: restart
"""

import itertools
import os
import random
import signal
import time
from functools import partial

from conftest import WAIT_S, sanitized
from restarting import job, pids  # noqa: F401
from running import until

TIMES = 500 if sanitized() else 1000
FAST = {"MUSTER_GRACE": "1ms"}
# From the moment at which a rank was told: within it, it comes to the seal, and so does the last one.
SPREAD_S = 0.006 if sanitized() else 0.002
# What leaks at each restart grows in each of these parts of all restarts; a table that gets its size once,
# a queue that is longer once, only in one or two. So most parts grow by less than this: by 40 bytes
# for each restart. All of them together by no more than the other.
PARTS = 5
PART_KIB = 8
ROOM_KIB = 256
PROCESS_KIB = 2


class Agreement:
    """What the ranks of each generation say of it."""

    def __init__(self):
        self.generations = {}

    def hear(self, events):
        for event in events:
            if event.what == "entered":
                self.entered(event)

    def entered(self, event):
        said = self.generations.setdefault(event["generation"], {"pids": {}})
        for key in ("size", "iteration"):
            assert said.setdefault(key, event[key]) == event[key], f"{said} but {event}"
        assert event["RANK"] == event["rank"]
        rank = event.number("rank")
        assert rank < int(said["size"])
        assert said["pids"].setdefault(rank, event.pid) == event.pid, f"{said} but {event}"
        assert list(said["pids"].values()).count(event.pid) == 1, f"{said} but {event}"


def meet(job, ranks):
    """Each of them is told who the members are, by rank, and all are told the same."""
    mark = job.mark()
    job.order(ranks, "meet")
    met = job.wait("met", len(ranks), mark)
    assert {event["status"] for event in met} == {"MUSTER_OK"}, met
    assert {event["members"] for event in met} == {",".join(str(rank.pid) for rank in ranks)}


def act_at(acts):
    """Does each of them so many seconds from now."""
    begin = time.monotonic()
    for after, act in sorted(acts, key=lambda one: one[0]):
        time.sleep(max(0, begin + after - time.monotonic()))
        act()


def killed_at_the_seal(job, ranks, dice):
    """One rank stands at the seal, or comes there: its death, and the arrival of the one for whom
    the seal waits, come at any moment and in any order; sometimes another one dies too. Returns the
    ranks of the next whole generation, and whether that one never entered another one."""
    mark = job.mark()
    failed, holder, other, victim = dice.sample(ranks, 4)
    if dice.random() < 0.25:
        victim = failed
    victims = [victim, other] if dice.random() < 0.1 else [victim]
    job.order([holder], "atomic")
    if dice.random() < 0.3:
        job.order([other], "block " + dice.choice(["read", "barrier", "semaphore"]))
    job.wait("atomic", 1, mark, status="MUSTER_OK")
    job.order([failed], "fail 1 at random")
    while not any(event.pid == victim.pid and event.what in ("told", "returns", "freed")
                  for event in job.events[mark:]):
        assert job.see(WAIT_S), "it is not told"
    moments = [(dice.uniform(0, SPREAD_S), partial(os.kill, one.pid, signal.SIGKILL))
               for one in victims]
    act_at([*moments, (dice.uniform(0, SPREAD_S), partial(job.order, [holder], "atomic-end"))])
    again = whole(job, ranks, mark, pids(victims))
    return again, not any(
        event.pid == victim.pid and event.what == "entered" for event in job.events[mark:])


def whole(job, ranks, mark, gone):
    """The generation in which as many are as before, those who are left and new ones."""
    while True:
        generations = {}
        for event in job.events[mark:]:
            if event.what == "entered" and event.number("size") == len(ranks):
                generations.setdefault(event["generation"], {})[event.pid] = event
        for found in generations.values():
            if len(found) == len(ranks) and not gone & set(found):
                assert pids(ranks) - gone < set(found)
                return sorted(found.values(), key=lambda event: event.number("rank"))
        if not job.see(WAIT_S):
            job.fail("no generation is whole")


def test_killed_in_fault_barrier_all_agree_35(job):
    """A rank is killed while it waits at the seal, 1,000 times, at any moment; sometimes another
    one with it. All survivors agree on size, ranks, iteration and members of every generation;
    each stays in its process."""
    dice = random.Random(35)
    agreement = Agreement()
    job.run(4, "--max-restarts", 2 * TIMES, "--min-size", 1, **FAST)
    ranks = job.entered(4)
    at_seal = 0
    began = time.monotonic()
    for _ in range(TIMES):
        mark = job.mark()
        ranks, waiting = killed_at_the_seal(job, ranks, dice)
        at_seal += waiting
        meet(job, ranks)
        agreement.hear(job.events[mark:])
    print(f"{TIMES} deaths in {time.monotonic() - began:.0f} s, {at_seal} of them at the seal, "
          f"{len(agreement.generations)} generations")
    assert at_seal >= TIMES / 4
    mark = job.mark()
    job.order(ranks, "ok")
    job.finish(4, mark)
    job.ended()


# ---- restarts of one process ----


def holds(pid):
    """(KiB, descriptors, threads). Not the pages of files, which the kernel maps and takes away as it likes."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        held = sum(int(line.split()[1]) for line in file if line.startswith(("Anonymous:", "Swap:")))
    return held, len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))


def holds_again(pid, before):
    """As many descriptors and threads as at the first look, once it has let go of what it still has
    of a process that has just ended."""
    if not before:
        return holds(pid)
    return until(lambda: (now := holds(pid))[1:] == before[0][1:] and now)


def service_of(job):
    with open(f"/proc/{job.runner.pid}/task/{job.runner.pid}/children", encoding="ascii") as file:
        children = [int(pid) for pid in file.read().split()]
    (service,) = [pid for pid in children
                  if open(f"/proc/{pid}/cmdline", encoding="utf-8").read().split("\0")[1] == "serve"]
    return service


SAYS = {"atomic": "atomic", "section": "section", "block": "blocked", "check": "checked"}


def fails(job, ranks, before=None):
    """The next attempt after a fault of the second rank; `before`: what the first one does then."""
    mark = job.mark()
    if before:
        job.order(ranks[:1], before)
        job.wait(SAYS[before.split(" ")[0]], 1, mark)
    job.order(ranks[1:2], "fail 1 a neighbour")
    if before == "atomic":
        job.order(ranks[:1], "atomic-end")
    return job.entered(len(ranks), mark, size=len(ranks))


def fails_itself(job, ranks):
    mark = job.mark()
    job.order(ranks[:1], "fail 1 itself")
    return job.entered(len(ranks), mark, size=len(ranks))


def begins_again(job, ranks):
    mark = job.mark()
    job.order(ranks[:1], "again")
    return job.entered(len(ranks), mark, size=len(ranks))


def neighbour_is_killed(job, ranks):
    """And started again."""
    mark = job.mark()
    os.kill(ranks[-1].pid, signal.SIGKILL)
    return whole(job, ranks, mark, {ranks[-1].pid})


def test_restarted_a_thousand_times_and_nothing_has_grown_87(job):
    """There are 1,000 restarts in one process, with callbacks of every kind, open sections, calls
    that are cut, and a neighbour that is started again. Memory does not grow with them, and
    descriptors and threads are as after the first ten; those of the service and of `muster run`
    too, but for what the run keeps of each process that ended."""
    turns = [fails, fails_itself, begins_again, neighbour_is_killed,
             *(partial(fails, before=words) for words in
               ("atomic", "section compile 60000", "block read", "block barrier", "check"))]
    job.run(3, "--max-restarts", TIMES, "--min-size", 1, **FAST,
            RR_CALLBACKS="precondition,initialize,health,abort,finalize,completion,terminate")
    ranks = job.entered(3)
    who = {"rank": ranks[0].pid, "run": job.runner.pid, "service": service_of(job)}
    held = {name: [] for name in who}
    began = time.monotonic()
    for turn in itertools.count():
        ranks = turns[turn % len(turns)](job, ranks)
        assert ranks[0].pid == who["rank"]
        if ranks[0].number("iteration") < 10:
            continue
        for name, pid in who.items():
            held[name].append(holds_again(pid, held[name]))
        if ranks[0].number("iteration") >= TIMES:
            break
    print(f"{TIMES} restarts in {time.monotonic() - began:.0f} s")
    for name, seen in held.items():
        kib = [one[0] for one in seen]
        ends = [kib[part * (len(kib) - 1) // PARTS] for part in range(PARTS + 1)]
        grown = [after - before for before, after in zip(ends, ends[1:])]
        print(f"{name}: {seen[0]}, at most {max(kib)} KiB, grown by {grown}")
        # The run keeps what it knows of a process that ended: one of them may be the first cause.
        kept = (turn // len(turns) + 1) * PROCESS_KIB if name == "run" else 0
        assert sanitized() or sorted(grown)[PARTS // 2] <= PART_KIB + kept / PARTS, (name, grown)
        assert sanitized() or max(kib) - kib[0] <= ROOM_KIB + kept, (name, grown)
    mark = job.mark()
    job.order(ranks, "ok")
    job.finish(3, mark)
    job.ended()
