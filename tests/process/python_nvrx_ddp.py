# SPDX-License-Identifier: Apache-2.0
"""A training of torch that was written for nvidia_resiliency_ext: only the import is another one. Its first
argument: the attempts in which rank 1 fails."""

import datetime
import os
import sys

import torch
import torch.distributed as dist

import muster.compat.nvrx as inprocess

FAILS = int(sys.argv[1])
STEPS = 6


@inprocess.Wrapper(
    initialize=inprocess.initialize.RetryController(max_iterations=8),
    abort=inprocess.abort.AbortTorchDistributed(),
    health_check=inprocess.Compose(
        inprocess.health_check.FaultCounter(max_rank_faults=8), inprocess.health_check.CudaHealthCheck()
    ),
    soft_timeout=datetime.timedelta(seconds=60),
    hard_timeout=datetime.timedelta(seconds=90),
)
def train(base, call_wrapper: inprocess.CallWrapper = None):
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.PrefixStore(str(call_wrapper.iteration), base)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    torch.manual_seed(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        call_wrapper.ping()
        if rank == 1 and step == 3 and call_wrapper.iteration < FAILS:
            raise RuntimeError("a worn disk")
        optimizer.zero_grad()
        model(torch.full((4, 8), float(rank + step))).mean().backward()
        optimizer.step()
    weights = [value for parameter in model.parameters() for value in parameter.flatten().tolist()]
    dist.destroy_process_group()
    return call_wrapper.iteration, " ".join(value.hex() for value in weights)


base = dist.TCPStore(
    os.environ["MASTER_ADDR"],
    int(os.environ["MASTER_PORT"]),
    int(os.environ["WORLD_SIZE"]),
    os.environ["RANK"] == "0",
    multi_tenant=True,
)
iterations, weights = train(base)
sys.stdout.write(f"iterations={iterations} weights={weights}\n")
