# SPDX-License-Identifier: Apache-2.0
"""`muster barrier`: processes that are members of nothing wait for each other.

behaviour: program / muster barrier
"""

import json
import signal


def come(spawn, name, number, *args):
    return spawn("barrier", name, "-n", number, *args)


def test_all_come(either_service, spawn):
    """As many come to `muster barrier` as were named. All go on, silently, again and again under
    one name."""
    others = [come(spawn, "loaded", 4) for _ in range(4)]
    assert [one.wait() for one in others] == [0, 0, 0, 0]
    assert all(one.out.lines == [] and one.log.lines == [] for one in others)


def test_alone(service, muster):
    """As many come to `muster barrier` as were named. All go on, silently, again and again under
    one name."""
    done = muster("barrier", "me", "-n", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"barrier": "me", "rank": 0, "size": 1}


def test_again_and_again(either_service, spawn):
    """As many come to `muster barrier` as were named. All go on, silently, again and again under
    one name."""
    for _ in range(3):
        others = [come(spawn, "step", 2) for _ in range(2)]
        assert [one.wait() for one in others] == [0, 0]


def test_who_is_missing_is_told_at_the_deadline(either_service, spawn):
    """Not all come to `muster barrier` in time. It ends with 124 and one line that says which are
    missing."""
    patient = come(spawn, "late", 3, "--timeout", "60s")
    either_service.log.wait_for("barrier/late", "member-ready #0")
    hasty = come(spawn, "late", 3, "--timeout", "6s")
    assert hasty.wait() == 124
    (line,) = hasty.log.lines
    assert "barrier/late" in line
    assert "2 of 3 ranks are ready; missing #2 (never started)" in line
    patient.kill()


def test_names_are_apart(service, muster, spawn):
    """Two barriers have different names. They are independent."""
    waiting = come(spawn, "a", 2)
    assert muster("barrier", "b", "-n", "2", "--timeout", "4s").returncode == 124
    assert muster("barrier", "a", "-n", "2").returncode == 0
    assert waiting.wait() == 0


def test_who_names_another_number_is_refused_alone(either_service, muster, spawn):
    """A caller of `muster barrier` names another number than the first. It alone is refused."""
    waiting = come(spawn, "a", 2)
    either_service.log.wait_for("barrier/a", "#0")
    done = muster("barrier", "a", "-n", "3", "--timeout", "60s")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert muster("barrier", "a", "-n", "2").returncode == 0
    assert waiting.wait() == 0


def test_a_killed_one_does_not_count(serve, muster, spawn):
    """A waiting `muster barrier` is killed. It no longer counts."""
    service = serve("--lease", "5s")
    killed = come(spawn, "a", 2)
    service.log.wait_for("barrier/a", "#0")
    killed.signal(signal.SIGKILL)
    killed.wait()
    assert muster("barrier", "a", "-n", "2", "--timeout", "10s").returncode == 124
    others = [come(spawn, "a", 2) for _ in range(2)]
    assert [one.wait() for one in others] == [0, 0]


def test_a_rank_may_call_it(service, muster, spawn, env):
    """A rank of a job calls `muster barrier`. What the launcher told the rank is not taken for
    the command's own place."""
    # What the launcher tells its ranks is not the command's place.
    env.update(MUSTER_INDEX="7", MUSTER_SIZE="8", MUSTER_MIN_SIZE="8", MUSTER_PAGE_FD="9",
               MUSTER_JOB="train", MUSTER_ADDR=service.address)
    waiting = come(spawn, "a", 2)
    assert muster("barrier", "a", "-n", "2").returncode == 0
    assert waiting.wait() == 0
