/* SPDX-License-Identifier: Apache-2.0 */
/* A save takes its time: by its end the agreement that it was for may be over, and another one at
 * hand.
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

static const struct mst_preempt_config noticed_leave = {
    .window_ms = 900000, .agree_timeout_ms = 2000, .leave_all = false};

static void begin(const struct mst_preempt_config *config)
{
    failing_mem_init(&failing, 0);
    assert_true(stage_init(&stage, 2, config, &failing.mem));
    stage_seal(&stage);
    stage_settle(&stage);
}

static void end(void)
{
    stage_fini(&stage);
    assert_int_equal(failing.live, 0);
}

static void steps(uint32_t member, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        assert_true(stage_step(&stage, member));
    }
}

/* Member 0 has begun to save step 0. */
static void agree_on_step_0(void)
{
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    stage_pass(&stage, 2000);
    stage_settle(&stage);
    assert_int_equal(stage.members[0].limit, 0);
    stage_write(&stage, 0);
}

/* It has saved step 0 now. */
static void assert_stale(const char *verdict)
{
    stage_save(&stage, 0);
    stage_settle(&stage);
    assert_int_equal(stage.members[0].outcomes, 1);
    assert_int_equal(stage.members[0].outcome.status, MUSTER_ESTALE);
    assert_null(stage_value(&stage, verdict));
}

static void assert_all_save(int64_t step)
{
    for (uint32_t i = 0; i < stage.count; i++) {
        while (stage_step(&stage, i)) {
        }
        assert_int_equal(stage.members[i].step, step);
        if (!stage.members[i].saving) {
            stage_save(&stage, i);
        }
    }
    stage_settle(&stage);
    for (uint32_t i = 0; i < stage.count; i++) {
        assert_int_equal(stage.members[i].outcome.status, MUSTER_EPREEMPTED);
        assert_int_equal(stage.members[i].outcome.step, step);
    }
}

/* A rank is still saving when the agreement is made again on a larger step. Its save does not
 * count for the new step: it gets ESTALE, goes on, and all save the new one. */
static void a_save_does_not_count_where_it_was_agreed_again(void **state)
{
    (void)state;
    begin(&stage_config);
    stage.members[1].frozen = true;
    agree_on_step_0();
    stage.members[1].frozen = false;
    steps(1, 5);
    stage_settle(&stage);
    assert_string_equal(stage_value(&stage, "muster/preempt/verdict/1.0"), "again 0");
    assert_int_equal(stage.members[0].limit, 5);
    assert_stale("muster/preempt/verdict/1.1");
    assert_all_save(5);
    end();
}

/* A rank is still saving when its notice is taken back and another one comes. Its save does not
 * count for the next notice. */
static void a_save_does_not_count_for_the_next_notice(void **state)
{
    (void)state;
    begin(&stage_config);
    agree_on_step_0();
    stage_delete(&stage, "muster/preempt/notice/10");
    stage_settle(&stage);
    assert_string_equal(stage_value(&stage, "muster/preempt/verdict/1.0"), "withdrawn");
    steps(1, 4);
    stage_notice(&stage, 11, 60000);
    stage_settle(&stage);
    assert_int_equal(stage.members[0].limit, 4);
    assert_stale("muster/preempt/verdict/1.1");
    assert_all_save(4);
    end();
}

/* The notice is taken back while a rank saves. The rank gets ESTALE, and goes on. */
static void who_saves_when_its_notice_is_taken_back_is_told_so(void **state)
{
    (void)state;
    begin(&stage_config);
    agree_on_step_0();
    stage_delete(&stage, "muster/preempt/notice/10");
    stage_settle(&stage);
    assert_stale("muster/preempt/verdict/1.1");
    steps(0, 3); /* and is not held up */
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    assert_all_save(4);
    end();
}

/* A save is reported once more, its call over before the others had saved, while the next one is
 * due. The answer is what became of the save. */
static void what_became_of_a_save_is_told_also_while_the_next_one_is_due(void **state)
{
    (void)state;
    begin(&noticed_leave);
    agree_on_step_0();
    stage_save(&stage, 0);
    stage_save(&stage, 1);
    stage_settle(&stage);
    assert_int_equal(stage.members[1].outcome.status, MUSTER_OK);
    stage_notice(&stage, 11, 60000);
    stage_settle(&stage);
    assert_int_equal(stage.members[1].limit, 1);
    stage.members[1].step--;
    stage_save(&stage, 1);
    stage_settle(&stage);
    assert_int_equal(stage.members[1].outcomes, 2);
    assert_int_equal(stage.members[1].outcome.status, MUSTER_OK);
    assert_null(stage_value(&stage, "muster/preempt/verdict/1.1"));
    end();
}

/* The notice is taken back while one still saves and others have saved; the service has no room
 * for the word that it was. All finish the save: there is nothing to decide. */
static void a_notice_taken_back_while_others_have_saved_changes_nothing(void **state)
{
    (void)state;
    begin(&stage_config);
    agree_on_step_0();
    stage_save(&stage, 1);
    stage_settle(&stage);
    assert_string_equal(stage_value(&stage, "muster/preempt/verdict/1.0"), "saving");
    stage.refuse = MUSTER_ENOSPACE;
    stage_delete(&stage, "muster/preempt/notice/10");
    assert_true(stage_news(&stage, 0));
    assert_false(stage_mail(&stage, 0));
    stage.refuse = MUSTER_OK;
    assert_all_save(0);
    end();
}

/* The service refused a word for want of room, and the notice comes again. The word is not asked
 * for again, which would wake up again and again without a pause. */
static void what_was_refused_is_not_asked_again_when_nobody_wants_it(void **state)
{
    (void)state;
    begin(&stage_config);
    agree_on_step_0();
    stage.refuse = MUSTER_ENOSPACE;
    stage_delete(&stage, "muster/preempt/notice/10");
    stage_settle(&stage);
    assert_int_not_equal(stage.members[0].machine->retry_ns, NEVER);
    stage.refuse = MUSTER_OK;
    stage_notice(&stage, 10, 60000);
    stage_settle(&stage);
    stage_pass(&stage, MST_PREEMPT_RETRY_MS);
    assert_true(mst_preempt_machine.deadline_ns(stage.members[0].machine) > stage.now_ns);
    assert_null(stage_value(&stage, "muster/preempt/verdict/1.0"));
    assert_all_save(0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_save_does_not_count_where_it_was_agreed_again),
        cmocka_unit_test(a_save_does_not_count_for_the_next_notice),
        cmocka_unit_test(who_saves_when_its_notice_is_taken_back_is_told_so),
        cmocka_unit_test(what_became_of_a_save_is_told_also_while_the_next_one_is_due),
        cmocka_unit_test(a_notice_taken_back_while_others_have_saved_changes_nothing),
        cmocka_unit_test(what_was_refused_is_not_asked_again_when_nobody_wants_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
