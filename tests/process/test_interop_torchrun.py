# SPDX-License-Identifier: Apache-2.0
"""The real torchrun, whose rendezvous is at the front of its node, beside torchrun with its own store: the
program is tests/interop/torch_job.py.

behaviour: fronts / torchrun: real processes
"""

import os

import pytest

from conftest import Process, free_port
from interop import JOBS, client
from nodes import joining

IMPORTS_S = 300  # torchrun and its worker import torch on two busy cores, in each attempt
FRONT = 'echo "front $MASTER_ADDR:$MASTER_PORT"; read line < "$0"'
PROGRAM = JOBS / "torch_job.py"


@pytest.fixture
def torchrun(env, started):
    """torchrun(endpoint, flags, words...): one of its agents, which runs the program."""

    def start(endpoint, flags, *words, conf="is_host=0", **variables):
        process = Process(
            [client("torch") / "python", "-W", "ignore", "-m", "torch.distributed.run",
             "--rdzv-backend", "c10d", "--rdzv-id", "job", "--rdzv-endpoint", endpoint, "--rdzv-conf", conf, *flags,
             PROGRAM, *words],
            {**env, **variables, "OMP_NUM_THREADS": "1"},
        )
        started.append(process)
        return process

    return start


@pytest.fixture
def fronts(spawn, tmp_path):
    """The addresses of the fronts of a run of two nodes."""
    client("torch")
    tmp_path.chmod(0o700)
    os.mkfifo(tmp_path / "over")
    words = ["--front", "tcpstore", "--", "sh", "-c", FRONT, tmp_path / "over"]
    first = spawn("run", "--nnodes", 2, "-n", 1, "-j", "store", "--listen", "127.0.0.1:0", *words)
    second = spawn("run", *joining(first))
    return [node.out.wait_for("front ").split()[-1] for node in (first, second)]


def pair(torchrun, endpoints, confs, path):
    """Two nodes of torchrun. The first one is lost once both have begun."""
    words = ["group", "sum", f"lost={path}", "sum", "ddp"]
    flags = ["--nnodes", "1:2", "--nproc-per-node", 1, "--max-restarts", 3]
    first = torchrun(endpoints[0], flags, *words, conf=confs[0], LOSES="1")
    second = torchrun(endpoints[1], flags, *words, conf=confs[1])
    assert first.process.wait(IMPORTS_S) == -9
    second.process.wait(IMPORTS_S)
    second.wait()
    return second


def test_node_0_is_lost(torchrun, fronts, tmp_path):
    """Two nodes of torchrun meet, and the first one is killed with its worker. With the store of torchrun itself,
    which is on that node, the other one ends with RendezvousConnectionError. With the fronts it goes on alone, and ends
    with 0."""
    own = f"127.0.0.1:{free_port()}"
    confs = [f"last_call_timeout=1,is_host={i}" for i in (1, 0)]
    left = pair(torchrun, [own, own], confs, tmp_path / "own")
    assert left.process.returncode == 1
    assert left.log.having("RendezvousConnectionError"), "\n".join(left.log.lines)
    left = pair(torchrun, fronts, ["last_call_timeout=1,is_host=0"] * 2, tmp_path / "fronts")
    assert left.process.returncode == 0, "\n".join(left.log.lines)
    assert left.out.having("0 sum 1") and left.out.having("0 ended")


def found(process):
    """What rank 1 said in each attempt: whether the store had a key of the attempt before."""
    return [line.split()[-1] for line in process.out.having("1 found ")]


def test_a_worker_fails_twice(torchrun, spawn, fronts):
    """Rank 1 fails in two attempts. torchrun has one store for all attempts: the second one finds the keys of the first
    one there, which may be the addresses of processes that are gone. With a front each attempt finds an empty store, and
    the job ends with 0; so it does with a torchrun at the front whose attempts do not share a store."""
    flags = ["--nnodes", 1, "--nproc-per-node", 2, "--max-restarts", 2]
    own = torchrun(f"127.0.0.1:{free_port()}", flags, "found", "fail=1:2", conf="is_host=1")
    own.out.wait_for("1 ended", patience_s=IMPORTS_S)
    assert found(own) == ["False", "True", "True"]
    words = ["found", "group", "sum", "fail=1:2", "ddp"]
    run = spawn("run", "-n", 2, "--front", "tcpstore", "--max-restarts", 2, "--",
                client("torch") / "python", "-W", "ignore", PROGRAM, *words)
    run.out.wait_for("ended", count=2, patience_s=IMPORTS_S)
    assert run.wait() == 0
    kept = torchrun(fronts[0], flags, *words, TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")
    assert kept.process.wait(IMPORTS_S) == 0
    kept.wait()
    for process in (run, kept):
        assert found(process) == ["False"] * 3
        assert len(process.out.having(" ddp ")) == 2
