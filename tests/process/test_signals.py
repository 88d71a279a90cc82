# SPDX-License-Identifier: Apache-2.0
"""Which signals are notices: whatever an agent ends a rank by is none, whichever of them the rank takes
for one, and it ends the rank at once. The grace is so long that a rank that swallows it never ends.
tests/unit/signals_test.c has each signal and each handler.

behaviour: preemption / The sources of a process
"""

import os
import shutil
import signal
import tempfile

import pytest

from conftest import BUILD
from running import wait_gone
from test_agent import Hand
from test_hang import Hangs, named

RANK = BUILD / "tests" / "process" / "ranks" / "hang"
NEVER = "10m"
SENT = "TERM,INT,HUP,QUIT,USR1,USR2,CONT"  # by an agent, but for SIGKILL
# What each rank takes for a notice: the default, all, and nothing.
OWN = 'case $MUSTER_INDEX in 1) HANG_PREEMPT=;; *) HANG_PREEMPT=%s;; esac; export HANG_PREEMPT; ' \
      'exec "$0" "$@"' % SENT
ROOM = {"MUSTER_BARRIER_TIMEOUT": "20m"}  # for that grace
HANGS = {"MUSTER_SOFT_TIMEOUT": "1s", "MUSTER_HARD_TIMEOUT": "2s", "MUSTER_GRACE": NEVER, **ROOM}


@pytest.fixture
def folder():
    made = tempfile.mkdtemp(prefix="mst-", dir="/tmp")
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def job(spawn, env, started, folder):
    made = Hangs(spawn, env, folder, started)
    yield made
    made.socket.close()


@pytest.fixture
def hand(serve, env, started, folder):
    made = Hand(serve, env, started, folder)
    made.program = RANK
    yield made
    made.socket.close()


def no_notice(job, muster):
    """Nobody gave one, and nobody saved for one."""
    done = muster("key", "ls", "muster/preempt/")
    assert (done.returncode, done.stdout) == (0, ""), done
    job.drain()
    assert [event for event in job.events if event.what == "saves"] == []


def test_who_hangs_in_a_run_is_ended_and_no_notice(job, muster):
    """`muster run` ends a rank that hangs, one that ignores signals or one that is stopped, which
    gets SIGCONT as well. That is no notice."""
    ranks = job.start(3, grace=600000, of=("sh", "-c", OWN, RANK), **ROOM)
    mark = job.hold(ranks[1], "deaf")
    os.kill(ranks[2].pid, signal.SIGSTOP)
    for rank in ranks[1:]:
        job.told(named(rank), "and was ended; starting it again")
    again = job.all_again(3, mark)
    assert {rank.pid for rank in again} & {rank.pid for rank in ranks} == {ranks[0].pid}
    no_notice(job, muster)
    job.all_well(again)


def test_who_hangs_is_ended_by_its_helper_and_gives_no_notice(hand, muster):
    """The helper of a rank ends it because it hangs. That is no notice."""
    of = {1: {"HANG_PREEMPT": ""}, 2: {"HANG_PREEMPT": SENT}}
    ranks = hand.start(3, HANG_PREEMPT="", of=of, **HANGS)
    hand.all_helped(3)
    mark = hand.mark()
    gone = [os.pidfd_open(rank.pid) for rank in ranks[1:]]
    for rank in ranks[1:]:
        os.kill(rank.pid, signal.SIGSTOP)
    again = hand.entered(1, mark, size=1)
    wait_gone(*gone)
    for index in (1, 2):
        hand.service.log.wait_for(f"member-lost #{index}", "cause=hard-timeout", "code=15")
    no_notice(hand, muster)
    hand.socket.sendto(b"ok", f"{hand.path}.{again[0].pid}")
    assert hand.ranks[0].wait() == 0


def test_all_that_are_started_anew_give_no_notice(job, muster):
    """All ranks are ended to be started anew. That is no notice."""
    ranks = job.start(3, "--grace", NEVER, HANG_PREEMPT=SENT, MUSTER_ITERATIONS_MAX="1")
    job.order(ranks[1:2], "linger")
    job.wait("ready", 1)
    mark = job.mark()
    job.order(ranks[:1], "fail 1 as ordered")
    job.told("in-process restart gave up", "restarting all 3 ranks")
    again = job.all_again(3, mark)
    assert not {rank.pid for rank in again} & {rank.pid for rank in ranks}
    no_notice(job, muster)
    job.all_well(again)


def test_who_is_ended_as_another_one_failed_gives_no_notice(job):
    """A rank is ended because another one has failed. That is no notice."""
    ranks = job.start(3, "--grace", NEVER, "--max-restarts", "0", HANG_PREEMPT=SENT)
    os.kill(ranks[0].pid, signal.SIGKILL)
    job.ended(128 + signal.SIGKILL)
    assert [event for event in job.events if event.what == "saves"] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_who_is_ended_by_a_signal_to_the_run_gives_no_notice(job, number):
    """A rank is ended by a signal to the run, to which no signal is a notice. That is no notice."""
    job.start(2, "--grace", NEVER, "--preempt-sources", "none", HANG_PREEMPT=SENT)
    job.runner.signal(number)
    job.ended(128 + number)
    assert [event for event in job.events if event.what == "saves"] == []


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_what_a_run_passes_on_is_what_its_ranks_take_it_for(job, number):
    """`muster run` passes on SIGUSR1 or SIGUSR2, which the rank takes for a notice. It is one:
    the program has chosen so, and the run has not ended the rank."""
    job.start(2, HANG_PREEMPT=signal.Signals(number).name)
    job.runner.signal(number)
    job.wait("saves", 2)
    job.ended(75)
