# SPDX-License-Identifier: Apache-2.0
"""Ranks that no agent has started: the library starts `muster agent` for each of them. The lease is
ten minutes wherever it does not say otherwise: who is lost was told of, and did not fall silent.

behaviour: agent / Deaths
"""

import contextlib
import os
import pathlib
import select
import shutil
import signal
import socket
import tempfile

import pytest

from conftest import BUILD, MUSTER, Process, sanitized
from discovering import marked
from proxy import Proxy, Refusal
from restarting import Job
from running import until, wait_gone
from test_discover import LAUNCHERS, MPI, installed
from test_faults import held_at_its_exit
from test_hang import HARD_MS, HARD_SAID, SOFT_MS, SOFT_SAID
from test_serve import resident

RANK = BUILD / "tests" / "process" / "ranks" / "restart"
MIB = 8 if sanitized() else 256
LONG = "10m"
ENOMEM, MEMBERS = -2, 2


class Hand(Job):
    """Ranks started by hand, with a service of the test's; `mark` and orders as in a run's job."""

    program = RANK

    def __init__(self, serve, env, started, folder):
        super().__init__(None, env, folder)
        self.serve, self.started = serve, started
        self.service, self.ranks = None, {}

    def start(self, count, *flags, lease=LONG, of=None, **environment):
        """`of`: {index: what that rank's environment has besides}."""
        self.runner = self.service = self.serve("--lease", lease, *flags)
        common = {
            "MUSTER_ADDR": self.service.address,
            "MUSTER_SIZE": str(count),
            "MUSTER_MIN_SIZE": "1",
            **environment,
        }
        for index in range(count):
            self.add(index, {**common, **(of or {}).get(index, {})})
        return self.entered(count)

    def add(self, index, environment):
        process = Process([self.program, self.path],
                          {**self.env, **environment, "MUSTER_INDEX": str(index)})
        self.started.append(process)
        self.ranks[index] = process
        return process

    def helpers(self):
        """{index of a rank: the pid of its helper}, of those that have told the library who they
        are: the process that is started first has ended then."""
        found = {}
        for pid in marked(self.env["MUSTER_RUNTIME_DIR"]):
            words = command(pid)
            if len(words) > 1 and words[1] == "agent" and parent(pid) not in ours(self.ranks):
                found.setdefault(int(words[words.index("--index") + 1]), pid)
        return found

    def all_helped(self, count):
        """Waits until each rank has a helper with a session: all that it needs to tell of a death."""
        self.service.log.wait_for("member-present agent", count=count)
        return until(lambda: len(self.helpers()) == count and self.helpers())

    def end(self, ranks, mark=0):
        self.order(ranks, "ok")
        self.finish(len(ranks), mark)
        for event in ranks:
            process = next(one for one in self.ranks.values() if one.pid == event.pid)
            assert process.wait() == 0, process.log.lines


def command(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def mpi_environment(env):
    """What test_discover's ranks have: a runtime directory, and the leave to be root."""
    kept = {"MUSTER_RUNTIME_DIR": env["MUSTER_RUNTIME_DIR"]}
    if os.geteuid() == 0:
        kept["OMPI_ALLOW_RUN_AS_ROOT"] = kept["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    return kept


def parent(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def ours(ranks):
    return {process.pid for process in ranks.values()}


@pytest.fixture
def hand(serve, env, started):
    folder = tempfile.mkdtemp(prefix="mst-", dir="/tmp")
    made = Hand(serve, env, started, folder)
    yield made
    made.socket.close()
    shutil.rmtree(folder, ignore_errors=True)


def kill(*pids):
    """All at once, and each is gone afterwards."""
    fds = [os.pidfd_open(pid) for pid in pids]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return fds


def test_a_killed_rank_is_told_by_its_helper(hand):
    """A rank is killed. Its helper reports it at once; the others leave the function and go on
    without it. The cause is "gone, status unknown", as the helper is not the parent."""
    ranks = hand.start(3)
    hand.all_helped(3)
    mark = hand.mark()
    gone = kill(ranks[1].pid)
    again = hand.entered(2, mark, generation=2, size=2)
    assert {event.pid for event in again} == {ranks[0].pid, ranks[2].pid}
    wait_gone(*gone)
    hand.service.log.wait_for("member-lost #1", "cause=gone")
    hand.end(again, mark)


def test_status_counts_helpers(hand, muster):
    """`muster status` counts the helpers in one line; the nodes of a run keep their numbers."""
    ranks = hand.start(2)
    hand.all_helped(2)
    told = muster("status").stdout
    assert "\n  2 helpers of single ranks\n" in told and " agent #" not in told
    hand.end(ranks)


def test_a_large_rank_is_told_before_its_memory_is_freed(hand):
    """A rank with much memory is killed, and a tracer holds it at its exit, with that memory. The
    others are notified and go on all the same: none waits for the kernel to free it."""
    ranks = hand.start(4, RESTART_RANK_MIB=str(MIB))
    for generation in (2, 3, 4):
        hand.all_helped(len(ranks))
        mark, victim = hand.mark(), ranks[-1].pid
        detach = held_at_its_exit(victim)
        ranks = hand.entered(len(ranks) - 1, mark, generation=generation)
        assert sanitized() or resident(victim) > MIB << 20
        detach()
        wait_gone(os.pidfd_open(victim))
    hand.end(ranks, mark)


def test_monitor_killed_is_replaced_nobody_restarted_39(hand):
    """The helper of a rank is killed and the rank is well. No rank restarts; the library starts
    another helper, at once and from the fourth time in a row with growing delays, on the same
    page. That one reports a death as the first would have. [The helper's own end] [restart]"""
    ranks = hand.start(2)
    before = hand.all_helped(2)
    for _ in range(3):
        helpers = hand.helpers()
        wait_gone(*kill(helpers[1]))
        until(lambda: hand.helpers().get(1, helpers[1]) != helpers[1])
    assert hand.helpers()[0] == before[0]
    assert len([e for e in hand.events if e.what == "entered"]) == 2
    mark = hand.mark()
    kill(ranks[1].pid)
    again = hand.entered(1, mark, generation=2, size=1)
    assert again[0].pid == ranks[0].pid
    hand.end(again, mark)


def test_helper_that_stood_still_for_two_leases_blames_nobody_62(hand, pass_time):
    """A helper stands still for two leases and goes on. Its session was lost and it opens another
    one; no rank is restarted. [The helper's own end] [restart]"""
    ranks = hand.start(2, lease="4s")
    helper = hand.all_helped(2)[0]
    os.kill(helper, signal.SIGSTOP)
    hand.service.log.wait_for("member-lost agent", "cause=lease")
    pass_time(4000)
    os.kill(helper, signal.SIGCONT)
    hand.service.log.wait_for("member-present agent", count=3)
    assert hand.helpers()[0] == helper
    assert not hand.service.log.having("member-lost #")
    assert len([e for e in hand.events if e.what == "entered"]) == 2
    mark = hand.mark()
    kill(ranks[0].pid)  # and it still tells
    again = hand.entered(1, mark, generation=2)
    hand.end(again, mark)


def test_ranks_and_their_helpers_killed_together_are_given_up_after_the_lease_37_38(hand):
    """Ranks and their helpers are killed together, as with a lost host. They are lost when their
    lease ends, no other rank is, and the others go on. [Deaths] [restart]"""
    ranks = hand.start(4, lease="4s")
    helpers = hand.all_helped(4)
    mark = hand.mark()
    for rank in ranks[2:]:  # so that no helper is faster than its own end, or replaced
        os.kill(rank.pid, signal.SIGSTOP)
    wait_gone(*kill(helpers[2], helpers[3]))
    kill(ranks[2].pid, ranks[3].pid)
    again = hand.entered(2, mark, size=2)
    assert {event.pid for event in again} == {ranks[0].pid, ranks[1].pid}
    for index in (2, 3):
        hand.service.log.wait_for(f"member-lost #{index}", "cause=lease")
    assert not hand.service.log.having("member-lost #0") + hand.service.log.having("member-lost #1")
    hand.end(again, mark)


def test_rank_that_was_given_up_is_killed_by_its_helper(hand):
    """A rank is silent for a lease and lost. Its helper kills it and says so in one line on the
    rank's stderr."""
    ranks = hand.start(2, lease="4s")
    hand.all_helped(2)
    mark = hand.mark()
    gone = os.pidfd_open(ranks[1].pid)
    os.kill(ranks[1].pid, signal.SIGSTOP)
    again = hand.entered(1, mark, generation=2)
    wait_gone(gone)
    hand.ranks[1].log.wait_for(
        f"muster agent (#1): process {ranks[1].pid} was given up, as it was silent")
    hand.end(again, mark)


def test_helper_whose_watch_is_refused_for_want_of_memory_asks_again(hand):
    """The service refuses the watch of a helper for want of memory. The helper asks again a
    second later: else it would never hear that its rank was lost, and would not kill it."""
    hand.runner = hand.service = hand.serve("--addr", "127.0.0.1:0", "--lease", "4s")
    refusals = []

    def ways(_):
        refusals.append(Refusal(MEMBERS, ENOMEM))
        return refusals[-1].ways

    proxy = Proxy(hand.service.address, ways)
    common = {"MUSTER_SIZE": "2", "MUSTER_MIN_SIZE": "1"}
    hand.add(0, {**common, "MUSTER_ADDR": hand.service.address})
    hand.add(1, {**common, "MUSTER_ADDR": proxy.client_address})
    ranks = hand.entered(2)
    hand.all_helped(2)
    until(lambda: any(one.refused for one in refusals))
    mark = hand.mark()
    gone = os.pidfd_open(ranks[1].pid)
    os.kill(ranks[1].pid, signal.SIGSTOP)
    again = hand.entered(1, mark, generation=2)
    wait_gone(gone)
    hand.end(again, mark)
    proxy.end()


def test_signals_to_a_whole_step_do_not_end_the_helper(hand):
    """A scheduler, as Slurm does, sends a signal to all processes of a step. The helper ignores
    it: it ends with its rank. [The helper's own end]"""
    ranks = hand.start(2)
    helper = hand.all_helped(2)[1]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
        os.kill(helper, number)
    mark = hand.mark()
    kill(ranks[1].pid)
    again = hand.entered(1, mark, generation=2)
    hand.end(again, mark)


HANG = {"MUSTER_SOFT_TIMEOUT": f"{SOFT_MS}ms", "MUSTER_HARD_TIMEOUT": f"{HARD_MS}ms", "MUSTER_GRACE": "30s"}


def test_stopped_rank_is_found_and_ended_by_its_helper_28(hand):
    """A rank is stopped. After the soft limit all are interrupted, after the hard one it is
    continued and killed; the others go on, and the cause is `hard-timeout` with the signal.
    [Hangs] [restart]"""
    ranks = hand.start(3, **HANG)
    mark = hand.mark()
    gone = os.pidfd_open(ranks[1].pid)
    os.kill(ranks[1].pid, signal.SIGSTOP)
    said = hand.ranks[1].log
    said.wait_for(f"muster agent (#1): process {ranks[1].pid} made no", SOFT_SAID,
                  "stopped by a signal; all ranks are interrupted")
    hand.wait("told", 2, mark)
    again = hand.entered(2, mark, size=2)
    assert {event.pid for event in again} == {ranks[0].pid, ranks[2].pid}
    wait_gone(gone)
    said.wait_for(f"process {ranks[1].pid} made no", HARD_SAID, ": it is ended")
    hand.service.log.wait_for("member-lost #1", "cause=hard-timeout", "code=15")
    hand.end(again, mark)


def test_rank_that_hangs_and_can_be_freed_goes_on_48(hand):
    """A rank hangs in a call that a signal frees. It is interrupted with the others and goes on
    in its process. [Hangs] [restart]"""
    ranks = hand.start(2, **{**HANG, "MUSTER_HARD_TIMEOUT": "30s"})
    mark = hand.mark()
    hand.order(ranks[1:], "block read")
    again = hand.entered(2, mark, generation=2)
    assert {event.pid for event in again} == {event.pid for event in ranks}
    hand.end(again, mark)


def test_while_the_service_is_away_the_helper_ends_nobody(hand, pass_time):
    """A rank hangs while the service is away. Its helper kills no rank: it reports the hang when
    the service is back, and all go on in their processes. [restart / Hangs]"""
    ranks = hand.start(2, **{**HANG, "MUSTER_HARD_TIMEOUT": "4s"})
    hand.all_helped(2)
    mark = hand.mark()
    hand.service.signal(signal.SIGSTOP)
    hand.order(ranks[1:], "block read")
    hand.ranks[1].log.wait_for("muster agent (#1)", SOFT_SAID)
    pass_time(4500)
    hand.service.signal(signal.SIGCONT)
    again = hand.entered(2, mark, generation=2)
    assert {event.pid for event in again} == {event.pid for event in ranks}
    assert hand.ranks[1].log.having("is ended") == []
    hand.end(again, mark)


def test_helper_that_stood_still_finds_no_hang_62(hand, pass_time):
    """Rank and helper stand still together for longer than the hard limit, and go on, the helper
    first. That is no hang: the helper did not look meanwhile. [Hangs] [restart]

    The limits leave room for the commands by which time passes here."""
    ranks = hand.start(2, **{**HANG, "MUSTER_SOFT_TIMEOUT": "5s", "MUSTER_HARD_TIMEOUT": "6s"})
    helpers = hand.all_helped(2)
    os.kill(helpers[1], signal.SIGSTOP)
    os.kill(ranks[1].pid, signal.SIGSTOP)
    pass_time(7000)
    os.kill(helpers[1], signal.SIGCONT)
    pass_time(250)
    os.kill(ranks[1].pid, signal.SIGCONT)
    pass_time(2000)
    assert hand.ranks[1].log.having("muster agent") == []
    hand.end(ranks)


def test_rank_killed_before_its_helper_runs_is_told_all_the_same(hand, tmp_path):
    """A rank is killed before its helper runs. The helper reports it when it does."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\nread line <{gate}\nexec {MUSTER} "$@"\n')
    program.chmod(0o700)
    ranks = hand.start(2, of={1: {"MUSTER_PROGRAM": str(program)}})
    mark = hand.mark()
    with open(gate, "w") as opened:  # waits until the program is there
        wait_gone(*kill(ranks[1].pid))
        opened.write("go\n")
    again = hand.entered(1, mark, generation=2)
    hand.end(again, mark)


def left_of(env):
    """What runs of this test's processes, but for services."""
    return [pid for pid in marked(env["MUSTER_RUNTIME_DIR"]) if "serve" not in command(pid)]


def test_clean_close_leaves_no_helper(hand):
    """A rank closes its client. The helper has ended when `muster_client_close` returns.
    [The helper's own end]"""
    ranks = hand.start(2)
    hand.all_helped(2)
    hand.end(ranks)
    assert left_of(hand.env) == []


def test_helper_holds_nothing_of_the_program(hand):
    """A program has open descriptors that a child would inherit. The helper holds none of them
    but stderr. [What the program notices]"""
    read, write = os.pipe()
    os.set_inheritable(write, True)
    hand.runner = service = hand.serve("--lease", LONG)
    process = Process([RANK, hand.path],
                      {**hand.env, "MUSTER_ADDR": service.address, "MUSTER_SIZE": "1",
                       "MUSTER_INDEX": "0"}, close_fds=False)  # fmt: skip
    hand.started.append(process)
    hand.service, hand.ranks = service, {0: process}
    os.close(write)
    ranks = hand.entered(1)
    (helper,) = hand.all_helped(1).values()
    held = {}
    for fd in os.listdir(f"/proc/{helper}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it has just closed it
            held[fd] = os.readlink(f"/proc/{helper}/fd/{fd}")
    assert [fd for fd, what in held.items() if what.startswith("pipe:")] == ["2"], held
    assert held["0"] == held["1"] == "/dev/null"
    hand.end(ranks)
    os.close(read)


def lone(env, started, *words, **more):
    """A rank of a job of one."""
    process = Process([BUILD / "tests" / "process" / "ranks" / "agent", *words], {**env, **more})
    started.append(process)
    return process


def test_clients_one_after_the_other_leave_nothing(env, started, serve):
    """A program opens and closes clients again and again. It has as many descriptors, threads and
    children as after the first. [The helper's own end]"""
    service = serve("--lease", LONG)
    place = {"MUSTER_ADDR": service.address, "MUSTER_SIZE": "1", "MUSTER_INDEX": "0"}
    rank = lone(env, started, "again", "20", **place)
    assert rank.wait() == 0, rank.log.lines
    first, last = rank.out.having("descriptors")
    assert first.removeprefix("first") == last.removeprefix("last")
    assert "children 0" in last
    assert left_of(env) == []


@pytest.mark.parametrize("mode", ["wait", "ignore"])
def test_program_that_waits_for_all_its_children_does_not_wait_for_the_helper(env, started, serve, mode):
    """The program waits for all its children, or ignores SIGCHLD. The helper is no child of it.
    [What the program notices]"""
    service = serve("--lease", LONG)
    place = {"MUSTER_ADDR": service.address, "MUSTER_SIZE": "1", "MUSTER_INDEX": "0"}
    rank = lone(env, started, mode, **place)
    assert rank.wait() == 0, rank.log.lines
    assert rank.out.having("no child: ")
    assert left_of(env) == []


def test_job_of_one_has_a_helper_too(env, started):
    """A rank was started alone. It has a helper too, and nothing is left when it is killed.
    [What the program notices]"""
    rank = lone(env, started, "block")
    rank.out.wait_for("blocked")
    until(lambda: len(left_of(env)) == 2)
    rank.kill()
    until(lambda: marked(env["MUSTER_RUNTIME_DIR"]) == [])


def test_forked_child_does_not_keep_the_death_from_the_others(env, started, serve):
    """A killed rank leaves a forked process that lives on. That does not hide the death from the
    others."""
    service = serve("--lease", LONG)
    place = {"MUSTER_ADDR": service.address, "MUSTER_SIZE": "1", "MUSTER_INDEX": "0"}
    rank = lone(env, started, "fork", **place)
    child = int(rank.out.wait_for("forked ").split()[1])
    rank.out.wait_for("blocked")
    service.log.wait_for("member-present agent")
    rank.process.kill()
    service.log.wait_for("member-lost #0", "cause=gone")
    wait_gone(*kill(child))
    until(lambda: left_of(env) == [])


def test_without_the_program_the_run_goes_on_with_a_line_in_its_log(env, started, serve):
    """There is no `muster` program. The run goes on; one line in the client's log says what is
    missing. [What the program notices]"""
    service = serve("--lease", LONG)
    place = {"MUSTER_ADDR": service.address, "MUSTER_SIZE": "1", "MUSTER_INDEX": "0"}
    rank = lone(env, started, "again", MUSTER_PROGRAM="/nonexistent/muster", **place)
    assert rank.wait() == 0
    (line,) = rank.out.having("log: ")
    assert line == ("log: no helper watches this process: '/nonexistent/muster agent': No such file "
                    "or directory; its death is noticed later, a hang not at all (set "
                    "MUSTER_PROGRAM, or MUSTER_AGENT=0 for none)")


def test_program_that_is_no_muster_is_given_up(env, started, serve):
    """`MUSTER_PROGRAM` is another program. The helper is tried a few times, then the run goes on
    without, with one line in the client's log. [What the program notices]"""
    service = serve("--lease", LONG)
    place = {"MUSTER_ADDR": service.address, "MUSTER_SIZE": "1", "MUSTER_INDEX": "0"}
    rank = lone(env, started, "block", MUSTER_PROGRAM="/bin/false", **place)
    rank.out.wait_for("log: no helper watches this process: '/bin/false agent': it ends as soon as")
    assert left_of(env) == [rank.pid]
    rank.kill()


def test_switched_off_no_helper_is_started(env, started, serve):
    """`MUSTER_AGENT=0`: no helper, no line. [What the program notices]"""
    service = serve("--lease", LONG)
    place = {"MUSTER_ADDR": service.address, "MUSTER_SIZE": "1", "MUSTER_INDEX": "0"}
    rank = lone(env, started, "block", MUSTER_AGENT="0", **place)
    rank.out.wait_for("blocked")
    assert left_of(env) == [rank.pid]
    assert not rank.out.having("log: ")
    rank.kill()


def test_ranks_of_muster_run_have_no_helper(spawn, env):
    """The rank was started by `muster run`. It has no helper: the run watches it.
    [What the program notices]"""
    run = spawn("run", "-n", "2", "--", BUILD / "tests" / "process" / "ranks" / "agent", "block")
    run.out.wait_for("blocked", count=2)
    assert [pid for pid in marked(env["MUSTER_RUNTIME_DIR"]) if command(pid)[1:2] == ["agent"]] == []


def test_helper_is_let_in_with_a_secret_that_can_be_read_once(env, started, serve, tmp_path):
    """The service asks for a secret that came from a pipe. The helper inherits a copy of it.
    [What the program notices]"""
    secret = b"0123456789abcdef0123456789abcdef"
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    path.write_bytes(secret)
    service = serve("--addr", "127.0.0.1:0", "--secret-file", path, "--lease", LONG)
    place = {"MUSTER_ADDR": service.address, "MUSTER_SIZE": "1", "MUSTER_INDEX": "0"}
    read, write = os.pipe()
    os.write(write, secret)
    os.close(write)
    rank = Process([BUILD / "tests" / "process" / "ranks" / "agent", "block"],
                   {**env, **place, "MUSTER_SECRET_FD": str(read)}, pass_fds=[read])  # fmt: skip
    os.close(read)
    started.append(rank)
    rank.out.wait_for("blocked")
    service.log.wait_for("member-present agent")
    rank.process.kill()
    service.log.wait_for("member-lost #0", "cause=gone")
    until(lambda: left_of(env) == [])


def test_typed_without_a_front(muster):
    """A user types `muster agent`. One line says that --front is missing.
    [What the program notices]"""
    done = muster("agent")
    assert done.returncode == 2
    assert done.stderr == ("muster agent: --front is missing, as in --front xla --size 8; without it "
                           "the library starts this command\n")


@pytest.mark.parametrize("name", MPI)
def test_ranks_of_mpirun_have_helpers_that_tell_of_a_death(hand, started, name):
    """The ranks are started by Open MPI or MPICH and one is killed. Its helper reports it as any
    other, without a word in the program or the environment.

    Their launcher would end all of them with the first; so it does not see how that ended."""
    command, _ = installed(name)
    clean = {key: value for key, value in hand.env.items() if not LAUNCHERS.match(key)}
    hand.env = {**clean, **mpi_environment(hand.env), "MUSTER_LEASE": LONG, "MUSTER_MIN_SIZE": "1"}
    hand.runner = Process([*command, "3", "sh", "-c", '"$0" "$1"; exit 0', RANK, hand.path], hand.env)
    started.append(hand.runner)
    ranks = hand.entered(3)
    until(lambda: len(hand.helpers()) == 3)
    mark = hand.mark()
    gone = kill(ranks[1].pid)
    again = hand.entered(2, mark, generation=2)
    wait_gone(*gone)
    hand.order(again, "ok")
    hand.finish(2, mark)
    assert hand.runner.wait() == 0
    until(lambda: marked(hand.env["MUSTER_RUNTIME_DIR"]) == [])
