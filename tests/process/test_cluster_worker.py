# SPDX-License-Identifier: Apache-2.0
"""What a worker makes of its functions: in its own process, in children, as commands. A number at
the end of a name is that of the scenario.

behaviour: cluster / Workers
"""

import os
import re
import signal
import time

import pytest

from clusters import LONG_LEASE_S, SOON_S, WORKER, Driver, Hold, Worker, family, lives
from conftest import Process, sanitized
from running import until

GRACE = {"MUSTER_CLUSTER_CANCEL_GRACE": "300ms", "MUSTER_CLUSTER_SERIES_GRACE": "500ms"}
PATIENT = {"MUSTER_CLUSTER_CANCEL_GRACE": "60s"}  # of a function that stops when it is told to
OWN_GRACE_S = 5  # of a worker whose coordinator gives it none
WORDS_MAX = 1024  # of a failure's text


@pytest.fixture
def hold(tmp_path):
    return Hold(tmp_path / "hold")


@pytest.fixture
def scratch(tmp_path):
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def cluster(env, started, serve, hold, scratch):
    """cluster(workers, settings of them...): a coordinator and that many workers."""

    def make(count=1, driver=None, **settings):
        service = serve("--lease", f"{LONG_LEASE_S}s")
        env.update(MUSTER_ADDR=service.address, CW_HOLD=str(hold.path), TMPDIR=str(scratch))
        make.workers = []
        make.start = lambda index, **more: start(index, {**settings, **more})
        for index in range(count):
            make.start(index)
        coordinator = Driver({**env, **(driver or {})})
        coordinator.env = env
        started.append(coordinator)
        coordinator.until(present=count)
        return coordinator

    def start(index, settings):
        worker = Worker(env, index, **settings)
        started.append(worker)
        make.workers.append(worker)
        return worker

    yield make
    for worker in getattr(make, "workers", []):
        if worker.process.poll() is None:
            worker.kill()


PLACES = pytest.mark.parametrize("place", ["", "child."], ids=["here", "child"])


@PLACES
def test_a_value_and_what_a_function_can_ask(cluster, place):
    """A function gets arguments and gives a value. It can ask for its worker, slot, key, closure,
    attempt and the time that is left; a child is another process of the worker."""
    driver = cluster(2, MUSTER_WORKER_SLOTS=2)
    assert driver.call(f"{place}add", 2, 3) == ["5"]
    assert driver.call(f"{place}nothing") == [""]
    assert driver.call(f"{place}echo", "one", "", "three") == ["one", "", "three"]
    worker, key, host, about, index, pid = driver.call(f"{place}about", total=60000)
    closure, attempt, left = map(int, about.split())
    assert worker.split()[0] in ("0", "1") and worker.split()[1] in ("0", "1")
    assert key.startswith("default/") and key.endswith(f"/{closure}")
    assert host and attempt == 1 and 0 < left <= 60000
    (process,) = [one for one in cluster.workers if one.index == int(index)]
    assert (int(pid) == process.pid) == (place == "")
    if place:
        assert int(pid) in process.family()
    driver.end()


@PLACES
def test_an_error_is_the_functions_own(cluster, place):
    """A function ends with an error: one of its own, a status, a text or a result that is too
    large. The closure fails with that: its code, and as much of the text as fits."""
    driver = cluster()
    assert driver.call(f"{place}fail", 42, "no such row") == ("function", 42, "no such row")
    assert driver.call(f"{place}returns", -4)[:2] == ("function", -4)
    long = driver.call(f"{place}fail", 1, "x" * 1080)[2]
    assert len(long) <= WORDS_MAX
    origin, _, text = driver.call(f"{place}big", 17 << 20, exhausted=-1)
    assert (origin, text) == (
        "exhausted", "its result is more than the 16711680 bytes that are allowed: let it write to "
        "a file, and give where that is")
    assert driver.call(f"{place}add", 1, 1) == ["2"]
    driver.end()


@PLACES
def test_a_result_of_more_parts_than_a_message_has(cluster, place):
    """A function gives 65,536 parts, and one more. The first is a value; the other one fails with
    EXHAUSTED and a line that says so, and the worker goes on."""
    driver = cluster()
    driver.schedule("most", f"{place}parts", 65536)
    assert driver.ask("wait", "most", 25000)[0] == "MUSTER_OK"
    assert driver.ask("failure", "most")[0] == "MUSTER_MORE"
    assert driver.call(f"{place}parts", 65537, exhausted=-1) == (
        "exhausted", 0, "its result has more than the 65536 parts that are allowed: put several of "
        "them into one")
    assert driver.call(f"{place}add", 1, 1) == ["2"]
    driver.end()


@pytest.mark.skipif(sanitized(), reason="a sanitizer ends a process that has no memory")
def test_a_child_without_memory_for_its_answer(cluster):
    """A child has a result, and no memory to hand it over. The closure fails with EXHAUSTED."""
    driver = cluster()
    assert driver.call("child.starve", 8 << 20, exhausted=-1) == (
        "exhausted", 0, "its process has no memory to hand its result over")
    driver.end()


def test_retry_by_code_81(cluster, hold):
    """A function says twice that another try may succeed, then gives a value. With three retries
    there is a value, after about 1 s and 2 s. [cluster]"""
    driver = cluster()
    began = time.monotonic()
    assert driver.call("retry", 3, retries=3) == ["3"]
    assert time.monotonic() - began >= 2.4  # 1 s and 2 s, each with a fifth of jitter
    assert hold.lines("retry") == ["1", "2", "3"]
    assert driver.call("retry", 9, retries=1)[:2] == ("retryable", 75)
    assert driver.call("sh", "exit 75", retries=1)[:2] == ("retryable", 75)
    driver.end()


def test_a_run_limit_and_a_start_limit_80(cluster, hold):
    """A closure has a limit for its run, or for its start. It ends with DEADLINE when either is
    over. [cluster]"""
    driver = cluster(driver=PATIENT)
    assert driver.call("sleep", 60000, "limited", run=300)[0] == "deadline"
    assert driver.call("child.sleep", 60000, "limited", run=300)[0] == "deadline"
    assert driver.call("sh", "sleep 60", run=300)[0] == "deadline"
    driver.schedule("long", "until", "go")
    # The limit of those before it may be over before they say that they begin.
    until(lambda: [line for line in hold.lines("began") if "limited" not in line])
    driver.schedule("late", "sleep", 0, "late", start=200)
    driver.ask("wait", "late", 25000)
    assert driver.ask("failure", "late")[1] == "deadline"
    hold.mark("go")
    driver.ask("join", 25000)
    assert not [line for line in hold.lines("began") if "late" in line]
    driver.end()


def test_a_crash_in_a_child_is_nobody_elses_90(cluster):
    """A function in a child crashes. The closure fails with CRASH and the signal; the worker and
    what else it runs are not concerned. [cluster]"""
    driver = cluster(MUSTER_WORKER_SLOTS=2)
    pids = {driver.call("child.about")[5] for _ in range(2)}
    assert driver.call("child.crash", 11, crashes=-1) == ("crash", -11, "SIGSEGV")
    assert driver.call("child.exit", 7, crashes=-1)[:2] == ("crash", 7)
    assert driver.call("child.exit", 0, crashes=-1)[:2] == ("crash", 0)
    assert driver.call("child.close", crashes=-1)[0] == "crash"
    assert driver.call("child.crash", 6)[:2] == ("crash", -6)  # after a second try
    assert driver.call("child.about")[5] not in pids
    assert driver.call("about")[5] == str(cluster.workers[0].pid)
    assert driver.counts()["present"] == "1"
    driver.end()


def test_a_child_that_dies_idle_is_no_error(cluster):
    """A child that has nothing to do is killed. The next closure gets a new one and costs no
    attempt."""
    driver = cluster()
    for _ in range(3):
        os.kill(int(driver.call("child.about")[5]), signal.SIGKILL)
        assert driver.call("child.add", 1, 2, crashes=-1) == ["3"]
    driver.end()


@PLACES
def test_what_is_printed_is_no_answer(cluster, place):
    """A function prints. The text is in the worker's output, a child's in its standard error; the
    answer is what it was."""
    driver = cluster()
    assert driver.call(f"{place}print", "noise on stdout") == ["printed"]
    assert driver.call(f"{place}print", "noise again") == ["printed"]
    worker = cluster.workers[0]
    (worker.log if place else worker.out).wait_for("noise again")
    driver.end()


@PLACES
def test_a_long_one_is_cancelled_with_its_series_34(cluster, hold, place, lateness):
    """A closure runs for a minute and looks whether it is cancelled; another one fails. join gets
    the error within 2 s, the long one is cancelled, and the next ones work. [cluster]"""
    driver = cluster(2)
    for number in range(3):
        driver.schedule(f"good{number}", f"{place}add", number, 1)
    driver.schedule("long", f"{place}spin")
    until(lambda: hold.lines("began"))
    driver.schedule("bad", f"{place}fail", 5, "broken")
    began = time.monotonic()
    status, text = driver.ask("join", 25000)
    assert status == "MUSTER_EFAILED" and "broken" in text
    assert time.monotonic() - began < SOON_S + lateness.spare_s()
    assert driver.ask("fetch", "long", 0)[0] == "MUSTER_ECANCELLED"
    assert driver.call(f"{place}add", 1, 1) == ["2"]
    driver.end()


def test_who_ignores_it_in_a_child_is_killed_35(cluster, hold, lateness):
    """A closure runs for a minute and never looks whether it is cancelled; another one fails. The
    first is made to stop after the grace time; join returns soon after that. [cluster]"""
    driver = cluster(2, driver=GRACE)
    driver.schedule("deaf", "child.deaf")
    until(lambda: hold.lines("began"))
    driver.schedule("bad", "fail", 5, "broken")
    began = time.monotonic()
    assert driver.ask("join", 25000)[0] == "MUSTER_EFAILED"
    assert time.monotonic() - began < SOON_S + lateness.spare_s()
    assert driver.ask("fetch", "deaf", 0)[0] == "MUSTER_ECANCELLED"
    assert driver.call("child.add", 1, 1) == ["2"]
    assert driver.counts()["present"] == "2"
    driver.end()


def test_who_ignores_it_here_ends_the_worker_35(cluster, hold):
    """A closure runs for a minute and never looks whether it is cancelled; another one fails. The
    first is made to stop after the grace time; join returns soon after that. [cluster]"""
    driver = cluster(driver=GRACE)
    driver.schedule("deaf", "deaf")
    until(lambda: hold.lines("began"))
    driver.ask("cancel", "deaf")
    assert cluster.workers[0].wait() == 70
    (line,) = cluster.workers[0].log.having("a thread cannot be stopped")
    assert re.search(
        r"worker #0: function 'deaf' \(closure 1, attempt 1\) was asked to stop \d\.\d s ago", line
    )
    driver.ask("wait", "deaf", 25000)
    assert driver.ask("fetch", "deaf", 0)[0] == "MUSTER_ECANCELLED"
    cluster.start(0)
    assert driver.call("add", 1, 1) == ["2"]
    driver.end()


def test_who_ignores_its_limit_here_costs_one_worker_and_no_more(cluster, hold):
    """A function in the worker's own process ignores that its closure's `run_ms` is over. It is
    stopped with its worker after the coordinator's `cancel_grace_ms`. The closure fails with
    DEADLINE and is not run again: it costs one worker and no more."""
    driver = cluster(3, driver=GRACE)
    driver.schedule("deaf", "deaf", run=300)
    driver.ask("wait", "deaf", 25000)
    assert driver.ask("failure", "deaf")[1] == "deadline"
    assert hold.lines("began") == ["deaf"]  # not run again
    driver.ask("join", 25000)
    driver.until(present=2)
    # The coordinator learns of the end from the connection, before the process can be reaped.
    (ended,) = until(lambda: [one for one in cluster.workers if one.process.poll() is not None])
    assert ended.wait() == 70
    (line,) = ended.log.having("a thread cannot be stopped")
    said = re.search(r"was asked to stop (\d+\.\d) s ago", line)
    assert said and float(said[1]) < OWN_GRACE_S, line  # the coordinator's grace, not its own
    assert driver.call("add", 1, 1) == ["2"]
    others = [one for one in cluster.workers if one is not ended]
    assert [one.process.poll() for one in others] == [None, None]
    driver.end()


def test_ten_are_cancelled_38(cluster, hold, lateness):
    """Ten closures sleep on two workers and all are cancelled; then again, and what is finished,
    and what never was. All end as cancelled within 2 s, the workers are idle, no process is
    left. The rest has no effect. [cluster]"""
    driver = cluster(2)
    functions = ["sleep", "child.sleep"]
    for number in range(9):
        driver.schedule(f"s{number}", functions[number % 2], 60000, number)
    driver.schedule("s9", "sh", "sleep 60 & sleep 60")
    until(lambda: len(hold.lines("began")) >= 2)
    began = time.monotonic()
    for number in range(10):
        driver.ask("cancel", f"s{number}")
    for number in range(10):
        assert driver.ask("fetch", f"s{number}", 25000)[0] == "MUSTER_ECANCELLED"
    assert time.monotonic() - began < SOON_S + lateness.spare_s()
    driver.ask("cancel", "s0")  # twice: no effect
    assert driver.call("add", 1, 1) == ["2"]
    assert driver.counts()["running"] == "0"
    driver.end()


def test_a_command_gets_its_words_byte_for_byte_91(cluster, scratch):
    """A command has arguments of every byte, reads its input, ends with 3, and has children. All
    arrives byte for byte; FUNCTION with code 3 and the tail of what it said on stderr, of
    which the last 64 KiB are lent; cancelled, its children end with it. [cluster]"""
    driver = cluster(driver=GRACE)
    words = ["a b", '"', "%c%0ad", "%e%ff", "*", "$HOME", ""]
    (said,) = driver.call("sh", 'printf "%s," "$@" | od -An -c | tr -d "\\n"', "x", *words)
    assert "".join(said.split()) == r'ab,",c\nd,e377,*,$HOME,,'
    assert driver.call("sh", "tr a-z A-Z", "%<standard input%21") == ["STANDARD INPUT!"]
    assert driver.call("sh", "cat") == [""]
    assert driver.call("any", "printf", "%%25s-%25s", "one", "two") == ["one-two"]
    assert driver.call("sh", "echo first >&2; echo last >&2; exit 3") == (
        "function",
        3,
        "exit status 3: first | last",
    )
    assert driver.call("sh", "kill -9 $$", crashes=-1)[:2] == ("crash", -9)
    origin, code, text = driver.call("missing")
    assert (origin, code) == ("function", 127)
    assert text == "the command '/nonexistent/program' cannot be run: No such file or directory"
    assert driver.call("any")[0] == "argument"
    assert driver.call("sh", "%x%00y")[0] == "argument"
    driver.end()


def test_a_command_has_a_folder_and_a_session_of_its_own(cluster, scratch, hold):
    """A command makes a file, looks at its descriptors, leaves a process running, or ignores
    SIGTERM. It has an empty folder that is removed, three descriptors, and a group that is
    killed with it."""
    driver = cluster(driver=GRACE)
    (folder,) = driver.call("sh", "touch file; mkdir -p deep/er; touch deep/er/file; pwd")
    folder = folder.strip()
    assert folder.startswith(f"{scratch}/muster-task-")
    until(lambda: not os.path.exists(folder))
    (said,) = driver.call("sh", "ls /proc/self/fd | tr '\\n' ' '")
    assert said.split()[:4] == ["0", "1", "2", "3"]  # the last one is ls's own
    (said,) = driver.call("sh", "env | grep ^MUSTER_TASK_ | sort | cut -d= -f1 | tr '\\n' ' '")
    assert said.split() == [f"MUSTER_TASK_{word}" for word in
                            ("ATTEMPT", "CLOSURE", "KEY", "SLOT", "WORKER")]
    # What a command leaves running goes with it; so does all of it when it is cancelled.
    (pid,) = driver.call("sh", "sleep 1000 >/dev/null 2>&1 & echo $!")
    until(lambda: not lives(int(pid)))
    driver.schedule("stubborn", "sh",
                    f"trap '' TERM; (trap '' TERM; echo $$ >>{hold.path}/began; sleep 1000) & wait")
    until(lambda: hold.lines("began"))
    group = [pid for pid in cluster.workers[0].family()]
    driver.ask("cancel", "stubborn")
    assert driver.ask("fetch", "stubborn", 25000)[0] == "MUSTER_ECANCELLED"
    until(lambda: len([pid for pid in group if lives(pid)]) <= 1)  # but for the supervisor
    until(lambda: not os.listdir(scratch))
    driver.end()


def stray(hold, name):
    """For a shell: a process in a session of its own that no SIGTERM ends, whose parents are gone
    once it has said its number. The shell itself never ignores SIGTERM."""
    return (f"(trap '' TERM; setsid sh -c 'echo $$ >>{hold.path}/{name}; exec sleep 1000' "
            f"</dev/null >/dev/null 2>&1 &); while ! test -s {hold.path}/{name}; do :; done")


def test_what_leaves_the_session_of_a_command_ends_with_it(cluster, hold):
    """Commands in two slots leave processes that have sessions of their own and ignore SIGTERM;
    one is cancelled, one ends with a value, one is over its time. What a command started is
    gone before its result is there, and nothing of the other command is."""
    driver = cluster(driver=PATIENT, MUSTER_WORKER_SLOTS=2)
    for name in ("cancelled", "ends"):
        driver.schedule(name, "sh", f"{stray(hold, name)}; "
                        f"while ! test -e {hold.path}/end-{name}; do sleep 0.01; done; echo value")
    until(lambda: hold.lines("cancelled") and hold.lines("ends"))
    ((first,), (second,)) = hold.lines("cancelled"), hold.lines("ends")
    assert lives(int(first)) and lives(int(second))
    driver.ask("cancel", "cancelled")
    assert driver.ask("fetch", "cancelled", 25000)[0] == "MUSTER_ECANCELLED"
    assert not lives(int(first))
    assert lives(int(second))  # it is another command's
    hold.mark("end-ends")
    assert driver.fetch("ends") == ["value"]
    assert not lives(int(second))
    driver.schedule("late", "sh", f"{stray(hold, 'late')}; sleep 1000", run=2000)
    driver.ask("wait", "late", 25000)
    assert driver.ask("failure", "late")[1] == "deadline"
    # On a slow machine its time was over before the one that it leaves could say its number.
    assert not [pid for pid in hold.lines("late") if lives(int(pid))]
    driver.ask("join", 25000)
    driver.end()


def test_what_leaves_the_session_of_a_command_deaf_to_sigterm_ends_with_it(cluster, hold):
    """A command whose processes left its session ignores SIGTERM itself, and is over its time. It
    is killed after the grace, with all it started; the coordinator does not wait for the
    worker for much longer than that."""
    driver = cluster(driver=GRACE)
    driver.schedule("deaf", "sh", f"trap '' TERM; {stray(hold, 'deaf')}; while :; do sleep 1000; done", run=2000)
    driver.ask("wait", "deaf", 25000)
    assert driver.ask("failure", "deaf")[1] == "deadline"
    until(lambda: not [pid for pid in hold.lines("deaf") if lives(int(pid))])
    driver.ask("join", 25000)
    driver.end()


def test_a_command_on_a_slow_disk_keeps_nobody_waiting(cluster, hold):
    """A command's program lies on a file system that does not answer. What runs in the other
    slots goes on, and so do children and commands that are started meanwhile; the command can
    be cancelled."""
    driver = cluster(driver=GRACE, MUSTER_WORKER_SLOTS=2)
    program = hold.path / "program"
    os.mkfifo(program)
    driver.schedule("slow", "any", program)
    until(lambda: hold.lines("exec"))
    assert driver.call("child.add", 1, 2) == ["3"]
    assert driver.call("sh", "echo another") == ["another"]
    driver.ask("cancel", "slow")
    assert driver.ask("fetch", "slow", 25000)[0] == "MUSTER_ECANCELLED"
    driver.schedule("none", "any", program)
    until(lambda: len(hold.lines("exec")) == 2)
    os.close(os.open(program, os.O_WRONLY))  # it answers
    driver.ask("wait", "none", 25000)
    assert driver.ask("failure", "none")[1:3] == ["function", "127"]
    driver.ask("join", 25000)
    driver.end()


@pytest.mark.parametrize("size", [0, 10, 65536, 65537, 131072, 1000001])
def test_the_end_of_what_a_failed_command_said_is_lent(cluster, tmp_path, size):
    """A command has arguments of every byte, reads its input, ends with 3, and has children. All
    arrives byte for byte; FUNCTION with code 3 and the tail of what it said on stderr, of
    which the last 64 KiB are lent; cancelled, its children end with it."""
    driver = cluster()
    file = tmp_path / "said"
    shell = f"head -c {size} /dev/zero | tr '\\0' x >&2; test {size} = 0 || echo end >&2"
    driver.schedule("bad", "sh", f"echo no value; {shell}; exit 3")
    assert driver.ask("lend", "bad", file) == ["MUSTER_EFAILED", "4294967041" if size else ""]
    assert file.read_bytes() == ((b"x" * size + b"end\n")[-65536:] if size else b"")
    driver.ask("join", 25000)
    driver.schedule("retried", "sh", "echo $MUSTER_TASK_ATTEMPT >&2; exit 75", retries=1)
    assert driver.ask("lend", "retried", file) == ["MUSTER_EFAILED", "4294967041"]
    assert file.read_bytes() == b"2\n"
    driver.ask("join", 25000)
    driver.schedule("good", "sh", f"{shell}; printf value")
    assert driver.ask("lend", "good", file) == ["MUSTER_OK", "0"]
    assert file.read_bytes() == b"value"
    driver.end()


@PLACES
def test_what_goes_along_with_an_error_is_lent(cluster, tmp_path, place):
    """A function, in the worker or in a child, adds a part of type `MUSTER_PART_ERROR` and fails. The
    fetch of its closure fails and has that part."""
    driver = cluster()
    file = tmp_path / "error"
    driver.schedule("bad", f"{place}fail", 5, "broken")
    assert driver.ask("lend", "bad", file) == ["MUSTER_EFAILED", "4294967042"]
    assert file.read_bytes() == b"broken"
    driver.ask("join", 25000)
    driver.end()


def resident_mib(pid, which="VmRSS"):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return [int(line.split()[1]) // 1024 for line in status if line.startswith(which)][0]


def test_a_command_that_prints_without_end_92(cluster):
    """A command prints 1 GiB. It is killed at its limit, by default what a message may hold, with
    EXHAUSTED and what to do instead; no process holds more. [cluster]"""
    driver = cluster()
    origin, _, text = driver.call("sh", "exec yes", exhausted=-1)
    assert origin == "exhausted" and (
        "is more than the 16711680 bytes that are allowed; it was killed: let it write to a file, "
        "and print where that is") in text
    assert driver.call("sh", "yes | head -c 1000000000 >&2; exit 4")[:2] == ("function", 4)
    assert resident_mib(cluster.workers[0].pid) < 100
    driver.end()


def test_a_value_of_each_process(cluster, hold):
    """Functions here and in a child need one per-worker value; the child crashes; a command makes
    a value; a builder fails; a value is dropped. Each process builds its own, a new child
    anew; what a command gave is there as it is; a function whose value failed fails with it;
    objects are destroyed."""
    driver = cluster(MUSTER_WORKER_SLOTS=1)
    driver.ask("value", "v", "counter", "--", 10)
    assert [driver.call("count", need="v") for _ in range(3)] == [["11"], ["12"], ["13"]]
    assert [driver.call("child.count", need="v") for _ in range(2)] == [["11"], ["12"]]
    assert driver.call("child.crash", 9, crashes=-1)[0] == "crash"
    assert driver.call("child.count", need="v") == ["11"]  # the new child builds its own
    assert driver.call("count", need="v") == ["14"]
    assert hold.lines("built") == ["0"] * 3
    driver.ask("value", "w", "sh", "--", "echo by a command")
    assert [driver.call(f"{place}value", need="w") for place in ("", "child.")] == [
        ["by a command"], ["by a command"]
    ]
    driver.ask("value", "bad", "fail", "--", 9, "cannot build")
    assert driver.call("count", need="bad")[0] == "input"
    assert driver.call("child.count", need="bad")[0] == "input"
    driver.ask("drop", "v")
    until(lambda: len(hold.lines("destroyed")) == 2)
    driver.end()


def test_a_value_that_another_closure_is_building_is_waited_for(cluster, hold):
    """Of two closures that run beside each other one builds the first of two values that it
    needs, the other one meanwhile the second. The first closure runs once both are there."""
    driver = cluster(MUSTER_WORKER_SLOTS=2, CW_THREADS=1)
    for name, number in (("v", 10), ("w", 20)):
        hold.mark(f"go-{name}")  # its child builds it at once
        driver.ask("value", name, "child.gated", "eager", "--", number, f"go-{name}")
    until(lambda: len(hold.lines("built")) >= 2)
    for name in ("v", "w"):
        (hold.path / f"go-{name}").unlink()
    before = len(hold.lines("building"))
    driver.schedule("both", "total", 2, need=["v", "w"])
    until(lambda: len(hold.lines("building")) == before + 1)
    driver.schedule("second", "total", 1, need=["w"])
    until(lambda: len(hold.lines("building")) == before + 2)
    hold.mark("go-v")
    until(lambda: len(hold.lines("built")) == before + 1)
    hold.mark("go-w")
    assert driver.fetch("second") == ["20"]
    assert driver.fetch("both") == ["30"]
    driver.end()


@pytest.mark.parametrize("how", ["cancelled", "late"])
@pytest.mark.parametrize(("builder", "user"), [("child.gated", "total"), ("gated", "child.total")])
def test_a_value_whose_building_is_stopped_is_built_by_the_next(cluster, hold, builder, user, how):
    """A closure is cancelled, or its time is over, while a value that it needs is built in its
    process. The next closure that needs the value has it built again, and succeeds."""
    driver = cluster()
    hold.mark("go")
    driver.ask("value", "v", builder, "eager", "--", 10, "go")
    until(lambda: hold.lines("built"))
    (hold.path / "go").unlink()
    limits = {"run": 300} if how == "late" else {}
    driver.schedule("first", user, 1, need="v", **limits)  # whose process builds its own
    until(lambda: len(hold.lines("building")) == 2)
    if not limits:
        driver.ask("cancel", "first")
    driver.ask("wait", "first", 25000)
    assert driver.ask("failure", "first")[1] == ("deadline" if limits else "cancelled")
    driver.ask("join", 25000)
    hold.mark("go")
    assert driver.call(user, 1, need="v") == ["10"]
    driver.end()


def test_dropped_values_of_commands_leave_no_memory(cluster, hold):
    """A worker of two slots whose own process runs no function has commands that make values of 4
    MB each, which are dropped again. Its memory does not grow."""
    driver = cluster(MUSTER_WORKER_SLOTS=2, CW_ONLY="sh")
    for number in range(30):
        driver.ask("value", f"v{number}", "sh", "eager", "--",
                   f"head -c 4000000 /dev/zero; echo x >>{hold.path}/made")
        until(lambda: len(hold.lines("made")) == number + 1)
        driver.ask("drop", f"v{number}")
    assert driver.call("sh", "echo last") == ["last"]
    assert sanitized() or resident_mib(cluster.workers[0].pid) < 60  # which keeps what is freed
    driver.end()


def test_a_worker_whose_standard_input_is_closed(cluster):
    """The standard input of a worker is closed. Its children and commands have the streams that
    they always have."""
    driver = cluster(0)
    worker = Process(["sh", "-c", 'exec "$0" <&-', WORKER], {**driver.env, "MUSTER_INDEX": "0"})
    cluster.workers.append(worker)
    driver.until(present=1)
    assert driver.call("sh", "cat", "%<input") == ["input"]
    assert driver.call("sh", "echo out; echo error >&2; exit 3") == (
        "function", 3, "exit status 3: error")
    assert driver.call("child.add", 1, 2) == ["3"]
    driver.end()


def test_a_value_is_found_by_the_name_of_its_builder(cluster):
    """A closure needs two per-worker values, in either order, and its function asks for one by
    the name of its builder. It gets that one; a name that builds none of them gives none."""
    driver = cluster(MUSTER_WORKER_SLOTS=1)
    driver.ask("value", "v", "counter", "--", 10)
    driver.ask("value", "w", "sh", "--", "echo by a command")
    for place in ("", "child."):
        for order in (["v", "w"], ["w", "v"]):
            assert driver.call(f"{place}need", "counter", need=order) == ["10"]
            assert driver.call(f"{place}need", "sh", need=order) == ["by a command"]
        assert driver.call(f"{place}need", "nobody", need="v") == ("function", 4, "no such need")
        assert driver.call(f"{place}need", "counter") == ("function", 4, "no such need")
    driver.end()


def test_a_function_says_how_far_it_is(cluster):
    """A function reports its progress and writes a line. The coordinator's log has it."""
    driver = cluster(2)
    for place in ("", "child."):
        driver.schedule(f"t{place}", f"{place}talk", "half of it", 60000)
        driver.log.wait_for("half of it", count=1 if not place else 2)
        driver.ask("cancel", f"t{place}")
        driver.ask("wait", f"t{place}", 25000)
    driver.end()


@PLACES
def test_lines_for_a_coordinator_that_does_not_read_are_left_out(cluster, hold, place):
    """A function writes much while its coordinator does not read. Lines and progress are left
    out, and the worker's memory does not grow."""
    driver = cluster()
    driver.schedule("talks", f"{place}chatter", 40000, "go")
    until(lambda: hold.lines("began"))
    driver.signal(signal.SIGSTOP)
    hold.mark("go")
    until(lambda: hold.lines("said"))
    driver.signal(signal.SIGCONT)  # which may be too late for what it has scheduled
    driver.ask("wait", "talks", 25000)
    assert sanitized() or resident_mib(cluster.workers[0].pid, "VmHWM") < 60


def test_the_watchdog_says_what_hangs_and_where(cluster):
    """A function runs for long and there is a watchdog. The coordinator's log says which function
    in which attempt has been running for how long on which worker, when that was last heard,
    and its last progress."""
    driver = cluster(driver={"MUSTER_CLUSTER_WATCHDOG": "100ms"})
    driver.schedule("long", "talk", "half of it", 60000)
    # It says so again and again: what the function has said may come after the first time.
    line = driver.log.wait_for("none has ended meanwhile", "half of it")
    assert re.search(r"closure 1 has been running for \d+\.\d s on worker 0 \(#0, node \S+\), and none "
                     r"has ended meanwhile: attempt 1 of 'talk', its worker last heard \d+\.\d s ago, "
                     r"its last progress \d+\.\d s ago \(half of it\)", line), line
    driver.ask("cancel", "long")
    driver.ask("wait", "long", 25000)
    driver.end()


def test_several_at_once_in_one_process(cluster, hold):
    """A worker has three slots and functions that may run beside each other. Three run at once in
    one process, and 300 results are right."""
    driver = cluster(MUSTER_WORKER_SLOTS=3, CW_THREADS=1)
    for number in range(3):
        driver.schedule(f"u{number}", "until", "go")
    until(lambda: len(hold.lines("began")) == 3)
    hold.mark("go")
    assert {driver.fetch(f"u{number}")[0] for number in range(3)} == {"0"}
    for number in range(300):
        driver.schedule(f"a{number}", "add", number, number)
    assert [driver.fetch(f"a{number}") for number in range(300)] == [
        [str(2 * number)] for number in range(300)
    ]
    driver.end()


def test_a_name_and_a_version_that_nobody_has(cluster):
    """No worker offers a function, or that version of it. The closure fails once the wait for
    such a worker is over."""
    driver = cluster(driver={"MUSTER_CLUSTER_UNKNOWN_GRACE": "100ms"}, CW_VERSION=2)
    assert driver.call("no-such-function")[0] == "unknown"
    assert driver.call("add", 1, 2, version=1)[0] == "unknown"
    assert driver.call("add", 1, 2, version=2) == ["3"]
    driver.end()


def test_a_state_server_is_named(cluster):
    """A function says that a state server failed it. join says so and names the server."""
    driver = cluster(driver={"MUSTER_CLUSTER_TRANSIENT_LIMIT": "-1"})
    assert driver.ask("state", "ps0")[0] == "MUSTER_OK"
    for place in ("", "child."):
        driver.schedule(f"s{place}", f"{place}state", "ps0")
        status, text = driver.ask("join", 25000)
        assert status == "MUSTER_ESTATE" and "ps0" in text and "connection reset" in text
    driver.end()


def test_no_worker_is_left_by_a_drain_that_is_over(cluster):
    """A worker with a child gets SIGTERM. It ends with status 0, and none of its processes is
    left."""
    driver = cluster()
    driver.call("child.nothing")
    worker = cluster.workers[0]
    below = worker.family()
    assert below
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert worker.out.having("served MUSTER_OK")
    until(lambda: not [pid for pid in below if lives(pid) and pid not in family(os.getpid())])
    driver.end()
