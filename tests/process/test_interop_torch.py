# SPDX-License-Identifier: Apache-2.0
"""Unmodified processes of torch in a `muster run --front tcpstore`: the program is
tests/interop/torch_job.py, which has nothing of muster in it.

behaviour: fronts / Torch: real processes
"""

import json
import os
import re

import pytest

from conftest import Process, free_port
from interop import JOBS, client
from running import Run, until
from test_interop_jax import ends_well, said

IMPORTS_S = 300  # four processes import torch on two busy cores, in each attempt


@pytest.fixture
def job(spawn, muster):
    program = [client("torch") / "python", "-W", "ignore", JOBS / "torch_job.py"]

    def start(size, flags, *words):
        return Run(spawn, muster, size, "--front", "tcpstore", *flags, rank=[*program, *words])

    return start


@pytest.fixture
def front(spawn, tmp_path):
    """The address of a front, for processes that are none of its run."""
    client("torch")
    os.mkfifo(tmp_path / "over")
    holder = ["sh", "-c", 'echo "front $MASTER_ADDR:$MASTER_PORT"; read line < "$0"', tmp_path / "over"]
    return spawn("run", "--front", "tcpstore", "--", *holder).out.wait_for("front ").split()[-1]


def test_a_job_of_torch(job):
    """Four processes of torch use the store by its own client, make a group of gloo, add up, and train by
    DDP: all get the same parameters, and the run ends with 0."""
    run = job(4, [], "store", "group", "sum", "ddp", "barrier")
    run.out.wait_for("ended", count=4, patience_s=IMPORTS_S)
    ends_well(run)
    stores = said(run, "store")
    assert {i: text.split()[0] for i, text in stores.items()} == {i: f"blue{(i + 1) % 4}" for i in range(4)}
    assert all(text.endswith("True first True late True") for text in stores.values()), stores
    assert said(run, "sum") == dict.fromkeys(range(4), "10")
    parameters = said(run, "ddp")
    assert len(parameters) == 4 and len(set(parameters.values())) == 1, parameters


def test_a_process_fails_twice(job):
    """--max-restarts 3: a process fails in two attempts. Each time all are started again and find an empty
    store; the third attempt ends well."""
    run = job(2, ["--max-restarts", 3], "group", "sum", "fail=1:2", "ddp")
    run.out.wait_for("ended", count=2, patience_s=3 * IMPORTS_S)
    ends_well(run)
    assert len(run.log.having("restarting all 2 ranks")) == 2
    assert len(set(said(run, "ddp").values())) == 1


def test_rank_0_is_killed(job):
    """Rank 0 of four processes is killed. All start again with the same front, and end well."""
    run = job(4, ["--max-restarts", 1], "group", "sum", "die=0", "ddp")
    run.out.wait_for("ended", count=4, patience_s=2 * IMPORTS_S)
    ends_well(run)
    assert len(run.log.having("restarting all 4 ranks (1 of 1)")) == 1
    assert len(set(said(run, "ddp").values())) == 1


@pytest.fixture
def four(env, started, tmp_path):
    """four(host, port): processes that no launcher watches. Rank 0 is killed when they have a group, and then each of
    the others makes one without it."""

    def start(address, **more):
        words = ["group", "sum", f"wait={tmp_path / 'killed'}", "left"]
        host, port = address.rsplit(":", 1)
        place = {**env, **more, "WORLD_SIZE": "4", "MASTER_ADDR": host, "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
        program = [client("torch") / "python", "-W", "ignore", JOBS / "torch_job.py", *words]
        ranks = [Process(program, {**place, "RANK": str(i)}) for i in range(4)]
        started.extend(ranks)
        for rank in ranks:
            rank.out.wait_for("sum 10", patience_s=IMPORTS_S)
        ranks[0].kill()
        (tmp_path / "killed").touch()
        return ranks[1:]

    return start


def test_the_others_use_the_store_of_torch(four):
    """Rank 0 has torch's own store, and is killed: the store is gone, and the three others end with
    DistNetworkError."""
    for rank in four(f"127.0.0.1:{free_port()}"):
        assert rank.process.wait(IMPORTS_S) == 1
        rank.wait()
        assert rank.log.having("DistNetworkError"), "\n".join(rank.log.lines)


def test_the_others_use_the_front(four, front):
    """The same with the store of a front: the three others make a group without rank 0, and add up."""
    for rank in four(front, TORCHELASTIC_USE_AGENT_STORE="True"):
        rank.out.wait_for("left 9", patience_s=IMPORTS_S)
        assert rank.wait() == 0


def test_who_is_missing(job, muster, tmp_path):
    """Ranks 1 to 3 want a group, and rank 0 does not come. `muster status` says how many wait, for which key, and that
    rank 0 does not wait; with --json since when and under which pid. Rank 0 comes, and nothing of it is left."""
    run = job(4, [], "absent=0:" + str(tmp_path / "come"), "group", f"wait={tmp_path / 'go'}")
    run.out.wait_for("attempt", count=4, patience_s=IMPORTS_S)

    def waits():
        return json.loads(muster("status", "-j", run.job, "--json").stdout)["front_waits"]

    until(lambda: [wait["index"] for wait in waits()] == [1, 2, 3])
    status = json.loads(muster("status", "-j", run.job, "--json").stdout)
    verdict = status["verdict"]["sentence"]
    first = r"3 processes wait in TCPStore for [0-9.]+ s, the first one: #[123] for the key '/\S+'; #0 does not wait"
    assert re.fullmatch(first, verdict), verdict
    assert (status["verdict"]["kind"], status["verdict"]["index"]) == ("waits", 0)
    pids = {index: int(text) for index, text in said(run, "pid").items()}
    assert all(wait["pid"] == pids[wait["index"]] and wait["for_ms"] >= 1000 for wait in waits())
    (tmp_path / "come").touch()
    until(lambda: not waits())
    (tmp_path / "go").touch()
    ends_well(run)
