# SPDX-License-Identifier: Apache-2.0
"""The examples as a reader runs them: the same weights whoever computes what and whoever dies, no
finished step lost, survivors that stay the processes they were, and a blocked recv cut short.

behaviour: examples / Training
"""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess

import pytest

from conftest import Process, sanitized

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MUSTER_BUILD", ROOT / "build" / "dev"))
CHARLM = BUILD / "bin" / "charlm"
HELLO = BUILD / "bin" / "hello"
STEPS = 30 if sanitized() else 80  # with a sanitizer a step takes twelve times as long
DEMO_STEPS = 60  # the fewest that it takes
TRAINING_S = 150  # for a training on a machine that is slow besides
HOLD = 8  # leaves time for a replacement to come before the rest is done
RESUMED_HOLD = 16  # behind what was saved at a notice that came at HOLD
SOFT_S = 5  # leaves time to freeze a rank while rank 0 stands still, which is no progress either
RECV = {45, 207}  # recvfrom on x86-64 and arm64

EVENT = re.compile(r"@\d+\.\d+ #(\d+) ([a-z]+) (.*)$")


class Event:
    def __init__(self, match):
        self.index, self.name = int(match[1]), match[2]
        self.fields = dict(re.findall(r"([a-z-]+)=(\S+)", match[3]))

    def __getitem__(self, key):
        return self.fields[key]


def events(process, name):
    """What the ranks told so far, by name."""
    found = [EVENT.search(line) for line in process.out.having("@", f" {name} ")]
    return [Event(match) for match in found if match]


def result(process):
    return events(process, "result")[-1]


def ended(process):
    """How a training ends, for which there is more time than for anything else."""
    process.process.wait(TRAINING_S)
    return process.wait()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A little text of our own: the licences of the machine take a sanitizer long to read."""
    path = tmp_path_factory.mktemp("text")
    (path / "learn").write_bytes((ROOT / "LICENSE").read_bytes())
    (path / "test").write_bytes((ROOT / "CONTRIBUTING.md").read_bytes()[:2000])
    return path


@pytest.fixture
def train(spawn, env, folder):
    def start(ranks=4, hold=None, checkpoint=None, flags=(), words=(), **settings):
        hold = {} if hold is None else {"CHARLM_HOLD": str(hold)}
        saved = [] if checkpoint is None else ["--checkpoint", checkpoint]
        return spawn("run", "-n", ranks, "-j", "demo", *flags, "--", CHARLM, "--steps", STEPS, *saved,
                     folder, *words, env={**env, **hold, **settings})

    return start


@pytest.fixture
def checkpoint(train, muster, env, tmp_path):
    """A training that was stopped by a notice when it stood at HOLD, and is to be resumed."""
    path = tmp_path / "checkpoint"
    run = train(hold=HOLD, checkpoint=path)
    run.out.wait_for(" holding ")
    assert muster("preempt", "-j", "demo", "--in", "60s", env=env).returncode == 0
    assert ended(run) == 75, "\n".join(run.out.lines + run.log.lines)
    steps = {int(event["step"]) for event in events(run, "saved")}
    assert len(events(run, "saved")) == 4 and len(steps) == 1 and HOLD <= min(steps) < RESUMED_HOLD
    assert sorted(file.name for file in tmp_path.glob("checkpoint.*")) == [
        f"checkpoint.{index}" for index in range(4)]
    return path


def digest_of(tmp_path_factory, folder, steps):
    """Of the weights that one process alone comes to."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")}
    clean["MUSTER_RUNTIME_DIR"] = str(tmp_path_factory.mktemp("run"))
    os.chmod(clean["MUSTER_RUNTIME_DIR"], 0o700)
    done = subprocess.run([CHARLM, "--steps", str(steps), folder], env=clean, text=True,
                          timeout=TRAINING_S, capture_output=True)
    assert done.returncode == 0, done.stderr
    return re.search(r"digest=(\w+)", done.stdout)[1]


@pytest.fixture(scope="module")
def digest(tmp_path_factory, folder):
    return digest_of(tmp_path_factory, folder, STEPS)


def await_recv(pid):
    """Until the process's main thread is blocked in recv."""
    nothing = select.poll()
    for _ in range(3000):
        with open(f"/proc/{pid}/syscall") as file:
            call = file.read().split()[0]
        if call.isdigit() and int(call) in RECV:
            return
        nothing.poll(10)
    pytest.fail(f"{pid} does not wait in recv")


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_the_weights_do_not_depend_on_who_computed_what(train, digest, ranks):
    """The model is trained by one process, or by two, three or four ranks. The weights are the
    same to the last bit."""
    run = train(ranks)
    assert ended(run) == 0
    assert result(run)["digest"] == digest
    assert result(run)["steps"] == str(STEPS)


@pytest.mark.parametrize("victim", [0, 1, 2, 3])
def test_a_killed_rank_costs_no_finished_step(train, digest, victim):
    """A rank is killed, whichever it is, while others wait in `recv`, each for the one before it.
    Those that waited for a living one are freed by muster. No finished step is lost, the
    survivors are the processes they were and have no fault, the killed one comes back, and the
    weights are those of an undisturbed run."""
    killed_rank(train(hold=HOLD), digest, victim, HOLD)


@pytest.mark.parametrize("victim", [0, 1, 2, 3])
def test_a_killed_rank_costs_no_finished_step_after_a_resume(train, digest, victim, checkpoint):
    """A rank is killed in a training that was stopped by a notice and resumed. No finished step
    is lost. The replacement does not load the file it finds, which is older than what the
    others hold. When the training is done, no file is left."""
    run = train(hold=RESUMED_HOLD, checkpoint=checkpoint)
    killed_rank(run, digest, victim, RESUMED_HOLD)
    assert len(events(run, "loaded")) == 4
    assert not list(checkpoint.parent.glob("checkpoint.*"))


@pytest.mark.parametrize("victim", [0, 2])
def test_a_frozen_rank_costs_no_finished_step_after_a_resume(train, digest, victim, checkpoint):
    """A rank is frozen in a training that was resumed: nothing ends and no socket closes. It is
    found by its missing progress, killed and replaced; no finished step is lost."""
    run = train(hold=RESUMED_HOLD, checkpoint=checkpoint, flags=("--lease", "60s"),
                MUSTER_SOFT_TIMEOUT=f"{SOFT_S}s", MUSTER_HARD_TIMEOUT=f"{2 * SOFT_S}s")
    killed_rank(run, digest, victim, RESUMED_HOLD, signal.SIGSTOP)
    assert len(events(run, "loaded")) == 4
    assert not list(checkpoint.parent.glob("checkpoint.*"))
    assert run.log.having(f"rank {victim} (#{victim}, ", "and was ended; starting it again")


def killed_rank(run, digest, victim, hold, how=signal.SIGKILL):
    """Rank 0 stands still, so the others wait in recv, each for the one before it; then one is
    killed. Those who waited for a living one can only have been freed by muster."""
    run.out.wait_for(" holding ")
    run.out.wait_for(" started ", count=4)  # of the others, each on its own way here
    pids = {event.index: int(event["pid"]) for event in events(run, "started")}
    for index in (1, 2, 3):
        await_recv(pids[index])
    os.kill(pids[victim], how)
    assert ended(run) == 0, "\n".join(run.log.lines)

    assert result(run)["digest"] == digest
    told = {event.index: event for event in events(run, "told") if event["generation"] == "1"}
    assert not run.log.having(" failed")  # no survivor is blamed, whichever socket broke
    for index in {1, 2, 3} - {victim, (victim + 1) % 4}:
        assert (told[index]["by"], told[index]["call"]) == ("interrupt", "recv"), vars(told[index])
        assert int(told[index]["peer"]) == index - 1 != victim
    reached = max(int(event["step"]) for event in told.values())
    assert all(int(event["step"]) >= reached >= hold for event in events(run, "running")
               if event["generation"] != "1")
    again = {}
    for event in events(run, "started"):
        again.setdefault(event.index, []).append(int(event["pid"]))
    for index, pid in pids.items():
        assert again[index][0] == pid
        assert len(again[index]) == (2 if index == victim else 1)


def test_the_ring_is_short():
    """The ring of the example, which survives the death of a neighbour, has at most 60 lines of
    code."""
    text = re.sub(r"/\*.*?\*/", "", (ROOT / "examples/charlm/ring.c").read_text(), flags=re.S)
    assert 40 < len([line for line in text.splitlines() if line.strip()]) <= 60


@pytest.mark.parametrize("words, what", [
    (["--seed", 2], "seed is 1, not 2"), (["--steps", STEPS + 1], f"number of steps is {STEPS}, not"),
    (["text"], "text's digest is ")])
def test_a_checkpoint_of_another_training_is_refused(train, folder, checkpoint, monkeypatch, words,
                                                     what):
    """A training is given the checkpoint of another one: another seed, number of steps, text or
    size. It ends before any rank has loaded, also if one rank alone has such a file: none has
    loaded what another refuses. One line says which file, what differs and what to do; the
    file stays."""
    monkeypatch.chdir(checkpoint.parent)
    shutil.copytree(folder, "text")
    pathlib.Path("text/learn").write_bytes((folder / "learn").read_bytes()[:-1])
    for index in range(3):
        checkpoint.with_name(f"checkpoint.{index}").unlink()
    run = train(checkpoint=checkpoint, words=words)
    assert ended(run) == 1
    assert not [line for line in run.out.lines if re.search(" (loaded|running|result) ", line)]
    (said,) = run.log.having("muster run: rank 3 (#3) asked that all end: ")
    assert f"{checkpoint}.3 is of another training, whose {what}" in said
    assert said.endswith(": give another --checkpoint, or remove it")
    assert list(checkpoint.parent.glob("checkpoint.*")) == [checkpoint.with_name("checkpoint.3")]


def test_nothing_is_left_of_a_training_that_fewer_ranks_have_finished(train, digest, checkpoint):
    """A training was stopped, and fewer ranks have finished it. The digest is the same, and none
    of its files is left, committed or not, nor those of ranks of a longer run; files of others
    stay."""
    for name in ("3.17", "0.9"):
        shutil.copy(f"{checkpoint}.1", f"{checkpoint}.{name}")
    kept = checkpoint.with_name("checkpoint.7")
    kept.write_text("a file of another program")
    run = train(1, checkpoint=checkpoint)
    assert ended(run) == 0, "\n".join(run.log.lines)
    assert result(run)["digest"] == digest
    assert list(checkpoint.parent.glob("checkpoint.*")) == [kept]


def demo(env, folder, *words):
    return subprocess.run(
        [ROOT / "tools" / "demo", "--steps", str(DEMO_STEPS), "--seed", "3", "--folder", folder,
         "--bin", BUILD / "bin", *words], env=env, capture_output=True, text=True,
        timeout=2 * TRAINING_S)


@pytest.fixture
def shown(env, folder, once={}):
    """One demo, which its tests look at."""
    if not once:
        once["done"] = demo(env, folder, "--bits-max", "8", "--json")
    assert once["done"].returncode == 0, once["done"].stdout + once["done"].stderr
    return once["done"]


def test_the_demo_ends_well(shown):
    """The demo ends well. Both digests are equal, the survivors kept their processes, no finished
    step was lost, and a table says when each rank was notified and ran again. [The demo]"""
    said = json.loads(shown.stdout)
    assert said["wrong"] == []
    assert said["digests"][0] == said["digests"][1]
    survivors = {str(index) for index in range(4)} - {str(said["killed"])}
    assert all(len(said["pids"][index]) == 1 for index in survivors)
    first, *others = said["rows"]
    assert first["event"].startswith("killed (SIGKILL)")
    # Three are told of the loss; and of the newcomer, if it was not ready when they sealed.
    assert len(others) in (3, 6)
    assert all(0 < row["told_ms"] < row["running_ms"] for row in others)


def test_the_demos_second_act_replaces_a_frozen_rank(shown):
    """A rank is frozen in the demo's second act. It is found by its missing progress, not by the
    lease of 10 s, and killed; another process takes its place, and the digest is the same.
    [The demo]"""
    said = json.loads(shown.stdout)["second"]
    assert said["wrong"] == []
    assert said["digests"][0] == said["digests"][1]
    frozen, survivors = str(said["frozen"]), {"0", "1", "2", "3"} - {str(said["frozen"])}
    assert all(len(said["pids"][index]) == 1 for index in survivors)
    assert len(said["pids"][frozen]) == 2
    first, ended, *others = said["rows"]
    assert first["event"].startswith("frozen (SIGSTOP)")
    assert ended["event"] == "no progress: ended by its agent"
    # By the hard limit of 2 s; its last progress was some time before it was stopped.
    assert 1000 < ended["told_ms"] < first["running_ms"]
    assert {row["who"].split()[0][1:] for row in others} == survivors
    assert re.search(r"made no progress for \d+\.\d s: ", shown.stderr)
    assert "and was ended; starting it again" in shown.stderr


def test_the_demos_third_act_is_stopped_and_goes_on_from_what_all_saved(shown):
    """A notice comes in the demo's third act: the job ends in 30 s. All ranks save the same step,
    `muster run` ends with 75, the same command goes on from that step. A rank is killed in
    that run as well; it is replaced, and the digest is that of the undisturbed run. [The demo]"""
    said = json.loads(shown.stdout)["third"]
    assert said["wrong"] == []
    assert {index for index, _ in said["saved"]} == {0, 1, 2, 3}
    assert len({step for _, step in said["saved"]}) == 1
    assert sorted(said["loaded"]) == sorted(said["saved"])
    killed = str(said["killed"])
    assert {index: len(pids) for index, pids in said["pids"].items()} == {
        index: 2 if index == killed else 1 for index in "0123"}
    assert said["digests"][0] == said["digests"][1]


@pytest.mark.skipif(sanitized(), reason="a sanitizer makes training too slow for the demo's limit")
def test_the_demo_of_the_readme():
    """`make demo` runs with its own text (the machine's licences), 1,200 steps and seed. It ends
    well within its limits of time and of bits per character."""
    done = subprocess.run([ROOT / "tools" / "demo", "--seed", "7", "--bin", BUILD / "bin"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the same" in done.stdout


def test_the_demo_says_when_it_is_not_good_enough(env, folder):
    """The model did not learn enough. The demo fails and says so. [The demo]"""
    done = demo(env, folder, "--bits-max", "1")
    assert done.returncode == 1
    assert "over 1.0 bits per character" in done.stderr


def test_the_seed_picks_the_victim_and_the_step():
    """Another seed is given to the demo. Another rank is killed, at another step; the same seed
    picks the same. [The demo]"""
    loader = importlib.machinery.SourceFileLoader("demo", str(ROOT / "tools" / "demo"))
    tool = importlib.util.module_from_spec(importlib.util.spec_from_loader("demo", loader))
    loader.exec_module(tool)
    picks = [(killer.index, killer.step) for killer in (tool.Killer(n, 1200) for n in range(40))]
    assert {index for index, _ in picks} == {0, 1, 2, 3}
    assert len({step for _, step in picks}) > 10
    assert all(0 < step < 1200 for _, step in picks)
    again = tool.Killer(7, 1200)
    assert (again.index, again.step) == picks[7]


def test_the_reader_may_kill_by_hand(env, folder, started):
    """The reader wants to kill by hand. The demo waits, says how, and goes on with whichever rank
    was killed; it ends with a line of the model's text and both digests. [The demo]"""
    run = Process([ROOT / "tools" / "demo", "--hands", "--steps", str(DEMO_STEPS), "--folder",
                   folder, "--bin", BUILD / "bin", "--bits-max", "8"], env)
    started.append(run)
    line = run.out.wait_for("kill -9 ", "that is #2", patience_s=TRAINING_S)
    os.kill(int(re.search(r"kill -9 (\d+)", line)[1]), signal.SIGKILL)
    assert ended(run) == 0, "\n".join(run.out.lines + run.log.lines)
    assert run.out.having("killed (SIGKILL); again as pid", "#2 pid ")
    assert run.out.having("it says  ")
    assert run.out.having("digest, with a rank killed", "the same")


def test_text_that_gives_the_test_away_is_refused(env, tmp_path):
    """A file repeats much of the test data. Training is refused and the file is named; common
    boilerplate is allowed. [The text it learns from]"""
    words = " ".join(f"word{number}" for number in range(1000))
    for name in ("GPL-3", "a-copy"):
        (tmp_path / name).write_text(words)
    done = subprocess.run([CHARLM, tmp_path], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "a-copy repeats too much of GPL-3" in done.stderr


def test_hello(spawn):
    """The README's program runs. Each rank says its rank once. [The demo]"""
    run = spawn("run", "-n", "3", "--", HELLO)
    assert run.wait() == 0
    assert sorted(line[line.index("generation"):] for line in run.out.having("generation")) == [
        f"generation 1: rank {rank} of 3" for rank in range(3)]
