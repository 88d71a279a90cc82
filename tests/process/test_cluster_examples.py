# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/cluster: as their head comments start them, and while their processes are
killed.

behaviour: cluster / The examples
"""

import collections
import contextlib
import json
import math
import os
import re
import shutil
import signal
import subprocess

import pytest
from conftest import MUSTER, ROOT, WAIT_S
from running import until

EXAMPLES = ROOT / "examples" / "cluster"
RATES = 128
SOME_OF_THEM = (0, 37, 64, 101, RATES - 1)
ITERATIONS = 200_000
CHAOS = r"(\d+) of 128 are chaotic"
BITS_MAX = 4.2  # of a character; 3.2 to 3.7 after 120 steps, after 20 it is 4.5, untrained 6.6
LONG_LEASE = "120s"  # one of them is stopped for a while
LONG_S = 240  # a sanitizer's arithmetic is slow


def command_of(name):
    """The line of the head comment that starts it."""
    head = (EXAMPLES / f"{name}.c").read_text().split("*/", 2)[1]
    (command,) = re.findall(rf"^ \*   (.*cluster_{name}\b.*?) *$", head, re.M)
    return command


@pytest.fixture
def job(env, spawn):
    """job(command, more flags of the run...): its run, with a name for the job."""

    def start(command, *flags):
        words = command.split()
        assert words[:2] == ["muster", "run"]
        return spawn("run", "-j", "cluster", *flags, *words[2:],
                     env={**env, "PATH": f"{MUSTER.parent}:{env['PATH']}"})

    return start


def ended(run):
    try:
        code = run.process.wait(LONG_S)
    except subprocess.TimeoutExpired:
        pytest.fail("it does not end:\n" + "\n".join(run.out.lines + run.log.lines))
    run.out.thread.join(WAIT_S)
    run.log.thread.join(WAIT_S)
    assert code == 0, "\n".join(run.out.lines + run.log.lines)
    return run.out.lines


def present(muster):
    """{index: pid} of the members that are there."""
    done = muster("status", "--json", "-j", "cluster")
    if done.returncode != 0:
        return {}
    return {one["index"]: one["pid"] for one in json.loads(done.stdout)["members"]
            if one["role"] == "worker" and one["state"] == "present"}


def members_of(muster, count):
    """The same, once there are so many."""
    return until(lambda: (lambda seen: seen if len(seen) == count else None)(present(muster)))


def all_there(muster, count):
    """{index: pid} of all of them. It is soon through: the coordinator stands still meanwhile."""
    coordinator = until(lambda: present(muster).get(0))
    os.kill(coordinator, signal.SIGSTOP)
    members = members_of(muster, count)
    os.kill(coordinator, signal.SIGCONT)
    return members


@pytest.fixture
def awk(env, tmp_path):
    """One that begins only when it may: {began} has a line for each that waits, {go} lets all go on."""
    folder = tmp_path / "bin"
    folder.mkdir()
    began, go = folder / "began", folder / "go"
    began.touch()
    program = folder / "awk"
    program.write_text(f"#!/bin/sh\necho >>'{began}'\nwhile ! test -e '{go}'; do sleep 0.1; done\n"
                       f"exec '{shutil.which('awk')}' \"$@\"\n")
    program.chmod(0o755)
    env["PATH"] = f"{folder}:{env['PATH']}"
    return began, go


def exponent(rate):
    at, total = 0.4, 0.0
    for _ in range(ITERATIONS):
        at = rate * at * (1 - at)
        total += math.log(abs(rate * (1 - 2 * at)))
    return total / ITERATIONS


def check_sweep(lines):
    told = [re.fullmatch(r"rate (\S+) exponent (\S+)", line) for line in lines[:RATES]]
    assert all(told) and len(lines) == RATES + 1, "\n".join(lines)
    values = [(float(one[1]), float(one[2])) for one in told]
    assert [rate for rate, _ in values] == pytest.approx(
        [2.9 + 1.1 * i / (RATES - 1) for i in range(RATES)], abs=1e-4)
    for i in SOME_OF_THEM:
        assert values[i][1] == pytest.approx(exponent(values[i][0]), abs=0.0011)
    (chaotic,) = re.findall(CHAOS, lines[-1])
    assert int(chaotic) == sum(value >= 0 for _, value in values)


def test_every_example_has_a_test():
    """Each program of `examples/cluster` has a test that starts it by the command in its head
    comment."""
    names = {path.stem for path in EXAMPLES.glob("*.c")}
    assert all(any(test.startswith(f"test_{name}") for test in globals()) for name in names)


SQUARES = "the squares of 1 to 1000 add up to 333833500"


@pytest.mark.parametrize("program", ["squares_coordinator", "squares_worker"])
def test_the_programs_of_the_guide_are_the_examples(program):
    """docs/cluster.md shows a coordinator and its worker whole. They are the examples that are built."""
    text = (EXAMPLES / f"{program}.c").read_text().split("\n", 1)[1]
    assert f"```c\n{text}```\n" in (ROOT / "docs" / "cluster.md").read_text()


def test_squares_coordinator(env):
    """`squares_coordinator` and four `squares_worker` run as the two programs of one run. The sum is
    right, and the run ends by itself."""
    done = subprocess.run(["sh", "-c", command_of("squares_coordinator")], capture_output=True,
                          text=True, env={**env, "PATH": f"{MUSTER.parent}:{os.environ['PATH']}"},
                          timeout=LONG_S)
    assert (done.returncode, done.stdout) == (0, SQUARES + "\n"), done.stderr
    assert command_of("squares_worker") == command_of("squares_coordinator")


RUNS = 20
COORDINATOR = "exec cluster_squares_coordinator"


@pytest.fixture
def squares(job, tmp_path):
    """squares(how, flags...): a run of the two whose coordinator waits for go() before it begins. `how`
    is a line of a shell that starts it, below the process of the run or in its place: pid()."""
    script, go, pid = tmp_path / "coordinator", tmp_path / "go", tmp_path / "pid"

    def start(how, *flags):
        go.unlink(missing_ok=True)
        script.write_text(f"#!/bin/sh\necho $$ >'{pid}'\nwhile ! test -e '{go}'; do sleep 0.02; done\n"
                          f"{how}\n")
        script.chmod(0o755)
        return job(f"muster run --no-label -n 1 {script} : -n 4 cluster_squares_worker", *flags)

    start.go = go.touch
    start.pid = lambda: int(pid.read_text())
    return start


def test_squares_worker_is_killed_when_the_cluster_is_dismissed(squares, muster):
    """Twenty times: one worker stands still until the coordinator has its sum, and then it and another
    one are killed, in the middle of the dismissal or after it. Both are started again unless they had
    ended, and end at once; the run ends with the coordinator's exit status. [The end of a cluster]"""
    for _ in range(RUNS):
        run = squares(COORDINATOR, "--lease", LONG_LEASE)
        workers = members_of(muster, 4)
        os.kill(workers[4], signal.SIGSTOP)
        squares.go()
        run.out.wait_for(SQUARES)
        os.kill(workers[4], signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(workers[1], signal.SIGKILL)
        assert ended(run) == [SQUARES]
        assert run.log.having(f"#4 (pid {workers[4]}) was killed by signal 9 (Killed); starting it again")


def test_squares_coordinator_is_killed_when_it_dismisses(squares, muster):
    """Ten times: the coordinator is killed once it has its sum, before it dismisses, while it does or
    after it. It is started again unless it had ended, and does the work again only if no worker was
    dismissed; the run ends with 0. [The end of a cluster]"""
    for _ in range(RUNS // 2):
        run = squares(COORDINATOR)
        members_of(muster, 4)
        squares.go()
        run.out.wait_for(SQUARES)
        with contextlib.suppress(ProcessLookupError):
            os.kill(squares.pid(), signal.SIGKILL)
        assert ended(run) in ([SQUARES], [SQUARES, SQUARES])


def test_a_run_ends_with_the_status_of_a_coordinator_that_dismissed(squares, muster):
    """A coordinator dismisses its cluster, and then exits with status 3. Its workers have ended, and the
    run ends with status 3. [The end of a cluster]"""
    run = squares("cluster_squares_coordinator && exit 3", "--max-restarts", "0")
    members_of(muster, 4)
    squares.go()
    assert run.wait() == 3
    assert run.out.lines == [SQUARES]
    assert not [line for line in run.log.lines if line.startswith("worker: ")]


def test_sweep(env):
    """`sweep` runs an external program once for each of 128 values of a parameter. It gives 128
    results, in the order of the parameter."""
    done = subprocess.run(["sh", "-c", command_of("sweep")], capture_output=True, text=True,
                          env={**env, "PATH": f"{MUSTER.parent}:{os.environ['PATH']}"},
                          timeout=LONG_S)
    assert done.returncode == 0, done.stdout + done.stderr
    check_sweep(done.stdout.splitlines())


def test_sweep_has_every_result_although_workers_are_killed(job, muster, awk):
    """Two workers are killed while `sweep` runs. It gives all 128 results all the same."""
    began, go = awk
    run = job(command_of("sweep"))
    workers = members_of(muster, 9)
    until(lambda: len(began.read_text()) == 8)  # one on each worker
    for index in (3, 8):
        os.kill(workers[index], signal.SIGKILL)
        run.log.wait_for(f"#{index} (pid", "killed by signal 9")
    go.touch()
    check_sweep(ended(run))


def readers(run):
    """{worker: the processes that have read its shard, in their order}"""
    found = {}
    for line in run.out.having("reads its shard"):
        worker, process = map(int, re.findall(r"\d+", line))
        found.setdefault(worker, []).append(process)
    return found


def test_train(job, muster):
    """`train`: four workers train a language model, each with its shard of the text. The model
    learns, and the run ends by itself."""
    run = job(command_of("train"), "--lease", LONG_LEASE)
    all_there(muster, 5)
    lines = ended(run)
    assert len(readers(run)) == 4 and all(len(one) == 1 for one in readers(run).values())
    assert lines[-1] == "trained 120 steps"
    assert float(re.findall(r"step 120 bits (\S+)", "\n".join(lines))[0]) < BITS_MAX


def test_train_goes_on_when_a_worker_is_killed_and_its_shard_is_read_again(job, muster):
    """A worker of `train` is killed. Training goes on; the process in its place reads the shard
    again."""
    run = job(command_of("train"), "--lease", LONG_LEASE)
    members = all_there(muster, 5)
    run.out.wait_for("reads its shard", count=4)
    # A fast machine could be through before the next one is there: nothing is scheduled till then.
    os.kill(members[0], signal.SIGSTOP)
    worker, (process,) = sorted(readers(run).items())[-1]
    number = {pid: index for index, pid in members.items()}[process]
    os.kill(process, signal.SIGKILL)
    until(lambda: present(muster).get(number, process) != process)
    os.kill(members[0], signal.SIGCONT)
    run.out.wait_for(f"worker {worker} reads its shard", count=2)
    lines = ended(run)
    assert lines[-1] == "trained 120 steps" and len(readers(run)[worker]) == 2
    assert float(re.findall(r"step 120 bits (\S+)", "\n".join(lines))[0]) < BITS_MAX


def test_train_goes_on_from_its_checkpoint_when_the_coordinator_is_killed_68(job, muster, tmp_path):
    """The coordinator of `train` is killed at step 37 of 100, with a checkpoint every 10 steps,
    and started again. It goes on from 30 with the same worker processes; no worker runs
    anything for the dead one."""
    run = job(f"{command_of('train')} --checkpoint {tmp_path / 'model'}", "--lease", LONG_LEASE)
    coordinator = all_there(muster, 5)[0]
    run.out.wait_for("reads its shard", count=4)
    run.out.wait_for("step 20 ")
    os.kill(coordinator, signal.SIGKILL)
    again = run.out.wait_for("goes on from step ")
    step = int(again.rsplit(" ", 1)[1])
    assert step >= 20 and step % 10 == 0
    lines = ended(run)
    assert lines[-1] == "trained 120 steps"
    # The workers are the processes they were, and read their shards again for the new one.
    read = collections.Counter(re.findall(r"process (\d+)", "\n".join(lines)))
    assert len(read) == 4 and set(read.values()) == {2}
    assert not list(tmp_path.iterdir())


def test_train_refuses_a_checkpoint_that_is_not_its_own(job, tmp_path):
    """`train` finds a checkpoint of another training. It ends, and says which file, what differs
    and what to do; the file stays."""
    (tmp_path / "model.0").write_text("of another program")
    run = job(command_of("train").replace("--max-restarts 100", "--max-restarts 0")
              + f" --checkpoint {tmp_path / 'model'}")
    assert run.wait() == 1
    (line,) = [line for line in run.log.lines if line.startswith("train: ")]
    assert f"{tmp_path}/model.0 is of another training, whose format is " in line
    assert not [line for line in run.out.lines if "trained" in line]
    assert (tmp_path / "model.0").read_text() == "of another program"


@pytest.mark.parametrize("name", ["sweep", "train"])
def test_a_process_that_comes_when_the_work_is_over_ends_as_well(spawn, env, name):
    """Processes of `sweep` or `train` start when the cluster is dismissed already, as after a kill at
    that moment. Workers end at once, a coordinator too, and none of the work is done again."""
    program = MUSTER.parent / f"cluster_{name}"
    said = f"'{MUSTER}' key put muster/cluster/default/dismissed '' && exec '{program}'"
    lines = ended(spawn("run", "-j", "cluster", "-n", "3", "--no-label", "--", "sh", "-c", said))
    assert lines == []
