/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that are silent, lost, back, or liars.
 *
 * behaviour: cluster */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "cluster_stage.h"

static struct mst_cluster_failures told;

/* A worker is killed for good within a closure of 3 s while another one is idle. The other one
 * runs it at once, without waiting for a replacement. */
static void test_another_takes_over_without_waiting_42(void **state)
{
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule("f");
    stage_join(1, 1);
    stage_die(0);
    assert_int_equal(stage.workers[1].runs[0].attempt.closure, number);
    assert_int_equal(stage.workers[1].runs[0].attempt.attempt, 2);
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_LOST], 1);
    assert_int_equal(stage.last_count, 1);
    stage_all(1);
    assert_int_equal(stage_state(number), MST_CLOSURE_VALUE);
    assert_int_equal(stage_counts().put_back, 1);
    stage_end();
}

/* Both workers are killed within their closures and replaced. All ten closures end. */
static void test_two_are_lost_and_both_come_back_43(void **state)
{
    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage_join(1, 1);
    for (unsigned i = 0; i < 10; i++) {
        (void)stage_schedule("f");
    }
    stage_die(0);
    stage_die(1);
    assert_int_equal(stage_joined(), MUSTER_MORE);
    stage_revive(0);
    stage_revive(1);
    stage_all(10);
    assert_int_equal(stage_counts().values, 10);
    assert_int_equal(stage_joined(), MUSTER_OK);
    stage_end();
}

/* A worker is killed and replaced within 50 ms, in the same place. Its incarnation tells: the
 * attempt runs again, nothing of the old process is accepted, and no error is shown. */
static void test_a_fast_restart_is_seen_by_its_incarnation_48(void **state)
{
    struct mst_cluster_message old;
    uint64_t number, connection;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule("f");
    old = (struct mst_cluster_message){
        .type = MST_CLUSTER_RESULT, .attempt = stage.workers[0].runs[0].attempt, .series = 1};
    connection = stage.workers[0].connection;
    stage.workers[0].run_count = 0;
    stage.workers[0].incarnation = 2;
    stage_hello(0, NULL, 0, NULL, 0); /* before anybody heard of it: held */
    assert_false(stage.workers[0].welcome);
    assert_int_equal(stage_state(number), MST_CLOSURE_RUNNING);
    stage_member(0, MST_WORKER_PRESENT);
    assert_true(stage.workers[0].welcome);
    mst_cluster_message(stage.cluster, stage.now_ns, connection, &old);
    stage_settle();
    assert_int_equal(stage_state(number), MST_CLOSURE_RUNNING);
    assert_int_equal(stage.workers[0].runs[0].attempt.attempt, 2);
    stage_value(0, 0, "");
    assert_int_equal(stage_state(number), MST_CLOSURE_VALUE);
    assert_int_equal(stage_counts().failures, 0);
    stage_end();
}

/* A worker is stopped for longer than its lease, then continued. It is lost, and its closure is
 * committed elsewhere. What it hands in late is refused; it comes back with nothing. */
static void test_a_woken_worker_is_told_that_it_was_given_up_49(void **state)
{
    struct mst_attempt held;
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage_join(1, 1);
    number = stage_schedule("f");
    held = stage.workers[0].runs[0].attempt;
    stage_member(0, MST_WORKER_SILENT);
    assert_int_equal(stage_state(number), MST_CLOSURE_RUNNING);
    stage_member(0, MST_WORKER_LOST);
    assert_false(stage.workers[0].connected);
    assert_int_equal(stage.workers[1].runs[0].attempt.closure, number);
    stage_hello(0, &held, 1, NULL, 0); /* it wakes: the same incarnation */
    assert_int_equal(stage.workers[0].refusal, MUSTER_EFENCED);
    stage_all(1);
    stage_revive(0);
    assert_true(stage.workers[0].welcome);
    assert_int_equal(stage_counts().values, 1);
    stage_end();
}

/* A worker is cut off while it runs, and the connection is back within the lease. It keeps what
 * it runs, which is committed once. */
static void test_a_healed_connection_keeps_what_the_worker_still_runs_51(void **state)
{
    struct mst_attempt held;
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule("f");
    held = stage.workers[0].runs[0].attempt;
    stage_gone(0);
    stage_pass(STAGE_S);
    assert_int_equal(stage_state(number), MST_CLOSURE_RUNNING);
    stage_hello(0, &held, 1, NULL, 0);
    stage_pass(10 * STAGE_S);
    assert_int_equal(stage.workers[0].run_count, 1); /* and is not sent again */
    stage_value(0, 0, "");
    assert_int_equal(stage_state(number), MST_CLOSURE_VALUE);
    stage_end();
}

/* A worker is cut off for longer than its lease. Its closure is committed once, elsewhere, and
 * the worker comes back when the cut is healed. */
static void test_after_a_longer_cut_nothing_is_committed_twice_51(void **state)
{
    struct mst_attempt held;
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage_join(1, 1);
    number = stage_schedule("f");
    held = stage.workers[0].runs[0].attempt;
    stage_gone(0);
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_SILENT], 1);
    stage_pass(3 * STAGE_S);
    assert_int_equal(stage.workers[1].runs[0].attempt.closure, number);
    stage_hello(0, &held, 1, NULL, 0);
    assert_int_equal(stage.workers[0].cancels, 1); /* it is to stop */
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_BACK], 1);
    stage_value(0, 0, "old");
    assert_int_equal(stage_counts().late, 1);
    stage_value(1, 0, "new");
    assert_int_equal(stage_counts().values, 1);
    stage_end();
}

/* An attempt that is over is reported by the same worker again. It no longer counts.
 * [A coordinator and its program] */
static void test_an_attempt_that_is_over_counts_no_more_also_from_the_same_worker(void **state)
{
    struct mst_cluster_message result = {.type = MST_CLUSTER_RESULT, .series = 1};
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule("f");
    result.attempt = stage.workers[0].runs[0].attempt;
    stage_gone(0);
    stage_pass(3 * STAGE_S);
    stage.workers[0].run_count = 0;
    stage_hello(0, &result.attempt, 1, NULL, 0);
    assert_int_equal(stage.workers[0].runs[0].attempt.closure, number);
    assert_int_equal(stage.workers[0].runs[0].attempt.attempt, 2);
    stage_say(0, &result);
    assert_int_equal(stage_state(number), MST_CLOSURE_RUNNING);
    result.attempt.attempt = 2;
    result.series = 2; /* nor one of another series */
    stage_say(0, &result);
    assert_int_equal(stage_state(number), MST_CLOSURE_RUNNING);
    assert_int_equal(stage_counts().late, 2);
    stage_value(0, 0, "");
    assert_int_equal(stage_state(number), MST_CLOSURE_VALUE);
    stage_end();
}

/* A worker answers another worker's attempt. It changes nothing. [A coordinator and its program] */
static void test_another_workers_attempt_cannot_be_answered(void **state)
{
    struct mst_cluster_message result = {.type = MST_CLUSTER_RESULT, .series = 1};
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage_join(1, 1);
    number = stage_schedule("f");
    result.attempt = stage.workers[0].runs[0].attempt;
    stage_say(1, &result);
    assert_int_equal(stage_state(number), MST_CLOSURE_RUNNING);
    assert_int_equal(stage_counts().late, 1);
    stage_end();
}

static void test_an_idempotent_one_runs_elsewhere_at_once_when_its_worker_is_silent(void **state)
{
    struct mst_closure_options twice = {.idempotent = true};
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage_join(1, 1);
    number = stage_schedule_with("f", &twice);
    stage_gone(0);
    assert_int_equal(stage.workers[1].runs[0].attempt.closure, number);
    stage_all(1);
    stage_end();
}

static void test_what_must_run_once_is_lost_with_its_worker_and_never_prefetched(void **state)
{
    struct mst_closure_options once = {.once = true, .crash_retries = 5};
    uint64_t first, second;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    first = stage_schedule_with("f", &once);
    second = stage_schedule_with("f", &once);
    assert_int_equal(stage.workers[0].run_count, 1);
    stage_gone(0);
    stage_pass(5 * STAGE_S);
    assert_int_equal(stage_state(first), MST_CLOSURE_RUNNING); /* it may still come back */
    stage_die(0);
    assert_int_equal(stage_origin(first), MST_ORIGIN_LOST);
    assert_int_equal(stage_state(second), MST_CLOSURE_QUEUED);
    stage_end();
}

/* All workers are gone. join waits and the status says for how long; with `min_workers` and
 * `recovery_max` it ends with ETOOFEW after that time. */
static void test_all_workers_are_gone_and_a_join_waits_or_ends_52(void **state)
{
    uint64_t number;

    (void)state;
    stage_config.min_workers = 1;
    stage_config.recovery_max_ns = 5 * STAGE_S;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage_join(1, 1);
    number = stage_schedule("f");
    stage_pass(60 * STAGE_S);
    assert_int_equal(stage_joined(), MUSTER_MORE);
    stage_die(0);
    stage_die(1);
    stage_pass(4 * STAGE_S);
    assert_int_equal(stage_counts().oldest, number);
    assert_int_equal(stage_counts().oldest_waits, MST_WAIT_WORKERS);
    assert_int_equal(stage_counts().oldest_ns, 64 * STAGE_S);
    assert_int_equal(stage_counts().present, 0);
    assert_int_equal(stage_counts().workers, 2);
    assert_int_equal(stage_joined(), MUSTER_MORE);
    stage_pass(2 * STAGE_S);
    assert_int_equal(stage_joined(), MUSTER_ETOOFEW);
    assert_int_equal(stage_try("f", NULL, &number), MUSTER_ETOOFEW);
    stage_end();
}

/* One of three workers never comes back, another one is replaced. The replaced one works at
 * once: the first is not waited for. */
static void test_one_stays_away_and_another_comes_back_53(void **state)
{
    uint64_t number;

    (void)state;
    stage_config.recovery_max_ns = 10 * STAGE_S;
    assert_true(stage_begin());
    for (uint32_t i = 0; i < 3; i++) {
        stage_join(i, 1);
    }
    stage_die(0);
    stage_die(1);
    stage_die(2);
    number = stage_schedule("f");
    stage_revive(1);
    assert_int_equal(stage.workers[1].runs[0].attempt.closure, number);
    stage_all(1);
    stage_pass(20 * STAGE_S);
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_GIVEN_UP], 2);
    assert_int_equal(stage_joined(), MUSTER_OK); /* without a least number, that is all */
    stage_end();
}

/* A run did not come to its worker, which says which it has: so it cannot have begun. It runs
 * again, also one that must run once. [A coordinator and its program] */
static void test_what_did_not_come_to_its_worker_runs_again_also_once(void **state)
{
    struct mst_closure_options once = {.once = true};
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule_with("f", &once);
    stage_gone(0);
    stage.workers[0].turn = 2;
    stage.workers[0].results = 1; /* it sent none, and forgot none */
    stage_hello(0, NULL, 0, NULL, 0);
    assert_int_equal(stage_state(number), MST_CLOSURE_RUNNING);
    assert_int_equal(stage.workers[0].runs[stage.workers[0].run_count - 1].attempt.attempt, 2);
    stage_gone(0);
    stage.workers[0].results = 2; /* one is gone, of which nobody knows */
    stage_hello(0, NULL, 0, NULL, 0);
    assert_int_equal(stage_origin(number), MST_ORIGIN_LOST);
    stage_end();
}

/* Of two connections of one worker the earlier one is read after the later one, and ends. The
 * later one goes on. [A coordinator and its program] */
static void test_a_connection_that_is_read_after_a_later_one_is_over(void **state)
{
    uint64_t number, earlier, later;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage_gone(0);
    earlier = ++stage.connections;
    stage_hello(0, NULL, 0, NULL, 0);
    number = stage_schedule("f");
    later = stage.workers[0].connection;
    stage.connections = earlier - 1;
    stage_hello(0, NULL, 0, NULL, 0);
    assert_false(stage.workers[0].connected);
    stage.connections = later;
    stage.workers[0].connected = true; /* the later one is as it was */
    stage.workers[0].welcome = true;
    stage.workers[0].connection = later;
    stage_value(0, 0, "x");
    assert_int_equal(stage_state(number), MST_CLOSURE_VALUE);
    assert_int_equal(stage_counts().put_back, 0);
    stage_end();
}

/* A stranger says that it is a worker that is there, and that no later connection of it can come
 * (`turn` of 2^64 − 1). The worker connects again and has its place back: the connection that
 * was accepted last counts. [A coordinator and its program] */
static void test_a_stranger_in_its_place_does_not_lock_a_worker_out(void **state)
{
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage.workers[0].turn = UINT64_MAX;
    stage_hello(0, NULL, 0, NULL, 0);
    stage.workers[0].turn = 2; /* its own has been closed: it connects again */
    stage_hello(0, NULL, 0, NULL, 0);
    assert_true(stage.workers[0].connected && stage.workers[0].welcome);
    number = stage_schedule("f");
    stage_value(0, 0, "x");
    assert_int_equal(stage_state(number), MST_CLOSURE_VALUE);
    stage_end();
}

/* There is no memory for a result that came. The connection is closed, and on the next one the
 * result is sent again. [Workers] */
static void test_a_result_for_which_there_was_no_memory_is_sent_again(void **state)
{
    struct stage_run run;
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule("f");
    run = stage.workers[0].runs[0];
    stage.failing.fail_at = stage.failing.count + 1;
    stage_value(0, 0, "x");
    assert_true(stage.failing.failed);
    assert_false(stage.workers[0].connected);
    stage.workers[0].results = 1;
    stage_hello(0, &run.attempt, 1, NULL, 0);
    assert_true(stage.workers[0].welcome);
    assert_int_equal(stage.workers[0].results, 0);
    stage.workers[0].runs[0] = run;
    stage.workers[0].run_count = 1;
    stage_value(0, 0, "x");
    assert_int_equal(stage_state(number), MST_CLOSURE_VALUE);
    stage_end();
}

/* Of two results one came in before the connection broke. A worker that is back learns which
 * results came in. [A coordinator and its program] */
static void test_a_worker_that_is_back_is_told_which_results_came_in(void **state)
{
    struct mst_closure_options once = {.once = true};
    struct mst_attempt held[2];
    uint64_t second;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 2);
    (void)stage_schedule_with("f", &once);
    second = stage_schedule_with("f", &once);
    held[0] = stage.workers[0].runs[0].attempt;
    held[1] = stage.workers[0].runs[1].attempt;
    stage_value(0, 0, "x");
    stage_gone(0);
    stage.workers[0].turn = 2;
    stage.workers[0].results = 1;
    stage_hello(0, held, 2, NULL, 0);
    assert_int_equal(stage.workers[0].results, 1);
    assert_int_equal(stage.workers[0].cancels, 0);
    assert_int_equal(stage_state(second), MST_CLOSURE_RUNNING);
    stage_value(0, 0, "y");
    assert_int_equal(stage_state(second), MST_CLOSURE_VALUE);
    assert_int_equal(stage_counts().put_back, 0);
    assert_int_equal(stage_counts().late, 0);
    stage_end();
}

static void test_one_that_is_never_heard_again_holds_nothing_up_for_ever(void **state)
{
    struct mst_closure_options once = {.once = true};
    struct mst_attempt held;
    uint64_t number;

    (void)state;
    stage_config.recovery_max_ns = 10 * STAGE_S;
    stage_config.policy = MST_CLUSTER_ISOLATE;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule_with("f", &once);
    held = stage.workers[0].runs[0].attempt;
    stage_gone(0); /* and stays a member */
    stage_pass(9 * STAGE_S);
    assert_int_equal(stage_state(number), MST_CLOSURE_RUNNING);
    stage_pass(2 * STAGE_S);
    assert_int_equal(stage_origin(number), MST_ORIGIN_LOST);
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_GIVEN_UP], 1);
    stage_hello(0, &held, 1, NULL, 0);
    assert_int_equal(stage.workers[0].cancels, 1); /* what it still runs is wanted no more */
    (void)stage_schedule("f");
    assert_int_equal(stage.workers[0].run_count, 2);
    stage_end();
}

static void test_a_fate_that_nobody_learns_is_not_waited_for_for_ever(void **state)
{
    uint64_t number;

    (void)state;
    stage_config.recovery_max_ns = 10 * STAGE_S;
    assert_true(stage_begin());
    for (uint32_t i = 0; i < 4; i++) {
        stage_join(i, 1);
    }
    number = stage_schedule("f");
    for (uint32_t i = 0; i < 3; i++) { /* each went silent in it, and stays a member */
        stage_gone(i);
        stage_pass(3 * STAGE_S);
    }
    assert_int_equal(stage_state(number), MST_CLOSURE_QUEUED);
    stage_pass(10 * STAGE_S);
    assert_int_equal(stage.workers[3].runs[0].attempt.closure, number);
    stage_end();
}

static void test_what_was_asked_back_is_asked_again_after_a_break(void **state)
{
    struct mst_attempt held[2];

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    (void)stage_schedule("f");
    (void)stage_schedule("f");
    stage_join(1, 1);
    stage_pass(10 * STAGE_MS);
    assert_true(stage.workers[0].runs[1].recalled);
    for (uint32_t i = 0; i < 2; i++) {
        held[i] = stage.workers[0].runs[i].attempt;
        stage.workers[0].runs[i].recalled = false; /* it never heard of it */
    }
    stage_gone(0);
    stage_hello(0, held, 2, NULL, 0);
    assert_false(stage.workers[0].runs[0].recalled);
    assert_true(stage.workers[0].runs[1].recalled);
    stage_fail(0, 1, MST_ORIGIN_RETURNED, 0);
    assert_int_equal(stage.workers[1].run_count, 1); /* at once */
    stage_end();
}

static void test_a_worker_that_leaves_is_nobodys_fault(void **state)
{
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    number = stage_schedule("f");
    for (uint32_t i = 0; i < 5; i++) {
        stage_join(i, 1);
        assert_int_equal(stage.workers[i].run_count, 1);
        stage_member(i, MST_WORKER_LEFT);
    }
    assert_int_equal(stage_state(number), MST_CLOSURE_QUEUED);
    stage_end();
}

/* A result lies in the socket when its worker is declared lost. It is committed once, whichever
 * way the two events fall; under random faults each closure ends once. */
static void test_a_result_on_its_way_when_its_worker_is_lost_is_one_commit_at_most_56(void **state)
{
    (void)state;
    for (unsigned order = 0; order < 6; order++) {
        struct mst_cluster_message result = {.type = MST_CLUSTER_RESULT, .series = 1};
        uint64_t connection, number;

        assert_true(stage_begin());
        stage_join(0, 1);
        stage_join(1, 1);
        number = stage_schedule("f");
        result.attempt = stage.workers[0].runs[0].attempt;
        connection = stage.workers[0].connection;
        for (unsigned step = 0; step < 3; step++) { /* all orders of three events */
            static const unsigned orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                                  {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

            if (orders[order][step] == 0) {
                mst_cluster_message(stage.cluster, stage.now_ns, connection, &result);
                stage_settle();
            } else if (orders[order][step] == 1) {
                mst_cluster_gone(stage.cluster, stage.now_ns, connection);
                stage_settle();
            } else {
                stage_member(0, MST_WORKER_LOST);
            }
        }
        stage_all(1);
        assert_int_equal(stage_state(number), MST_CLOSURE_VALUE);
        assert_int_equal(stage_counts().values, 1);
        stage_end();
    }
}

/* A worker is drained under load, by the coordinator or by SIGTERM. What it runs ends there,
 * what it has not begun runs elsewhere, nothing runs twice, and it leaves. */
static void test_a_drained_worker_ends_what_it_runs_and_gives_back_the_rest_59(void **state)
{
    struct mst_cluster_message draining = {.type = MST_CLUSTER_DRAINING};
    uint64_t first, second;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    first = stage_schedule("f");
    second = stage_schedule("f");
    assert_int_equal(stage.workers[0].run_count, 2);
    mst_cluster_drain_worker(stage.cluster, stage.now_ns, 0);
    stage_settle();
    assert_true(stage.workers[0].draining);
    stage_say(0, &draining);
    stage_fail(0, 1, MST_ORIGIN_RETURNED, 0);
    assert_int_equal(stage_state(second), MST_CLOSURE_QUEUED);
    stage_join(1, 1);
    assert_int_equal(stage.workers[1].runs[0].attempt.closure, second);
    stage_value(0, 0, "");
    stage_gone(0);
    stage_member(0, MST_WORKER_LEFT);
    assert_true(stage.lines[MST_CLUSTER_LINE_DRAINED] > 0);
    stage_all(1);
    assert_int_equal(stage_state(first), MST_CLOSURE_VALUE);
    assert_int_equal(stage.workers[0].ran + stage.workers[1].ran, 3);
    assert_int_equal(stage_counts().late, 0);
    stage_end();
}

/* A third worker joins while two are busy. It has work within 200 ms, and its own entry of each
 * value. */
static void test_one_that_joins_later_gets_work_at_once_60(void **state)
{
    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    stage_join(1, 1);
    for (unsigned i = 0; i < 20; i++) {
        (void)stage_schedule("f");
    }
    stage_join(2, 1);
    assert_int_equal(stage.workers[2].number, 2);
    assert_int_equal(stage.workers[2].run_count, 2);
    stage_all(20);
    assert_int_equal(stage_counts().values, 20);
    stage_end();
}

static void test_a_member_that_is_no_worker_has_no_number_and_does_not_count(void **state)
{
    struct mst_cluster_worker look;

    (void)state;
    stage_config.recovery_max_ns = 5 * STAGE_S;
    assert_true(stage_begin());
    stage.workers[0].incarnation = 1;
    stage_member(0, MST_WORKER_PRESENT);
    assert_int_equal(stage_counts().workers, 0);
    stage_join(1, 1);
    assert_int_equal(stage.workers[1].number, 0);
    assert_int_equal(stage_counts().workers, 1);
    assert_true(mst_cluster_worker_at(stage.cluster, stage.now_ns, 0, &look));
    assert_int_equal(look.index, 1);
    stage_member(0, MST_WORKER_LOST);
    stage_pass(10 * STAGE_S);
    assert_int_equal(stage.lines[MST_CLUSTER_LINE_LOST] + stage.lines[MST_CLUSTER_LINE_GIVEN_UP],
                     0);
    stage_end();
}

static void test_a_number_stays_with_its_place(void **state)
{
    (void)state;
    assert_true(stage_begin());
    stage_join(5, 1);
    stage_join(2, 1);
    assert_int_equal(stage.workers[5].number, 0);
    assert_int_equal(stage.workers[2].number, 1);
    stage_die(5);
    stage_join(3, 1);
    stage_revive(5);
    assert_int_equal(stage.workers[5].number, 0);
    assert_int_equal(stage.workers[3].number, 2);
    stage_end();
}

/* ---- liars ---- */

static void test_what_no_worker_says_costs_it_its_connection(void **state)
{
    static const enum mst_cluster_message_type types[] = {
        MST_CLUSTER_HELLO, MST_CLUSTER_WELCOME, MST_CLUSTER_REFUSED,
        MST_CLUSTER_RUN,   MST_CLUSTER_CANCEL,  MST_CLUSTER_TAKE_BACK,
        MST_CLUSTER_BUILD, MST_CLUSTER_DROP,    MST_CLUSTER_DRAIN};

    (void)state;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct mst_cluster_message message = {.type = types[i]};

        assert_true(stage_begin());
        stage_join(0, 1);
        (void)stage_schedule("f");
        stage_say(0, &message);
        assert_false(stage.workers[0].connected);
        assert_int_equal(stage_counts().lies, 1);
        stage_end();
    }
}

static muster_status refusal_of(const struct mst_cluster_message *hello)
{
    stage.workers[0].connection = ++stage.connections;
    stage.workers[0].connected = true;
    stage.workers[0].refusal = MUSTER_OK;
    stage_say(0, hello);
    return stage.workers[0].refusal;
}

static void test_a_hello_that_does_not_fit_is_refused_with_the_reason(void **state)
{
    struct mst_cluster_message hello = {.type = MST_CLUSTER_HELLO,
                                        .version = MST_CLUSTER_VERSION,
                                        .cluster = mst_slice_text("jobs"),
                                        .incarnation = 4,
                                        .slots = 1};
    struct mst_cluster_message bad = {.type = MST_CLUSTER_RESULT};

    (void)state;
    assert_true(stage_begin());
    stage.workers[0].incarnation = 5;
    stage_member(0, MST_WORKER_PRESENT);
    assert_int_equal(refusal_of(&bad), MUSTER_EPROTO);
    assert_int_equal(refusal_of(&hello), MUSTER_EFENCED);
    hello.incarnation = 5;
    hello.version++;
    assert_int_equal(refusal_of(&hello), MUSTER_EPROTO);
    hello.version--;
    hello.slots = 0;
    assert_int_equal(refusal_of(&hello), MUSTER_EINVAL);
    hello.slots = UINT32_MAX;
    assert_int_equal(refusal_of(&hello), MUSTER_EINVAL);
    hello.slots = 1;
    hello.cluster = mst_slice_text("other");
    assert_int_equal(refusal_of(&hello), MUSTER_EINVAL);
    hello.cluster = mst_slice_text("jobs");
    hello.term = 8;
    assert_int_equal(refusal_of(&hello), MUSTER_ESTALE);
    hello.term = 7;
    assert_int_equal(refusal_of(&hello), MUSTER_OK);
    assert_true(stage.workers[0].welcome);
    stage_end();
}

static void random_message(struct mst_prng *prng, struct mst_cluster_message *message,
                           struct mst_failure *cause)
{
    *cause = (struct mst_failure){.origin = (enum mst_origin)mst_prng_below(prng, 20),
                                  .text = mst_slice_text("a cause")};
    *message = (struct mst_cluster_message){
        .type = (enum mst_cluster_message_type)(2 + mst_prng_below(prng, 5)),
        .attempt = {.closure = mst_prng_below(prng, 60),
                    .attempt = (uint32_t)mst_prng_below(prng, 4)},
        .series = mst_prng_below(prng, 3),
        .run_ns = mst_prng_next(prng),
        .value = mst_prng_below(prng, 4),
        .fraction = -1e300,
        .text = mst_slice_text("so it is"),
        .failure = {.origin = (enum mst_origin)mst_prng_below(prng, 20),
                    .text = mst_slice_text("any"),
                    .state = mst_slice_text(mst_prng_below(prng, 2) == 0 ? "ps" : "none"),
                    .cause = mst_prng_below(prng, 2) == 0 ? cause : NULL}};
}

/* A worker reports what is not true. Only the closures that it was given suffer: every one ends
 * all the same, once, and every invariant of the coordinator holds. [Workers] */
static void test_a_liar_harms_only_what_it_was_given(void **state)
{
    struct mst_prng prng = {.state = 5};
    struct mst_cluster_message message;
    struct mst_failure cause;

    (void)state;
    for (unsigned round = 0; round < 200; round++) {
        uint64_t value;

        stage_config.policy = MST_CLUSTER_ISOLATE;
        assert_true(stage_begin());
        assert_int_equal(mst_cluster_state_server(stage.cluster, mst_slice_text("ps")), MUSTER_OK);
        stage_join(0, 2);
        stage_join(1, 1);
        (void)mst_cluster_value_new(stage.cluster, stage.now_ns, mst_slice_text("g"), 0,
                                    &(struct mst_parts){0}, false, &value);
        for (unsigned i = 0; i < 40; i++) {
            (void)stage_schedule("f");
        }
        for (unsigned i = 0; i < 60; i++) {
            random_message(&prng, &message, &cause);
            if (!stage.workers[0].connected) {
                stage_hello(0, NULL, 0, &value, 1);
            }
            stage_say(0, &message);
            stage_pass(mst_prng_below(&prng, 2 * STAGE_S));
        }
        stage_die(0);
        for (unsigned i = 0; i < 100 && stage_joined() == MUSTER_MORE; i++) {
            stage_all(1);
            stage_pass(60 * STAGE_S);
        }
        assert_int_equal(stage_joined(), MUSTER_OK);
        stage_end();
    }
}

/* ---- memory ---- */

/* Whoever was hung up on connects again; each ends one. */
static void work_on(void)
{
    for (uint32_t i = 0; i < 3; i++) {
        if (!stage.workers[i].connected) {
            stage.workers[i].run_count = 0;
            stage.workers[i].incarnation++;
            stage_member(i, MST_WORKER_PRESENT);
            stage_hello(i, NULL, 0, NULL, 0);
        }
        if (stage.workers[i].connected && stage.workers[i].run_count > 0) {
            stage_value(i, 0, "value");
        }
    }
    stage_pass(STAGE_S);
}

static void a_life(void)
{
    struct mst_closure_options options = {.error_retries = 1, .key = mst_slice_text("key")};
    struct mst_cluster_message progress = {
        .type = MST_CLUSTER_PROGRESS, .fraction = 0.5, .text = mst_slice_text("half")};
    uint64_t number, value;

    (void)mst_cluster_state_server(stage.cluster, mst_slice_text("ps"));
    for (uint32_t i = 0; i < 3; i++) {
        stage_join(i, 2);
    }
    (void)mst_cluster_value_new(stage.cluster, stage.now_ns, mst_slice_text("g"), 0,
                                &(struct mst_parts){0}, false, &value);
    stage_settle();
    for (unsigned i = 0; i < 12; i++) {
        (void)stage_try("f", &options, &number);
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (stage.workers[i].connected && stage.workers[i].run_count > 1) {
            progress.attempt = stage.workers[i].runs[0].attempt;
            progress.series = 1;
            stage_say(i, &progress);
            stage_value(i, 0, "value");
        }
        if (stage.workers[i].connected && stage.workers[i].run_count > 0) {
            stage_fail(i, 0, MST_ORIGIN_RETRYABLE, 1);
        }
        if (stage.workers[i].connected) {
            stage_built(i, 1, i == 1 ? MST_ORIGIN_FUNCTION : MST_ORIGIN_NONE);
        }
    }
    stage_die(0);
    for (unsigned round = 0; round < 40 && stage_joined() == MUSTER_MORE; round++) {
        work_on();
    }
    if (stage_joined() == MUSTER_EFAILED) {
        (void)stage_deliver(&told);
    }
    assert_int_equal(stage_joined(), MUSTER_OK);
}

static void test_without_memory_nothing_is_lost(void **state)
{
    bool failed = true;

    (void)state;
    for (size_t fail_at = 1; failed; fail_at++) {
        assert_true(fail_at < 1000);
        stage.failing.fail_at = fail_at;
        if (stage_begin()) {
            a_life();
        }
        failed = stage.failing.failed;
        stage_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_takes_over_without_waiting_42),
        cmocka_unit_test(test_two_are_lost_and_both_come_back_43),
        cmocka_unit_test(test_a_fast_restart_is_seen_by_its_incarnation_48),
        cmocka_unit_test(test_a_woken_worker_is_told_that_it_was_given_up_49),
        cmocka_unit_test(test_a_healed_connection_keeps_what_the_worker_still_runs_51),
        cmocka_unit_test(test_after_a_longer_cut_nothing_is_committed_twice_51),
        cmocka_unit_test(test_an_attempt_that_is_over_counts_no_more_also_from_the_same_worker),
        cmocka_unit_test(test_another_workers_attempt_cannot_be_answered),
        cmocka_unit_test(test_an_idempotent_one_runs_elsewhere_at_once_when_its_worker_is_silent),
        cmocka_unit_test(test_what_must_run_once_is_lost_with_its_worker_and_never_prefetched),
        cmocka_unit_test(test_what_did_not_come_to_its_worker_runs_again_also_once),
        cmocka_unit_test(test_a_connection_that_is_read_after_a_later_one_is_over),
        cmocka_unit_test(test_a_stranger_in_its_place_does_not_lock_a_worker_out),
        cmocka_unit_test(test_a_result_for_which_there_was_no_memory_is_sent_again),
        cmocka_unit_test(test_a_worker_that_is_back_is_told_which_results_came_in),
        cmocka_unit_test(test_all_workers_are_gone_and_a_join_waits_or_ends_52),
        cmocka_unit_test(test_one_stays_away_and_another_comes_back_53),
        cmocka_unit_test(test_one_that_is_never_heard_again_holds_nothing_up_for_ever),
        cmocka_unit_test(test_a_fate_that_nobody_learns_is_not_waited_for_for_ever),
        cmocka_unit_test(test_what_was_asked_back_is_asked_again_after_a_break),
        cmocka_unit_test(test_a_worker_that_leaves_is_nobodys_fault),
        cmocka_unit_test(test_a_result_on_its_way_when_its_worker_is_lost_is_one_commit_at_most_56),
        cmocka_unit_test(test_a_drained_worker_ends_what_it_runs_and_gives_back_the_rest_59),
        cmocka_unit_test(test_one_that_joins_later_gets_work_at_once_60),
        cmocka_unit_test(test_a_member_that_is_no_worker_has_no_number_and_does_not_count),
        cmocka_unit_test(test_a_number_stays_with_its_place),
        cmocka_unit_test(test_what_no_worker_says_costs_it_its_connection),
        cmocka_unit_test(test_a_hello_that_does_not_fit_is_refused_with_the_reason),
        cmocka_unit_test(test_a_liar_harms_only_what_it_was_given),
        cmocka_unit_test(test_without_memory_nothing_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
