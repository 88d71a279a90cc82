# SPDX-License-Identifier: Apache-2.0
"""A rank that trains with PyTorch's DistributedDataParallel under one of three products, and is struck.

    torch_rank.py PRODUCT FAULT COUNT SIZE STAMPS

COUNT times rank 1 does what FAULT says, each time in an attempt with all SIZE ranks. Stamps of all
processes, on the machine's monotonic clock, are lines of one file: `ns pid what`."""
import ctypes
import datetime
import importlib
import math
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 10  # of an attempt without a fault
FAULT_STEP = 5
GROUP_TIMEOUT = datetime.timedelta(seconds=10)  # of gloo, the same under all three
TIMES = {"hang": (2, 4), "gil": (2, 4), "stop": (2, 4)}  # soft, hard; else both products' own defaults


class Stamps:
    def __init__(self, path):
        self.path = path
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def put(self, what):
        os.write(self.file, f"{time.monotonic_ns()} {os.getpid()} {what}\n".encode())

    def faults(self):
        with open(self.path, encoding="ascii") as lines:
            return sum(line.split()[2] == "fault" for line in lines)


def strike(fault):
    if fault == "exception":
        raise ValueError("a fault of the benchmark")
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "hang":
        time.sleep(3600)
    if fault == "gil":
        mutex, lock = ctypes.create_string_buffer(64), ctypes.PyDLL(None).pthread_mutex_lock
        lock(mutex)
        lock(mutex)  # for ever, and with the interpreter's lock
    if fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)


class Training:
    def __init__(self, fault, count, size, path):
        self.fault, self.count, self.size = fault, int(count), int(size)
        self.stamps = Stamps(path)

    def attempt(self, begin, step=lambda number: None):
        """`begin` makes the process group; `step` is what a product wants in each step."""
        self.stamps.put("entered")
        begin()
        rank, size = dist.get_rank(), dist.get_world_size()
        left = self.count - self.stamps.faults()
        strikes = left > 0 and size == self.size and rank == 1
        torch.manual_seed(7)
        model = DistributedDataParallel(torch.nn.Linear(64, 64))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        number = 0
        while number < STEPS or (left > 0 and size == self.size) or self.waits(size):
            step(number)
            if strikes and number == FAULT_STEP:
                self.stamps.put("fault")
                strike(self.fault)
            model(torch.randn(8, 64)).sum().backward()
            optimizer.step()
            if number == 0:
                self.stamps.put("stepped")
            number += 1

    def waits(self, size):
        """For a replacement, without which there is no further fault."""
        return size < self.size and self.stamps.faults() < self.count


def under_muster(training):
    import muster
    import muster.torch

    soft, hard = TIMES.get(training.fault, (None, None))

    # Each attempt is struck at the same step, which is no progress.
    @muster.Wrapper(soft_timeout=soft, hard_timeout=hard, stalled_max=math.inf)
    def train(call: muster.Call):
        training.attempt(
            lambda: muster.torch.init(call, "gloo", timeout=GROUP_TIMEOUT), call.step)

    train()


def under_nvrx(training):
    import nvidia_resiliency_ext.inprocess as inprocess

    port = int(os.environ["MASTER_PORT"])
    times = {}
    if training.fault in TIMES:
        soft, hard = TIMES[training.fault]
        times = {"soft_timeout": datetime.timedelta(seconds=soft),
                 "hard_timeout": datetime.timedelta(seconds=hard)}
    # Of the program's own, outside of what is restarted; the wrapper has one of its own.
    store = dist.TCPStore("127.0.0.1", port + 1, int(os.environ["WORLD_SIZE"]),
                          os.environ["RANK"] == "0", multi_tenant=True, wait_for_workers=True,
                          use_libuv=True)

    @inprocess.Wrapper(store_kwargs={"host_name": "127.0.0.1", "port": port}, **times)
    def train(call: inprocess.CallWrapper = None):
        training.attempt(
            lambda: dist.init_process_group(
                "gloo", store=dist.PrefixStore(str(call.iteration), store),
                rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]),
                timeout=GROUP_TIMEOUT),
            lambda number: None)

    train()


def under_torchrun(training):
    training.attempt(lambda: dist.init_process_group("gloo", timeout=GROUP_TIMEOUT))
    dist.destroy_process_group()


def main():
    product, *words = sys.argv[1:]
    torch.set_num_threads(1)
    if product != "torchrun":  # a first step imports it, for longer than a short soft timeout
        importlib.import_module("torch._dynamo")
    {"muster": under_muster, "nvrx": under_nvrx, "torchrun": under_torchrun}[product](
        Training(*words))


if __name__ == "__main__":
    main()
