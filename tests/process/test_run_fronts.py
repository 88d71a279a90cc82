# SPDX-License-Identifier: Apache-2.0
"""What processes of a `muster run` find of its fronts, and what answers at their port. The programs here
are shells: test_interop_*.py have the real ones.

behaviour: fronts / What a process finds
"""

import os
import re
import signal
import socket
import sys

import pytest

from nodes import joining
from running import Run, wait_gone

PLACE = "echo $RANK $SLURM_PROCID of $SLURM_NTASKS local $SLURM_LOCALID job $SLURM_JOB_ID."
JAX = "echo jax $JAX_COORDINATOR_ADDRESS $JAX_COORDINATOR_BIND_ADDRESS.;"
# A process of JAX whose heartbeats come every 0.4 s: it may be silent for 8 s.
BEATS = f"exec {sys.executable} {os.path.dirname(__file__)}/frontwire.py ${{JAX_COORDINATOR_ADDRESS##*:}} $RANK 4000"
STORE = "echo store $MASTER_ADDR:$MASTER_PORT $TORCHELASTIC_USE_AGENT_STORE."


def printed(done):
    assert done.returncode == 0, done.stderr
    return sorted(line.split("]: ")[-1] for line in done.stdout.splitlines())


def shell(muster, size, flags, line, **options):
    return printed(muster("run", "-n", size, *flags, "--", "sh", "-c", line, **options))


def test_a_process_finds_the_front_of_jax(muster):
    """Two processes start. Each has the address of the front on 127.0.0.1, an address for process 0's own
    service where it is in no one's way, and a place of its own in the variables that JAX reads."""
    lines = shell(muster, 2, [], JAX)
    assert len(set(lines)) == 1 and re.fullmatch(r"jax 127\.0\.0\.1:\d+ 127\.0\.0\.1:0\.", lines[0]), lines
    assert shell(muster, 2, [], PLACE) == [f"{i} {i} of 2 local {i} job muster." for i in range(2)]


def test_the_places_of_slurm(muster, env):
    """`muster run -n 2` is a task of Slurm itself. Its processes have the job's number, and each the rank,
    size and local rank that are its own, not those of the task."""
    env |= {"SLURM_JOB_ID": "77", "SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0"}
    lines = shell(muster, 2, ["--nnodes", 1, "--preempt-sources", "none"], PLACE)
    assert lines == [f"{i} {i} of 2 local {i} job 77." for i in range(2)]


def test_a_coordinator_of_the_user(muster, env):
    """The user's environment names a coordinator of JAX. None of JAX's variables is changed."""
    env["JAX_COORDINATOR_ADDRESS"] = "other:1"
    assert shell(muster, 1, [], JAX) == ["jax other:1 ."]
    assert shell(muster, 1, [], "echo $SLURM_PROCID.") == ["."]


def test_no_front(muster):
    """--front none: there is no variable of a front."""
    assert shell(muster, 1, ["--front", "none"], JAX) == ["jax ."]
    assert shell(muster, 1, ["--front=none"], PLACE) == ["0 of local job ."]


def test_spares_have_no_place_in_jax(muster):
    """With spares there is no variable of JAX's: it has no place for a process that waits."""
    assert shell(muster, 1, ["--spares", 1], JAX) == ["jax ."] * 2


def test_the_store_of_torch(muster):
    """--front tcpstore: MASTER_ADDR and MASTER_PORT are the front's, and rank 0 is told to have no store.
    Without it they are as with torchrun."""
    lines = shell(muster, 2, ["--front", "tcpstore"], STORE)
    assert len(set(lines)) == 1 and re.fullmatch(r"store 127\.0\.0\.1:\d+ True\.", lines[0]), lines
    assert re.fullmatch(r"store 127\.0\.0\.1:\d+ False\.", shell(muster, 1, [], STORE)[0])


def test_the_line_for_the_other_nodes(spawn):
    """--front tcpstore with --nnodes 2: the line to type on the other node has the flag, and a process there finds the
    store of its own node."""
    first = spawn("run", "--nnodes", 2, "-n", 1, "--listen", "127.0.0.1:0", "--front", "tcpstore", "--", "sh", "-c",
                  STORE)
    nodes = [first, spawn("run", *joining(first))]
    assert [node.wait() for node in nodes] == [0, 0]
    ports = {re.search(r"store 127\.0\.0\.1:(\d+) True\.", "\n".join(node.out.lines))[1] for node in nodes}
    assert len(ports) == 2


def test_a_front_that_there_is_not(muster):
    """A front is named that there is not. The run does not begin, and the line lists those that there
    are."""
    done = muster("run", "-n", 1, "--front", "xla,etcd", "--", "true")
    assert done.returncode == 2
    assert "--front xla,etcd: there is no front 'etcd'; xla, tcpstore or none" in done.stderr


def test_a_stranger_at_the_port(spawn, tmp_path):
    """Something connects to the port of the fronts and says what is neither protocol. It is cut off, and
    the run goes on."""
    os.mkfifo(tmp_path / "go")
    run = spawn("run", "-n", 1, "--", "sh", "-c", f"{JAX} read line < {tmp_path}/go")
    run.out.wait_for("jax ")
    port = int(re.search(r"127\.0\.0\.1:(\d+) ", run.out.having("jax ")[0])[1])
    for words in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(words)
            try:
                assert connection.recv(100) == b""
            except ConnectionResetError:
                pass
    (tmp_path / "go").write_text("go\n")
    assert run.wait() == 0


@pytest.mark.parametrize("held", [False, True])
def test_a_frozen_process_is_the_first_cause(spawn, muster, held):
    """One of three processes that speak JAX's protocol is frozen, and the service is held as well in the second of two
    runs, for longer than the lease. The other two are told, and abort. The last line of the run names the frozen
    process as unhealthy, not one that aborted; the exit code is of one that did."""
    run = Run(spawn, muster, 3, "--lease", "3s", rank=["sh", "-c", BEATS])
    run.out.wait_for("registered", count=3)
    pids = {}
    for line in run.out.having("registered"):
        index, pid = re.search(r"registered (\d) pid (\d+)", line).groups()
        pids[int(index)] = int(pid)
    service = run.service()
    aborting = [os.pidfd_open(pids[index]) for index in (0, 2)]
    os.kill(pids[1], signal.SIGSTOP)
    if held:
        os.kill(service, signal.SIGSTOP)
    wait_gone(*aborting)
    os.kill(service, signal.SIGCONT)
    assert run.run.wait() == 128 + signal.SIGABRT, "\n".join(run.log.lines)
    assert re.search(rf"first cause: rank 1 \(#1, pid {pids[1]}\) on .* is unhealthy: ", run.last_line())
