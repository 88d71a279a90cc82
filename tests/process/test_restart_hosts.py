# SPDX-License-Identifier: Apache-2.0
"""Restarts of ranks on several machines: one of them is lost, or cannot be reached for a while.

behaviour: restart
"""

import contextlib
import os
import select
import shutil
import signal
import tempfile

import pytest

from nodes import Losses, joining
from restarting import MARK, RANK, Job, marked, pids
from running import until, wait_gone
from test_nodes import WHY_NOT, cluster  # noqa: F401

pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

SHORT_S, LONG_S = 4, 10
CUT_S = 1.5  # much less than 0.8 of the long lease; nothing but time can show that nothing happens


class Machines(Job):
    """Ranks under orders, on the machines of a cluster."""

    def __init__(self, cluster, folder):
        super().__init__(None, cluster.env, folder)
        self.cluster = cluster
        self.service = None
        self.ranks = {}

    def run_on_two(self, *flags):
        """A `muster run` of two ranks on each; all four are in the function."""
        mine = {MARK: self.path}
        first = self.cluster.start(0, "run", "--nnodes", 2, "-n", 2, "-j", "two", *flags, "--",
                                   RANK, self.path, **mine)
        self.runner = first
        second = self.cluster.start(1, "run", *joining(first, "--node-rank", 1), **mine)
        return (first, second), self.entered(4)

    def serve(self, lease_s):
        """A service on machine 0, for ranks that nobody watches but their helpers."""
        secret = self.path + ".secret"
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write("0123456789abcdef" * 2)
        self.runner = self.service = self.cluster.start(
            0, "serve", "--addr", f"{self.cluster.address(0)}:0", "--secret-file", secret,
            "--lease", f"{lease_s}s")
        said = self.service.out.wait_for("muster: serving on ").split()[-1]
        self.place = {"MUSTER_ADDR": said, "MUSTER_SECRET_FILE": secret, "MUSTER_MIN_SIZE": "1",
                      MARK: self.path}

    def start(self, machines, **more):
        """One rank on each of these machines."""
        for index, number in enumerate(machines):
            self.ranks[index] = self.cluster.spawn(
                self.cluster.words(number, RANK, self.path),
                {**self.cluster.environment(number), **self.place, **more,
                 "MUSTER_INDEX": str(index), "MUSTER_SIZE": str(len(machines))})
        return self.entered(len(machines))

    def all_gone(self):
        until(lambda: not marked(self.path))


@pytest.fixture
def machines(cluster):  # noqa: F811
    folder = tempfile.mkdtemp(prefix="mst-", dir="/tmp")
    made = Machines(cluster, folder)
    yield made
    made.socket.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("how", ["all of it", "its muster run"])
def test_lost_host_costs_its_ranks_in_one_step_38(machines, cluster, how):  # noqa: F811
    """A whole machine of two ranks is gone, or the `muster run` on it is killed. Both ranks and
    the agent are lost in one step, as unresponsive; the others finish and end with 0, and
    nothing is left."""
    runs, ranks = machines.run_on_two("--lease", f"{SHORT_S}s", "--max-restarts", 0, "--min-size", 2)
    losses = Losses(f"unix:{cluster.directories[0]}/two.sock", "two", SHORT_S)
    mark = machines.mark()
    ends = [os.pidfd_open(pid) for pid in cluster.pids(1)]
    os.kill(runs[1].pid, signal.SIGKILL)
    for pid in cluster.pids(1) if how == "all of it" else []:
        with contextlib.suppress(ProcessLookupError):  # it has ended with its run
            os.kill(pid, signal.SIGKILL)
    wait_gone(*ends)
    again = machines.entered(2, mark, size=2, iteration=1, generation=2)
    assert pids(again) == pids(ranks[:2])
    assert [lost for _, lost in losses.close()] == [{("agent", 1), ("rank", 2), ("rank", 3)}]
    faults = [event for event in machines.events[mark:] if event.what == "fault"]
    assert {(event["kind"], event.number("index")) for event in faults} == {
        ("unresponsive", 2), ("unresponsive", 3)}
    mark = machines.mark()
    machines.order(again, "ok")
    machines.finish(2, mark)
    assert runs[0].wait() == 0, runs[0].log.lines
    machines.all_gone()
    until(lambda: cluster.pids(0) == [])


@pytest.mark.parametrize("helper", ["1", "0"])
def test_cut_off_for_longer_than_the_lease_40(machines, cluster, helper):  # noqa: F811
    """A rank's connection is cut for longer than the lease, while it is blocked in the function.
    It leaves the function by itself before the others take it for lost. When it can be reached
    again it learns of its loss (EFENCED), and does not enter again."""
    machines.serve(SHORT_S)
    ranks = machines.start([0, 0, 1], MUSTER_AGENT=helper)
    mark = machines.mark()
    machines.order(ranks[2:], "block read")
    machines.wait("blocked", 1)
    cluster.cable(1, "down")
    (freed,) = machines.wait("freed", 1, mark, errno=4)
    assert freed.pid == ranks[2].pid
    assert not [event for event in machines.events[mark:] if event.what == "told"]
    again = machines.entered(2, mark, size=2, generation=2)
    assert pids(again) == pids(ranks[:2])
    told = machines.wait("told", 2, mark)
    assert freed.at < min(event.at for event in told)
    end = os.pidfd_open(ranks[2].pid)
    cluster.cable(1, "up")
    if helper == "0":
        machines.order(machines.wait("done", 1, mark, status="MUSTER_EFENCED"), "end")
    wait_gone(end)  # with a helper it may be ended by that
    assert machines.ranks[2].wait() != 0
    assert [event.pid for event in machines.events if event.what == "entered"].count(ranks[2].pid) == 1
    machines.service.log.wait_for("member-lost #2", "cause=lease")
    assert len(machines.service.log.having("member-lost #")) == 1
    while machines.see(0):  # the last words of that one
        pass
    mark = machines.mark()
    machines.order(again, "ok")
    machines.finish(2, mark)
    assert [machines.ranks[index].wait() for index in (0, 1)] == [0, 0]
    machines.all_gone()


def test_cut_off_for_less_than_the_lease_is_not_noticed_41(machines, cluster):  # noqa: F811
    """A rank's connection is cut for less than the lease. Nothing happens."""
    machines.serve(LONG_S)
    ranks = machines.start([0, 0, 1])
    mark = machines.mark()
    cluster.cable(1, "down")
    select.poll().poll(CUT_S * 1000)
    cluster.cable(1, "up")
    machines.order(ranks, "meet")
    met = machines.wait("met", 3, mark, status="MUSTER_OK")
    assert {event["members"] for event in met} == {",".join(str(rank.pid) for rank in ranks)}
    machines.order(ranks, "ok")
    machines.finish(3, mark)
    assert [rank.wait() for rank in machines.ranks.values()] == [0, 0, 0]
    assert [event.what for event in machines.events].count("entered") == 3
    assert not [event for event in machines.events if event.what == "told"]
    assert not machines.service.log.having("member-lost")
    machines.all_gone()
