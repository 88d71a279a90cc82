# SPDX-License-Identifier: Apache-2.0
"""A coordinator with several workers: what is not about one function or one fault. A number at the
end of a name is that of the scenario.

behaviour: cluster
"""

import random
import re
import socket
import time

import pytest

from clusters import LONG_LEASE_S, Driver, Hold, Worker
from running import until

THREADS = 10
EACH = 10
JOIN_MS = 1000
SLACK_S = 10  # of a loaded machine
MANY = 40
GARBAGE = 300


@pytest.fixture
def hold(tmp_path):
    return Hold(tmp_path / "hold")


@pytest.fixture
def cluster(env, started, serve, hold):
    """cluster(workers, settings of the coordinator...)"""

    def start(index):
        worker = Worker(env, index)
        started.append(worker)
        make.workers.append(worker)
        return worker

    def make(count, **settings):
        env.update(MUSTER_ADDR=serve("--lease", f"{LONG_LEASE_S}s").address, CW_HOLD=str(hold.path))
        make.workers, make.start = [], start
        for index in range(count):
            start(index)
        driver = Driver({**env, **settings})
        started.append(driver)
        driver.until(present=count)
        return driver

    yield make
    for worker in getattr(make, "workers", []):
        if worker.process.poll() is None:
            worker.kill()


def test_ten_threads_schedule_while_workers_are_lost_8(cluster):
    """Ten threads schedule, and workers put back every other closure. Each ends exactly once,
    join returns, all is done."""
    driver = cluster(2)
    answers = [driver.begin("schedule", f"c{i}", "add", "--", i, 1, beside=True)
               for i in range(THREADS * EACH)]
    cluster.workers[0].kill()
    assert all(answer()[0] == "MUSTER_OK" for answer in answers)
    assert driver.ask("join", 25000)[0] == "MUSTER_OK"
    assert driver.ask("done") == ["MUSTER_OK", "yes"]
    assert [driver.fetch(f"c{i}") for i in range(THREADS * EACH)] == [
        [str(i + 1)] for i in range(THREADS * EACH)]
    assert driver.counts()["values"] == str(THREADS * EACH)
    driver.end()


def test_what_happens_meanwhile_does_not_begin_the_wait_of_a_join_anew_14(cluster, hold):
    """join has a limit of 1 s, while unrelated things happen every 100 ms. It ends with ETIMEDOUT
    after 1 s: they do not begin it anew."""
    driver = cluster(2)
    driver.schedule("held", "until", "go")
    until(lambda: hold.lines("began"))
    begin = time.monotonic()
    join = driver.begin("join", JOIN_MS, beside=True)
    ended = 0
    while time.monotonic() - begin < JOIN_MS / 1000:
        driver.schedule("other", "nothing")
        assert driver.ask("wait", "other", 25000)[0] == "MUSTER_OK"
        ended += 1
    assert ended > 0
    assert join()[0] == "MUSTER_ETIMEDOUT"
    assert JOIN_MS / 1000 <= time.monotonic() - begin < JOIN_MS / 1000 + SLACK_S
    hold.mark("go")
    assert driver.ask("join", 25000)[0] == "MUSTER_OK"
    driver.end()


def test_each_worker_has_the_shard_of_its_number_22(cluster, hold):
    """Five workers keep a shard each, made of their number; one closure each adds it up. The sums
    are 5, 7, 9, 11, 13."""
    driver = cluster(5)
    assert driver.ask("value", "v", "shard")[0] == "MUSTER_OK"
    for i in range(5):
        driver.schedule(f"c{i}", "share", "all", need="v")
    until(lambda: len(hold.lines("began")) == 5)  # one on each
    hold.mark("all")
    assert sorted(int(driver.fetch(f"c{i}")[0]) for i in range(5)) == [5, 7, 9, 11, 13]
    driver.end()


def test_two_iterations_of_a_dataset_begin_anew_23(cluster):
    """A dataset is iterated twice. There are two iterators: the first element of each is the
    first one."""
    driver = cluster(1)
    assert driver.ask("dataset", "d", "counter", "--", 100)[0] == "MUSTER_OK"
    for name in ("one", "two"):
        assert driver.ask("iterate", name, "d")[0] == "MUSTER_OK"
    assert [driver.call("count", need=name) for name in ("one", "one", "two", "one", "two")] == [
        ["101"], ["102"], ["101"], ["103"], ["102"]]
    driver.end()


def test_a_program_that_calls_nothing_is_no_hindrance_89(cluster, hold):
    """The program computes for a minute and calls nothing. Dispatch, recovery and leases go on in
    the coordinator's own thread."""
    driver = cluster(2)
    for i in range(MANY):
        driver.schedule(f"c{i}", "sleep", 20, i)
    cluster.workers[1].kill()
    cluster.start(1)
    # No order is given meanwhile: the program waits for one, and calls nothing.
    until(lambda: len({line.split()[1] for line in hold.lines("ended")}) == MANY)
    assert driver.ask("join", 25000)[0] == "MUSTER_OK"
    driver.end()


def test_damaged_bytes_cost_their_sender_the_connection_96(cluster, muster, env):
    """A million damaged frames come to coordinator and worker. There is no crash and no memory
    beyond the limits; the sender loses the connection and others notice nothing."""
    driver = cluster(1)
    said = muster("key", "get", "muster/cluster/default", "--addr", env["MUSTER_ADDR"]).stdout
    path = re.match(r"unix:([^, ]+)", said)[1]
    dice = random.Random(96)
    for _ in range(GARBAGE):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.settimeout(SLACK_S)
            stranger.connect(path)
            begin = b"MUSTERC\x01" if dice.random() < 0.7 else b""
            stranger.sendall(begin + dice.randbytes(dice.randrange(1, 400)))
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(4096):
                pass
    assert driver.call("add", 2, 3) == ["5"]
    assert driver.counts()["put_back"] == "0"
    driver.end()
