# SPDX-License-Identifier: Apache-2.0
"""A run: its pairs, each measured again while others keep the machine busy, and what makes all of
it void."""
import os
import statistics
import sys
import time

from .programs import measure, only

ANCHOR_CPU = 0  # where both ends are pinned to
SERVER_CPU = 1  # where each end has a CPU of its own
OTHERS_MAX = 0.12  # of a CPU, used by processes that are none of ours

# What the machines show for which the bars were set.
PING_PONG_US = (6.0, 10.0)
ECHO_PER_SECOND = 200_000
BARRIER_US = 3200.0


class Skipped(Exception):
    """A measure has no figure here, and why."""


class Others:
    """The CPU time of processes that are none of ours, from now on."""

    def __init__(self):
        self.begun = time.monotonic(), self.used()

    @staticmethod
    def used():
        with open("/proc/stat", encoding="ascii") as file:
            user, nice, system = map(int, file.readline().split()[1:4])
        own = os.times()
        return ((user + nice + system) / os.sysconf("SC_CLK_TCK")
                - own.user - own.system - own.children_user - own.children_system)

    def share(self):
        """Of one CPU."""
        began, used = self.begun
        return (self.used() - used) / (time.monotonic() - began)


class Run:
    def __init__(self, arguments):
        self.bin = arguments.bin
        self.arguments = arguments
        self.ping_pong = []  # figures of the anchors, to judge the run by
        self.echo = []
        self.barrier = []
        self.repeated = 0
        self.disturbed = []  # the share of others in pairs that were never quiet

    def anchor(self, *words):
        return only(measure(self.bin / "anchor", *words))

    def pinned_ping_pong(self):
        report = self.anchor("-p", "same", "rtt", "tcp")
        self.ping_pong.append(report["p50_us"])
        return report

    def pairs(self, measures, pair):
        """`pair` measures once and gives a Pair for each of the measures. One that others disturbed
        is measured again, a few times; then the least disturbed one is taken, and told."""
        for _ in range(self.arguments.pairs):
            share, best = self.quiet_pair(pair)
            for one, figures in zip(measures, best):
                one.pairs.append(figures)
                one.disturbed += share > OTHERS_MAX
        return measures

    def quiet_pair(self, pair):
        tries = []
        while not tries or (tries[-1][0] > OTHERS_MAX and len(tries) <= self.arguments.repeats):
            others = Others()
            figures = pair()
            tries.append((others.share(), figures))
        self.repeated += len(tries) - 1
        share, figures = min(tries, key=lambda one: one[0])
        if share > OTHERS_MAX:
            self.disturbed.append(share)
        return share, figures

    def void(self):
        """Why the run is worth nothing; None: it is worth something."""
        reasons = []
        ping_pong = statistics.median(self.ping_pong) if self.ping_pong else PING_PONG_US[0]
        if not PING_PONG_US[0] <= ping_pong <= PING_PONG_US[1]:
            reasons.append(f"the pinned TCP ping-pong took {ping_pong:.1f} us, not "
                           f"{PING_PONG_US[0]:.0f} to {PING_PONG_US[1]:.0f}")
        if self.echo and statistics.median(self.echo) < ECHO_PER_SECOND:
            reasons.append(f"the epoll echo server answered {statistics.median(self.echo):,.0f} "
                           f"requests per second, not {ECHO_PER_SECOND:,}")
        if self.barrier and statistics.median(self.barrier) > BARRIER_US:
            reasons.append(f"the bare barrier of 256 processes took "
                           f"{statistics.median(self.barrier) / 1000:.1f} ms, not "
                           f"{BARRIER_US / 1000:g}")
        return "VOID: this is no machine for which the bars were set: " + "; ".join(
            reasons) if reasons else None

    def quietness(self):
        if not self.disturbed:
            return f"Pairs measured again because others used the machine: {self.repeated}."
        return (f"Pairs that stayed disturbed, also when measured again: {len(self.disturbed)}; other "
                f"processes used up to {max(self.disturbed):.1f} CPUs. Their figures are in the "
                "table.")


def tell(text):
    print(f"bench: {text}", file=sys.stderr)
