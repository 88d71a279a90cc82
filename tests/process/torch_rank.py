# SPDX-License-Identifier: Apache-2.0
"""A rank that trains with PyTorch on the CPU and is struck: `torch_rank.py MODE STEPS [STRIKE]...`.

A strike is KIND:RANK:STEP, and hits once in a job: a key says that it has. What a step has made is kept in memory
for two steps, so a restart continues at a step that all ranks have been at, and the sums are those of an
undisturbed run to the last bit."""

import ctypes
import datetime
import hashlib
import os
import resource
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import muster
import muster.torch
from muster import _connections

WIDTH = 64
SOFT_S, HARD_S = 25, 35  # a first step imports much, and a busy machine has time for it

kept = {}  # step: what it has made, of the newest two


def hit(call, strikes, step):
    """Does what a strike says, the first time that its rank is at its step; True: backward is to fail."""
    for name in strikes:
        kind, rank, at = name.split(":")
        if (int(rank), int(at)) != (call.view.rank, step):
            continue
        try:
            call.job.keys.insert(f"struck/{name}", "")
        except muster.Exists:
            continue
        print(f"strike {name} pid={os.getpid()}", flush=True)
        if kind == "backward":
            return True
        strike(kind)
    return False


def strike(kind):
    if kind == "raise":
        raise ValueError("a strike")
    if kind == "hang":
        time.sleep(3600)
    if kind == "gil":
        mutex, lock = ctypes.create_string_buffer(64), ctypes.PyDLL(None).pthread_mutex_lock
        lock(mutex)
        lock(mutex)  # for ever, and with the interpreter's lock
    os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[kind])


def fail_in_backward(_gradient):
    raise ValueError("a strike in backward")


def resume(call, tensors):
    """Fills the tensors with what the newest step has made that all who have trained were at: the first of
    them gives it to all. The step to go on with."""
    newest = max(kept, default=-1)
    told = call.job.round("newest", str(newest), reduce="gather").value
    known = {rank: int(step) for rank, step in enumerate(told) if int(step) >= 0}
    if not known:
        return 0
    step, root = min(known.values()), min(known)
    for number, tensor in enumerate(tensors):
        value = kept[step][number].clone() if step in kept else torch.empty_like(tensor)
        dist.broadcast(value, root)
        with torch.no_grad():
            tensor.copy_(value)
    return step + 1


def keep(step, tensors):
    kept[step] = [one.detach().clone() for one in tensors]
    for old in [one for one in kept if one < step - 1]:
        del kept[old]


def layers():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.ReLU(), torch.nn.Linear(4 * WIDTH, WIDTH))


def batch(step, rank):
    return torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(1000 * step + rank))


def begin(call, strikes, by_method=False):
    hit(call, strikes, -1)  # while the others are in init_process_group
    if by_method:
        try:
            dist.init_process_group("gloo", init_method="muster://", rank=call.rank, world_size=call.size + 1)
        except muster.Invalid as refused:
            print(f"refused: {refused}", flush=True)
        dist.init_process_group("gloo", init_method="muster://", timeout=datetime.timedelta(seconds=60))
    else:
        muster.torch.init(call, "gloo")
        options = dist.group.WORLD._get_backend(torch.device("cpu")).options
        assert options._timeout.total_seconds() == call.hard_timeout, options._timeout
    print(f"entered iteration={call.iteration} rank={call.view.rank} size={call.view.size} pid={os.getpid()}", flush=True)


def work(call, model, step, strikes):
    """Forward and backward of a step."""
    call.step(step)
    in_backward = hit(call, strikes, step)
    out = model(batch(step, call.view.rank))
    if in_backward:
        out.register_hook(fail_in_backward)
    (out**2).mean().backward()


def show(call, tensors):
    digest = hashlib.sha256()
    for one in tensors:
        digest.update(ctypes.string_at(one.data_ptr(), one.nbytes))
    print(f"weights {digest.hexdigest()} rank={call.view.rank} pid={os.getpid()}", flush=True)


def ddp(steps, strikes, call: muster.Call):
    begin(call, strikes)
    module = layers()
    weights = list(module.parameters())
    momenta = [torch.zeros_like(one) for one in weights]
    first = resume(call, weights + momenta)
    optimizer = torch.optim.SGD(weights, lr=0.01, momentum=0.9)
    for one, momentum in zip(weights, momenta):
        optimizer.state[one]["momentum_buffer"] = momentum
    # Else it lays out its buckets anew after the first step of an attempt: then gloo adds in another order.
    model = DistributedDataParallel(module, find_unused_parameters=True)
    for step in range(first, steps):
        optimizer.zero_grad()
        work(call, model, step, strikes)
        optimizer.step()
        keep(step, weights + momenta)
    show(call, weights)


def fsdp(steps, strikes, call: muster.Call):
    begin(call, strikes, by_method=True)
    module = layers()
    first = resume(call, list(module.parameters()))
    for layer in (*module, module):
        fully_shard(layer)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    for step in range(first, steps):
        optimizer.zero_grad()
        work(call, module, step, strikes)
        optimizer.step()
        keep(step, [one.full_tensor() for one in module.parameters()])
    show(call, [one.full_tensor() for one in module.parameters()])


def resources():
    """Of this process: what must not grow from attempt to attempt."""
    with open("/proc/self/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * resource.getpagesize() // 1024
    counts = [len(os.listdir(f"/proc/self/{what}")) for what in ("fd", "task")]
    hooks = int(sys.excepthook is not sys.__excepthook__)
    return f"descriptors={counts[0]} threads={counts[1]} hooks={hooks} rss_kib={resident}"


def again(restarts, _strikes, call: muster.Call):
    """So many attempts of two steps; another rank fails each time, while the others wait for it."""
    iteration, rank = call.iteration, call.view.rank
    if iteration % 10 == 0:
        print(f"iteration={iteration} rank={rank} {resources()}", flush=True)
    muster.torch.init(call, "gloo")
    model = DistributedDataParallel(layers())
    for step in range(2):
        call.step(2 * iteration + step)
        (model(batch(step, rank)) ** 2).mean().backward()
    if iteration < restarts:
        if rank == iteration % call.view.size:
            raise ValueError(f"failure {iteration}")
        (model(batch(2, rank)) ** 2).mean().backward()
        raise AssertionError("a collective without one rank")


MODES = {"ddp": ddp, "fsdp": fsdp, "again": again}


def main():
    mode, steps, *strikes = sys.argv[1:]
    torch.set_num_threads(1)
    _connections.DRAIN_S = float(os.environ.get("DRAIN", _connections.DRAIN_S))  # 0: see docs/python/torch.md
    times = {"replace_wait": 100}  # another number of ranks has other sums
    if any(one.split(":")[0] in ("hang", "gil", "stop") for one in strikes):
        times |= {"soft_timeout": SOFT_S, "hard_timeout": HARD_S}
    muster.Wrapper(**times)(MODES[mode])(int(steps), strikes)


if __name__ == "__main__":
    main()
