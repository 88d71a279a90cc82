/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator's queue: admission, turn, limits, memory.
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

/* One closure is admitted, handed out, put back, handed out again and ends. It is the same
 * closure both times. Only at the end is the queue done, and join returns at once. */
static void test_a_closure_is_put_back_and_done_once_1(void **state)
{
    struct mst_closure_look look;
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    assert_int_equal(stage_joined(), MUSTER_OK);
    stage_join(0, 1);
    number = stage_schedule("f");
    assert_int_equal(stage.workers[0].runs[0].attempt.closure, number);
    assert_int_equal(stage.workers[0].runs[0].attempt.attempt, 1);
    assert_string_equal(stage.workers[0].runs[0].data, "abc");
    assert_int_equal(stage_joined(), MUSTER_MORE);
    stage_die(0);
    assert_int_equal(stage_state(number), MST_CLOSURE_QUEUED);
    stage_revive(0);
    assert_int_equal(stage.workers[0].runs[0].attempt.closure, number);
    assert_int_equal(stage.workers[0].runs[0].attempt.attempt, 2);
    stage_value(0, 0, "done");
    assert_int_equal(stage_joined(), MUSTER_OK);
    mst_cluster_look(stage.cluster, number, &look);
    assert_int_equal(look.state, MST_CLOSURE_VALUE);
    assert_int_equal(look.attempts, 2);
    assert_int_equal(look.parts.count, 1);
    assert_int_equal(look.parts.items[0].type, 5);
    assert_memory_equal(look.parts.items[0].data.data, "done", 4);
    mst_cluster_release(stage.cluster, stage.now_ns, number);
    assert_int_equal(stage_state(number), MST_CLOSURE_UNKNOWN);
    stage_end();
}

/* Two workers lose the first closure that each was handed; there are five. Each of the five
 * counts once, and four joins in a row return. */
static void test_each_is_done_once_though_its_first_attempt_came_to_nothing_2(void **state)
{
    uint64_t numbers[5];

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage_join(1, 1);
    for (size_t i = 0; i < 5; i++) {
        numbers[i] = stage_schedule("f");
    }
    stage_die(0);
    stage_die(1);
    stage_revive(0);
    stage_revive(1);
    stage_all(3);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(stage_state(numbers[i]), MST_CLOSURE_VALUE);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(stage_joined(), MUSTER_OK);
    }
    assert_int_equal(stage_counts().values, 5);
    stage_end();
}

/* The only closure ends before any thread joins. join returns at once: the wake-up is not lost. */
static void test_a_join_after_the_last_end_is_done_at_once_3(void **state)
{
    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    (void)stage_schedule("f");
    stage_all(1);
    assert_true(stage.changed > 0);
    assert_int_equal(stage_joined(), MUSTER_OK);
    stage_end();
}

/* One thread joins while another schedules. The one that joins does not wait for what came after
 * it began; the other one is not blocked. */
static void test_a_join_answers_for_what_was_admitted_before_it_9(void **state)
{
    uint64_t first, second;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 2);
    first = stage_schedule("f");
    second = stage_schedule("f");
    stage_value(0, 0, "");
    assert_int_equal(mst_cluster_joined(stage.cluster, first), MUSTER_OK);
    assert_int_equal(mst_cluster_joined(stage.cluster, second), MUSTER_MORE);
    stage_all(1);
    stage_end();
}

/* The queue holds two closures, and there are five workers. Nothing hangs. */
static void test_a_small_queue_lets_everything_through_10(void **state)
{
    uint64_t number;
    unsigned admitted = 0;

    (void)state;
    stage_config.queue_limit = 2;
    assert_true(stage_begin());
    for (uint32_t i = 0; i < 5; i++) {
        stage_join(i, 1);
    }
    for (unsigned tries = 0; admitted < 100; tries++) {
        muster_status status = stage_try("f", NULL, &number);

        assert_true(tries < 1000);
        if (status == MUSTER_OK) {
            admitted++;
        } else {
            assert_int_equal(status, MUSTER_MORE);
            stage.changed = 0;
            stage_value(tries % 5, 0, "");
            assert_true(stage.changed > 0); /* who was told MORE is told to look again */
        }
    }
    stage_all(3);
    assert_int_equal(stage_counts().values, 100);
    stage_end();
}

/* The queue holds two and is full, a fourth schedule waits, and the only worker is killed within
 * its closure. What it had goes back although the queue is full. All four end. */
static void test_a_full_queue_takes_back_what_a_lost_worker_had_11(void **state)
{
    uint64_t numbers[4];

    (void)state;
    stage_config.queue_limit = 2;
    stage_config.prefetch = 0;
    assert_true(stage_begin());
    stage_join(0, 1);
    for (size_t i = 0; i < 3; i++) {
        numbers[i] = stage_schedule("f");
    }
    assert_int_equal(stage_try("f", NULL, &numbers[3]), MUSTER_MORE);
    stage_die(0);
    assert_int_equal(stage_counts().queued, 3);
    assert_int_equal(stage_try("f", NULL, &numbers[3]), MUSTER_MORE);
    stage_revive(0);
    stage_value(0, 0, "");
    numbers[3] = stage_schedule("f");
    stage_all(5);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(stage_state(numbers[i]), MST_CLOSURE_VALUE);
    }
    stage_end();
}

/* The only worker of 1,000 closures is killed within the first. The first runs before the third:
 * it keeps its turn. */
static void test_what_comes_back_keeps_its_turn_12(void **state)
{
    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    for (unsigned i = 0; i < 900; i++) {
        (void)stage_schedule("f");
    }
    stage_die(0);
    stage_revive(0);
    for (uint64_t number = 1; number <= 900; number++) {
        assert_int_equal(stage.workers[0].runs[0].attempt.closure, number);
        stage_value(0, 0, "");
    }
    assert_int_equal(stage_joined(), MUSTER_OK);
    stage_end();
}

/* An attempt is reported as ended twice. The second report is counted, logged, and changes
 * nothing. */
static void test_a_result_handed_in_twice_counts_once_15(void **state)
{
    struct mst_cluster_message twice = {
        .type = MST_CLUSTER_RESULT, .attempt = {.closure = 1, .attempt = 1}, .series = 1};

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    (void)stage_schedule("f");
    (void)stage_schedule("f");
    stage_value(0, 0, "");
    stage_say(0, &twice);
    assert_int_equal(stage_counts().late, 1);
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_LATE], 1);
    assert_int_equal(stage_counts().running, 1);
    stage_all(1);
    assert_int_equal(stage_counts().values, 2);
    stage_end();
}

/* Values of two workers are to be built and a closure waits. Each worker builds its own; join
 * does not wait for that of the other one. */
static void test_building_a_value_is_no_business_of_join_16(void **state)
{
    uint64_t value, number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage_join(1, 1);
    assert_int_equal(mst_cluster_value_new(stage.cluster, stage.now_ns, mst_slice_text("g"), 0,
                                           &(struct mst_parts){0}, false, &value),
                     MUSTER_OK);
    stage_settle();
    assert_int_equal(stage.workers[0].build_count, 1);
    assert_int_equal(stage.workers[1].build_count, 1);
    assert_int_equal(stage_joined(), MUSTER_OK);
    number = stage_schedule("f");
    assert_int_equal(stage.workers[0].run_count, 1);
    stage_all(1);
    assert_int_equal(stage_state(number), MST_CLOSURE_VALUE);
    assert_int_equal(stage_joined(), MUSTER_OK);
    stage_end();
}

static void test_with_one_worker_the_order_is_that_of_admission(void **state)
{
    static const char *const names[] = {"f", "g", "v"};

    (void)state;
    assert_true(stage_begin());
    for (unsigned i = 0; i < 60; i++) {
        (void)stage_schedule(names[i * 7 % 3]);
    }
    stage_join(0, 1);
    for (uint64_t number = 1; number <= 60; number++) {
        assert_int_equal(stage.workers[0].runs[0].attempt.closure, number);
        stage_value(0, 0, "");
    }
    stage_end();
}

static void test_bytes_are_limited_but_a_large_one_alone_is_let_in(void **state)
{
    static const char large[2000];
    struct mst_part part = {.data = {large, sizeof(large)}};
    struct mst_closure_call call = {.function = mst_slice_text("f"),
                                    .parts = {.items = &part, .count = 1}};
    uint64_t number;

    (void)state;
    stage_config.queue_bytes = 1000;
    assert_true(stage_begin());
    assert_int_equal(mst_cluster_schedule(stage.cluster, stage.now_ns, &call, &number), MUSTER_OK);
    assert_int_equal(stage_counts().queued_bytes, 2000);
    assert_int_equal(mst_cluster_schedule(stage.cluster, stage.now_ns, &call, &number),
                     MUSTER_MORE);
    stage_join(0, 1);
    assert_int_equal(stage_counts().queued_bytes, 0);
    assert_int_equal(mst_cluster_schedule(stage.cluster, stage.now_ns, &call, &number), MUSTER_OK);
    stage_settle();
    part.data.size = 600;
    for (unsigned i = 0; i < 3; i++) { /* one is prefetched, one fits, and one more does not */
        assert_int_equal(mst_cluster_schedule(stage.cluster, stage.now_ns, &call, &number),
                         i < 1 ? MUSTER_OK : MUSTER_MORE);
    }
    stage_settle();
    stage_all(3);
    stage_end();
}

static void test_a_queue_is_filled_to_its_last_byte(void **state)
{
    static char bytes[600];
    struct mst_part part = {.data = {bytes, 400}};
    struct mst_closure_call call = {.function = mst_slice_text("f"),
                                    .parts = {.items = &part, .count = 1}};
    uint64_t number;

    (void)state;
    stage_config.queue_bytes = 1000;
    assert_true(stage_begin());
    assert_int_equal(mst_cluster_schedule(stage.cluster, stage.now_ns, &call, &number), MUSTER_OK);
    part.data.size = 600;
    assert_int_equal(mst_cluster_schedule(stage.cluster, stage.now_ns, &call, &number), MUSTER_OK);
    assert_int_equal(stage_counts().queued_bytes, 1000);
    part.data.size = 1;
    assert_int_equal(mst_cluster_schedule(stage.cluster, stage.now_ns, &call, &number),
                     MUSTER_MORE);
    mst_cluster_close(stage.cluster, stage.now_ns, false);
    stage_settle();
    stage_end();
}

static void test_who_waits_for_room_hears_of_it_when_a_worker_takes_one(void **state)
{
    uint64_t number;

    (void)state;
    stage_config.queue_limit = 1;
    stage_config.prefetch = 0;
    stage_config.start_delay_ns = STAGE_S;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage_join(1, 1);
    (void)stage_schedule("f");
    (void)stage_schedule("f");
    assert_int_equal(stage_try("f", NULL, &number), MUSTER_MORE);
    stage.changed = 0;
    stage_pass(2 * STAGE_S); /* the second worker starts */
    assert_true(stage.changed > 0);
    assert_int_equal(stage_try("f", NULL, &number), MUSTER_OK);
    stage_end();
}

static void test_what_makes_no_sense_is_refused_and_changes_nothing(void **state)
{
    struct mst_part part = {.data = {"x", MST_CLUSTER_BYTES_MAX + 1}};
    uint64_t need = 9;
    uint64_t number = 77;
    struct mst_closure_call none = {.function = mst_slice_of(NULL, 0)};
    struct mst_closure_call large = {.function = mst_slice_text("f"),
                                     .parts = {.items = &part, .count = 1}};
    struct mst_closure_call needy = {
        .function = mst_slice_text("f"), .needs = &need, .need_count = 1};

    (void)state;
    assert_true(stage_begin());
    assert_int_equal(mst_cluster_schedule(stage.cluster, 0, &none, &number), MUSTER_EINVAL);
    assert_int_equal(mst_cluster_schedule(stage.cluster, 0, &large, &number), MUSTER_ELIMIT);
    assert_int_equal(mst_cluster_schedule(stage.cluster, 0, &needy, &number), MUSTER_EINVAL);
    assert_int_equal(number, 77);
    assert_int_equal(stage_counts().admitted, 0);
    mst_cluster_cancel(stage.cluster, stage.now_ns, 5);
    mst_cluster_release(stage.cluster, stage.now_ns, 5);
    mst_cluster_value_drop(stage.cluster, stage.now_ns, 5);
    mst_cluster_drain_worker(stage.cluster, stage.now_ns, 5);
    mst_cluster_gone(stage.cluster, stage.now_ns, 5);
    stage_settle();
    stage_end();
}

static void test_an_attempt_goes_to_a_free_slot_before_it_is_prefetched(void **state)
{
    (void)state;
    assert_true(stage_begin());
    for (uint32_t i = 0; i < 4; i++) {
        stage_join(i, 2);
    }
    for (unsigned i = 0; i < 8; i++) {
        (void)stage_schedule("f");
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(stage.workers[i].run_count, 2);
    }
    assert_int_equal(stage_counts().slots_free, 0);
    assert_int_equal(stage_counts().hungry, 8);
    stage_all(1);
    stage_end();
}

static void test_what_was_prefetched_goes_to_a_worker_that_is_idle(void **state)
{
    uint64_t second;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    (void)stage_schedule("f");
    second = stage_schedule("f");
    assert_int_equal(stage.workers[0].run_count, 2);
    stage_join(1, 1);
    stage_pass(20 * STAGE_MS);
    assert_true(stage.workers[0].runs[1].recalled);
    stage_fail(0, 1, MST_ORIGIN_RETURNED, 0);
    assert_int_equal(stage.workers[1].runs[0].attempt.closure, second);
    stage_all(1);
    assert_int_equal(stage_counts().values, 2);
    assert_int_equal(stage_counts().put_back, 0); /* nobody was lost */
    stage_end();
}

/* A closure is taken back in the moment in which it begins. It runs where it began, and is
 * committed once. */
static void test_it_had_begun_when_it_was_to_be_taken_back_and_ends_once_83(void **state)
{
    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    (void)stage_schedule("f");
    (void)stage_schedule("f");
    stage_join(1, 1);
    stage_pass(20 * STAGE_MS);
    assert_true(stage.workers[0].runs[1].recalled);
    stage_value(0, 0, "");
    stage_value(0, 0, "");
    assert_int_equal(stage_counts().values, 2);
    assert_int_equal(stage.workers[1].ran, 0);
    stage_end();
}

static void test_short_functions_are_prefetched_deeply_and_long_ones_are_not(void **state)
{
    struct mst_cluster_message result = {.type = MST_CLUSTER_RESULT, .series = 1, .run_ns = 2000};

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    for (unsigned i = 0; i < 400; i++) {
        (void)stage_schedule("f");
    }
    assert_int_equal(stage.workers[0].run_count, 2);
    for (unsigned i = 0; i < 2; i++) {
        result.attempt = stage.workers[0].runs[i].attempt;
        stage_say(0, &result);
    }
    assert_in_range(stage.workers[0].run_count, 250, 260);
    stage_end();
}

static void test_a_function_that_nobody_has_fails_after_the_grace(void **state)
{
    struct mst_closure_options newer = {.version = 3};
    uint64_t number, other;

    (void)state;
    assert_true(stage_begin());
    number = stage_schedule("nowhere");
    stage_pass(100 * STAGE_S);
    assert_int_equal(stage_state(number), MST_CLOSURE_QUEUED); /* without workers all wait */
    assert_int_equal(stage_counts().oldest_waits, MST_WAIT_WORKERS);
    stage_join(0, 1);
    assert_int_equal(stage_counts().oldest_waits, MST_WAIT_FUNCTION);
    stage_pass(29 * STAGE_S);
    other = stage_schedule_with("v", &newer);
    assert_int_equal(stage_state(number), MST_CLOSURE_QUEUED);
    stage_pass(2 * STAGE_S);
    assert_int_equal(stage_origin(number), MST_ORIGIN_UNKNOWN);
    assert_int_equal(stage_state(other), MST_CLOSURE_QUEUED);
    stage_pass(30 * STAGE_S);
    assert_int_equal(stage_origin(other), MST_ORIGIN_UNKNOWN);
    stage_end();
}

static const char *unknown_text(uint64_t number)
{
    static char text[MST_FAILURE_TEXT_MAX + 1];
    struct mst_closure_look look;

    mst_cluster_look(stage.cluster, number, &look);
    assert_int_equal(look.state, MST_CLOSURE_FAILED);
    assert_int_equal(look.failure.origin, MST_ORIGIN_UNKNOWN);
    memcpy(text, look.failure.text.data, look.failure.text.size);
    text[look.failure.text.size] = '\0';
    return text;
}

/* All workers that the launcher started are here, and none has a function. Its closures fail at
 * once, and their text lists what the workers have; while one is away they wait for it.
 * [Workers] */
static void test_a_function_that_no_worker_of_a_full_cluster_has_fails_at_once(void **state)
{
    struct mst_closure_options newer = {.version = 3};
    uint64_t number, other;

    (void)state;
    stage_config.workers_expected = 2;
    stage_config.policy = MST_CLUSTER_ISOLATE;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule("nowhere");
    other = stage_schedule_with("v", &newer);
    stage_pass(STAGE_S);
    assert_int_equal(stage_state(number), MST_CLOSURE_QUEUED); /* another one is still to come */
    stage_join(1, 1);
    stage_pass(0);
    assert_string_equal(unknown_text(number),
                        "'nowhere': correct its name, or register it on a worker; worker 0 (and 1 "
                        "more) has f, g, v");
    assert_string_equal(unknown_text(other),
                        "'v' in version 3: correct its name, or register it on a worker; worker 0 "
                        "(and 1 more) has f, g, v in version 2");
    number = stage_schedule("nowhere");
    stage_pass(0);
    assert_int_equal(stage_origin(number), MST_ORIGIN_UNKNOWN);
    stage_gone(1);
    number = stage_schedule("nowhere");
    stage_pass(STAGE_S);
    assert_int_equal(stage_state(number), MST_CLOSURE_QUEUED);
    stage_pass(30 * STAGE_S);
    assert_int_equal(stage_origin(number), MST_ORIGIN_UNKNOWN);
    stage_end();
}

/* Two workers have a function in versions 1 and 2; a closure asks for 2. It never runs on the
 * first. If no worker has it, it fails with UNKNOWN after the grace time. */
static void test_a_version_is_exact_94(void **state)
{
    struct mst_closure_options two = {.version = 2};

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    (void)stage_schedule_with("v", &two);
    assert_int_equal(stage.workers[0].run_count, 1);
    assert_int_equal(stage.workers[0].runs[0].function, 2);
    (void)stage_schedule_with("f", &two);
    assert_int_equal(stage.workers[0].run_count, 1);
    stage_end();
}

/* A million closures would be queued with at most 400 bytes each in the coordinator, beside
 * their arguments; `make bench` measures it. */
static void test_a_million_would_take_less_than_400_bytes_each_87(void **state)
{
    enum { COUNT = 20000 };
    static const char bytes[64];
    struct mst_part part = {.data = {bytes, sizeof(bytes)}};
    struct mst_closure_call call = {.function = mst_slice_text("f"),
                                    .parts = {.items = &part, .count = 1}};
    size_t before;

    (void)state;
    stage_config.queue_limit = 0;
    stage_config.queue_bytes = 0;
    assert_true(stage_begin());
    before = stage.failing.bytes;
    for (unsigned i = 0; i < COUNT; i++) {
        uint64_t number;

        assert_int_equal(mst_cluster_schedule(stage.cluster, stage.now_ns, &call, &number),
                         MUSTER_OK);
    }
    assert_true((stage.failing.bytes - before) / COUNT - sizeof(bytes) <= 400);
    print_message("%zu bytes for each queued closure\n",
                  (stage.failing.bytes - before) / COUNT - sizeof(bytes));
    mst_cluster_close(stage.cluster, stage.now_ns, false);
    stage_settle();
    stage_end();
}

/* A hundred closures of a short function, with 1 MiB of arguments each, and one worker. No more
 * than 16 MiB are sent ahead; the others wait in the queue, where its limit counts them.
 * [A coordinator and its program] */
static void test_large_arguments_are_not_prefetched_deeply(void **state)
{
    static char bytes[1 << 20];
    struct mst_part part = {.data = {bytes, sizeof(bytes)}};
    struct mst_closure_call call = {.function = mst_slice_text("f"),
                                    .parts = {.items = &part, .count = 1}};
    struct mst_cluster_message result = {.type = MST_CLUSTER_RESULT, .run_ns = 1000};
    uint64_t number;

    (void)state;
    stage_config.queue_bytes = 1 << 30;
    assert_true(stage_begin());
    stage_join(0, 1);
    (void)stage_schedule("f");
    result.attempt = stage.workers[0].runs[0].attempt;
    result.series = stage.workers[0].runs[0].series;
    stage.workers[0].run_count = 0;
    stage_say(0, &result); /* now it is known to be short */
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(mst_cluster_schedule(stage.cluster, stage.now_ns, &call, &number),
                         MUSTER_OK);
        stage_settle();
    }
    assert_int_equal(stage.workers[0].run_count, 16);
    stage_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_closure_is_put_back_and_done_once_1),
        cmocka_unit_test(test_each_is_done_once_though_its_first_attempt_came_to_nothing_2),
        cmocka_unit_test(test_a_join_after_the_last_end_is_done_at_once_3),
        cmocka_unit_test(test_a_join_answers_for_what_was_admitted_before_it_9),
        cmocka_unit_test(test_a_small_queue_lets_everything_through_10),
        cmocka_unit_test(test_a_full_queue_takes_back_what_a_lost_worker_had_11),
        cmocka_unit_test(test_what_comes_back_keeps_its_turn_12),
        cmocka_unit_test(test_a_result_handed_in_twice_counts_once_15),
        cmocka_unit_test(test_building_a_value_is_no_business_of_join_16),
        cmocka_unit_test(test_with_one_worker_the_order_is_that_of_admission),
        cmocka_unit_test(test_bytes_are_limited_but_a_large_one_alone_is_let_in),
        cmocka_unit_test(test_a_queue_is_filled_to_its_last_byte),
        cmocka_unit_test(test_who_waits_for_room_hears_of_it_when_a_worker_takes_one),
        cmocka_unit_test(test_what_makes_no_sense_is_refused_and_changes_nothing),
        cmocka_unit_test(test_an_attempt_goes_to_a_free_slot_before_it_is_prefetched),
        cmocka_unit_test(test_what_was_prefetched_goes_to_a_worker_that_is_idle),
        cmocka_unit_test(test_it_had_begun_when_it_was_to_be_taken_back_and_ends_once_83),
        cmocka_unit_test(test_short_functions_are_prefetched_deeply_and_long_ones_are_not),
        cmocka_unit_test(test_large_arguments_are_not_prefetched_deeply),
        cmocka_unit_test(test_a_function_that_nobody_has_fails_after_the_grace),
        cmocka_unit_test(test_a_function_that_no_worker_of_a_full_cluster_has_fails_at_once),
        cmocka_unit_test(test_a_version_is_exact_94),
        cmocka_unit_test(test_a_million_would_take_less_than_400_bytes_each_87),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
