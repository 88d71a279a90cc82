# SPDX-License-Identifier: Apache-2.0
"""Workers that are killed, stopped, drained and started again while closures run. A number at the
end of a name is that of the scenario.

behaviour: cluster
"""

import os
import re
import signal

import pytest

from clusters import (LONG_LEASE_S, SHORT_LEASE_S, Driver, Hold, Worker, address_of, lives,
                      run_workers)
from conftest import WAIT_S
from running import until

QUIET_MS = 500  # in which nothing is to be heard
# Who has no agent that watches it is lost when its lease is over.
NOBODY = {"MUSTER_AGENT": "0"}


@pytest.fixture
def hold(tmp_path):
    return Hold(tmp_path / "hold")


@pytest.fixture
def cluster(env, started, serve, hold, tmp_path):
    def make(count, driver=None, lease=LONG_LEASE_S, **settings):
        service = serve("--lease", f"{lease}s")
        env.update(MUSTER_ADDR=service.address, CW_HOLD=str(hold.path))
        make.start = lambda index: start(index, settings)
        workers = [make.start(index) for index in range(count)]
        coordinator = Driver({**env, **(driver or {})})
        started.append(coordinator)
        coordinator.until(present=count)
        return coordinator, workers

    def start(index, settings):
        worker = Worker(env, index, **settings)
        started.append(worker)
        processes.append(worker)
        return worker

    processes = []
    yield make
    hold.mark("gone")  # for what outlives its worker
    for worker in processes:
        if worker.process.poll() is None:
            worker.signal(signal.SIGCONT)
            worker.kill()


def test_killed_between_functions_40(cluster):
    """A worker is killed and replaced between two pairs of closures. The counter is exactly 4."""
    driver, workers = cluster(1)
    assert [driver.call("add", n, 0) for n in (1, 2)] == [["1"], ["2"]]
    workers[0].kill()
    again = cluster.start(0)
    assert again.incarnation > workers[0].incarnation
    assert [driver.call("add", n, 0) for n in (3, 4)] == [["3"], ["4"]]
    assert driver.counts()["values"] == "4"
    driver.end()


def test_killed_within_a_function_41(cluster, hold):
    """One of two workers is killed within a closure and replaced; four closures run until they
    may end. All four end; done said no before."""
    driver, workers = cluster(2)
    for number in range(4):
        driver.schedule(f"u{number}", "until", "go")
    until(lambda: len(hold.lines("began")) == 2)
    workers[0].kill()
    cluster.start(0)
    until(lambda: len(hold.lines("began")) == 3)  # the one that it took along runs again
    assert driver.ask("done") == ["MUSTER_OK", "no"]
    hold.mark("go")
    assert driver.ask("join", 25000)[0] == "MUSTER_OK"
    assert driver.counts()["values"] == "4"
    driver.end()


@pytest.mark.parametrize("place", ["", "child."], ids=["here", "child"])
def test_another_takes_over_without_waiting_42(cluster, hold, place):
    """A worker is killed for good within a closure of 3 s while another one is idle. The other
    one runs it at once, without waiting for a replacement."""
    driver, workers = cluster(2)
    driver.schedule("long", f"{place}until", "go")
    until(lambda: hold.lines("began"))
    victim = workers[int(hold.lines("began")[0])]
    below = victim.family()
    victim.process.kill()
    driver.until(put_back=1)  # its helper saw it die: nobody waits for the lease
    until(lambda: not [pid for pid in below if lives(pid)])
    hold.mark("go")
    assert driver.fetch("long") == [str(1 - victim.index)]
    assert driver.counts()["put_back"] == "1"
    driver.end()


def test_two_workers_at_once_43(cluster, hold):
    """Both workers are killed within their closures and replaced. All ten closures end."""
    driver, workers = cluster(2)
    for number in range(10):
        driver.schedule(f"u{number}", "until", "go")
    until(lambda: len(hold.lines("began")) == 2)
    for worker in workers:
        worker.process.kill()
    for worker in workers:
        worker.wait()
        cluster.start(worker.index)
    hold.mark("go")
    assert driver.ask("join", 25000)[0] == "MUSTER_OK"
    assert driver.counts()["values"] == "10"
    driver.end()


def test_killed_again_and_again_44(cluster, hold):
    """A worker is killed, replaced, killed and replaced. join returns."""
    driver, workers = cluster(1, driver={"MUSTER_CLUSTER_POISON": "9"})
    driver.schedule("long", "until", "go")
    worker = workers[0]
    for turn in range(3):
        until(lambda turn=turn: len(hold.lines("began")) == turn + 1)
        worker.kill()
        worker = cluster.start(0)
    hold.mark("go")
    assert driver.fetch("long") == ["0"]
    driver.end()


def test_a_failure_of_the_user_while_a_worker_is_away_45(cluster, hold):
    """A worker is killed while a closure fails. join gets the function's error and not the
    worker's; what ran long is cancelled; the next ones work."""
    driver, workers = cluster(2)
    for number in range(3):
        driver.schedule(f"good{number}", "add", number, 0)
    driver.schedule("long", "spin")
    until(lambda: hold.lines("began"))
    workers[0].kill()
    driver.schedule("bad", "fail", 9, "the user's own")
    cluster.start(0)
    status, text = driver.ask("join", 25000)
    assert status == "MUSTER_EFAILED" and "the user's own" in text
    assert driver.ask("fetch", "long", 25000)[0] == "MUSTER_ECANCELLED"
    assert [driver.call("add", n, 0) for n in range(3)] == [["0"], ["1"], ["2"]]
    driver.end()


def test_thousands_while_the_only_worker_is_away_47(cluster):
    """5,000 closures are scheduled, the only worker is killed, and comes back later. There are
    5,000 values."""
    driver, workers = cluster(1)
    waits = [driver.begin("schedule", f"c{n}", "add", "--", n, 1) for n in range(5000)]
    assert all(wait()[0] == "MUSTER_OK" for wait in waits[::100])
    workers[0].kill()
    assert driver.ask("join", 100)[0] in ("MUSTER_ETIMEDOUT", "MUSTER_OK")
    cluster.start(0)
    assert driver.ask("join", 25000)[0] == "MUSTER_OK"
    assert driver.fetch("c4999") == ["5000"]
    assert driver.counts()["values"] == "5000"
    driver.end()


def test_started_again_at_once_48(cluster, hold):
    """A worker is killed and replaced within 50 ms, in the same place. Its incarnation tells: the
    attempt runs again, nothing of the old process is accepted, and no error is shown."""
    driver, workers = cluster(1, lease=SHORT_LEASE_S, **NOBODY)
    driver.schedule("long", "until", "go")
    until(lambda: hold.lines("began"))
    workers[0].process.kill()
    again = cluster.start(0)  # waits for the lease of the one before it
    assert again.incarnation > workers[0].incarnation
    until(lambda: len(hold.lines("began")) == 2)
    hold.mark("go")
    assert driver.fetch("long") == ["0"]
    assert driver.counts()["failures"] == "0"
    driver.end()


def test_stopped_and_continued_49(cluster, hold):
    """A worker is stopped for longer than its lease, then continued. It is lost, and its closure
    is committed elsewhere. What it hands in late is refused; it comes back with nothing."""
    driver, workers = cluster(2, lease=SHORT_LEASE_S, **NOBODY)
    driver.schedule("long", "until", "go")
    until(lambda: hold.lines("began"))
    frozen = workers[int(hold.lines("began")[0])]
    other = workers[1 - frozen.index]
    frozen.signal(signal.SIGSTOP)
    until(lambda: len(hold.lines("began")) == 2)  # its lease is over, and another one has it
    hold.mark("go")
    assert driver.fetch("long") == [str(other.index)]
    frozen.signal(signal.SIGCONT)  # it finds that it was given up
    assert frozen.wait() != 0
    frozen.out.wait_for("served MUSTER_EFENCED")
    cluster.start(frozen.index)
    driver.until(present=2)
    assert driver.counts()["values"] == "1"
    driver.end()


def test_an_orphan_keeps_the_sockets_50(cluster, hold):
    """A worker is killed while a child of it still holds its socket. Its death is known at once
    all the same: an agent watches the process and not the socket."""
    driver, workers = cluster(2)
    driver.schedule("fork", "orphan")
    driver.fetch("fork")
    orphan = int(hold.lines("orphan")[0])
    victim = workers[int(driver.ask("worker", 0)[1].split("=")[1])]
    if orphan not in victim.family():
        victim = workers[1 - victim.index]
    assert orphan in victim.family()
    for number in range(2):
        driver.schedule(f"u{number}", "until", "go")
    until(lambda: len(hold.lines("began")) == 2)
    victim.process.kill()
    victim.process.wait()
    assert lives(orphan)
    driver.until(put_back=1)
    hold.mark("go")
    assert driver.ask("join", 25000)[0] == "MUSTER_OK"
    hold.mark("gone")
    driver.end()


def test_a_coordinator_that_is_killed_takes_its_closures_along(cluster, hold):
    """The coordinator is killed within a closure, and no other one takes its place. The worker
    stops the closure once the coordinator is lost. [Workers]"""
    driver, _ = cluster(1, lease=SHORT_LEASE_S)
    driver.schedule("endless", "until", "never")
    until(lambda: hold.lines("began"))
    driver.process.kill()
    until(lambda: hold.lines("stopped"))


@pytest.mark.parametrize("how", ["signal", "coordinator"])
def test_drained_under_load_59(cluster, hold, how):
    """A worker is drained under load, by the coordinator or by SIGTERM. What it runs ends there,
    what it has not begun runs elsewhere, nothing runs twice, and it leaves."""
    driver, workers = cluster(2)
    for number in range(200):
        driver.schedule(f"s{number}", "sleep", 5, number)
    until(lambda: len({line.split()[0] for line in hold.lines("began")}) == 2)
    if how == "signal":
        leaves = workers[0]
        leaves.signal(signal.SIGTERM)
    else:
        leaves = workers[int(driver.ask("worker", 0)[1].split("=")[1])]
        assert driver.ask("drain-worker", 0)[0] == "MUSTER_OK"
    assert leaves.wait() == 0
    assert driver.ask("join", 25000)[0] == "MUSTER_OK"
    assert len(hold.lines("began")) == 200  # nothing was run twice
    assert driver.counts()["values"] == "200"
    driver.end()


def test_a_third_joins_under_load_60(cluster, hold):
    """A third worker joins while two are busy. It has work within 200 ms, and its own entry of
    each value."""
    driver, _ = cluster(2)
    driver.ask("value", "v", "counter", "eager", "--", 7)
    until(lambda: len(hold.lines("built")) == 2)
    for number in range(400):
        driver.schedule(f"u{number}", "until", "go")
    cluster.start(2)
    until(lambda: "2" in hold.lines("began"))
    until(lambda: sorted(hold.lines("built")) == ["0", "1", "2"])
    hold.mark("go")
    assert driver.ask("join", 25000)[0] == "MUSTER_OK"
    assert driver.counts()["values"] == "400"
    driver.end()


def test_a_killed_worker_takes_all_of_its_processes_along(cluster, hold, tmp_path, env):
    """A worker that runs a function, a child and a command is killed. All processes below it end,
    those that the command started too, and the command's folder is removed. [Workers]"""
    folder = tmp_path / "scratch"
    folder.mkdir()
    env["TMPDIR"] = str(folder)
    driver, workers = cluster(1, MUSTER_WORKER_SLOTS=3)
    driver.schedule("child", "child.deaf")
    driver.schedule("command", "sh", f"(echo x >>{hold.path}/began; sleep 1000) & sleep 1000")
    driver.schedule("here", "spin")
    until(lambda: len(hold.lines("began")) == 3)
    below = workers[0].family()
    assert len(below) >= 5
    workers[0].kill()
    until(lambda: not [pid for pid in below if lives(pid)])
    until(lambda: not os.listdir(folder))
    driver.ask("cancel-all")
    driver.end()


@pytest.mark.parametrize("victim", ["worker", "supervisor"])
def test_what_left_the_session_of_a_command_ends_with_its_worker(cluster, hold, tmp_path, env,
                                                                 victim):
    """A worker is killed while a process has left its command's session, or the process that
    keeps its children is killed. That process ends too, and the folder is removed. [Workers]"""
    folder = tmp_path / "scratch"
    folder.mkdir()
    env["TMPDIR"] = str(folder)
    driver, workers = cluster(1)
    driver.schedule("stray", "sh", f"trap '' TERM; (setsid sh -c 'echo $$ >>{hold.path}/began;"
                    "exec sleep 1000' &); while :; do sleep 1000; done")
    until(lambda: hold.lines("began"))
    stray = int(hold.lines("began")[0])
    until(lambda: parent_of(parent_of(parent_of(stray))) == workers[0].pid)
    supervisor = parent_of(parent_of(stray))
    below = workers[0].family()
    os.kill(supervisor if victim == "supervisor" else workers[0].pid, signal.SIGKILL)
    workers[0].wait()
    until(lambda: not [pid for pid in below if lives(pid)])
    until(lambda: not os.listdir(folder))
    driver.ask("cancel-all")
    driver.end()


def parent_of(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return int(stat.read().rsplit(")", 1)[1].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def test_its_supervisor_is_killed(cluster):
    """The process that supervises a worker's children is killed. The worker ends, and says why.
    [Workers]"""
    driver, workers = cluster(1)
    (child,) = {int(driver.call("child.about")[5])}
    supervisor = parent_of(child)
    os.kill(supervisor, signal.SIGKILL)
    assert workers[0].wait() == 1
    workers[0].log.wait_for("the process that keeps this worker's children and commands was killed")
    workers[0].out.wait_for("served MUSTER_EINTERNAL")
    cluster.start(0)
    assert driver.call("child.add", 1, 1) == ["2"]
    driver.end()


def test_its_supervisor_is_killed_while_a_folder_is_removed(cluster, hold):
    """The supervisor of a worker's children is killed while the folder of a command is removed,
    which takes long. The worker ends at once all the same. [Workers]"""
    driver, workers = cluster(1)
    (child,) = {int(driver.call("child.about")[5])}
    hold.mark("slow-removal")
    assert driver.call("sh", "echo done") == ["done"]
    until(lambda: hold.lines("removing"))
    os.kill(parent_of(child), signal.SIGKILL)
    assert workers[0].process.wait(WAIT_S) == 1
    hold.mark("remove")


def test_a_closure_comes_before_the_end_of_a_dead_child_is_told(cluster):
    """A child dies idle, and a closure comes before its end is reported. It runs in the next
    child, and costs no retry. [Workers]"""
    driver, _ = cluster(1)
    child = int(driver.call("child.about")[5])
    supervisor = parent_of(child)
    os.kill(supervisor, signal.SIGSTOP)
    try:
        os.kill(child, signal.SIGKILL)
        until(lambda: not lives(child))
        driver.schedule("next", "child.add", 1, 1, exhausted=-1, crash=-1)
        assert driver.ask("fetch", "next", QUIET_MS)[0] == "MUSTER_ETIMEDOUT"
    finally:
        os.kill(supervisor, signal.SIGCONT)
    assert driver.fetch("next") == ["2"]
    driver.end()


def test_under_muster_run_a_killed_worker_is_known_at_once_and_replaced(env, started, hold):
    """A worker of `muster run` is killed. Its closure runs elsewhere long before the lease is
    over, and the run starts it again. [Workers]"""
    env["CW_HOLD"] = str(hold.path)
    run = run_workers(env, 2, "--lease", f"{LONG_LEASE_S}s")
    started.append(run)
    for number in (1, 2):
        run.out.wait_for("ready #", count=number)
    driver = Driver({**env, "MUSTER_ADDR": address_of(env), "MUSTER_JOB": "cluster"})
    started.append(driver)
    driver.until(present=2)
    pids = {int(line.split("#")[1].split()[0]): int(line.split()[-1])
            for line in run.out.having("ready #")}
    driver.schedule("long", "until", "go")
    until(lambda: hold.lines("began"))
    victim = int(hold.lines("began")[0])
    os.kill(pids[victim], signal.SIGKILL)
    driver.until(put_back=1)
    hold.mark("go")
    driver.fetch("long")  # of the other one, or of who took its place
    run.log.wait_for("starting it again (1 of 3)")
    run.out.wait_for("ready #", count=3)
    driver.until(present=2)
    driver.end()
    run.signal(signal.SIGTERM)
    run.wait()


@pytest.mark.parametrize("function, how", [("exit", 0), ("exit", 3), ("crash", 11)])
def test_a_function_that_ends_its_worker_is_poison_after_three(env, started, hold, function, how):
    """A function calls `exit` in its worker's own process, with any status, or crashes there. Its
    closure fails with POISON after the third worker, with a line that names its function, the
    attempts, and each worker and how it ended; the fourth worker runs what comes next.
    [Workers]"""
    env["CW_HOLD"] = str(hold.path)
    # Nobody comes to a place a second time: a coordinator that hears of a loss and of the next
    # process at once knows only that the first was replaced.
    once = 'mkdir "$CW_HOLD/$MUSTER_INDEX" || exec sleep 1000; exec "$0"'
    run = run_workers(env, 4, "--lease", f"{LONG_LEASE_S}s", before=("sh", "-c", once))
    started.append(run)
    for number in range(1, 5):
        run.out.wait_for("ready #", count=number)
    driver = Driver({**env, "MUSTER_ADDR": address_of(env), "MUSTER_JOB": "cluster"})
    started.append(driver)
    driver.until(present=4)
    origin, _, text = driver.call(function, how)
    end = f"was killed by signal {how}" if function == "crash" else f"ended with status {how}"
    if how == 0:  # a zombie's 0 is no status yet: which is told depends on who is first
        end = f"(?:{end}|is gone, status unknown)"
    worker = rf"worker \d \(#\d, node [^ )]+\) {end}"
    assert origin == "poison"
    assert re.fullmatch(
        f"'{function}' cost 3 processes in 3 attempts and is not run again: mend it, or raise "
        f"MUSTER_CLUSTER_POISON: {worker}, {worker}, {worker}", text), text
    assert driver.call("add", 1, 2) == ["3"]
    driver.end()
