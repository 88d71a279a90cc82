# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in rarer ways: the service stands still, a dead process does not go, another one
dies at every start or comes late.

behaviour: restart / Being called out
"""

import ctypes
import os
import random
import re
import signal

import pytest

from conftest import Process
from proxy import Proxy, Way
from running import RANK, Run, until, wait_gone
from wire import OK, Wire


@pytest.fixture
def run(spawn, muster):
    def start(size, *flags, **options):
        return Run(spawn, muster, size, *flags, **options)

    return start


# ---- the service stands still ----


def service_of(job):
    children = open(f"/proc/{job.run.pid}/task/{job.run.pid}/children").read().split()
    (service,) = (
        int(child)
        for child in children
        if open(f"/proc/{child}/cmdline").read().split("\0")[1:2] == ["serve"]
    )
    return service


def test_a_service_that_stands_still_for_less_than_the_lease_is_not_noticed(run, pass_time):
    """The service stands still for less than 0.8 leases. No rank notices."""
    job = run(2, "--lease", "30s")
    ranks = job.entered()
    service = service_of(job)
    os.kill(service, signal.SIGSTOP)
    pass_time(1500)
    os.kill(service, signal.SIGCONT)
    job.all_well(ranks)
    assert set(job.generations()) == {1}
    assert not job.log.having("starting it again")


def test_a_service_that_stands_still_for_longer_costs_one_interruption_and_no_rank(run, pass_time):
    """The service stands still for longer than 0.8 leases. That costs one interruption and no
    rank: all stop themselves, and run again when it is back."""
    job = run(2, "--lease", "4s")
    before = job.entered()
    service = service_of(job)
    os.kill(service, signal.SIGSTOP)
    pass_time(10000)
    os.kill(service, signal.SIGCONT)
    after = job.entered(2)
    assert {i: rank["pid"] for i, rank in after.items()} == {
        i: rank["pid"] for i, rank in before.items()
    }
    job.all_well(after)
    assert set(job.generations()) == {1, after[0]["generation"]}
    assert not job.log.having("starting it again")


# ---- connections that are cut ----


def test_a_rank_whose_connection_is_cut_at_any_byte_keeps_its_place(serve, muster, env, started):
    """A rank's connections are cut again and again, at any byte. It comes back with its identity
    and goes on where it was. [sessions / The client's side]"""
    service = serve("--addr", "127.0.0.1:0")
    dice = random.Random(1)
    cuts = [Way(dice.randrange(1, 600)) for _ in range(15)]
    proxy = Proxy(service.address)
    proxy.planned.extend((cut, Way()) if dice.randrange(2) else (Way(), cut) for cut in cuts)
    rank = Process([RANK], {**env, "MUSTER_ADDR": proxy.client_address, "MUSTER_SIZE": "1",
                            "MUSTER_INDEX": "0", "MUSTER_AGENT": "0"})
    started.append(rank)
    rank.out.wait_for("entered generation=1 rank=0 size=1")
    until(lambda: proxy.cuts == len(cuts))
    muster("key", "put", "order-0-1", "ok", "--addr", service.address)
    assert rank.wait() == 0, rank.log.lines
    proxy.end()
    assert len(rank.out.having("entered generation=")) == 1
    service.log.wait_for("member-back #0 incarnation=1")
    assert not service.log.having("member-lost")


# ---- a death that takes its time ----

PTRACE_DETACH, PTRACE_SEIZE, TRACE_EXIT, WALL = 17, 0x4206, 0x40, 0x40000000


def ptrace(request, pid, data):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    return libc.ptrace(request, pid, None, data)


def held_at_its_exit(victim):
    """Kills a process, which stands at its exit until what this returns is called."""
    if ptrace(PTRACE_SEIZE, victim, TRACE_EXIT) != 0:
        pytest.skip("this machine lets nobody trace")
    os.kill(victim, signal.SIGKILL)
    pid, status = os.waitpid(victim, WALL)
    assert (pid, status >> 16) == (victim, 6)  # it stands there

    def detach():
        assert ptrace(PTRACE_DETACH, victim, 0) == 0

    return detach


def test_who_is_dead_but_not_gone_is_told_and_not_replaced_yet(run):
    """A process is dead and does not go: a tracer holds it at its exit, with its memory, ports
    and locks. The others are notified and go on; it is not replaced before these are free.
    After five seconds a line says what it is blocked in. [run / How a death is known]"""
    job = run(2, "--lease", "10m")
    before = job.entered()
    victim = before[1]["pid"]
    detach = held_at_its_exit(victim)
    alone = job.entered(2, size=1)
    assert {i: rank["pid"] for i, rank in alone.items()} == {0: before[0]["pid"]}
    line = job.log.wait_for("#1 is dead but not gone: blocked in ")
    assert re.search(r"blocked in \S", line)
    assert not job.log.having("starting it again")
    detach()
    job.log.wait_for("starting it again")
    job.all_well(job.entered(3))


# ---- those who come again and again, or late ----


def test_who_dies_at_every_start_is_held_back_longer_each_time(run, tmp_path):
    """A rank dies at every start. It is held back longer each time. [run / Deaths and respawn]"""
    flag = tmp_path / "crash"
    script = '[ -e "$1" ] && [ "$MUSTER_INDEX" = 1 ] && exit 4; exec "$0"'
    job = run(2, "--max-restarts", 4, rank=("sh", "-c", script, RANK, flag))
    before = job.entered()
    flag.touch()
    os.kill(before[1]["pid"], signal.SIGKILL)
    job.log.wait_for("was killed by signal 9 (Killed); starting it again (1 of 4)")
    job.log.wait_for("ended with status 4; starting it again in 1 s (2 of 4)")
    job.log.wait_for("ended with status 4; starting it again in 2 s (3 of 4)")
    flag.unlink()
    after = job.entered(2)
    assert after[0]["pid"] == before[0]["pid"]
    # It cost the other rank the loss of #1 and the newcomer, and nothing in between.
    assert len([line for line in job.out.having("entered generation=", "index=0")]) <= 3
    job.all_well(after)


def test_a_job_starts_without_who_is_late_and_takes_it_in(run, tmp_path):
    """A rank comes late, and `--join-wait` is over. The job starts with the others, and takes the
    late one in while they go on in their processes. [run / Deaths and respawn]"""
    late = tmp_path / "late"
    os.mkfifo(late)
    script = '[ "$MUSTER_INDEX" = 2 ] && read go < "$1"; exec "$0"'
    job = run(3, "--min-size", 2, "--join-wait", "200ms", rank=("sh", "-c", script, RANK, late))
    first = job.entered(1, size=2)
    assert set(first) == {0, 1}
    late.write_text("go\n")
    whole = job.entered(2, size=3)
    assert all(whole[index]["pid"] == first[index]["pid"] for index in first)
    job.all_well(whole)


# ---- signals ----


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT, signal.SIGINT])
def test_every_polite_signal_reaches_the_ranks(spawn, number):
    """`muster run` gets SIGTERM, SIGINT, SIGHUP or SIGQUIT. The ranks get it and have the grace
    time; if they end well, so does the run. [run / Signals and the end]"""
    script = f"trap 'echo saved; exit 0' {number.name[3:]}; echo ready; while :; do sleep 0.01; done"
    process = spawn("run", "-n", 2, "--", "sh", "-c", script)
    process.out.wait_for("ready", count=2)
    process.signal(number)
    assert process.wait() == 0
    assert len(process.out.having("saved")) == 2


def test_chaos_sends_the_signal_it_is_told(run, muster):
    """`chaos kill 1`: the process of #1 gets SIGKILL, or the signal of `--signal`, one line says
    which it was, and the job survives. [program / muster chaos]"""
    job = run(2)
    job.entered()
    done = muster("chaos", "kill", "#1", "--signal", 6, "-j", job.job)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("signal 6 (Aborted) sent to #1 (rank 1, pid ")
    job.log.wait_for("#1", "pid ", "was killed by signal 6 (Aborted); starting it again")
    job.all_well(job.entered(2))


# ---- names ----


@pytest.mark.parametrize("job", ["a/b", "../x", ".hidden", "x" * 200])
def test_a_job_name_that_can_name_no_socket_is_refused(muster, env, job):
    """A job's name holds a slash, or begins with a dot. `run` and `serve` refuse it in one line:
    it could name no socket. [program / Finding the job] [run / What ranks get]"""
    for done in (muster("run", "-j", job, "--", "true"), muster("serve", "--job", job)):
        assert done.returncode in (1, 125)
        assert len(done.stderr.splitlines()) == 1 and "the job name '" in done.stderr
    assert os.listdir(env["MUSTER_RUNTIME_DIR"]) == []


# ---- a program started alone ----


def test_a_program_started_alone_says_so_and_leaves_nothing(env, started):
    """A program is started alone. It is a job of one: a service is started as its child, the same
    calls work, and one line on stderr says so. When it ends, however it ends, service and
    socket are gone. [library / Opening and closing]"""
    alone = Process([RANK], {**env, "MUSTER_LEASE": "5s"})
    started.append(alone)
    alone.out.wait_for("entered generation=1 rank=0 size=1")
    line = alone.log.wait_for("no MUSTER_ADDR")
    assert alone.log.lines == [line]
    service = int(re.search(r"^muster: no MUSTER_ADDR: a job of one, .*\(process (\d+) at unix:", line)[1])
    pidfd = os.pidfd_open(service)
    alone.kill()
    wait_gone(pidfd)
    assert os.listdir(env["MUSTER_RUNTIME_DIR"]) == []


# ---- many fail at once ----

LINES = 8  # of faults that are said one by one in a second
MANY = 2 * LINES


def test_of_many_faults_the_rest_is_one_number(run, env):
    """Many ranks fail at once. Eight lines a second are printed, and one that says how many more;
    the service keeps the last few. [run / Notices of preemption]"""
    job = run(MANY, env={**env, "MUSTER_SETTLE": "50s"})
    ranks = job.entered()
    wire = Wire(f"unix:{env['MUSTER_RUNTIME_DIR']}/{job.job}.sock")
    assert wire.open(job=job.job).status == OK
    orders = [f"order-{index}-{rank['generation']}" for index, rank in ranks.items()]
    for order in orders[1:]:
        assert wire.put(order, "fail 7 nan").status == OK

    def told():
        """How many faults were said one by one, and the numbers of the others."""
        return len(job.log.having(") failed: code 7: nan")), [
            int(re.search(r": and (\d+) more faults?$", line)[1]) for line in job.log.having("muster run: and ")]

    def all_but_one():
        said, more = told()
        return wire.renew().status == OK and said + sum(more) == MANY - 1

    # With the last rank the generation ends, and with it what has not been heard of its faults.
    until(all_but_one, lambda: "\n".join(job.log.lines))
    assert wire.put(orders[0], "fail 7 nan").status == OK
    job.all_well(job.entered(2))
    said, more = told()
    assert LINES <= said <= said + sum(more) <= MANY and len(more) <= MANY // LINES, job.log.lines
    assert said > LINES or sum(more) > 1, job.log.lines
    assert not job.log.having(" 1 more faults")
