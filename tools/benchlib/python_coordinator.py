# SPDX-License-Identifier: Apache-2.0
"""Figures of closures in Python, as lines of JSON. Workers with python_steps.py run beside it.

usage: python_coordinator.py rate|joined|rtt|takeover WORKERS COUNT
"""
import json
import os
import pathlib
import signal
import statistics
import sys
import tempfile
import time

from muster.cluster import Coordinator

import python_steps as steps


def await_workers(coordinator, workers):
    while coordinator.counts().workers_present < workers:
        coordinator.schedule(steps.empty, (0,)).fetch()
        time.sleep(0.005)


def rate(coordinator, count):
    coordinator.fetch(coordinator.map(steps.empty, range(1000)))
    begin = time.monotonic()
    coordinator.fetch(coordinator.map(steps.empty, range(count)))
    return {"n": count, "per_second": count / (time.monotonic() - begin)}


def joined(coordinator, count):
    """Nobody fetches the values."""
    coordinator.map(steps.empty, range(1000))
    coordinator.join()
    begin = time.monotonic()
    coordinator.map(steps.empty, range(count))
    coordinator.join()
    return {"n": count, "per_second": count / (time.monotonic() - begin)}


def percentiles(times_us):
    ordered = sorted(times_us)
    return {"n": len(ordered), "p50_us": statistics.median(ordered),
            "p90_us": ordered[min(len(ordered) - 1, len(ordered) * 9 // 10)]}


def rtt(coordinator, count):
    times_us = []
    for number in range(count):
        begin = time.monotonic()
        coordinator.schedule(steps.empty, (number,)).fetch()
        times_us.append((time.monotonic() - begin) * 1e6)
    return percentiles(times_us)


def takeover(coordinator, workers, kills):
    times_us = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(kills):
            await_workers(coordinator, workers)
            value = coordinator.schedule(steps.holds, (folder,))
            file = pathlib.Path(folder, str(value.number))
            while not file.exists():
                time.sleep(0.001)
            begin = time.monotonic()
            os.kill(int(file.read_text()), signal.SIGKILL)
            times_us.append((value.fetch() - begin) * 1e6)
    return percentiles(times_us)


def main():
    what, workers, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with Coordinator() as coordinator:
        if coordinator.dismissed:  # a process after one that was killed
            return
        await_workers(coordinator, workers)
        figures = {"rate": lambda: rate(coordinator, count),
                   "joined": lambda: joined(coordinator, count), "rtt": lambda: rtt(coordinator, count),
                   "takeover": lambda: takeover(coordinator, workers, count)}[what]()
        print(json.dumps({"name": what, **figures}), flush=True)
        coordinator.dismiss()


if __name__ == "__main__":
    main()
