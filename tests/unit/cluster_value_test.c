/* SPDX-License-Identifier: Apache-2.0 */
/* Per-worker values, and what the user sees of a closure's value.
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

static uint64_t value_new(bool lazy)
{
    struct mst_part part = {.data = {"shard", 5}};
    uint64_t number = 0;

    assert_int_equal(mst_cluster_value_new(stage.cluster, stage.now_ns, mst_slice_text("g"), 0,
                                           &(struct mst_parts){.items = &part, .count = 1}, lazy,
                                           &number),
                     MUSTER_OK);
    stage_settle();
    return number;
}

static uint64_t schedule_needing(uint64_t value)
{
    struct mst_closure_call call = {
        .function = mst_slice_text("f"), .needs = &value, .need_count = 1};
    uint64_t number = 0;

    assert_int_equal(mst_cluster_schedule(stage.cluster, stage.now_ns, &call, &number), MUSTER_OK);
    stage_settle();
    return number;
}

static enum mst_closure_state value_state(uint64_t value, uint32_t worker)
{
    struct mst_closure_look look;

    mst_cluster_value_look(stage.cluster, value, worker, &look);
    return look.state;
}

/* A function gives nothing. join succeeds, and the fetch gives an empty list. */
static void test_a_function_without_a_result_has_nothing_18(void **state)
{
    struct mst_closure_look look;
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule("f");
    stage_value(0, 0, "");
    mst_cluster_look(stage.cluster, number, &look);
    assert_int_equal(look.state, MST_CLOSURE_VALUE);
    assert_int_equal(look.parts.count, 0);
    stage_end();
}

/* A closure has several parts as arguments and gives several back. The same list comes back from
 * its handle, and from a fetch of many handles at once. */
static void test_a_value_of_many_parts_comes_as_it_was_17(void **state)
{
    struct mst_part parts[] = {{.data = {"2", 1}, .type = 1},
                               {.data = {NULL, 0}, .type = 2},
                               {.data = {"\0\xff", 2}, .type = 3}};
    struct mst_cluster_message result = {.type = MST_CLUSTER_RESULT,
                                         .attempt = {.closure = 1, .attempt = 1},
                                         .series = 1,
                                         .parts = {.items = parts, .count = 3}};
    struct mst_closure_look look;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    (void)stage_schedule("f");
    stage_say(0, &result);
    mst_cluster_look(stage.cluster, 1, &look);
    assert_int_equal(look.parts.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(look.parts.items[i].type, i + 1);
        assert_true(mst_slice_equal(look.parts.items[i].data, parts[i].data));
    }
    stage_end();
}

/* A handle is given as an argument. There is no way to say it: an argument is bytes, and a need
 * that is none is refused before anything is queued. Results cannot be passed on. */
static void test_a_need_that_is_none_is_refused_before_anything_is_queued_19(void **state)
{
    uint64_t need = 1;
    uint64_t number;
    struct mst_closure_call call = {
        .function = mst_slice_text("f"), .needs = &need, .need_count = 1};

    (void)state;
    assert_true(stage_begin());
    assert_int_equal(mst_cluster_schedule(stage.cluster, stage.now_ns, &call, &number),
                     MUSTER_EINVAL);
    (void)value_new(true);
    mst_cluster_value_drop(stage.cluster, stage.now_ns, 1);
    assert_int_equal(mst_cluster_schedule(stage.cluster, stage.now_ns, &call, &number),
                     MUSTER_EINVAL);
    assert_int_equal(stage_counts().admitted, 0);
    stage_settle();
    stage_end();
}

/* A function that is NULL, empty or of too long a name is scheduled. It fails with EINVAL at
 * once, and nothing is admitted. A name that no worker has is scenario 94. */
static void test_no_function_is_refused_at_once_20(void **state)
{
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    assert_int_equal(stage_try("", NULL, &number), MUSTER_EINVAL);
    assert_int_equal(mst_cluster_value_new(stage.cluster, stage.now_ns, mst_slice_of(NULL, 0), 0,
                                           &(struct mst_parts){0}, true, &number),
                     MUSTER_EINVAL);
    stage_end();
}

/* Five workers keep a counter each; ten closures add 1 to that of their worker. The counters add
 * up to ten, and each closure changed only that of its own worker. */
static void test_each_worker_builds_its_own_and_runs_name_it_21(void **state)
{
    uint64_t value;

    (void)state;
    assert_true(stage_begin());
    for (uint32_t i = 0; i < 5; i++) {
        stage_join(i, 1);
    }
    value = value_new(true);
    for (unsigned i = 0; i < 10; i++) {
        (void)schedule_needing(value);
    }
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(stage.workers[i].build_count, 1);
        assert_int_equal(value_state(value, i), MST_CLOSURE_RUNNING);
        stage_built(i, value, MST_ORIGIN_NONE);
        assert_int_equal(value_state(value, i), MST_CLOSURE_VALUE);
        assert_int_equal(stage.workers[i].runs[0].need_count, 1);
        assert_int_equal(stage.workers[i].runs[0].needs[0], value);
    }
    stage_all(2);
    assert_int_equal(stage_counts().values, 10);
    stage_end();
}

static void test_a_lazy_one_that_nobody_needs_is_never_built(void **state)
{
    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    (void)value_new(true);
    (void)stage_schedule("f");
    stage_all(1);
    assert_int_equal(stage.workers[0].build_count, 0);
    stage_end();
}

/* Two iterators are made ten times, used by eleven closures, and dropped. The workers keep
 * nothing of them, and memory does not grow. */
static void test_used_and_dropped_ten_times_leaves_nothing_26(void **state)
{
    size_t live = 0;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage_join(1, 1);
    for (unsigned round = 0; round < 10; round++) {
        uint64_t values[2] = {value_new(true), value_new(false)};

        for (unsigned i = 0; i < 11; i++) {
            mst_cluster_release(stage.cluster, stage.now_ns, schedule_needing(values[i % 2]));
        }
        for (uint32_t i = 0; i < 2; i++) {
            for (unsigned k = 0; k < 2; k++) {
                stage_built(i, values[k], MST_ORIGIN_NONE);
            }
        }
        mst_cluster_value_drop(stage.cluster, stage.now_ns, values[0]);
        stage_all(11);
        mst_cluster_value_drop(stage.cluster, stage.now_ns, values[1]);
        stage_settle();
        assert_int_equal(stage.workers[0].drop_count, stage.workers[0].build_count);
        assert_int_equal(stage.workers[1].drop_count, stage.workers[1].build_count);
        if (round == 1) {
            live = stage.failing.live;
        }
    }
    assert_int_equal(stage.failing.live, live);
    stage_end();
}

/* The function that makes a value fails. A closure that needs it fails with INPUT, which has the
 * reason as its cause, once; one that does not need it succeeds. */
static void test_one_that_cannot_be_built_fails_only_those_that_need_it_27(void **state)
{
    struct mst_failure cause = {
        .origin = MST_ORIGIN_FUNCTION, .code = 5, .text = mst_slice_text("no such file")};
    struct mst_failure failure = {.origin = MST_ORIGIN_INPUT, .cause = &cause};
    struct mst_closure_look look;
    uint64_t value, number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    value = value_new(true);
    (void)schedule_needing(value);
    stage_built(0, value, MST_ORIGIN_FUNCTION);
    mst_cluster_value_look(stage.cluster, value, 0, &look);
    assert_int_equal(look.state, MST_CLOSURE_FAILED);
    assert_int_equal(look.parts.count, 1);
    assert_true(mst_slice_is(look.parts.items[0].data, "error"));
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_UNBUILT], 1);
    assert_int_equal(stage.last_count, value);
    stage_fail_with(0, 0, &failure);
    assert_int_equal(stage_deliver(&told), MUSTER_EFAILED);
    assert_int_equal(told.first[0].origin, MST_ORIGIN_INPUT);
    assert_int_equal(told.first[0].cause->code, 5);
    assert_null(told.first[0].cause->cause);
    number = stage_schedule("f");
    stage_value(0, 0, "");
    mst_cluster_look(stage.cluster, number, &look);
    assert_int_equal(look.state, MST_CLOSURE_VALUE);
    stage_end();
}

/* An iterator is in use, an unrelated closure fails, join reports it. The same iterator works
 * on. */
static void test_values_outlive_the_end_of_a_series_28(void **state)
{
    uint64_t value;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    value = value_new(true);
    (void)schedule_needing(value);
    stage_built(0, value, MST_ORIGIN_NONE);
    stage_all(1);
    (void)stage_schedule("f");
    stage_fail(0, 0, MST_ORIGIN_FUNCTION, 1);
    assert_int_equal(stage_deliver(&told), MUSTER_EFAILED);
    mst_cluster_cancel_group(stage.cluster, stage.now_ns, 0);
    assert_int_equal(value_state(value, 0), MST_CLOSURE_VALUE);
    (void)schedule_needing(value);
    assert_int_equal(stage.workers[0].build_count, 1);
    stage_all(1);
    assert_int_equal(stage_joined(), MUSTER_OK);
    stage_end();
}

/* A result was fetched; then all workers are killed; it is fetched again. The bytes are the
 * same, at once: READY is said only when they are in the coordinator. There is no copy on the
 * worker to ask for. */
static void test_a_fetched_value_outlives_all_workers_29(void **state)
{
    struct mst_closure_look look;
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule("f");
    stage_value(0, 0, "1, -1");
    stage_die(0);
    mst_cluster_look(stage.cluster, number, &look);
    assert_memory_equal(look.parts.items[0].data.data, "1, -1", 5);
    stage_end();
}

/* A worker dies while values are being built on it. What needs them runs elsewhere, or there
 * when it is back; nine closures count exactly nine. */
static void test_a_lost_worker_builds_them_again_in_their_order_46(void **state)
{
    uint64_t values[3];

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    for (unsigned i = 0; i < 3; i++) {
        values[i] = value_new(i == 1);
        if (i == 0) {
            stage_built(0, values[0], MST_ORIGIN_NONE);
        }
    }
    stage_built(0, values[2], MST_ORIGIN_FUNCTION);
    stage_die(0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(value_state(values[i], 0), MST_CLOSURE_ABORTED);
    }
    (void)value_new(false);
    stage.workers[0].build_count = 0;
    stage_revive(0);
    assert_int_equal(stage.workers[0].build_count, 3);
    assert_int_equal(stage.workers[0].builds[0], values[0]);
    assert_int_equal(stage.workers[0].builds[1], values[2]); /* that had failed: tried again */
    assert_int_equal(stage.workers[0].builds[2], 4);
    stage_end();
}

static void test_a_closure_migrates_when_its_value_dies_with_the_worker(void **state)
{
    uint64_t value, number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    value = value_new(true);
    number = schedule_needing(value);
    stage_join(1, 1);
    stage_die(0);
    assert_int_equal(stage.workers[1].build_count, 1);
    stage_built(1, value, MST_ORIGIN_NONE);
    assert_int_equal(stage.workers[1].runs[0].attempt.closure, number);
    stage_all(1);
    stage_end();
}

/* A third worker joins while two are busy. It has work within 200 ms, and its own entry of each
 * value. */
static void test_one_that_joins_later_has_an_entry_60(void **state)
{
    uint64_t value;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    value = value_new(false);
    for (uint32_t i = 1; i < 8; i++) {
        stage_join(i, 1);
        assert_int_equal(stage.workers[i].build_count, 1);
        stage_built(i, value, MST_ORIGIN_NONE);
        assert_int_equal(value_state(value, i), MST_CLOSURE_VALUE);
    }
    stage_end();
}

static void test_a_broken_connection_leaves_what_the_worker_still_has(void **state)
{
    uint64_t values[3], held[2];

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    for (unsigned i = 0; i < 3; i++) {
        values[i] = value_new(false);
        stage_built(0, values[i], MST_ORIGIN_NONE);
    }
    stage_gone(0);
    mst_cluster_value_drop(stage.cluster, stage.now_ns, values[1]);
    stage_settle();
    held[0] = values[0];
    held[1] = values[1];
    stage.workers[0].build_count = 0;
    stage_hello(0, NULL, 0, held, 2);
    assert_int_equal(value_state(values[0], 0), MST_CLOSURE_VALUE);
    assert_int_equal(stage.workers[0].drop_count, 1); /* nobody needs it any more */
    assert_int_equal(stage.workers[0].drops[0], values[1]);
    assert_int_equal(stage.workers[0].build_count, 1); /* it says that it has it no more */
    assert_int_equal(stage.workers[0].builds[0], values[2]);
    stage_end();
}

static void test_a_value_that_its_worker_lost_is_built_again(void **state)
{
    struct mst_failure cause = {.origin = MST_ORIGIN_LOST};
    struct mst_failure failure = {.origin = MST_ORIGIN_INPUT, .cause = &cause};
    uint64_t value, number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    value = value_new(true);
    number = schedule_needing(value);
    stage_built(0, value, MST_ORIGIN_NONE);
    stage_built(0, value, MST_ORIGIN_LOST);
    assert_int_equal(value_state(value, 0), MST_CLOSURE_ABORTED);
    stage_fail_with(0, 0, &failure);
    stage_pass(2 * STAGE_S);
    assert_int_equal(stage.workers[0].build_count, 2);
    stage_built(0, value, MST_ORIGIN_NONE);
    stage_value(0, 0, "");
    assert_int_equal(stage_state(number), MST_CLOSURE_VALUE);
    stage_end();
}

/* A connection breaks while a per-worker value is built, and no closure needs the value when it
 * is back; it is dropped. The worker, which has built it meanwhile, drops it as well. [Workers] */
static void test_one_that_was_being_built_when_the_connection_broke_is_dropped(void **state)
{
    uint64_t value, number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    value = value_new(true);
    number = schedule_needing(value);
    assert_int_equal(stage.workers[0].build_count, 1);
    stage_gone(0);
    mst_cluster_cancel(stage.cluster, stage.now_ns, number);
    stage_pass(3 * STAGE_S);
    assert_int_equal(stage_origin(number), MST_ORIGIN_CANCELLED);
    stage_hello(0, NULL, 0, &value, 1);
    stage_built(0, value, MST_ORIGIN_NONE);
    assert_int_equal(stage.workers[0].build_count, 1);
    mst_cluster_value_drop(stage.cluster, stage.now_ns, value);
    stage_settle();
    assert_int_equal(stage.workers[0].drop_count, 1);
    stage_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_function_without_a_result_has_nothing_18),
        cmocka_unit_test(test_a_value_of_many_parts_comes_as_it_was_17),
        cmocka_unit_test(test_a_need_that_is_none_is_refused_before_anything_is_queued_19),
        cmocka_unit_test(test_no_function_is_refused_at_once_20),
        cmocka_unit_test(test_each_worker_builds_its_own_and_runs_name_it_21),
        cmocka_unit_test(test_a_lazy_one_that_nobody_needs_is_never_built),
        cmocka_unit_test(test_used_and_dropped_ten_times_leaves_nothing_26),
        cmocka_unit_test(test_one_that_cannot_be_built_fails_only_those_that_need_it_27),
        cmocka_unit_test(test_values_outlive_the_end_of_a_series_28),
        cmocka_unit_test(test_a_fetched_value_outlives_all_workers_29),
        cmocka_unit_test(test_a_lost_worker_builds_them_again_in_their_order_46),
        cmocka_unit_test(test_a_closure_migrates_when_its_value_dies_with_the_worker),
        cmocka_unit_test(test_one_that_joins_later_has_an_entry_60),
        cmocka_unit_test(test_a_broken_connection_leaves_what_the_worker_still_has),
        cmocka_unit_test(test_a_value_that_its_worker_lost_is_built_again),
        cmocka_unit_test(test_one_that_was_being_built_when_the_connection_broke_is_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
