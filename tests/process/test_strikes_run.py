# SPDX-License-Identifier: Apache-2.0
"""A training over three nodes whose service has three replicas. The leader is struck again and again, in the
end with its host.

behaviour: nodes / Replicas of the service
"""

import os
import random
import re

import pytest

from conftest import sanitized
from linearizable import check
from running import until
from strikes import AT_LEADER, FROZEN_S, Clients, lost, seed_of
from test_demo import CHARLM, digest_of, events, folder  # noqa: F401
from test_nodes import cluster  # noqa: F401
from test_run_replicas import WHY_NOT, Replicated, replica, told

ASKED = "MUSTER_LED" in os.environ
pytestmark = pytest.mark.skipif(WHY_NOT is not None and not ASKED, reason=str(WHY_NOT))

LED = int(os.environ.get("MUSTER_LED", "1"))  # strikes of each kind; `make soak` does more
TRAINED = 200 if sanitized() else 400  # steps of a training
STRIKES = [kind for kind in AT_LEADER if kind != "host"]  # which is the last of a training
HELD = TRAINED * 6 // 10, TRAINED * 8 // 10  # steps at which it waits for the loss of a host, and for the further node
LEASE_S = 20  # an election takes a twentieth of it at least, on a busy machine too


class Training(Replicated):
    """The example, two ranks on each node, and clients on a machine of their own."""

    def __init__(self, cluster, folder, seed):  # noqa: F811
        super().__init__(cluster, "--join-wait", "60s", "--max-restarts", 20, nnodes="2:3", lease_s=LEASE_S,
                         program=[CHARLM, "--steps", TRAINED, folder], CHARLM_HOLD=",".join(map(str, HELD)))
        words = self.typed
        self.clients = Clients(cluster, cluster.add(), words[words.index("--join") + 1],
                               words[words.index("--secret-file") + 1], seed, 2, 40, self.job)

    def live(self):
        return [number for number in range(len(self.on)) if number not in self.lost]

    def machine(self, service):
        """Of the leader, by the host that status names."""
        (number,) = [number for number in self.live() if self.cluster.host(number) == service["host"]]
        return number

    def chaos(self, service, *words):
        done = self.cluster.muster(self.machine(service), "chaos", *words, "-j", self.job)
        assert done.returncode == 0, done.stderr
        until(lambda: (replica(self.cluster, self.machine(service)) or (service["pid"],))[0] != service["pid"])

    def kill(self, service):
        self.chaos(service, "kill", "leader")

    def freeze(self, service):
        self.chaos(service, "freeze", "leader", "--for", f"{FROZEN_S}s")

    def cut(self, service):
        """Nothing comes to its host and nothing from it, until another one leads."""
        number = self.machine(service)
        self.cluster.cable(number, "down")
        other = next(live for live in self.live() if live != number)
        until(lambda: told(self.cluster, other, self.job)["host"] != service["host"])
        self.cluster.cable(number, "up")

    def host(self, service):
        """It dies in silence, and the ranks of the others go on until they wait for the next node."""
        assert {event["generation"] for number in self.live() for event in events(self.on[number], "entered")} == {"1"}
        self.lose(self.machine(service))
        for step in range(20, HELD[1], 20):  # on a busy machine one wait is not enough for all of them
            until(lambda: self.reached(step))
        until(lambda: [event for number in self.live() for event in events(self.on[number], "holding")
                       if int(event["step"]) == HELD[1]])

    def reached(self, step):
        """Whether a rank that lives has told of this step or a later one."""
        told_steps = [re.search(r" step (\d+) ", line) for number in self.live()
                      for line in self.on[number].out.having("@", " step ")]
        return any(int(found[1]) >= step for found in told_steps)

    def strike(self, kind):
        getattr(self, kind)(self.whole())
        self.clients.progress(5)

    def read(self):
        """What the clients have written, while the job is there."""
        self.clients.stop()
        return self.clients.read("own-"), self.clients.last_reads()

    def replace(self):
        """One more node takes the place of the lost one, its replica too."""
        machine = self.cluster.add()
        while len(self.on) < machine:  # a process has the number of its machine; the clients have one too
            self.lost.add(len(self.on))
            self.on.append(self.on[0])
        self.join_further(machine, self.typed)

    def end(self, digest):
        """Its weights are right, and no process of a host that was not lost was started again."""
        codes = [self.on[number].wait() for number in self.live()]
        assert codes == [0] * len(codes), self.told()
        results = [event for number in self.live() for event in events(self.on[number], "result")]
        assert {event["digest"] for event in results} == {digest}, self.told()
        entered = [int(event["generation"]) for number in self.live() for event in events(self.on[number], "entered")]
        # Without the lost node, and then with the ranks of the next, together or one by one.
        assert {1, 2, 3} <= set(entered) <= {1, 2, 3, 4}, self.told()
        assert [len(events(self.on[number], "started")) for number in self.live()] == [2, 2, 2], self.told()


@pytest.fixture(scope="module")
def digest_of_trained(tmp_path_factory, folder):  # noqa: F811
    return digest_of(tmp_path_factory, folder, TRAINED)


def test_a_training_whose_leader_is_struck(cluster, folder, digest_of_trained):  # noqa: F811
    """The replica that leads the service of a training on three nodes is killed, frozen for 5 s,
    cut off with its host until another one leads, and lost with its host, whose place a further
    node takes. The weights are the same in every bit, no process of another host is started
    again, only the lost host interrupts the ranks, and each write that was acknowledged to a
    client beside the ranks is there."""
    seed = seed_of()
    dice = random.Random(seed)
    for _ in range(LED):
        strikes = [*dice.sample(STRIKES, len(STRIKES)), "host"]
        print(f"seed {seed}: {', '.join(strikes)}")
        training = Training(cluster, folder, dice.randrange(1 << 30))
        for kind in strikes:
            training.strike(kind)
        own, reads = training.read()
        assert not lost(training.clients.own(), own)
        found = check([*training.clients.history(), *reads])
        assert not found, "\n".join(map(str, found))
        training.replace()
        training.end(digest_of_trained)
        for number in training.lost & set(range(3)):
            cluster.cable(number, "up")  # for the next training
