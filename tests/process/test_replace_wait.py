# SPDX-License-Identifier: Apache-2.0
"""Jobs of fixed size: the next generation waits for the process that replaces a lost one.

behaviour: restart / Fixed size
"""

import json
import os
import random
import re
import signal
import time

import pytest

from conftest import BUILD, WAIT_S, sanitized
from nodes import missing
from restarting import job, pids  # noqa: F401
from running import RANK, Run, until
from test_nodes import Nodes, all_well, cluster  # noqa: F401

FIXED = BUILD / "tests" / "process" / "ranks" / "fixed"
SIZE = 8
KILLS = 20 if sanitized() else 50
WORD = 1 << 64
WHY_NOT = missing()
several_nodes = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


@pytest.fixture
def run(spawn, muster, env):
    def start(size, *flags, variables=None, **options):
        return Run(spawn, muster, size, *flags, env={**env, **(variables or {})}, **options)

    return start


def expected(steps):
    """The numbers of all ranks after so many steps, as ranks/fixed.c computes them."""
    numbers = [0] * SIZE
    for _ in range(steps):
        total = sum(numbers)
        numbers = [(one * 6364136223846793005 + total + i) % WORD for i, one in enumerate(numbers)]
    return numbers


def born(job):
    """[(index, pid)] of all processes so far."""
    return [tuple(int(number) for number in re.findall(r"=(\d+)", line))
            for line in job.out.having("born index=")]


def kill(pids, pid):
    pids.add(pid)
    os.kill(pid, signal.SIGKILL)


def kill_one(job, ranks, dice):
    pids = set()
    kill(pids, dice.choice(list(ranks.values()))["pid"])
    return pids


def kill_two(job, ranks, dice):
    pids = set()
    for rank in dice.sample(list(ranks.values()), 2):
        kill(pids, rank["pid"])
    return pids


def kill_in_recovery(job, ranks, dice):
    """The second one dies while the others wait for the first: a survivor, or its replacement."""
    first, other = dice.sample(list(ranks.values()), 2)
    pids, before = set(), {pid for _, pid in born(job)}
    kill(pids, first["pid"])
    if dice.random() < 0.5:
        time.sleep(dice.uniform(0, 0.02))
        kill(pids, other["pid"])
    else:
        (replacement,) = until(lambda: [pid for index, pid in born(job)
                                        if index == first["index"] and pid not in before])
        kill(pids, replacement)
    return pids


def entered_without(job, dead, generation):
    """The first generation after this one in which all ranks are, and none of these processes."""

    def whole():
        return [ranks for number, ranks in sorted(job.generations().items())
                if number > generation and len(ranks) == SIZE
                and not dead & {rank["pid"] for rank in ranks.values()}]

    with job.out.changed:
        job.out.changed.wait_for(lambda: whole() or job.out.ended, WAIT_S)
        assert whole(), "\n".join(job.out.lines + job.log.lines)
        return whole()[0]


def test_each_kill_is_one_generation_and_one_restart(run, tmp_path):
    """Of eight ranks one is killed 50 times at any moment: alone, two at once, or another one or the
    replacement during the recovery. Each time all eight are in the next generation: the survivors
    in their processes, with their memory, and entered once. The result is that of a run without a
    death."""
    dice = random.Random(15)
    stop = tmp_path / "stop"
    job = run(SIZE, "--replace-wait", "--max-restarts", 1000, rank=(FIXED, stop))
    ranks = job.entered()
    killed = 0
    while killed < KILLS:
        (generation,) = {rank["generation"] for rank in ranks.values()}
        way = dice.choices([kill_one, kill_two, kill_in_recovery], [6, 2, 2])[0]
        time.sleep(dice.uniform(0, 0.02))
        dead = way(job, ranks, dice)
        after = entered_without(job, dead, generation)
        steps = after[0]["generation"] - generation
        assert steps == 1 if way is kill_one else steps <= 2, (way, ranks, after)
        for index, rank in ranks.items():
            if rank["pid"] in {one["pid"] for one in after.values()}:
                assert after[index]["pid"] == rank["pid"]
                assert 1 <= after[index]["entries"] - rank["entries"] <= steps
                assert after[index]["step"] >= rank["step"]
        assert {rank["iteration"] for rank in after.values()} == {
            rank["iteration"] + steps for rank in ranks.values()}
        killed += 1 if way is kill_one else 2
        ranks = after
    stop.touch()
    code = job.run.wait()
    assert code == 0, "\n".join(job.log.lines)
    ((step, *numbers),) = [[int(number) for number in re.findall(r"\d+", line.split(" result ")[1])]
                           for line in job.out.having(" result step=")]
    assert numbers == expected(step)
    sizes = {rank["size"] for ranks in job.generations().values() for rank in ranks.values()}
    assert sizes == {SIZE}
    assert len(job.log.having("starting it again")) == killed
    assert not job.log.having("in-process restart gave up")


# ---- one kill, and what comes then ----

# A process of #1 that is started while the file HELD exists does not begin before the file is gone.
HELD = 'while [ "$MUSTER_INDEX" = 1 ] && [ -e "$0" ]; do sleep 0.1; done; exec "$@"'


@pytest.fixture
def held(tmp_path):
    return tmp_path / "held"


def held_rank(held):
    return ("sh", "-c", HELD, held, RANK)


def kill_first(job, ranks):
    os.kill(ranks[1]["pid"], signal.SIGKILL)


def survivors(ranks):
    return {index: rank["pid"] for index, rank in ranks.items() if index != 1}


def test_min_size_as_large_as_the_job_waits_for_the_replacement(run, held, muster):
    """`--min-size` is the size, and a rank is killed whose replacement takes its time. The others
    wait for it, longer than the soft and hard timeouts of a hang: one generation, with all, in their
    processes. `muster run` and `muster status` print for which one they wait, and how long."""
    job = run(3, "--min-size", 3, rank=held_rank(held),
              variables={"MUSTER_SOFT_TIMEOUT": "1s", "MUSTER_HARD_TIMEOUT": "2s"})
    before = job.entered()
    held.touch()
    kill_first(job, before)
    line = job.log.wait_for("waiting for #1 (starting, ")
    assert 2 <= float(re.search(r"\(starting, ([\d.]+) s\)", line)[1])
    status = until(lambda: re.search(
        r"round 'muster/seal' 0: 2 of 3 arrived, open for [^;]*; waiting for #1 \(starting, ([\d.]+) s\)\n",
        muster("status", "-j", job.job).stdout))
    assert 2 <= float(status[1])

    def seal():
        (one,) = json.loads(muster("status", "--json", "-j", job.job).stdout)["rounds"]
        return one

    assert (seal()["first_missing"], seal()["awaited"]) == (1, 1)
    until(lambda: seal()["awaited_ms"] >= 4000)
    assert job.generations().keys() == {1}
    held.unlink()
    after = job.entered(2)
    assert survivors(after) == survivors(before)
    job.all_well(after)
    assert job.generations().keys() == {1, 2}
    assert len(job.log.having("starting it again")) == 1


def test_a_place_that_does_not_come_back_is_left_out_once(run, held):
    """The replacement does not come within `--replace-wait`. The others continue without it, in one
    generation, and it joins them at their next check, as without the wait."""
    job = run(3, "--replace-wait=2s", "--min-size", 1, rank=held_rank(held))
    before = job.entered()
    held.touch()
    began = time.monotonic()
    kill_first(job, before)
    fewer = job.entered(2, size=2)
    assert time.monotonic() - began >= 2
    assert survivors(fewer) == survivors(before)
    held.unlink()
    after = job.entered(3)
    assert survivors(after) == survivors(before)
    job.all_well(after)
    assert job.generations().keys() == {1, 2, 3}


def test_too_few_after_the_wait_restarts_all_once(run, held):
    """With `--min-size` as large as the job, the replacement does not come within `--replace-wait`.
    Then too few are left: all ranks are started again, once."""
    job = run(3, "--replace-wait=2s", "--min-size", 3, rank=held_rank(held))
    before = job.entered()
    held.touch()
    kill_first(job, before)
    line = job.log.wait_for("in-process restart gave up: ")
    assert "restarting all 3 ranks (2 of 3)" in line
    held.unlink()
    after = job.entered(2)
    assert not set(survivors(after).values()) & set(survivors(before).values())
    job.all_well(after)
    assert len(job.log.having("in-process restart gave up: ")) == 1
    assert len(job.log.having("starting it again")) == 1


def test_a_rank_that_is_not_started_again_is_not_waited_for(run):
    """A rank is killed when no restart is left. The others continue without it at once, however long
    `--replace-wait` is."""
    job = run(3, "--replace-wait=1h", "--min-size", 2, "--max-restarts", 1)
    before = job.entered()
    kill_first(job, before)
    again = job.entered(2)
    assert survivors(again) == survivors(before)
    kill_first(job, again)
    job.log.wait_for("going on without #1: 2 are left, 2 are enough")
    fewer = job.entered(3, size=2)
    assert survivors(fewer) == survivors(before)
    job.all_well(fewer)


def test_a_replacement_that_ends_well_before_it_joins_is_not_waited_for(run, held):
    """The replacement ends with status 0 before it opens a client. The others continue without it at
    once, however long `--replace-wait` is."""
    script = '[ "$MUSTER_INDEX" = 1 ] && [ -e "$0" ] && exit 0; exec "$@"'
    job = run(3, "--replace-wait=1h", "--min-size", 2, rank=("sh", "-c", script, held, RANK))
    before = job.entered()
    held.touch()
    kill_first(job, before)
    fewer = job.entered(2, size=2)
    assert survivors(fewer) == survivors(before)
    job.all_well(fewer)


def test_a_rank_that_is_lost_by_its_lease_is_waited_for(run):
    """A rank is stopped in a call of muster, and lost by its lease. Its agent kills and replaces it, and
    the others wait for that: one generation, with all."""
    job = run(3, "--replace-wait", "--lease", "3s")
    before = job.entered()
    os.kill(before[1]["pid"], signal.SIGSTOP)
    after = job.entered(2)
    assert survivors(after) == survivors(before)
    assert after[1]["pid"] != before[1]["pid"]
    job.all_well(after)
    assert job.generations().keys() == {1, 2}


def test_a_rank_whose_finalize_fails_is_waited_for(job):  # noqa: F811
    """The `finalize` of a rank fails, so its run ends alone and its process with a failure. It is started
    again, and the others wait for that: one generation, with all."""
    job.run(3, "--replace-wait", RR_CALLBACKS="finalize", RR_FAIL="finalize:1", RR_ONLY="1")
    ranks = job.entered(3)
    mark = job.mark()
    job.order(ranks[:1], "fail 1 all return")
    done = job.wait("done", 1, mark)
    assert done[0].pid == ranks[1].pid
    job.order(done, "end")
    again = job.entered(3, mark, generation=2, size=3)
    assert again[1].pid != ranks[1].pid
    assert pids(again) - {again[1].pid} == {ranks[0].pid, ranks[2].pid}
    mark = job.mark()
    job.order(again, "ok")
    job.finish(3, mark)
    job.ended()


def test_a_rank_that_leaves_after_a_fault_is_not_waited_for(job):  # noqa: F811
    """A rank reports a fault, and then leaves by `muster_restart_leave`. It is not started again, and the
    others continue without it at once, however long `--replace-wait` is."""
    job.run(3, "--replace-wait=1h", "--min-size", 2)
    ranks = job.entered(3)
    mark = job.mark()
    job.order(ranks[1:2], "fail-leave 1 first")
    job.order(job.wait("done", 1, mark), "end")
    fewer = job.entered(2, mark, size=2)
    mark = job.mark()
    job.order(fewer, "ok")
    job.finish(2, mark)
    job.ended()


@pytest.mark.parametrize("flags, told", [
    ((), ""), (("--replace-wait",), "60000"), (("--replace-wait=5s",), "5000"),
    (("--replace-wait=0",), "0")], ids=["none", "alone", "5s", "0"])
def test_the_ranks_get_the_time_of_the_flag(muster, flags, told):
    """`--replace-wait` is given with or without a time, or not at all. The ranks find 60 s, the time, or
    nothing in MUSTER_REPLACE_WAIT."""
    done = muster("run", "-n", 1, "--no-label", *flags, "--", "sh", "-c", 'echo "<$MUSTER_REPLACE_WAIT>"')
    assert (done.returncode, done.stdout) == (0, f"<{told}>\n")


def test_the_time_of_a_run_around_is_not_that_of_this_one(muster, env):
    """`muster run` is started by a rank whose own run has a time to wait. The ranks of the inner run
    do not get that time."""
    done = muster("run", "-n", 1, "--no-label", "--", "sh", "-c", 'echo "<$MUSTER_REPLACE_WAIT>"',
                  env={**env, "MUSTER_INDEX": "0", "MUSTER_REPLACE_WAIT": "7000"})
    assert (done.returncode, done.stdout) == (0, "<>\n")


def test_a_time_behind_a_blank_is_refused(muster):
    """`--replace-wait 5s` is typed. It is refused with the form that means it: the time would be taken
    for the program."""
    done = muster("run", "-n", 1, "--replace-wait", "5s", "--", "true")
    assert done.returncode == 2
    assert done.stderr == "muster run: --replace-wait 5s: write --replace-wait=5s\n"


# ---- several nodes ----


@several_nodes
def test_the_wait_is_that_of_all_nodes(cluster):  # noqa: F811
    """Two nodes run, and the first one has `--replace-wait`: the ranks of both get it. A rank of either
    is killed: one generation, with all, and the others are in their processes. When no restart is
    left for the run, the others continue without the rank at once."""
    program = ["sh", "-c", 'echo "wait $MUSTER_REPLACE_WAIT"; exec "$0"', RANK]
    nodes = Nodes(cluster, program, "--replace-wait=1h", "--min-size", 3, "--max-restarts", 2, count=2)
    ranks = nodes.entered(4)
    assert len(nodes.lines("wait 3600000")) == 4
    for generation, victim in enumerate((0, 3), start=2):
        os.kill(ranks[victim]["pid"], signal.SIGKILL)
        after = nodes.entered(4, generation)
        assert {index for index in ranks if after[index]["pid"] != ranks[index]["pid"]} == {victim}
        ranks = after
    assert nodes.generations().keys() == {1, 2, 3}
    os.kill(ranks[2]["pid"], signal.SIGKILL)
    nodes.on[1].log.wait_for("going on without #2: 3 are left, 3 are enough")
    all_well(nodes, nodes.entered(3, 4))


@several_nodes
def test_ranks_of_a_lost_node_are_not_waited_for(cluster):  # noqa: F811
    """The `muster run` of a node is killed, and its ranks with it. Nobody is left to start them again:
    the others continue without them, however long `--replace-wait` is."""
    nodes = Nodes(cluster, [RANK], "--replace-wait=1h", "--min-size", 2, "--lease", "3s", nnodes="1:2",
                  count=2)
    ranks = nodes.entered(4)
    os.kill(nodes.on[1].pid, signal.SIGKILL)
    after = nodes.entered(2, 2)
    assert {rank["pid"] for rank in after.values()} == {ranks[0]["pid"], ranks[1]["pid"]}
    nodes.end(after)
    assert nodes.on[0].wait() == 0, nodes.told()
