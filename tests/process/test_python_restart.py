# SPDX-License-Identifier: Apache-2.0
"""A function in Python that restarts: python_restart_rank.py under `muster run`.

behaviour: python / Restart
"""

import importlib.util
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from conftest import ROOT, sanitized
from running import Run
from saving import PATIENT
from test_python import PACKAGE, under

RANK = pathlib.Path(__file__).parent / "python_restart_rank.py"
PROMPT_MS = 1000  # of a wait that looks 20 times a second, on a loaded machine

pytestmark = [
    pytest.mark.skipif(
        not (PACKAGE / "muster").is_dir(), reason="this build found no python3 with cffi and Python.h"
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("cffi") is None, reason=f"{sys.executable} has no cffi"
    ),
]


@pytest.fixture
def env(env):
    return {**env, **PATIENT, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def run(spawn, muster, tmp_path):
    """run(size, mode, words, flags...) starts ranks that do what the mode says."""

    def start(size, mode, words="", *flags, **options):
        rank = (*under(), sys.executable, RANK, mode, tmp_path, *words.split())
        return Run(spawn, muster, size, *flags, rank=rank, **options)

    return start


def said(job, what, *words):
    """[{key: value}] of the lines of this kind; `text`, always last, may have blanks."""
    found = []
    for line in job.out.having(f"]: {what} pid=", *words):
        line, _, text = line.partition(" text=")
        found.append({**dict(re.findall(r"(\w+)=(\S+)", line)), "text": text})
    return found


def ends(job, code=0):
    assert job.run.wait() == code, "\n".join(job.out.lines + job.log.lines)


def entered(job, attempt):
    return said(job, "entered", f"attempt={attempt}")


def same_processes(job, size=3):
    """All are in attempt 1 in the processes that they were."""
    first, second = ({rank["pid"] for rank in entered(job, attempt)} for attempt in (0, 1))
    assert first == second and len(first) == size, job.out.lines
    assert sorted(line["value"] for line in said(job, "returned")) == ["0", "10", "20"][:size]


@pytest.mark.parametrize(
    "victim, kind, code, text",
    [
        ("fails", "FAILED", "1", r"ValueError\('a bug\\nof rank 1'\) at python_restart_rank.py:\d+"),
        ("fails_by_report", "FAILED", "7", "no disk"),
        ("fails_and_swallows", "FAILED", "7", "no disk"),
        ("again", "AGAIN", "0", "asked for a restart"),
        ("raises_restart", "AGAIN", "0", "asked for a restart"),
    ],
)
def test_one_ends_the_attempt_and_all_begin_again(run, victim, kind, code, text):
    """A rank raises an exception, reports a failure, asks for a restart, or raises `Restart`. The
    others, asleep, are told by `Restart`; all are in the function again, in the same processes,
    and read why: the exception, with its place, or the text. `os.environ` has the rank."""
    job = run(3, "plain", f"{victim} sleeps")
    ends(job)
    same_processes(job)
    assert len(said(job, "left", "by=Restart")) == 2
    faults = said(job, "fault")
    assert len(faults) == 3
    for fault in faults:
        assert (fault["kind"], fault["index"], fault["code"]) == (kind, "1", code)
        assert re.fullmatch(text, fault["text"]), fault


@pytest.mark.parametrize("place", ["computes", "at_a_barrier", "catches_exceptions"])
def test_wherever_the_others_are(run, place):
    """The others compute in Python, wait at a barrier of muster, or catch each `Exception`. They
    are told all the same: `Restart` is no `Exception`."""
    job = run(3, "plain", f"fails {place}")
    ends(job)
    same_processes(job)
    assert len(said(job, "left", "by=Restart")) == 2
    assert not said(job, "caught")


def test_what_is_raised_while_the_job_restarts_is_no_fault(run):
    """The others are told, and raise an exception of their own for it. The record has only the fault
    that was the cause, and nothing of theirs is logged."""
    job = run(3, "plain", "fails breaks")
    ends(job)
    same_processes(job)
    assert len(said(job, "left", "by=ConnectionError")) == 2
    assert [fault["index"] for fault in said(job, "fault")] == ["1"] * 3
    assert not job.log.having("ConnectionError")


def test_the_others_do_not_wait_for_the_log(run):
    """A rank raises, and what writes its log takes its time over the traceback. The others are
    interrupted meanwhile."""
    job = run(3, "plain", "fails_and_logs_slowly sleeps_and_leaves_a_mark")
    ends(job)
    same_processes(job)
    assert [line["others"] for line in said(job, "logged")] == ["2"]


def test_a_swallowed_restart_comes_again(run):
    """The others catch the `Restart` and go on, as code in a `__del__` does. It comes again."""
    job = run(3, "plain", "fails swallows")
    ends(job)
    same_processes(job)
    assert len(said(job, "swallowed")) == 2


def test_what_unwinds_comes_to_its_end(run):
    """A `finally` takes two seconds, longer than the first repetition waits. It is not cut short."""
    job = run(3, "plain", "fails tidies")
    ends(job)
    same_processes(job)
    assert len(said(job, "tidied")) == 2


def test_an_atomic_section_is_not_interrupted(run):
    """The others are in an atomic section when they are told, and call `check` there. The section is
    whole, and `Restart` is raised at its end."""
    job = run(3, "writing", "fails writes")
    ends(job)
    same_processes(job)
    assert [line["whole"] for line in said(job, "wrote")] == ["True"] * 2
    assert not job.out.having("behind")


def test_no_import_is_cut_short(run):
    """The others are in the middle of an import when they are told. The module is whole, and
    `Restart` is raised after that."""
    job = run(3, "importing", "fails imports")
    ends(job)
    same_processes(job)
    assert [line["whole"] for line in said(job, "imported")] == ["True"] * 2


def test_nothing_is_raised_behind_the_function(run):
    """A rank has raised, and its exception is being logged when all are told. `Restart` is not raised
    there."""
    job = run(3, "describing")
    ends(job)
    same_processes(job)
    assert len(said(job, "described")) == 1
    assert {fault["index"] for fault in said(job, "fault")} == {"1"}


def test_a_child_that_was_forked_in_the_function_does_not_go_on_with_it(run):
    """The function forks, and a child lets an exception out, or returns. It ends with its status, or
    with 0; its parent goes on."""
    job = run(3, "plain", "fails forks")
    ends(job)
    same_processes(job)
    assert sorted(line["status"] for line in said(job, "child")) == ["0", "0", "9", "9"]


def test_a_function_on_another_thread(run):
    """The function runs on a thread other than the main one. It is told by `Restart`, and runs
    again."""
    job = run(3, "on_a_thread", "fails")
    ends(job)
    same_processes(job)
    assert len(said(job, "left", "by=Restart")) == 2


def test_two_functions_at_once(run):
    """A wrapped function of one job runs on a thread, and the main thread calls one of another job.
    Both run, and the first one is interrupted as without the other."""
    job = run(2, "two_at_once")
    ends(job)
    same_processes(job, 2)


def test_a_killed_rank_is_replaced(run):
    """A rank is killed. The others are told, and wait for its replacement in their processes."""
    job = run(3, "plain", "killed sleeps", "--min-size", 3, "--max-restarts", 1)
    ends(job)
    first, second = ({rank["pid"] for rank in entered(job, attempt)} for attempt in (0, 1))
    assert len(first & second) == 2 and len(second) == 3
    assert {fault["kind"] for fault in said(job, "fault")} == {"SIGNAL"}


def test_a_newcomer_waits_for_a_function_that_asks_nothing(run):
    """A replacement comes while the others compute, without a call of muster. They are not told, their
    interpreter's progress tells them nothing either, and what they have done stands."""
    job = run(3, "grows", "", "--max-restarts", 1)
    ends(job)
    assert sorted(line["value"] for line in said(job, "returned")) == ["1", "1", "None"]
    assert not entered(job, 2)


def test_a_spare_takes_the_place(run, env):
    """A rank is killed, and there is a spare. The spare is in the next attempt."""
    job = run(3, "plain", "killed sleeps", "--spares", 1, "--max-restarts", 0, env={**env, "ALL": "4"})
    job.run.wait()
    first, second = ({rank["pid"]: rank["index"] for rank in entered(job, n)} for n in (0, 1))
    assert len(first) == len(second) == 3 and len(first.keys() & second.keys()) == 2
    assert sorted(line["value"] for line in said(job, "returned")) == ["0", "10", "20"]


@pytest.mark.parametrize("victim", ["leaves", "exits_0"])
def test_a_rank_leaves(run, victim):
    """A rank leaves, by a call or by `sys.exit()`. The others go on without it, and it ends well."""
    job = run(3, "plain", f"{victim} sleeps")
    ends(job)
    assert sorted(rank["size"] for rank in entered(job, 1)) == ["2", "2"]
    assert not job.log.having("starting it again")
    if victim == "leaves":
        assert len(said(job, "returned", "value=None")) == 1
    else:
        assert [line["what"] for line in said(job, "raised")] == ["SystemExit"]


def test_ctrl_c_in_the_function(run):
    """A rank gets a SIGINT in the function. It leaves, `KeyboardInterrupt` is raised once the run is
    over, and ends the program by the signal. No process takes its place: the others go on
    without it, and the status of `muster run` is 130."""
    job = run(3, "plain", "ctrl_c sleeps", "--max-restarts", 1)
    assert job.run.wait() == 130
    assert [line["what"] for line in said(job, "raised")] == ["KeyboardInterrupt"]
    job.log.wait_for("left the job and was killed by signal 2 (Interrupt); the others go on")
    assert not job.log.having("starting it again")
    assert sorted(rank["size"] for rank in entered(job, 1)) == ["2", "2"]


@pytest.mark.parametrize("where, other", [("completion", "returned"), ("terminate", "failed"),
                                          ("rank_assignment", "failed")])
def test_ctrl_c_in_the_last_callbacks(run, where, other):
    """A rank gets a SIGINT in `completion`, `terminate`, or the function of its assignment.
    `KeyboardInterrupt` is raised there, and the others end as without it."""
    job = run(2, "ctrl_c_in_a_callback", where, "--max-restarts", 0)
    ends(job)
    assert len(said(job, "interrupted")) == 1
    assert len(said(job, other)) == 1


def test_an_exit_with_a_failure_replaces_the_process(run):
    """A rank calls `sys.exit(3)`. That is a failure: the others are told why, and `muster run` starts
    the rank again."""
    job = run(3, "plain", "exits_3 sleeps", "--min-size", 3, "--max-restarts", 1)
    ends(job)
    assert [line["what"] for line in said(job, "raised")] == ["SystemExit"]
    first, second = ({rank["pid"] for rank in entered(job, attempt)} for attempt in (0, 1))
    assert len(first & second) == 2 and len(second) == 3
    assert any("SystemExit(3) at " in fault["text"] for fault in said(job, "fault"))


@pytest.mark.parametrize("victim", ["aborts", "gives_up"])
def test_a_rank_gives_the_run_up(run, victim):
    """A rank calls `abort`, or raises `GiveUp`. All ranks raise `GiveUp` with its text, also where the
    job needs all of them, and none is started again."""
    job = run(3, "given_up", f"{victim} sleeps", "--min-size", 3, "--max-restarts", 1)
    assert job.run.wait() == 1
    raised = said(job, "raised", "what=GiveUp")
    assert len(raised) == 3 and all(line["text"].endswith("no point in it") for line in raised)


def test_a_lost_connection_is_reported(run):
    """A rank reports that its connection to another one broke, and nothing else happened. That one is
    in the record, with both ends in the text."""
    job = run(3, "plain", "loses sleeps")
    ends(job)
    same_processes(job)
    assert {(fault["kind"], fault["index"]) for fault in said(job, "fault")} == {("FAILED", "0")}
    assert all("#1" in fault["text"] for fault in said(job, "fault"))


def test_a_sleeping_rank_is_found_and_lives(run):
    """A rank sleeps for ever, as do the others. After the soft timeout all are told, and go on in
    their processes."""
    job = run(3, "hanging", "hangs sleeps")
    ends(job)
    same_processes(job)
    assert {fault["kind"] for fault in said(job, "fault")} == {"SOFT_TIMEOUT"}


def test_a_rank_that_keeps_the_interpreter_is_killed_and_replaced(run):
    """A rank is in C for ever and keeps the interpreter's lock, so that no exception reaches it. Its
    agent kills it at the hard timeout, and the others go on in their processes."""
    job = run(
        3, "interpreter_kept", "keeps_the_interpreter sleeps", "--min-size", 3, "--max-restarts", 1
    )
    ends(job)
    first, second = ({rank["pid"] for rank in entered(job, attempt)} for attempt in (0, 1))
    last = {rank["pid"] for rank in said(job, "entered")}
    assert len(first) == 3 and len(last - first) == 1, second


def test_an_interpreter_that_runs_makes_progress(run):
    """The function calls nothing of muster for longer than the soft timeout, and its interpreter runs: no fault.
    With `progress="ping"` that is none."""
    job = run(2, "progress", "auto")
    ends(job)
    assert [line["value"] for line in said(job, "returned")] == ["0", "0"]
    job = run(2, "progress", "ping")
    ends(job)
    assert [line["value"] for line in said(job, "returned")] == ["1", "1"]


def test_a_wait_in_muster_is_no_hang(run):
    """A rank that has pinged is at a barrier for longer than the soft timeout, while the other one
    pings. It is not found."""
    job = run(2, "waiting")
    ends(job)
    assert [line["value"] for line in said(job, "returned")] == ["0", "0"]


def test_sections(run):
    """A long call in C is in a section without a limit, and another one in a section with one. The
    first one is let be, the second one is a fault that has the section's name."""
    job = run(2, "phases")
    ends(job)
    assert len(said(job, "passed")) == 2
    assert any("compile" in line["text"] for line in said(job, "fault")), job.out.lines


def test_callbacks_in_their_order(run):
    """There are two callbacks of each kind, and a fault. They come in the order of `restart.h`, each
    with its State; `finalize` has what the function raised; RANK is that of the attempt."""
    job = run(2, "callbacks")
    ends(job)
    first = "precondition:0:initialized,precondition2:0:initialized,"
    entry = "initialize:{0}:active,initialize2:{0}:active,health_check:{0}:active,health_check2:{0}:active,fn:{0},"
    fault = "abort:0:active,abort2:0:active,finalize:0:active,{0},finalize2:0:active,restart_health_check:0:active,"
    last = "completion:1:active,completion2:1:active"
    orders = {line["rank"]: line["of"] for line in said(job, "order")}
    for rank, raised in (("0", "NoneType"), ("1", "ValueError")):
        expected = first + entry.format(0) + fault.format(raised) + entry.format(1) + last
        assert orders[rank] == expected


@pytest.mark.parametrize(
    "kind, what", [("finalize", "Failed"), ("restart_health_check", "Unhealthy")]
)
def test_a_callback_after_a_fault_ends_its_rank(run, kind, what):
    """`finalize`, or the health check after a fault, raises. The run of that rank ends, by an error
    whose cause that is; the others go on."""
    job = run(3, "callbacks_fail", kind)
    ends(job)
    (raised,) = said(job, "raised")
    assert raised["what"] == what and raised["cause"].startswith("OSError")
    assert "OSError('worn out') at python_restart_rank.py" in raised["text"]
    assert len(said(job, "returned")) == 2


def test_a_failing_initialize_is_a_fault(run):
    """`initialize` raises once. All begin again, and the record has what it raised."""
    job = run(2, "callbacks_fail", "initialize")
    ends(job)
    assert len(said(job, "returned")) == 2
    assert said(job, "fault")[0]["text"].startswith("initialize: OSError('worn out') at")


def test_a_rank_leaves_before_the_function(run):
    """`initialize` of a rank calls `sys.exit()`. It leaves, and the others go on without it."""
    job = run(3, "leaves_early")
    ends(job)
    assert len(said(job, "raised")) == 1
    assert [line["value"] for line in said(job, "returned")] == ["2", "2"]


@pytest.mark.skipif(sanitized(), reason="a sanitizer keeps what was freed")
def test_hundreds_of_restarts_keep_nothing(run):
    """There are 300 restarts, without a collection of garbage. What the function held is freed before
    each next attempt, also what an exception held, and from the 100th on there are no more
    descriptors and threads, nor more than 2 MiB of memory."""
    job = run(3, "hundreds")
    ends(job)
    seen = said(job, "seen")
    assert len(seen) == 3
    for line in seen:
        assert (line["fds"], line["threads"]) == ("0", "0") and int(line["kib"]) < 2048, line


@pytest.mark.parametrize("rule, why, attempts", [("iterations_max", "ITERATIONS", 3), ("stalled_max", "STALLED", 4)])
def test_the_limit_of_attempts(run, rule, why, attempts):
    """The function fails again and again at the same step. After `iterations_max` attempts, or
    `stalled_max` after the first one that got there, all raise `Failed`, whose `why` is that rule
    and whose `cause` is the last fault."""
    job = run(2, "limits", rule, "--max-restarts", 0)
    assert job.run.wait() == 1
    raised = said(job, "raised")
    assert [(line["why"], line["cause"], line["index"]) for line in raised] == [(why, "FAILED", "1")] * 2
    assert len(said(job, "entered")) == 2 * attempts


@pytest.mark.parametrize("flags", [(), ("--spares", 1)])
def test_ctrl_c_ends_the_wait_for_the_others(run, flags):
    """A rank is done and waits for the others, or waits as a spare, and gets a SIGINT. There is
    `KeyboardInterrupt` at once, and the others go on."""
    job = run(2, "waits", "", "--max-restarts", 0, *flags)
    ranks = 2 + len(flags) // 2
    job.out.wait_for("runs", count=ranks)
    job.out.wait_for("entered", count=2)
    if flags:
        runs, works = ({line["pid"] for line in said(job, what)} for what in ("runs", "entered"))
        (pid,) = runs - works
    else:
        pid = re.search(r"pid=(\d+)", job.out.wait_for("done"))[1]
    os.kill(int(pid), signal.SIGINT)
    line = job.out.wait_for("interrupted")
    assert float(re.search(r"ms=([\d.]+)", line)[1]) < PROMPT_MS
    job.muster("key", "put", "interrupted", "", "-j", job.job)
    job.run.wait()
    assert said(job, "returned")


def test_the_function_is_told_its_hard_timeout(run):
    """A function asks for `call.hard_timeout`, which was given, is of the environment, or was not
    set. It is that of the run, also where a shorter `barrier_timeout` makes it shorter."""
    job = run(1, "hard_limit")
    assert job.run.wait() == 0, job.log.lines
    assert said(job, "well")


@pytest.mark.parametrize("mode", ["current", "nested"])
def test_the_call_of_this_thread(run, mode):
    """A helper of the function asks for `muster.current()`, on its thread and on another one. It is
    that of this attempt; one of an earlier attempt raises `Restart`. A wrapped function in a wrapped
    one is refused. A wrapped function can be called again."""
    job = run(2, mode)
    ends(job)
    assert len(said(job, "well")) == 2


def test_the_signal_can_be_another_one(run):
    """The program has a handler for the interrupt signal: the call is refused. With another signal the
    function is interrupted, and with none only by calls of muster; with `export=False` the
    environment stays as it is. Afterwards the signals have their handlers of before."""
    job = run(2, "signals")
    ends(job)
    assert len(said(job, "well")) == 2


def test_threads_use_a_call_whose_job_is_closed(run):
    """Threads use the Call of a function that does not wait for them, while it ends and its job is closed,
    60 times. They get `Restart`, or `Invalid` from `muster.current`, and nothing crashes."""
    job = run(1, "used_by_threads")
    ends(job)
    assert said(job, "well")


@pytest.mark.parametrize("seed", [1, 2])
def test_a_storm_of_restarts(run, seed):
    """Rank after rank fails at some moment while the others are anywhere, 60 times. All are there in
    the end, in their processes, and no lock was left taken."""
    job = run(3, "storm", str(seed))
    ends(job)
    assert len(said(job, "well")) == 3


PARAMETERS = """
import datetime, math, warnings
import muster

warnings.simplefilter("error")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        muster.Wrapper(store_factory=dict, heartbeat_timeout=datetime.timedelta(seconds=30))
    texts = sorted(str(warning.message) for warning in caught)
    assert [warning.category for warning in caught] == [DeprecationWarning] * 2, texts
    assert "heartbeat_timeout" in texts[0] and "lease" in texts[0] and "store_factory" in texts[1]
muster.Wrapper(
    soft_timeout=datetime.timedelta(seconds=60), hard_timeout=90, barrier_timeout=120, completion_timeout=math.inf,
    last_call_wait=0, termination_grace_time=5.0, stalled_max=math.inf, health_folder="/tmp",
)
for options, kind, words in (
    ({"soft_timeout": 90, "hard_timeout": 60}, muster.Invalid, ("soft_timeout", "hard_timeout")),
    ({"hard_timeout": 200, "barrier_timeout": 120}, ValueError, ("barrier_timeout",)),
    ({"soft_timeout": 0}, ValueError, ("soft_timeout", "more than 0")),
    ({"grace": -1}, ValueError, ("grace", "-1")),
    ({"progress": "none"}, ValueError, ("progress", "'none'")),
    ({"initialise": print}, TypeError, ("'initialise'",)),
    ({"initialize": 5}, TypeError, ("initialize", "int")),
    ({"rank_assignment": [muster.Max(2)]}, ValueError, ("assignment",)),
    ({"min_size": 2, "job": object()}, ValueError, ("min_size", "muster.open")),
):
    try:
        muster.Wrapper(**options)
    except kind as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError(options)
async def later():
    pass
try:
    muster.restart(later)
except TypeError as error:
    assert "asyncio.run" in str(error)
def pieces():
    yield 1
try:
    muster.restart(pieces)
except TypeError as error:
    assert "generator" in str(error)
"""

SWITCHED_OFF = """
import functools, os, typing
import muster

def plain(x):
    return x
assert muster.Wrapper(enabled=False)(plain)(2) == 2
assert muster.Wrapper(enabled=False)(lambda: muster.current().rank)() == 0

def called(x, call: typing.Optional[muster.Call] = None, *, other: "muster.Call | None" = None):
    assert call is other is muster.current() and call.iteration == 0
    call.step(3)
    with call.atomic(), call.section("compile", 1):
        return x
assert muster.Wrapper(enabled=False)(called)(1) == 1

class Trainer:
    def __call__(self, call: muster.Call, x=6):
        return call.iteration + x
    @muster.restart
    def method(self, x, call: muster.Call):
        return type(self), x, call.iteration
assert muster.Wrapper(enabled=False)(Trainer())(x=7) == 7
os.environ["MUSTER_ENABLED"] = "0"
assert muster.restart(functools.partial(called, 3))() == 3
assert Trainer().method(4) == (Trainer, 4, 0)
assert muster.restart(max)(3, 4) == 4
train = muster.Wrapper()(called)
assert train(2, None) == 2 and train.__name__ == "called"

@muster.restart
def fails():
    raise LookupError("as it is")
try:
    fails()
except LookupError as error:
    assert str(error) == "as it is"

@muster.restart
def ends(how, call: muster.Call):
    getattr(call, how[0])(*how[1:])
for how, kind, words in (
    (("fail", "no disk"), muster.Failed, "no disk"),
    (("again",), muster.Restart, "restarts are disabled"),
    (("abort", "no point"), muster.GiveUp, "no point"),
):
    try:
        ends(how)
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(how)
assert ends(("leave",)) is None
job = muster.open()
assert muster.Wrapper(job=job)(lambda: (muster.current().job, muster.current().generation))() == (job, 1)
"""


@pytest.mark.parametrize("lines", [PARAMETERS, SWITCHED_OFF], ids=["parameters", "switched off"])
def test_parameters(env, lines):
    """A parameter has no meaning here: it is accepted with one `DeprecationWarning` of a process. One
    that is misspelt, has a wrong type, or contradicts another one is refused where it is written.
    Switched off, the function is called once; its exception is raised as it is, and what it reports as
    one. A generator is refused."""
    done = subprocess.run(
        [*under(), sys.executable, "-c", lines], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("flags", ["--fail 100", "--kill 100"])
def test_the_example_goes_on_in_its_processes(spawn, muster, flags):
    """`examples/python/restart.py` is struck in the middle, by an exception or a SIGKILL. It goes on at
    the last save, and ends with the weights of a run that was not disturbed."""
    program = ROOT / "examples" / "python" / "restart.py"

    def train(*words):
        job = Run(spawn, muster, 4, "--min-size", 4, rank=(*under(), sys.executable, program, *words))
        ends(job)
        return job

    struck = train(*flags.split())
    assert len(struck.out.having("begins again", "rank 1 (#1)")) == 4
    weights, undisturbed = (sorted(job.out.having("weights")) for job in (struck, train()))
    assert weights == undisturbed and len(weights) == 4
