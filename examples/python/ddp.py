# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DistributedDataParallel in processes that outlive the failure of a rank.

    muster run -n 4 -- python3 ddp.py /tmp/run                # kill any rank: the others continue
    muster run -n 4 -- python3 ddp.py /tmp/run --fail-at 151  # rank 1 raises once, to see it

Rank 0 saves a checkpoint every 50 steps. An attempt begins at the newest; the model goes from rank 0 to the
others when DistributedDataParallel is made. Any rank may be lost, also rank 0: its replacement reads the file."""

import argparse
import os
import pathlib

import torch
from torch.nn.parallel import DistributedDataParallel

import muster
import muster.torch

SAVE_EVERY = 50


def load(path, model):
    """The step after the newest checkpoint."""
    if not path.exists():
        return 0
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    return saved["step"] + 1


def save(call, path, model, step):
    written = path.with_suffix(".new")
    torch.save({"model": model.state_dict(), "step": step}, written)
    with call.atomic():  # no interruption here
        os.replace(written, path)


@muster.Wrapper(soft_timeout=30, hard_timeout=60)
def train(path, steps, fail_at, call: muster.Call):
    muster.torch.init(call, "gloo")  # or "nccl"; in each attempt anew
    torch.manual_seed(7)
    module = torch.nn.Linear(16, 1)
    first = load(path, module) if call.rank == 0 else 0
    first = int(call.job.broadcast("first step", str(first)))
    model = DistributedDataParallel(module)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    print(f"rank {call.rank} of {call.size} begins at step {first}", flush=True)
    for step in range(first, steps):
        call.step(step)
        if step == fail_at and call.rank == 1 and call.iteration == 0:
            raise RuntimeError("rank 1 fails, once")
        data = torch.randn(32, 16, generator=torch.Generator().manual_seed(1000 * step + call.rank))
        loss = (model(data) - data.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if call.rank == 0 and step % SAVE_EVERY == SAVE_EVERY - 1:
            save(call, path, module, step)
            print(f"step {step} saved, loss {loss.item():.6f}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path, help="where the checkpoint is")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--fail-at", type=int, default=-1)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    train(given.folder / "model.pt", given.steps, given.fail_at)


if __name__ == "__main__":
    main()
