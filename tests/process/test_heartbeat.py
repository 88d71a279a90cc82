# SPDX-License-Identifier: Apache-2.0
"""The collective heartbeat with real ranks: who dies of it, of what, and who does not.

Every rank is rank/heartbeat.c under the orders of a test; what the service sees of the beats is in
its log.

behaviour: heartbeat / Starting and stopping
"""

import re
import signal
import subprocess

import pytest

from conftest import BUILD, Process

RANK = BUILD / "tests" / "process" / "ranks" / "heartbeat"
PERIOD_MS = 300
# Long enough for a rank on a loaded machine to be in time, where being late is not what is tested.
PATIENCE_MS = 20000
# Where a test waits for periods to fail: who is late by less is not missed, nor refused its start.
LATE_MS = 4000
ABORTED = -signal.SIGABRT


class Rank(Process):
    def __init__(self, index, env):
        super().__init__([RANK], {**env, "MUSTER_INDEX": str(index)}, stdin=subprocess.PIPE)
        self.index = index

    def order(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()

    def said(self, *words):
        return self.out.having(*words)

    def wait(self):
        if not self.process.stdin.closed:
            self.process.stdin.close()
        return super().wait()


class Ranks(list):
    """Of one job at one service, of which all are in the generation."""

    def __init__(self, service, started, env, count, **settings):
        self.service, self.started = service, started
        values = {"MUSTER_HEARTBEAT_PERIOD": PERIOD_MS, "MUSTER_HEARTBEAT_TIMEOUT": PATIENCE_MS}
        values.update({f"MUSTER_{key.upper()}": value for key, value in settings.items()})
        self.env = {**env, **{key: str(value) for key, value in values.items()}}
        self.env.update(MUSTER_ADDR=service.address, MUSTER_JOB="beats", MUSTER_SIZE=str(count))
        super().__init__(self.rank(index) for index in range(count))
        for rank in self:
            rank.out.wait_for("opened ")

    def rank(self, index):
        rank = Rank(index, self.env)
        self.started.append(rank)
        return rank

    def order(self, what):
        for rank in self:
            rank.order(what)

    def start(self):
        self.order("start")
        for rank in self:
            rank.out.wait_for("started anew")
        return self

    def beats(self, status="ok"):
        """How many rounds of the heartbeat are over, but for the agreements."""
        closed = self.service.log.having("round-closed", "name=muster/heartbeat", f"status={status}")
        return len([line for line in closed if "number=0 " not in line])

    def beat(self, times, status="ok"):
        """Waits for so many more."""
        words = ("round-closed", "name=muster/heartbeat", f"status={status}")
        have = len(self.service.log.having(*words))
        self.service.log.wait_for(*words, count=have + times)

    def all_well(self):
        """All of them beat on, nothing was told of a failure, and they end well."""
        self.beat(2)
        for rank in self:
            assert rank.said("failure ") == []
        self.order("exit 0")
        assert [rank.wait() for rank in self] == [0] * len(self)


@pytest.fixture
def ranks(serve, started, env):
    """ranks(count, settings...) after a service of their own."""

    def start(count, *flags, lease="60s", **settings):
        service = serve("--log-level", "debug", "--lease", lease, *flags)
        return Ranks(service, started, env, count, **settings)

    return start


def crash_of(rank, *words):
    """The one line that a rank says before it aborts."""
    rank.out.wait_for("crash told: ")
    assert rank.wait() == ABORTED
    (line,) = rank.said("crash told: ")
    assert all(word in line for word in words), line
    (logged,) = rank.said("log: heartbeat: this process ends")
    assert line[len("crash told: ") :] == logged[len("log: ") :]
    return line


# ---- scenarios 141 to 146 ----


def test_beats_that_are_all_well(ranks):
    """All ranks start the heartbeat. A program that starts it again while it runs gets the same
    handle, and a warning. (141)"""
    job = ranks(3).start()
    job.beat(5)
    job[1].order("start")
    job[1].out.wait_for("started the same")
    job[1].out.wait_for("the heartbeat runs already")
    job.all_well()
    assert job.beats("timed-out") == 0


def test_another_token_ends_all_at_once(ranks):
    """A member shows another token. All others end at the next round, with one line that names
    the one that differs. (142) [Failures]"""
    job = ranks(3)
    for rank in job[:2]:
        rank.order("start")
    job[2].order("forge 0 0 70000")
    job[2].out.wait_for("showed -")
    for rank in job[:2]:
        crash_of(rank, "unexpected heartbeat signal", "differ", "rank ")
        assert rank.said("failure ") == []


def test_two_failures_and_a_recovery(ranks):
    """A rank is stopped for two periods and goes on. Each of the others warns twice and names it;
    then the count is 0 again, and the next two cost nothing either. The one that slept has
    missed as many and is in time for the next. (143) [Failures]"""
    job = ranks(3, heartbeat_timeout=LATE_MS).start()
    job.beat(1)
    for _ in range(2):  # the count began at 0 again
        job[2].signal(signal.SIGSTOP)
        seen = len(job[0].said("failure 2 in a row"))
        job[0].out.wait_for("failure 2 in a row", count=seen + 1)
        job[2].signal(signal.SIGCONT)
        job.beat(2)
    for rank in job[:2]:
        assert len(rank.said("1 of 3 arrived")) == 0
        assert len(rank.said("2 of 3 arrived", "missing rank 2")) == 4
        assert len(rank.said("failure 1 in a row, 3 end this process")) == 2
    job.order("exit 0")
    assert [rank.wait() for rank in job] == [0, 0, 0]


def test_three_failures_end_the_process(ranks):
    """Three periods in a row fail. The process ends at the third: one line that says why and
    which are missing, the callback, SIGABRT. (144) [Failures]"""
    job = ranks(3, heartbeat_timeout=LATE_MS).start()
    job.beat(1)
    job[1].signal(signal.SIGSTOP)
    for rank in (job[0], job[2]):
        crash_of(rank, "3 failures in a row, the last: 2 of 3 arrived", "missing rank 1 (#1, present")
        assert len(rank.said("failure ", " in a row, 3 end this process")) == 3
    job.service.log.wait_for("round-closed", "name=muster/heartbeat", "status=timed-out", count=3)
    assert job.beats("timed-out") == 3


def test_who_stops_is_not_missed(ranks):
    """A member stops its heartbeat, closes its client, or ends with status 0 or 75. Its peers
    count no failure: a stopped one still shows the token, and one that has left the job is not
    missed. (145)"""
    job = ranks(3).start()
    job[1].order("stop")
    job[1].out.wait_for("stopped")
    job.beat(2)
    job[2].order("exit 0")
    assert job[2].wait() == 0
    job.beat(2)
    job[1].order("close")
    job[1].out.wait_for("closed")
    job.beat(2)
    assert job[0].said("failure ") == []
    job[0].order("exit 75")
    assert job[0].wait() == 75


@pytest.mark.parametrize("terms", ["7 8", "70000 70000", "7 7"])
def test_an_agreement_on_no_token_ends_all(ranks, terms):
    """Two ranks contribute a token, one of no range comes out, or one of two that happen to
    differ. Each rank that judges ends at once. (146)"""
    job = ranks(2)
    job[1].order(f"forge {terms} 7")
    job[0].order("start")
    crash_of(job[0], "have not contributed one token of 1 to 65535")


# ---- the known defects of the reference ----


def test_a_first_failure_compares_nothing(ranks):
    """One period fails. That is a warning; the reference went on to compare its own vector, which
    it had not received, and died of the first failure. [Failures]"""
    job = ranks(2, heartbeat_timeout=LATE_MS).start()
    job.beat(1)
    job[1].signal(signal.SIGSTOP)
    job[0].out.wait_for("failure 1 in a row")
    job[1].signal(signal.SIGCONT)
    job.beat(2)
    assert job[0].said("unexpected") == job[0].said("crash") == []
    job.order("exit 0")
    assert [rank.wait() for rank in job] == [0, 0]


def test_the_end_is_one(ranks):
    """The heartbeat's end is an abort, also with a callback that does nothing; the reference's
    was a line in the log only. The callback comes first and sees the line. [Failures]"""
    job = ranks(2, heartbeat_timeout=LATE_MS, heartbeat_failures_max=1).start()
    job[1].signal(signal.SIGSTOP)
    crash_of(job[0], "1 failure: 1 of 2 arrived")


def test_the_count_is_of_one_heartbeat(ranks):
    """A heartbeat is stopped and started again. It counts from 0; the reference's count was that
    of the process. [Failures]"""
    job = ranks(2, heartbeat_timeout=LATE_MS).start()
    job[1].signal(signal.SIGSTOP)
    job[0].out.wait_for("failure 2 in a row")
    job[0].order("stop")
    job[0].out.wait_for("stopped")
    job[0].order("start")
    job[0].out.wait_for("started the same")
    job[1].signal(signal.SIGCONT)
    job.beat(2)
    job[1].signal(signal.SIGSTOP)
    job[0].out.wait_for("failure 1 in a row", count=2)
    job[1].signal(signal.SIGCONT)
    job.beat(1)
    job.order("exit 0")
    assert [rank.wait() for rank in job] == [0, 0]


# ---- the service ----


def test_a_service_that_is_killed_costs_no_failure(ranks, serve, tmp_path):
    """The service is killed and comes back. No failure is counted, whatever becomes of the
    periods meanwhile. [The service, and recovery]"""
    flags = ("--addr", f"unix:{tmp_path}/s", "--journal", tmp_path / "journal", "--lease", "60s",
             "--log-level", "debug")
    job = ranks(3, *flags).start()
    for _ in range(2):
        job.beat(2)
        job.service.kill()
        for rank in job:  # each knows that it is gone
            rank.out.wait_for("log: ")
        job.service = serve(*flags)
    job.all_well()


def test_a_lease_that_ends_is_the_end(ranks):
    """The service stays away for longer than the lease. From then on each period is a failure.
    [The service, and recovery]"""
    job = ranks(2, lease="5s", heartbeat_timeout=LATE_MS).start()
    job.beat(1)
    job.service.kill()
    for rank in job:
        crash_of(rank, "3 failures in a row", "the service cannot be reached, and the lease is over")


# ---- losses, restart, and who comes late ----


def test_a_killed_peer_is_named(ranks):
    """A peer is killed, and no run of a function is in progress. It is named, with the cause, and
    three periods later all have ended. [Failures]"""
    job = ranks(3, lease="5s").start()
    job.beat(1)
    job[1].kill()
    for rank in (job[0], job[2]):
        crash_of(rank, "3 failures in a row", "rank 1 (#1, silent for longer than the lease")


def test_a_job_that_restarts_lives(ranks):
    """A rank is killed while `muster_restart_run` is in progress. No rank ends, however long the
    lease, the callbacks and the seal take; in the new generation all agree on another token,
    and the count is 0. [The service, and recovery]"""
    job = ranks(3, lease="12s", heartbeat_timeout=3000, linger_ms=0)
    job.env["LINGER_MS"] = str(5 * PERIOD_MS)
    for rank in job:
        rank.order("exit 0")
        assert rank.wait() == 0
    job[:] = [job.rank(index) for index in range(3)]
    job.start()
    job.order("run")
    for rank in job:
        rank.out.wait_for("entered ")
    job.beat(2)
    job[1].kill()
    for rank in (job[0], job[2]):
        rank.out.wait_for("entered ", "size=2")
    job.beat(3)
    assert job.service.wire(job="beats").put("done", "yes").status == 0
    for rank in (job[0], job[2]):
        rank.out.wait_for("ran 0")
        assert rank.said("crash") == []
        rank.order("exit 0")
        assert rank.wait() == 0


def test_a_rank_that_freezes_in_a_run_is_recovered_from(ranks):
    """A rank freezes while a run is in progress, for longer than three periods. Its peers warn
    until its lease is over, and go on without it. [The service, and recovery]"""
    job = ranks(3, lease="15s", heartbeat_timeout=3000).start()
    job.order("run")
    for rank in job:
        rank.out.wait_for("entered ")
    job[1].signal(signal.SIGSTOP)
    job[0].out.wait_for("2 of 3 arrived", "not counted: muster_restart_run is in progress", count=4)
    for rank in (job[0], job[2]):
        rank.out.wait_for("entered ", "size=2")
    job.beat(2)
    for rank in (job[0], job[2]):
        assert rank.said("crash") == []


def test_a_start_waits_for_all_and_names_who_is_missing(ranks):
    """One rank does not start its heartbeat. The others' start ends with ETIMEDOUT and names it;
    when they call it again it goes on where it was, and the late one finds them there."""
    job = ranks(3, heartbeat_timeout=LATE_MS)
    job[0].order("start")
    job[1].order("start")
    line = job[0].out.wait_for("refused -4: start the heartbeat: 2 of 3 arrived; missing rank 2 (#2")
    assert "present" in line
    job[0].order("start")  # once more
    job[2].order("start")
    for rank in (job[0], job[2]):
        rank.out.wait_for("started ")
    job.beat(2)
    job.order("exit 0")
    assert [rank.wait() for rank in job] == [0, 0, 0]


def test_members_with_other_options_take_the_largest(ranks):
    """Members name different periods or timeouts. The largest that any of them names holds for
    all."""
    job = ranks(1)
    job[0].order("exit 0")
    assert job[0].wait() == 0
    job.env["MUSTER_SIZE"] = "2"
    job.env["MUSTER_JOB"] = "two"
    job[:] = [job.rank(0)]
    job.env["MUSTER_HEARTBEAT_TIMEOUT"] = "15000"
    job.append(job.rank(1))
    job.start()
    job.all_well()


def test_an_exit_that_is_a_failure_counts(ranks):
    """A member ends with another status than 0 or 75, without closing its client. It is lost, and
    its peers count."""
    job = ranks(2, lease="5s").start()
    job[1].order("exit 1")
    assert job[1].wait() == 1
    crash_of(job[0], "3 failures in a row", "rank 1 (#1, ")


def test_options_are_checked(ranks):
    """An option makes no sense. It is refused by its name."""
    job = ranks(1, heartbeat_period=5)
    job[0].order("start")
    line = job[0].out.wait_for("refused -1: ")
    assert re.search(r"MUSTER_HEARTBEAT_PERIOD|heartbeat_period", line)


def test_a_child_is_nobody(ranks):
    """A member forks, and the child ends. What the child does with exit() concerns only itself."""
    job = ranks(2).start()
    job[1].order("child")
    job[1].out.wait_for("child ended 0")
    job.all_well()
