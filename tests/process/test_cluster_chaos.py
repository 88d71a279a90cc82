# SPDX-License-Identifier: Apache-2.0
"""A cluster of eight workers, of which one is killed every 200 ms and one stopped every 2 s, for a
minute: every result is right, and each was committed once. `MUSTER_CHAOS_MS` sets how long."""

import os
import random
import re

from conftest import BUILD, sanitized

CHAOS = BUILD / "tests" / "process" / "cluster_chaos"
MINUTE_MS = 60_000
SANITIZED_MS = 10_000  # processes start so slowly there that a kill meets few of them at work
LEASE = "2s"  # some are stopped for longer
# Of 300 and 30: when it is time a busy machine has not always somebody at work.
KILLS_PER_MINUTE = 100
FREEZES_PER_MINUTE = 10
WITHIN_S = 60  # beyond its own time: the start, and the last closures


def test_every_result_is_right_and_committed_once(spawn):
    milliseconds = int(os.environ.get("MUSTER_CHAOS_MS", SANITIZED_MS if sanitized() else MINUTE_MS))
    seed = random.SystemRandom().randrange(1 << 32)
    run = spawn("run", "-n", 9, "--lease", LEASE, "--max-restarts", 100_000, "--no-label", "--",
                CHAOS, seed, milliseconds)
    with run.out.changed:
        run.out.changed.wait_for(lambda: run.out.lines or run.out.ended,
                                 milliseconds / 1000 + WITHIN_S)
        assert run.out.lines, f"seed {seed}:\n" + "\n".join(run.log.lines[-50:])
        line = run.out.lines[0]
    said = {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", line)}
    assert said["wrong"] == said["failures"] == said["cancelled"] == 0, (seed, line)
    assert said["closures"] == said["admitted"] == said["values"], (seed, line)
    assert said["queued"] == said["running"] == 0, (seed, line)
    assert said["put_back"] > 0, (seed, line)
    if not sanitized():
        assert said["kills"] >= KILLS_PER_MINUTE * milliseconds // MINUTE_MS, (seed, line)
        assert said["freezes"] >= FREEZES_PER_MINUTE * milliseconds // MINUTE_MS, (seed, line)
    assert said["kills"] > 0 and said["freezes"] > 0, (seed, line)
