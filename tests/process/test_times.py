# SPDX-License-Identifier: Apache-2.0
"""Times that the documentation names, measured: nothing happens before its time, nor long after it.

The limits are short, and the marks are stamps of the kernel or of the service's log: what the test itself
is late by is not counted. A machine that does nothing else runs these (RUN_SERIAL).
"""

import datetime
import os
import signal
import time

from conftest import sanitized
from running import wait_gone
from test_hang import job as ranks_of  # noqa: F401
from test_preempt import job as preempted  # noqa: F401
from wire import Wire

LATE_S = 3 if sanitized() else 0.5  # for processes to be woken, to write and to be started
LEASE_S = 1
SOFT_S, HARD_S, GRACE_S = 0.8, 1.6, 0.7
AGREE_S = 0.8
SINCE_S = 0.05  # a rank says that it holds so long after its last ping


def ms(seconds):
    return round(seconds * 1000)


def within(took, limit, early=0):
    assert limit - early <= took <= limit + LATE_S, f"{took} s, and {limit} s are documented"


def stamp(line):
    """When the service wrote this line, by the wall clock."""
    return datetime.datetime.fromisoformat(line.split(" ")[0].replace("Z", "+00:00")).timestamp()


# ---- the lease ----


def test_a_silent_member_is_lost_when_its_lease_ends(serve):
    service = serve("--lease", f"{LEASE_S}s")
    rank = Wire(service.address)
    assert rank.open_rank(0, 2).status == 0
    asked = time.time()
    assert rank.renew().status == 0
    answered = time.time()
    lost = stamp(service.log.wait_for("member-lost #0", "cause=lease"))
    assert lost - asked >= LEASE_S
    assert lost - answered <= LEASE_S + LATE_S


def test_a_rank_without_a_service_stops_itself_after_four_fifths_of_the_lease(ranks_of):  # noqa: F811
    """Of the time since it sent the renewal that was answered last: it sends one each fifth."""
    lease = 2 * LEASE_S
    ranks = ranks_of.start(2, "--lease", f"{lease}s", soft=-1, hard=-1)
    children = f"/proc/{ranks_of.runner.pid}/task/{ranks_of.runner.pid}/children"
    (service,) = [int(pid) for pid in open(children, encoding="ascii").read().split()
                  if b"\0serve\0" in open(f"/proc/{pid}/cmdline", "rb").read()]
    mark = ranks_of.mark()
    stopped = time.monotonic()
    os.kill(service, signal.SIGSTOP)
    for left in ranks_of.wait("returns", 2, mark):
        within(left.at - stopped, 0.8 * lease, early=lease / 5)
    os.kill(service, signal.SIGCONT)
    ranks_of.all_well(ranks_of.all_again(2, mark))


# ---- hangs ----


def test_all_ranks_are_interrupted_after_soft_timeout(ranks_of):  # noqa: F811
    ranks = ranks_of.start(2, soft=ms(SOFT_S), hard=ms(SOFT_S + 10 * LATE_S))
    mark = ranks_of.hold(ranks[1], "read")
    held = ranks_of.events[mark - 1].at
    for left in ranks_of.wait("returns", 2, mark):
        within(left.at - held, SOFT_S, early=SINCE_S)
    ranks_of.all_well(ranks_of.all_again(2, mark))


def test_a_deaf_rank_is_asked_to_end_after_hard_timeout_and_killed_after_grace(ranks_of):  # noqa: F811
    ranks = ranks_of.start(2, soft=ms(SOFT_S), hard=ms(HARD_S), grace=ms(GRACE_S))
    ranks_of.order([ranks[1]], "term mock")
    ranks_of.wait("ready")
    gone = os.pidfd_open(ranks[1].pid)
    mark = ranks_of.hold(ranks[1], "deaf")
    held = ranks_of.events[mark - 1].at
    asked = ranks_of.wait("mocks", 1, mark)[0].at
    within(asked - held, HARD_S, early=SINCE_S)
    wait_gone(gone)
    within(time.monotonic() - asked, GRACE_S)
    ranks_of.all_well(ranks_of.all_again(2, mark))


def test_a_rank_that_heeds_no_end_of_the_run_is_killed_after_grace(ranks_of):  # noqa: F811
    ranks = ranks_of.start(1, "--preempt-sources", "none", grace=ms(GRACE_S))
    ranks_of.order(ranks, "term mock")
    ranks_of.wait("ready")
    gone = os.pidfd_open(ranks[0].pid)
    ranks_of.runner.signal(signal.SIGTERM)
    asked = ranks_of.wait("mocks")[0].at
    wait_gone(gone)
    within(time.monotonic() - asked, GRACE_S)


# ---- notices ----


def test_a_frozen_rank_is_left_out_of_the_step_after_the_agree_timeout(preempted):  # noqa: F811
    zero, one = preempted(2, MUSTER_PREEMPT_AGREE_TIMEOUT=f"{ms(AGREE_S)}ms")
    assert [zero.reached(0), one.reached(0)] == ["go", "go"]
    one.stop()
    began = time.monotonic()
    zero.signal(signal.SIGTERM)
    zero.agreed()
    within(time.monotonic() - began, AGREE_S)
    one.go_on()
    one.agreed()
    for rank in (zero, one):
        rank.end()
