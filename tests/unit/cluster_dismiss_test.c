/* SPDX-License-Identifier: Apache-2.0 */
/* The dismissal of a cluster: first the record of it, then the workers.
 *
 * behaviour: cluster / The end of a cluster */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster_stage.h"

static void dismiss(void)
{
    mst_cluster_dismiss(stage.cluster, stage.now_ns);
    stage_settle();
}

static void recorded(muster_status status)
{
    mst_cluster_recorded(stage.cluster, stage.now_ns, status);
    stage_settle();
}

static muster_status dismissed(void)
{
    return mst_cluster_dismissed(stage.cluster);
}

/* A coordinator dismisses its cluster while closures are queued and running. They end first; then
 * the record is written; only then the workers are drained; and it is over once all have hung up.
 */
static void test_the_record_comes_between_the_last_closure_and_a_drain(void **state)
{
    uint64_t first, second, number;

    (void)state;
    stage_config.prefetch = 0;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage_join(1, 1);
    first = stage_schedule("f");
    second = stage_schedule("f");
    assert_int_equal(dismissed(), MUSTER_MORE);
    dismiss();
    assert_int_equal(stage_try("f", NULL, &number), MUSTER_ECANCELLED);
    stage_value(0, 0, "");
    assert_int_equal(stage.records, 0);
    stage_value(1, 0, "");
    assert_int_equal(stage.records, 1);
    assert_false(stage.workers[0].draining || stage.workers[1].draining);
    assert_int_equal(dismissed(), MUSTER_MORE);
    recorded(MUSTER_OK);
    assert_true(stage.workers[0].draining && stage.workers[1].draining);
    assert_int_equal(dismissed(), MUSTER_MORE);
    stage_gone(0);
    assert_int_equal(dismissed(), MUSTER_MORE);
    stage_gone(1);
    assert_int_equal(dismissed(), MUSTER_OK);
    assert_int_equal(stage_state(first), MST_CLOSURE_VALUE);
    assert_int_equal(stage_state(second), MST_CLOSURE_VALUE);
    dismiss(); /* again: it stays so */
    assert_int_equal(stage.records, 1);
    stage_end();
}

/* Workers connect while the others are being drained: one for the first time, one that was killed
 * and started again, one whose connection broke. Each is drained at once, and given nothing. */
static void test_a_worker_that_connects_during_a_dismissal_is_drained_at_once(void **state)
{
    (void)state;
    assert_true(stage_begin());
    for (uint32_t i = 0; i < 3; i++) {
        stage_join(i, 1);
    }
    stage_gone(2); /* before it could be drained */
    dismiss();
    recorded(MUSTER_OK);
    stage_join(3, 1);
    assert_true(stage.workers[3].welcome && stage.workers[3].draining);
    stage_die(1);
    stage.workers[1].draining = false;
    stage_revive(1);
    assert_true(stage.workers[1].connected && stage.workers[1].draining);
    assert_false(stage.workers[2].draining);
    stage_hello(2, NULL, 0, NULL, 0);
    assert_true(stage.workers[2].draining);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(dismissed(), MUSTER_MORE);
        stage_gone(i);
    }
    assert_int_equal(dismissed(), MUSTER_OK);
    stage_end();
}

/* Workers are killed in the middle of a dismissal, and one is out of reach. The dismissal does not
 * wait for them: those that come back find the record. */
static void test_a_dismissal_does_not_wait_for_lost_workers(void **state)
{
    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage_join(1, 1);
    stage_join(2, 1);
    stage_gone(0);
    dismiss();
    stage_die(1); /* while the record is being written */
    recorded(MUSTER_OK);
    assert_int_equal(dismissed(), MUSTER_MORE);
    stage_die(2);
    assert_int_equal(dismissed(), MUSTER_OK);
    stage_end();
}

/* The service cannot keep the record. No worker is dismissed; asked again, it is written. */
static void test_without_a_record_no_worker_is_dismissed(void **state)
{
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    dismiss();
    recorded(MUSTER_ELIMIT);
    assert_false(stage.workers[0].draining);
    assert_true(stage.workers[0].connected);
    assert_int_equal(dismissed(), MUSTER_MORE);
    assert_int_equal(stage_try("f", NULL, &number), MUSTER_ECANCELLED);
    dismiss();
    assert_int_equal(stage.records, 2);
    recorded(MUSTER_OK);
    stage_gone(0);
    assert_int_equal(dismissed(), MUSTER_OK);
    stage_end();
}

/* The last closure before a dismissal fails. The failure is delivered first, and the dismissal goes
 * on after it. */
static void test_a_dismissal_delivers_the_last_failure_first(void **state)
{
    struct mst_cluster_failures told;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    (void)stage_schedule("f");
    dismiss();
    stage_fail(0, 0, MST_ORIGIN_FUNCTION, 3);
    assert_int_equal(stage.records, 0);
    assert_int_equal(dismissed(), MUSTER_EFAILED);
    assert_int_equal(stage_deliver(&told), MUSTER_EFAILED);
    assert_int_equal(told.first[0].code, 3);
    assert_int_equal(stage.records, 1);
    recorded(MUSTER_OK);
    stage_gone(0);
    assert_int_equal(dismissed(), MUSTER_OK);
    stage_end();
}

/* A coordinator opens a cluster that an earlier one dismissed. It admits nothing, is dismissed at
 * once, and turns away a worker that still connects. */
static void test_a_cluster_that_was_dismissed_stays_dismissed(void **state)
{
    uint64_t number;

    (void)state;
    stage_config.dismissed = true;
    assert_true(stage_begin());
    stage_settle();
    assert_int_equal(dismissed(), MUSTER_OK);
    assert_int_equal(stage_try("f", NULL, &number), MUSTER_ECANCELLED);
    dismiss();
    assert_int_equal(stage.records, 0);
    stage_join(0, 1);
    assert_int_equal(stage.workers[0].refusal, MUSTER_ECANCELLED);
    stage_end();
}

/* A cluster was drained, and is dismissed after that. The record is written; no worker is connected
 * any more. */
static void test_a_drained_cluster_can_be_dismissed(void **state)
{
    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    mst_cluster_close(stage.cluster, stage.now_ns, true);
    stage_settle();
    assert_false(stage.workers[0].connected);
    assert_int_equal(dismissed(), MUSTER_ECANCELLED); /* not asked for yet */
    dismiss();
    assert_int_equal(stage.records, 1);
    assert_int_equal(dismissed(), MUSTER_MORE);
    recorded(MUSTER_OK);
    assert_int_equal(dismissed(), MUSTER_OK);
    stage_end();
}

/* A coordinator is superseded, or closed, while the record of its dismissal is written. It
 * dismisses nobody: the workers are those of the next one. */
static void test_a_coordinator_that_ends_in_its_dismissal_drains_no_worker(void **state)
{
    (void)state;
    for (int closed = 0; closed < 2; closed++) {
        assert_true(stage_begin());
        stage_join(0, 1);
        dismiss();
        if (closed) {
            mst_cluster_close(stage.cluster, stage.now_ns, false);
        } else {
            mst_cluster_superseded(stage.cluster, stage.now_ns, MUSTER_EFENCED);
        }
        stage_settle();
        recorded(MUSTER_OK);
        assert_false(stage.workers[0].draining);
        assert_int_equal(dismissed(), closed ? MUSTER_ECANCELLED : MUSTER_EFENCED);
        stage_end();
    }
}

/* A cluster with `min_workers` is dismissed, and its workers leave it. That is no shortage. */
static void test_workers_that_were_dismissed_are_not_too_few(void **state)
{
    (void)state;
    stage_config.min_workers = 2;
    stage_config.recovery_max_ns = 5 * STAGE_S;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage_join(1, 1);
    dismiss();
    recorded(MUSTER_OK);
    stage_gone(0);
    stage_pass(60 * STAGE_S);
    assert_int_equal(dismissed(), MUSTER_MORE);
    stage_gone(1);
    assert_int_equal(dismissed(), MUSTER_OK);
    stage_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_record_comes_between_the_last_closure_and_a_drain),
        cmocka_unit_test(test_a_worker_that_connects_during_a_dismissal_is_drained_at_once),
        cmocka_unit_test(test_a_dismissal_does_not_wait_for_lost_workers),
        cmocka_unit_test(test_without_a_record_no_worker_is_dismissed),
        cmocka_unit_test(test_a_dismissal_delivers_the_last_failure_first),
        cmocka_unit_test(test_a_cluster_that_was_dismissed_stays_dismissed),
        cmocka_unit_test(test_a_drained_cluster_can_be_dismissed),
        cmocka_unit_test(test_a_coordinator_that_ends_in_its_dismissal_drains_no_worker),
        cmocka_unit_test(test_workers_that_were_dismissed_are_not_too_few),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
