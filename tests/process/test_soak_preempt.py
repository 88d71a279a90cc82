# SPDX-License-Identifier: Apache-2.0
"""`make soak-preempt`, as many notices as fit into a minute: each is saved by all ranks, at one step;
and that the tool notices what is not.

behaviour: preemption / At random moments
"""

import argparse
import collections
import importlib.machinery
import importlib.util
import json
import pathlib
import re
import subprocess
import types

import pytest

from conftest import BUILD, ROOT

SOAK = ROOT / "tools" / "soak_preempt"
SECONDS = 60
NOTICES_LEAST = 5  # on a machine that has much else to do, under a sanitizer; alone some hundreds
LIMIT_S = 200
STEP = 30


def soak(env, *arguments, **settings):
    return subprocess.run([SOAK, "--bin", BUILD / "bin", *map(str, arguments)],
                          env={**env, **settings}, capture_output=True, text=True, timeout=LIMIT_S)


def test_notices_at_random_moments(env):
    """Real runs get notices of all kinds, some twice, some too late to save, while they warm up,
    take steps, save, evaluate or restart, or a rank is killed at the same time. `make
    soak-preempt` gives a thousand of them. No run hangs; wherever the deadline left the time,
    all ranks save one step, the run ends with 75, and the next one begins at that step."""
    done = soak(env, "--seconds", SECONDS, "--seed", 1)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    print(last)
    found = re.match(r"soak: PASSED, seed 1: (\d+) notices \(.*\) in (\d+) runs ", last)
    assert found and last.endswith(": no save lost, no hang, one step on all ranks"), last
    assert int(found[1]) >= NOTICES_LEAST


def test_a_rank_that_saves_another_step_fails_the_soak(env, tmp_path):
    """A rank saves another step than the others. The soak fails, keeps what the ranks said, and
    prints the command that repeats the run."""
    done = soak(env, "--runs", 1, "--seed", 3, SOAK_WRONG="2", TMPDIR=str(tmp_path))
    assert done.returncode == 1, done.stdout
    assert re.search(r"FAILED: seed 3: #\d was told at=\d+ status=MUSTER_EMISMATCH ", done.stdout)
    assert "to repeat it: tools/soak_preempt --seed 3 --runs 1" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("soak: FAILED, seed 3: 0 notices ")
    (kept,) = tmp_path.glob("soak-3-*")
    assert (kept / "ranks.log").exists() and (kept / "run.log").exists()


# ---- the judge ----


@pytest.fixture
def module():
    loader = importlib.machinery.SourceFileLoader("soak_preempt", str(SOAK))
    made = importlib.util.module_from_spec(importlib.util.spec_from_loader("soak_preempt", loader))
    loader.exec_module(made)
    return made


class Told(types.SimpleNamespace):
    def number(self, name):
        return int(self.fields[name])


def event(index, name, **fields):
    return Told(index=index, name=name, text=str(fields),
                fields={key: str(value) for key, value in fields.items()})


@pytest.fixture
def verdict(module, tmp_path):
    """What the judge says of a run in which all was well but for what is changed; None: nothing."""

    def say(code=75, last=10, begins=(10, 10, 10, 10), told=(STEP,) * 4,
            files=tuple(f"{STEP}.{rank}.4" for rank in range(4)), **report):
        work = module.Soak(argparse.Namespace(bin=pathlib.Path("bin")), tmp_path)
        work.last = last
        for name in files:
            (work.saved / name).touch()
        attempt = module.Attempt(work, next(
            seed for seed in range(99) if not module.Plan(seed).short_ms))
        events = [event(i, "begins", at=at, generation=1) for i, at in enumerate(begins)]
        events += [event(i, "saved", at=at, generation=1, status="MUSTER_EPREEMPTED")
                   for i, at in enumerate(told)]
        attempt.run = types.SimpleNamespace(
            find=lambda name: [one for one in events if one.name == name])
        attempt.report.write_text(json.dumps({"preemption": {
            "saved": True, "agreed_step": STEP, "saved_by": 4, "of": 4, "missing": [], **report}}))
        try:
            attempt.judge(code, 4)
        except module.Failed as failure:
            return str(failure)
        assert work.last == STEP and work.saves == 1
        return None

    return say


@pytest.mark.parametrize("wrong, words", [
    ({}, None),
    ({"saved": False}, "a save is lost"),
    ({"saved_by": 3}, "saved, it says, and"),
    ({"code": 0}, "was saved by all, and the run ended with 0"),
    ({"agreed_step": STEP + 1}, f"step {STEP + 1} is said to be saved by all"),
    ({"files": (f"{STEP}.0.4", f"{STEP}.1.4", f"{STEP}.3.4")}, "its files are"),
    ({"told": (STEP, STEP, STEP, STEP + 1)}, f"was told that step {STEP + 1} is saved"),
    ({"told": ()}, "the ranks were told []"),
    ({"begins": (10, 10, 9, 10)}, "generation 1 began at [9, 10]"),
    ({"last": 20}, "began at [10], and step 20 was saved by all"),
])
def test_what_is_wrong_is_no_pass(verdict, wrong, words):
    """In the soak a save is lost, files are missing, the exit code or where ranks begin is
    another. Each is a verdict of its own."""
    found = verdict(**wrong)
    assert found is None if words is None else words in found


def test_a_seed_decides_all_and_all_moments_come(module):
    """The soak is given its seed again. It does the same; every moment, a short deadline and the
    leaving of the noticed are among what it does."""
    plans = [module.Plan(seed) for seed in range(300)]
    again = [module.Plan(seed) for seed in range(300)]
    assert [p.environment("f") for p in plans] == [p.environment("f") for p in again]
    assert [p.dice.random() for p in plans] == [p.dice.random() for p in again]
    found = collections.Counter(plan.moment(False) for plan in plans)
    assert set(found) == set(module.MOMENTS)
    assert any(plan.short_ms for plan in plans) and any(plan.alone for plan in plans)
