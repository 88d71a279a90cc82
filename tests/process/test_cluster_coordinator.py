# SPDX-License-Identifier: Apache-2.0
"""The coordinator with real workers: errors and their delivery, state servers, its own end and that
of others. A number at the end of a name is that of the scenario.

behaviour: cluster
"""

import contextlib
import itertools
import os
import pathlib
import signal
import socket
import threading
import time

import pytest

from clusters import LONG_LEASE_S, SHORT_LEASE_S, SOON_S, Driver, Hold, Worker
from conftest import WAIT_S
from running import until

# For who waits until it is known that the coordinator is gone: nobody else sees its end.
short_lease = pytest.mark.parametrize("job", [SHORT_LEASE_S], indirect=True, ids=["short-lease"])


@pytest.fixture
def hold(tmp_path):
    return Hold(tmp_path / "hold")


@pytest.fixture
def job(request, env, started, serve, hold):
    """A service, whose job's workers and coordinators are started one by one."""

    class Job:
        def __init__(self):
            service = serve("--lease", f"{getattr(request, 'param', LONG_LEASE_S)}s")
            env.update(MUSTER_ADDR=service.address, CW_HOLD=str(hold.path))
            self.env = env
            self.workers = []

        def worker(self, index, **settings):
            worker = Worker(env, index, **settings)
            started.append(worker)
            self.workers.append(worker)
            return worker

        def driver(self, workers=0, **settings):
            for index in range(workers):
                self.worker(index)
            driver = Driver({**env, **settings})
            started.append(driver)
            driver.until(present=len(self.workers))
            return driver

    made = Job()
    yield made
    for worker in made.workers:
        if worker.process.poll() is None:
            worker.signal(signal.SIGCONT)
            worker.kill()


@pytest.fixture
def state_server(tmp_path):
    """A double: answers each connection with a number, until it is killed."""

    class Server:
        def __init__(self):
            self.path = str(tmp_path / "ps")
            self.asked = 0
            self.start()

        def start(self):
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(self.path)
            self.listener.listen(64)
            self.thread = threading.Thread(target=self._serve, daemon=True)
            self.thread.start()

        def _serve(self):
            while True:
                try:
                    peer, _ = self.listener.accept()
                except OSError:
                    return
                self.asked += 1
                with peer, contextlib.suppress(OSError):  # of a worker that was killed meanwhile
                    peer.sendall(b"17")

        def kill(self):
            os.unlink(self.path)
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
            self.thread.join()

    server = Server()
    yield server
    if os.path.exists(server.path):
        server.kill()


# ---- errors ----


def test_one_of_four_fails_30(job):
    """Three closures succeed and one fails, on three workers. join gets the error."""
    driver = job.driver(3)
    for i in range(3):
        driver.schedule(f"g{i}", "add", i, 1)
    driver.schedule("bad", "fail", 7, "no such thing")
    status, text = driver.ask("join", 25000)
    assert status == "MUSTER_EFAILED"
    assert "code 7" in text and "no such thing" in text and "closure 4" in text
    assert driver.ask("join", 25000)[0] == "MUSTER_OK"
    driver.end()


def test_a_schedule_gets_the_error_31(job):
    """One closure fails while good ones are scheduled in a loop. Some schedule gets the error
    within 1 s, and join after it is clean."""
    driver = job.driver(2)
    driver.schedule("bad", "fail", 7, "early")
    deadline = time.monotonic() + WAIT_S
    while True:
        status, *words = driver.ask("schedule", "good", "nothing", "--")
        if status != "MUSTER_OK":
            break
        assert time.monotonic() < deadline
    assert status == "MUSTER_EFAILED" and "early" in words[0] and words[0].startswith("schedule 'nothing'")
    assert driver.ask("join", 25000)[0] == "MUSTER_OK"
    driver.end()


def test_join_after_an_error_tells_nothing_old_32(job):
    """Closures that fail are scheduled until a schedule gets an error. join after it gets at most
    an error of what was admitted since, never an old one."""
    driver = job.driver(2)
    deadline = time.monotonic() + WAIT_S
    for i in itertools.count():
        status, *words = driver.ask("schedule", "bad", "fail", "--", i, f"number {i}")
        if status != "MUSTER_OK":
            break
        assert time.monotonic() < deadline
    assert status == "MUSTER_EFAILED"
    assert driver.ask("join", 25000)[0] == "MUSTER_OK"  # nothing was admitted since
    driver.schedule("new", "fail", 3, "the new one")
    status, text = driver.ask("join", 25000)
    assert status == "MUSTER_EFAILED" and "the new one" in text
    driver.end()


def test_the_next_error_is_told_too_33(job):
    """join got an error; three good ones and one that fails follow. join gets the new error."""
    driver = job.driver(2)
    for turn in ("first", "second"):
        for i in range(3):
            driver.schedule(f"{turn}{i}", "add", i, 1)
        driver.schedule(f"{turn}-bad", "fail", 5, turn)
        status, text = driver.ask("join", 25000)
        assert status == "MUSTER_EFAILED" and text.endswith(turn)
    driver.end()


def test_no_text_decides_anything_36(job):
    """The text of an error looks like one of the transport. It is the function's error, at once:
    no text decides anything."""
    hostile = "Unavailable: worker lost, connection reset; MUSTER_ESTATE /job:worker/task:0 /job:ps"
    driver = job.driver(1)
    assert driver.ask("state", "ps")[0] == "MUSTER_OK"
    driver.schedule("bad", "fail", 2, hostile)
    status, text = driver.ask("join", 25000)
    assert status == "MUSTER_EFAILED" and hostile in text
    counts = driver.counts()
    assert counts["retried"] == counts["put_back"] == "0"
    driver.end()


def test_collect_tells_of_all_37(job):
    """Seven of 100 closures fail; the policy is to collect. All 100 run, and join reports seven
    and which."""
    driver = job.driver(2, MUSTER_CLUSTER_POLICY="collect")
    for i in range(100):
        if i % 15 == 0:
            driver.schedule(f"c{i}", "fail", i, f"bad {i}")
        else:
            driver.schedule(f"c{i}", "add", i, 1)
    status, _ = driver.ask("join", 25000)
    assert status == "MUSTER_EFAILED"
    counts = driver.counts()
    assert (counts["values"], counts["failures"]) == ("93", "7")
    assert driver.ask("join", 25000)[0] == "MUSTER_OK"
    driver.end()


def test_isolated_errors_stay_in_their_closures_37(job):
    """The policy is to isolate. Errors stay in their closures: join is clean, and each handle has
    its own."""
    driver = job.driver(2, MUSTER_CLUSTER_POLICY="isolate")
    for i in range(100):
        if i % 15 == 0:
            driver.schedule(f"c{i}", "fail", i, f"bad {i}")
        else:
            driver.schedule(f"c{i}", "add", i, 1)
    assert driver.ask("join", 25000)[0] == "MUSTER_OK"
    for i in range(100):
        status = driver.ask("fetch", f"c{i}", 25000)[0]
        assert status == ("MUSTER_EFAILED" if i % 15 == 0 else "MUSTER_OK"), i
    driver.end()


def test_a_worker_dies_while_a_closure_fails_45(job, hold):
    """A worker is killed while a closure fails. join gets the function's error and not the
    worker's; what ran long is cancelled; the next ones work."""
    driver = job.driver(2)
    driver.schedule("long", "sleep", 60000, "long")
    until(lambda: hold.lines("began"))
    victim = job.workers[int(hold.lines("began")[0].split()[0])]
    driver.schedule("bad", "fail", 9, "the user's own")
    victim.kill()
    status, text = driver.ask("join", 25000)
    assert status == "MUSTER_EFAILED" and "the user's own" in text
    assert driver.ask("fetch", "long", 25000)[0] == "MUSTER_ECANCELLED"
    assert driver.call("add", 1, 2) == ["3"]
    driver.end()


# ---- state servers ----


@pytest.mark.parametrize("told_by", ["join", "schedule"])
def test_a_state_server_is_killed_63(job, state_server, told_by):
    """A state server is killed while closures use it. join and schedule get an error of origin
    STATE that names it; no worker is blamed."""
    driver = job.driver(2)
    assert driver.ask("state", "ps0")[0] == "MUSTER_OK"
    for i in range(2):
        driver.schedule(f"e{i}", "ask", "ps0", state_server.path, "never")
    until(lambda: state_server.asked > 2)
    state_server.kill()
    while True:
        order = ["join", 25000] if told_by == "join" else ["schedule", "more", "nothing", "--"]
        status, *words = driver.ask(*order)
        if status != "MUSTER_OK":
            break
    assert status == "MUSTER_ESTATE" and "state server 'ps0' unavailable" in words[0]
    assert driver.ask("worker", 0)[1:][-2] == "losses=0"
    assert driver.ask("worker", 1)[1:][-2] == "losses=0"
    driver.end()


def test_a_worker_dies_and_then_a_state_server_64(job, state_server, hold):
    """A worker dies, and a state server dies while it recovers. join gets the state server's
    error; nothing hangs."""
    driver = job.driver(2)
    assert driver.ask("state", "ps0")[0] == "MUSTER_OK"
    for i in range(2):
        driver.schedule(f"e{i}", "ask", "ps0", state_server.path, "never")
    until(lambda: state_server.asked > 2)
    job.workers[0].kill()
    state_server.kill()
    status, text = driver.ask("join", 25000)
    assert status == "MUSTER_ESTATE" and "ps0" in text
    driver.end()


def test_each_worker_blames_the_state_server_65(job, state_server):
    """All state servers are dead, and each worker runs a function that asks one. Each worker
    reports the state server, not itself."""
    driver = job.driver(3, MUSTER_CLUSTER_TRANSIENT_LIMIT="-1", MUSTER_CLUSTER_POLICY="isolate")
    assert driver.ask("state", "ps0")[0] == "MUSTER_OK"
    state_server.kill()
    for i in range(12):
        driver.schedule(f"e{i}", "ask", "ps0", state_server.path, "")
    for i in range(12):
        assert driver.ask("wait", f"e{i}", 25000)[0] == "MUSTER_OK"
        assert driver.ask("failure", f"e{i}")[1] == "state"
    driver.end()


def test_shared_state_is_read_while_a_worker_comes_and_goes_66(job, state_server):
    """Shared state is read 200 times while a worker comes and goes. There is no error, and no
    round takes longer than 1 s."""
    driver = job.driver(2)
    assert driver.ask("state", "ps0")[0] == "MUSTER_OK"
    for i in range(200):
        if i in (50, 120):
            job.workers[-1].kill()
        if i in (80, 150):
            job.worker(1)
            driver.until(present=2)  # so that somebody sees its end
        driver.schedule(f"r{i}", "ask", "ps0", state_server.path, "")
        assert driver.fetch(f"r{i}") == ["17"]
    counts = driver.counts()
    assert counts["values"] == "200" and counts["failures"] == "0"
    driver.end()


# ---- the coordinator itself ----


def test_results_stay_when_all_workers_are_dead_29(job):
    """A result was fetched; then all workers are killed; it is fetched again. The bytes are the
    same, at once: READY is said only when they are in the coordinator. There is no copy on the
    worker to ask for."""
    driver = job.driver(2)
    driver.schedule("sum", "add", 1, 2)
    assert driver.fetch("sum") == ["3"]
    for worker in job.workers:
        worker.kill()
    assert driver.fetch("sum") == ["3"]
    driver.schedule("more", "add", 1, 2)
    assert driver.ask("fetch", "more", 50)[0] == "MUSTER_ETIMEDOUT"
    driver.end()


@short_lease
def test_the_next_coordinator_has_the_workers_of_a_dead_one(job, hold):
    """A coordinator dies, and another one opens the same cluster. It has the same workers at
    once: they drop what they ran for the dead one, and nothing of that is run or ended after
    its first closure began. [A coordinator and its program]"""
    first = job.driver(2)
    for i in range(6):
        first.schedule(f"s{i}", "sleep", 60000, f"old{i}")
    until(lambda: len(hold.lines("began")) >= 2)
    first.kill()
    second = job.driver()
    assert second.call("add", 20, 3) == ["23"]
    second.schedule("a", "sleep", 0, "new")
    assert second.ask("join", 25000)[0] == "MUSTER_OK"
    assert not [line for line in hold.lines("ended") if "old" in line]
    began = [line.split()[1] for line in hold.lines("began")]
    assert "new" not in began[: began.index("new")]
    assert not [name for name in began[began.index("new") :] if name.startswith("old")]
    second.end()


@short_lease
def test_a_stopped_coordinator_is_superseded_71(job, hold):
    """A coordinator is stopped, another one takes its place, the first is continued. The workers
    obey the larger term only; a call of the first one gets EFENCED."""
    first = job.driver(2)
    first.schedule("old", "sleep", 60000, "old")
    until(lambda: hold.lines("began"))
    first.signal(signal.SIGSTOP)
    second = job.driver()  # once the lease of the first is over
    assert second.call("add", 4, 5) == ["9"]
    first.signal(signal.SIGCONT)
    status, text = first.ask("join", 25000)
    assert status == "MUSTER_EFENCED", text
    status, text = first.ask("schedule", "late", "add", "--", 1, 2)
    assert status == "MUSTER_EFENCED", text
    assert second.call("add", 5, 5) == ["10"]
    assert not hold.lines("ended")
    second.end()


def threads_of(driver):
    return len(os.listdir(f"/proc/{driver.pid}/task"))


def sockets_of(env):
    return list(pathlib.Path(env["MUSTER_RUNTIME_DIR"]).glob(".cluster-*"))


@pytest.mark.parametrize("loaded", [False, True], ids=["idle", "loaded"])
def test_close_leaves_nothing_73(job, loaded, lateness):
    """A coordinator is closed, idle or under load. Within 1 s no thread, child or socket of it is
    left."""
    driver = job.driver(2)
    before = threads_of(driver)
    assert len(sockets_of(job.env)) == 1
    if loaded:
        for i in range(1000):
            driver.schedule(f"s{i}", "sleep", 60000, "x")
    began = time.monotonic()
    assert driver.ask("close")[0] == "MUSTER_OK"
    assert time.monotonic() - began < SOON_S + lateness.spare_s()
    assert sockets_of(job.env) == []
    until(lambda: threads_of(driver) < before)  # one that was joined is listed for a moment more
    driver.end()
