# SPDX-License-Identifier: Apache-2.0
"""`muster chaos`: ranks are frozen and cut off, once or at random, and the job survives.

behaviour: program / muster chaos
"""

import json
import os
import re
import signal
import subprocess

import pytest

from clusters import run_workers
from conftest import MUSTER, WAIT_S
from running import Run, until
from wire import OK, WORKER, Wire

SHORT_LEASE = "5s"  # what is silent for so long is lost; nobody else is to be so


@pytest.fixture
def run(spawn, muster):
    """run(size, flags...) starts a job of ranks/run."""
    return lambda *args, **options: Run(spawn, muster, *args, **options)


def state(job, index):
    done = job.muster("status", "--json", "-j", job.job)
    assert done.returncode == 0, done.stderr
    (member,) = [m for m in json.loads(done.stdout)["members"]
                 if m["role"] == "rank" and m["index"] == index]
    return member["state"]


def who(job, ranks, index):
    return f"#{index} (rank {index}, pid {ranks[index]['pid']}) of job '{job.job}'"


# ---- freeze ----


def test_a_short_freeze_costs_nothing(run, muster):
    """A rank is frozen for a short while. It costs nothing: the process gets SIGSTOP and then
    SIGCONT, and a line says each, as JSON too."""
    job = run(2)
    ranks = job.entered()
    done = muster("chaos", "freeze", 1, "--for", "200ms", "-j", job.job)
    assert done.returncode == 0, done.stderr
    stopped, continued = done.stdout.splitlines()
    assert stopped == f"signal 19 (Stopped (signal)) sent to {who(job, ranks, 1)}, for 0.200 s"
    said = rf"signal 18 \(Continued\) sent to {re.escape(who(job, ranks, 1))} after (\d+\.\d+) s"
    assert float(re.fullmatch(said, continued)[1]) >= 0.2
    job.all_well(ranks)
    assert len(job.generations()) == 1


def test_who_stays_frozen_is_found_and_replaced(run, muster):
    """A rank is frozen for good. It is found, and another process takes its place."""
    job = run(2, "--lease", SHORT_LEASE)
    ranks = job.entered()
    done = muster("chaos", "freeze", "#1", "-j", job.job)
    assert done.stdout == f"signal 19 (Stopped (signal)) sent to {who(job, ranks, 1)}\n"
    after = job.entered(2)
    assert after[1]["pid"] != ranks[1]["pid"] and after[0]["pid"] == ranks[0]["pid"]
    job.all_well(after)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_freeze_lets_go(run, spawn, number):
    """`chaos freeze --for` is interrupted. The rank goes on, and the exit code says by which
    signal."""
    job = run(2)
    ranks = job.entered()
    chaos = spawn("chaos", "freeze", 1, "--for", "1h", "-j", job.job)
    chaos.out.wait_for("signal 19")
    chaos.signal(number)
    assert chaos.wait() == 128 + number
    chaos.out.wait_for("signal 18 (Continued)")
    job.all_well(ranks)


def test_a_frozen_rank_that_ends_is_told(run, spawn, muster):
    """A frozen process ends before `chaos freeze` continues it. A line says so."""
    job = run(2)
    ranks = job.entered()
    chaos = spawn("chaos", "freeze", 1, "--for", "1h", "-j", job.job)
    chaos.out.wait_for("signal 19")
    assert muster("chaos", "kill", 1, "-j", job.job).returncode == 0
    assert chaos.wait() == 0
    chaos.out.wait_for(who(job, ranks, 1), "has ended while it was frozen")
    job.all_well(job.entered(2))


def test_a_strike_as_json(run, muster):
    """A rank is frozen for a short while. It costs nothing: the process gets SIGSTOP and then
    SIGCONT, and a line says each, as JSON too."""
    job = run(2)
    ranks = job.entered()
    done = muster("chaos", "freeze", 0, "--for", "10ms", "--json", "-j", job.job)
    stopped, continued = map(json.loads, done.stdout.splitlines())
    common = {"job": job.job, "role": "rank", "index": 0, "rank": 0, "pid": ranks[0]["pid"]}
    stopped.pop("at_ms"), continued.pop("at_ms")
    assert stopped == {**common, "strike": "freeze", "for_ms": 10}
    assert 10 <= continued.pop("after_ms") < 60000
    assert continued == {**common, "strike": "thaw"}
    job.all_well(ranks)


# ---- workers ----


@pytest.fixture
def workers(env, started):
    """Two of them, under `muster run`: waits for the next that is ready."""
    run = run_workers(env, 2)
    started.append(run)
    yield run
    run.signal(signal.SIGTERM)
    assert run.wait() in (0, 143)


def ready(workers, index, incarnation):
    return int(workers.out.wait_for(f"ready #{index} {incarnation} ").split()[-1])


def test_workers_are_killed_frozen_and_cut_off(workers, muster):
    """A job has workers instead of ranks. `muster chaos` kills, freezes and cuts them off like
    ranks, also at random, and the lines say `worker`. `cut` leaves a worker its connection to
    the coordinator."""
    pids = [ready(workers, index, 1) for index in range(2)]
    done = muster("chaos", "kill", 1, "-j", "cluster")
    assert done.stdout == f"signal 9 (Killed) sent to #1 (worker, pid {pids[1]}) of job 'cluster'\n"
    assert ready(workers, 1, 2) != pids[1]
    done = muster("chaos", "freeze", 0, "--for", "100ms", "-j", "cluster")
    stopped, continued = done.stdout.splitlines()
    who = f"#0 (worker, pid {pids[0]}) of job 'cluster'"
    assert stopped == f"signal 19 (Stopped (signal)) sent to {who}, for 0.100 s"
    assert continued.startswith(f"signal 18 (Continued) sent to {who} after ")
    done = muster("chaos", "cut", 0, "--json", "-j", "cluster")
    said = json.loads(done.stdout)
    said.pop("at_ms")
    assert said == {"strike": "cut", "job": "cluster", "role": "worker", "index": 0, "rank": None,
                    "pid": pids[0], "for_ms": 0}
    workers.log.wait_for("member-cut worker#0 incarnation=1 for-ms=0")
    workers.log.wait_for("[0]: connected to the service again")


def test_the_role_tells_a_worker_from_the_rank_of_its_index(serve, muster):
    """A worker and a rank have the same index. Without `--role` the rank is meant: each kind
    counts its indices apart."""
    service = serve("--job", "mixed", "--lease", "1h")
    rank, worker = Wire(service.address), Wire(service.address)
    assert rank.open_rank(0, 1, job="mixed").status == OK
    assert worker.open(role=WORKER, index=0, job="mixed").status == OK
    done = muster("chaos", "cut", 0, "--role", "worker")
    assert done.stdout.startswith("the network of #0 (worker, pid "), done.stderr
    assert worker.ended()
    assert rank.renew_behind().status == OK
    for words in (), ("--role", "rank"):
        done = muster("chaos", "cut", 0, *words)
        assert done.stdout.startswith("the network of #0 (pid "), done.stderr
    assert rank.ended()
    done = muster("chaos", "cut", 1, "--role", "worker")
    assert (done.returncode, done.stderr) == (
        1, "muster chaos: no living worker #1 in job 'mixed'\n")


def test_random_strikes_workers_too(workers, muster):
    """A job has workers instead of ranks. `muster chaos` kills, freezes and cuts them off like
    ranks, also at random, and the lines say `worker`. `cut` leaves a worker its connection to
    the coordinator."""
    for index in range(2):
        ready(workers, index, 1)
    done = muster("chaos", "random", "--kinds", "kill", "--rate", "20/s", "--count", 1, "--seed", 1,
                  "-j", "cluster")
    assert done.returncode == 0, done.stderr
    (struck,) = re.findall(r"sent to #(\d) \(worker, pid \d+\)", done.stdout)
    ready(workers, struck, 2)


# ---- cut ----


def test_a_cut_of_a_moment_costs_nothing(run, muster):
    """The network of a rank is cut for a moment, or for less than the lease. The rank is silent,
    `muster status` says so, and it is back with its identity; a longer cut is not made shorter
    by a second one."""
    job = run(2)
    ranks = job.entered()
    done = muster("chaos", "cut", 1, "-j", job.job)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"the network of {who(job, ranks, 1)} is cut\n"
    job.log.wait_for("member-cut #1 incarnation=1 for-ms=0")
    until(lambda: state(job, 1) == "present")
    job.all_well(ranks)
    assert len(job.generations()) == 1


def test_a_cut_shorter_than_the_lease_is_ridden_out(run, muster):
    """The network of a rank is cut for a moment, or for less than the lease. The rank is silent,
    `muster status` says so, and it is back with its identity; a longer cut is not made shorter
    by a second one."""
    job = run(2, "--lease", "60s")
    ranks = job.entered()
    os.kill(ranks[1]["pid"], signal.SIGSTOP)  # it is silent until it has been seen to be
    done = muster("chaos", "cut", 1, "--for", "1s", "-j", job.job)
    assert done.stdout == f"the network of {who(job, ranks, 1)} is cut for 1.000 s\n"
    assert state(job, 1) == "silent"
    again = muster("chaos", "cut", 1, "--for", "500ms", "-j", job.job)
    assert again.stdout.endswith("is cut for 0.500 s; it was silent already\n")
    os.kill(ranks[1]["pid"], signal.SIGCONT)
    until(lambda: state(job, 1) == "present")
    job.all_well(ranks)
    assert len(job.generations()) == 1


def test_who_is_cut_off_for_longer_is_replaced(run, muster):
    """The network of a rank is cut for longer than the lease. The rank is lost and replaced."""
    job = run(2, "--lease", SHORT_LEASE)
    ranks = job.entered()
    assert muster("chaos", "cut", 1, "--for", "1h", "-j", job.job).returncode == 0
    job.log.wait_for(f"(#1, pid {ranks[1]['pid']}) was silent for longer than the lease")
    after = job.entered(2)
    assert after[1]["pid"] != ranks[1]["pid"] and after[0]["pid"] == ranks[0]["pid"]
    job.all_well(after)


# ---- at random ----


def numbers(seed):
    """The generator of src/base/prng.c."""
    mask = (1 << 64) - 1
    while True:
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        yield z ^ (z >> 31)


def schedule(seed, mean_ms, kinds, count):
    """(when, kind, whom modulo the living) as the page of operations says."""
    draw, at = numbers(seed), 0
    for _ in range(count):
        at += next(draw) % (2 * mean_ms + 1)
        yield at, kinds[next(draw) % len(kinds)], next(draw)


def test_random_strikes_as_its_schedule_says(run, muster):
    """`chaos random` is given a seed. It strikes when, how and whichever process the seed says,
    at the rate in the mean, and sums up.

    No member is lost by these, so the living are always the same three."""
    job = run(3)
    ranks = job.entered()
    done = muster("chaos", "random", "--seed", 41, "--rate", "20/s", "--kinds", "cut,freeze",
                  "--for", "5ms", "--count", 12, "--json", "-j", job.job)
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    strikes = [line for line in said if line.get("strike") in ("cut", "freeze")]
    planned = list(schedule(41, 50, ["cut", "freeze"], 12))
    assert [(line["strike"], line["index"]) for line in strikes] == [
        (kind, pick % 3) for _, kind, pick in planned
    ]
    assert all(line["at_ms"] >= at for line, (at, _, _) in zip(strikes, planned))
    assert said[-1] == {"at_ms": said[-1]["at_ms"], "strikes": 12, "kill": 0,
                        "freeze": [kind for _, kind, _ in planned].count("freeze"),
                        "cut": [kind for _, kind, _ in planned].count("cut"),
                        "seed": 41, "ended": "count"}
    assert len([line for line in said if line.get("strike") == "thaw"]) == said[-1]["freeze"]
    job.all_well(ranks)
    assert len(job.generations()) == 1


def test_random_ends_with_the_job(run, spawn):
    """The job ends, the time is over, or `chaos random` is stopped. It ends with 0 and says why;
    processes that it froze are continued."""
    job = run(2, "--max-restarts", 50)
    job.entered()
    chaos = spawn("chaos", "random", "--rate", "5/s", "--kinds", "kill", "--seed", 3, "-j", job.job)
    assert chaos.out.wait_for("seed") == (
        f"striking the members of job '{job.job}' at random: kill, 5/s, seed 3")
    chaos.out.wait_for("signal 9 (Killed) sent to #", count=2)
    job.run.signal(signal.SIGTERM)
    job.run.wait()
    assert chaos.wait() == 0
    assert "the job has ended: " in chaos.out.lines[-1], chaos.out.lines
    assert chaos.log.lines == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_random_ends_when_it_is_stopped(run, spawn, number):
    """The job ends, the time is over, or `chaos random` is stopped. It ends with 0 and says why;
    processes that it froze are continued."""
    job = run(2)
    ranks = job.entered()
    chaos = spawn("chaos", "random", "--rate", "20/s", "--kinds", "freeze", "--for", "1h",
                  "-j", job.job)
    chaos.out.wait_for("signal 19")
    chaos.signal(number)
    assert chaos.wait() == 0
    assert ": stopped: " in chaos.out.lines[-1]
    assert len(chaos.out.having("signal 19")) == len(chaos.out.having("signal 18"))
    job.all_well(ranks)


def test_random_ends_when_the_time_is_over(run, muster):
    """The job ends, the time is over, or `chaos random` is stopped. It ends with 0 and says why;
    processes that it froze are continued."""
    job = run(1)
    ranks = job.entered()
    done = muster("chaos", "random", "--rate", "1/h", "--during", "200ms", "-j", job.job)
    assert done.returncode == 0
    assert ": the time is over: 0 strikes (kill 0, freeze 0, cut 0), seed " in done.stdout
    job.all_well(ranks)


def test_random_rides_out_a_death_of_the_service(run, spawn):
    """The service dies under `chaos random`. It goes on when the next service is there."""
    job = run(2)
    ranks = job.entered()
    chaos = spawn("chaos", "random", "--rate", "5/s", "--kinds", "cut", "-j", job.job)
    chaos.out.wait_for("is cut")
    subprocess.run(["kill", "-9", str(job.service())], check=True)
    job.log.wait_for("it is started again")
    chaos.out.wait_for("is cut", count=len(chaos.out.having("is cut")) + 2)
    chaos.signal(signal.SIGINT)
    assert chaos.wait() == 0 and chaos.log.lines == []
    job.all_well(ranks)


# ---- the service ----


def test_the_service_is_killed(run, muster):
    """`chaos kill leader` on the machine of a single service. Its process gets SIGKILL, a line says
    so, as JSON too, `muster run` starts the service again, and no rank is interrupted."""
    job = run(2)
    ranks = job.entered()
    for words in ((), ("--json",)):
        pid = job.service()
        done = muster("chaos", "kill", "leader", "-j", job.job, *words)
        assert done.returncode == 0, done.stderr
        if words:
            told = json.loads(done.stdout)
            assert told.pop("at_ms") >= 0
            assert told == {"strike": "kill", "job": job.job, "role": "service", "index": None,
                            "rank": None, "pid": pid, "signal": 9}
        else:
            assert done.stdout == f"signal 9 (Killed) sent to the service (pid {pid}) of job '{job.job}'\n"
        until(lambda: job.service() != pid and muster("status", "-j", job.job).returncode == 0)
    job.all_well(ranks)
    assert len(job.generations()) == 1


def test_the_service_is_frozen(run, muster):
    """`chaos freeze leader --for 500ms`. The process of the service stands still for so long and
    goes on, and no rank is interrupted."""
    job = run(2)
    ranks = job.entered()
    pid = job.service()
    done = muster("chaos", "freeze", "leader", "--for", "500ms", "-j", job.job)
    assert done.returncode == 0, done.stderr
    stopped, continued = done.stdout.splitlines()
    who = f"the service (pid {pid}) of job '{job.job}'"
    assert stopped == f"signal 19 (Stopped (signal)) sent to {who}, for 0.500 s"
    assert re.fullmatch(rf"signal 18 \(Continued\) sent to {re.escape(who)} after \d+\.\d+ s", continued)
    job.all_well(ranks)
    assert len(job.generations()) == 1 and job.generations()[1].keys() == ranks.keys()


# ---- what makes no sense ----


USAGE = "usage: muster chaos kill|freeze|cut INDEX, muster chaos kill|freeze leader, or muster chaos random"


@pytest.mark.parametrize("words, line", [
    ((), USAGE),
    (("freeze",), USAGE),
    (("random", 1), USAGE),
    (("random", "leader"), USAGE),
    (("cut", "leader"), "the service cuts off ranks and workers, not itself: muster chaos kill|freeze leader"),
    (("kill", "leader", "--role", "rank"), "--role has no effect on 'chaos kill leader'"),
    (("kill", "leader", "--for", "1s"), "--for has no effect on 'chaos kill'"),
    (("hug", 1), USAGE),
    (("kill", 1, "--for", "1s"), "--for has no effect on 'chaos kill'"),
    (("cut", 1, "--signal", 9), "--signal has no effect on 'chaos cut'"),
    (("freeze", 1, "--seed", 9), "--seed has no effect on 'chaos freeze'"),
    (("random", "--role", "worker"), "--role has no effect on 'chaos random'"),
    (("cut", 1, "--role", "agent"), "setting role: 'agent' is not one of any, rank, worker"),
    (("cut", 1, "--for", "2h"),
     "setting for: '2h' is no duration (500ms, 10s, 2m) from 1 to 3600000"),
    (("random", "--rate", "often"),
     "--rate is 'often', and should be a number per min, s or h: 6/min"),
    (("random", "--kinds", "kill,hug"),
     "--kinds is 'kill,hug', and should be some of kill,freeze,cut"),
])
def test_wrong_words(muster, words, line):
    """`muster chaos` names a rank that is not there, the job is empty, the words make no sense,
    or stdout is full. It prints one line and ends with 1, or with 2 for wrong usage."""
    done = muster("chaos", *words)
    assert (done.returncode, done.stderr) == (2, f"muster chaos: {line}\n")


@pytest.mark.parametrize("verb", ["freeze", "cut"])
def test_nobody_is_there_to_be_struck(run, muster, verb):
    """`muster chaos` names a rank that is not there, the job is empty, the words make no sense,
    or stdout is full. It prints one line and ends with 1, or with 2 for wrong usage."""
    job = run(1)
    ranks = job.entered()
    done = muster("chaos", verb, 7, "-j", job.job)
    assert (done.returncode, done.stderr) == (
        1, f"muster chaos: no living #7 in job '{job.job}'\n")
    job.all_well(ranks)


def test_nobody_is_there_at_random(serve, muster):
    """`chaos random` finds no process to strike. One line says so."""
    serve("--job", "empty")
    done = muster("chaos", "random")
    assert (done.returncode, done.stderr) == (1, "muster chaos: job 'empty' has no living members\n")


def test_ranks_of_other_machines_can_only_be_cut_off(serve, muster):
    """`muster chaos` is aimed at a rank of another machine. It can cut the rank off, and not kill
    or freeze it."""
    service = serve("--job", "far", "--lease", "1h")
    wire = Wire(service.address)
    assert wire.open_rank(0, 1, job="far", host="elsewhere").status == 0
    done = muster("chaos", "random", "--kinds", "kill,freeze")
    assert (done.returncode, done.stderr) == (
        1, "muster chaos: no rank or worker of job 'far' runs on this machine; only cut reaches the others\n")
    done = muster("chaos", "freeze", 0)
    assert done.returncode == 1 and "#0 of job 'far' runs on elsewhere; this is " in done.stderr
    done = muster("chaos", "random", "--rate", "100/s", "--count", 1)
    assert done.returncode == 0 and " of job 'far' is cut" in done.stdout, done.stderr
    assert wire.ended()


def test_a_full_stdout_is_told(run, env):
    """The standard output of `muster chaos` is full. It prints one line and ends with 1."""
    job = run(1)
    ranks = job.entered()
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([MUSTER, "chaos", "cut", "0", "-j", job.job], env=env, stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=WAIT_S)
    assert (done.returncode, done.stderr) == (
        1, "muster chaos: cannot write to stdout: No space left on device\n")
    until(lambda: state(job, 0) == "present")
    job.all_well(ranks)
