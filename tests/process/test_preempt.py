# SPDX-License-Identifier: Apache-2.0
"""Preemption from the program's side: real ranks, real signals. preempting.py says how the ranks are
told what to do; a number at the end of a name is that of the scenario."""

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


@pytest.fixture
def job(env, started, serve):
    """job(size, settings...): that many ranks of one generation, and `job.service`."""

    def make(size, *flags, **settings):
        make.service = serve(*flags)
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
    (rank,) = job(1)
    assert [rank.reached(step) for step in (0, 1, 2)] == ["go", "go", "go"]
    assert rank.notice() is None
    end([rank])


def test_a_rank_that_never_asked_does_not_hold_the_others_up_128(job):
    zero, one = job(2)
    assert [zero.reached(0), zero.reached(1)] == ["go", "go"]
    assert zero.ask("announce 0 0 now") == "MUSTER_OK "
    assert [zero.agreed(), one.agreed()] == [2, 2]
    assert [zero.reached(2), zero.reached(3)] == ["save", "save"]
    assert [one.reached(0), one.reached(1), one.reached(2)] == ["go", "go", "save"]
    end([zero, one])


def test_a_notice_far_away_is_known_and_nothing_is_agreed_129(job):
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
    zero, one = job(2)
    for rank in (zero, one):
        assert rank.ask("leave") == "MUSTER_OK "
        assert rank.reached(0) == "stop"
    end([zero, one])


def test_closing_at_any_time_132(job):
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
    slow, fast = job(2)
    assert [fast.reached(step) for step in (0, 1, 2)] == ["go", "go", "go"]
    assert slow.reached(0) == "go"
    {"slow": slow, "fast": fast}[whom].signal(signal.SIGTERM)
    assert [rank.agreed() for rank in (slow, fast)] == [3, 3]
    assert [slow.reached(step) for step in (1, 2, 3)] == ["go", "go", "save"]
    assert fast.reached(3) == "save"
    end([slow, fast])


def test_notices_to_both_at_once_are_one_agreement_134(job):
    zero, one = job(2)
    assert zero.reached(0) == "go"
    zero.signal(signal.SIGTERM)
    one.signal(signal.SIGTERM)
    assert [zero.agreed(), one.agreed()] == [1, 1]
    assert agree([zero, one], "train 1") == ["save at=1", "save at=1"]
    end([zero, one])


def test_a_notice_that_is_none_is_logged_and_ignored_135(job, muster):
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
    """No step is waited for longer than it takes to know that the member is gone."""
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
    """Known on every rank without a call of the program; a second signal changes nothing."""
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
    zero, one = job(2)
    assert zero.ask("announce 1 600000 x") == "MUSTER_OK "
    zero.noticed(index=1)
    assert zero.ask("leave") == "MUSTER_OK "
    assert zero.ask("wait-exit -1").startswith("MUSTER_ECANCELLED ")
    end([zero, one])


def test_without_a_source_it_says_so_once_140(job):
    (rank,) = job(1, PR_SIGNALS="")
    rank.log.wait_for("nobody gives notices for this process")
    assert rank.ask("sources") == "''"
    assert rank.notice() is None
    assert rank.ask("wait-exit -1") == "MUSTER_OK "
    end([rank])
    assert len(rank.log.having("nobody gives notices for this process")) == 1


# ---- the sources of the process ----


def test_a_handler_that_was_there_is_called_and_put_back(job):
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
    (rank,) = job(1)
    assert rank.ask("close") == "ok"
    rank.signal(signal.SIGTERM)
    assert rank.wait() == -signal.SIGTERM


def test_a_forked_child_still_dies_of_the_signal(job):
    (rank,) = job(1)
    child = int(rank.ask("child"))
    os.kill(child, signal.SIGTERM)
    assert rank.ask("reap") == f"signal {int(signal.SIGTERM)}"
    assert rank.notice() is None
    end([rank])


def test_other_signals_by_name(job):
    (rank,) = job(1, PR_SIGNALS="USR1,SIGUSR2")
    rank.signal(signal.SIGUSR2)
    assert rank.noticed(index=0)["reason"].startswith("SIGUSR2 from process ")
    end([rank])


def test_the_users_own_source(job, tmp_path):
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
    ranks = job(3, MUSTER_PREEMPT_AGREE_TIMEOUT="1500ms")
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
    zero, one = job(2, MUSTER_PREEMPT_AGREE_TIMEOUT="1500ms")
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
    ranks = job(3, MUSTER_PREEMPT_AGREE_TIMEOUT="1500ms")
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
    zero, one = job(2)
    assert zero.ask("announce 0 10000 soon") == "MUSTER_OK "
    assert [zero.agreed(), one.agreed()] == [0, 0]
    assert agree([zero, one], "reached 0") == ["save", "save"]
    said = zero.saved(0)
    assert said.startswith("MUSTER_ETIMEDOUT save of step 0: ") and "#1" in said, said
    end([zero, one])


def test_a_wait_of_ones_own_ends_alone_and_may_be_repeated(job):
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
    (rank,) = job(1)
    assert rank.saved(0).startswith("MUSTER_EINVAL save of step 0: no save is due")
    end([rank])


# ---- postponed, taken back, and again ----


def test_a_region_in_which_no_save_is_possible_postpones(job):
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
    zero, one = job(2, **LONG)
    assert zero.ask("hold 300") == "MUSTER_OK "
    one.signal(signal.SIGTERM)
    assert [zero.agreed(), one.agreed()] == [0, 0]
    assert zero.ask("unhold") == "MUSTER_OK "
    assert zero.ask("unhold").startswith("MUSTER_EINVAL")
    end([zero, one])


def test_a_notice_that_is_taken_back_lets_all_go_on(job):
    zero, one = job(2)
    assert zero.ask("announce 1 60000 maybe") == "MUSTER_OK "
    assert [zero.agreed(), one.agreed()] == [0, 0]
    assert zero.reached(0) == "save"
    assert one.ask("withdraw 1") == "MUSTER_OK "
    until(lambda: zero.reached(0) == "go" and one.reached(0) == "go")
    assert zero.saved(0).split(" ")[0] in ("MUSTER_ESTALE", "MUSTER_EINVAL")
    end([zero, one])


def test_a_second_notice_is_another_agreement(job):
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
