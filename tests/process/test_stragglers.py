# SPDX-License-Identifier: Apache-2.0
"""How far each rank is, and which one the others wait for, in real runs of ranks/pace: the loop of a
synchronous training, in which one rank may work longer.

behaviour: restart / Stragglers
"""

import json
import os
import re
import signal
import subprocess

import pytest

from conftest import BUILD, sanitized
from exposition import parse
from running import Run, read, until

RANK = BUILD / "tests" / "process" / "ranks" / "pace"
SIZE = 8
COMPUTE_MS = 400
LONG = 5000  # steps: longer than any test


@pytest.fixture
def pace(spawn, muster, tmp_path):
    """pace(way, slow, percent, flags...) is a run of 8 ranks."""

    def start(way, slow, percent, *flags, size=SIZE, steps=LONG, compute_ms=COMPUTE_MS):
        return Run(spawn, muster, size, *flags, rank=(RANK, way, slow, percent, compute_ms, steps, tmp_path))

    return start


def status_of(run):
    done = run.muster("status", "-j", run.job, "--json")
    return json.loads(done.stdout) if done.returncode == 0 else None


def metrics_of(run):
    line = run.log.wait_for("muster run: health and metrics on ")
    return parse(read(line.split(" on ", 1)[1] + "/metrics"))


def step_of(run):
    steps = [int(line.rsplit(" ", 1)[1]) for line in run.out.having("step ")]
    return max(steps, default=0)


def progress(status):
    return {
        member["index"]: member["progress"]
        for member in status["members"]
        if member["role"] == "rank" and member["progress"] is not None
    }


def named(run):
    """What status says when it names a straggler, and at which step of rank 0 that was."""

    def look():
        status = status_of(run)
        return status if status and status["stragglers"] else None

    return until(look, lambda: "\n".join(run.log.lines)), step_of(run)


@pytest.mark.parametrize("way, work", [("barrier", "waits"), ("section", "sections")])
def test_the_slow_rank_of_eight_is_named(pace, muster, way, work, lateness):
    """Of 8 ranks that meet in each step, in muster or elsewhere with sections around their work, one
    works 30 % longer. It alone is named by status, log, `muster why` and metrics, with what its work
    takes; within 20 steps and the time of a renewal."""
    run = pace(way, 5, 30, "--http", "localhost:0")
    status, step = named(run)
    assert status["stragglers"] == [5]
    assert step <= 20 + (2 + lateness.spare_s()) * 1000 / COMPUTE_MS, step
    ranks = progress(status)
    assert sorted(ranks) == list(range(SIZE))
    assert [index for index, of in ranks.items() if of["straggler"]] == [5]
    assert {of["work"] for of in ranks.values()} == {work}
    assert ranks[5]["slower"] >= 1.2 and ranks[5]["work_ms"] >= 1.2 * COMPUTE_MS
    assert status["verdict"]["kind"] == "straggles" and status["verdict"]["index"] == 5, status["verdict"]
    text = muster("status", "-j", run.job).stdout
    slow = r"1\.\d\d times the work of the median"
    assert re.search(rf"; rank 5 \(#5\) on .* is a straggler: {slow}$", text.splitlines()[0]), text
    assert re.search(rf"^  rank 5 \(#5\)  .*, straggler: {slow}", text, re.M), text
    assert text.count("straggler") == 2, text
    assert any("straggler #5 " in line for line in run.log.lines), run.log.lines
    metrics = metrics_of(run)
    assert metrics.value("muster_stragglers", job=run.job) == 1
    assert 0.5 <= metrics.value("muster_steps_per_second", job=run.job) <= 1000 / COMPUTE_MS
    assert metrics.value("muster_goodput_ratio", job=run.job) == 1
    why = muster("why", "-j", run.job).stdout
    assert re.search(r"rank 5 \(#5\) on .* is a straggler: its work in a step takes 1\.\d\d times the median", why), why


BUSY_MS = 20
# The rank gets a twelfth of its processor: enough for a step in a quarter of a second, and on a busy machine less
# than the others get of theirs.
HOGS = 4
NICE = 5


@pytest.fixture
def hogs():
    """Processes that use all of the CPU that they are given, as much as that one has."""
    kept = []

    def start(cpu):
        for _ in range(HOGS):
            kept.append(subprocess.Popen(["sh", "-c", "while :; do :; done"], start_new_session=True,
                                         preexec_fn=lambda: os.sched_setaffinity(0, {cpu})))

    yield start
    for one in kept:
        one.kill()
        one.wait()


@pytest.mark.skipif(sanitized(), reason="it is about the time of a processor, which a sanitizer uses")
def test_a_rank_whose_processor_others_use_is_named(pace, muster, hogs):
    """Of 3 ranks that compute alike, and block elsewhere until all have come, one shares its processor with
    busy processes of a higher priority. Nothing is declared, and the ranks do not wait in muster: it alone is
    named, by the time in which its thread ran or waited for a processor."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one processor: the other ranks would share it with the busy processes too")
    run = pace("busy", 99, 0, size=3, compute_ms=BUSY_MS)
    until(lambda: step_of(run) >= 1, lambda: "\n".join(run.log.lines))
    pids = {one["index"]: one["pid"] for one in status_of(run)["members"] if one["role"] == "rank"}
    for index, pid in pids.items():
        os.sched_setaffinity(pid, {cpus[0]} if index == 1 else set(cpus[1:]))
    os.setpriority(os.PRIO_PROCESS, pids[1], NICE)
    hogs(cpus[0])

    def look():
        status = status_of(run)
        return status if status and status["stragglers"] == [1] else None

    status = until(look, lambda: "\n".join(run.log.lines))
    ranks = progress(status)
    assert {of["work"] for of in ranks.values()} == {"cpu"}
    assert ranks[1]["slower"] >= 1.2
    assert status["verdict"]["kind"] == "straggles" and status["verdict"]["index"] == 1, status["verdict"]
    why = muster("why", "-j", run.job).stdout
    assert re.search(r"rank 1 \(#1\) on .* is a straggler: its work in a step takes \d+\.\d\d times the median", why), why


def test_no_rank_of_even_ones_is_named(pace):
    """8 ranks meet in each step and work equally long. For 60 steps none is named, and all have the
    same rate, that of the job."""
    run = pace("barrier", 99, 0)
    seen = []

    def far():
        status = status_of(run)
        if status is None:
            return False
        seen.append(status)
        return step_of(run) >= 60

    until(far, lambda: "\n".join(run.log.lines))
    assert all(not status["stragglers"] for status in seen)
    last = seen[-1]
    ranks = progress(last)
    assert sorted(ranks) == list(range(SIZE))
    assert last["steps_per_s"] == sorted(of["steps_per_s"] for of in ranks.values())[(SIZE - 1) // 2]
    assert all(of["section"] is None and of["generation"] == 1 for of in ranks.values())
    assert all(0 < of["steps_per_s"] <= 1000 / COMPUTE_MS * 1.1 for of in ranks.values()), ranks
    assert all(of["behind"] <= 2 for of in ranks.values()), ranks


def test_a_rank_that_falls_behind_is_seen(pace):
    """Ranks that do not meet have their own rates. The one that works three times as long falls behind
    the median."""
    run = pace("alone", 2, 200, size=3)

    def behind():
        status = status_of(run)
        ranks = progress(status) if status else {}
        return ranks if len(ranks) == 3 and ranks[2]["behind"] >= 10 else None

    ranks = until(behind, lambda: "\n".join(run.log.lines))
    assert ranks[0]["behind"] <= 3 and ranks[1]["behind"] <= 3, ranks
    assert ranks[2]["step"] < ranks[0]["step"]


def test_steps_that_a_restart_repeats_are_told(pace, muster):
    """A rank of three whose loop begins at step 0 each time is killed, and replaced. `muster why` says how
    many steps the restart repeats: all that were done until then, of the rank that was farthest.
    [generations / What happened to a job]"""
    run = pace("barrier", 99, 0, "--min-size", "3", size=3)
    until(lambda: step_of(run) >= 4)
    pids = {one["index"]: one["pid"] for one in status_of(run)["members"] if one["role"] == "rank"}
    os.kill(pids[1], signal.SIGKILL)
    steps = lambda: [int(line.rsplit(" ", 1)[1]) for line in run.out.having("step ")]
    until(lambda: 0 in steps()[1:])
    reached = steps()[steps().index(0, 1) - 1]

    def told():
        story = json.loads(muster("why", "-j", run.job, "--json").stdout)
        return story if story["steps_repeated"] else None

    story = until(told, lambda: "\n".join(run.log.lines))
    assert reached + 1 <= story["steps_repeated"] <= reached + 2  # a rank may be one step ahead of rank 0
    restarted = story["incidents"][-1]
    assert (restarted["what"], restarted["repeated"]) == ("restarted", story["steps_repeated"])
    assert restarted["sentence"].endswith(f"; {story['steps_repeated']} steps repeated")
    assert f", repeated {story['steps_repeated']} steps, in " in muster("why", "-j", run.job).stdout


def test_the_seconds_of_an_incident_are_those_that_why_tells(spawn, muster):
    """A rank is killed and replaced. The metrics have the time without all ranks under its cause, the
    same that `muster why` tells, and the goodput is less than 1 by its share. [generations / What
    happened to a job]"""
    run = Run(spawn, muster, 3, "--http", "localhost:0")
    ranks = run.entered()
    assert metrics_of(run).value("muster_goodput_ratio", job=run.job) == 1
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    ranks = run.entered(ranks[1]["generation"] + 1)

    def counted():  # the status of the process comes after its death
        metrics = metrics_of(run)
        found = metrics.value("muster_incident_seconds_total", job=run.job, kind="fault", reason="signal")
        return metrics if found > 0 else None

    metrics = until(counted)
    lost_s = sum(
        sample.value for sample in metrics.families["muster_incident_seconds_total"].samples
    )
    story = json.loads(muster("why", "-j", run.job, "--json").stdout)
    assert abs(1000 * lost_s - story["restart_ms"]) <= 2 * (story["restarts"] + story["grown"]), story
    assert 0 < metrics.value("muster_goodput_ratio", job=run.job) < 1
    run.all_well(ranks)
