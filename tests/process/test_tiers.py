# SPDX-License-Identifier: Apache-2.0
"""Who takes the place of a lost rank, and when all are started anew: spares, another process in the
same place, and the second tier, which begins the whole group again.

behaviour: run / The second tier
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket

import pytest

from nodes import missing
from running import RANK, Run, status_at, until
from test_nodes import Nodes, all_well, cluster  # noqa: F401

WHY_NOT = missing()
several_nodes = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

ONE_ATTEMPT = {"MUSTER_ITERATIONS_MAX": "1"}


@pytest.fixture
def run(spawn, muster, env):
    def start(size, *flags, variables=None, **options):
        return Run(spawn, muster, size, *flags, env={**env, **(variables or {})}, **options)

    return start


def pids(ranks):
    return {rank["pid"] for rank in ranks.values()}


def spares_of(status):
    return {one["pid"] for one in json.loads(status)["members"] if one["state"] == "spare"}


def sleeps(pid):
    """Whether all threads of it do."""
    with contextlib.suppress(OSError):  # a thread has just ended
        return all(stat.read_text().rsplit(")", 1)[1].split()[0] == "S"
                   for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"))
    return False


def waiting(job, ranks, count=1):
    """The processes that wait in no generation, once so many do. A spare is told that it is one, and
    asks for a seat then: when it was listed twice it was told, and when it sleeps it has asked."""

    def found():
        spares = spares_of(job.muster("status", "--json", "-j", job.job).stdout)
        return spares if len(spares) == count else None

    until(found)
    spares = until(found)
    until(lambda: all(sleeps(pid) for pid in spares))
    return spares - pids(ranks)


# ---- spares ----


def test_a_spare_takes_the_place_of_a_killed_rank_at_once(run, muster):
    """A rank is killed while a spare waits. The spare is taken in at once: as many ranks as
    before in one generation, the others in their processes. The killed one is started again,
    waits as a spare, and interrupts no rank. [Spares]"""
    job = run(3, "--spares", 1)
    before = job.entered()
    (spare,) = waiting(job, before)
    victim = min(before)
    os.kill(before[victim]["pid"], signal.SIGKILL)
    after = job.entered(2)
    assert pids(after) == pids(before) - {before[victim]["pid"]} | {spare}
    assert sorted(rank["rank"] for rank in after.values()) == [0, 1, 2]
    job.log.wait_for(f"(#{victim}, pid ",
                     "starting it again (1 of 3); the others go on in their processes")
    (new,) = waiting(job, after)
    assert new not in pids(before) | pids(after)
    job.all_well(after)
    assert job.generations().keys() == {1, 2}, "the one that came back interrupted somebody"


def test_status_tells_spares_from_ranks(run, muster, tmp_path):
    """`muster status` counts spares by themselves (`2 of 2 here, 1 spare`) and gives them the
    state *spare*, as in `--json`, `/status.json` and the metrics; no rank is missing when a
    spare has its seat. [Spares]"""
    job = run(2, "--spares", 1, "--max-restarts", 0, "--http", f"unix:{tmp_path}/http")
    ranks = job.entered()
    (spare,) = waiting(job, ranks)

    def lines(*args):
        return muster("status", "-j", job.job, *args).stdout.splitlines()

    assert re.fullmatch(f"job {job.job}: all 2 ranks run for .*, and 1 spare waits", lines()[0])
    assert re.fullmatch("generation 1 for .*, 2 of 2 here, 1 spare", lines()[1])
    assert sorted(lines()[2:]) == ["  1 node", "  1 spare", "  2 run"]
    assert [line for line in lines("-a") if " spare " in line and line.endswith(f"pid {spare}")]
    assert lines("-a")[-1].startswith("  agent #0 "), "it is no worker"
    for told in (until(lambda: status_at(f"{tmp_path}/http")),
                 json.loads(muster("status", "--json", "-j", job.job).stdout)):
        assert (told["present"], told["size"], told["spares"]) == (2, 2, 1)
        assert {member["pid"]: member["state"] for member in told["members"]}[spare] == "spare"
    os.kill(ranks[min(ranks)]["pid"], signal.SIGKILL)
    after = job.entered(2)
    until(lambda: re.match("generation 2 for .*, 2 of 2 here; 1 restart", lines()[1]))
    assert not [line for line in lines() if "never came" in line]
    job.all_well(after)


def test_a_killed_spare_interrupts_nobody(run):
    """A spare is killed. It is started again; no rank is interrupted. [Spares]"""
    job = run(2, "--spares", 1)
    ranks = job.entered()
    (spare,) = waiting(job, ranks)
    os.kill(spare, signal.SIGKILL)
    line = job.log.wait_for("was killed by signal 9 (Killed); starting it again (1 of 3)")
    assert "the others" not in line
    until(lambda: waiting(job, ranks) != {spare})
    job.all_well(ranks)
    assert job.generations().keys() == {1}


def test_spares_are_used_up_before_the_run_ends(run):
    """No restart is left. The spares are used up; when there are too few processes for all ranks
    the run ends, and its cause is the last death. [Spares]"""
    job = run(2, "--spares", 1, "--max-restarts", 0)
    before = job.entered()
    waiting(job, before)
    os.kill(before[min(before)]["pid"], signal.SIGKILL)
    job.log.wait_for(f"going on without #{min(before)}: 2 are left, 2 are enough")
    after = job.entered(2)
    last = after[max(after)]
    os.kill(last["pid"], signal.SIGKILL)
    assert job.run.wait() == 128 + signal.SIGKILL
    assert f"#{last['index']}" in job.last_line()  # its rank may not have come to be known
    assert f"pid {last['pid']})" in job.last_line()
    assert "in generation 2" in job.last_line()


def test_a_spare_that_never_opened_a_client_is_ended_with_the_work(run):
    """The work is done and a spare never opened a client. It is ended. [Spares]"""
    script = '[ "$MUSTER_INDEX" = 2 ] && exec sleep 1000; exec "$0"'
    job = run(2, "--spares", 1, rank=("sh", "-c", script, RANK))
    job.all_well(job.entered())


def test_spares_end_when_the_work_is_done(run):
    """The work is done. Spares are notified, return from their runs and end by themselves, not
    killed. The run ends with 0. [Spares]"""
    job = run(2, "--spares", 2)
    ranks = job.entered()
    waiting(job, ranks, 2)
    job.all_well(ranks)
    assert len(job.out.having("finished pid=")) == 4


def test_what_a_spare_is_told(muster):
    """A spare looks at its environment. It has an index and a local rank, and no RANK before it
    is given one; numbers that do not fit are wrong usage. [Spares]"""
    done = muster("run", "-n", 2, "--spares", 1, "--no-label", "--", "sh", "-c",
                  "echo $MUSTER_INDEX ${RANK-none} $LOCAL_RANK $LOCAL_WORLD_SIZE $WORLD_SIZE "
                  "$MUSTER_SIZE $MUSTER_MAX_SIZE")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "0 0 0 3 2 2 2", "1 1 1 3 2 2 2", "2 none 2 3 2 2 2"]
    done = muster("run", "-n", 4, "--max-size", 3, "--", "true")
    assert done.returncode == 2 and "--max-size 3 is less than the 4 ranks" in done.stderr
    done = muster("run", "--nnodes", 60000, "-n", 10, "--spares", 10, "--", "true")
    assert done.returncode == 2 and "60000 nodes with 20 processes each" in done.stderr


@several_nodes
def test_spares_of_several_nodes(cluster):  # noqa: F811
    """Several nodes have spares. Each has its spares behind its ranks, and any spare takes any
    place. [Spares]"""
    nodes = Nodes(cluster, [RANK], "--spares", 1, count=2)
    before = nodes.entered(4)
    def spares():
        found = spares_of(cluster.muster(0, "status", "--json", "-j", nodes.job).stdout)
        return found if len(found) == 2 else None

    until(spares)
    told = until(spares)
    until(lambda: all(sleeps(pid) for pid in told))
    assert before.keys() < set(range(6))
    assert nodes.on[1].log.wait_for("this is node 1 of job", "with #3 to #5")
    victim = max(before)
    os.kill(before[victim]["pid"], signal.SIGKILL)
    after = nodes.entered(4, generation=2)
    assert pids(before) - pids(after) == {before[victim]["pid"]}
    assert nodes.generations().keys() == {1, 2}
    all_well(nodes, after)


# ---- the second tier ----


def gave_up(job, *words):
    return job.log.wait_for("muster run: in-process restart gave up: ",
                            f"; restarting all {job.size} ranks (", *words)


def test_all_are_started_anew_when_in_process_restart_gave_up(run):
    """In-process restart was given up. All begin anew as new processes with another MASTER_PORT,
    the same for all."""
    script = 'echo told $MUSTER_INDEX $TORCHELASTIC_RESTART_COUNT $MASTER_PORT; exec "$0"'
    job = run(3, variables=ONE_ATTEMPT, rank=("sh", "-c", script, RANK))
    before = job.entered()
    job.order(1, 1, "fail 7 cannot read shard 5")
    gave_up(job, "cannot read shard 5", "1 of 3")
    after = job.entered(2)
    assert not pids(before) & pids(after)
    told = [line.split()[2:] for line in job.out.having("told ")]
    assert [count for _, count, _ in told] == ["0"] * 3 + ["1"] * 3
    assert len({port for _, _, port in told[:3]}) == len({port for _, _, port in told[3:]}) == 1
    assert told[0][2] != told[3][2]
    job.all_well(after)
    assert len(job.log.having("restarting all")) == 1
    assert not job.log.having("starting it again")


def test_all_are_started_anew_when_too_few_are_left(run):
    """Fewer than `--min-size` are left, and no replacement is let in. All begin anew as new
    processes."""
    job = run(3, "--min-size", 3, "--grow", "off")
    before = job.entered()
    os.kill(before[1]["pid"], signal.SIGKILL)
    gave_up(job, "2 ranks are left, min_size is 3")
    after = job.entered(2)
    assert not pids(before) & pids(after)
    job.all_well(after)


def test_what_does_not_end_is_killed_before_all_are_started_anew(run):
    """A process does not end when all are to begin anew. It is killed after the grace time,
    before any is started."""
    script = 'trap "" TERM; "$0"; [ "$MUSTER_INDEX$TORCHELASTIC_RESTART_COUNT" = 00 ] && sleep 1000'
    job = run(2, "--grace", "200ms", variables=ONE_ATTEMPT,
              rank=("sh", "-c", script + "; exit 1", RANK))
    job.entered()
    job.order(1, 1, "fail 7 no")
    after = job.entered(2)
    for index, rank in after.items():
        job.order(index, rank["generation"], "exit 0")
    gave_up(job, "no", "1 of 3")


def test_a_signal_while_all_are_ended_for_a_new_start_ends_the_run(run):
    """The run is stopped while all are being ended for a new start. Nothing is started any more,
    and its exit code is the signal's."""
    script = 'trap "" TERM; "$0"; code=$?; [ "$MUSTER_INDEX" = 0 ] && sleep 1000; exit $code'
    job = run(2, "--grace", "6s", variables=ONE_ATTEMPT, rank=("sh", "-c", script, RANK))
    job.entered()
    job.order(1, 1, "fail 7 no")
    gave_up(job, "no", "1 of 3")
    os.kill(job.run.pid, signal.SIGTERM)
    assert job.run.wait() == 128 + signal.SIGTERM
    assert job.last_line() == "muster run: stopped by signal 15 (Terminated)"
    assert job.generations().keys() == {1}


def test_when_no_restart_is_left_the_fault_is_the_first_cause(run):
    """No restart is left. The run ends, and its last line has the fault that was the first, as
    the rank reported it."""
    job = run(3, "--max-restarts", 0, variables=ONE_ATTEMPT)
    before = job.entered()
    job.order(1, 1, "fail 7 cannot read shard 5")
    assert job.run.wait() == 1
    assert job.last_line() in (
        f"muster run: first cause: rank 1 (#1, pid {before[1]['pid']}) on {socket.gethostname()} "
        "failed: code 7: cannot read shard 5, in generation 1",
        # The service had heard of the ends by then.
        "muster run: first cause: in-process restart gave up: given up after 1 attempt that "
        "failed (iterations_max 1); the last: rank 1 (#1) failed: code 7: cannot read shard 5")
    assert job.log.having("the ranks are not restarted: 0 of 0 restarts are used")


@pytest.mark.parametrize(("order", "told"), [
    ("exit 3", "ended with status 3"), ("kill 9", "was killed by signal 9")])
def test_how_a_large_rank_died_is_known_to_those_who_go_on(run, order, told):
    """A rank that held much memory ends by itself or is killed. The others know its status or
    signal with the restart, while its memory is still torn down."""
    job = run(2, "--max-restarts", 0, "--min-size", 1, variables=ONE_ATTEMPT, rank=(RANK, "256"))
    job.entered()
    job.order(1, 1, order)
    job.log.wait_for("(iterations_max 1); the last: rank 1 (#1) " + told)
    assert job.run.wait() != 0


def test_an_abort_ends_the_run(run):
    """A rank aborts the run. It ends with that, whatever restarts are left."""
    job = run(3)
    job.entered()
    job.order(2, 1, "abort 3 the data is bad")
    assert job.run.wait() == 1
    assert "first cause: " in job.last_line() and "rank 2 (#2" in job.last_line()
    assert "asked that all end: code 3: the data is bad" in job.last_line()
    assert not job.log.having("restarting all") and not job.log.having("starting it again")


def test_a_fault_is_one_line_while_the_run_goes_on(run):
    """A rank reports a fault and the others go on in their processes. One line says which rank,
    why and what follows."""
    job = run(3)
    before = job.entered()
    job.order(1, 1, "fail 7 cannot read shard 5")
    job.log.wait_for("muster run: rank 1 (#1) failed: code 7: cannot read shard 5; "
                     "generation 2 follows in the same processes")
    after = job.entered(2)
    assert pids(after) == pids(before)
    job.all_well(after)


def test_faults_of_generations_that_are_over_are_told_too(run):
    """`muster run` gets no processor while two faults follow each other and both restarts are over.
    Each fault has its line all the same."""
    job = run(3, "--lease", "1m")
    job.entered()
    job.run.signal(signal.SIGSTOP)
    job.order(1, 1, "fail 7 cannot read shard 5")
    job.order(2, 2, "fail 8 no shard at all")
    until(lambda: json.loads(job.muster("status", "--json", "-j", job.job).stdout)["generation"] == 3)
    job.run.signal(signal.SIGCONT)
    job.log.wait_for("muster run: rank 2 (#2) failed: code 8: no shard at all; generation 3 follows")
    job.all_well(job.entered(3))
    told = [line for line in job.log.having("muster run: rank") if "failed" in line]
    assert len(told) == 2
    assert told[0].startswith("muster run: rank 1 (#1) failed: code 7: cannot read shard 5; generation 2")


def test_each_restart_is_one_line_that_tells_the_tier_85(run):
    """There is a fault, a death, and a fault after which restarting in the same processes is
    given up. `muster run` says of each in one line, once, which tier acted: the same
    processes, one new process, all processes. [restart]"""
    job = run(3, "--no-label", variables={"MUSTER_ITERATIONS_MAX": "3"})
    before = job.entered()
    job.order(1, 1, "fail 7 cannot read shard 5")
    job.log.wait_for("muster run: rank 1 (#1) failed")
    ranks = job.entered(2)
    os.kill(ranks[2]["pid"], signal.SIGKILL)
    ranks = job.entered(3)
    job.order(0, ranks[0]["generation"], "fail 8 no shard at all")
    last = job.entered(ranks[0]["generation"] + 1)
    assert not pids(last) & (pids(before) | pids(ranks))
    job.all_well(last)
    said = [line for line in job.log.having("muster run: ") if "OMP_NUM_THREADS" not in line]
    # Of the last two the run hears in two ways.
    fault, death, (all_anew, last_fault) = *said[:2], sorted(said[2:])
    assert fault == ("muster run: rank 1 (#1) failed: code 7: cannot read shard 5; generation 2 "
                     "follows in the same processes")
    pid = before[2]["pid"]  # its rank may not have come to be known
    assert death in [f"muster run: {who} was killed by signal 9 (Killed); starting it again (1 of 3); "
                     "the others go on in their processes"
                     for who in (f"rank 2 (#2, pid {pid})", f"#2 (pid {pid})")]
    assert last_fault.startswith("muster run: rank 0 (#0) failed: code 8: no shard at all")
    assert all_anew == (
        "muster run: in-process restart gave up: given up after 3 attempts that failed "
        "(iterations_max 3); the last: rank 0 (#0) failed: code 8: no shard at all; "
        "restarting all 3 ranks (2 of 3)")


def test_first_faults_in_process_then_one_restart_of_all_86(run):
    """Error, error, kill, kill below the least size, hang, within `muster run`. All are survived:
    one costs all processes, two their own, the errors none; the job completes. [restart]
    [The second tier]"""
    job = run(4, "--min-size", 3, "--max-restarts", 6, "--grow", "off",
              variables={"MUSTER_SOFT_TIMEOUT": "3s", "MUSTER_HARD_TIMEOUT": "5s"})
    first = job.entered()
    job.order(0, 1, "fail 1 the first error")
    job.order(1, job.entered(2)[1]["generation"], "fail 2 the second error")
    ranks = job.entered(3)
    assert pids(ranks) == pids(first), "an error costs no process"

    os.kill(ranks[2]["pid"], signal.SIGKILL)
    ranks = job.entered(4, size=3)
    assert pids(ranks) < pids(first), "enough are left"
    os.kill(ranks[3]["pid"], signal.SIGKILL)
    gave_up(job, "2 ranks are left, min_size is 3")
    ranks = job.entered(5)
    assert not pids(ranks) & pids(first)

    os.kill(ranks[1]["pid"], signal.SIGSTOP)
    last = job.entered(ranks[0]["generation"] + 1, size=3)
    assert pids(last) == pids(ranks) - {ranks[1]["pid"]}
    job.all_well(last)
    assert len(job.log.having("restarting all")) == 1


@several_nodes
def test_all_of_several_nodes_are_started_anew_together(cluster):  # noqa: F811
    """A group over several nodes begins anew. All begin together, when the last process of all is
    gone, and count one restart."""
    nodes = Nodes(cluster, [RANK], **ONE_ATTEMPT)
    before = nodes.entered(6)
    nodes.order(3, 1, "fail 7 cannot read shard 5")
    after = nodes.entered(6, generation=2)
    assert not pids(before) & pids(after)
    all_well(nodes, after)
    for process in nodes.on:
        (line,) = process.log.having("in-process restart gave up: ")
        assert "cannot read shard 5" in line and line.endswith("all 6 ranks (1 of 3)")


@several_nodes
def test_the_first_cause_is_the_first_fault_on_whichever_node(cluster):  # noqa: F811
    """Ranks of several nodes fail because of one. Whichever node ends the run first, the last
    line of all names that one."""
    nodes = Nodes(cluster, [RANK], "--max-restarts", 0, **ONE_ATTEMPT)
    nodes.entered(6)
    nodes.order(4, 1, "fail 7 cannot read shard 5")
    assert nodes.codes() == [1, 1, 1], nodes.told()
    said = {process.log.lines[-1] for process in nodes.on}
    assert len(said) == 1
    (line,) = said
    assert "rank 4 (#4, pid " in line or (
        # The service had heard by then of ends that followed.
        "in-process restart gave up: " in line and "; the last: rank 4 (#4) failed: code 7: " in line)
