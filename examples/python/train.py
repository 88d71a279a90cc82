# SPDX-License-Identifier: Apache-2.0
"""A training loop that is preempted and continues: every rank saves the same step, or none counts.

    muster run -n 4 -- python3 train.py /tmp/run     # give one rank a SIGTERM: it exits with 75
    muster run -n 4 -- python3 train.py /tmp/run     # continues from there, and exits with 0

The model is a line through points, and its numbers are integers (16 bits of them behind the point):
so the result is the same to the last bit, however often it was interrupted.
"""

import argparse
import contextlib
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


class Checkpoint:
    """Files of this rank. A written file counts when all ranks have written it: until then the
    previously committed one stays."""

    def __init__(self, folder, rank):
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.committed = folder / f"rank-{rank}.json"
        self.written = folder / f"rank-{rank}.new"

    def write(self, step, weights):
        with open(self.written, "w", encoding="ascii") as file:
            json.dump([step, weights], file)
            file.flush()
            os.fsync(file.fileno())

    def commit(self, job, step):
        """The first rank inserts the key, in the generation's own key space, for all. A rank that
        was replaced meanwhile is refused: muster.Fenced."""
        with contextlib.suppress(muster.Conflict):
            job.keys.cas(f"checkpoint/{step}", 0, b"", generation=job.view.generation)
        self.written.replace(self.committed)

    @staticmethod
    def read(path):
        try:
            return tuple(json.loads(path.read_text(encoding="ascii")))
        except (FileNotFoundError, ValueError):
            return 0, [0, 0, 0]

    def load(self, job):
        """(step, weights) of the newest that any rank has committed. All have written that one: a
        rank that was killed before its commit has it under the other name."""
        mine = self.read(self.committed)
        newest = job.round("resume", mine[0], reduce="max").value
        if mine[0] != newest:
            mine = self.read(self.written)
        if mine[0] != newest:
            raise SystemExit(f"{self.committed} has no step {newest}, which others have")
        return mine


def train(job, folder, steps):
    job.preempt.open()  # from here on a notice counts
    rank, size = job.view.rank, job.view.size
    checkpoint = Checkpoint(folder, rank)
    first, weights = checkpoint.load(job)
    if first and rank == 0:
        print(f"resumes at step {first}", flush=True)
    for step in range(first, steps):
        reach = job.preempt.reached(step)
        if reach is muster.Reach.SAVE_NOW:
            checkpoint.write(step, weights)
            print(f"rank {rank} has saved step {step}: {job.preempt.notice.reason}", flush=True)
            try:
                all_have = job.preempt.saved(step)
            except muster.Preempted:  # all have saved: end
                checkpoint.commit(job, step)
                raise
            if all_have:
                checkpoint.commit(job, step)
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
