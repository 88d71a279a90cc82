# SPDX-License-Identifier: Apache-2.0
"""A training loop that is preempted and goes on: every rank saves the same step, or none counts.

    muster run -n 4 -- python3 train.py /tmp/run     # give one rank a SIGTERM: it ends with 75
    muster run -n 4 -- python3 train.py /tmp/run     # goes on where it was, and ends with 0

The model is a line through points, and its numbers are integers (16 bits of them behind the point):
so the result is the same to the last bit, however often it was interrupted.
"""

import argparse
import json
import os
import pathlib
import random
import sys

import muster

ONE = 1 << 16
TRUTH = (3 * ONE, -2 * ONE, 5 * ONE)
POINTS = 32  # of each rank in each step


def gradient(weights, step, rank):
    """Of the squared distance to this rank's points of this step."""
    dice = random.Random(f"{step} {rank}")
    total = [0, 0, 0]
    for _ in range(POINTS):
        point = (dice.randrange(-ONE, ONE), dice.randrange(-ONE, ONE), ONE)
        wrong = sum((w - t) * x for w, t, x in zip(weights, TRUTH, point)) // ONE
        total = [sum_ + wrong * x // ONE for sum_, x in zip(total, point)]
    return total


class Checkpoints:
    """The last two steps that this rank has saved: the others may lack the newer one."""

    def __init__(self, folder, rank):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.rank = rank

    def path(self, step):
        return self.folder / f"rank-{self.rank}-step-{step}.json"

    def steps(self):
        saved = self.folder.glob(f"rank-{self.rank}-step-*.json")
        return sorted(int(path.stem.rpartition("-")[2]) for path in saved)

    def save(self, step, weights):
        """Whole or not at all, also when the machine goes down meanwhile."""
        new = self.path(step).with_suffix(".new")
        with open(new, "w", encoding="ascii") as file:
            json.dump(weights, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path(step))
        for old in self.steps()[:-2]:
            self.path(old).unlink()

    def load(self, job):
        """(step, weights) of the last one that every rank has."""
        step = job.round("resume", max(self.steps(), default=0), reduce="min").value
        if step == 0:
            return 0, [0, 0, 0]
        return step, json.loads(self.path(step).read_text(encoding="ascii"))


def train(job, folder, steps):
    job.preempt.open()  # from here on a notice counts
    rank, size = job.view.rank, job.view.size
    saved = Checkpoints(folder, rank)
    first, weights = saved.load(job)
    if first and rank == 0:
        print(f"resumes at step {first}", flush=True)
    for step in range(first, steps):
        reach = job.preempt.reached(step)
        if reach is muster.Reach.SAVE_NOW:
            saved.save(step, weights)
            print(f"rank {rank} has saved step {step}: {job.preempt.notice.reason}", flush=True)
            job.preempt.saved(step)  # Preempted when all have
        elif reach is muster.Reach.STOP:
            return 1
        total = job.round("gradient", gradient(weights, step, rank), reduce="sum").value
        weights = [w - g // (2 * POINTS * size) for w, g in zip(weights, total)]
        if rank == 0 and step % 100 == 0:
            print(f"step {step}", flush=True)
    if rank == 0:
        print("weights", *(f"{weight / ONE:.4f}" for weight in weights), flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", help="where the checkpoints are")
    parser.add_argument("--steps", type=int, default=1000)
    given = parser.parse_args()
    try:
        with muster.open() as job:
            return train(job, given.folder, given.steps)
    except muster.Preempted as ended:
        return muster.exit_code(ended)  # 75: saved, run me again


if __name__ == "__main__":
    sys.exit(main())
