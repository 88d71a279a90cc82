# SPDX-License-Identifier: Apache-2.0
"""What a call from Python costs: muster's package or torch's TCPStore, each through its own binding,
over loopback TCP. Reports lines of JSON.

usage: python_store.py muster|torch ADDRESS keys COUNT
       python_store.py muster|torch ADDRESS barrier RANKS COUNT
"""
import json
import os
import statistics
import sys
import time


def report(name, took):
    took = sorted(took)
    print(json.dumps({"name": name, "n": len(took), "p50_us": statistics.median(took) * 1e6,
                      "p90_us": took[len(took) * 9 // 10] * 1e6}))


class Muster:
    def __init__(self, address):
        import muster

        self.open = lambda rank, size: muster.open(
            addr=address, job="bench", index=rank, size_of_job=size, log=False)

    def join(self, rank, size):
        job = self.open(rank, size)
        keys = job.keys
        return {"set": keys.put, "get": lambda key: keys[key], "add": keys.add,
                "barrier": lambda number: job.barrier("bench")}


class Torch:
    def __init__(self, address):
        from torch.distributed import TCPStore

        host, port = address.rsplit(":", 1)
        self.open = lambda: TCPStore(host, int(port), is_master=False, wait_for_workers=False)
        self.name = f"bench/{os.getpid()}"  # a barrier's name is used up

    def join(self, _rank, size):
        store = self.open()
        return {"set": store.set, "get": store.get, "add": store.add,
                "barrier": lambda number: store.barrier(f"{self.name}/{number}", size)}


def timed(call, count):
    took = []
    for _ in range(count):
        began = time.perf_counter()
        call()
        took.append(time.perf_counter() - began)
    return took


def keys(calls, count):
    value = b"x" * 16
    for name, call in (("set", lambda: calls["set"]("key", value)), ("get", lambda: calls["get"]("key")),
                       ("add", lambda: calls["add"]("sum", 1))):
        timed(call, count // 10)
        report(name, timed(call, count))


def barriers(subject, size, count):
    """Processes of this one, which has imported what they need. What rank 0 waits is reported: from
    one barrier's opening to that of the next."""
    children = []
    for rank in range(1, size):
        child = os.fork()
        if child == 0:
            enter(subject.join(rank, size), count)
            os._exit(0)
        children.append(child)
    took = enter(subject.join(0, size), count)
    for child in children:
        if os.waitpid(child, 0)[1] != 0:
            raise SystemExit("a rank has failed")
    report("barrier", took[count // 10:])


def enter(calls, count):
    numbers = iter(range(count))
    return timed(lambda: calls["barrier"](next(numbers)), count)


def main(kind, address, what, *numbers):
    subject = {"muster": Muster, "torch": Torch}[kind](address)
    numbers = [int(number) for number in numbers]
    if what == "keys":
        keys(subject.join(0, 1), *numbers)
    else:
        barriers(subject, *numbers)
    sys.stdout.flush()
    os._exit(0)  # nothing of this is measured, and torch takes its time


if __name__ == "__main__":
    main(*sys.argv[1:])
