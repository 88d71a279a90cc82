# SPDX-License-Identifier: Apache-2.0
"""Preemption from the program's side: real ranks, real signals. preempting.py says how the ranks are
told what to do; a number at the end of a name is that of the scenario.

behaviour: preemption / One step for all
"""

import contextlib
import os
import re
import signal
import time

import pytest

from conftest import WAIT_S
from preempting import agree, start
from running import until

LONG = {"MUSTER_PREEMPT_AGREE_TIMEOUT": "60s", "MUSTER_PREEMPT_GRACE": "10m"}
# Where a test waits for the loss of one: not so short that a busy machine loses the others, too.
LEASE = "5s"
SHORT = "4s"  # where it waits for a frozen one to be left out; the others are to answer in it


@pytest.fixture
def job(env, started, serve):
    """job(size, settings...): that many ranks of one generation, and `job.service`."""

    def make(size, *flags, **settings):
        make.service = serve(*flags)
        settings = {"MUSTER_PREEMPT_AGREE_TIMEOUT": "60s", **settings}  # longer than a busy machine stands still
        ranks = [start(env, started, make.service, size, i, **settings) for i in range(size)]
        for rank in ranks:
            rank.out.wait_for("ready")
        made.extend(ranks)
        return ranks

    made = []
    yield make
    for rank in made:  # whom SIGTERM would not end
        if rank.process.poll() is None:
            rank.kill()


def statuses(said):
    return [words.split(" ")[0] for words in said]


def train(ranks, step):
    """All go on from `step` together until they are to save: the same one."""
    (said,) = set(agree(ranks, f"train {step}"))
    assert said.startswith("save at="), said
    return int(said[len("save at=") :])


def end(ranks):
    for rank in ranks:
        rank.end()


# ---- one step for all ----


def test_no_notice_all_go_on_127(job):
    """There is no notice. Every step is to be computed."""
    (rank,) = job(1)
    assert [rank.reached(step) for step in (0, 1, 2)] == ["go", "go", "go"]
    assert rank.notice() is None
    end([rank])


def test_a_rank_that_never_asked_does_not_hold_the_others_up_128(job):
    """One of two ranks has asked for steps 0 and 1, the other for none; the deadline is now. Step
    2 is agreed: each rank is to save 2 or 3 when it asks for it, and the slow one goes on
    until 2."""
    zero, one = job(2)
    assert [zero.reached(0), zero.reached(1)] == ["go", "go"]
    assert zero.ask("announce 0 0 now") == "MUSTER_OK "
    assert [zero.agreed(), one.agreed()] == [2, 2]
    assert [zero.reached(2), zero.reached(3)] == ["save", "save"]
    assert [one.reached(0), one.reached(1), one.reached(2)] == ["go", "go", "save"]
    end([zero, one])


def test_a_notice_far_away_is_known_and_nothing_is_agreed_129(job):
    """The deadline is an hour away, beyond the window. The notice is known, nothing is agreed,
    the handle closes within a second."""
    zero, one = job(2)
    assert zero.ask("announce 1 3600000 maintenance") == "MUSTER_OK "
    assert zero.noticed(index=1)["agreed"] == "-1"
    assert [zero.reached(0), one.reached(0)] == ["go", "go"]
    took = []
    for _ in range(5):  # the best of a few: a loaded machine is not what is looked at
        began = time.monotonic()
        assert zero.ask("close") == "ok"
        took.append(time.monotonic() - began)
        assert zero.ask("open") == "ok"
        zero.noticed(index=1)
    assert min(took) < 1, took
    end([zero, one])


@pytest.mark.parametrize("how", ["killed", "left"])
def test_a_member_that_is_gone_does_not_count_130(job, how):
    """A rank was killed, or has left, and another one gets a notice. Once the rank is lost or has
    left, a step is agreed without it."""
    zero, one = job(2, "--lease", LEASE, **LONG)
    if how == "killed":
        one.kill()
    else:
        assert one.ask("leave") == "MUSTER_OK "
    zero.signal(signal.SIGTERM)
    zero.noticed(index=0)
    assert zero.reached(0) == "save"
    assert zero.agreed() == 0
    end([zero])
    if how == "left":
        end([one])


def test_who_has_left_is_not_to_save_131(job):
    """A rank has left the job. It is asked to stop, never to save."""
    zero, one = job(2)
    for rank in (zero, one):
        assert rank.ask("leave") == "MUSTER_OK "
        assert rank.reached(0) == "stop"
    end([zero, one])


def test_closing_at_any_time_132(job):
    """The handle is closed before it was opened, before and after a notice, and twice. It neither
    fails nor hangs; opened again in the same generation it learns the notice and what was
    agreed."""
    zero, one = job(2, PR_EARLY="1")
    for order in ("close", "open", "close", "open"):  # never opened; without a notice; twice
        assert zero.ask(order) == "ok"
    assert one.ask("open") == "ok"
    zero.signal(signal.SIGTERM)
    step = zero.agreed()
    assert one.agreed() == step
    for order in ("close", "open"):  # with a notice: which is known again, and what was agreed
        assert zero.ask(order) == "ok"
    zero.noticed(index=0, agreed=step)
    assert agree([zero, one], f"reached {step}") == ["save", "save"]
    end([zero, one])


@pytest.mark.parametrize("whom", ["slow", "fast"])
def test_the_slow_and_the_fast_stop_at_the_same_step_133(job, whom):
    """The slow rank was at step 0, the fast one at 2; one of them gets the notice. Both save step
    3, whichever got it."""
    slow, fast = job(2)
    assert [fast.reached(step) for step in (0, 1, 2)] == ["go", "go", "go"]
    assert slow.reached(0) == "go"
    {"slow": slow, "fast": fast}[whom].signal(signal.SIGTERM)
    assert [rank.agreed() for rank in (slow, fast)] == [3, 3]
    assert [slow.reached(step) for step in (1, 2, 3)] == ["go", "go", "save"]
    assert fast.reached(3) == "save"
    end([slow, fast])


def test_notices_to_both_at_once_are_one_agreement_134(job):
    """Both ranks get a notice at once. There is one agreement."""
    zero, one = job(2)
    assert zero.reached(0) == "go"
    zero.signal(signal.SIGTERM)
    one.signal(signal.SIGTERM)
    assert [zero.agreed(), one.agreed()] == [1, 1]
    assert agree([zero, one], "train 1") == ["save at=1", "save at=1"]
    end([zero, one])


def test_a_notice_that_is_none_is_logged_and_ignored_135(job, muster):
    """The value of a notice, written by hand, is none. One line in the log says so; all go on."""
    zero, one = job(2)
    done = muster("key", "put", "muster/preempt/notice/0", "garbage", "--addr", job.service.address)
    assert done.returncode == 0, done.stderr
    zero.log.wait_for("the notice for #0 is no notice")
    for rank in (zero, one):
        assert rank.notice() is None
        assert rank.reached(0) == "go"
    end([zero, one])


@pytest.mark.parametrize("when", ["meanwhile", "before"])
def test_a_member_that_goes_while_the_others_agree_136(job, when):
    """A rank goes while the others wait for the step, or before. They get their step as soon as
    the rank is known to be lost, and do not wait out any time limit."""
    zero, one, two = job(3, "--lease", LEASE, **LONG)
    if when == "meanwhile":
        one.stop()
    else:
        one.kill()
    zero.signal(signal.SIGTERM)
    for rank in (zero, two):
        rank.noticed(index=0)
    for rank in (zero, two):
        rank.order("reached 0")
    if when == "meanwhile":
        one.kill()
    assert [rank.answer("reached 0") for rank in (zero, two)] == ["save", "save"]
    end([zero, two])


def test_sigterm_to_one_of_four_and_all_save_one_step(job):
    """SIGTERM comes to one of four ranks that train. All four save the same step, and learn that
    all have (EPREEMPTED, exit code 75)."""
    ranks = job(4)
    for rank in ranks:
        rank.order("train 0")
    ranks[2].signal(signal.SIGTERM)
    (said,) = {rank.answer("train 0") for rank in ranks}
    step = int(said.removeprefix("save at="))
    assert statuses(agree(ranks, f"saved {step}")) == ["MUSTER_EPREEMPTED"] * 4
    end(ranks)


# ---- the notice ----


def test_a_signal_is_a_notice_from_its_arrival_137(job):
    """A rank gets SIGTERM while its program calls nothing of muster. All ranks know which rank it
    was, the sender, and a deadline from the moment of the signal on, marked as assumed. A
    second signal changes nothing. [The notice]"""
    zero, one = job(2, MUSTER_PREEMPT_GRACE="40s")
    before = time.time() * 1000
    zero.signal(signal.SIGTERM)
    zero.log.wait_for("notice for #0", "SIGTERM")  # the one that is meant says it, and rank 0
    for rank in (zero, one):
        notice = rank.noticed(index=0)
        assert (notice["source"], notice["assumed"], notice["level"]) == ("signals", "1", "0")
        assert f"SIGTERM from process {os.getpid()}" == notice["reason"]
        assert before + 40_000 - 50 <= int(notice["unix"]) <= time.time() * 1000 + 40_000
        assert 0 < int(notice["left"]) <= 40_000
    first = zero.notice()
    zero.signal(signal.SIGTERM)
    assert zero.ask("sources") == "'signals'"
    assert abs(int(zero.notice()["unix"]) - int(first["unix"])) < 1000
    end([zero, one])


def test_the_notice_of_another_is_told_138(job):
    """Another process gives the notice, for the whole job. All know its words; when it is taken
    back there is none any more. [The notice]"""
    zero, one = job(2)
    assert zero.notice() is None
    assert one.ask("announce all 1000000 the rack loses power") == "MUSTER_OK "
    notice = zero.noticed(index=-1)
    assert (notice["source"], notice["reason"]) == ("hand", "the rack loses power")
    assert notice["assumed"] == "0" and 0 < int(notice["left"]) <= 1_000_000
    assert one.ask("withdraw all") == "MUSTER_OK "
    until(lambda: zero.notice() is None)
    end([zero, one])


def test_waiting_for_the_exit_ends_with_the_member_or_the_service_139(job):
    """A program waits for the exit of the noticed ranks. The wait ends at once without a notice,
    when the member is lost, and when the service is gone; its own time limit is an error.
    [The notice]"""
    zero, one, two = job(3, "--lease", LEASE, **LONG)
    assert zero.ask("wait-exit -1") == "MUSTER_OK "  # no notice: at once
    assert zero.ask("announce 1 600000 x") == "MUSTER_OK "
    zero.noticed(index=1)
    assert zero.ask("wait-exit 50").startswith("MUSTER_ETIMEDOUT wait for the exit")
    zero.order("wait-exit -1")
    one.kill()
    assert zero.answer("wait-exit -1") == "MUSTER_OK "
    assert zero.ask("announce 2 600000 x") == "MUSTER_OK "
    zero.noticed()
    zero.order("wait-exit 60000")
    job.service.kill()
    assert zero.answer("wait-exit 60000") == "MUSTER_OK "


def test_waiting_for_the_exit_tells_other_failures_139(job):
    """A program waits for the exit of the noticed ranks after it has left the job itself. That is
    an error of its own. [The notice]"""
    zero, one = job(2)
    assert zero.ask("announce 1 600000 x") == "MUSTER_OK "
    zero.noticed(index=1)
    assert zero.ask("leave") == "MUSTER_OK "
    assert zero.ask("wait-exit -1").startswith("MUSTER_ECANCELLED ")
    end([zero, one])


def test_without_a_source_it_says_so_once_140(job):
    """No source gives notices for the process. One warning says so; the list of sources is empty,
    there is no notice, and waiting for the exit returns at once. [The notice]"""
    (rank,) = job(1, PR_SIGNALS="")
    rank.log.wait_for("this process has no source of notices")
    assert rank.ask("sources") == "''"
    assert rank.notice() is None
    assert rank.ask("wait-exit -1") == "MUSTER_OK "
    end([rank])
    assert len(rank.log.having("this process has no source of notices")) == 1


# ---- the sources of the process ----


def test_a_handler_that_was_there_is_called_and_put_back(job):
    """The program has a handler of SIGTERM. It is called too, and alone again after the handle
    was closed. [The sources of a process]"""
    (rank,) = job(1, PR_HANDLER="1")
    rank.signal(signal.SIGTERM)
    rank.noticed(index=0)
    assert rank.ask("handled") == "1"
    assert rank.ask("close") == "ok"
    rank.signal(signal.SIGTERM)
    until(lambda: rank.ask("handled") == "2")
    assert rank.ask("open") == "ok"
    end([rank])


def test_after_closing_the_signal_does_what_it_did(job):
    """A program has no handler of SIGTERM, and its handle was closed. SIGTERM ends the process,
    as before. [The sources of a process]"""
    (rank,) = job(1)
    assert rank.ask("close") == "ok"
    rank.signal(signal.SIGTERM)
    assert rank.wait() == -signal.SIGTERM


def test_a_forked_child_still_dies_of_the_signal(job):
    """A forked child gets SIGTERM. It dies of it, and that is no notice.
    [The sources of a process]"""
    (rank,) = job(1)
    child = int(rank.ask("child-stays"))
    os.kill(child, signal.SIGTERM)
    assert rank.ask("reap") == f"signal {int(signal.SIGTERM)}"
    assert rank.notice() is None
    end([rank])


def test_other_signals_by_name(job):
    """A program names other signals. Those are notices. [The sources of a process]"""
    (rank,) = job(1, PR_SIGNALS="USR1,SIGUSR2")
    rank.signal(signal.SIGUSR2)
    assert rank.noticed(index=0)["reason"].startswith("SIGUSR2 from process ")
    end([rank])


def test_the_users_own_source(job, tmp_path):
    """A program has a source of its own. What it says is a notice with its name and reason, once.
    [The sources of a process]"""
    file = tmp_path / "soon"
    zero, one = job(2, PR_SOURCE=str(file))
    assert zero.ask("sources") == "'signals,mine'"
    assert zero.notice() is None
    file.with_suffix(".new").write_text("600000")
    file.with_suffix(".new").rename(file)
    notice = zero.noticed(source="mine")
    assert (notice["assumed"], notice["reason"]) == ("0", "found a file")
    assert 0 < int(notice["left"]) <= 600_000
    end([zero, one])


# ---- who is frozen, late, lost or wrong ----


def test_a_frozen_rank_is_left_out_and_named(job):
    """A rank does not run at all (SIGSTOP). It is left out after the time limit and named in the
    log; it wakes up, and saves the same step. [Frozen, late, lost or wrong ranks]"""
    ranks = job(3, MUSTER_PREEMPT_AGREE_TIMEOUT=SHORT)
    zero, one, two = ranks
    assert [rank.reached(0) for rank in ranks] == ["go"] * 3
    two.stop()
    zero.signal(signal.SIGTERM)
    assert [zero.agreed(), one.agreed()] == [1, 1]
    assert agree([zero, one], "reached 1") == ["save", "save"]
    until(lambda: zero.log.having("frozen", "#2") or one.log.having("frozen", "#2"))
    two.go_on()  # it was not told *no* for the step: it saves it like the others
    assert two.agreed() == 1
    assert two.reached(1) == "save"
    assert statuses(agree(ranks, "saved 1")) == ["MUSTER_EPREEMPTED"] * 3
    end(ranks)


def test_a_frozen_rank_that_was_further_is_agreed_with_once_more(job):
    """A frozen rank wakes up, and had gone on beyond the step. A later step is agreed, before any
    rank has saved. [Frozen, late, lost or wrong ranks]"""
    zero, one = job(2, MUSTER_PREEMPT_AGREE_TIMEOUT=SHORT)
    assert [one.reached(step) for step in range(6)] == ["go"] * 6
    assert zero.reached(0) == "go"
    one.stop()
    zero.signal(signal.SIGTERM)
    assert zero.agreed() == 1
    one.go_on()
    assert zero.agreed(6) == 6
    assert [zero.reached(1), zero.reached(6), one.reached(6)] == ["go", "save", "save"]
    assert statuses(agree([zero, one], "saved 6")) == ["MUSTER_EPREEMPTED"] * 2
    end([zero, one])


def test_a_rank_that_had_passed_the_step_is_named_when_the_others_have_saved(job):
    """A frozen rank that had passed the step wakes up when the others have saved. They learn
    "saved by 2 of 3", and which rank is missing. [Frozen, late, lost or wrong ranks]"""
    ranks = job(3, MUSTER_PREEMPT_AGREE_TIMEOUT=SHORT)
    zero, one, two = ranks
    assert [two.reached(step) for step in range(6)] == ["go"] * 6
    two.stop()
    zero.signal(signal.SIGTERM)
    assert [zero.agreed(), one.agreed()] == [0, 0]
    assert agree([zero, one], "reached 0") == ["save", "save"]
    for rank in (zero, one):
        rank.order("saved 0")
    # The first save decides: from now on the step stays.
    until(lambda: verdict_of(job) == b"saving")
    two.go_on()
    said = [rank.answer("saved 0") for rank in (zero, one)]
    assert statuses(said) == ["MUSTER_EFAILED"] * 2
    assert all("saved by 2 of 3: #2 had passed step 0" in words for words in said), said
    two.log.wait_for("which this rank had passed")
    end(ranks)


def verdict_of(job):
    with contextlib.closing(job.service.wire()) as wire:
        return wire.get("muster/preempt/verdict/1.0").value


def test_different_steps_are_told_to_all(job):
    """Ranks have saved different steps. The save fails on all of them, with the list of ranks and
    steps. [Frozen, late, lost or wrong ranks]"""
    ranks = job(3)
    ranks[0].signal(signal.SIGTERM)
    assert [rank.agreed() for rank in ranks] == [0] * 3
    assert agree(ranks, "reached 4") == ["save"] * 3
    ranks[0].order("saved 4")
    ranks[1].order("saved 5")
    ranks[2].order("saved 4")
    said = [ranks[0].answer("saved 4"), ranks[1].answer("saved 5"), ranks[2].answer("saved 4")]
    assert statuses(said) == ["MUSTER_EMISMATCH"] * 3
    for words in said:
        assert re.search(r"#1 step 5, .*#0 step 4", words) and "#2 step 4" in words, words
    end(ranks)


def test_a_member_lost_before_its_save_is_named(job):
    """A rank is lost before it has saved. The others learn which.
    [Frozen, late, lost or wrong ranks]"""
    zero, one = job(2, "--lease", LEASE)
    zero.signal(signal.SIGTERM)
    assert [zero.agreed(), one.agreed()] == [0, 0]
    assert agree([zero, one], "reached 0") == ["save", "save"]
    zero.order("saved 0")
    one.kill()
    said = zero.answer("saved 0")
    assert said.startswith("MUSTER_ELOST save of step 0: ") and "#1" in said, said
    end([zero])


def test_the_deadline_names_who_is_missing(job):
    """A rank does not save before the deadline. The others learn which.
    [Frozen, late, lost or wrong ranks]"""
    zero, one = job(2)
    assert zero.ask("announce 0 10000 soon") == "MUSTER_OK "
    assert [zero.agreed(), one.agreed()] == [0, 0]
    assert agree([zero, one], "reached 0") == ["save", "save"]
    said = zero.saved(0)
    assert said.startswith("MUSTER_ETIMEDOUT save of step 0: ") and "#1" in said, said
    end([zero, one])


def test_a_wait_of_ones_own_ends_alone_and_may_be_repeated(job):
    """A call has a shorter time limit of its own. It alone ends, naming the missing ranks, and
    may be repeated. [Frozen, late, lost or wrong ranks]"""
    zero, one = job(2)
    zero.signal(signal.SIGTERM)
    assert [zero.agreed(), one.agreed()] == [0, 0]
    assert agree([zero, one], "reached 0") == ["save", "save"]
    said = zero.saved(0, 50)
    assert said.startswith("MUSTER_ETIMEDOUT save of step 0: 1 of 2 arrived; missing"), said
    assert "rank 1 (#1, " in said, said
    one.order("saved 0")
    assert zero.saved(0).startswith("MUSTER_EPREEMPTED ")
    assert one.answer("saved 0").startswith("MUSTER_EPREEMPTED ")
    end([zero, one])


def test_no_save_is_due(job):
    """A program reports a save that was not due. It is refused.
    [Frozen, late, lost or wrong ranks]"""
    (rank,) = job(1)
    assert rank.saved(0).startswith("MUSTER_EINVAL save of step 0: no save is due")
    end([rank])


# ---- postponed, taken back, and again ----


def test_a_region_in_which_no_save_is_possible_postpones(job):
    """A rank is in a region in which it cannot save. All go on, until the region ends; then the
    step is agreed. [Postponed, taken back, and again]"""
    zero, one = job(2, **LONG)
    assert zero.reached(3) == "go"
    assert zero.ask("hold 60000") == "MUSTER_OK "
    one.signal(signal.SIGTERM)
    until(lambda: zero.log.having("postponed") or one.log.having("postponed"))
    assert [zero.reached(4), one.reached(0)] == ["go", "go"]
    assert zero.ask("unhold") == "MUSTER_OK "
    assert [zero.agreed(), one.agreed()] == [5, 5]
    assert agree([zero, one], "reached 5") == ["save", "save"]
    end([zero, one])


def test_the_bound_of_a_region_ends_it(job):
    """The bound of a region passes in which a rank cannot save. The step is agreed as if the
    region had ended. [Postponed, taken back, and again]"""
    zero, one = job(2, **LONG)
    assert zero.ask("hold 300") == "MUSTER_OK "
    one.signal(signal.SIGTERM)
    assert [zero.agreed(), one.agreed()] == [0, 0]
    assert zero.ask("unhold") == "MUSTER_OK "
    assert zero.ask("unhold").startswith("MUSTER_EINVAL")
    end([zero, one])


def test_a_notice_that_is_taken_back_lets_all_go_on(job):
    """The notice is taken back before any rank saved. All go on.
    [Postponed, taken back, and again]"""
    zero, one = job(2)
    assert zero.ask("announce 1 60000 maybe") == "MUSTER_OK "
    assert [zero.agreed(), one.agreed()] == [0, 0]
    assert zero.reached(0) == "save"
    assert one.ask("withdraw 1") == "MUSTER_OK "
    until(lambda: zero.reached(0) == "go" and one.reached(0) == "go")
    assert zero.saved(0).split(" ")[0] in ("MUSTER_ESTALE", "MUSTER_EINVAL")
    end([zero, one])


def test_a_second_notice_is_another_agreement(job):
    """A second notice comes after the save, and no rank has left yet. Another step is agreed and
    saved. [Postponed, taken back, and again]"""
    zero, one = job(2, MUSTER_PREEMPT_LEAVE="noticed", **LONG)
    assert zero.ask("announce 0 600000 first") == "MUSTER_OK "
    step = train([zero, one], 0)
    assert statuses(agree([zero, one], f"saved {step}")) == ["MUSTER_EPREEMPTED", "MUSTER_OK"]
    assert agree([zero, one], f"reached {step}") == ["go", "go"]
    assert one.ask("announce 1 500000 second") == "MUSTER_OK "
    step = train([zero, one], step + 1)
    assert statuses(agree([zero, one], f"saved {step}")) == ["MUSTER_EPREEMPTED"] * 2
    end([zero, one])


# ---- with restart in the process ----


def enter(ranks, generation):
    for rank in ranks:
        rank.out.wait_for(f"entered generation={generation} ")


def test_the_noticed_leave_and_the_others_go_on_in_the_process(job):
    """Only the noticed ranks leave, by `muster_restart_leave`: they get EPREEMPTED, the others
    OK. The others are called out as for any loss, seal the next generation in their processes,
    and a later notice there is acted upon as well. [Postponed, taken back, and again]"""
    ranks = job(3, MUSTER_PREEMPT_LEAVE="noticed", **LONG)
    for rank in ranks:
        rank.order("run")
    enter(ranks, 1)
    ranks[1].signal(signal.SIGTERM)
    step = train(ranks, 0)
    assert statuses(agree(ranks, f"saved {step}")) == [
        "MUSTER_OK", "MUSTER_EPREEMPTED", "MUSTER_OK"]
    rest = [ranks[0], ranks[2]]
    ranks[1].order("return leave")
    assert ranks[1].answer("run") == "MUSTER_OK "
    for rank in rest:  # who go on, and hear of it
        until(lambda asked=rank: asked.reached(step + 1) == "stop")
        rank.order("return")
    enter(rest, 2)
    assert agree(rest, f"reached {step}") == ["go", "go"]
    ranks[0].signal(signal.SIGTERM)
    step = train(rest, step + 1)
    assert statuses(agree(rest, f"saved {step}")) == ["MUSTER_EPREEMPTED", "MUSTER_OK"]
    for rank in rest:
        rank.order("return")
    end(rest)
    end([ranks[1]])


def test_all_leave_a_run_that_restarts(job):
    """All leave, in a function under `muster_restart_run`. It returns EPREEMPTED, and so does the
    run, on all ranks. [Postponed, taken back, and again]"""
    ranks = job(2)
    for rank in ranks:
        rank.order("run")
    enter(ranks, 1)
    ranks[0].signal(signal.SIGTERM)
    step = train(ranks, 0)
    assert statuses(agree(ranks, f"saved {step}")) == ["MUSTER_EPREEMPTED"] * 2
    for rank in ranks:
        rank.order("return preempted")
    assert statuses([rank.answer("run") for rank in ranks]) == ["MUSTER_EPREEMPTED"] * 2
    end(ranks)


def test_a_restart_ends_the_wait_for_the_step(job):
    """A rank fails under `muster_restart_run` while others wait for the step. The wait ends; the
    next generation agrees by itself. [Postponed, taken back, and again]"""
    zero, one = ranks = job(2, **LONG)
    for rank in ranks:
        rank.order("run")
    enter(ranks, 1)
    one.stop()
    zero.signal(signal.SIGTERM)
    zero.noticed(index=0)
    zero.order("reached 0")
    one.go_on()
    one.order("fail")
    assert zero.answer("reached 0") in ("stop", "save")
    for rank in ranks:
        rank.order("return")
    enter(ranks, 2)
    # The notice is still to be acted upon: the new generation agrees by itself.
    assert [rank.agreed() for rank in ranks] == [0, 0]
    assert agree(ranks, "reached 9") == ["save", "save"]
    assert statuses(agree(ranks, "saved 9")) == ["MUSTER_EPREEMPTED"] * 2
    for rank in ranks:
        rank.order("return")
    end(ranks)


def test_a_notice_while_a_restart_is_in_progress(job):
    """A notice comes while a restart is in progress. A rank that asks has to stop; the next
    generation agrees and saves. [Postponed, taken back, and again]"""
    zero, one = ranks = job(2, **LONG)
    for rank in ranks:
        rank.order("run")
    enter(ranks, 1)
    assert [rank.reached(5) for rank in ranks] == ["go", "go"]
    assert one.ask("fail") == "MUSTER_EFAILED"
    until(lambda: zero.reached(6) == "stop")  # interrupted, and has not returned yet
    one.signal(signal.SIGTERM)
    zero.noticed(index=1)
    assert zero.reached(7) == "stop"
    for rank in ranks:
        rank.order("return")
    enter(ranks, 2)
    step = train(ranks, 0)
    assert statuses(agree(ranks, f"saved {step}")) == ["MUSTER_EPREEMPTED"] * 2
    for rank in ranks:
        rank.order("return")
    end(ranks)
