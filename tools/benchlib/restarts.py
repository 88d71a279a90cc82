# SPDX-License-Identifier: Apache-2.0
"""What a program that runs under muster sees: deaths of others, restarts, and what the calls of each
step cost."""
import os
import pathlib
import subprocess

from .figures import Bar, Measure, Pair
from .programs import Failed, measure
from .run import Skipped

LARGE_MIB = 4096  # of a killed rank, where the machine has twice as much to spare
PHASES = ("detect", "interrupt", "seal", "enter")
KINDS = (("exception", "fn fails"), ("kill", "SIGKILL"),
         ("recv", "fn fails, others blocked in recv"), ("soft", "soft timeout (beyond it)"))


def deaths(run, mib, size):
    ranks, kills = run.arguments.ranks, run.arguments.kills
    bar = Bar.below_us(2000, 6000)
    if mib >= 1024:
        bar = Bar(bar.text + ", <= 1/5", lambda pair: pair.subject <= 2000 and pair.p90 <= 6000
                  and pair.ratio <= 0.2)
    measures = [
        Measure(f"SIGKILL at {size} -> each other of {ranks} ranks told", "pidfd", bar),
        Measure(f"SIGKILL at {size} -> fn entered again on the last rank"),
        # The function returns at once when it is told: what it takes itself is nothing.
        Measure(f"SIGKILL at {size} -> first step on the last rank", bar=Bar.below_us(10000)),
        Measure("    of that, after the last function returned")]

    def pair():
        run.pinned_ping_pong()
        beside = run.anchor("death", "pidfd", mib, kills, "busy")
        report = measure(run.bin / "bench_death", mib, kills, ranks, run.bin / "muster",
                         stderr=subprocess.DEVNULL)
        return [Pair.of_p50(report["told"], beside)] + [
            Pair.of_p50(report[name]) for name in ("entered", "running", "beyond_return")]

    return run.pairs(measures, pair)


def one_restart(run, kind, text, ranks, mib=1):
    name = f"restart, {text} -> fn entered again on the last of {ranks}"
    died = kind == "kill"
    bar = Bar.below_us(20000, 50000) if ranks == 64 and kind in ("exception", "kill") else None
    entered = Measure(name, "pidfd" if died else f"epoll barrier of {ranks}", bar)
    entered.phases = [Measure(f"{name}, {phase}") for phase in PHASES]

    def pair():
        run.pinned_ping_pong()
        beside = (run.anchor("death", "pidfd", mib, run.arguments.kills, "busy") if died
                  else run.anchor("barrier", ranks, "processes"))
        report = measure(run.bin / "bench_restart", kind, run.arguments.kills, ranks,
                         run.bin / "muster", mib, stderr=subprocess.DEVNULL)
        if "skipped" in report:
            raise Skipped(f"{name}: nobody was interrupted, skipped")
        return [Pair.of_p50(report["total"], beside)] + [
            Pair.of_p50(report[phase]) for phase in PHASES]

    run.pairs([entered, *entered.phases], pair)
    return entered


def large_restart(run):
    large = min(LARGE_MIB, available_mib() // 2)
    return one_restart(run, "kill", f"SIGKILL at {large} MiB", max(run.arguments.restart_ranks),
                       large)


def calls(run):
    """What a function does in each step. The figures of a run are of 1,000 calls."""
    measures = [Measure(f"muster_restart_{name}", "relaxed atomic load",
                        Bar.below_us(0.005, text="<= 5 ns")) for name in ("check", "ping")]

    def pair():
        run.pinned_ping_pong()
        report = measure(run.bin / "bench_restart", "calls", 1, 1, run.bin / "muster",
                         stderr=subprocess.DEVNULL)
        one = {name: {of: line[of] / 1000 for of in ("p50_us", "p90_us")}
               for name, line in report.items()}
        return [Pair.of_p50(one[name], one["load"]) for name in ("check", "ping")]

    return run.pairs(measures, pair)


def available_mib():
    """Memory that could be had without pushing anything out."""
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    raise Failed("/proc/meminfo has no MemAvailable")


def assignment(run):
    """Of many places, with a key that the processes have made beside one that a function makes."""
    package = run.bin.parent / "python"
    if not (package / "muster").is_dir():
        raise Skipped("the Python package was not built: tools/deps")
    measures = [Measure("16,384 places grouped by their labels, CPU", "by a function of Python")]
    environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}

    def pair():
        took = measure("/usr/bin/python3", pathlib.Path(__file__).with_name("python_assignment.py"),
                       env=environment)
        return [Pair.of_p50(took["label"], took["function"])]

    return run.pairs(measures, pair)
