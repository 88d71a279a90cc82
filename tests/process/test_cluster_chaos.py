# SPDX-License-Identifier: Apache-2.0
"""A cluster of eight workers, of which one is killed every 200 ms and one stopped every 2 s, for a
minute: every result is right, and each was committed once. `MUSTER_CHAOS_MS` sets how long.

behaviour: cluster / Under attack
"""

import os
import random
import re

from conftest import BUILD, sanitized

CHAOS = BUILD / "tests" / "process" / "cluster_chaos"
MINUTE_MS = 60_000
SANITIZED_MS = 10_000  # processes start so slowly there that a kill meets few of them at work
LEASE = "2s"  # some are stopped for longer
KILLS_PER_MINUTE = 250
FREEZES_PER_MINUTE = 25
WITHIN_S = 240  # beyond its own time: until somebody was at work so often when it was time


def test_every_result_is_right_and_committed_once(spawn):
    """For a minute one of eight workers is killed every 200 ms and one is stopped every 2 s, for
    less than the lease or for longer, while thousands of closures of 0 to 5 ms are under way.
    Every result is right, each closure has one, and it does not change afterwards."""
    milliseconds = int(os.environ.get("MUSTER_CHAOS_MS", SANITIZED_MS if sanitized() else MINUTE_MS))
    seed = random.SystemRandom().randrange(1 << 32)
    kills = 1 if sanitized() else KILLS_PER_MINUTE * milliseconds // MINUTE_MS
    freezes = 1 if sanitized() else FREEZES_PER_MINUTE * milliseconds // MINUTE_MS
    run = spawn("run", "-n", 9, "--lease", LEASE, "--max-restarts", 100_000, "--no-label", "--",
                CHAOS, seed, milliseconds, kills, freezes)
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
    assert said["kills"] >= kills and said["freezes"] >= freezes, (seed, line)
