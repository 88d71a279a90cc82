# SPDX-License-Identifier: Apache-2.0
"""What a program sees that takes part in preemption: the call of each step, and how long it takes
until all know the step that a notice makes them save."""
import subprocess

from .figures import Bar, Measure, Pair
from .programs import measure


def calls(run):
    """The figures of a run are of 1,000 calls."""
    measures = [Measure("muster_preempt_reached without a notice", "relaxed atomic load",
                        Bar.below_us(0.005, text="<= 5 ns"))]

    def pair():
        run.pinned_ping_pong()
        report = measure(run.bin / "bench_preempt", "calls", 1, 1, run.bin / "muster",
                         stderr=subprocess.DEVNULL)
        one = {name: {of: line[of] / 1000 for of in ("p50_us", "p90_us")}
               for name, line in report.items()}
        return [Pair.of_p50(one["reached"], one["load"])]

    return run.pairs(measures, pair)


def agreement(run):
    """The barrier is back to back; the bare news go the way that a notice goes, at moments like
    those."""
    ranks = run.arguments.notice_ranks
    name = f"notice -> all of {ranks} ranks know the agreed step"
    measures = [Measure(name, f"epoll barrier of {ranks}", Bar.at_most(3)),
                Measure(name, "bare news, then a barrier")]

    def pair():
        run.pinned_ping_pong()
        barrier, news = run.anchor("barrier", ranks, "processes"), run.anchor("news", ranks)
        report = measure(run.bin / "bench_preempt", "agree", run.arguments.notices, ranks,
                         run.bin / "muster", stderr=subprocess.DEVNULL)
        return [Pair.of_p50(report["known"], beside) for beside in (barrier, news)]

    return run.pairs(measures, pair)
