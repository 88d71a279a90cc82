# SPDX-License-Identifier: Apache-2.0
"""Strikes at a training that is resumed from a checkpoint: which, where and when is decided by a
seed. What tools/soak --only resumed does to each run."""
import os
import random
import signal
import subprocess

from training import RANKS, service_of

PATIENCE = 4   # reports of steps without the moment that is waited for: then it is struck
NOTICE_S = 60  # until the deadline: no save takes so long
FIRST = ("running", "step")  # where the first run is stopped
# Where a later one is struck: what a rank says, and how often after the strike before.
MOMENTS = (("started", 4), ("entered", 8), ("loaded", 4), ("running", 8), ("step", 3), ("told", 3),
           ("written", 4), ("saved", 4))
# kill: one rank; pair: two at once; all: every rank; service: the job's service; freeze: one rank,
# which is found by its missing progress; notice: the run is stopped, and resumed once more.
STRIKES = ("kill", "kill", "kill", "pair", "all", "service", "freeze", "notice", "notice")


class Strike:
    def __init__(self, dice, kinds=STRIKES, moments=MOMENTS):
        self.kind = dice.choice(kinds)
        self.moment, most = dice.choice(moments)
        self.left = dice.randint(1, most)
        self.indices = dice.sample(range(RANKS), 2)
        self.speaker = dice.random() < 0.4  # the rank that said it is the first victim

    def __str__(self):
        return f"{self.kind} {self.indices} at {self.left} x {self.moment}"


class Schedule:
    """Sees the events of all runs of one training, and strikes."""

    def __init__(self, seed, program, job, environment, counts):
        dice = random.Random(seed)
        self.program, self.job, self.environment, self.counts = program, job, environment, counts
        self.runs = 0      # that have ended
        self.told = []     # what was done
        self.progress_at = self.progress_of = None
        self.steps = 0     # reports of one since the last strike
        self.first = Strike(dice, ("notice",), [(dice.choice(FIRST), 4)])
        self.strikes = [self.first] + [Strike(dice) for _ in range(dice.randint(2, 5))]

    def __call__(self, run, event):
        if event.name in ("step", "running"):
            if self.progress_at and self.progress_of is run:
                self.counts.standstill(event.at - self.progress_at)
            self.progress_at, self.progress_of = event.at, run
        if not self.strikes:
            return
        strike = self.strikes[0]
        self.steps += event.name == "step"
        strike.left -= event.name == strike.moment
        if strike.left <= 0 or self.steps >= PATIENCE:
            self.strikes.pop(0)
            self.steps = 0
            self.strike(run, event, strike)

    def strike(self, run, event, strike):
        self.told.append(f"run {self.runs}: {strike.kind} {strike.indices} at {event.name} "
                         f"{event.text} of #{event.index}")
        if strike.kind == "notice":
            subprocess.run([self.program, "preempt", "-j", self.job, "--in", f"{NOTICE_S}s"],
                           env={**os.environ, **self.environment}, check=False,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        elif strike.kind == "service":
            self.send(service_of(run.process.pid), signal.SIGKILL, "service")
        else:
            for index in self.victims(event, strike):
                freezes = strike.kind == "freeze"
                self.send(run.pids.get(index, [None])[-1],
                          signal.SIGSTOP if freezes else signal.SIGKILL,
                          "freeze" if freezes else "kill")

    def victims(self, event, strike):
        first, second = strike.indices
        if strike.speaker:
            first, second = event.index, first if first != event.index else second
        return {"pair": [first, second], "all": range(RANKS)}.get(strike.kind, [first])

    def send(self, pid, number, what):
        try:
            if pid:
                os.kill(pid, number)
                self.counts.add(what)
        except ProcessLookupError:
            pass

    def count(self, run):
        """Counts what became of a run that has ended."""
        self.runs += 1
        self.counts.add("resumes", bool(run.find("loaded")))
        generations = {event.number("generation") for event in run.find("running")}
        self.counts.add("restarts", max(len(generations) - 1, 0))
