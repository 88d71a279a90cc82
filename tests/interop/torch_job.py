# SPDX-License-Identifier: Apache-2.0
"""A program of torch for the tests, with nothing of muster in it, as torchrun starts one. Each word of
the command line is a step; each line of its output begins with the rank."""
import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

me, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")


def say(*words):
    sys.stdout.write(" ".join(map(str, (me,) + words)) + "\n")
    sys.stdout.flush()


def store():
    """What torch documents of a store, by its own client."""
    client = dist.TCPStore(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, False,
        timeout=datetime.timedelta(seconds=60),
    )
    other = str((me + 1) % size)
    client.set(f"color/{me}", f"blue{me}")
    got = client.get(f"color/{other}").decode()
    total = client.add("counter", 2)
    client.wait([f"color/{i}" for i in range(size)], datetime.timedelta(seconds=60))
    swapped = client.compare_set(f"own/{me}", "", "first").decode()
    client.append(f"own/{me}", "+") if hasattr(client, "append") else None
    late = "no"
    try:
        client.wait(["never"], datetime.timedelta(milliseconds=200))
    except Exception:
        late = "late"
    say("store", got, total % 2 == 0, swapped, client.check([f"color/{other}"]), late, client.delete_key(f"own/{me}"))


stores = []  # one that a process hosts is to live as long as that


def found():
    """Whether the store of this attempt has a key of the attempt before."""
    kept, _, _ = next(dist.rendezvous("env://"))
    stores.append(kept)
    if me == 1:
        say("found", kept.check([f"mark{int(attempt) - 1}"]))
        kept.set(f"mark{attempt}", "x")
    kept.wait([f"mark{attempt}"], datetime.timedelta(seconds=60))


def ddp():
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(20):
        optimizer.zero_grad()
        x = torch.full((4, 8), float(me + step) / 32)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
    say("ddp", round(float(sum(p.sum() for p in model.parameters())), 5))


def left():
    """A group of all but rank 0."""
    dist.destroy_process_group()
    client = dist.TCPStore(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, wait_for_workers=False,
        timeout=datetime.timedelta(seconds=20),
    )
    dist.init_process_group("gloo", store=dist.PrefixStore("left", client), rank=me - 1, world_size=size - 1)
    tensor = torch.tensor([me + 1])
    dist.all_reduce(tensor)
    say("left", int(tensor))


def lost(path):
    if "LOSES" in os.environ and size == 2:
        open(path, "w", encoding="ascii").close()
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    while not os.path.exists(path):
        time.sleep(0.05)


say("pid", os.getpid())
say("attempt", attempt)
for word in sys.argv[1:]:
    what, _, rest = word.partition("=")
    if what == "store":
        store()
    elif what == "found":
        found()
    elif what == "group":
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    elif what == "sum":
        tensor = torch.tensor([me + 1])
        dist.all_reduce(tensor)
        say("sum", int(tensor))
    elif what == "ddp":
        ddp()
    elif what == "barrier":
        dist.barrier()
    elif what == "fail":  # RANK:COUNT: as many attempts of that rank
        rank, count = map(int, rest.split(":"))
        if me == rank and int(attempt) < count:
            say("fails")
            os._exit(3)
    elif what == "die" and me == int(rest) and attempt == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "absent":  # RANK:FILE
        rank, path = rest.split(":")
        while me == int(rank) and not os.path.exists(path):
            time.sleep(0.05)
    elif what == "wait":  # FILE
        while not os.path.exists(rest):
            time.sleep(0.05)
    elif what == "left":
        left()
    elif what == "lost":  # FILE: once two nodes of torchrun are there, that with LOSES is lost
        lost(rest)
say("ended")
os._exit(0)  # the interpreter takes a quarter of a minute to end torch on a busy machine
