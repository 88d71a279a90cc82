# SPDX-License-Identifier: Apache-2.0
"""Clients of a coordination service of JAX or of a TCPStore, as their own packages have them: what a call
takes, how many there are per second, and barriers. Reports lines of JSON.

usage: front_clients.py jax|torch ADDRESS keys COUNT
       front_clients.py jax|torch ADDRESS rate CLIENTS MILLISECONDS
       front_clients.py jax|torch ADDRESS barrier PROCESSES EACH COUNT

EACH is the number of clients in a process, each with a thread of its own.
"""
import json
import os
import statistics
import sys
import threading
import time

PATIENCE_MS = 60_000


class Jax:
    """As `jax.distributed.initialize` makes it; a process of JAX has one."""

    def __init__(self, address, index, _size):
        from jaxlib import _jax

        client = _jax.get_distributed_runtime_client(address, index, use_compression=True,
                                                     shutdown_on_destruction=False)
        client.connect()
        self.set = lambda key, value: client.key_value_set_bytes(key, value, allow_overwrite=True)
        self.get = lambda key: client.blocking_key_value_get_bytes(key, PATIENCE_MS)
        self.add = client.key_value_increment
        self.barrier = lambda name: client.wait_at_barrier(name, PATIENCE_MS)
        self.leave = client.shutdown


class Torch:
    def __init__(self, address, _index, size):
        from torch.distributed import TCPStore

        host, port = address.rsplit(":", 1)
        store = TCPStore(host, int(port), is_master=False, wait_for_workers=False)
        self.set, self.get, self.add = store.set, store.get, store.add
        self.barrier = lambda name: store.barrier(name, size)

    def leave(self):
        """A store has no word for it."""


VALUE = b"x" * 16
CALLS = {"set": lambda client: client.set("key", VALUE), "get": lambda client: client.get("key"),
         "add": lambda client: client.add("sum", 1)}


def p50(name, took):
    took = sorted(took)
    print(json.dumps({"name": name, "n": len(took), "p50_us": statistics.median(took) * 1e6,
                      "p90_us": took[len(took) * 9 // 10] * 1e6}))


def timed(call, count):
    """When each began and ended."""
    stamps = []
    for number in range(count):
        began = time.monotonic()
        call(number)
        stamps.append((began, time.monotonic()))
    return stamps[count // 10:]


def keys(kind, address, count):
    client = kind(address, 0, 1)
    for name, call in CALLS.items():
        p50(name, [ended - began for began, ended in timed(lambda _, call=call: call(client), count)])
    client.leave()


def in_processes(count, work):
    """What `work(number)` gives in each of so many."""
    pipes = []
    for number in range(count):
        reads, writes = os.pipe()
        if os.fork() == 0:
            with os.fdopen(writes, "w") as pipe:
                json.dump(work(number), pipe)
            os._exit(0)
        os.close(writes)
        pipes.append(reads)
    results = []
    for reads in pipes:
        with os.fdopen(reads) as pipe:
            results.append(json.loads(pipe.read() or "null"))
    if None in results:
        raise SystemExit("a process of clients has failed")
    return results


def in_threads(count, work):
    results = [None] * count

    def one(number):
        results[number] = work(number)

    threads = [threading.Thread(target=one, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def rate(kind, address, clients, milliseconds):
    def work(index):
        client, found = kind(address, index, clients), []
        for name, call in CALLS.items():
            client.barrier(f"before {name}")
            began = now = time.monotonic()
            done = 0
            while now - began < milliseconds / 1000:
                call(client)
                done += 1
                now = time.monotonic()
            found.append(done / (now - began))
        client.barrier("after")
        client.leave()
        return found

    for name, rates in zip(CALLS, zip(*in_processes(clients, work))):
        print(json.dumps({"name": name, "per_second": sum(rates)}))


def barrier(kind, address, processes, each, count):
    """From the last one's arrival until all have passed."""
    def work(process):
        def enter(thread):
            client = kind(address, process * each + thread, processes * each)
            stamps = timed(lambda number: client.barrier(f"barrier {number}"), count)
            client.leave()
            return stamps

        return in_threads(each, enter)

    ranks = [stamps for process in in_processes(processes, work) for stamps in process]
    p50("barrier", [max(ended for _, ended in one) - max(began for began, _ in one)
                    for one in zip(*ranks)])


def main(kind, address, what, *numbers):
    __import__({"jax": "jaxlib._jax", "torch": "torch.distributed"}[kind])  # once, for all processes
    {"keys": keys, "rate": rate, "barrier": barrier}[what](
        {"jax": Jax, "torch": Torch}[kind], address, *map(int, numbers))
    sys.stdout.flush()
    os._exit(0)  # nothing of this is measured, and torch takes its time


if __name__ == "__main__":
    main(*sys.argv[1:])
