# SPDX-License-Identifier: Apache-2.0
"""A run over three nodes or more has three replicas of its service, of which nothing is said: the
host of any one of them may be lost, node 0's too. On network namespaces, as test_nodes.py.

behaviour: nodes / Replicas of the service
"""

import contextlib
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import time

import pytest

from conftest import BUILD
from discovering import pidfds
from nodes import missing
from running import RANK, until, wait_gone
from test_nodes import SHORT_LEASE, Nodes, all_well, cluster  # noqa: F401

WHY_NOT = missing()
if WHY_NOT is None and b"without replicas" in (BUILD / "bin" / "muster").read_bytes():
    WHY_NOT = "this muster was built without replicas"
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

LEASE_S = 10  # the default; a takeover takes a tenth of it
STRANDED_LEASE_S = 2  # 15 of them are less than a test waits
FURTHER = re.compile(r"has 3 replicas now; on a further node: muster run (--join .*)")


def replica(cluster, number):  # noqa: F811
    """(pid, address) of the replica on that node."""
    for pid in cluster.pids(number):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")
            for word in words if "serve" in words else []:
                if word.startswith("--advertise="):
                    return pid, word.removeprefix("--advertise=")
    return None


def clients(cluster, number):  # noqa: F811
    """Connections to that replica: only a leader has those of all agents and ranks."""
    port = replica(cluster, number)[1].rpartition(":")[2]
    said = subprocess.run(cluster.words(number, "ss", "-Htn", "state", "established", "sport", "=",
                                        f":{port}"), capture_output=True, text=True)
    return len(said.stdout.splitlines())


def leader(cluster, numbers):  # noqa: F811
    return until(lambda: [number for number in numbers if replica(cluster, number)
                          and clients(cluster, number) >= 5])[0]


def told(cluster, number, job):  # noqa: F811
    """What `muster status --json` says of the service, asked on that node: once one leads."""
    def ask():
        done = cluster.muster(number, "status", "--json", "-j", job)
        return done.stdout if done.returncode == 0 else None

    return json.loads(until(ask))["service"]


class Replicated(Nodes):
    """Three nodes, and as many replicas."""

    def __init__(self, cluster, *flags, program=(RANK,), lease_s=LEASE_S, **how):  # noqa: F811
        super().__init__(cluster, program, "--lease", f"{lease_s}s", *flags, **how)
        self.lease_s = lease_s
        self.typed = self.further(self.on[0])
        self.lost = set()

    @staticmethod
    def further(process):
        """The words of the line for one more node."""
        return shlex.split(FURTHER.search(process.log.wait_for("has 3 replicas now"))[1])

    def all_know(self):
        """Every client has renewed its session since, and knows the addresses of all replicas. That
        leaves no other trace than time."""
        known = time.monotonic() + self.lease_s / 2
        until(lambda: time.monotonic() > known)

    def whole(self):
        """What status says of the service once three replicas vote and are here: a strike before that
        would leave no majority."""
        def service():
            now = told(self.cluster, self.alive(), self.job)
            voters = [one for one in now["replicas"] if one["votes"]]
            return now if len(voters) == 3 and all(one["here"] for one in voters) else None

        return until(service)

    def alive(self):
        return min(set(range(len(self.on))) - self.lost)

    def order(self, index, generation, what):
        done = self.cluster.muster(self.alive(), "key", "put", f"order-{index}-{generation}", what,
                                   "-j", self.job)
        assert done.returncode == 0, done.stderr

    def lose(self, number):
        """The host dies: its cable, so that nobody hears of it, and its processes, of which none
        outlives another one: a keeper would remove the secret that all nodes share."""
        self.cluster.cable(number, "down")
        for what in (signal.SIGSTOP, signal.SIGKILL):
            for pid in self.cluster.pids(number):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, what)
        self.lost.add(number)

    def join_further(self, number, words):
        at = words.index("--")
        process = self.cluster.start(number, "run", *words[:at], *words[at:])
        self.on.append(process)
        return process

    def codes(self):
        return [process.wait() for number, process in enumerate(self.on) if number not in self.lost]


OF_SERVICE = "muster run: the service of job 'over-all': "


def printed(nodes, number, *words):
    """Waits for a line about the replicas on that node; no other one of now prints any."""
    line = nodes.on[number].log.wait_for(OF_SERVICE, *words)
    for other, process in enumerate(nodes.on):
        assert other in nodes.lost | {number} or process.log.having(OF_SERVICE) == [], nodes.told()
    return line


def named(line):
    """{address: number} of the nodes that it names."""
    return {address: int(number) for number, address in re.findall(r"node (\d+) \((\S+)\)", line)}


def survivors_well(nodes, ranks):
    nodes.end(ranks)
    codes = nodes.codes()
    assert codes == [0] * len(codes), nodes.told()


def test_three_nodes_have_three_replicas_of_the_service(cluster):  # noqa: F811
    """A run has three nodes. Each has a replica of the service. Node 0 prints when the others become
    voters, and the line for a further node with the addresses of all three. `muster status` says which node leads and which have
    the others. At the end nothing is left of any."""
    nodes = Replicated(cluster)
    ranks = nodes.entered(6)
    addresses = {replica(cluster, number)[1] for number in range(3)}
    assert {address.rpartition(":")[0] for address in addresses} == \
        {cluster.address(number) for number in range(3)}
    assert set(nodes.typed[nodes.typed.index("--join") + 1].split(",")) == addresses
    placed = {replica(cluster, number)[1]: number for number in range(3)}
    until(lambda: {one["address"]: one["node"] for one in told(cluster, 1, nodes.job)["replicas"]} == placed)
    text = cluster.muster(1, "status", "-j", nodes.job).stdout
    assert named(re.search("^service: node .* leads, .*$", text, re.M)[0]) == placed
    printed(nodes, 0, "new replica: ", "; 3 vote")
    new = {}
    for line in nodes.on[0].log.having(OF_SERVICE, "new replica: "):
        new.update(named(line))
    assert new == {address: number for address, number in placed.items() if number != 0}
    all_well(nodes, ranks)
    assert [replica(cluster, number) for number in range(3)] == [None] * 3
    for number in range(3):
        assert os.listdir(cluster.directories[number]) == []


def test_the_first_nodes_have_the_replicas(cluster):  # noqa: F811
    """A run has four nodes, and the last one is there first. The replicas are those of the first three
    by number, as a launcher counts them."""
    cluster.add()
    nodes = Nodes(cluster, [RANK], "--lease", f"{LEASE_S}s", count=1, nnodes=4)
    for number in (3, 1, 2):
        nodes.join(number, "--node-rank", number).log.wait_for(f"this is node {number} of job")
    ranks = nodes.entered(8)
    service = until(lambda: (now := told(cluster, 3, nodes.job))["here"] == 3 and now)
    assert {one["address"]: one["node"] for one in service["replicas"]} == \
        {replica(cluster, number)[1]: number for number in range(3)}
    assert replica(cluster, 3) is None
    all_well(nodes, ranks)


UNREACHED = {
    # The machine with the rules, whither its connections are, but for those of the service's port, not let
    # through, and what node 2 prints.
    "refused": (0, 2, "sport", r"node 0 cannot reach this node at 10\.77\.0\.3:\d+ \(Network is unreachable\)"),
    "dropped": (2, 0, "dport", r"node 0 cannot reach this node at 10\.77\.0\.3:\d+ \(Connection timed out\)"),
    "other way": (2, 1, "dport", r"this node cannot reach the replica at 10\.77\.0\.2:\d+ \(Network is unreachable\)"),
}


@pytest.mark.parametrize("how", UNREACHED)
def test_a_node_that_is_not_reached_has_no_replica(cluster, how):  # noqa: F811
    """A firewall lets no connection of node 0 to node 2, with or without an error, or none of node 2 to
    the replica of node 1. Node 2 prints in one line which node cannot reach which address and what
    to do, and has no replica. The run goes on and ends well."""
    at, to, side, what = UNREACHED[how]
    nodes = Nodes(cluster, [RANK], "--lease", f"{LEASE_S}s", count=1, nnodes=3)
    nodes.join(1, "--node-rank", 1)
    until(lambda: replica(cluster, 1))
    port = nodes.words[nodes.words.index("--join") + 1].rpartition(":")[2]
    rule = ("to", cluster.address(to), "ipproto", "tcp")
    cluster.ip(f"n{at}", "rule", "add", "pref", 100, *rule, side, port, "lookup", "main")
    cluster.ip(f"n{at}", "rule", "add", "pref", 101, *rule, "unreachable")
    last = nodes.join(2, "--node-rank", 2)
    line = last.log.wait_for("no replica of the service here: ")
    assert re.fullmatch(f"muster run: no replica of the service here: {what}; a firewall is the usual cause: let the "
                        "nodes connect to each other's ports above 1023, or give --replicas 1", line), line
    ranks = nodes.entered(6)
    assert replica(cluster, 2) is None
    all_well(nodes, ranks)
    assert [len(process.log.having("cannot reach")) for process in nodes.on] == [0, 0, 1]


def test_a_further_node_takes_the_slot_of_one_that_is_not_reached(cluster):  # noqa: F811
    """A firewall lets no connection of node 0 to node 2. Node 3 has a replica in its stead, six leases after it
    began at the earliest: in a run with the standard lease the first nodes have a minute to come."""
    lease_s = 2 * STRANDED_LEASE_S  # nobody is held for so long
    cluster.add()
    nodes = Nodes(cluster, [RANK], "--lease", f"{lease_s}s", count=1, nnodes=4)
    nodes.join(1, "--node-rank", 1)
    until(lambda: replica(cluster, 1))
    port = nodes.words[nodes.words.index("--join") + 1].rpartition(":")[2]
    rule = ("to", cluster.address(2), "ipproto", "tcp")
    cluster.ip("n0", "rule", "add", "pref", 100, *rule, "sport", port, "lookup", "main")
    cluster.ip("n0", "rule", "add", "pref", 101, *rule, "unreachable")
    nodes.join(2, "--node-rank", 2).log.wait_for("no replica of the service here: ")
    began = time.monotonic()
    nodes.join(3, "--node-rank", 3)
    ranks = nodes.entered(8)
    until(lambda: replica(cluster, 3))
    assert time.monotonic() - began >= 6 * lease_s
    assert replica(cluster, 2) is None
    all_well(nodes, ranks)


@pytest.mark.parametrize("flags", [("--replicas", 1), ("--nnodes", 2)])
def test_one_replica_is_none(cluster, flags):  # noqa: F811
    """A run has two nodes, or is to have one replica. Its service is node 0's alone."""
    count = 2 if "--nnodes" in flags else 3
    nodes = Nodes(cluster, [RANK], *(flags if count == 3 else ()), count=count)
    ranks = nodes.entered(2 * count)
    assert len(nodes.services()) == 1
    assert [replica(cluster, number) for number in range(count)] == [None] * count
    all_well(nodes, ranks)


def test_the_leader_is_killed(cluster):  # noqa: F811
    """The process of the service that leads is killed. Another replica takes over, and node 0 alone
    prints which. The killed one comes back, no rank is interrupted, and commands find the job on
    every node."""
    nodes = Replicated(cluster)
    ranks = nodes.entered(6)
    nodes.whole()
    leads = leader(cluster, range(3))
    pid, address = replica(cluster, leads)
    os.kill(pid, signal.SIGKILL)
    nodes.on[leads].log.wait_for("the replica of the service on this node", "started again")
    next_pid, again = until(lambda: replica(cluster, leads))
    assert again == address and next_pid != pid
    line = printed(nodes, 0, " leads now, before it ")
    assert named(line).items() <= {replica(cluster, number)[1]: number for number in range(3)}.items(), line
    assert list(named(line))[1] == address, line
    for number in range(3):
        done = cluster.muster(number, "key", "put", "after", number, "-j", nodes.job)
        assert done.returncode == 0, done.stderr
    nodes.end(ranks)
    assert nodes.codes() == [0, 0, 0], nodes.told()
    assert sorted(nodes.generations()) == [1]


@pytest.mark.parametrize("strike", ["kill", "freeze"])
def test_chaos_strikes_the_leader(cluster, strike):  # noqa: F811
    """`muster status --json` names the host and the process of the replica that leads. `muster chaos kill
    leader` there, or `freeze leader --for 5s`, strikes that one; on another node it says in one line
    where to give it. Another replica takes over, and no rank is interrupted. [program / muster chaos]"""
    nodes = Replicated(cluster)
    ranks = nodes.entered(6)
    service = nodes.whole()
    number = [cluster.host(node) for node in range(3)].index(service["host"])
    assert (service["pid"], service["leader"]) == replica(cluster, number)
    other = (number + 1) % 3
    done = cluster.muster(other, "chaos", strike, "leader", "-j", nodes.job)
    assert (done.returncode, done.stdout, done.stderr) == (
        1, "", f"muster chaos: the leader of the service of job '{nodes.job}' runs on {cluster.host(number)}; "
        f"this is {cluster.host(other)}: give the command there\n")
    how = ("--for", "5s") if strike == "freeze" else ()
    done = cluster.muster(number, "chaos", strike, "leader", *how, "-j", nodes.job)
    assert done.returncode == 0, done.stderr
    who = f"the leader ({service['leader']}, pid {service['pid']}) of the service of job '{nodes.job}'"
    word = "signal 9 (Killed)" if strike == "kill" else "signal 19 (Stopped (signal))"
    assert done.stdout.splitlines()[0].startswith(f"{word} sent to {who}"), done.stdout
    nodes.on[number].log.wait_for("the replica of the service on this node", "started again")
    until(lambda: told(cluster, other, nodes.job)["pid"] != service["pid"])
    nodes.end(ranks)
    assert nodes.codes() == [0, 0, 0], nodes.told()
    assert sorted(nodes.generations()) == [1]


@pytest.mark.parametrize("end", ["signal", "cable"])
def test_a_replica_whose_run_was_killed_ends(cluster, end):  # noqa: F811
    """`muster run` of a node is killed, and its replica of the service goes on for the other nodes. It
    ends at SIGTERM, and when it has known of no leader for 15 leases, as behind a cut cable. The others
    go on, and still have their secret."""
    nodes = Replicated(cluster, lease_s=STRANDED_LEASE_S)
    nodes.entered(6)
    nodes.whole()
    pid, _ = replica(cluster, 2)
    ends = pidfds([pid])
    nodes.on[2].process.kill()  # its output goes on: it is the replica's too
    nodes.on[2].log.wait_for("parent-gone")
    if end == "signal":
        os.kill(pid, signal.SIGTERM)
    else:
        cluster.cable(2, "down")
    wait_gone(*ends)
    nodes.on = nodes.on[:2]
    ranks = nodes.entered(4, generation=2)
    all_well(nodes, ranks)


def test_a_replica_that_nobody_needs_is_no_news(cluster):  # noqa: F811
    """A run that may have three nodes has two, so one replica votes. That of node 1 ends when nobody has needed it
    for a lease, and is started again. Nothing is printed."""
    nodes = Nodes(cluster, [RANK], "--lease", SHORT_LEASE, "--join-wait", "1s", count=2, nnodes="2:3")
    ranks = nodes.entered(4)
    pid, _ = until(lambda: replica(cluster, 1))
    until(lambda: (replica(cluster, 1) or (pid,))[0] != pid)
    all_well(nodes, ranks)
    assert [line for line in nodes.on[1].log.lines if "started again" in line] == []


def test_node_0_is_lost(cluster):  # noqa: F811
    """Node 0's host dies with the leader. The job goes on without its ranks after one interruption,
    and ends well; the lowest node that is left prints which replica leads."""
    nodes = Replicated(cluster, nnodes="2:3")
    nodes.entered(6)
    while (leads := leader(cluster, range(3))) != 0:  # it was too busy for some time
        os.kill(replica(cluster, leads)[0], signal.SIGKILL)
    nodes.whole()
    nodes.all_know()
    nodes.lose(0)
    ranks = nodes.entered(4, generation=2)
    assert sorted(nodes.generations()) == [1, 2]
    printed(nodes, 1, " leads now; replicas: ")
    survivors_well(nodes, ranks)


def test_lost_hosts_are_replaced_one_after_another(cluster):  # noqa: F811
    """Node 0's host dies for good, and a further node joins by the printed line: it gets a replica,
    which it prints as the lowest node. Then the host of the next leader dies. The job goes on each
    time."""
    nodes = Replicated(cluster, nnodes="2:3")
    nodes.entered(6)
    nodes.whole()
    nodes.all_know()
    nodes.lose(0)
    nodes.entered(4, generation=2)
    newcomer = nodes.join_further(cluster.add(), nodes.typed)
    nodes.further(newcomer)
    nodes.entered(6, generation=3)
    nodes.whole()
    nodes.all_know()
    newcomer.log.wait_for(OF_SERVICE, f"node 0 ({replica(cluster, 3)[1]})", "; 3 vote")
    nodes.lose(leader(cluster, [1, 2, 3]))
    ranks = nodes.entered(4, generation=4)
    survivors_well(nodes, ranks)
