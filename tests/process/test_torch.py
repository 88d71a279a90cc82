# SPDX-License-Identifier: Apache-2.0
"""muster.torch: torch.distributed in a function that is restarted. What needs the real PyTorch is skipped where
TEST_TORCH names no folder for it; the store's own logic needs none.

behaviour: python / PyTorch
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from conftest import MUSTER, ROOT, WAIT_S
from pytorch import torch  # noqa: F401
from saving import PATIENT
from test_python import PACKAGE, pytestmark, under  # noqa: F401

HERE = pathlib.Path(__file__).parent
RANK = HERE / "torch_rank.py"
ALL = os.environ.get("MUSTER_TEST_ALL") == "1"  # at night
RESTARTS, STRIKES = (300, 100) if ALL else (40, 10)
LONG_S = 600 if ALL else 240  # four processes import torch on a busy machine
# A group that has just ended may still have its threads when the next attempt begins.
SPARE_DESCRIPTORS, SPARE_THREADS = 8, 4
STORE = HERE / "store_rank.py"
EXAMPLE = ROOT / "examples" / "python" / "ddp.py"
ANSWERS = [
    ["a number", "5"],
    ["less", "3"],
    ["it is text", "b'3'"],
    ["a number that was set", "None", "11"],
    ["bytes", "None", r"b'\x00\xff'"],
    ["nothing", "None", "b''"],
    ["no name", "None", "b'x'"],
    ["appended", "None", "None", r"b'1\xff'"],
    ["absent, something expected", "b'x'", "False"],
    ["absent, nothing expected", "b'y'", "b'y'"],
    ["not as expected", "b'y'", "b'y'"],
    ["as expected", "b'z'", "b'z'"],
    ["empty as expected", "b'now'", "b'now'"],
    ["all there", "True", "None"],
    ["one missing", "False", "True"],
    ["several", "None", "[b'2', b'1']"],
    ["how many", 8],
    ["deleted", "True", "False", "False"],
    ["how many then", 7],
    ["one that does not come", "DistStoreError"],
    ["nor in the store's time", "DistStoreError", "DistStoreError"],
    ["among several", "DistStoreError"],
    ["its time", "datetime.timedelta(seconds=60)"],
    ["one that comes", "b'x'"],
    ["extended", "True"],
]


@pytest.fixture
def env(env):
    # torch keeps its last 2,000 collectives, by default: 2 MiB that fill in the first 300 restarts.
    return {**env, **PATIENT, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONWARNINGS": "ignore", "TORCH_FR_BUFFER_SIZE": "100"}


def answers(muster, *rank):
    done = muster("run", "-n", 1, "--", *rank)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.removeprefix("[0]: ") for line in done.stdout.splitlines()]
    return [json.loads(line) for line in lines if line.startswith("[")]


def test_a_store_is_what_torch_expects(muster):
    """The calls that torch.distributed makes of its store are made of muster's keys: numbers, bytes, appending,
    comparing, waiting, time-outs, deleting, counting. Each has torch's answer. No PyTorch is needed."""
    assert answers(muster, *under(), sys.executable, STORE, "keys") == ANSWERS


def test_many_keys_are_set_together(muster):
    """Keys are set together by multi_set of muster's store: few, more than a batch takes, and more bytes than a
    message has. If one of a batch cannot be set, none is. No PyTorch is needed."""
    assert answers(muster, *under(), sys.executable, STORE, "together") == [
        ["many", "None", True], ["large", "None", True], ["one cannot be set", "Invalid", "False"]]


@pytest.mark.parametrize("kind", ["muster", "prefix", "hash", "tcp"])
def test_torchs_own_stores_answer_the_same(torch, muster, kind):  # noqa: F811
    """The same calls are made of torch's own HashStore and TCPStore, and of `muster.torch.Store` from Python
    and from torch's C++ (through a PrefixStore). All give the same answers, and raise the same."""
    assert answers(muster, torch / "python3", STORE, kind) == ANSWERS


def test_only_what_gloo_has_opened_is_shut_down(env):
    """A program has connections of its own, of before the attempt, and some that are watched as gloo watches
    its own. Only these are shut down, each once, when gloo has read and sent all, or a time is over. What it has given
    to the kernel is not waited for that long, and arrives all the same. Every listening socket still listens. No
    PyTorch is needed."""
    done = subprocess.run([*under(), sys.executable, HERE / "connections_rank.py"], env=env, capture_output=True,
                          text=True, timeout=WAIT_S, check=False)
    assert done.stdout.splitlines() == [
        "gloo's: shut", "of before: open", "in no epoll: open", "in an epoll without a listening one: open",
        "of Unix: open", "both listen", "what gloo has not read is waited for: True", "once: False", "then: shut",
        "what gloo has half sent is waited for: True", "then: shut",
        "what the kernel has is waited for: False", "it arrives: True"], done.stderr


class Training:
    """A `muster run` of torch_rank.py, at its end."""

    def __init__(self, spawn, torch, size, mode, steps, *strikes, flags=()):  # noqa: F811
        self.run = spawn("run", "-n", size, "--max-restarts", 1000, *flags, "--", torch / "python3", RANK,
                         mode, steps, *strikes)
        self.size, self.strikes = size, strikes

    def well(self):
        """{pid: the digest of its weights}; each strike has hit."""
        self.run.process.wait(LONG_S)
        assert self.run.wait() == 0, "\n".join(self.run.out.lines + self.run.log.lines)
        for strike in self.strikes:
            assert self.run.out.having(f"strike {strike} pid="), strike
        found = {}
        for line in self.run.out.having("weights "):
            digest, pid = re.search(r"weights (\w+) .*pid=(\d+)", line).groups()
            found[int(pid)] = digest
        assert len(found) == self.size
        return found

    def first(self):
        """{rank: pid} of the first attempt."""
        lines = self.run.out.having("entered iteration=0 ")
        return {int(rank): int(pid) for rank, pid in
                (re.search(r"rank=(\d+) .*pid=(\d+)", line).groups() for line in lines)}

    def struck(self, strike):
        return int(re.search(r"pid=(\d+)", self.run.out.having(f"strike {strike} ")[0])[1])


@pytest.fixture
def train(spawn, torch):  # noqa: F811
    return lambda *words, **options: Training(spawn, torch, *words, **options)


STEPS = 30
calm = {}  # mode and size: the digest of an undisturbed run


def undisturbed(train, mode, size, steps=STEPS):
    key = mode, size, steps
    if key not in calm:
        (calm[key],) = set(train(size, mode, steps).well().values())
    return calm[key]


@pytest.mark.parametrize("mode, size", [("ddp", 4), ("fsdp", 3)])
def test_an_exception_in_one_rank_costs_no_process(train, mode, size):
    """DistributedDataParallel, and FSDP (`fully_shard`) on the CPU, train with gloo. One rank raises between
    two steps and another one in the backward pass, while the others wait for them in a collective. All
    continue in their processes, and the weights are those of an undisturbed run to the last bit."""
    strikes = "raise:1:10", f"backward:{size - 1}:20"
    job = train(size, mode, STEPS, *strikes)
    weights = job.well()
    assert set(weights.values()) == {undisturbed(train, mode, size)}
    assert set(weights) == set(job.first().values())
    if mode == "fsdp":  # its groups are made by init_method="muster://"
        assert len(job.run.out.having("refused: init_process_group: world_size=4, but muster gave this process 3")) == 9


def test_a_killed_rank_is_replaced_by_a_spare(train):
    """A rank is killed by SIGKILL in the middle of a training, and there is a spare. The other three continue
    in their processes, the spare is the fourth, and the weights are those of an undisturbed run."""
    job = train(4, "ddp", STEPS, "kill:2:12", flags=["--spares", 1])
    weights = job.well()
    assert set(weights.values()) == {undisturbed(train, "ddp", 4)}
    first = job.first()
    assert set(weights) & set(first.values()) == set(first.values()) - {job.struck("kill:2:12")}


def test_rank_0_need_not_live(train):
    """Rank 0 is killed by SIGKILL, where torch's own store would have been. The others continue in their
    processes, a new process takes its place, and the weights are those of an undisturbed run."""
    job = train(4, "ddp", STEPS, "kill:0:12")
    weights = job.well()
    assert set(weights.values()) == {undisturbed(train, "ddp", 4)}
    assert set(job.first().values()) - set(weights) == {job.struck("kill:0:12")}


def test_a_rank_that_sleeps_continues_in_its_process(train):
    """A rank sleeps for an hour while the others wait for it in a collective. After the soft timeout all four
    are in the function again, in their processes, and train to the end."""
    job = train(4, "ddp", STEPS, "hang:1:12")
    weights = job.well()
    assert set(weights.values()) == {undisturbed(train, "ddp", 4)}
    assert set(weights) == set(job.first().values())


def test_a_rank_that_keeps_the_interpreters_lock_is_replaced(train):
    """A rank is stuck in C and keeps the interpreter's lock, so no exception can reach it. Its agent kills it
    at the hard timeout; the others continue in their processes."""
    job = train(4, "ddp", STEPS, "gil:1:12")
    weights = job.well()
    assert set(weights.values()) == {undisturbed(train, "ddp", 4)}
    assert set(job.first().values()) - set(weights) == {job.struck("gil:1:12")}


def test_restarts_leave_nothing_behind(train):
    """A training restarts again and again in the same processes; each time another rank fails while the others
    wait in a collective. The numbers of descriptors and of threads do not grow, nor does memory by more than
    1 MiB for 100 restarts; no rank is held by gloo, and none is replaced. The hook for exceptions that
    init_process_group sets is gone in the next attempt."""
    job = train(3, "again", RESTARTS)
    job.run.process.wait(LONG_S)
    assert job.run.wait() == 0, "\n".join(job.run.out.lines + job.run.log.lines)
    assert not job.run.log.having("was ended")
    seen = {}
    for line in job.run.out.having("rss_kib="):
        said = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", line)}
        assert said["hooks"] == 0, line
        seen.setdefault(said["rank"], {})[said["iteration"]] = said
    assert sorted(seen) == [0, 1, 2]
    for attempts in seen.values():
        begun, ended = attempts[min(20, RESTARTS // 2)], attempts[RESTARTS]  # what is made once is there
        assert ended["descriptors"] <= begun["descriptors"] + SPARE_DESCRIPTORS, attempts
        assert ended["threads"] <= begun["threads"] + SPARE_THREADS, attempts
        grown = ended["rss_kib"] - begun["rss_kib"]
        assert grown <= 1024 * max(1, (RESTARTS - begun["iteration"]) / 100), attempts


def test_many_strikes_do_not_change_a_bit(train):
    """A training is struck many times: exceptions between steps and in the backward pass on every rank, now
    and then a SIGKILL. Its weights are those of an undisturbed run to the last bit."""
    size, steps = 3, 3 * STRIKES
    kinds = ["raise", "backward"]
    strikes = [f"{kinds[number % 2]}:{number % size}:{3 * number + 2}" for number in range(STRIKES)]
    strikes[STRIKES // 2] = strikes[STRIKES // 2].replace("raise", "kill").replace("backward", "kill")
    weights = train(size, "ddp", steps, *strikes).well()
    assert set(weights.values()) == {undisturbed(train, "ddp", size, steps)}


def test_the_example_continues_at_its_checkpoint(torch, env, tmp_path):  # noqa: F811
    """`examples/python/ddp.py` is started by the command in its head, and one rank fails after a checkpoint. The
    ranks begin again at that, and train to the end."""
    folder = tmp_path / "run"
    words = re.search(r"^    muster run -n 4 -- python3 ddp.py .* --fail-at 151", EXAMPLE.read_text(), re.M)
    assert words
    env["PATH"] = f"{torch}:{MUSTER.parent}:{env['PATH']}"
    command = words[0].replace("-n 4", "-n 2").replace("ddp.py", str(EXAMPLE)).replace("/tmp/run", str(folder))
    done = subprocess.run(["sh", "-c", command.split("#")[0]], env=env, capture_output=True, text=True,
                          timeout=LONG_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    begun = sorted(re.findall(r"rank \d of 2 begins at step \d+", done.stdout))
    assert begun == [f"rank {rank} of 2 begins at step {step}" for rank in (0, 1) for step in (0, 150)]
    assert "step 299 saved, loss 0.0000" in done.stdout


def test_an_attempt_that_ends_in_init_process_group(train):
    """A rank raises before it makes its process group, while the others are in `init_process_group`. The next
    attempt makes its groups under the names that all agree on, and all train in their processes."""
    job = train(3, "ddp", 10, "raise:1:-1")
    assert len(set(job.well().values())) == 1
    assert len(job.run.out.having("entered iteration=1 ")) == 3
