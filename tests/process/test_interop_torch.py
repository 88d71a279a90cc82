# SPDX-License-Identifier: Apache-2.0
"""Unmodified processes of torch in a `muster run --front tcpstore`: the program is
tests/interop/torch_job.py, which has nothing of muster in it.

behaviour: fronts / Torch: real processes
"""

import pytest

from interop import JOBS, client
from running import Run
from test_interop_jax import ends_well, said

IMPORTS_S = 300  # four processes import torch on two busy cores, in each attempt


@pytest.fixture
def job(spawn, muster):
    program = [client("torch") / "python", "-W", "ignore", JOBS / "torch_job.py"]

    def start(size, flags, *words):
        return Run(spawn, muster, size, "--front", "tcpstore", *flags, rank=[*program, *words])

    return start


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
    """Rank 0 is killed, which has the store where torchrun runs it. All start again with the same front, and
    end well."""
    run = job(2, ["--max-restarts", 1], "group", "sum", "die=0", "ddp")
    run.out.wait_for("ended", count=2, patience_s=2 * IMPORTS_S)
    ends_well(run)
    assert len(run.log.having("restarting all 2 ranks (1 of 1)")) == 1
