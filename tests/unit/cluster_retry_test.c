/* SPDX-License-Identifier: Apache-2.0 */
/* Attempts that fail and are tried again, deadlines, state servers, staggered start, the watchdog.
 *
 * behaviour: cluster */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/histogram.h"
#include "cluster_stage.h"

static struct mst_cluster_failures told;

/* Until worker 0 is given something. */
static uint64_t wait_for_run(void)
{
    uint64_t began_ns = stage.now_ns;

    while (stage.workers[0].run_count == 0) {
        assert_true(stage.now_ns - began_ns < 1000 * STAGE_S);
        stage_pass(10 * STAGE_MS);
    }
    return stage.now_ns - began_ns;
}

/* A function says twice that another try may succeed, then gives a value. With three retries
 * there is a value, after about 1 s and 2 s. */
static void test_a_retryable_failure_is_tried_again_with_growing_pauses_81(void **state)
{
    struct mst_closure_options options = {.error_retries = 3};
    struct mst_closure_look look;
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule_with("f", &options);
    stage_fail(0, 0, MST_ORIGIN_RETRYABLE, 75);
    assert_int_equal(stage_counts().oldest_waits, MST_WAIT_BACKOFF);
    assert_in_range(wait_for_run(), 800 * STAGE_MS, 1210 * STAGE_MS);
    stage_fail(0, 0, MST_ORIGIN_RETRYABLE, 75);
    assert_in_range(wait_for_run(), 1600 * STAGE_MS, 2410 * STAGE_MS);
    stage_value(0, 0, "x");
    mst_cluster_look(stage.cluster, number, &look);
    assert_int_equal(look.state, MST_CLOSURE_VALUE);
    assert_int_equal(look.attempts, 3);
    assert_int_equal(stage_counts().retried, 2);
    assert_int_equal(stage_counts().put_back, 0);
    stage_end();
}

/* A function says twice that another try may succeed, and one retry is allowed. It fails with
 * its error after two attempts. */
static void test_its_budget_is_spent_81(void **state)
{
    struct mst_closure_options options = {.error_retries = 1};
    struct mst_closure_look look;
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule_with("f", &options);
    stage_fail(0, 0, MST_ORIGIN_RETRYABLE, 75);
    (void)wait_for_run();
    stage_fail(0, 0, MST_ORIGIN_RETRYABLE, 75);
    mst_cluster_look(stage.cluster, number, &look);
    assert_int_equal(look.state, MST_CLOSURE_FAILED);
    assert_int_equal(look.failure.origin, MST_ORIGIN_RETRYABLE);
    assert_int_equal(look.failure.attempt, 2);
    assert_int_equal(stage_joined(), MUSTER_EFAILED);
    stage_end();
}

static void test_the_pause_has_a_longest(void **state)
{
    struct mst_closure_options options = {.error_retries = 40};

    (void)state;
    stage_config.backoff_max_ns = 8 * STAGE_S;
    assert_true(stage_begin());
    stage_join(0, 1);
    (void)stage_schedule_with("f", &options);
    for (unsigned i = 0; i < 40; i++) {
        stage_fail(0, 0, MST_ORIGIN_RETRYABLE, 1);
        assert_in_range(wait_for_run(), 800 * STAGE_MS, 9700 * STAGE_MS);
    }
    stage_end();
}

static void test_by_default_an_error_is_final_and_a_crash_is_tried_once_more(void **state)
{
    uint64_t first, second;

    (void)state;
    stage_config.policy = MST_CLUSTER_ISOLATE;
    assert_true(stage_begin());
    stage_join(0, 1);
    first = stage_schedule("f");
    stage_fail(0, 0, MST_ORIGIN_FUNCTION, 1);
    assert_int_equal(stage_origin(first), MST_ORIGIN_FUNCTION);
    second = stage_schedule("f");
    stage_fail(0, 0, MST_ORIGIN_CRASH, -11);
    (void)wait_for_run();
    stage_fail(0, 0, MST_ORIGIN_CRASH, -11);
    assert_int_equal(stage_origin(second), MST_ORIGIN_CRASH);
    stage_end();
}

static void test_only_what_a_function_calls_retryable_is_retried(void **state)
{
    struct mst_closure_options options = {.error_retries = 3};
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule_with("f", &options);
    stage_fail(0, 0, MST_ORIGIN_FUNCTION, 1);
    assert_int_equal(stage_origin(number), MST_ORIGIN_FUNCTION);
    stage_end();
}

static void test_a_child_that_crashes_each_time_is_poison_in_the_end(void **state)
{
    struct mst_closure_options options = {.crash_retries = 100};
    uint64_t number;
    unsigned crashes = 0;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule_with("f", &options);
    while (stage_state(number) != MST_CLOSURE_FAILED) {
        (void)wait_for_run();
        stage_fail(0, 0, MST_ORIGIN_CRASH, -11);
        crashes++;
    }
    assert_int_equal(crashes, 3);
    assert_int_equal(stage_origin(number), MST_ORIGIN_POISON);
    stage_end();
}

static void test_what_must_run_once_is_not_tried_again(void **state)
{
    struct mst_closure_options options = {.once = true, .error_retries = 9, .crash_retries = 9};
    static const enum mst_origin origins[] = {MST_ORIGIN_FUNCTION, MST_ORIGIN_RETRYABLE,
                                              MST_ORIGIN_CRASH, MST_ORIGIN_CANCELLED};

    (void)state;
    stage_config.policy = MST_CLUSTER_ISOLATE;
    assert_true(stage_begin());
    stage_join(0, 1);
    for (size_t i = 0; i < sizeof(origins) / sizeof(origins[0]); i++) {
        uint64_t number = stage_schedule_with("f", &options);

        stage_fail(0, 0, origins[i], 1);
        assert_int_equal(stage_origin(number), i < 3 ? origins[i] : MST_ORIGIN_LOST);
    }
    stage_end();
}

static void test_a_function_says_itself_that_it_must_run_once(void **state)
{
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage.workers[0].flags = MST_FUNCTION_ONCE;
    stage_join(0, 1);
    number = stage_schedule("f");
    (void)stage_schedule("f");
    assert_int_equal(stage.workers[0].run_count, 1); /* and is not prefetched */
    stage_die(0);
    assert_int_equal(stage_origin(number), MST_ORIGIN_LOST);
    stage_end();
}

static void test_a_result_nobody_waits_for_runs_but_is_not_kept(void **state)
{
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule("f");
    mst_cluster_release(stage.cluster, stage.now_ns, number);
    assert_int_equal(stage_state(number), MST_CLOSURE_UNKNOWN);
    assert_int_equal(stage_joined(), MUSTER_MORE);
    stage_value(0, 0, "large");
    assert_int_equal(stage_counts().values, 1);
    assert_int_equal(stage_joined(), MUSTER_OK);
    stage_end();
}

static void test_progress_is_seen(void **state)
{
    struct mst_cluster_message progress = {.type = MST_CLUSTER_PROGRESS,
                                           .attempt = {.closure = 1, .attempt = 1},
                                           .series = 1,
                                           .fraction = 0.25,
                                           .text = mst_slice_text("a quarter")};
    struct mst_closure_look look;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    (void)stage_schedule("f");
    mst_cluster_look(stage.cluster, 1, &look);
    assert_true(look.fraction < 0);
    stage_say(0, &progress);
    mst_cluster_look(stage.cluster, 1, &look);
    assert_true(look.fraction > 0.2 && look.fraction < 0.3);
    assert_memory_equal(look.text.data, "a quarter", 9);
    stage_end();
}

/* ---- deadlines ---- */

/* A closure is to begin within 1 s and all workers are busy. It fails with DEADLINE without
 * having begun. */
static void test_one_that_cannot_begin_in_time_never_starts_80(void **state)
{
    struct mst_closure_options options = {.start_ns = STAGE_S};
    uint64_t number;

    (void)state;
    stage_config.prefetch = 0;
    assert_true(stage_begin());
    stage_join(0, 1);
    (void)stage_schedule("f");
    number = stage_schedule_with("f", &options);
    stage_pass(900 * STAGE_MS);
    assert_int_equal(stage_state(number), MST_CLOSURE_QUEUED);
    stage_pass(200 * STAGE_MS);
    assert_int_equal(stage_origin(number), MST_ORIGIN_DEADLINE);
    assert_int_equal(stage.workers[0].ran, 1);
    stage_end();
}

/* A closure that was sent ahead is not begun within its limit. It is asked back, and fails with
 * DEADLINE. */
static void test_a_prefetched_one_that_is_late_is_asked_back_80(void **state)
{
    struct mst_closure_options options = {.start_ns = STAGE_S};
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    (void)stage_schedule("f");
    number = stage_schedule_with("f", &options);
    assert_int_equal(stage.workers[0].run_count, 2);
    stage_pass(2 * STAGE_S);
    assert_true(stage.workers[0].runs[1].recalled);
    stage_fail(0, 1, MST_ORIGIN_RETURNED, 0);
    assert_int_equal(stage_origin(number), MST_ORIGIN_DEADLINE);
    stage_end();
}

/* A closure may run for 1 s and takes 10. Its worker stops it at 1 s, and it fails with
 * DEADLINE. */
static void test_the_limit_of_an_attempt_is_its_workers_to_keep_80(void **state)
{
    struct mst_closure_options options = {.run_ns = STAGE_S, .error_retries = 5};
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule_with("f", &options);
    assert_int_equal(stage.workers[0].runs[0].run_limit_ms, 1000);
    stage_fail(0, 0, MST_ORIGIN_DEADLINE, 0);
    assert_int_equal(stage_origin(number), MST_ORIGIN_DEADLINE);
    stage_end();
}

/* A closure's limit is below a millisecond. It is one millisecond: 0 would be no limit.
 * [Workers] */
static void test_a_limit_below_a_millisecond_is_one(void **state)
{
    static const uint64_t limits[][2] = {
        {1, 1}, {STAGE_MS - 1, 1}, {STAGE_MS, 1}, {STAGE_MS + 1, 2}, {0, 0}};

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        struct mst_closure_options options = {.run_ns = limits[i][0]};

        (void)stage_schedule_with("f", &options);
        assert_int_equal(stage.workers[0].runs[0].run_limit_ms, limits[i][1]);
        stage_value(0, 0, "");
    }
    stage_end();
}

static void says_overdue(uint32_t i, uint32_t at)
{
    struct mst_cluster_message message = {.type = MST_CLUSTER_PROGRESS,
                                          .attempt = stage.workers[i].runs[at].attempt,
                                          .series = stage.workers[i].runs[at].series,
                                          .fraction = -1,
                                          .overdue = true};

    stage_say(i, &message);
}

/* A function ignores that its closure's `run_ms` is over. Its worker is stopped after
 * `cancel_grace_ms`; the closure fails with DEADLINE and is not run again: it costs one worker.
 * [Workers] */
static void test_one_that_ignores_its_limit_costs_one_worker(void **state)
{
    struct mst_closure_options options = {.run_ns = STAGE_S};
    struct mst_worker_end stuck = {.cause = MST_CAUSE_EXIT, .code = MST_CLUSTER_EXIT_STUCK};
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage_join(1, 1);
    number = stage_schedule_with("f", &options);
    assert_int_equal(stage.workers[0].grace_ms, 5000); /* which it keeps */
    stage_pass(STAGE_S);
    says_overdue(0, 0);
    assert_true(stage.workers[0].runs[0].cancelled);
    assert_int_equal(stage.workers[0].runs[0].grace_ms, 5000);
    stage_pass(5 * STAGE_S);
    assert_int_equal(stage_state(number), MST_CLOSURE_RUNNING);
    stage_lose(0, stuck);
    assert_int_equal(stage_origin(number), MST_ORIGIN_DEADLINE);
    assert_int_equal(stage.workers[1].ran, 0);
    stage_end();
}

/* A closure ignores its limit, and its worker is out of reach when it is killed, or never says
 * that it was. It is not run again. [Workers] */
static void test_one_that_ignores_its_limit_out_of_reach_is_not_run_again(void **state)
{
    struct mst_closure_options options = {.run_ns = STAGE_S, .idempotent = true};
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule_with("f", &options);
    says_overdue(0, 0);
    stage_gone(0);
    stage_join(1, 1);
    stage_pass(3 * STAGE_S);
    assert_int_equal(stage_origin(number), MST_ORIGIN_DEADLINE);
    assert_int_equal(stage.workers[1].ran, 0);
    stage_end();
}

/* A closure ignores its limit, and from its deadline on nothing comes through a connection that
 * looks whole. It is not run again. Without a limit, or before it, status 70 is the function's
 * own. [Workers] */
static void test_one_that_ignores_its_limit_unheard_is_not_run_again(void **state)
{
    static const struct {
        uint64_t run_ns, lost_ns;
        enum mst_origin origin;
    } cases[] = {{STAGE_S, 8 * STAGE_S, MST_ORIGIN_DEADLINE},
                 {STAGE_S, STAGE_S - 1, MST_ORIGIN_NONE},
                 {0, 8 * STAGE_S, MST_ORIGIN_NONE}};
    struct mst_worker_end stuck = {.cause = MST_CAUSE_EXIT, .code = MST_CLUSTER_EXIT_STUCK};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct mst_closure_options options = {.run_ns = cases[i].run_ns};
        uint64_t number, beside;

        assert_true(stage_begin());
        stage_join(0, 2);
        number = stage_schedule_with("f", &options);
        beside = stage_schedule("f");
        stage_join(1, 2);
        stage_pass(cases[i].lost_ns);
        stage_lose(0, stuck);
        assert_int_equal(stage_origin(number), cases[i].origin);
        assert_int_equal(stage_state(beside), MST_CLOSURE_RUNNING);
        assert_int_equal(stage.workers[1].run_count, cases[i].origin == MST_ORIGIN_NONE ? 2 : 1);
        stage_end();
    }
}

static void test_what_a_function_says_when_its_time_is_over_is_kept(void **state)
{
    struct mst_closure_options options = {.run_ns = STAGE_S};
    struct mst_failure failure = {.origin = MST_ORIGIN_DEADLINE, .text = {"at step 812", 11}};
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule_with("f", &options);
    says_overdue(0, 0);
    stage_fail_with(0, 0, &failure);
    stage_told(number, "at step 812");
    stage_end();
}

static void test_at_its_end_a_closure_is_stopped_wherever_it_is(void **state)
{
    struct mst_closure_options options = {.total_ns = 10 * STAGE_S, .error_retries = 9};
    uint64_t runs, waits;

    (void)state;
    stage_config.policy = MST_CLUSTER_ISOLATE;
    assert_true(stage_begin());
    stage_join(0, 2);
    runs = stage_schedule_with("f", &options);
    assert_int_equal(stage.workers[0].runs[0].left_ms, 10000);
    waits = stage_schedule_with("f", &options);
    stage_pass(9900 * STAGE_MS);
    stage_fail(0, 1, MST_ORIGIN_RETRYABLE, 1);
    stage_pass(200 * STAGE_MS);
    assert_int_equal(stage_origin(waits), MST_ORIGIN_DEADLINE);
    assert_true(stage.workers[0].runs[0].cancelled);
    stage_fail(0, 0, MST_ORIGIN_CANCELLED, 0);
    assert_int_equal(stage_origin(runs), MST_ORIGIN_DEADLINE);
    stage_end();
}

/* ---- state servers ---- */

static const struct mst_failure no_ps = {
    .origin = MST_ORIGIN_STATE, .state = {"ps", 2}, .text = {"connection refused", 18}};

static void report(void)
{
    (void)wait_for_run();
    stage_fail_with(0, 0, &no_ps);
}

/* A state server fails twice, and a third time within the window. Twice the closures run again
 * silently; the third time join gets it. */
static void test_two_hiccups_are_tolerated_and_a_third_within_the_window_is_not_61(void **state)
{
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    assert_int_equal(mst_cluster_state_server(stage.cluster, mst_slice_text("ps")), MUSTER_OK);
    assert_int_equal(mst_cluster_state_server(stage.cluster, mst_slice_text("ps")), MUSTER_EEXISTS);
    stage_join(0, 1);
    number = stage_schedule("f");
    report();
    report();
    assert_int_equal(stage_joined(), MUSTER_MORE);
    assert_int_equal(stage_state(number), MST_CLOSURE_QUEUED);
    report();
    assert_int_equal(stage_origin(number), MST_ORIGIN_STATE);
    assert_int_equal(stage_deliver(&told), MUSTER_EFAILED);
    assert_memory_equal(told.first[0].state.data, "ps", 2);
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_LOST], 0); /* the worker is not blamed */
    stage_end();
}

/* A closure that a state server failed has a value after all, so it reached the server. The
 * count begins anew. */
static void test_who_reaches_the_state_server_after_all_ends_the_count_61(void **state)
{
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    (void)mst_cluster_state_server(stage.cluster, mst_slice_text("ps"));
    stage_join(0, 1);
    for (unsigned i = 0; i < 8; i++) { /* all within the window */
        (void)stage_schedule("f");
        report();
        report();
        (void)wait_for_run();
        stage_value(0, 0, "");
        (void)stage_schedule("f"); /* it had no trouble with a server: it says nothing of one */
        (void)wait_for_run();
        stage_value(0, 0, "");
    }
    assert_int_equal(stage_joined(), MUSTER_OK);
    number = stage_schedule("f");
    report();
    report();
    report();
    assert_int_equal(stage_origin(number), MST_ORIGIN_STATE);
    stage_end();
}

/* A closure that had no trouble with a state server, which it never needed, has a value. The
 * server's count goes on. */
static void test_what_had_no_trouble_with_a_state_server_does_not_end_its_count_61(void **state)
{
    struct mst_closure_options soon = {.group = 1};
    uint64_t number;

    (void)state;
    stage_config.policy = MST_CLUSTER_ISOLATE;
    assert_true(stage_begin());
    (void)mst_cluster_state_server(stage.cluster, mst_slice_text("ps"));
    stage_join(0, 1);
    number = stage_schedule("f");
    report();
    report();
    (void)stage_schedule_with("f", &soon); /* the other one waits for its next turn */
    stage_value(0, 0, "");
    report();
    assert_int_equal(stage_origin(number), MST_ORIGIN_STATE);
    stage_end();
}

/* A state server fails with more than the window in between. join never gets it. */
static void test_hiccups_further_apart_than_the_window_are_never_told_61(void **state)
{
    (void)state;
    assert_true(stage_begin());
    (void)mst_cluster_state_server(stage.cluster, mst_slice_text("ps"));
    stage_join(0, 1);
    for (unsigned i = 0; i < 20; i++) {
        (void)stage_schedule("f");
        report();
        (void)wait_for_run();
        stage_value(0, 0, "");
        stage_pass(31 * STAGE_S);
    }
    assert_int_equal(stage_joined(), MUSTER_OK);
    stage_end();
}

/* No failure of a state server is tolerated. join gets the first. */
static void test_without_tolerance_the_first_is_told_62(void **state)
{
    uint64_t number;

    (void)state;
    stage_config.transient_limit = 0;
    assert_true(stage_begin());
    (void)mst_cluster_state_server(stage.cluster, mst_slice_text("ps"));
    stage_join(0, 1);
    number = stage_schedule("f");
    report();
    assert_int_equal(stage_origin(number), MST_ORIGIN_STATE);
    stage_end();
}

static void test_a_server_that_nobody_named_is_the_functions_own_error(void **state)
{
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule("f");
    report();
    assert_int_equal(stage_origin(number), MST_ORIGIN_FUNCTION);
    stage_end();
}

/* ---- staggered start, watchdog, histograms ---- */

static void staggered(uint64_t max_ns)
{
    stage_config.start_delay_ns = 2 * STAGE_S;
    stage_config.start_delay_max_ns = max_ns;
    assert_true(stage_begin());
    for (uint32_t i = 0; i < 3; i++) {
        stage_join(i, 1);
        (void)stage_schedule("f");
        (void)stage_schedule("f");
    }
    for (uint32_t second = 0; second < 5; second++) {
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(stage.workers[i].run_count > 0, second >= 2 * i);
        }
        stage_pass(STAGE_S);
    }
    stage_die(2);
    (void)stage_schedule("f");
    stage_revive(2);
    assert_true(stage.workers[2].run_count > 0); /* only the first start waits */
    stage_join(3, 1);
    stage_end();
}

/* Three workers start with a delay of 2 s and at most 4 s. They begin at 0, 2 and 4 s; without
 * the limit too; closing meanwhile returns at once. */
static void test_workers_start_one_after_the_other_75(void **state)
{
    (void)state;
    staggered(4 * STAGE_S);
    staggered(0);
}

/* The watchdog is set to 3 s and a closure sleeps for 10. It is logged at 3 and at 6 s; nothing
 * is logged after the end or when there is nothing to do. */
static void test_the_watchdog_tells_what_is_stuck_76(void **state)
{
    (void)state;
    stage_config.watchdog_ns = 3 * STAGE_S;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage_pass(20 * STAGE_S);
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_STUCK], 0); /* idle */
    (void)stage_schedule("f");
    stage_pass(2900 * STAGE_MS);
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_STUCK], 0);
    stage_pass(200 * STAGE_MS);
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_STUCK], 1);
    assert_in_range(stage.last_count, 3000, 3100);
    assert_string_equal(stage.last_text,
                        "attempt 1 of 'f', its worker last heard 23.0 s ago, no progress reported");
    stage_pass(3 * STAGE_S);
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_STUCK], 2);
    stage_value(0, 0, "");
    stage_pass(20 * STAGE_S);
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_STUCK], 2);
    mst_cluster_close(stage.cluster, stage.now_ns, false);
    stage_settle();
    stage_pass(20 * STAGE_S);
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_STUCK], 2);
    stage_end();
}

/* The watchdog's line says which worker runs the closure, in which attempt, when that worker was
 * last heard and its last progress. [Workers] */
static void test_the_watchdog_tells_the_attempt_and_the_last_signs_of_life(void **state)
{
    struct mst_cluster_message progress = {.type = MST_CLUSTER_PROGRESS,
                                           .attempt = {.closure = 1, .attempt = 1},
                                           .series = 1,
                                           .fraction = 0.5,
                                           .text = mst_slice_text("half of it")};

    (void)state;
    stage_config.watchdog_ns = 3 * STAGE_S;
    assert_true(stage_begin());
    stage_join(0, 1);
    (void)stage_schedule("f");
    stage_pass(2 * STAGE_S);
    stage_say(0, &progress);
    stage_pass(3 * STAGE_S);
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_STUCK], 1);
    assert_string_equal(stage.last_text, "attempt 1 of 'f', its worker last heard 3.0 s ago, its "
                                         "last progress 3.0 s ago (half of it)");
    stage_die(0);
    stage_revive(0);
    stage_pass(3 * STAGE_S);
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_STUCK], 2);
    assert_string_equal(stage.last_text, /* what was told of another attempt does not count */
                        "attempt 2 of 'f', its worker last heard 3.0 s ago, no progress reported");
    stage_end();
}

/* The watchdog's lines say of the ten oldest waiting closures why they wait. [Workers] */
static void test_the_watchdog_tells_why_the_oldest_wait(void **state)
{
    (void)state;
    stage_config.watchdog_ns = 3 * STAGE_S;
    assert_true(stage_begin());
    for (unsigned i = 0; i < 20; i++) {
        (void)stage_schedule("f");
    }
    stage_pass(3100 * STAGE_MS);
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_STUCK], 0); /* nothing runs */
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_WAITS], 10);
    assert_string_equal(stage.last_text, "there is no worker");
    stage_join(0, 1);
    stage_pass(3 * STAGE_S);
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_STUCK], 1);
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_WAITS], 20);
    assert_string_equal(stage.last_text, "all slots that could run it are busy");
    stage_end();
}

static uint64_t timed(enum mst_cluster_timer timer)
{
    return mst_histogram_count(mst_cluster_histogram(stage.cluster, timer));
}

/* The same function is scheduled twice on one worker; then others come. Its name is resolved
 * once on each, it runs as often as it was scheduled, and as many results are fetched: so say
 * the three histograms. */
static void test_a_function_is_resolved_once_and_timed_each_time_24(void **state)
{
    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    (void)stage_schedule("f");
    (void)stage_schedule("f");
    stage_all(2);
    assert_int_equal(timed(MST_TIMER_RESOLVE), 1);
    assert_int_equal(timed(MST_TIMER_RUN), 2);
    assert_int_equal(timed(MST_TIMER_FETCH), 2);
    stage_join(1, 1); /* offers it too, and has it resolved for itself */
    stage_join(2, 1);
    (void)stage_schedule("f");
    stage_all(1);
    assert_int_equal(timed(MST_TIMER_RESOLVE), 3);
    assert_int_equal(timed(MST_TIMER_RUN), 3);
    stage_end();
}

/* Failures are counted by their class, and timed apart. */
static void test_failures_are_counted_by_class_and_timed_apart_24(void **state)
{
    (void)state;
    stage_config.policy = MST_CLUSTER_ISOLATE;
    assert_true(stage_begin());
    stage_join(0, 1);
    for (unsigned i = 0; i < 2; i++) {
        (void)stage_schedule("f");
        (void)wait_for_run();
        stage_fail(0, 0, MST_ORIGIN_FUNCTION, 1);
    }
    (void)stage_schedule("f");
    (void)wait_for_run();
    stage_fail(0, 0, MST_ORIGIN_EXHAUSTED, 1); /* which is tried again */
    (void)wait_for_run();
    stage_value(0, 0, "x");
    assert_int_equal(stage_counts().failures, 2);
    assert_int_equal(stage_counts().failed[MST_ORIGIN_FUNCTION], 2);
    assert_int_equal(stage_counts().failed[MST_ORIGIN_EXHAUSTED], 0);
    assert_int_equal(timed(MST_TIMER_RUN), 1);
    assert_int_equal(timed(MST_TIMER_FAILED), 3);
    stage_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_retryable_failure_is_tried_again_with_growing_pauses_81),
        cmocka_unit_test(test_its_budget_is_spent_81),
        cmocka_unit_test(test_the_pause_has_a_longest),
        cmocka_unit_test(test_by_default_an_error_is_final_and_a_crash_is_tried_once_more),
        cmocka_unit_test(test_only_what_a_function_calls_retryable_is_retried),
        cmocka_unit_test(test_a_child_that_crashes_each_time_is_poison_in_the_end),
        cmocka_unit_test(test_what_must_run_once_is_not_tried_again),
        cmocka_unit_test(test_a_function_says_itself_that_it_must_run_once),
        cmocka_unit_test(test_a_result_nobody_waits_for_runs_but_is_not_kept),
        cmocka_unit_test(test_progress_is_seen),
        cmocka_unit_test(test_one_that_cannot_begin_in_time_never_starts_80),
        cmocka_unit_test(test_a_prefetched_one_that_is_late_is_asked_back_80),
        cmocka_unit_test(test_the_limit_of_an_attempt_is_its_workers_to_keep_80),
        cmocka_unit_test(test_a_limit_below_a_millisecond_is_one),
        cmocka_unit_test(test_one_that_ignores_its_limit_costs_one_worker),
        cmocka_unit_test(test_one_that_ignores_its_limit_out_of_reach_is_not_run_again),
        cmocka_unit_test(test_one_that_ignores_its_limit_unheard_is_not_run_again),
        cmocka_unit_test(test_what_a_function_says_when_its_time_is_over_is_kept),
        cmocka_unit_test(test_at_its_end_a_closure_is_stopped_wherever_it_is),
        cmocka_unit_test(test_two_hiccups_are_tolerated_and_a_third_within_the_window_is_not_61),
        cmocka_unit_test(test_who_reaches_the_state_server_after_all_ends_the_count_61),
        cmocka_unit_test(test_what_had_no_trouble_with_a_state_server_does_not_end_its_count_61),
        cmocka_unit_test(test_hiccups_further_apart_than_the_window_are_never_told_61),
        cmocka_unit_test(test_without_tolerance_the_first_is_told_62),
        cmocka_unit_test(test_a_server_that_nobody_named_is_the_functions_own_error),
        cmocka_unit_test(test_workers_start_one_after_the_other_75),
        cmocka_unit_test(test_the_watchdog_tells_what_is_stuck_76),
        cmocka_unit_test(test_the_watchdog_tells_the_attempt_and_the_last_signs_of_life),
        cmocka_unit_test(test_the_watchdog_tells_why_the_oldest_wait),
        cmocka_unit_test(test_a_function_is_resolved_once_and_timed_each_time_24),
        cmocka_unit_test(test_failures_are_counted_by_class_and_timed_apart_24),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
