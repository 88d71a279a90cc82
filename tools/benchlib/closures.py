# SPDX-License-Identifier: Apache-2.0
"""Closures of a cluster beside jobs of Gearman and tasks of Dask: how many per second, how long one
takes, what a queued one costs, and how soon another worker has that of a killed one."""
import pathlib
import subprocess

from .figures import Bar, Measure, Pair
from .programs import Gearman, measure, only
from .run import Skipped

WORKERS = 2
DASK_PATIENCE_S = 120


def closures(run, *words):
    """Of the coordinator's own job."""
    return only(measure(run.bin / "bench_cluster", *words, stderr=subprocess.DEVNULL))


def has_gearman(run):
    return (run.bin / "bench_gearman").is_file()


def of_gearman(run, cpu, *words):
    program = run.bin / "bench_gearman"
    with Gearman(cpu) as server:
        kind, *numbers = words
        pinned = ["-p", "same"] if cpu is not None else []
        return only(measure(program, *pinned, kind, server.at, *numbers))


def rate(run):
    if not has_gearman(run):
        raise Skipped("Gearman's C library was not there when this was built: tools/deps --bench")
    count = run.arguments.closures
    bar = Bar(">= 3 x", lambda pair: pair.ratio >= 3)
    measures = [Measure(f"empty closures, {WORKERS} workers, all CPUs", "Gearman", bar, "/s")]

    def pair():
        run.pinned_ping_pong()
        beside = of_gearman(run, None, "rate", WORKERS, max(count // 4, 1))
        subject = closures(run, "rate", run.bin / "muster", WORKERS, count)
        return [Pair(subject["per_second"], beside["per_second"])]

    return run.pairs(measures, pair)


def rate_of_dask(run):
    """For information."""
    script = pathlib.Path(__file__).with_name("dask_rate.py")
    count = run.arguments.closures
    measures = [Measure(f"empty closures, {WORKERS} workers, all CPUs", "Dask", None, "/s")]
    # Debian's Python has it, whatever the path finds first.
    if subprocess.run(["/usr/bin/python3", "-c", "import distributed"],
                      stderr=subprocess.DEVNULL).returncode != 0:
        raise Skipped("Dask is not installed: tools/deps --bench")

    def pair():
        run.pinned_ping_pong()
        beside = only(measure("/usr/bin/python3", script, WORKERS, max(count // 200, 1),
                              stderr=subprocess.DEVNULL, timeout=DASK_PATIENCE_S))
        subject = closures(run, "rate", run.bin / "muster", WORKERS, count)
        return [Pair(subject["per_second"], beside["per_second"])]

    return run.pairs(measures, pair)


def round_trip(run):
    """One at a time; everything that takes part is on one CPU."""
    name = "an empty closure, there and back, one CPU"
    measures = [Measure(name, "TCP ping-pong", Bar.at_most(3))]
    if has_gearman(run):
        measures.append(Measure(name, "Gearman"))
    count = max(run.arguments.closures // 20, 1)

    def pair():
        beside = run.pinned_ping_pong()
        jobs = [of_gearman(run, 0, "rtt", count)] if has_gearman(run) else []
        subject = closures(run, "-p", "same", "rtt", run.bin / "muster", count)
        return [Pair.of_p50(subject, other) for other in (beside, *jobs)]

    return run.pairs(measures, pair)


def queued(run):
    count = run.arguments.queued
    bar = Bar("<= 400 B", lambda pair: pair.subject <= 400)
    measures = [Measure(f"{count:,} queued closures, memory of each beside its arguments", bar=bar,
                        unit="B")]
    return run.pairs(measures, lambda: [
        Pair(closures(run, "queued", run.bin / "muster", count)["bytes"])])


def takeover(run):
    measures = [Measure("SIGKILL of a worker -> its closure runs on another one",
                        bar=Bar.below_us(5000))]

    def pair():
        run.pinned_ping_pong()
        return [Pair.of_p50(closures(run, "takeover", run.bin / "muster", WORKERS,
                                     run.arguments.kills))]

    return run.pairs(measures, pair)
