# SPDX-License-Identifier: Apache-2.0
"""A training loop that goes on in the same processes when a rank fails, hangs or is killed.

    muster run -n 4 -- python3 restart.py                     # undisturbed
    muster run -n 4 -- python3 restart.py --fail 100          # rank 1 raises an exception there
    muster run -n 4 --min-size 4 -- python3 restart.py --kill 100    # rank 1 is killed there

The model is in the memory of each rank. What a fault has left behind, the newest state that a rank
has saved there is where all go on; a new process gets it from one that has it. The numbers are
integers, so the result is the same to the last bit, however often it was interrupted.
"""

import argparse
import json
import os
import random
import signal

import muster

ONE = 1 << 16
TRUTH = (3 * ONE, -2 * ONE, 5 * ONE)
POINTS = 32  # of each rank in each step
EVERY = 10  # steps between two saves


def gradient(weights, step, rank):
    """Of the squared distance to this rank's points of this step."""
    dice = random.Random(f"{step} {rank}")
    total = [0, 0, 0]
    for _ in range(POINTS):
        point = (dice.randrange(-ONE, ONE), dice.randrange(-ONE, ONE), ONE)
        wrong = sum((w - t) * x for w, t, x in zip(weights, TRUTH, point)) // ONE
        total = [sum_ + wrong * x // ONE for sum_, x in zip(total, point)]
    return total


def agree(job, saved):
    """(step, weights) of the newest that any rank has, on all ranks."""
    newest = job.round("newest", saved[0], reduce="max").value
    if newest < 0:
        return 0, [0, 0, 0]
    holders = job.round("holds", str(saved[0] == newest), reduce="gather").value
    text = json.dumps(saved[1]) if saved[0] == newest else ""
    return newest, json.loads(job.broadcast("state", text, root=holders.index(b"True")))


def struck(options, call, step):
    """A fault, once."""
    if call.rank == 1 and call.iteration == 0:
        if step == options.fail:
            raise RuntimeError("a worn cosmic ray")
        if step == options.kill:
            os.kill(os.getpid(), signal.SIGKILL)


saved = [-1, None]  # outlives an attempt; a new process has nothing


@muster.Wrapper(soft_timeout=30, hard_timeout=60)
def train(options, call: muster.Call):
    job = call.job
    for fault in call.faults:
        print(f"rank {call.rank} begins again: {fault}", flush=True)
    first, weights = agree(job, saved)
    for step in range(first, options.steps):
        call.step(step)  # raises muster.Restart when a peer has failed
        if step % EVERY == 0:
            saved[:] = step, list(weights)
        struck(options, call, step)
        total = job.round("gradients", gradient(weights, step, call.rank), reduce="sum").value
        weights = [w - g // (8 * POINTS * call.size) for w, g in zip(weights, total)]
    return weights


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--fail", type=int, default=-1, metavar="STEP")
    parser.add_argument("--kill", type=int, default=-1, metavar="STEP")
    print("weights", train(parser.parse_args()), flush=True)
