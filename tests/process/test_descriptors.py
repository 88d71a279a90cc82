# SPDX-License-Identifier: Apache-2.0
"""No descriptors left: in a program that uses the library, in `muster run`, in the service (for that
see also test_serve.py and test_crowds.py).

behaviour: attacks / No descriptors
"""

import os
import re
import resource
import signal
import subprocess

import pytest

from conftest import BUILD, MUSTER, Process, sanitized
from proxy import Proxy, Way
from running import Run, until

ATTACKED = BUILD / "tests" / "process" / "attacked"
LIMIT = 60
REACH_MS = 5000


def limit(count):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


def none_left(pid, count=3):
    """No more may be opened by this process, whatever it closes: all below `count` are for life. (A
    poll may have no more than that, either.)"""
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, 1000))


def enough_again(pid):
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (1000, 1000))


def client_of(address, env, started, **more):
    client = Process([ATTACKED], {**env, "MUSTER_ADDR": address, "MUSTER_AGENT": "0", **more},
                     stdin=subprocess.PIPE, preexec_fn=limit(1000))
    started.append(client)
    client.asked = 0
    return client


def order(client, text):
    client.process.stdin.write(text + "\n")
    client.process.stdin.flush()
    client.asked += 1


def answer(client):
    return client.out.wait_for("", count=client.asked)


# ---- the library ----


@pytest.mark.parametrize("left", range(6))
def test_a_program_that_has_no_descriptors_is_told_at_open(service, env, started, left):
    """A program opens a client and has no descriptors left, or too few. One line says so, with
    the limit; when there are some again it can open one."""
    client = Process([ATTACKED, f"starve,feed {left},reach {REACH_MS},feed,reach 20000"],
                     {**env, "MUSTER_ADDR": service.address}, preexec_fn=limit(LIMIT))
    started.append(client)
    assert client.wait() == 0
    _, _, said, _, then = client.out.lines
    if left < 2:
        assert said == f"ELIMIT open: no descriptors left: the limit is {LIMIT} (ulimit -n); raise it, or close some"
    elif left < 3:
        assert re.fullmatch(r"EUNREACHABLE open: no service at \S+ after [\d.]+ s \(connecting to \S+: "
                            r"Too many open files\); is `muster serve` running there\?", said)
    else:
        assert said == "OK "
    assert then == "OK "


def test_a_client_that_cannot_reconnect_for_want_of_one_tries_until_it_can(serve, env, started,
                                                                           pass_time):
    """A client loses its connection and there is no descriptor for another. It tries until there
    is one; calls wait for it, and its lease goes on."""
    service = serve("--addr", "127.0.0.1:0", "--lease", "60s")
    proxy = Proxy(service.address)
    client = client_of(proxy.client_address, env, started)
    order(client, "open -1")
    assert answer(client) == "OK "
    none_left(client.pid)
    proxy.links[0].flows[0].way = Way(0, "reset")
    order(client, "put k")
    until(lambda: proxy.cuts == 1)
    pass_time(500)
    assert len(client.out.lines) == 1 and proxy.accepted == 1
    enough_again(client.pid)
    assert answer(client) == "OK "
    client.process.stdin.close()
    assert client.wait() == 0
    proxy.end()


@pytest.mark.parametrize("helper", [False, True])
def test_a_restart_needs_no_descriptors(service, env, started, helper):
    """A rank without descriptors restarts its function; its helper cannot be started, so deaths
    are known later. Neither needs to fail: the function is entered again."""
    client = client_of(service.address, env, started, MUSTER_AGENT=str(int(helper)),
                       PATH=f"{MUSTER.parent}:{env['PATH']}")
    order(client, "open 0")
    assert answer(client) == "OK "
    none_left(client.pid)
    order(client, "restart")
    assert answer(client) == "OK entered 2"
    order(client, "close")
    assert answer(client) == "OK "
    enough_again(client.pid)  # a sanitizer that looks for leaks at the end opens some
    client.process.stdin.close()
    assert client.wait() == 0
    assert client.log.lines == []


WATCHED_MS = 500
BUSY_MS = 100


CLOSED = re.compile(r"EUNREACHABLE put 'k': descriptor \d+, which was muster's, was closed by this program: the "
                    r"session is over; a program that closes all it has inherited does so before "
                    r"muster_client_open")


@pytest.mark.parametrize("how", ["index 0", "observer", "name", "secret", "preempt", "alone"])
def test_a_program_that_closes_all_descriptors_is_told(serve, env, started, tmp_path, pass_time, how):
    """A program closes all descriptors, the library's too. The session is over: the next call
    says EUNREACHABLE and names one of them, no thread spins, and the client can be closed. No
    number is read, written to or closed any more: it may be another file's.
    [library / Opening and closing]"""
    more = {}
    if how == "secret":
        more["MUSTER_SECRET_FILE"] = str(tmp_path / "secret")
        (tmp_path / "secret").write_bytes(os.urandom(32))
        (tmp_path / "secret").chmod(0o600)
    service = serve("--addr", "127.0.0.1:0", "--lease", "4s", **{"env": {**env, **more}})
    address = service.address.replace("127.0.0.1", "localhost") if how == "name" else service.address
    if how == "alone":
        address, more["MUSTER_PROGRAM"] = "", str(MUSTER)
    client = client_of(address, env, started, **more)
    opening = {"index 0": "open 0", "preempt": "open 0", "alone": "alone"}.get(how, "open -1")
    order(client, opening)
    assert answer(client) == "OK "
    if how == "preempt":
        order(client, "preempt")
        assert answer(client) == "OK "
    order(client, "forget")
    assert answer(client) == "OK "
    order(client, "put k")
    assert CLOSED.fullmatch(answer(client))
    for what in ["occupy"] + ["raise"] * (how == "preempt"):
        order(client, what)
        assert answer(client) == "OK "
    order(client, "cpu")
    before = int(answer(client).split()[1])
    pass_time(WATCHED_MS)
    order(client, "cpu")
    assert int(answer(client).split()[1]) - before < BUSY_MS
    for what in ["check", "close", "check", opening, "check"]:
        order(client, what)
        assert answer(client) == "OK "
    client.process.stdin.close()
    assert client.wait() == 0


def test_a_rank_behind_a_shell_that_closes_all_descriptors_is_told(spawn):
    """A rank behind a shell closes all descriptors, one of which is that by which it learns of
    the end of its agent. Its session is over as well, and the next call names a descriptor.
    [library / Opening and closing]"""
    orders = "open 0,forget,put k,occupy,close,check"
    run = spawn("run", "-n", 1, "--", "sh", "-c", f"'{ATTACKED}' '{orders}'; true")
    assert run.wait() == 0
    said = [line.removeprefix("[0]: ") for line in run.out.lines]
    assert CLOSED.fullmatch(said.pop(2))
    assert said == ["OK "] * 5


# ---- the program ----


@pytest.mark.parametrize("count", [6, 9, *range(11, 28)])
def test_a_run_that_has_no_descriptors_says_so(muster, env, count):
    """`muster run` has too few descriptors to begin. It prints one line and ends with 125,
    whichever step it was; nothing is left behind."""
    if sanitized() and count < 10:
        pytest.skip("a sanitizer needs some itself")
    done = muster("run", "-n", 2, "--", "true", preexec_fn=limit(count),
                  env={**env, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 125
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert (f"no descriptors left: the limit is {count} (ulimit -n)" in done.stderr
            or "Too many open files" in done.stderr)
    assert os.listdir(env["MUSTER_RUNTIME_DIR"]) == []


@pytest.mark.parametrize("count", [6, 9])
def test_a_service_that_has_no_descriptors_says_so(muster, count):
    """`muster serve` has too few descriptors to begin. It prints one line and ends with 1."""
    done = muster("serve", preexec_fn=limit(count))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "too many open files" in done.stderr.lower()


def test_a_rank_that_cannot_be_started_again_now_is_started_later(spawn, muster):
    """A rank died and `muster run` has no descriptors to start it again. A line says so; it is
    tried again after 1 s, then 2 s and so on up to a minute. The other ranks go on meanwhile,
    in their processes."""
    job = Run(spawn, muster, 2, "--min-size", 1)
    before = job.entered()
    none_left(job.run.pid, 9)
    os.kill(before[1]["pid"], signal.SIGKILL)
    job.log.wait_for("run: no descriptors left: the limit is 9 (ulimit -n)")
    job.log.wait_for("#1 could not be started; trying again in 1 s")
    alone = job.entered(2, size=1)
    enough_again(job.run.pid)
    after = job.entered(3)
    assert after[0]["pid"] == alone[0]["pid"] == before[0]["pid"]
    job.all_well(after)
