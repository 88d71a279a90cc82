# SPDX-License-Identifier: Apache-2.0
"""A service that is struck while clients call it, and ranks train with it: what was acknowledged is
there, every answer fits into one order of the calls, and the weights are right.

behaviour: service / Linearizability
"""

import collections
import os
import random
import re
import select
import signal
import subprocess

import pytest

from conftest import MUSTER, sanitized
from linearizable import check
from nodes import missing
from running import trained, until
from strikes import AT_LEADER, FROZEN_S, KINDS, Clients, Replicas, Services, lost, plan, seed_of
from test_demo import CHARLM, digest_of, events, folder, result  # noqa: F401
from test_journal import small_disk  # noqa: F401
from test_nodes import Nodes, cluster  # noqa: F401

WHY_NOT = missing()
# One that is asked for by name fails where it cannot run.
ASKED = "MUSTER_STRIKES" in os.environ or "MUSTER_STRUCK" in os.environ
pytestmark = pytest.mark.skipif(WHY_NOT is not None and not ASKED, reason=str(WHY_NOT))

STRIKES = int(os.environ.get("MUSTER_STRIKES", len(KINDS)))  # `make soak` does more
LED = int(os.environ.get("MUSTER_STRIKES", len(AT_LEADER)))
WITHOUT_REPLICAS = b"without replicas" in MUSTER.read_bytes()
STRUCK = int(os.environ.get("MUSTER_STRUCK", "1"))    # of each kind, under the training
CLIENTS = 8
TRAINED = 120 if sanitized() else 300  # steps of a training
LAST_STRIKE = TRAINED * 6 // 10  # what is left is time to look at what was acknowledged
REPORT = 20  # steps, as the example does
# A rank stops itself 0.8 of it after it has sent the last renewal that was answered, and it sends one in each
# fifth: what is left of 0.6 after a freeze of 5 s is the time of a busy machine to connect again.
TRAINING_LEASE = "20s"


@pytest.fixture
def disk(small_disk):  # noqa: F811
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    return small_disk


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    path.write_text("0123456789abcdef0123456789abcdef")
    return path


def test_a_service_that_is_struck_is_linearizable(cluster, disk, secret):  # noqa: F811
    """8 clients put, get, add to, delete, and compare and set 5 keys while the service is killed,
    frozen, cut off, and its disk is full. Every answer fits into one order of the calls, and
    each write that was acknowledged is there, once."""
    seed = seed_of()
    services = Services(cluster, [0], disk, secret)
    clients = Clients(cluster, 1, services.address, secret, seed, CLIENTS)
    ends = struck(services, clients, plan(seed, STRIKES), seed)
    assert STRIKES < len(KINDS) or (ends["unknown"] and ends["refused"]), ends


@pytest.mark.skipif(WITHOUT_REPLICAS and not ASKED, reason="this muster was built without replicas")
def test_replicas_whose_leader_is_struck_are_one_register(cluster, tmp_path, secret):  # noqa: F811
    """8 clients do the same with three replicas on three machines, while the one that leads is
    killed, frozen for 5 s, cut off until another one leads, and lost with its host and its disk.
    Every answer fits into one order of the calls, and each write that was acknowledged is
    there, once."""
    seed = seed_of()
    services = Replicas(cluster, [0, 1, 2], tmp_path, secret)
    clients = Clients(cluster, cluster.add(), services.address, secret, seed, CLIENTS)
    struck(services, clients, plan(seed, LED, AT_LEADER), seed)


def struck(services, clients, strikes, seed):
    """How many of the calls meanwhile ended how."""
    dice = random.Random(seed)
    print(f"seed {seed}: {', '.join(strikes)}")
    for kind in strikes:
        clients.progress()
        services.strike(kind, dice)
    clients.progress()
    clients.stop()
    history = clients.history()
    ends = collections.Counter(call.outcome for call in history)
    print(f"{len(history)} calls: {dict(ends)}")
    assert not lost(clients.own(), clients.read("own-"))
    found = check([*history, *clients.last_reads()])
    assert not found, "\n".join(map(str, found))
    assert {call.client for call in history} == set(range(CLIENTS))
    return ends


class Training:
    """The example on three machines, two ranks on each, and clients that write to its service. One is
    started, and no process after it."""

    def __init__(self, cluster, folder, seed):
        self.nodes = Nodes(cluster, [CHARLM, "--steps", TRAINED, folder], "--lease", TRAINING_LEASE,
                           "--max-restarts", 0)
        words = self.nodes.words
        self.out = self.nodes.on[0].out
        self.clients = Clients(cluster, 1, words[words.index("--join") + 1],
                               words[words.index("--secret-file") + 1], seed, 2, 40, self.nodes.job)

    def step(self):
        """The last that was reported."""
        said = self.out.having(" step ")
        return int(re.search(r" step (\d+) ", said[-1])[1]) if said else 0

    def may_be_struck(self):
        """When it has made progress since the last strike, and is not about to end."""
        self.out.wait_for(f" step {self.step() + REPORT} ")
        return self.step() < LAST_STRIKE

    def strike(self, kind):
        """At the service, where it is."""
        service = self.nodes.service()
        if kind == "kill":
            os.kill(service, signal.SIGKILL)
            until(lambda: self.nodes.services() not in ([], [service]))
        else:
            os.kill(service, signal.SIGSTOP)
            select.poll().poll(FROZEN_S * 1000)
            os.kill(service, signal.SIGCONT)
        self.clients.progress(5)

    def read(self):
        """What the clients have written. The training does not end meanwhile: it needs rank 0."""
        (rank,) = [int(event["pid"]) for event in events(self.nodes.on[0], "started") if event.index == 0]
        os.kill(rank, signal.SIGSTOP)
        self.clients.stop()
        found = self.clients.read("own-"), self.clients.last_reads()
        os.kill(rank, signal.SIGCONT)
        return found

    def end(self, digest):
        """Its weights are right, and no rank was lost, interrupted or started again."""
        trained(self.nodes.on[0], TRAINED)
        assert self.nodes.codes() == [0, 0, 0], self.nodes.told()
        assert result(self.nodes.on[0])["digest"] == digest
        for node in self.nodes.on:
            assert len(events(node, "started")) == len(events(node, "entered")) == 2
            assert not node.log.having("member-lost")


@pytest.fixture(scope="module")
def digest_of_trained(tmp_path_factory, folder):  # noqa: F811
    return digest_of(tmp_path_factory, folder, TRAINED)


def test_a_training_whose_service_is_struck(cluster, folder, digest_of_trained):  # noqa: F811
    """The service of a training on three nodes is killed, and frozen for 5 s, again and again.
    The weights are the same in every bit, no rank is lost, interrupted or started again, and
    each write that was acknowledged to a client beside the ranks is there.
    [examples / Training]"""
    seed = seed_of()
    left = random.Random(seed).sample(["kill", "freeze"] * STRUCK, 2 * STRUCK)
    while left:
        training = Training(cluster, folder, seed + len(left))
        while left and training.may_be_struck():
            training.strike(left.pop())
        own, reads = training.read()
        assert not lost(training.clients.own(), own)
        found = check([*training.clients.history(), *reads])
        assert not found, "\n".join(map(str, found))
        training.end(digest_of_trained)


def test_the_seed_decides_the_strikes():
    """The seed decides the strikes on the service, and every kind is among them."""
    count = 8 * len(KINDS)
    assert plan(3, count) == plan(3, count) != plan(4, count)
    assert collections.Counter(plan(3, count)) == collections.Counter(KINDS * 8)
