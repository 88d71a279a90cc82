# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/restart, examples/async and examples/preempt, each started by the command
that its head comment gives.

behaviour: examples / Restart, one idea each
"""

import os
import re
import subprocess

import pytest

from conftest import BUILD, MUSTER, ROOT, WAIT_S, sanitized
from saving import noting, on_disk_first

EXAMPLES = ROOT / "examples"
FOLDERS = ("restart", "async", "preempt")


def command_of(name, folder):
    """The line of the head comment that starts it."""
    head = (EXAMPLES / folder / f"{name}.c").read_text().split("*/", 2)[1]
    (command,) = re.findall(rf"^ \*   (.*{folder}_{name}\b.*?) *$", head, re.M)
    return command


@pytest.fixture
def example(env):
    """example(name): what it says, line by line, without the numbers of the ranks before them."""

    def run(name, file=None, folder="restart", more=""):
        command = command_of(name, folder) + more
        assert ("FILE" in command) == (file is not None)
        if file:
            command = command.replace("FILE", str(file))
        variables = {**env, "PATH": f"{MUSTER.parent}:{os.environ['PATH']}"}
        done = subprocess.run(["sh", "-c", command], env=variables, capture_output=True, text=True,
                              timeout=WAIT_S)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = [re.sub(r"^\[\d+\]: ", "", line) for line in done.stdout.splitlines()]
        return sorted(lines), done.stderr

    return run


def test_every_example_has_a_test():
    """Each program of `examples/restart`, `examples/async` and `examples/preempt` has a test that
    starts it by the command in its head comment."""
    tested = {name[len("test_"):] for name in globals() if name.startswith("test_")}
    for folder in FOLDERS:
        assert {path.stem for path in (EXAMPLES / folder).glob("*.c")} <= tested


def test_hang(example):
    """`hang`: a rank waits for a message that never comes. All four say that they go on, each in
    the process it was, and that it was rank 1, which is a step behind."""
    said, log = example("hang")
    goes_on = [line for line in said if "goes on" in line]
    (hangs,) = [line for line in said if "hangs" in line]
    assert len(goes_on) == 4 and len(said) == 5
    for rank, line in enumerate(goes_on):
        assert line.startswith(f"rank {rank} goes on in process ")
        assert re.search(r" \(soft-timeout: rank 1 made no progress for \d+\.\d s", line)
    process = re.search(r"process \d+", hangs)[0]
    assert process in goes_on[1]
    assert "rank 1 (#1, pid" in log


def test_spare(example):
    """`spare`: one of three is killed once the spare is there. The second attempt has three ranks
    again, the spare one of them."""
    said, _ = example("spare")
    seen = [re.fullmatch(r"attempt (\d+): (#\d) is rank (\d) of (\d)", line) for line in said]
    attempts = {}
    for one in filter(None, seen):
        attempts.setdefault(int(one[1]), {})[int(one[3])] = one[2]
    first = attempts[0]
    last = attempts[max(attempts)]
    assert sorted(first) == sorted(last) == [0, 1, 2]
    (spare,) = {"#0", "#1", "#2", "#3"} - set(first.values())
    assert {first[0], first[2]} < set(last.values())
    if max(attempts) == 1:  # on a machine with time for it, the spare was waiting at the loss
        assert spare in last.values()


def test_neighbour_copy(example):
    """`neighbour_copy`: one of four is killed. Its replacement gets the data from the next rank's
    memory, of the last save, and the result has the same bits as that of a run in which none
    dies."""
    calm, _ = example("neighbour_copy", more=" calm")
    said, log = example("neighbour_copy")
    assert "rank 1 (#1, pid" in log and "was killed by signal 9" in log
    (result,) = calm
    assert re.fullmatch(r"result \d+\.\d+ after step 90", result)
    assert said == ["rank 1 has its data from rank 2, of step 40", result]


def test_respawn(example):
    """`respawn`: one of three is killed. In the last attempt there are three again, two of them
    in their first process."""
    said, log = example("respawn")
    tries = [re.fullmatch(r"attempt (\d+): process (\d+) is #(\d), rank (\d) of (\d)", line)
             for line in said]
    last = max(int(one[1]) for one in tries)
    assert [one[5] for one in tries if int(one[1]) == last] == ["3"] * 3
    processes = {index: {one[2] for one in tries if one[3] == index} for index in "012"}
    assert [len(processes[index]) for index in "012"] == [1, 1, 2]
    assert "was killed by signal 9" in log


def test_abort_callback(example):
    """`abort_callback`: a rank fails while the others wait in a call that takes no notice of
    EINTR. They are freed by their callback."""
    said, log = example("abort_callback")
    assert said == [
        "rank 0 is out of it, in attempt 1",
        "rank 1 is out of it, in attempt 1", "rank 1 waits for a peer that never sends",
        "rank 2 is out of it, in attempt 1", "rank 2 waits for a peer that never sends",
    ]
    assert "rank 0 fails while the others wait" in log


def test_atomic_section(example, tmp_path):
    """`atomic_section`: a rank fails while another writes. The file is whole, and the writer is
    told behind it."""
    said, _ = example("atomic_section", tmp_path / "file")
    assert said == [
        "after the section: interrupted: clean up and return",
        "the file has 50 of 50 lines",
    ]


def test_long_phase(example):
    """`long_phase`: a phase of three times the soft timeout is declared. There is one attempt,
    and no word about progress."""
    said, log = example("long_phase")
    assert said == [
        f"rank {rank} compiled for three times the soft timeout, in attempt 0: ok" for rank in (0, 1)
    ]
    assert "progress" not in log


def test_poll(example):
    """`async/poll`: lines come on stdin faster than the service answers. Each is a key of the job
    in the end, and the loop never blocked for one. [Event loops]"""
    said, _ = example("poll", folder="async")
    assert said == ["3 lines are keys of the job"]


def test_uv(example):
    """`async/uv`: three ranks put keys by a timer and follow the keys of all, in libuv. Each sees
    all nine, and the loop ends by itself. [Event loops]"""
    said, _ = example("uv", folder="async")
    assert said == [f"rank {rank} saw 9 ticks of 3 ranks" for rank in range(3)]


def test_train(example, tmp_path):
    """`preempt/train`: a rank gets SIGTERM in the sixth step. All save one step and end with 75;
    run again, they begin there and are done. [Preemption]"""
    said, _ = example("train", tmp_path / "checkpoint", "preempt")
    (step,) = {re.search(r"has saved step (\d+): preempted", line)[1]
               for line in said if "saved" in line}
    for rank in range(3):
        assert f"rank {rank} has saved step {step}: preempted" in said
        assert f"rank {rank} begins at step {step}" in said
        assert f"rank {rank} is done" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sanitized(), reason="a sanitizer wants to be loaded first")
def test_what_train_saves_is_on_the_disk_before_it_counts(example, env, tmp_path):
    """`preempt/train`, `mpi/train` or `python/train.py` saves. The file is on the disk before it
    is renamed to the one that counts. [Preemption]"""
    env.update(noting(tmp_path / "syncs"))
    example("train", tmp_path / "checkpoint", "preempt")
    for rank in range(3):
        assert on_disk_first(tmp_path / "syncs", f"{tmp_path}/checkpoint.{rank}.new")


def test_train_goes_on_from_what_is_committed(env, tmp_path):
    """`preempt/train` is started again, and one rank was killed before it could commit what all
    had written. All begin at the step that any of them has committed; a later step that only
    some have written does not count. [Preemption]"""
    for name, step in (("0", 6), ("1", 2), ("1.new", 6), ("2", 6), ("2.new", 9)):
        (tmp_path / f"checkpoint.{name}").write_text(f"{step}\n")
    done = subprocess.run([MUSTER, "run", "-n", "3", "--", BUILD / "bin" / "preempt_train",
                           tmp_path / "checkpoint"], env=env, capture_output=True, text=True,
                          timeout=WAIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in range(3):
        assert f"rank {rank} begins at step 6\n" in done.stdout
    assert not list(tmp_path.iterdir())


def test_train_begins_nowhere_if_its_checkpoint_is_missing(env, tmp_path):
    """A rank has no file of the committed step. The run ends, and says which file lacks which
    step. [Preemption]"""
    (tmp_path / "checkpoint.0").write_text("6\n")
    done = subprocess.run([MUSTER, "run", "-n", "2", "--max-restarts", "0", "--",
                           BUILD / "bin" / "preempt_train", tmp_path / "checkpoint"], env=env,
                          capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"train: {tmp_path}/checkpoint.1 has no step 6, which others have" in done.stderr


def test_reconnect(example):
    """`preempt/reconnect`: a rank gets a notice and is killed, so the run fails. The other one
    waits for its exit and connects again; the job runs again with the replacement, and both
    get to the end. [Preemption] [preemption / The notice]"""
    said, log = example("reconnect", folder="preempt")
    assert "killed by signal 9" in log
    assert said == sorted(["#1 was preempted (the machine goes away)",
                           *["rank 0 of 2 runs", "rank 1 of 2 runs", "all steps are done"] * 2])
