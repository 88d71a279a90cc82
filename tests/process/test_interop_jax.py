# SPDX-License-Identifier: Apache-2.0
"""Unmodified processes of JAX in a `muster run`: the program is tests/interop/jax_job.py, which has
nothing of muster in it and calls `jax.distributed.initialize()` without arguments.

behaviour: fronts / JAX: real processes
"""

import json
import os
import random
import re
import signal
import socket
import struct
import time

import pytest

from conftest import BUILD
from interop import JOBS, client
from nodes import joining
from running import Run, until, wait_gone

JAXES = ["jax", "jax9"]  # jaxlib 0.10, and 0.9 with another wire
KILLS = int(os.environ.get("TEST_KILLS", 4))  # of the service
FATAL = "Terminating process because the JAX distributed service detected fatal errors"


@pytest.fixture(params=JAXES)
def any_jax(request):
    return [client(request.param) / "python", JOBS / "jax_job.py"]


@pytest.fixture
def jax():
    return [client("jax") / "python", JOBS / "jax_job.py"]


@pytest.fixture
def job(spawn, muster, env):
    """job(size, flags, program...): a run of it."""

    def start(size, flags, *program):
        return Run(spawn, muster, size, *flags, rank=program)

    return start


def said(run, *words):
    """{index: what follows `words` on the line of each process that has said so}"""
    found = {}
    for line in run.out.having(" ".join(words)):
        match = re.search(r"(?:\[\d+\]: )?(\d+) " + re.escape(" ".join(words)) + r" ?(.*)", line)
        if match:
            found[int(match[1])] = match[2]
    return found


def ends_well(run):
    code = run.run.wait()
    assert code == 0, "\n".join(run.out.lines[-40:] + run.log.lines[-40:])


def all_say(run, *words, size=None):
    size = run.size if size is None else size
    run.out.wait_for(*words, count=size, patience_s=120)
    return said(run, *words)


def test_a_job_of_jax(any_jax, job):
    """Four processes of JAX find each other by `muster run` alone. A sum over all of them, keys, a
    barrier, the live processes and the end are as with JAX's own service, and the run ends with 0."""
    run = job(4, [], *any_jax, "psum", "kv", "barrier=one", "live")
    ends_well(run)
    assert said(run, "sum") == dict.fromkeys(range(4), "10")
    names = ",".join(f"color/{i}" for i in range(4))
    kv = said(run, "kv")
    assert all(kv[i].split()[:2] == [f"blue{(i + 1) % 4}", names] for i in range(4)), kv
    assert said(run, "barrier one") == dict.fromkeys(range(4), "passed")
    assert said(run, "live") == dict.fromkeys(range(4), "[0, 1, 2, 3]")
    assert len(said(run, "ended")) == 4


def test_two_nodes(jax, spawn, env, tmp_path):
    """A run has two nodes, with a secret. Each process speaks to the front of its own node; sums, keys, a
    barrier and the live processes are those of all four."""
    env["MUSTER_STATE_DIR"] = str(tmp_path)
    tmp_path.chmod(0o700)
    words = [*jax, "psum", "kv", "barrier=one", "live"]
    first = spawn("run", "--nnodes", 2, "-n", 2, "-j", "two", "--listen", "127.0.0.1:0", "--", *words)
    second = spawn("run", *joining(first))
    for node in (first, second):
        assert node.wait() == 0, "\n".join(node.log.lines[-40:])
        for line in (" sum 10", " barrier one passed", " live [0, 1, 2, 3]"):
            assert len(node.out.having(line)) == 2, "\n".join(node.out.lines[-40:])


def test_jobs_beside_each_other(jax, spawn):
    """Two jobs of JAX and one of a native C program run at once, the two with keys, barriers and counters of the
    same names. Each sees its own alone, and all end with 0."""
    jobs = [spawn("run", "-n", 2, "-j", f"jax{i}", "--", *jax, "kv", "barrier=one", "psum") for i in range(2)]
    native = spawn("run", "-n", 2, "-j", "native", "--", BUILD / "bin" / "hello")
    assert native.wait() == 0, "\n".join(native.log.lines)
    for run in jobs:
        assert run.wait() == 0, "\n".join(run.log.lines[-40:])
        assert len(run.out.having(" kv blue")) == len(run.out.having(" sum 3")) == 2


def counted(text):
    return struct.pack("<Q", len(text)) + text.encode()


def test_protocols_beside_each_other(jax, job, muster, tmp_path):
    """Under one service there are processes of JAX, a client of torch's store, which speaks its protocol to the
    same port, and a native one. Each has keys of the same names, and finds its own values alone."""
    words = ["kv", f"wait={tmp_path}/go", "read=color/0", "read=counter"]
    run = job(2, ["--front", "xla,tcpstore"], *jax, *words)
    all_say(run, "waits")
    with open(f"/proc/{said(run, 'pid')[0].split()[0]}/environ", encoding="utf-8") as variables:
        port = re.search(r"\0MASTER_PORT=(\d+)\0", variables.read())[1]
    with socket.create_connection(("127.0.0.1", int(port)), timeout=60) as store:
        add, set_, get = b"\4", b"\1", b"\3"
        store.sendall(b"\0" + struct.pack("<I", 0x3C85F7CE))
        store.sendall(set_ + counted("color/0") + counted("torch"))
        store.sendall(add + counted("counter") + struct.pack("<q", 5))
        store.sendall(get + counted("color/0"))
        expected = struct.pack("<q", 5) + counted("torch")
        assert store.makefile("rb").read(len(expected)) == expected
        assert muster("key", "get", "color/0", "-j", run.job).returncode == 1
        assert muster("key", "put", "color/0", "native", "-j", run.job).returncode == 0
        assert muster("key", "get", "color/0", "-j", run.job).stdout.strip() == "native"
        (tmp_path / "go").touch()
        ends_well(run)
    assert said(run, "outcome", "read", "color/0:") == dict.fromkeys(range(2), "blue0")
    assert said(run, "outcome", "read", "counter:") == dict.fromkeys(range(2), "4")


def test_processes_of_jax_are_ranks(jax, job, muster, tmp_path):
    """Processes of JAX run. `muster status` has each as a rank that is present, under its pid, and not
    as a program without muster."""
    run = job(2, [], *jax, f"wait={tmp_path}/go")
    all_say(run, "waits")
    status = json.loads(muster("status", "-j", run.job, "-a", "--json").stdout)
    ranks = {m["index"]: m for m in status["members"] if m["role"] == "rank"}
    pids = {index: int(text.split()[0]) for index, text in said(run, "pid").items()}
    assert {index: (m["state"], m["pid"]) for index, m in ranks.items()} == {
        index: ("present", pid) for index, pid in pids.items()
    }
    (tmp_path / "go").touch()
    ends_well(run)


def test_process_0_dies_and_the_others_go_on(jax, job, tmp_path):
    """JAX's recovery is on, with --jax-recoverable. Process 0 is killed: the others' next query has the
    survivors, they end well, and so does the run."""
    run = job(3, ["--jax-recoverable"], *jax, "recoverable", "barrier=one", "die=0", f"steps={tmp_path}/go")
    run.log.wait_for("the others go on without it", patience_s=120)
    (tmp_path / "go").touch()
    ends_well(run)
    assert said(run, "lived") == {1: "[1, 2]", 2: "[1, 2]"}


def test_process_0_dies_and_all_end(jax, job):
    """Without recovery process 0 is killed. The others end by JAX's own error, which names the process
    and how it died, and so does the last line of the run."""
    run = job(3, [], *jax, "barrier=one", "die=0", "barrier=two")
    assert run.run.wait() == 128 + signal.SIGKILL
    errors = [line for line in run.log.lines if "Terminating process because" in line]
    assert errors and all(re.search(r"UNAVAILABLE: .*killed by signal 9", line) for line in errors), errors
    assert re.search(r"first cause: rank 0 \(#0, pid \d+\) .* was killed by signal 9", run.log.lines[-1])


def test_a_frozen_process(jax, job, muster, tmp_path):
    """One of four processes of JAX is frozen, and the others wait at a barrier. `muster status` names it.
    After the time that JAX was given for heartbeats the others end by JAX's own error, which names it, and
    so do two lines of the run, one of them the last."""
    run = job(4, [], *jax, "heartbeat=20", f"wait={tmp_path}/go", "barrier=two")
    all_say(run, "waits")
    pid = int(said(run, "pid")[2].split()[0])
    os.kill(pid, signal.SIGSTOP)
    (tmp_path / "go").touch()
    until(lambda: re.search(r".*xla/two.*rank 2\b", muster("status", "-j", run.job).stdout))
    run.log.wait_for(FATAL, "UNAVAILABLE: The following tasks are unhealthy", count=3, patience_s=120)
    assert run.run.wait() != 0
    (line,) = run.log.having("rank 2 (#2) is unhealthy: ", "heartbeat timeout")
    assert "follows" not in line  # they all end
    assert re.search(rf"first cause: rank 2 \(#2, pid {pid}\) on .* is unhealthy: ", run.last_line())


def test_a_node_is_killed(jax, spawn, env, tmp_path):
    """Two nodes have two processes of JAX each. The `muster run` of the second is killed. Its processes end,
    and those of the first by JAX's own error, which names a lost one and its node."""
    env["MUSTER_STATE_DIR"] = str(tmp_path)
    tmp_path.chmod(0o700)
    words = [*jax, "barrier=one", f"wait={tmp_path}/never"]
    first = spawn("run", "--nnodes", 2, "-n", 2, "-j", "two", "--listen", "127.0.0.1:0", "--", *words)
    second = spawn("run", *joining(first))
    for node in (first, second):
        node.out.wait_for(" waits", count=2, patience_s=120)
    pids = [re.search(r" pid (\d+)", line)[1] for line in second.out.having(" pid ")]
    pidfds = [os.pidfd_open(int(pid)) for pid in pids]
    second.kill()
    wait_gone(*pidfds)
    first.log.wait_for(FATAL, count=2, patience_s=120)
    assert first.wait() != 0
    for line in first.log.having(FATAL):
        assert re.search(r"UNAVAILABLE: task [23] .*\(node ", line), line


def test_the_service_dies(jax, job, tmp_path):
    """The service is killed, again and again at random moments, while four processes of JAX make calls of
    all kinds. No call fails, and none is lost or made twice."""
    run = job(4, [], *jax, "barrier=one", f"calls={tmp_path}/go", "psum")
    all_say(run, "barrier one passed")
    dice = random.Random()
    for _ in range(KILLS):
        time.sleep(dice.random())  # the moment
        pid = run.service()
        os.kill(pid, signal.SIGKILL)
        until(lambda pid=pid: run.service() != pid)
    (tmp_path / "go").touch()
    ends_well(run)
    assert said(run, "sum") == dict.fromkeys(range(4), "10")
    for turns in all_say(run, "turns").values():
        turn, count = map(int, turns.split())
        assert count == 4 * turn


def by_hand(run, muster, tmp_path):
    assert muster("preempt", "-j", run.job, "--in", "30s").returncode == 0


def by_key(run, muster, tmp_path):
    done = muster("key", "put", "muster/preempt/notice/1", "left_ms=30000 reason=by key", "-j", run.job)
    assert done.returncode == 0


def by_signal(run, muster, tmp_path):
    run.run.signal(signal.SIGTERM)


def by_file(run, muster, tmp_path):
    (tmp_path / "notice").write_text("30s\n")


@pytest.mark.parametrize("give", [by_hand, by_key, by_signal, by_file])
def test_a_notice(jax, job, muster, tmp_path, give):
    """Processes of JAX take steps. A notice comes: by `muster preempt`, a key, SIGTERM to the run or a
    file that is a source. All of them have reached_preemption_sync_point at one and the same step."""
    sources = f"signals,file={tmp_path}/notice"
    run = job(2, ["--preempt-sources", sources, "--preempt-period", "100ms"], *jax, "barrier=one", "preempt")
    all_say(run, "barrier one passed")
    give(run, muster, tmp_path)
    ends_well(run)
    steps = said(run, "preempted at")
    assert len(steps) == 2 and steps[0] == steps[1], steps


def test_a_notice_far_ahead(jax, job, muster):
    """The end is announced for in two hours, and withdrawn, then for in an hour. Processes of JAX take further
    steps, until a notice of 30 s for one of them: all of them are told at one and the same step."""
    run = job(2, [], *jax, "barrier=one", "preempt")
    all_say(run, "barrier one passed")
    for order in (["--in", "2h"], ["--withdraw"], ["--in", "1h"]):
        assert muster("preempt", "-j", run.job, *order).returncode == 0
    run.out.wait_for(" took ", count=len(run.out.having(" took ")) + 4)
    assert said(run, "preempted at") == {}
    assert muster("preempt", "-j", run.job, 1, "--in", "30s").returncode == 0
    ends_well(run)
    steps = said(run, "preempted at")
    assert len(steps) == 2 and steps[0] == steps[1], steps


def test_a_barrier_names_who_is_missing(jax, job, tmp_path):
    """A barrier's time is over before one process has come. The error of the others has its index, its
    state and its node."""
    run = job(2, [], *jax, "barrier-without=1", f"wait={tmp_path}/go")
    all_say(run, "waits")
    (error,) = said(run, "barrier missing").values()
    assert re.search(r"DEADLINE_EXCEEDED: Barrier timed out.*1/2.*task 1 \(present, node ", error), error
    (tmp_path / "go").touch()
    ends_well(run)


def test_status_names_who_is_missing_at_a_barrier(jax, job, muster, tmp_path):
    """Two processes of JAX wait at a barrier for a third. `muster status` names the barrier, who is
    missing, and for how long; once that one has come all go on."""
    run = job(3, [], *jax, f"barrier-late=1,{tmp_path}/go")
    line = until(lambda: re.search(r".*late.*", muster("status", "-j", run.job).stdout))[0]
    (tmp_path / "go").touch()
    ends_well(run)
    assert re.search(r"missing.*rank 1\b|waits? for rank 1\b", line), line
    assert said(run, "barrier late") == dict.fromkeys(range(3), "passed")


def test_all_start_anew(jax, job):
    """--max-restarts 2: a process of JAX fails in the first attempt. All are started again, find a
    service without the keys and barriers of the first, and end well."""
    run = job(2, ["--max-restarts", 2], *jax, "kv", "barrier=one", "fail-first=1", "psum")
    ends_well(run)
    assert said(run, "sum") == {0: "3", 1: "3"}
    assert len(run.log.having("restarting all 2 ranks (1 of 2)")) == 1
