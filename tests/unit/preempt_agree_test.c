/* SPDX-License-Identifier: Apache-2.0 */
/* One notice, one step saved by all: members around the real service.
 *
 * behaviour: preemption / The agreement, a machine alone */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "failing_mem.h"
#include "preempt/machine.h"
#include "preempt_stage.h"

static struct stage stage;
static struct failing_mem failing;

static void begin(uint32_t count, const struct mst_preempt_config *config)
{
    failing_mem_init(&failing, 0);
    assert_true(stage_init(&stage, count, config, &failing.mem));
    stage_seal(&stage);
    stage_settle(&stage);
}

static void end(void)
{
    stage_fini(&stage);
    assert_int_equal(failing.live, 0);
}

static const struct mst_preempt_config noticed_leave = {
    .window_ms = 900000, .agree_timeout_ms = 2000, .leave_all = false};

static void steps(uint32_t member, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_true(stage_step(&stage, member));
    }
}

/* Whoever may goes on to the agreed step, and saves it. */
static void all_save(void)
{
    for (uint32_t i = 0; i < stage.count; i++) {
        for (unsigned count = 0; stage_step(&stage, i); count++) {
            assert_true(count < 100);
        }
        if (stage_is_due(&stage, i)) {
            stage_save(&stage, i);
        }
    }
    stage_settle(&stage);
}

static void assert_outcomes(muster_status status, int64_t step)
{
    for (uint32_t i = 0; i < stage.count; i++) {
        if (stage.members[i].alive) {
            assert_int_equal(stage.members[i].outcomes, 1);
            assert_int_equal(stage.members[i].outcome.status, status);
            assert_int_equal(stage.members[i].outcome.step, step);
        }
    }
}

/* There is no notice. All go on. */
static void without_a_notice_all_go_on(void **state)
{
    (void)state;
    begin(3, &stage_config);
    steps(0, 5);
    stage_pass(&stage, 100000);
    steps(1, 5);
    assert_int_equal(stage.round_count, 0);
    assert_int_equal(stage.members[0].closings, 0);
    end();
}

/* One rank has a notice. Agreed is 1 + the largest step that any rank was to go on with, and all
 * save it. */
static void one_more_than_the_largest_step_is_saved_by_all(void **state)
{
    (void)state;
    begin(3, &stage_config);
    steps(0, 3); /* 0, 1, 2 */
    steps(1, 7);
    stage_notice(&stage, 11, 60000);
    stage_settle(&stage);
    assert_int_equal(stage.members[2].limit, 7);
    assert_string_equal(stage_value(&stage, "muster/preempt/agreed/1.0"), "step=7 covered=8");
    assert_false(stage_is_due(&stage, 0));
    assert_true(stage_is_due(&stage, 1));
    all_save();
    assert_outcomes(MUSTER_EPREEMPTED, 7);
    assert_string_equal(stage_value(&stage, "muster/preempt/complete/1.0"),
                        "step=7 of=3 covered=8 leave=all");
    assert_int_equal(stage.members[0].limit, INT64_MAX);
    end();
}

/* A spare, or a rank that is left out, learns of a notice at once: that calls it. */
static void who_is_left_out_is_told_at_once(void **state)
{
    (void)state;
    begin(3, &stage_config);
    stage.members[2].frozen = true;
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    stage_pass(&stage, stage_config.agree_timeout_ms);
    assert_true(stage_is_due(&stage, 0));
    assert_non_null(stage_value(&stage, "muster/preempt/agreed/1.0"));
    end();
}

/* Two notices come at once. There is one agreement. */
static void two_notices_at_once_are_one_agreement(void **state)
{
    (void)state;
    begin(3, &stage_config);
    stage_notice(&stage, 10, 60000);
    stage_notice(&stage, 12, 30000);
    stage_settle(&stage);
    all_save();
    assert_outcomes(MUSTER_EPREEMPTED, 0);
    stage_pass(&stage, 100000);
    assert_null(stage_value(&stage, "muster/preempt/agreed/1.1"));
    end();
}

/* Noticed ranks leave, the others go on. The noticed get EPREEMPTED, the others OK; the next
 * generation has nothing to agree on before the next notice. */
static void who_is_noticed_leaves_and_the_others_go_on(void **state)
{
    (void)state;
    begin(3, &noticed_leave);
    stage_notice(&stage, 11, 60000);
    stage_settle(&stage);
    all_save();
    assert_int_equal(stage.members[0].outcome.status, MUSTER_OK);
    assert_int_equal(stage.members[1].outcome.status, MUSTER_EPREEMPTED);
    assert_int_equal(stage.members[2].outcome.status, MUSTER_OK);
    assert_string_equal(stage_value(&stage, "muster/preempt/complete/1.0"),
                        "step=0 of=3 covered=8 leave=noticed");
    /* The one left: the next generation has nothing to agree on. */
    stage_lose(&stage, 1);
    stage_seal(&stage);
    stage_settle(&stage);
    stage_pass(&stage, 1000);
    assert_null(stage_value(&stage, "muster/preempt/agreed/2.0"));
    /* A second notice is a second agreement. */
    stage_notice(&stage, 12, 60000);
    stage_settle(&stage);
    stage_pass(&stage, 1000);
    assert_non_null(stage_value(&stage, "muster/preempt/agreed/2.0"));
    end();
}

/* A rank was to leave, and is in the next generation all the same. The notice is acted on there
 * once more, also by ranks that do not know why. */
static void who_was_to_leave_and_is_still_there_saves_once_more(void **state)
{
    const struct mst_preempt_config *configs[] = {&stage_config, &noticed_leave};

    (void)state;
    for (uint64_t i = 0; i < 2; i++) {
        begin(3, configs[i]);
        stage_notice(&stage, 11, 60000);
        stage_settle(&stage);
        all_save();
        assert_int_equal(stage.members[1].outcome.status, MUSTER_EPREEMPTED);
        /* Another one dies before they are gone. */
        stage_lose(&stage, 2);
        stage_seal(&stage);
        stage_settle(&stage);
        /* Who is to stay does not know of it before it is agreed. */
        stage_pass(&stage, i * 2000);
        assert_non_null(stage_value(&stage, "muster/preempt/agreed/2.0"));
        stage.forget = true; /* also where all is told anew */
        stage_settle(&stage);
        all_save();
        assert_non_null(stage_value(&stage, "muster/preempt/complete/2.0"));
        assert_int_equal(stage.members[1].outcome.status, MUSTER_EPREEMPTED);
        assert_int_equal(stage.members[0].outcome.status, i == 0 ? MUSTER_EPREEMPTED : MUSTER_OK);
        /* And in this generation no more. */
        stage_pass(&stage, 1000);
        stage_settle(&stage);
        assert_null(stage_value(&stage, "muster/preempt/agreed/2.1"));
        end();
    }
}

/* A second notice comes in the same generation, after the save. That is a second agreement. */
static void a_second_notice_in_the_same_generation(void **state)
{
    (void)state;
    begin(2, &noticed_leave);
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    all_save();
    stage_notice(&stage, 11, 60000);
    stage_settle(&stage);
    assert_string_equal(stage_value(&stage, "muster/preempt/agreed/1.1"), "step=1 covered=10");
    all_save();
    assert_int_equal(stage.members[0].outcomes, 2);
    assert_int_equal(stage.members[0].outcome.status, MUSTER_EPREEMPTED);
    assert_int_equal(stage.members[1].outcome.status, MUSTER_EPREEMPTED);
    end();
}

/* While all save, an earlier deadline takes the notice's place, or another notice comes. The
 * save answers these too. */
static void a_notice_that_comes_while_all_save_is_answered_too(void **state)
{
    (void)state;
    begin(2, &noticed_leave);
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    /* The earlier deadline replaces the later one: no withdrawal, and no second agreement. */
    stage_notice(&stage, 10, 20000);
    stage_notice(&stage, 11, 20000);
    stage_settle(&stage);
    assert_null(stage_value(&stage, "muster/preempt/verdict/1.0"));
    all_save();
    assert_outcomes(MUSTER_EPREEMPTED, 0);
    stage_pass(&stage, 100000);
    assert_null(stage_value(&stage, "muster/preempt/agreed/1.1"));
    end();
}

/* A notice is beyond the window. It waits for it. */
static void far_away_it_waits_for_the_window(void **state)
{
    (void)state;
    begin(2, &stage_config);
    stage_notice(&stage, 10, 3600000);
    stage_settle(&stage);
    assert_int_equal(stage.members[0].noticed, 1);
    steps(0, 3);
    stage_pass(&stage, 2699000);
    assert_int_equal(stage.round_count, 0);
    stage_pass(&stage, 2000);
    assert_int_equal(stage.members[1].limit, 3);
    all_save();
    assert_outcomes(MUSTER_EPREEMPTED, 3);
    end();
}

/* A notice is far away when all save today. The save does not answer it. */
static void what_is_far_away_is_not_answered_by_a_save_of_today(void **state)
{
    (void)state;
    begin(2, &noticed_leave);
    stage_notice(&stage, 11, 3600000);
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    all_save();
    assert_int_equal(stage.members[0].outcome.status, MUSTER_EPREEMPTED);
    assert_int_equal(stage.members[1].outcome.status, MUSTER_OK);
    stage_lose(&stage, 0);
    stage_seal(&stage);
    stage_pass(&stage, 2600000);
    assert_null(stage_value(&stage, "muster/preempt/agreed/2.0"));
    stage_pass(&stage, 200000);
    assert_non_null(stage_value(&stage, "muster/preempt/agreed/2.0"));
    stage_delete(&stage, "muster/preempt/notice/11");
    stage_notice(&stage, 11, 3600000);
    stage_settle(&stage);
    assert_string_equal(stage_value(&stage, "muster/preempt/verdict/2.0"), "withdrawn");
    end();
}

/* The deadline of a notice is now. It is still agreed on. */
static void a_death_now_is_still_agreed_on(void **state)
{
    (void)state;
    begin(2, &stage_config);
    steps(0, 2);
    stage_notice(&stage, 10, 0);
    stage_settle(&stage);
    assert_true(stage_is_due(&stage, 0));
    steps(1, 2);
    assert_true(stage_is_due(&stage, 1));
    all_save();
    assert_outcomes(MUSTER_EPREEMPTED, 2);
    end();
}

/* A notice has passed before this generation. It is spent. */
static void what_had_passed_before_is_spent(void **state)
{
    const struct mst_preempt_seen *noticed;

    (void)state;
    begin(2, &stage_config);
    stage_pass(&stage, 1000);
    stage_notice(&stage, 10, 100);
    stage_pass(&stage, 1000);
    stage_seal(&stage);
    stage_settle(&stage);
    steps(0, 3);
    stage_pass(&stage, 10000);
    assert_null(stage_value(&stage, "muster/preempt/agreed/2.0"));
    noticed = mst_preempt_noticed(stage.members[0].machine);
    assert_null(noticed);
    end();
}

/* A notice is advisory. It is shown and no more. */
static void an_advisory_notice_is_told_and_no_more(void **state)
{
    const struct mst_preempt_seen *noticed;

    (void)state;
    begin(2, &stage_config);
    stage_put(&stage, "muster/preempt/notice/10", "left_ms=1000 level=advisory reason=perhaps");
    stage_settle(&stage);
    stage_pass(&stage, 5000);
    noticed = mst_preempt_noticed(stage.members[1].machine);
    assert_non_null(noticed);
    assert_string_equal(noticed->notice.reason, "perhaps");
    assert_int_equal(mst_preempt_agreed(stage.members[1].machine), -1);
    assert_int_equal(stage.round_count, 0);
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    noticed = mst_preempt_noticed(stage.members[1].machine);
    assert_int_equal(noticed->notice.level, MST_NOTICE_CERTAIN);
    assert_int_equal(mst_preempt_agreed(stage.members[1].machine), 0);
    assert_null(mst_preempt_notice_of(stage.members[1].machine, 3));
    noticed = mst_preempt_notice_of(stage.members[1].machine, 10);
    assert_non_null(noticed);
    assert_int_equal(noticed->notice.index, 10);
    assert_null(mst_preempt_notice_of(stage.members[1].machine, 11));
    end();
}

/* A notice is garbage. One line says so, and it is ignored. */
static void garbage_is_told_and_ignored(void **state)
{
    (void)state;
    begin(2, &stage_config);
    stage_put(&stage, "muster/preempt/notice/all", "garbage");
    stage_put(&stage, "muster/preempt/notice/4294967293", "left_ms=1");
    stage_put(&stage, "muster/preempt/agreed/1.18446744073709551615", "step=1");
    stage_put(&stage, "muster/preempt/other", "left_ms=1");
    stage_settle(&stage);
    stage_pass(&stage, 10000);
    assert_int_equal(stage.members[0].lines[MST_PREEMPT_LOG_GARBAGE], 1);
    steps(0, 3);
    assert_int_equal(stage.round_count, 0);
    stage_notice(&stage, MST_NOTICE_ALL, 60000);
    stage_put(&stage, "muster/preempt/notice/all", "left_ms=x");
    stage_settle(&stage);
    assert_int_equal(stage.round_count, 0);
    end();
}

/* A client writes verdicts that no rank writes. They do no harm. */
static void verdicts_of_a_strange_hand_do_no_harm(void **state)
{
    (void)state;
    begin(2, &stage_config);
    stage_put(&stage, "muster/preempt/verdict/1.0", "nonsense");
    stage_put(&stage, "muster/preempt/complete/1.0", "nonsense");
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    all_save();
    stage_pass(&stage, 200000);
    assert_int_equal(stage.members[0].outcomes, 1);
    assert_false(stage.members[0].closed);
    end();
}

/* A rank was frozen, left out, and wakes up past the agreed step before any rank has saved. It
 * is agreed again, on a larger step. */
static void frozen_and_woken_before_a_save_it_is_agreed_again(void **state)
{
    (void)state;
    begin(3, &stage_config);
    stage.members[2].frozen = true;
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    assert_true(stage.members[0].closed);
    stage_pass(&stage, 2000);
    assert_int_equal(stage.members[0].limit, 0);
    assert_int_equal(stage.members[0].lines[MST_PREEMPT_LOG_FROZEN], 1);
    stage.members[2].frozen = false;
    steps(2, 5); /* the program is faster than the machine */
    stage_settle(&stage);
    assert_string_equal(stage_value(&stage, "muster/preempt/verdict/1.0"), "again 0");
    assert_int_equal(stage.members[2].lines[MST_PREEMPT_LOG_AGAIN], 1);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(stage.members[i].limit, 5);
    }
    all_save();
    assert_outcomes(MUSTER_EPREEMPTED, 5);
    end();
}

/* A rank saved while the step was agreed again. It gets ESTALE. */
static void who_saved_as_it_was_agreed_again_is_told_so(void **state)
{
    (void)state;
    begin(2, &stage_config);
    stage.members[1].frozen = true;
    stage_notice(&stage, 10, 60000);
    stage_pass(&stage, 2000);
    stage_settle(&stage);
    stage.members[1].frozen = false;
    steps(1, 5);
    while (stage_news(&stage, 1) || stage_mail(&stage, 1)) { /* the verdict is written */
    }
    stage_save(&stage, 0);
    stage_settle(&stage);
    assert_int_equal(stage.members[0].outcome.status, MUSTER_ESTALE);
    assert_int_equal(stage.members[0].limit, 5);
    stage.members[0].outcomes = 0;
    all_save();
    assert_outcomes(MUSTER_EPREEMPTED, 5);
    end();
}

/* A frozen rank wakes up after a save. All get EFAILED and its name. */
static void frozen_and_woken_after_a_save_it_is_named(void **state)
{
    (void)state;
    begin(3, &stage_config);
    stage.members[2].frozen = true;
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    stage_pass(&stage, 2000);
    stage_save(&stage, 0);
    stage_settle(&stage);
    stage.members[2].frozen = false;
    steps(2, 5);
    stage_settle(&stage);
    assert_int_equal(stage.members[2].limit, INT64_MAX);
    assert_int_equal(stage.members[2].lines[MST_PREEMPT_LOG_PASSED], 1);
    stage_save(&stage, 1);
    stage_settle(&stage);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(stage.members[i].outcome.status, MUSTER_EFAILED);
        assert_int_equal(stage.members[i].outcome.saver_count, 1);
        assert_int_equal(stage.members[i].outcome.savers[0].index, 12);
    }
    assert_non_null(stage_value(&stage, "muster/preempt/failed/1.0"));
    assert_null(stage_value(&stage, "muster/preempt/complete/1.0"));
    end();
}

/* A frozen rank wakes up in time. It joins. */
static void frozen_and_woken_in_time_it_joins(void **state)
{
    (void)state;
    begin(3, &stage_config);
    steps(0, 4);
    stage.members[2].frozen = true;
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    stage_pass(&stage, 2000);
    stage.members[2].frozen = false;
    steps(2, 2);
    stage_settle(&stage);
    assert_int_equal(stage.members[2].limit, 4);
    all_save();
    assert_outcomes(MUSTER_EPREEMPTED, 4);
    end();
}

/* A rank cannot save now. The agreement waits until it can. */
static void a_hold_postpones_until_it_ends(void **state)
{
    (void)state;
    begin(2, &stage_config);
    steps(0, 2);
    mst_preempt_hold_begin(stage.members[1].machine, stage.now_ns, 10000);
    mst_preempt_hold_begin(stage.members[1].machine, stage.now_ns, 10);
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    assert_int_equal(stage.members[0].lines[MST_PREEMPT_LOG_POSTPONED], 1);
    stage_pass(&stage, 1000);
    steps(0, 2);
    mst_preempt_hold_end(stage.members[1].machine, stage.now_ns);
    stage_drain(&stage, 1);
    stage_settle(&stage);
    assert_null(stage_value(&stage, "muster/preempt/verdict/1.0"));
    mst_preempt_hold_end(stage.members[1].machine, stage.now_ns);
    stage_drain(&stage, 1);
    stage_settle(&stage);
    assert_string_equal(stage_value(&stage, "muster/preempt/verdict/1.0"), "again");
    assert_int_equal(stage.members[1].limit, 4);
    all_save();
    assert_outcomes(MUSTER_EPREEMPTED, 4);
    end();
}

/* A rank cannot save for long. The agreement waits until the bound. */
static void a_hold_has_a_bound(void **state)
{
    (void)state;
    begin(2, &stage_config);
    mst_preempt_hold_begin(stage.members[1].machine, stage.now_ns, 3000);
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    stage_pass(&stage, 2900);
    assert_int_equal(stage.members[0].limit, INT64_MAX);
    stage_pass(&stage, 200);
    assert_int_equal(stage.members[0].limit, 0);
    all_save();
    assert_outcomes(MUSTER_EPREEMPTED, 0);
    end();
}

/* A rank cannot save for long and the deadline is near. The agreement waits for half of what is
 * left. */
static void a_long_hold_takes_half_of_what_is_left(void **state)
{
    (void)state;
    begin(2, &stage_config);
    mst_preempt_hold_begin(stage.members[1].machine, stage.now_ns, 3600000);
    stage_notice(&stage, 10, 40000);
    stage_settle(&stage);
    stage_pass(&stage, 39000);
    assert_null(stage_value(&stage, "muster/preempt/complete/1.0"));
    stage_pass(&stage, 1000);
    assert_int_not_equal(stage.members[0].limit, INT64_MAX);
    end();
}

/* The notice is taken back before a save. All go on. */
static void withdrawn_before_a_save_all_go_on(void **state)
{
    (void)state;
    begin(2, &stage_config);
    steps(0, 3);
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    assert_true(stage_is_due(&stage, 0));
    stage_delete(&stage, "muster/preempt/notice/10");
    stage_settle(&stage);
    assert_string_equal(stage_value(&stage, "muster/preempt/verdict/1.0"), "withdrawn");
    steps(0, 3);
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    assert_string_equal(stage_value(&stage, "muster/preempt/agreed/1.1"), "step=6 covered=10");
    end();
}

/* A notice is taken back. All go on only with news of every notice that was agreed for. */
static void a_withdrawal_needs_news_of_all_that_was_agreed_for(void **state)
{
    (void)state;
    begin(2, &stage_config);
    stage.page = 1;
    stage_notice(&stage, 10, 60000);
    assert_true(stage_news(&stage, 0)); /* it stands at the round */
    stage_delete(&stage, "muster/preempt/notice/10");
    stage_notice(&stage, 11, 60000);
    stage.page = 0;
    assert_true(stage_news(&stage, 1)); /* knows all that there is */
    stage.page = 1;
    assert_true(stage_mail(&stage, 0));
    stage_delete(&stage, "muster/preempt/notice/10"); /* of no effect */
    assert_true(stage_news(&stage, 0));               /* the deletion, and not what came after it */
    assert_null(stage_value(&stage, "muster/preempt/verdict/1.0"));
    stage_settle(&stage);
    all_save();
    assert_outcomes(MUSTER_EPREEMPTED, 0);
    end();
}

/* A rank that passed the step is frozen again. The step is not taken back. */
static void a_step_is_not_taken_back_when_who_passed_it_is_frozen_again(void **state)
{
    (void)state;
    begin(3, &stage_config);
    steps(0, 3);
    stage.members[2].frozen = true;
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    stage_pass(&stage, 2000);
    assert_int_equal(stage.members[0].limit, 3);
    stage.members[2].frozen = false;
    steps(2, 9);
    while (!stage_value(&stage, "muster/preempt/verdict/1.0")) {
        assert_true(stage_deliver(&stage, 2));
    }
    stage.members[2].frozen = true; /* it does not say how far it is */
    stage.members[0].last = -1;     /* nor would anybody else */
    stage_settle(&stage);
    stage_pass(&stage, 2000);
    assert_int_equal(stage.members[0].limit, 3);
    assert_int_equal(stage.members[1].limit, 3);
    stage.members[2].frozen = false;
    stage_settle(&stage);
    assert_int_equal(stage.members[1].limit, 9);
    all_save();
    assert_outcomes(MUSTER_EPREEMPTED, 9);
    end();
}

/* The notice is taken back after the first save. All finish the save. */
static void withdrawn_after_a_save_it_is_finished(void **state)
{
    (void)state;
    begin(2, &noticed_leave);
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    stage_save(&stage, 0);
    stage_settle(&stage);
    stage_delete(&stage, "muster/preempt/notice/10");
    stage_settle(&stage);
    assert_true(stage_is_due(&stage, 1));
    stage_save(&stage, 1);
    stage_settle(&stage);
    assert_outcomes(MUSTER_OK, 0);
    end();
}

/* The ranks save different steps. All get EMISMATCH with the list. */
static void different_steps_are_listed(void **state)
{
    (void)state;
    begin(3, &stage_config);
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    stage.members[1].step = 4;
    all_save();
    for (uint32_t i = 0; i < 3; i++) {
        const struct mst_preempt_outcome *outcome = &stage.members[i].outcome;

        assert_int_equal(outcome->status, MUSTER_EMISMATCH);
        assert_int_equal(outcome->saver_count, 3);
        assert_int_equal(outcome->savers_total, 3);
        assert_int_equal(outcome->savers[0].index, 11);
        assert_int_equal(outcome->savers[0].step, 4);
        assert_int_equal(outcome->savers[1].step, 0);
    }
    assert_null(stage_value(&stage, "muster/preempt/complete/1.0"));
    assert_string_equal(stage_value(&stage, "muster/preempt/failed/1.0"),
                        "step=0 covered=8 status=-14");
    stage_pass(&stage, 100000);
    assert_null(stage_value(&stage, "muster/preempt/agreed/1.1"));
    end();
}

/* A rank is lost before its save. All get ELOST with its name, and the next generation begins
 * again. */
static void who_is_lost_is_named(void **state)
{
    (void)state;
    begin(3, &stage_config);
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    stage_save(&stage, 0);
    assert_int_equal(stage.members[0].limit, 0); /* also while the verdict is on its way */
    stage_settle(&stage);
    assert_int_equal(stage.members[0].limit, 0);
    stage_lose(&stage, 2);
    stage_settle(&stage);
    assert_int_equal(stage.members[0].outcome.status, MUSTER_ELOST);
    assert_non_null(stage.members[0].outcome.detail);
    /* The other finds the same when it comes. */
    stage_save(&stage, 1);
    stage_settle(&stage);
    assert_int_equal(stage.members[1].outcome.status, MUSTER_ELOST);
    /* In the next generation the same notice is acted on again. */
    stage_seal(&stage);
    stage_settle(&stage);
    stage.members[0].outcomes = stage.members[1].outcomes = 0;
    all_save();
    assert_outcomes(MUSTER_EPREEMPTED, 0);
    end();
}

/* A rank is lost while the step is agreed. It is not waited for. */
static void who_is_lost_while_it_is_agreed_is_not_waited_for(void **state)
{
    (void)state;
    begin(3, &stage_config);
    stage.members[2].frozen = true;
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    assert_true(stage.members[0].closed);
    stage_lose(&stage, 2);
    stage_settle(&stage);
    assert_int_equal(stage.members[0].limit, 0);
    assert_int_equal(stage.members[0].lines[MST_PREEMPT_LOG_FROZEN], 0);
    end();
}

/* A rank does not save. All get ETIMEDOUT with its name, which its own log has named before. */
static void who_does_not_save_is_told_of_and_named(void **state)
{
    (void)state;
    begin(2, &stage_config);
    stage_notice(&stage, 10, 30000);
    stage_settle(&stage);
    stage_save(&stage, 0);
    stage_pass(&stage, 20000);
    assert_int_equal(stage.members[0].outcomes, 0);
    assert_int_equal(stage.members[1].lines[MST_PREEMPT_LOG_WAITING], 2);
    assert_int_equal(stage.members[1].line.since_ms, 15000);
    stage_pass(&stage, 12000);
    assert_int_equal(stage.members[0].outcome.status, MUSTER_ETIMEDOUT);
    assert_int_equal(stage.members[0].detail.who[0].index, 11);
    assert_int_equal(stage.members[1].lines[MST_PREEMPT_LOG_LATE], 1);
    assert_int_equal(stage.members[1].limit, INT64_MAX);
    stage_save(&stage, 1);
    assert_int_equal(stage.members[1].outcome.status, MUSTER_EINVAL);
    end();
}

/* A rank asks for the step. It counts as about to save. */
static void who_asks_is_about_to_save(void **state)
{
    (void)state;
    begin(2, &stage_config);
    stage_notice(&stage, 10, 30000);
    stage_settle(&stage);
    mst_preempt_waiting(stage.members[1].machine, stage.now_ns);
    stage_pass(&stage, 20000);
    assert_int_equal(stage.members[1].lines[MST_PREEMPT_LOG_WAITING], 0);
    end();
}

/* A save is reported that was not due. It fails with EINVAL. It is reported twice: the answer is
 * the same again. */
static void a_save_that_is_not_due_is_refused_and_an_answer_repeated(void **state)
{
    (void)state;
    begin(2, &noticed_leave);
    stage_save(&stage, 0);
    assert_int_equal(stage.members[0].outcome.status, MUSTER_EINVAL);
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    stage.members[0].outcomes = 0;
    all_save();
    assert_int_equal(stage.members[1].outcome.status, MUSTER_OK);
    stage.members[1].step--;
    stage_save(&stage, 1);
    assert_int_equal(stage.members[1].outcomes, 2);
    assert_int_equal(stage.members[1].outcome.status, MUSTER_OK);
    stage_save(&stage, 1);
    assert_int_equal(stage.members[1].outcome.status, MUSTER_EINVAL);
    end();
}

/* The service has no room for a while. It is asked again. */
static void a_service_without_room_is_asked_again(void **state)
{
    (void)state;
    begin(2, &stage_config);
    stage.refuse = MUSTER_ENOSPACE;
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    stage_pass(&stage, 3000);
    assert_true(stage.members[0].closed);
    stage.refuse = MUSTER_OK;
    stage_pass(&stage, 300);
    assert_int_equal(stage.members[0].limit, 0);
    stage.refuse = MUSTER_ENOMEM;
    all_save();
    stage_pass(&stage, 1000);
    assert_int_equal(stage.members[0].outcomes, 0);
    stage.refuse = MUSTER_OK;
    stage_pass(&stage, 1000);
    assert_outcomes(MUSTER_EPREEMPTED, 0);
    end();
}

/* The service never has room. The gate does not stay closed. */
static void a_service_that_never_has_room_does_not_keep_the_gate_closed(void **state)
{
    (void)state;
    begin(2, &stage_config);
    stage.refuse = MUSTER_ENOSPACE;
    stage_notice(&stage, 10, 20000);
    stage_settle(&stage);
    assert_true(stage.members[0].closed);
    stage_pass(&stage, 22000);
    assert_false(stage.members[0].closed);
    assert_int_equal(stage.members[0].limit, INT64_MAX);
    end();
}

/* The watch begins anew. What is gone is forgotten, and a deadline known better stays. */
static void a_watch_that_begins_anew_forgets_what_is_gone(void **state)
{
    const struct mst_preempt_seen *noticed;
    int64_t deadline_ns;

    (void)state;
    begin(1, &stage_config);
    stage_put(&stage, "muster/preempt/notice/5", "left_ms=2000000");
    stage_notice(&stage, 6, 3000000);
    stage_settle(&stage);
    noticed = mst_preempt_noticed(stage.members[0].machine);
    assert_int_equal(noticed->notice.index, 5);
    stage_pass(&stage, 60000);
    stage_delete(&stage, "muster/preempt/notice/5");
    noticed = mst_preempt_notice_of(stage.members[0].machine, 6);
    assert_non_null(noticed);
    deadline_ns = noticed->deadline_ns;
    stage.forget = true;
    stage.away_ms = 30000; /* the service does not know how long it was away */
    stage_settle(&stage);
    noticed = mst_preempt_noticed(stage.members[0].machine);
    assert_int_equal(noticed->notice.index, 6);
    assert_true(noticed->deadline_ns == deadline_ns);
    end();
}

/* A rank waits as a spare. It sees notices and takes no part. */
static void a_spare_hears_of_it_and_takes_no_part(void **state)
{
    struct mst_view spare = {.generation = 1, .size = 2, .rank = MST_RANK_NONE, .index = 12};

    (void)state;
    failing_mem_init(&failing, 0);
    assert_true(stage_init(&stage, 1, &stage_config, &failing.mem));
    stage.generation = 1;
    mst_preempt_machine.attention(stage.members[0].machine, stage.now_ns, &spare, false);
    stage_drain(&stage, 0);
    stage_notice(&stage, 12, 60000);
    stage_settle(&stage);
    assert_int_equal(stage.members[0].noticed, 1);
    assert_int_equal(stage.round_count, 0);
    end();
}

/* As far as `stop` deliveries carry. */
static void play_until(unsigned stop)
{
    stage_notice(&stage, 10, 60000);
    for (unsigned i = 0; i < stop; i++) {
        uint32_t member = i % stage.count;

        (void)stage_deliver(&stage, member);
        if (stage_is_due(&stage, member) && !stage.members[member].saving &&
            stage.members[member].outcomes == 0) {
            stage_save(&stage, member);
        }
    }
}

/* A new generation comes in any state. The agreement begins anew. */
static void a_new_generation_begins_anew_in_every_state(void **state)
{
    (void)state;
    for (unsigned stop = 0; stop < 40; stop++) {
        bool done;

        begin(3, &noticed_leave);
        play_until(stop);
        stage_seal(&stage);
        for (uint32_t i = 0; i < 3; i++) {
            assert_false(stage.members[i].saving);
            assert_int_equal(stage.members[i].last, -1);
            stage.members[i].outcomes = 0;
            stage.members[i].step = 0;
        }
        stage_settle(&stage);
        done = stage_value(&stage, "muster/preempt/complete/1.0") != NULL;
        stage_pass(&stage, 3000);
        if (!done) {
            all_save();
            for (uint32_t i = 0; i < 3; i++) {
                assert_int_equal(stage.members[i].outcome.status,
                                 i == 0 ? MUSTER_EPREEMPTED : MUSTER_OK);
            }
        }
        for (uint32_t i = 0; i < 3; i++) {
            assert_false(stage.members[i].closed);
        }
        end();
    }
}

/* The end of the session comes in any state. The gate opens, and each wait is answered. */
static void the_end_of_the_session_opens_the_gate_in_every_state(void **state)
{
    (void)state;
    for (unsigned stop = 0; stop < 40; stop++) {
        struct stage_member *self = &stage.members[0];

        begin(2, &stage_config);
        play_until(stop);
        mst_preempt_machine.ended(self->machine, stage.now_ns, MUSTER_EFENCED);
        mst_preempt_machine.ended(self->machine, stage.now_ns, MUSTER_EFENCED);
        stage_drain(&stage, 0);
        assert_false(self->closed);
        assert_false(self->saving);
        assert_int_equal(self->limit, INT64_MAX);
        assert_true(mst_preempt_machine.deadline_ns(self->machine) == UINT64_MAX);
        stage_save(&stage, 0);
        assert_int_equal(self->outcome.status, MUSTER_EFENCED);
        end();
    }
}

/* There is no memory for news. They are asked for again. */
static void without_memory_the_news_are_asked_for_again(void **state)
{
    (void)state;
    for (size_t fail_at = 1;; fail_at++) {
        bool made;

        failing_mem_init(&failing, fail_at);
        made = stage_init(&stage, 2, &stage_config, &failing.mem);
        if (made) {
            stage_seal(&stage);
            stage_notice(&stage, 10, 60000);
            stage_notice(&stage, 11, 60000);
            stage_settle(&stage);
            stage_pass(&stage, 3000);
            all_save();
            stage_pass(&stage, 3000);
            assert_outcomes(MUSTER_EPREEMPTED, 0);
            stage_fini(&stage);
        }
        assert_int_equal(failing.live, 0);
        if (!failing.failed) {
            break;
        }
    }
}

static void a_configuration_without_sense_is_refused(void **state)
{
    struct mst_preempt_config config = stage_config;
    struct mst_preempt *machine;

    (void)state;
    failing_mem_init(&failing, 0);
    config.agree_timeout_ms = 0;
    assert_int_equal(mst_preempt_new(&machine, 0, &config, &failing.mem), MUSTER_EINVAL);
    config = stage_config;
    config.window_ms = UINT64_MAX;
    assert_int_equal(mst_preempt_new(&machine, 0, &config, &failing.mem), MUSTER_EINVAL);
    assert_null(machine);
    mst_preempt_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_notice_all_go_on),
        cmocka_unit_test(one_more_than_the_largest_step_is_saved_by_all),
        cmocka_unit_test(who_is_left_out_is_told_at_once),
        cmocka_unit_test(two_notices_at_once_are_one_agreement),
        cmocka_unit_test(who_is_noticed_leaves_and_the_others_go_on),
        cmocka_unit_test(who_was_to_leave_and_is_still_there_saves_once_more),
        cmocka_unit_test(a_second_notice_in_the_same_generation),
        cmocka_unit_test(a_notice_that_comes_while_all_save_is_answered_too),
        cmocka_unit_test(far_away_it_waits_for_the_window),
        cmocka_unit_test(what_is_far_away_is_not_answered_by_a_save_of_today),
        cmocka_unit_test(a_death_now_is_still_agreed_on),
        cmocka_unit_test(what_had_passed_before_is_spent),
        cmocka_unit_test(an_advisory_notice_is_told_and_no_more),
        cmocka_unit_test(garbage_is_told_and_ignored),
        cmocka_unit_test(verdicts_of_a_strange_hand_do_no_harm),
        cmocka_unit_test(frozen_and_woken_before_a_save_it_is_agreed_again),
        cmocka_unit_test(who_saved_as_it_was_agreed_again_is_told_so),
        cmocka_unit_test(frozen_and_woken_after_a_save_it_is_named),
        cmocka_unit_test(frozen_and_woken_in_time_it_joins),
        cmocka_unit_test(a_hold_postpones_until_it_ends),
        cmocka_unit_test(a_hold_has_a_bound),
        cmocka_unit_test(a_long_hold_takes_half_of_what_is_left),
        cmocka_unit_test(withdrawn_before_a_save_all_go_on),
        cmocka_unit_test(a_withdrawal_needs_news_of_all_that_was_agreed_for),
        cmocka_unit_test(a_step_is_not_taken_back_when_who_passed_it_is_frozen_again),
        cmocka_unit_test(withdrawn_after_a_save_it_is_finished),
        cmocka_unit_test(different_steps_are_listed),
        cmocka_unit_test(who_is_lost_is_named),
        cmocka_unit_test(who_is_lost_while_it_is_agreed_is_not_waited_for),
        cmocka_unit_test(who_does_not_save_is_told_of_and_named),
        cmocka_unit_test(who_asks_is_about_to_save),
        cmocka_unit_test(a_save_that_is_not_due_is_refused_and_an_answer_repeated),
        cmocka_unit_test(a_service_without_room_is_asked_again),
        cmocka_unit_test(a_service_that_never_has_room_does_not_keep_the_gate_closed),
        cmocka_unit_test(a_watch_that_begins_anew_forgets_what_is_gone),
        cmocka_unit_test(a_spare_hears_of_it_and_takes_no_part),
        cmocka_unit_test(a_new_generation_begins_anew_in_every_state),
        cmocka_unit_test(the_end_of_the_session_opens_the_gate_in_every_state),
        cmocka_unit_test(without_memory_the_news_are_asked_for_again),
        cmocka_unit_test(a_configuration_without_sense_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
