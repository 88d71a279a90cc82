# SPDX-License-Identifier: Apache-2.0
"""`muster agent --front`: unmodified processes that something else than `muster run` starts, here plain
subprocesses. The clients speak the protocols by hand (frontwire.py); test_interop_agent.py has those of JAX.

behaviour: fronts / muster agent --front
"""

import os
import re
import signal
import subprocess
import sys

import pytest

from agents import Agent, ended, members
from conftest import MUSTER, Process, free_port
from frontwire import Jax, Store
from running import until

WIRE = os.path.join(os.path.dirname(__file__), "frontwire.py")


@pytest.fixture
def agent(service, spawn):
    """agent(flags...): one, beside a service of this user."""
    return lambda *flags: Agent(spawn, *flags)


def states(muster):
    return {index: m["state"] for index, m in members(muster).items()}


@pytest.fixture
def clients(started):
    """Processes that end before the agent, which waits for them."""
    yield from ended()


@pytest.fixture
def other(clients, env):
    """other(port, index): another process that registers, as one of JAX does, and stays."""

    def start(port, index, *every_ms):
        clients.append(Process([sys.executable, WIRE, port, index, *every_ms], env))
        return clients[-1]

    return start


def attempt(other, port, size):
    """Processes that have registered. Those that come before the earlier ones' connections have ended are
    refused, and started again."""

    def begin():
        processes = [other(port, index) for index in range(size)]
        said = [process.out for process in processes]
        until(lambda: any(out.having("refused") for out in said) or all(out.having("registered") for out in said))
        if any(out.having("refused") for out in said):
            for process in processes:
                process.kill()
            return None
        return processes

    return until(begin)


def test_it_says_where_it_listens(agent):
    """An agent with both fronts starts. Its only line on stdout has the variables of both, at one port,
    which is the one that --port names."""
    port = free_port()
    one = agent("--front", "xla,tcpstore", "--size", 2, "--port", port)
    assert one.variables == {
        "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}",
        "JAX_COORDINATOR_BIND_ADDRESS": "127.0.0.1:0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    one.process.signal(signal.SIGTERM)
    assert one.process.wait() == 0 and one.process.out.lines == [one.line]


def test_a_process_that_dies_is_lost(agent, other, muster):
    """Two processes register with the agent, which has started neither. Status has both, by their pids.
    One is killed: it is lost, a line of the agent says so, and the other one's poll for errors ends."""
    one = agent("--front", "xla", "--size", 2)
    dies, lives = other(one.port, 0), other(one.port, 1)
    for process in (dies, lives):
        process.out.wait_for("registered")
    assert {index: m["pid"] for index, m in members(muster).items()} == {0: dies.pid, 1: lives.pid}
    dies.kill()
    lives.out.wait_for("error")
    until(lambda: members(muster)[0]["state"] == "lost")
    (line,) = one.log.having("process 0")
    assert re.fullmatch(rf"muster agent: process 0: its process \(pid {dies.pid} on .+\) has died", line)


def test_a_process_that_is_frozen_is_lost(service, agent, other):
    """Two processes send heartbeats, until one is frozen. The agent reports that it is lost, with JAX's code, and the
    other one's poll for errors ends. Its death changes nothing."""
    one = agent("--front", "xla", "--size", 2)
    frozen, lives = other(one.port, 0, 2000), other(one.port, 1, 2000)
    for process in (frozen, lives):
        process.out.wait_for("registered")
    frozen.signal(signal.SIGSTOP)
    lives.out.wait_for("error")
    service.log.wait_for("member-lost #0", "cause=unhealthy code=14")
    frozen.kill()
    one.process.signal(signal.SIGTERM)
    assert one.process.wait() == 0
    assert one.log.having("process 0") == []


def test_the_next_attempt(agent, other, muster):
    """A process is killed and its peer ends. Both are started again: for them nothing has failed, and they
    are members as before."""
    one = agent("--front", "xla", "--size", 2)
    for process in attempt(other, one.port, 2):
        process.kill()
    until(lambda: set(states(muster).values()) == {"lost"})
    second = attempt(other, one.port, 2)
    assert {m["pid"] for m in members(muster).values()} == {process.pid for process in second}
    assert set(states(muster).values()) == {"present"}


def test_an_agent_that_stood_still(serve, spawn, other):
    """An agent is stopped for longer than the lease: its process is lost, and learns that. Then the agent has
    a new session, by which it reports the death of the next process."""
    service = serve("--lease", "2s")
    one = Agent(spawn, "--front", "xla", "--size", 1)
    (first,) = attempt(other, one.port, 1)
    one.process.signal(signal.SIGSTOP)
    service.log.wait_for("member-lost #0", "cause=lease")
    one.process.signal(signal.SIGCONT)
    first.out.wait_for("error")
    first.wait()
    (second,) = attempt(other, one.port, 1)
    second.kill()
    service.log.wait_for("member-lost #0", "cause=gone")


def test_a_process_that_is_not_seen(service, clients, other, env, muster):
    """An agent is in a PID namespace without the processes, as in a pod that does not share one. A line says so.
    A process that dies is lost all the same, by the end of its connection. Needs root."""
    apart = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if os.geteuid() != 0 or subprocess.run([*apart, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no PID namespace can be made here")
    one = Agent(lambda *words: Process([*apart, MUSTER, *words], env), "--front", "xla", "--size", 2)
    clients.append(one.process)
    processes = [other(one.port, index) for index in range(2)]
    for process in processes:
        process.out.wait_for("registered")
    one.log.wait_for("muster agent: process", "is in another PID namespace", "shareProcessNamespace: true")
    assert set(states(muster).values()) == {"present"}
    processes[0].kill()
    processes[1].out.wait_for("error")
    service.log.wait_for("fault #0")


def test_a_term_waits_for_the_processes(agent, muster):
    """SIGTERM comes while a process is connected. The agent goes on, as its process would die of the lost
    connection, says so, and ends with 0 once the process has left."""
    one = agent("--front", "xla", "--size", 1)
    jax = Jax(one.port, 0)
    assert jax.register() == 0
    one.process.signal(signal.SIGTERM)
    one.log.wait_for("stopping when the last process of this node has ended")
    assert jax.insert("key", "value") == 0
    assert jax.shutdown() == 0
    jax.close()
    assert one.process.wait() == 0


def test_a_second_term_ends_it_at_once(agent):
    """SIGTERM comes twice while a process is connected. The agent ends with 0."""
    one = agent("--front", "xla", "--size", 1)
    jax = Jax(one.port, 0)
    assert jax.register() == 0
    one.process.signal(signal.SIGTERM)
    one.log.wait_for("stopping when")
    one.process.signal(signal.SIGTERM)
    assert one.process.wait() == 0
    jax.close()


def test_until_idle(agent):
    """With --until-idle the agent ends when its last client has gone, and not before one has come."""
    one = agent("--front", "tcpstore", "--until-idle")
    assert one.process.process.poll() is None
    with Store(one.port) as store:
        store.set("k", b"v")
        assert store.get("k") == b"v"
    assert one.process.wait() == 0


def test_one_store_for_all_nodes(agent):
    """Two agents serve one job, as on two nodes. What a client of one sets the other's client gets; an agent
    that ends leaves it where it is."""
    first, second = agent("--front", "tcpstore"), agent("--front", "tcpstore")
    with Store(first.port) as store:
        store.set("k", b"v")
        assert store.get("k") == b"v"
    first.process.signal(signal.SIGTERM)
    assert first.process.wait() == 0
    with Store(second.port) as store:
        assert store.get("k") == b"v"


def test_a_notice_reaches_the_processes(agent, muster):
    """A process of JAX is connected and `muster preempt` gives a notice. The process finds it under the key
    that JAX waits for."""
    one = agent("--front", "xla", "--size", 1)
    jax = Jax(one.port, 0)
    assert jax.register() == 0
    assert muster("preempt", "--in", "30s").returncode == 0
    assert jax.get("RECEIVED_PREEMPTION_NOTICE") == 0
    assert jax.shutdown() == 0
    jax.close()


def test_the_service_comes_later(serve, spawn, tmp_path):
    """An agent is started before its service, whose address it has. It waits, and listens once the service
    is there."""
    path = f"unix:{tmp_path}/later"
    one = spawn("agent", "--front", "tcpstore", "--addr", path)
    serve("--addr", path)
    one.out.wait_for("MASTER_PORT=")


REFUSED = {
    "no job": (("--front", "xla", "--size", 1, "-j", "no-such-job"), "muster agent: no service for job 'no-such-job'"),
    "no size": (("--front", "xla,tcpstore"), "--front xla,tcpstore: the number of processes of the job is missing, as in --size 8"),
    "no such front": (("--front", "etcd"), "--front etcd: there is no front 'etcd'; xla, tcpstore or none"),
    "no front": (("--front", "none"), "--front none: there is nothing to do"),
    "port": (("--front", "tcpstore", "--port", 70000), "setting port: '70000' is no number from 0 to 65535"),
}


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.replace(" ", "-"))
def test_what_it_refuses(muster, service, case):
    """A front, the size or the job is missing or wrong. One line says what, and the agent does not start."""
    flags, words = REFUSED[case]
    done = muster("agent", *flags)
    assert done.returncode in (1, 2) and words in done.stderr and not done.stdout, done.stderr


def test_a_port_in_use(agent, muster):
    """The port is another agent's. One line says so."""
    one = agent("--front", "tcpstore")
    done = muster("agent", "--front", "tcpstore", "--port", one.port)
    assert done.returncode == 1
    assert f"listen on 127.0.0.1:{one.port}: address already in use" in done.stderr
