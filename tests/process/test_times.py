# SPDX-License-Identifier: Apache-2.0
"""Times that the documentation names, measured: nothing happens before its time, nor long after it.

The limits are short, and the marks are stamps of the kernel or of the service's log: what the test itself
is late by is not counted, nor how late the machine is with another process meanwhile. No other test runs
beside these (RUN_SERIAL).

behaviour: restart / Hangs
"""

import datetime
import os
import re
import signal
import socket
import statistics
import time

import pytest

from conftest import WAIT_S, Service, sanitized
from running import RANK, Run, wait_gone
from test_hang import job as ranks_of  # noqa: F401
from test_journal import RECORDS, journal, puts  # noqa: F401
from test_preempt import job as preempted  # noqa: F401
from test_products import waited
from wire import Wire

LATE_S = 3 if sanitized() else 1  # for processes to be woken, to write and to be started
LEASE_S = 1
SOFT_S, HARD_S, GRACE_S = 0.8, 1.6, 0.7
AGREE_S = 0.8
COMPLETION_S = 1
HEAD_S = 10  # of an HTTP request, which is no setting
DAWDLE_S = 0.2
UPTIME_S = 0.01  # what /proc/uptime is exact to
BACK_MS = 1000  # from the death of a service to the first answer of the next one


def ms(seconds):
    return round(seconds * 1000)


@pytest.fixture
def within(lateness):
    """within(after, before, limit): not sooner than the limit after what comes before the cause, and not
    later than it after what comes behind the cause, but for what the machine is late by."""

    def check(after, before, limit):
        late = LATE_S + lateness.spare_s()
        assert after >= limit, f"{after} s, and {limit} s are documented"
        assert before <= limit + late, f"{before} s, and {limit} s are documented; {late} s are given"

    return check


def stamp(line):
    """When the service wrote this line, by the wall clock."""
    return datetime.datetime.fromisoformat(line.split(" ")[0].replace("Z", "+00:00")).timestamp()


# ---- the lease ----


def test_a_silent_member_is_lost_when_its_lease_ends(serve, within):
    """A member is silent for its whole lease. It is lost when the lease ends, not sooner.
    [sessions / Silence and coming back]"""
    service = serve("--lease", f"{LEASE_S}s")
    rank = Wire(service.address)
    assert rank.open_rank(0, 2).status == 0
    asked = time.time()
    assert rank.renew().status == 0
    answered = time.time()
    lost = stamp(service.log.wait_for("member-lost #0", "cause=lease"))
    within(lost - asked, lost - answered, LEASE_S)


def test_a_rank_without_a_service_stops_itself_after_four_fifths_of_the_lease(ranks_of, lateness, within):  # noqa: F811
    """No renewal was answered for 0.8 leases since the last answered one was sent. The rank stops
    itself; it goes on when a renewal is answered again. To be reconnected is not enough.
    [sessions / The client's side]"""
    lease = 2 * LEASE_S
    ranks = ranks_of.start(2, "--lease", f"{lease}s", soft=-1, hard=-1)
    children = f"/proc/{ranks_of.runner.pid}/task/{ranks_of.runner.pid}/children"
    (service,) = [int(pid) for pid in open(children, encoding="ascii").read().split()
                  if b"\0serve\0" in open(f"/proc/{pid}/cmdline", "rb").read()]
    mark = ranks_of.mark()
    stopped = time.monotonic()
    os.kill(service, signal.SIGSTOP)
    for left in ranks_of.wait("returns", 2, mark):
        took = left.at - stopped
        within(took + lease / 5 + lateness.spare_s(), took, 0.8 * lease)  # it renews in each fifth
    os.kill(service, signal.SIGCONT)
    ranks_of.all_well(ranks_of.all_again(2, mark))


# ---- hangs ----


def held(ranks, rank, how):
    """(mark, before its last ping, after it) of a rank that holds in this way."""
    before = time.monotonic()
    ranks.pings(rank, 1)
    mark = ranks.hold(rank, how)
    return mark, before, ranks.events[mark - 1].at


def test_all_ranks_are_interrupted_after_soft_timeout(ranks_of, within):  # noqa: F811
    """A rank that pinged in this attempt does not ping for `soft`: it is blocked in a call. One
    line names it, how far it and the others are, and where it is blocked. All are interrupted
    and go on in their processes."""
    ranks = ranks_of.start(2, soft=ms(SOFT_S), hard=ms(SOFT_S + 10 * LATE_S))
    mark, before, after = held(ranks_of, ranks[1], "read")
    for left in ranks_of.wait("returns", 2, mark):
        within(left.at - before, left.at - after, SOFT_S)
    ranks_of.all_well(ranks_of.all_again(2, mark))


def test_a_deaf_rank_is_asked_to_end_after_hard_timeout_and_killed_after_grace(ranks_of, within):  # noqa: F811
    """A rank ignores that it is interrupted. It gets SIGTERM after the hard timeout and SIGKILL
    after the grace time."""
    ranks = ranks_of.start(2, soft=ms(SOFT_S), hard=ms(HARD_S), grace=ms(GRACE_S))
    ranks_of.order([ranks[1]], "term mock")
    ranks_of.wait("ready")
    gone = os.pidfd_open(ranks[1].pid)
    mark, before, after = held(ranks_of, ranks[1], "deaf")
    asked = ranks_of.wait("mocks", 1, mark)[0].at
    within(asked - before, asked - after, HARD_S)
    wait_gone(gone)
    killed = time.monotonic()
    within(killed - before - HARD_S, killed - asked, GRACE_S)
    ranks_of.all_well(ranks_of.all_again(2, mark))


def test_a_rank_that_heeds_no_end_of_the_run_is_killed_after_grace(ranks_of, within):  # noqa: F811
    """`muster run` gets SIGTERM, SIGINT, SIGHUP or SIGQUIT. The ranks get it and have the grace
    time; if they end well, so does the run. [run / Signals and the end]"""
    ranks = ranks_of.start(1, "--preempt-sources", "none", grace=ms(GRACE_S))
    ranks_of.order(ranks, "term mock")
    ranks_of.wait("ready")
    gone = os.pidfd_open(ranks[0].pid)
    began = time.monotonic()
    ranks_of.runner.signal(signal.SIGTERM)
    asked = ranks_of.wait("mocks")[0].at
    wait_gone(gone)
    killed = time.monotonic()
    within(killed - began, killed - asked, GRACE_S)


def test_all_begin_again_after_the_completion_timeout_57(ranks_of, within):  # noqa: F811
    """One rank is done and another never ends. All restart after the completion timeout, counted
    from the first that is done. [restart]"""
    ranks = ranks_of.start(2, soft=-1, hard=-1, MUSTER_COMPLETION_TIMEOUT=f"{ms(COMPLETION_S)}ms")
    mark = ranks_of.mark()
    ordered = time.monotonic()
    ranks_of.order(ranks[:1], "ok")
    done = ranks_of.wait("returns", 1, mark)[0].at
    again = ranks_of.all_again(2, mark)
    for rank in again:
        within(rank.at - ordered, rank.at - done, COMPLETION_S)
    ranks_of.all_well(again)


# ---- restarts ----


def test_a_rank_that_ends_before_it_gets_in_is_started_again_after_1_s_and_then_2_s(
        spawn, muster, tmp_path, within):
    """A rank ends again before it joins. It is started again after 1 s, 2 s and so on up to a
    minute, so that the others can work; place_test.c has the growth.
    [run / Deaths and respawn]"""
    flag = tmp_path / "crash"
    program = '[ -e "$1" ] && [ "$MUSTER_INDEX" = 1 ] && ' \
              '{ read up idle </proc/uptime; echo began $up; exit 4; }; exec "$0"'
    job = Run(spawn, muster, 2, "--no-label", "--max-restarts", 3,
              rank=("sh", "-c", program, RANK, flag))
    ranks = job.entered()
    flag.touch()
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    assert job.run.wait() == 128 + signal.SIGKILL
    first, second, third = [float(line.split()[1]) for line in job.out.having("began ")]
    within(second - first + UPTIME_S, second - first, 1)
    within(third - second + UPTIME_S, third - second, 2)


# ---- HTTP ----


def test_a_request_whose_head_does_not_end_is_hung_up_on_after_10_s(serve, within):
    """The head of a request does not end, even if a byte of it comes now and then. Its connection
    is closed after ten seconds. [http / Requests]"""
    service = serve("--http", "127.0.0.1:0")
    line = service.out.wait_for("muster: health and metrics on ")
    host, _, port = line.rpartition("/")[2].partition(":")
    with socket.socket() as sock:
        began = time.monotonic()
        sock.connect((host, int(port)))
        connected = time.monotonic()
        sock.sendall(b"GET /livez HTTP/1.1\r\nX: ")
        sock.settimeout(DAWDLE_S)
        closed = False
        while not closed:
            try:
                sock.sendall(b"x")
                closed = sock.recv(1) == b""
            except TimeoutError:
                assert time.monotonic() - began < HEAD_S + WAIT_S
            except (BrokenPipeError, ConnectionResetError):
                closed = True
    ended = time.monotonic()
    within(ended - began, ended - connected, HEAD_S)


# ---- notices ----


def test_a_frozen_rank_is_left_out_of_the_step_after_the_agree_timeout(preempted, within):  # noqa: F811
    """A rank is frozen while a step is agreed. It is left out after the agree timeout.
    [preemption / Frozen, late, lost or wrong ranks]"""
    zero, one = preempted(2, MUSTER_PREEMPT_AGREE_TIMEOUT=f"{ms(AGREE_S)}ms")
    assert [zero.reached(0), one.reached(0)] == ["go", "go"]
    one.stop()
    began = time.monotonic()
    zero.signal(signal.SIGTERM)
    zero.agreed()
    took = time.monotonic() - began
    within(took, took, AGREE_S)
    one.go_on()
    one.agreed()
    for rank in (zero, one):
        rank.end()


# ---- the next service ----


@pytest.mark.skipif(sanitized(), reason="a sanitizer makes the replay slow")
def test_the_time_back_with_many_records(env, journal, started, record_property):  # noqa: F811
    """The service is killed with 200,000 records in its journal. The next one replays them and
    answers within a second. [service / Its journal]"""
    where = f"unix:{env['MUSTER_RUNTIME_DIR']}/s.sock"
    flags = ["--journal", journal, "--addr", where, "--lease", "10m"]  # this wire does not renew
    service = Service(flags, env)
    wire = service.wire()
    for first in range(1, RECORDS - 2000, 50):
        wire.send(puts(50, first))
        for _ in range(50):
            wire.receive()
    took = []
    for _ in range(5):
        waits = waited(os.getpid())
        begun = time.monotonic()
        service.kill()
        service = Service(flags, env)
        assert Wire(where).open().status == 0
        waits = waited(os.getpid()) - waits + waited(service.pid)  # for a processor that others use
        took.append((time.monotonic() - begun - waits) * 1000)
        assert int(re.search(r"records=(\d+)", service.log.wait_for("journal-recovered"))[1]) >= (
            RECORDS - 3000)
    started.append(service)
    record_property("back_ms", statistics.median(took))
    print(f"back after {statistics.median(took):.0f} ms ({min(took):.0f} to {max(took):.0f})")
    assert statistics.median(took) <= BACK_MS
