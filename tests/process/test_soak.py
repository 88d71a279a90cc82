# SPDX-License-Identifier: Apache-2.0
"""`make soak`, a little of it: that it attacks, counts, says so, and notices a wrong digest.

behaviour: examples / The soak
"""

import argparse
import importlib.machinery
import importlib.util
import pathlib
import re
import subprocess
import sys
import types

import pytest

from conftest import BUILD, ROOT, sanitized
from test_demo import folder  # noqa: F401

SOAK = ROOT / "tools" / "soak"
KILLS = 2
# A `muster` whose first run that could be resumed is not well.
UNWELL = """#!{python}
import pathlib, signal, sys
once = pathlib.Path(__file__).with_name("once")
if "--checkpoint" in sys.argv and not once.exists():
    once.touch()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
    print("@1.000000 #0 running generation=1 rank=0 size=4 step=0", flush=True)
    {how}
print("@1.000000 #0 result steps=70 digest=a1")
"""
STEPS = 50 if sanitized() else 150  # of a training
LIMIT_S = 240  # on a machine that has much else to do; alone it takes some ten seconds


def soak(env, *arguments):
    return subprocess.run([SOAK, "--bin", BUILD / "bin", *map(str, arguments)], env=env,
                          capture_output=True, text=True, timeout=LIMIT_S)


def test_a_handful_of_strikes(env, folder):  # noqa: F811
    """`make soak` attacks the example. After each run the digest is compared, and the last line
    counts runs, kills, freezes, cuts and restarts."""
    done = soak(env, "--only", "demo", "--kills", KILLS, "--seed", 1, "--steps", STEPS,
                "--rate", "300/min", "--folder", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    found = re.fullmatch(
        r"soak: PASSED, seed 1: (\d+) runs, (\d+) kills \((\d+) of the service\), (\d+) freezes, "
        r"(\d+) cuts, 0 resumes, (\d+) restarts, longest interruption \d+\.\d s: the same digest each time",
        last)
    assert found, last
    assert int(found[1]) >= 1 and int(found[2]) >= KILLS
    assert re.search(r"seed 1: \d+ s, \d+ generations, the same digest; so far ", done.stdout)


def test_a_training_that_is_resumed_and_struck_then(env, folder):  # noqa: F811
    """Trainings are stopped by a notice, resumed, and struck when ranks start, load, run, write
    or commit: one rank, two, all, the service; some are resumed several times. The weights are
    those of an undisturbed run. `make soak ONLY=resumed RUNS=100` does 100 of them. [Training]"""
    done = soak(env, "--only", "resumed", "--runs", 1, "--seed", 1, "--steps", 2 * STEPS,
                "--folder", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    found = re.fullmatch(r"soak: PASSED, seed 1: 1 runs, (\d+) kills .*, (\d+) resumes, (\d+) restarts, "
                         r"longest interruption \d+\.\d s: the same digest each time", last)
    assert found, last
    assert all(int(number) > 0 for number in found.groups())


def test_the_seed_decides_the_strikes_at_a_resumed_training():
    """The seed decides all strikes at a resumed training; a hundred seeds have every kind."""
    module = tool()

    def strikes(seed):
        return list(map(str, module.Schedule(seed, "muster", "job", {}, module.Counts()).strikes))

    plans = [strikes(seed) for seed in range(100)]
    assert plans[7] == strikes(7)
    assert len(set(map(tuple, plans))) == 100
    assert all(plan[0].startswith("notice") and len(plan) > 2 for plan in plans)
    kinds = {strike.split()[0] for plan in plans for strike in plan[1:]}
    assert kinds == {"kill", "pair", "all", "service", "freeze", "notice"}


def test_a_run_that_fails_says_how_to_repeat_it(env, tmp_path):
    """A run of the soak fails. Its last lines are shown, with the command that repeats it."""
    done = soak(env, "--only", "demo", "--runs", 1, "--seed", 5, "--folder", tmp_path / "nothing")
    assert done.returncode == 1
    assert "soak: FAILED: " in done.stdout
    assert done.stdout.splitlines()[-1].startswith("soak: FAILED, seed 5: 0 runs, ")


def tool():
    loader = importlib.machinery.SourceFileLoader("soak", str(SOAK))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("soak", loader))
    loader.exec_module(module)
    return module


def test_a_wrong_digest_is_no_pass(monkeypatch, capsys):
    """A digest of the soak is wrong. The verdict says so, with the command that repeats this run."""
    module = tool()
    digests = iter(["a1", "a1", "b2"])

    def train(work, name, *_):
        return types.SimpleNamespace(find=lambda _: [], result=lambda: {"digest": next(digests)})

    monkeypatch.setattr(module.Soak, "train", train)
    arguments = argparse.Namespace(
        seed=40, runs=9, kills=None, minutes=None, only="demo", steps=70, rate="60/min",
        kinds="kill,cut", folder=None, bin=pathlib.Path("build/dev/bin"))
    assert module.soak(arguments) == 1
    said = capsys.readouterr().out
    assert "seed 41: the digest is b2, undisturbed it is a1" in said
    assert ("to repeat it: tools/soak --only demo --seed 41 --runs 1 --steps 70 --rate 60/min "
            "--kinds kill,cut") in said
    assert said.splitlines()[-1].startswith("soak: FAILED, seed 40: 2 runs, ")


def test_strikes_that_are_noticed_are_no_pass(monkeypatch, capsys):
    """A test that strikes the service fails. The verdict says what is wrong, with the command that
    repeats this history."""
    module = tool()
    ran = []

    def run(words, env, **_):
        ran.append((words[words.index("-k") + 1], env["MUSTER_STRIKES"], env["MUSTER_SEED"]))
        return types.SimpleNamespace(returncode=len(ran) // 3)

    monkeypatch.setattr(module.subprocess, "run", run)
    arguments = argparse.Namespace(seed=40, runs=None, kills=40, minutes=None, only="linearizable",
                                   bin=pathlib.Path("build/dev/bin"))
    assert module.soak(arguments) == 1
    assert ran == [("is_linearizable", "16", "40"), ("is_linearizable", "16", "41"),
                   ("is_linearizable", "8", "42")]
    said = capsys.readouterr().out
    assert "soak: FAILED: answers that no order of the calls explains, or an acknowledged write" in said
    assert "to repeat it: tools/soak --only linearizable --seed 42 --kills 8\n" in said


@pytest.mark.parametrize("how, words", [
    # It saves when it is stopped, and would come to the digest when it is resumed.
    ("signal.pause()", ["the run did not end within 1 s"]),
    ("sys.stderr.write('why\\n'); sys.exit(137)", ["the run ended with 137", "  why"])])
def test_a_run_that_does_not_end_well_is_no_pass(monkeypatch, capsys, tmp_path, how, words):
    """A run of the soak does not end. It is stopped, and the verdict says so, whatever it ends
    with then and comes to when it is resumed."""
    module = tool()
    program = tmp_path / "muster"
    program.write_text(UNWELL.format(python=sys.executable, how=how))
    program.chmod(0o700)
    monkeypatch.setattr(module, "RESUMED_LIMIT_S", 1 if "pause" in how else 60)
    arguments = argparse.Namespace(
        seed=40, runs=1, kills=None, minutes=None, only="resumed", steps=70, rate="60/min",
        kinds="kill,cut", folder=None, bin=tmp_path)
    assert module.soak(arguments) == 1
    said = capsys.readouterr().out
    assert "soak: FAILED: seed 40: " + "\n".join(words) in said
    assert "to repeat it: tools/soak --only resumed --seed 40 --runs 1 " in said
