/* SPDX-License-Identifier: Apache-2.0 */
/* Failures: the first of a series is delivered to one caller, once nothing of the series is left.
 *
 * behaviour: cluster */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster_stage.h"

static struct mst_cluster_failures told;

/* As good as new. */
static void assert_works(void)
{
    uint64_t number = stage_schedule("f");

    stage_all(2);
    assert_int_equal(stage_state(number), MST_CLOSURE_VALUE);
    assert_int_equal(stage_joined(), MUSTER_OK);
    assert_int_equal(stage_deliver(&told), MUSTER_OK);
}

/* A closure fails while another thread joins. join gets that error, and not before it was
 * reported. After it all is done. */
static void test_a_join_sees_the_failure_when_it_is_reported_and_not_before_4(void **state)
{
    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    (void)stage_schedule("f");
    assert_int_equal(stage_joined(), MUSTER_MORE);
    assert_int_equal(stage_deliver(&told), MUSTER_OK);
    stage_fail(0, 0, MST_ORIGIN_FUNCTION, 13);
    assert_int_equal(stage_joined(), MUSTER_EFAILED);
    assert_int_equal(stage_deliver(&told), MUSTER_EFAILED);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.closures[0], 1);
    assert_int_equal(told.first[0].code, 13);
    assert_int_equal(told.first[0].worker, 0);
    assert_int_equal(told.first[0].attempt, 1);
    assert_int_equal(stage_joined(), MUSTER_OK);
    stage_end();
}

/* One of two admitted closures fails; then another one is scheduled. The schedule gets the error
 * and admits nothing; the queued one is cancelled. The next schedule works. */
static void test_a_schedule_delivers_and_the_queued_are_cancelled_5(void **state)
{
    uint64_t first, second, none = 0;

    (void)state;
    stage_config.prefetch = 0;
    assert_true(stage_begin());
    stage_join(0, 1);
    first = stage_schedule("f");
    second = stage_schedule("v");
    stage_fail(0, 0, MST_ORIGIN_FUNCTION, 1);
    assert_int_equal(stage_try("f", NULL, &none), MUSTER_EFAILED);
    assert_int_equal(none, 0);                           /* nothing was admitted */
    assert_int_equal(stage_deliver(&told), MUSTER_MORE); /* the second had been drawn meanwhile */
    stage_fail(0, 0, MST_ORIGIN_CANCELLED, 0);
    assert_int_equal(stage_deliver(&told), MUSTER_EFAILED);
    assert_int_equal(stage_origin(first), MST_ORIGIN_FUNCTION);
    assert_int_equal(stage_origin(second), MST_ORIGIN_CANCELLED);
    assert_works();
    stage_end();
}

/* One of two closures fails; then a thread calls join, or done. The error is delivered once;
 * asked again, all is well. */
static void test_a_failure_is_delivered_once_and_then_forgotten_6(void **state)
{
    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    (void)stage_schedule("f");
    stage_fail(0, 0, MST_ORIGIN_FUNCTION, 1);
    assert_int_equal(stage_deliver(&told), MUSTER_EFAILED);
    assert_int_equal(stage_deliver(&told), MUSTER_OK);
    assert_int_equal(stage_joined(), MUSTER_OK);
    assert_works();
    stage_end();
}

/* Two of three closures run. The first fails, then a thread joins; then the second fails too.
 * join does not return while the second runs, and gets the first error. Each handle has its own
 * end, the third is cancelled, and the queue works as a new one. */
static void test_the_first_failure_is_delivered_once_the_others_ended_7(void **state)
{
    uint64_t numbers[4];

    (void)state;
    stage_config.prefetch = 0;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage_join(1, 1);
    for (size_t i = 0; i < 3; i++) {
        numbers[i] = stage_schedule("f");
    }
    mst_cluster_drain_worker(stage.cluster, stage.now_ns, 0); /* takes no third */
    stage_fail(0, 0, MST_ORIGIN_FUNCTION, 'A');
    assert_int_equal(stage_deliver(&told), MUSTER_MORE);
    assert_true(stage.workers[1].runs[0].cancelled);
    assert_int_equal(stage_origin(numbers[2]), MST_ORIGIN_CANCELLED);
    assert_int_equal(stage_try("f", NULL, &numbers[3]), MUSTER_MORE);
    stage_fail(1, 0, MST_ORIGIN_FUNCTION, 'B');
    assert_int_equal(stage_deliver(&told), MUSTER_EFAILED);
    assert_int_equal(told.first[0].code, 'A');
    assert_int_equal(told.count, 2);
    assert_int_equal(stage_counts().queued, 0);
    assert_int_equal(stage_counts().running, 0);
    assert_int_equal(stage_counts().series, 2);
    assert_int_equal(stage_origin(numbers[0]), MST_ORIGIN_FUNCTION);
    assert_int_equal(stage_origin(numbers[1]), MST_ORIGIN_FUNCTION);
    assert_works();
    stage_end();
}

/* Two threads ask in the same moment while an error waits to be delivered. Exactly one gets it,
 * the other one something else that is valid. */
static void test_of_two_that_collect_one_failure_one_gets_it_13(void **state)
{
    (void)state;
    assert_true(stage_begin());
    stage_join(0, 2);
    for (unsigned i = 0; i < 10000; i++) {
        uint64_t number;

        (void)stage_schedule("f");
        stage_fail(0, 0, MST_ORIGIN_FUNCTION, 1);
        assert_int_equal(stage_joined(), MUSTER_EFAILED);
        assert_int_equal(stage_try("f", NULL, &number), MUSTER_EFAILED);
        assert_int_equal(stage_deliver(&told), MUSTER_EFAILED);
        assert_int_equal(stage_deliver(&told), MUSTER_OK);
        assert_int_equal(stage_joined(), MUSTER_OK);
    }
    stage_end();
}

static void good_and_failing(int32_t code)
{
    for (unsigned i = 0; i < 4; i++) {
        (void)stage_schedule("f");
    }
    stage_fail(0, 1, MST_ORIGIN_FUNCTION, code);
    stage_all(2);
    assert_int_equal(stage_joined(), MUSTER_EFAILED);
    assert_int_equal(stage_deliver(&told), MUSTER_EFAILED);
    assert_int_equal(told.first[0].code, code);
}

/* Three closures succeed and one fails, on three workers. join gets the error. */
static void test_three_good_ones_and_one_that_fails_30(void **state)
{
    (void)state;
    assert_true(stage_begin());
    for (uint32_t i = 0; i < 3; i++) {
        stage_join(i, 1);
    }
    good_and_failing(1);
    stage_end();
}

/* join got an error; three good ones and one that fails follow. join gets the new error. */
static void test_the_failure_of_a_new_series_is_the_new_one_33(void **state)
{
    (void)state;
    assert_true(stage_begin());
    for (uint32_t i = 0; i < 3; i++) {
        stage_join(i, 1);
    }
    good_and_failing(1);
    good_and_failing(2);
    stage_end();
}

/* One closure fails while good ones are scheduled in a loop. Some schedule gets the error within
 * 1 s, and join after it is clean. */
static void test_a_schedule_tells_of_the_failure_soon_31(void **state)
{
    uint64_t number;
    unsigned good = 0;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    (void)stage_schedule("g");
    stage_fail(0, 0, MST_ORIGIN_FUNCTION, 1);
    while (stage_try("f", NULL, &number) == MUSTER_OK) {
        assert_true(++good < 2);
    }
    assert_int_equal(stage_deliver(&told), MUSTER_EFAILED);
    assert_int_equal(stage_joined(), MUSTER_OK);
    stage_end();
}

/* Closures that fail are scheduled until a schedule gets an error. join after it gets at most an
 * error of what was admitted since, never an old one. */
static void test_no_stale_failure_comes_after_a_delivery_32(void **state)
{
    (void)state;
    assert_true(stage_begin());
    stage_join(0, 4);
    for (unsigned i = 0; i < 4; i++) {
        (void)stage_schedule("f");
    }
    stage_fail(0, 0, MST_ORIGIN_FUNCTION, 1);
    assert_int_equal(stage_deliver(&told), MUSTER_MORE);
    for (unsigned i = 0; i < 3; i++) {
        assert_true(stage.workers[0].runs[0].cancelled);
        stage_fail(0, 0, MST_ORIGIN_FUNCTION, 2);
    }
    assert_int_equal(stage_deliver(&told), MUSTER_EFAILED);
    assert_int_equal(told.first[0].code, 1);
    assert_int_equal(told.count, 4);
    assert_int_equal(stage_deliver(&told), MUSTER_OK);
    assert_works();
    stage_end();
}

/* A closure runs for a minute and looks whether it is cancelled; another one fails. join gets
 * the error within 2 s, the long one is cancelled, and the next ones work. */
static void test_a_long_one_is_cancelled_by_the_failure_of_another_34(void **state)
{
    uint64_t long_one;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 2);
    long_one = stage_schedule("f");
    (void)stage_schedule("f");
    stage_fail(0, 1, MST_ORIGIN_FUNCTION, 1);
    assert_int_equal(stage_deliver(&told), MUSTER_MORE);
    assert_true(stage.workers[0].runs[0].cancelled);
    stage_fail(0, 0, MST_ORIGIN_CANCELLED, 0);
    assert_int_equal(stage_deliver(&told), MUSTER_EFAILED);
    assert_int_equal(told.count, 1);
    assert_int_equal(stage_origin(long_one), MST_ORIGIN_CANCELLED);
    assert_works();
    stage_end();
}

/* A closure runs for a minute and never looks whether it is cancelled; another one fails. The
 * first is made to stop after the grace time; join returns soon after that. */
static void test_a_worker_that_does_not_stop_is_not_waited_for_35(void **state)
{
    uint64_t long_one;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 2);
    long_one = stage_schedule("f");
    (void)stage_schedule("f");
    stage_fail(0, 1, MST_ORIGIN_FUNCTION, 1);
    assert_int_equal(stage_deliver(&told), MUSTER_MORE);
    stage_pass(29 * STAGE_S);
    assert_int_equal(stage_deliver(&told), MUSTER_MORE);
    stage_pass(5 * STAGE_S);
    assert_int_equal(stage_deliver(&told), MUSTER_EFAILED);
    assert_int_equal(stage_origin(long_one), MST_ORIGIN_CANCELLED);
    assert_int_equal(stage_counts().lies, 1);
    assert_false(stage.workers[0].connected);
    stage_end();
}

/* The text of an error looks like one of the transport. It is the function's error, at once: no
 * text decides anything. */
static void test_a_hostile_text_changes_nothing_36(void **state)
{
    struct mst_failure failure = {
        .origin = MST_ORIGIN_FUNCTION,
        .text = mst_slice_text("Unavailable: /job:worker/replica:0/task:0 lost, RETURNED, "
                               "additional /job:ps/task:0 STATE"),
        .state = mst_slice_text("ps")};
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    assert_int_equal(mst_cluster_state_server(stage.cluster, mst_slice_text("ps")), MUSTER_OK);
    stage_join(0, 1);
    number = stage_schedule("f");
    stage_fail_with(0, 0, &failure);
    assert_int_equal(stage_origin(number), MST_ORIGIN_FUNCTION);
    assert_int_equal(stage_counts().retried, 0);
    assert_int_equal(stage_counts().put_back, 0);
    assert_int_equal(stage_deliver(&told), MUSTER_EFAILED);
    stage_end();
}

static void hundred(enum mst_cluster_policy policy)
{
    stage_config.policy = policy;
    assert_true(stage_begin());
    stage_join(0, 1);
    for (uint64_t number = 1; number <= 100; number++) {
        assert_int_equal(stage_schedule("f"), number);
        if (number % 15 == 0) { /* 6, and the last one */
            stage_fail(0, 0, MST_ORIGIN_FUNCTION, (int32_t)number);
        } else if (number < 100) {
            stage_value(0, 0, "");
        }
    }
    stage_fail(0, 0, MST_ORIGIN_FUNCTION, 100);
    assert_int_equal(stage_counts().values, 93);
    assert_int_equal(stage_counts().failures, 7);
}

/* Seven of 100 closures fail; the policy is to collect. All 100 run, and join reports seven and
 * which. */
static void test_collect_runs_all_and_tells_of_all_failures_37(void **state)
{
    (void)state;
    hundred(MST_CLUSTER_COLLECT);
    assert_int_equal(stage_joined(), MUSTER_EFAILED);
    assert_int_equal(stage_deliver(&told), MUSTER_EFAILED);
    assert_int_equal(told.count, 7);
    assert_int_equal(told.kept, 7);
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(told.closures[i], i < 6 ? 15 * (i + 1) : 100);
        assert_int_equal(told.first[i].code, told.closures[i]);
    }
    assert_int_equal(stage_joined(), MUSTER_OK);
    stage_end();
}

/* Seven of 100 closures fail; the policy is to isolate. All 100 run, join is clean, and seven
 * handles have their errors. */
static void test_isolate_leaves_each_failure_in_its_closure_37(void **state)
{
    (void)state;
    hundred(MST_CLUSTER_ISOLATE);
    assert_int_equal(stage_joined(), MUSTER_OK);
    assert_int_equal(stage_deliver(&told), MUSTER_OK);
    assert_int_equal(stage_origin(45), MST_ORIGIN_FUNCTION);
    assert_int_equal(stage_state(46), MST_CLOSURE_VALUE);
    stage_end();
}

static void test_many_failures_are_counted_and_the_first_64_are_kept(void **state)
{
    (void)state;
    stage_config.policy = MST_CLUSTER_COLLECT;
    assert_true(stage_begin());
    stage_join(0, 1);
    for (unsigned i = 0; i < 200; i++) {
        (void)stage_schedule("f");
        stage_fail(0, 0, MST_ORIGIN_FUNCTION, 1);
    }
    assert_int_equal(stage_deliver(&told), MUSTER_EFAILED);
    assert_int_equal(told.count, 200);
    assert_int_equal(told.kept, 64);
    assert_int_equal(told.closures[63], 64);
    stage_end();
}

/* Ten closures sleep on two workers and all are cancelled; then again, and what is finished, and
 * what never was. All end as cancelled within 2 s, the workers are idle, no process is left. The
 * rest has no effect. */
static void test_one_is_cancelled_wherever_it_is_and_twice_is_as_once_38(void **state)
{
    uint64_t numbers[10];

    (void)state;
    stage_config.prefetch = 0;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage_join(1, 1);
    for (size_t i = 0; i < 10; i++) {
        numbers[i] = stage_schedule("f");
    }
    for (unsigned twice = 0; twice < 2; twice++) {
        for (size_t i = 0; i < 10; i++) {
            mst_cluster_cancel(stage.cluster, stage.now_ns, numbers[i]);
        }
        stage_settle();
    }
    assert_int_equal(stage.workers[0].cancels + stage.workers[1].cancels, 2);
    assert_int_equal(stage_state(numbers[0]), MST_CLOSURE_RUNNING);
    stage_fail(0, 0, MST_ORIGIN_CANCELLED, 0);
    stage_fail(1, 0, MST_ORIGIN_FUNCTION, 9); /* it noticed, and made an error of it */
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(stage_origin(numbers[i]), MST_ORIGIN_CANCELLED);
    }
    assert_int_equal(stage_joined(), MUSTER_OK); /* what was asked for is no failure */
    mst_cluster_cancel(stage.cluster, stage.now_ns, numbers[0]);
    mst_cluster_cancel(stage.cluster, stage.now_ns, 12345);
    stage_settle();
    assert_int_equal(stage_counts().cancelled, 10);
    stage_end();
}

static void test_a_value_that_comes_before_the_cancel_stands(void **state)
{
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule("f");
    mst_cluster_cancel(stage.cluster, stage.now_ns, number);
    stage_settle();
    stage_value(0, 0, "x");
    assert_int_equal(stage_state(number), MST_CLOSURE_VALUE);
    mst_cluster_cancel(stage.cluster, stage.now_ns, number);
    assert_int_equal(stage_state(number), MST_CLOSURE_VALUE);
    stage_end();
}

static void test_a_group_is_cancelled_and_the_others_are_not(void **state)
{
    struct mst_closure_options grouped = {.group = 4};
    uint64_t in, out;

    (void)state;
    assert_true(stage_begin());
    in = stage_schedule_with("f", &grouped);
    out = stage_schedule("f");
    mst_cluster_cancel_group(stage.cluster, stage.now_ns, 4);
    assert_int_equal(stage_origin(in), MST_ORIGIN_CANCELLED);
    assert_int_equal(stage_state(out), MST_CLOSURE_QUEUED);
    mst_cluster_cancel_group(stage.cluster, stage.now_ns, 0);
    assert_int_equal(stage_origin(out), MST_ORIGIN_CANCELLED);
    stage_settle();
    stage_end();
}

/* A worker is killed while a closure fails. join gets the function's error and not the worker's;
 * what ran long is cancelled; the next ones work. */
static void test_a_users_failure_comes_before_the_loss_of_a_worker_45(void **state)
{
    uint64_t long_one;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage_join(1, 1);
    long_one = stage_schedule("f");
    (void)stage_schedule("f");
    stage_die(0);
    stage_fail(1, 0, MST_ORIGIN_FUNCTION, 3);
    stage_revive(0);
    assert_int_equal(stage_deliver(&told), MUSTER_MORE);
    stage_fail(stage.workers[0].run_count > 0 ? 0 : 1, 0, MST_ORIGIN_CANCELLED, 0);
    assert_int_equal(stage_deliver(&told), MUSTER_EFAILED);
    assert_int_equal(told.first[0].code, 3);
    assert_int_equal(told.count, 1);
    assert_int_equal(stage_origin(long_one), MST_ORIGIN_CANCELLED);
    assert_works();
    stage_end();
}

static void test_closing_cancels_and_hangs_up(void **state)
{
    uint64_t first, second, number;

    (void)state;
    stage_config.prefetch = 0;
    assert_true(stage_begin());
    stage_join(0, 1);
    first = stage_schedule("f");
    second = stage_schedule("f");
    mst_cluster_close(stage.cluster, stage.now_ns, false);
    assert_int_equal(stage_try("f", NULL, &number), MUSTER_ECANCELLED);
    assert_int_equal(stage.workers[0].cancels, 1);
    assert_false(stage.workers[0].connected);
    assert_int_equal(mst_cluster_joined(stage.cluster, UINT64_MAX), MUSTER_ECANCELLED);
    assert_int_equal(stage_origin(first), MST_ORIGIN_CANCELLED);
    assert_int_equal(stage_origin(second), MST_ORIGIN_CANCELLED);
    assert_int_equal(mst_cluster_deadline_ns(stage.cluster), UINT64_MAX);
    stage_end();
}

static void test_draining_ends_what_is_there_before_it_hangs_up(void **state)
{
    uint64_t first, second, number;

    (void)state;
    stage_config.prefetch = 0;
    assert_true(stage_begin());
    stage_join(0, 1);
    first = stage_schedule("f");
    second = stage_schedule("f");
    mst_cluster_close(stage.cluster, stage.now_ns, true);
    assert_int_equal(stage_try("f", NULL, &number), MUSTER_ECANCELLED);
    assert_int_equal(mst_cluster_joined(stage.cluster, UINT64_MAX), MUSTER_MORE);
    stage_value(0, 0, "");
    assert_true(stage.workers[0].connected);
    stage_value(0, 0, "");
    assert_false(stage.workers[0].connected);
    assert_int_equal(mst_cluster_joined(stage.cluster, UINT64_MAX), MUSTER_ECANCELLED);
    assert_int_equal(stage_state(first), MST_CLOSURE_VALUE);
    assert_int_equal(stage_state(second), MST_CLOSURE_VALUE);
    stage_end();
}

static void drain_tells(enum mst_cluster_policy policy)
{
    uint64_t number;

    stage_config.policy = policy;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule("f");
    mst_cluster_close(stage.cluster, stage.now_ns, true);
    stage_settle();
    stage_fail(0, 0, MST_ORIGIN_FUNCTION, 3);
    assert_int_equal(mst_cluster_joined(stage.cluster, UINT64_MAX), MUSTER_EFAILED);
    assert_int_equal(stage_deliver(&told), MUSTER_EFAILED);
    assert_int_equal(told.first[0].code, 3);
    assert_int_equal(told.closures[0], number);
    assert_int_equal(mst_cluster_joined(stage.cluster, UINT64_MAX), MUSTER_ECANCELLED);
    assert_false(stage.workers[0].connected);
    stage_end();
}

/* A coordinator drains, and the last closure that it waits for fails. The drain reports that
 * failure; asked again it is over. [A coordinator and its program] */
static void test_a_drain_tells_of_the_last_failure_before_it_hangs_up(void **state)
{
    (void)state;
    drain_tells(MST_CLUSTER_FAIL_FAST);
    drain_tells(MST_CLUSTER_COLLECT);
}

/* A coordinator is stopped, another one takes its place, the first is continued. The workers
 * obey the larger term only; a call of the first one gets EFENCED. */
static void test_who_is_superseded_sends_nothing_any_more_71(void **state)
{
    uint64_t first, number;
    uint64_t before;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    first = stage_schedule("f");
    before = stage.workers[0].cancels;
    mst_cluster_superseded(stage.cluster, stage.now_ns, MUSTER_EFENCED);
    stage_settle();
    assert_int_equal(stage.workers[0].cancels, before);
    assert_false(stage.workers[0].connected);
    assert_int_equal(stage_try("f", NULL, &number), MUSTER_EFENCED);
    assert_int_equal(stage_joined(), MUSTER_EFENCED);
    assert_int_equal(stage_deliver(&told), MUSTER_EFENCED);
    assert_int_equal(stage_origin(first), MST_ORIGIN_CANCELLED);
    stage_hello(0, NULL, 0, NULL, 0);
    assert_int_equal(stage.workers[0].refusal, MUSTER_EFENCED);
    stage_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_join_sees_the_failure_when_it_is_reported_and_not_before_4),
        cmocka_unit_test(test_a_schedule_delivers_and_the_queued_are_cancelled_5),
        cmocka_unit_test(test_a_failure_is_delivered_once_and_then_forgotten_6),
        cmocka_unit_test(test_the_first_failure_is_delivered_once_the_others_ended_7),
        cmocka_unit_test(test_of_two_that_collect_one_failure_one_gets_it_13),
        cmocka_unit_test(test_three_good_ones_and_one_that_fails_30),
        cmocka_unit_test(test_the_failure_of_a_new_series_is_the_new_one_33),
        cmocka_unit_test(test_a_schedule_tells_of_the_failure_soon_31),
        cmocka_unit_test(test_no_stale_failure_comes_after_a_delivery_32),
        cmocka_unit_test(test_a_long_one_is_cancelled_by_the_failure_of_another_34),
        cmocka_unit_test(test_a_worker_that_does_not_stop_is_not_waited_for_35),
        cmocka_unit_test(test_a_hostile_text_changes_nothing_36),
        cmocka_unit_test(test_collect_runs_all_and_tells_of_all_failures_37),
        cmocka_unit_test(test_isolate_leaves_each_failure_in_its_closure_37),
        cmocka_unit_test(test_many_failures_are_counted_and_the_first_64_are_kept),
        cmocka_unit_test(test_one_is_cancelled_wherever_it_is_and_twice_is_as_once_38),
        cmocka_unit_test(test_a_value_that_comes_before_the_cancel_stands),
        cmocka_unit_test(test_a_group_is_cancelled_and_the_others_are_not),
        cmocka_unit_test(test_a_users_failure_comes_before_the_loss_of_a_worker_45),
        cmocka_unit_test(test_closing_cancels_and_hangs_up),
        cmocka_unit_test(test_draining_ends_what_is_there_before_it_hangs_up),
        cmocka_unit_test(test_a_drain_tells_of_the_last_failure_before_it_hangs_up),
        cmocka_unit_test(test_who_is_superseded_sends_nothing_any_more_71),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
