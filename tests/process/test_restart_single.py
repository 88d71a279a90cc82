# SPDX-License-Identifier: Apache-2.0
"""One rank: what a run returns, what is called how often, and that nothing is left of it. Most are
shown twice, by a program that is started alone and by the one rank of a `muster run`.

behaviour: restart
"""

import json
import os
import signal

import pytest

from conftest import BUILD, MUSTER, Process
from restarting import files_of, job, marked, pids, settle  # noqa: F401

SINGLE = BUILD / "tests" / "process" / "restart_single"


@pytest.fixture(params=["alone", "run"])
def single(request, env, started):
    """single(case, variables...): it ends well, and no process or file is left."""

    def go(case, **environment):
        mark = f"{case}-{os.getpid()}"  # others may run the same tests on this machine
        variables = {**env, "RR_JOB": mark, "MUSTER_PROGRAM": str(MUSTER), **environment}
        command = [SINGLE, case]
        if request.param == "run":
            command = [MUSTER, "run", "-n", 1, "--max-restarts", 0, "--", *command]
        process = Process(command, variables)
        started.append(process)
        code = process.wait()
        said = "\n".join(process.out.lines + process.log.lines)
        assert code == 0, said
        assert process.out.lines == [], said
        assert marked(mark) == {}
        assert files_of(env) == set()

    go.alone = request.param == "alone"
    return go


def test_what_the_function_returns_and_is_given_arrives_unchanged_1(single):
    """The function returns at once, or gives back what it was called with. What `arg` points to
    is as the function left it, and the run returns its status."""
    single("returns")


def test_what_the_function_can_do_with_its_handle_2(single):
    """The function looks at its view, pings, and pings within nested atomic sections. Iteration
    0, and all of it works."""
    single("handle")


def test_switched_off_it_is_a_plain_call_3(single):
    """`MUSTER_ENABLED=0`: the function is called once, and that is all: no thread, no process, no
    connection of the run."""
    single("disabled")


def test_what_contradicts_is_refused_and_nothing_is_created_4(single):
    """Options contradict each other, each rule in turn, equality too. The run fails with EINVAL
    that says the rule and the values, and nothing was started."""
    single("refused")


def test_a_precondition_refuses_and_nothing_is_created_5(single):
    """A `precondition` callback finds that a communicator exists already. The run returns its
    status; the function is not entered and nothing is left."""
    single("precondition")


def test_each_run_begins_anew_6(single):
    """The same run comes again, another one after it, one after a run that was given up. Each
    begins at iteration 0 and ends as the first one did."""
    single("several-runs")


def test_nothing_is_left_after_a_run_7(single):
    """A run of any of the other tests of one process is over. Threads, descriptors, children and
    handlers are those of before; where no agent watches, the first run starts a helper, which
    stays as long as the client."""
    single("nothing-is-left", MUSTER_AGENT="0")
    single("nothing-more-is-left")


def test_who_always_fails_is_entered_as_often_as_is_allowed_8(single):
    """The function always fails, `iterations_max` 4. It is entered 4 times, then the run ends."""
    single("always-fails")


def test_three_failures_and_then_a_value_9(single):
    """The function fails three times, then returns. The run ends with OK; it was entered with
    iterations 0, 1, 2, 3."""
    single("fails-three-times")


def test_attempts_after_a_far_rollback_make_progress(single):
    """A job goes back to an old checkpoint, and then fails in each attempt a little further on.
    It is not given up: an attempt that began further back has made progress when it advanced
    from there. [Fewer, and the end]"""
    single("far-back")


def test_failing_at_the_same_step_again_and_again_is_given_up(single):
    """A job fails at the same step after the same checkpoint, again and again. After
    `stalled_max` attempts in a row the run ends. [Fewer, and the end]"""
    single("circles")


def test_initialize_that_always_fails_is_given_up_11(single):
    """`initialize` always fails, with `iterations_max` 2. The run ends; the function was never
    entered."""
    single("initialize")


def test_abort_that_fails_is_only_logged_12(single):
    """`abort` fails, with `iterations_max` 2. That is only logged: there are two attempts, then
    the run ends."""
    single("abort")


def test_finalize_that_fails_ends_the_run_13(single):
    """`finalize` fails. The run ends with its status after one attempt; no health check follows."""
    single("finalize")


def test_who_is_never_healthy_never_enters_14(single):
    """The health check always fails. The run ends with EUNHEALTHY; the function is never entered."""
    single("unhealthy")


def test_unhealthy_once_is_one_restart_15(single):
    """The health check fails once. There is one restart, then all is well."""
    single("unhealthy-once")


@pytest.mark.parametrize("which", ["first", "second"])
def test_an_assignment_that_fails_ends_the_run_16(single, which):
    """The first or the second assignment fails. The run ends with the assignment's status after 0
    or 1 entries."""
    single(f"{which}-assignment")


def test_asking_again_without_end_is_given_up_17(single):
    """The function asks to restart, with `iterations_max` 2. The run ends after 2 entries."""
    single("again")


def test_callbacks_are_shown_copies_19(single):
    """A callback writes to the view it got. It was a copy: nothing changes."""
    single("copies")


def test_a_generation_begins_without_keys_20(single):
    """The function counts in the key space of its generation. The count is always 1."""
    single("keys")


def test_every_run_logs_the_same_21(single):
    """Two runs log the same number of lines."""
    single("log")


@pytest.mark.parametrize("how", ["address", "program"])
def test_a_service_that_cannot_be_had_is_the_callers_error_10(job, how):
    """The service cannot be reached, neither one that is named, nor one of its own.
    `muster_client_open` says so; the function is not entered."""
    if how == "address":
        nobody = os.path.dirname(job.path) + "/nobody"
        job.alone(MUSTER_ADDR=f"unix:{nobody}", RR_OPEN_MS="300")
        word = nobody
    else:
        job.alone(MUSTER_PROGRAM="/nowhere/muster")
        word = "a service for this process alone cannot be started: '/nowhere/muster'"
    refused = job.wait("refused")[0]
    assert refused["status"] == "MUSTER_EUNREACHABLE"
    assert word in refused.text
    job.ended(1)
    assert {event.what for event in job.events} == {"started", "refused"}


def test_asking_again_restarts_all_ranks_together_17(job):
    """One of four ranks asks to restart, with `iterations_max` 2. All ranks restart together, and
    the run ends after 2 entries."""
    job.run(4, "--max-restarts", 0, MUSTER_ITERATIONS_MAX="2")
    first = job.entered(4, iteration=0)
    job.order(first[2:3], "again")
    second = job.entered(4, iteration=1)
    assert pids(second) == pids(first)
    for fault in job.wait("fault", 4):
        assert (fault["kind"], fault["index"]) == ("again", "2")
    job.order(second[1:2], "again")
    for event in job.finish(4, status="MUSTER_EFAILED"):
        assert event.text.startswith("run: given up after 2 attempts that failed")
    assert len([event for event in job.events if event.what == "entered"]) == 8
    job.ended(None)


@pytest.mark.parametrize("started_by", ["hand", "run"])
def test_exit_in_the_function_is_the_end_of_the_process_18(job, started_by):
    """The function calls `exit`, with 0, 75 or another status. It is the end of the process with
    that status, and it is not entered again."""
    if started_by == "hand":
        job.alone()
    else:
        job.run(1, "--max-restarts", 0)
    job.order(job.entered(1), "exit 7")
    job.ended(7)
    assert len([event for event in job.events if event.what == "entered"]) == 1


@pytest.mark.parametrize("code", [0, 75])
def test_who_exits_well_is_not_started_again_18(job, code):
    """A rank exits with 0 or 75. It is not started again, and that is no failure for the others:
    it left."""
    job.run(2)
    ranks = job.entered(2)
    mark = job.mark()
    job.order(ranks[:1], f"exit {code}")
    rest = job.entered(1, mark, size=1)
    assert rest[0].pid == ranks[1].pid
    job.order(rest, "ok")
    job.finish(1, mark)
    job.ended(code)
    assert bool(code) == bool(job.runner.log.having(
        "#0", f"pid {ranks[0].pid}) left the job and ended with status {code}"))
    assert len([event for event in job.events if event.what == "started"]) == 2


@pytest.mark.parametrize("how, code", [("exit", 1), ("exit", 7), ("exit", 255), ("_exit", 1)])
def test_who_exits_with_another_status_has_failed_and_is_replaced_18(job, how, code):
    """A rank calls `exit()` with another status, in a job of fixed size. That is a failure: it is
    replaced as one of `--max-restarts`. The cause is `exit` with the status, also where a
    helper reports it, or the rank is behind a wrapper such as `sh -c` or `timeout`.
    [Atomic sections, leaving, giving up]"""
    job.run(2)
    ranks = job.entered(2)
    mark = job.mark()
    job.order(ranks[:1], f"{how} {code}")
    again = settle(job, 2, mark)
    assert pids(again) & pids(ranks) == {ranks[1].pid}
    job.runner.log.wait_for("#0", f"pid {ranks[0].pid}) ended with status {code}; "
                            "starting it again (1 of 3); the others go on in their processes")
    mark = job.mark()
    job.order(again, "ok")
    job.finish(2, mark)
    job.ended()


def test_one_of_a_fixed_size_that_always_exits_with_a_status_ends_the_run_18(job):
    """A rank of a job of fixed size always exits with a status. It is replaced once for each
    restart; when none is left the run ends with that status.
    [Atomic sections, leaving, giving up]"""
    job.run(2, "--max-restarts", 1)
    ranks = job.entered(2)
    mark = job.mark()
    job.order(ranks[:1], "exit 7")
    again = settle(job, 2, mark)
    job.order([rank for rank in again if rank.pid not in pids(ranks)], "exit 7")
    job.ended(7)
    assert "first cause" in job.runner.log.lines[-1]
    assert "ended with status 7" in job.runner.log.lines[-1]


@pytest.mark.parametrize("behind", [("sh", "-c", '"$0" "$@"; true'), ("timeout", "600"), ("setsid", "-w")],
                         ids=lambda behind: behind[0])
def test_behind_a_wrapper_the_status_of_exit_is_told(job, behind, tmp_path):
    """A rank behind a wrapper calls `exit`. The status is that of the rank, not that of the
    wrapper, which is killed as soon as the rank is dead. [Atomic sections, leaving, giving up]"""
    report = tmp_path / "report.json"
    job.run(2, "--max-restarts", 1, "--report", report, behind=behind)
    ranks = job.entered(2)
    mark = job.mark()
    job.order(ranks[:1], "exit 7")
    job.runner.log.wait_for(f"pid {ranks[0].pid}) ended with status 7; starting it again (1 of 1)")
    again = settle(job, 2, mark)
    job.order([rank for rank in again if rank.pid not in pids(ranks)], "exit 7")
    job.ended(7)
    assert "ended with status 7" in job.runner.log.lines[-1]
    cause = json.loads(report.read_text())["first_cause"]
    assert (cause["kind"], cause["code"]) == ("exit", 7)


def test_a_signal_that_ends_the_process_ends_it_18(job):
    """SIGINT or SIGTERM ends the program of a rank. It is the end of the process: muster handles
    neither."""
    job.alone()
    (rank,) = job.entered(1)
    os.kill(rank.pid, signal.SIGINT)
    job.ended(-signal.SIGINT)
    assert len([event for event in job.events if event.what == "entered"]) == 1


def test_the_log_is_the_same_for_every_call_and_names_the_process_21(job, muster):
    """Two runs, and what is logged of each. The number of lines is the same for each; the log of
    `muster run` and `muster status`, in place of the monitor's log and its pid file, name the
    process, which is alive."""
    job.run(1, "-j", "logged", MUSTER_SOFT_TIMEOUT="1s", MUSTER_HARD_TIMEOUT="30s")
    lines = []
    for call in (1, 2):
        mark = job.mark()
        (rank,) = job.entered(1, mark, iteration=0)
        before = len(job.runner.log.lines)
        job.order([rank], "block read")
        again = job.entered(1, mark, iteration=1)
        job.order(again, "ok")
        done = job.wait("done", 1, mark)
        job.runner.log.wait_for("all ranks are interrupted", count=call)
        lines.append(job.runner.log.lines[before:])
        job.order(done, "run")
    (rank,) = job.entered(1, job.events.index(done[0]))
    assert len(lines[0]) == len(lines[1]) > 0, lines
    assert any(f"pid {rank.pid}" in line for line in lines[0])
    status = json.loads(muster("status", "--json", "-j", "logged").stdout)
    (member,) = [one for one in status["members"] if one["role"] == "rank"]
    assert member["pid"] == rank.pid
    os.kill(member["pid"], 0)
    job.order([rank], "ok")
    job.finish(1, job.mark())
    job.ended()
