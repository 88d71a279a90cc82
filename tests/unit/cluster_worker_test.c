/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's machine, story by story.
 *
 * behaviour: cluster / Workers */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cluster_shell.h"

/* ---- work ---- */

static void it_runs_in_order_in_its_slots(void **state)
{
    (void)state;
    shell_begin(&shell_config);
    assert_int_equal(mst_worker_number(shell.machine), 9);
    for (uint64_t i = 1; i <= 5; i++) {
        shell_run(i);
    }
    assert_int_equal(shell.run[0], 1);
    assert_int_equal(shell.run[1], 2);
    assert_int_equal(shell.starts, 2);
    shell_finish(1);
    shell_result(shell_sent(0), 2, MST_ORIGIN_NONE);
    assert_int_equal(shell_sent(0)->size, 4);
    assert_int_equal(shell.run[1], 3);
    shell_fail(0);
    shell_result(shell_sent(1), 1, MST_ORIGIN_FUNCTION);
    assert_int_equal(shell_sent(1)->code, 3);
    assert_int_equal(shell.run[0], 4);
    shell_close();
}

static void what_was_prefetched_is_given_back(void **state)
{
    (void)state;
    shell_begin(&shell_config);
    for (uint64_t i = 1; i <= 4; i++) {
        shell_run(i);
    }
    shell_tell(MST_CLUSTER_TAKE_BACK, 4, 0);
    shell_result(shell_sent(0), 4, MST_ORIGIN_RETURNED);
    shell_tell(MST_CLUSTER_TAKE_BACK, 1, 0); /* it has begun */
    shell_tell(MST_CLUSTER_TAKE_BACK, 4, 0); /* again */
    shell_tell(MST_CLUSTER_TAKE_BACK, 99, 0);
    assert_int_equal(shell.count, 1);
    shell_finish(0);
    assert_int_equal(shell.run[0], 3);
    shell_finish(0);
    assert_int_equal(shell.run[0], 0);
    shell_close();
}

/* A closure is taken back in the moment in which it begins. It runs where it began, and is
 * committed once. [cluster] */
static void a_run_can_be_taken_back_until_it_is_given_to_a_slot_83(void **state)
{
    struct mst_cluster_message message = shell_run_of(1);
    struct mst_cluster_message back = {.type = MST_CLUSTER_TAKE_BACK, .attempt = message.attempt};

    (void)state;
    shell_begin(&shell_config);
    mst_worker_message(shell.machine, shell.now_ns, &message);
    mst_worker_message(shell.machine, shell.now_ns, &back);
    shell_drain();
    assert_int_equal(shell.starts, 0);
    shell_result(shell_sent(0), 1, MST_ORIGIN_RETURNED);
    shell_close();
}

static void a_cancel_asks_and_then_kills(void **state)
{
    (void)state;
    shell_begin(&shell_config);
    for (uint64_t i = 1; i <= 3; i++) {
        shell_run(i);
    }
    shell_tell(MST_CLUSTER_CANCEL, 3, 0);
    shell_result(shell_sent(0), 3, MST_ORIGIN_CANCELLED); /* never began */
    shell_tell(MST_CLUSTER_CANCEL, 1, 200);
    shell_tell(MST_CLUSTER_CANCEL, 2, 0); /* the worker's own grace */
    assert_true(shell.asked[0] && !shell.killed[0] && shell.asked[1]);
    shell_pass(199);
    assert_false(shell.killed[0]);
    shell_pass(1);
    assert_true(shell.killed[0] && !shell.killed[1]);
    shell_pass(GRACE_MS);
    assert_true(shell.killed[1]);
    assert_int_equal(shell.count, 1);
    shell_fail(0);
    shell_result(shell_sent(1), 1, MST_ORIGIN_CANCELLED);
    shell_finish(1); /* it had a value all the same */
    shell_result(shell_sent(2), 2, MST_ORIGIN_NONE);
    shell_tell(MST_CLUSTER_CANCEL, 2, 0);
    assert_int_equal(shell.count, 3);
    shell_close();
}

static void a_run_has_a_limit_and_a_deadline(void **state)
{
    struct mst_cluster_message first = shell_run_of(1);
    struct mst_cluster_message second = shell_run_of(2);
    struct mst_cluster_message third = shell_run_of(3);

    (void)state;
    shell_begin(&shell_config);
    first.run_limit_ms = 1000;
    first.left_ms = 5000;
    second.left_ms = UINT64_MAX; /* says a lot, means none */
    third.left_ms = 300;
    shell_say(&first);
    shell_say(&second);
    shell_say(&third);
    assert_true(shell.deadline_ns[0] == shell.now_ns + 1000 * MS);
    assert_true(shell.deadline_ns[1] == 0);
    shell_pass(1000);
    assert_true(shell.asked[0] && !shell.killed[0] && !shell.asked[1]);
    shell_fail(0);
    shell_result(shell_sent(0), 1, MST_ORIGIN_DEADLINE);
    shell_result(shell_sent(1), 3, MST_ORIGIN_DEADLINE); /* without ever beginning */
    assert_int_equal(shell.starts, 2);
    shell_pass(100000);
    assert_false(shell.asked[1]);
    shell_close();
}

/* Connected to one that says in its WELCOME how patient it is. */
static void begin_with_grace(uint64_t grace_ms)
{
    shell_begin(&shell_config);
    shell_link_down();
    shell.grace_ms = grace_ms;
    shell_pass(2000);
    shell_link_up(TERM);
    shell.count = 0;
}

static void run_limited(uint64_t closure, uint64_t limit_ms)
{
    struct mst_cluster_message message = shell_run_of(closure);

    message.run_limit_ms = limit_ms;
    shell_say(&message);
}

static void is_overdue(const struct sent *sent, uint64_t closure)
{
    assert_int_equal(sent->type, MST_CLUSTER_PROGRESS);
    assert_true(sent->overdue);
    assert_int_equal(sent->attempt.closure, closure);
    assert_int_equal(sent->series, 2);
}

/* A closure's time is over, and its coordinator knows. The function's process is killed;
 * otherwise its end would be a crash to the coordinator. */
static void one_whose_time_is_over_is_killed_when_its_coordinator_knows(void **state)
{
    (void)state;
    begin_with_grace(3 * (uint64_t)GRACE_MS);
    run_limited(1, 1000);
    shell_pass(999);
    assert_int_equal(shell.count, 0);
    shell_pass(1);
    assert_true(shell.asked[0]);
    is_overdue(shell_sent(0), 1);
    shell_tell(MST_CLUSTER_CANCEL, 1, 3 * (uint64_t)GRACE_MS);
    shell_pass(3 * GRACE_MS - 1); /* the coordinator's patience, which is longer than its own */
    assert_false(shell.killed[0]);
    shell_pass(1);
    assert_true(shell.killed[0]);
    assert_int_equal(shell.count, 1);
    shell_fail(0);
    shell_result(shell_sent(1), 1, MST_ORIGIN_DEADLINE);
    shell_close();
}

/* A function sees that its time is over before its worker has looked at the clock, and fails. It
 * has failed for its deadline, and its coordinator knows before that it is overdue. */
static void one_that_sees_its_time_over_first_fails_for_its_deadline(void **state)
{
    (void)state;
    begin_with_grace(3 * (uint64_t)GRACE_MS);
    run_limited(1, 1000);
    shell.now_ns += 1000 * MS;
    shell_fail(0);
    is_overdue(shell_sent(0), 1);
    shell_result(shell_sent(1), 1, MST_ORIGIN_DEADLINE);
    shell_close();
}

/* A closure's time is over while its coordinator is silent. The function's process is killed all
 * the same. */
static void one_whose_time_is_over_is_killed_also_when_its_coordinator_is_silent(void **state)
{
    (void)state;
    begin_with_grace(GRACE_MS);
    run_limited(1, 1000);
    shell_pass(1000);
    shell_pass(GRACE_MS + MST_WORKER_UNHEARD_MS - 1);
    assert_false(shell.killed[0]);
    shell_pass(1);
    assert_true(shell.killed[0]);
    shell_close();
}

/* A closure's time is over and the connection is a new one. The worker reports on it that the
 * closure is overdue. */
static void it_says_on_a_new_connection_again_what_is_overdue(void **state)
{
    (void)state;
    begin_with_grace(100 * (uint64_t)GRACE_MS);
    run_limited(1, 1000);
    shell_run(2);
    shell_tell(MST_CLUSTER_CANCEL, 2, 300 * (uint64_t)GRACE_MS);
    shell_link_down();
    shell_pass(2000);
    assert_true(shell.asked[0] && shell.asked[1]);
    assert_int_equal(shell.count, 0);
    shell_link_up(TERM);
    assert_int_equal(shell.count, 2);
    assert_int_equal(shell_sent(0)->type, MST_CLUSTER_HELLO);
    is_overdue(shell_sent(1), 1); /* and nothing of the other one, which has its own grace */
    shell_pass(UINT64_C(200) * GRACE_MS);
    assert_true(shell.killed[0] && !shell.killed[1]);
    shell_close();
}

static void a_coordinator_that_names_no_grace_hears_nothing_of_what_is_overdue(void **state)
{
    (void)state;
    begin_with_grace(0);
    run_limited(1, 1000);
    shell_pass(1000);
    assert_true(shell.asked[0]);
    shell_pass(GRACE_MS - 1);
    assert_false(shell.killed[0]);
    shell_pass(1);
    assert_true(shell.killed[0]);
    assert_int_equal(shell.count, 0);
    shell_close();
}

static void a_function_that_bears_no_other_beside_it_is_alone(void **state)
{
    (void)state;
    shell_begin(&shell_config);
    shell_run_with(1, ALONE, NULL);
    shell_run_with(2, ALONE, NULL);
    assert_int_equal(shell.starts, 1);
    shell_finish(0);
    assert_int_equal(shell.run[0], 2);
    shell_run_with(3, CHILD, NULL);
    shell_run_with(4, ALONE, NULL);
    assert_int_equal(shell.run[1], 3);
    shell_finish(1);
    assert_int_equal(shell.starts, 3);
    shell_run_with(5, F, NULL); /* not beyond what is presumed to have begun */
    assert_int_equal(shell.starts, 3);
    shell_finish(0);
    assert_int_equal(shell.run[0], 4);
    assert_int_equal(shell.run[1], 5);
    shell_close();
}

static void progress_and_lines_go_before_the_result(void **state)
{
    (void)state;
    shell_begin(&shell_config);
    shell_run(1);
    mst_worker_progress(shell.machine, shell.now_ns, 0, 0.5, mst_slice_text("half"));
    mst_worker_log(shell.machine, shell.now_ns, 0, mst_slice_text("hello"));
    mst_worker_log(shell.machine, shell.now_ns, 1, mst_slice_text("from an empty slot"));
    shell_finish(0);
    assert_int_equal(shell_sent(0)->type, MST_CLUSTER_PROGRESS);
    assert_int_equal(shell_sent(0)->attempt.closure, 1);
    assert_int_equal(shell_sent(1)->type, MST_CLUSTER_LOG);
    shell_result(shell_sent(2), 1, MST_ORIGIN_NONE);
    assert_int_equal(shell.count, 3);
    shell_close();
}

static void a_result_beyond_the_limit_is_a_failure(void **state)
{
    struct mst_worker_config small = shell_config;

    (void)state;
    small.result_max = 5;
    shell_begin(&small);
    shell_run(1);
    shell_finish_with(0, NULL, "sixsix");
    shell_result(shell_sent(0), 1, MST_ORIGIN_EXHAUSTED);
    shell_run(2);
    shell_finish_with(0, NULL, "five5");
    shell_result(shell_sent(1), 2, MST_ORIGIN_NONE);
    shell_close();
}

/* ---- per-worker values ---- */

static void a_run_waits_for_its_value(void **state)
{
    uint64_t need = 40;

    (void)state;
    shell_begin(&shell_config);
    shell_value(MST_CLUSTER_BUILD, 40, F);
    shell_run_with(1, F, &need);
    shell_run_with(2, F, NULL); /* within the window: passes */
    assert_int_equal(shell.built[0], 40);
    assert_int_equal(shell.run[1], 2);
    shell_built(0, NULL);
    assert_int_equal(shell_sent(0)->type, MST_CLUSTER_BUILT);
    assert_int_equal(shell_sent(0)->value, 40);
    assert_int_equal(shell_sent(0)->size, 5);
    assert_int_equal(shell.run[0], 1);
    shell_value(MST_CLUSTER_DROP, 40, 0);
    assert_int_equal(shell.drops, 0); /* it is in use */
    shell_finish(0);
    assert_int_equal(shell.dropped, 40);
    shell_close();
}

/* The function that makes a value fails, with parts of its error. A closure that needs it fails
 * with INPUT, which has the reason as its cause, once, and these parts; one that does not need it
 * succeeds. [cluster] */
static void a_value_that_fails_is_wrapped_once_27(void **state)
{
    uint64_t need = 40;
    uint64_t second = 41;
    struct mst_failure failure = {.origin = MST_ORIGIN_FUNCTION, .code = 7};
    struct mst_failure input = {.origin = MST_ORIGIN_INPUT, .cause = &failure};

    (void)state;
    shell_begin(&shell_config);
    shell_value(MST_CLUSTER_BUILD, 40, F);
    shell_run_with(1, F, &need);
    shell_built(0, &failure);
    assert_int_equal(shell_sent(0)->type, MST_CLUSTER_BUILT);
    assert_int_equal(shell_sent(0)->origin, MST_ORIGIN_FUNCTION);
    assert_int_equal(shell_sent(0)->size, 5);
    shell_result(shell_sent(1), 1, MST_ORIGIN_INPUT);
    assert_int_equal(shell_sent(1)->cause, MST_ORIGIN_FUNCTION);
    assert_int_equal(shell_sent(1)->size, 5);
    shell_run(2); /* which needs it not */
    assert_int_equal(shell.run[0], 2);
    shell_value(MST_CLUSTER_BUILD, 41, F);
    shell_run_with(3, F, &second);
    shell_built(1, &input);
    shell_result(shell_sent(3), 3, MST_ORIGIN_INPUT);
    assert_int_equal(shell_sent(3)->cause, MST_ORIGIN_FUNCTION);
    assert_int_equal(shell_sent(3)->cause_of_cause, MST_ORIGIN_NONE);
    shell_value(MST_CLUSTER_BUILD, 40, F); /* another try */
    assert_int_equal(shell.built[1], 40);
    shell_built(1, NULL);
    shell_run_with(4, F, &need);
    assert_int_equal(shell.run[1], 4);
    shell_close();
}

static void a_value_nobody_built_fails_its_run(void **state)
{
    uint64_t need = 40;

    (void)state;
    shell_begin(&shell_config);
    shell_run_with(1, F, &need);
    shell_result(shell_sent(0), 1, MST_ORIGIN_INPUT);
    assert_int_equal(shell_sent(0)->cause, MST_ORIGIN_INTERNAL);
    shell_value(MST_CLUSTER_BUILD, 40, 99);
    assert_int_equal(shell_sent(1)->origin, MST_ORIGIN_UNKNOWN);
    shell_value(MST_CLUSTER_BUILD, 40, 99);
    assert_int_equal(shell_sent(2)->origin, MST_ORIGIN_UNKNOWN);
    shell_run_with(2, F, &need);
    shell_result(shell_sent(3), 2, MST_ORIGIN_INPUT);
    assert_int_equal(shell_sent(3)->cause, MST_ORIGIN_UNKNOWN);
    shell_value(MST_CLUSTER_DROP, 40, 0);
    assert_int_equal(shell.drops, 0); /* the shell never saw it */
    shell_close();
}

static void a_lost_value_is_built_again(void **state)
{
    uint64_t need = 40;

    (void)state;
    shell_begin(&shell_config);
    shell_value(MST_CLUSTER_BUILD, 40, CHILD);
    shell_built(0, NULL);
    mst_worker_value_lost(shell.machine, shell.now_ns, 40);
    mst_worker_value_lost(shell.machine, shell.now_ns, 41);
    shell_drain();
    assert_int_equal(shell.built[0], 40);
    shell_run_with(1, CHILD, &need);
    assert_int_equal(shell.starts, 0);
    shell_built(0, NULL);
    assert_int_equal(shell.run[0], 1);
    shell_close();
}

/* ---- the coordinator is away ---- */

static void results_wait_for_a_coordinator_that_is_away(void **state)
{
    (void)state;
    shell_begin(&shell_config);
    shell_value(MST_CLUSTER_BUILD, 40, F);
    shell_built(0, NULL);
    for (uint64_t i = 1; i <= 3; i++) {
        shell_run(i);
    }
    shell_link_down();
    mst_worker_log(shell.machine, shell.now_ns, 0, mst_slice_text("to nobody"));
    shell_finish(0);
    assert_int_equal(shell.run[0], 0); /* nothing new begins meanwhile */
    assert_int_equal(shell.run[1], 2);
    shell_pass(100);
    shell.count = 0;
    shell_link_up(TERM);
    assert_int_equal(shell_sent(0)->type, MST_CLUSTER_HELLO);
    assert_int_equal(shell_sent(0)->held, 3);
    assert_int_equal(shell_sent(0)->held_first, 1);
    assert_int_equal(shell_sent(0)->held_last, 3);
    assert_int_equal(shell_sent(0)->values, 1);
    shell_result(shell_sent(1), 1, MST_ORIGIN_NONE);
    assert_int_equal(shell_sent(2)->type, MST_CLUSTER_BUILT); /* it may not have heard of it */
    assert_int_equal(shell_sent(2)->value, 40);
    assert_int_equal(shell.run[0], 3);
    shell_close();
}

/* The connection to a worker breaks while two of four results, or a closure that must not begin
 * twice, are on their way. The results are sent again when the worker is back, and the closure
 * runs then; neither runs a second time, and nothing is LOST. [A coordinator and its program] */
static void a_result_that_did_not_come_in_is_sent_again(void **state)
{
    (void)state;
    shell_begin(&shell_config);
    for (uint64_t i = 1; i <= 5; i++) {
        shell_run(i);
    }
    for (unsigned i = 0; i < 4; i++) {
        shell_finish(i % 2);
    }
    shell_link_down();
    shell_finish(0);
    shell_pass(100);
    shell.count = 0;
    shell.heard = 2;
    shell_link_up(TERM);
    assert_int_equal(shell_sent(0)->type, MST_CLUSTER_HELLO);
    assert_int_equal(shell_sent(0)->results, 1);
    assert_int_equal(shell_sent(0)->held, 5);
    assert_int_equal(shell_sent(0)->held_first, 1);
    shell_result(shell_sent(1), 3, MST_ORIGIN_NONE);
    shell_result(shell_sent(2), 4, MST_ORIGIN_NONE);
    shell_result(shell_sent(3), 5, MST_ORIGIN_NONE);
    assert_int_equal(shell.count, 4);
    shell_link_down();
    shell_pass(100);
    shell.count = 0;
    shell.heard = 5;
    shell_link_up(TERM);
    assert_int_equal(shell_sent(0)->results, 3);
    assert_int_equal(shell_sent(0)->held, 3);
    assert_int_equal(shell.count, 1); /* all are there */
    shell_close();
}

/* Of the results that were sent a number is kept, however many there were. A result that is gone
 * is not said to be here. */
static void the_last_results_that_were_sent_are_kept(void **state)
{
    (void)state;
    shell_begin(&shell_config);
    for (uint64_t i = 1; i <= MST_WORKER_SENT_MAX + 8; i++) {
        shell.count = 0;
        shell_run(i);
        shell_finish(0);
    }
    shell_link_down();
    shell_pass(100);
    shell.count = 0;
    shell.heard = MST_WORKER_SENT_MAX + 7;
    shell_link_up(TERM);
    assert_int_equal(shell_sent(0)->results, 9);
    assert_int_equal(shell_sent(0)->held, MST_WORKER_SENT_MAX);
    assert_int_equal(shell_sent(0)->held_first, 9);
    shell_result(shell_sent(1), MST_WORKER_SENT_MAX + 8, MST_ORIGIN_NONE);
    assert_int_equal(shell.count, 2);
    shell_close();
}

static void the_oldest_results_go_first(void **state)
{
    struct mst_worker_config small = shell_config;

    (void)state;
    small.results_max = sizeof(struct mst_worker_run) + 64;
    shell_begin(&small);
    shell_run(1);
    shell_run(2);
    shell_link_down();
    shell_finish(0);
    shell_finish(1);
    assert_non_null(strstr(shell.line, "results dropped"));
    shell_pass(100);
    shell.count = 0;
    shell_link_up(TERM);
    assert_int_equal(shell_sent(0)->held, 1);
    assert_int_equal(shell_sent(0)->results, 0); /* one is gone that never came in */
    shell_result(shell_sent(1), 2, MST_ORIGIN_NONE);
    shell_close();
}

static void it_connects_again_and_again_ever_later(void **state)
{
    uint64_t before_ns;

    (void)state;
    assert_true(shell_open(&shell_config, 0));
    shell_coordinator(TERM);
    for (unsigned i = 0; i < 8; i++) {
        uint64_t most_ms = i < 4 ? 100U << i : 1000;

        assert_true(shell.connecting);
        shell_link_down();
        assert_false(shell.connecting);
        before_ns = shell.now_ns;
        while (!shell.connecting) {
            shell_pass(1);
        }
        assert_in_range((shell.now_ns - before_ns) / MS, (most_ms > 1000 ? 1000 : most_ms) / 2,
                        (most_ms > 1000 ? 1000 : most_ms) + 1);
    }
    shell_link_up(TERM);
    shell_link_down();
    shell_pass(101); /* from the beginning */
    assert_true(shell.connecting);
    shell_close();
}

static void a_refusal_is_told_and_tried_again(void **state)
{
    struct mst_cluster_message refused = {.type = MST_CLUSTER_REFUSED,
                                          .status = MUSTER_EFENCED,
                                          .term = TERM,
                                          .text = mst_slice_text("you were lost")};

    (void)state;
    assert_true(shell_open(&shell_config, 0));
    shell_coordinator(TERM);
    shell.connecting = false;
    shell.connected = true;
    mst_worker_connected(shell.machine, shell.now_ns);
    shell_drain();
    shell_say(&refused);
    assert_int_equal(shell.hang_ups, 1);
    assert_non_null(strstr(shell.line, "you were lost"));
    shell_pass(1000);
    assert_int_equal(shell.connects, 2);
    shell_close();
}

/* ---- terms ---- */

static void only_the_largest_term_is_obeyed(void **state)
{
    (void)state;
    shell_begin(&shell_config);
    shell_coordinator(TERM - 1);
    shell_coordinator(TERM);
    assert_int_equal(shell.connects, 1);
    assert_true(shell.connected);
    shell_value(MST_CLUSTER_BUILD, 40, F);
    shell_built(0, NULL);
    for (uint64_t i = 1; i <= 4; i++) {
        shell_run(i);
    }
    shell_coordinator(TERM + 2);
    assert_false(shell.connected);
    assert_true(shell.asked[0] && shell.asked[1]);
    assert_int_equal(shell.dropped, 40);
    shell_pass(GRACE_MS - 1);
    assert_false(shell.killed[0]);
    shell_fail(0);
    shell_pass(1);
    assert_true(shell.killed[1]);
    assert_int_equal(shell.connects, 1); /* one of the old still runs */
    shell_coordinator(TERM);             /* no way back */
    shell_pass(10000);
    assert_int_equal(shell.connects, 1);
    shell_fail(1);
    assert_int_equal(shell.connects, 2);
    shell.count = 0;
    shell_link_up(TERM + 2);
    assert_int_equal(shell_sent(0)->held, 0);
    assert_int_equal(shell_sent(0)->values, 0);
    assert_int_equal(shell.count, 1); /* no result of the old */
    shell_run(1);
    assert_int_equal(shell.run[0], 1);
    shell_close();
}

static void when_the_key_is_gone_so_is_its_work(void **state)
{
    (void)state;
    shell_begin(&shell_config);
    shell_value(MST_CLUSTER_BUILD, 40, F);
    shell_run(1);
    shell_run(2);
    shell_coordinator(0);
    assert_false(shell.connected);
    assert_true(shell.asked[0] && shell.asked[1]);
    assert_int_equal(shell.drops, 0); /* it is still being built */
    shell_built(0, NULL);
    assert_int_equal(shell.dropped, 40);
    shell_fail(1);
    shell_pass(100000);
    assert_int_equal(shell.starts, 1);
    assert_int_equal(shell.connects, 1);
    shell_coordinator(TERM + 1);
    assert_int_equal(shell.connects, 2);
    shell_link_up(TERM + 1);
    assert_true(shell.connected);
    shell_close();
}

static void another_term_behind_the_address_is_not_obeyed(void **state)
{
    (void)state;
    assert_true(shell_open(&shell_config, 0));
    shell_coordinator(TERM);
    shell_link_up(TERM + 1);
    assert_int_equal(shell.hang_ups, 1);
    assert_non_null(strstr(shell.line, "the term 6"));
    shell_pass(1000);
    assert_true(shell.connecting);
    shell_coordinator(TERM + 1); /* the news arrives */
    assert_int_equal(shell.hang_ups, 2);
    shell_pass(1000);
    shell_link_up(TERM + 1);
    assert_true(shell.connected);
    shell_close();
}

/* ---- the end ---- */

static void a_drain_ends_what_has_begun(void **state)
{
    struct mst_cluster_message drain_please = {.type = MST_CLUSTER_DRAIN};

    (void)state;
    shell_begin(&shell_config);
    shell_value(MST_CLUSTER_BUILD, 40, F);
    shell_built(0, NULL);
    for (uint64_t i = 1; i <= 4; i++) {
        shell_run(i);
    }
    shell.count = 0;
    shell_say(&drain_please);
    assert_int_equal(shell_sent(0)->type, MST_CLUSTER_DRAINING);
    shell_result(shell_sent(1), 3, MST_ORIGIN_RETURNED);
    shell_result(shell_sent(2), 4, MST_ORIGIN_RETURNED);
    shell_run(5); /* was on its way */
    shell_result(shell_sent(3), 5, MST_ORIGIN_RETURNED);
    assert_false(shell.asked[0] || shell.asked[1]);
    shell_finish(0);
    assert_int_equal(shell.ends, 0);
    shell_finish(1);
    shell_result(shell_sent(5), 2, MST_ORIGIN_NONE);
    assert_int_equal(shell.ends, 1);
    assert_int_equal(shell.end, MUSTER_OK);
    assert_int_equal(shell.dropped, 40);
    assert_false(shell.connected);
    shell_pass(100000);
    assert_int_equal(shell.ends, 1);
    assert_int_equal(shell.connects, 1);
    shell_close();
}

static void a_drained_one_waits_a_little_for_its_coordinator(void **state)
{
    (void)state;
    shell_begin(&shell_config);
    shell_run(1);
    shell_link_down();
    mst_worker_drain(shell.machine, shell.now_ns);
    shell_drain();
    shell_pass(1000);
    shell_link_up(TERM);
    assert_int_equal(shell_sent(1)->type, MST_CLUSTER_DRAINING);
    shell_link_down();
    shell_finish(0);
    shell_pass(1000);
    assert_int_equal(shell.ends, 0);
    shell_pass(2000);
    assert_int_equal(shell.ends, 1);
    shell_close();

    assert_true(shell_open(&shell_config, 0)); /* one that has nothing to hand in ends at once */
    mst_worker_drain(shell.machine, shell.now_ns);
    shell_drain();
    assert_int_equal(shell.ends, 1);
    shell_close();
}

static void who_was_given_up_stops_everything(void **state)
{
    (void)state;
    shell_begin(&shell_config);
    for (uint64_t i = 1; i <= 3; i++) {
        shell_run(i);
    }
    mst_worker_ended(shell.machine, shell.now_ns, MUSTER_EFENCED);
    shell_drain();
    assert_false(shell.connected);
    assert_true(shell.asked[0] && shell.asked[1]);
    shell_finish(0);
    assert_int_equal(shell.ends, 0);
    shell_pass(GRACE_MS);
    assert_true(shell.killed[1]);
    shell_fail(1);
    assert_int_equal(shell.ends, 1);
    assert_int_equal(shell.end, MUSTER_EFENCED);
    assert_int_equal(shell.count, 0); /* nothing was handed in */
    shell_close();
}

/* ---- what should not be ---- */

static void a_coordinator_that_lies_is_hung_up_on(void **state)
{
    static const enum mst_cluster_message_type types[] = {
        MST_CLUSTER_HELLO, MST_CLUSTER_RESULT,   MST_CLUSTER_BUILT,  MST_CLUSTER_PROGRESS,
        MST_CLUSTER_LOG,   MST_CLUSTER_DRAINING, MST_CLUSTER_WELCOME};
    struct mst_cluster_message message;

    (void)state;
    for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        shell_begin(&shell_config);
        message = (struct mst_cluster_message){.type = types[i], .term = TERM};
        shell_say(&message);
        assert_int_equal(shell.hang_ups, 1);
        shell_close();
    }
    shell_begin(&shell_config);
    shell_run(1);
    shell_run(1); /* twice the same attempt */
    assert_int_equal(shell.hang_ups, 1);
    assert_int_equal(shell.run[0], 1); /* its first one goes on */
    shell_close();

    shell_begin(&shell_config);
    shell_run(0);
    assert_int_equal(shell.hang_ups, 1);
    shell_close();

    shell_begin(&shell_config);
    for (uint64_t i = 1; i <= UINT64_C(1) * SLOTS * MST_WORKER_QUEUED_MAX; i++) {
        shell_run(i);
    }
    assert_int_equal(shell.hang_ups, 0);
    shell_run(1000000);
    assert_int_equal(shell.hang_ups, 1);
    shell_close();

    shell_begin(&shell_config);
    shell_run_with(1, 3, NULL);
    shell_result(shell_sent(0), 1, MST_ORIGIN_UNKNOWN);
    assert_int_equal(shell.hang_ups, 0);
    shell_close();

    assert_true(shell_open(&shell_config, 0)); /* before its welcome */
    shell_coordinator(TERM);
    shell.connecting = false;
    shell.connected = true;
    mst_worker_connected(shell.machine, shell.now_ns);
    shell_drain();
    shell_run(1);
    assert_int_equal(shell.hang_ups, 1);
    assert_int_equal(shell.starts, 0);
    shell_close();
}

static void what_comes_too_late_is_not_looked_at(void **state)
{
    (void)state;
    shell_begin(&shell_config);
    shell_link_down();
    shell_run(1);
    mst_worker_connected(shell.machine, shell.now_ns);
    shell_drain();
    shell_link_down();
    assert_int_equal(shell.starts, 0);
    shell_close();
}

static void a_configuration_must_make_sense(void **state)
{
    struct mst_worker_config bad = shell_config;
    struct mst_worker *machine = NULL;
    struct failing_mem mem;

    (void)state;
    failing_mem_init(&mem, 0);
    bad.slots = 0;
    assert_int_equal(mst_worker_new(&machine, 0, &bad, &mem.mem), MUSTER_EINVAL);
    bad = shell_config;
    bad.backoff_ns = 0;
    assert_int_equal(mst_worker_new(&machine, 0, &bad, &mem.mem), MUSTER_EINVAL);
    bad.backoff_ns = bad.backoff_max_ns + 1;
    assert_int_equal(mst_worker_new(&machine, 0, &bad, &mem.mem), MUSTER_EINVAL);
    assert_null(machine);
}

static void a_result_without_memory_is_exhausted(void **state)
{
    (void)state;
    shell_begin(&shell_config);
    shell_run(1);
    shell.failing.fail_at = shell.failing.count + 1;
    shell_finish(0);
    shell_result(shell_sent(0), 1, MST_ORIGIN_EXHAUSTED);
    shell_run(2);
    shell.failing.fail_at = shell.failing.count + 1;
    shell_fail(0); /* keeps whose fault it is */
    shell_result(shell_sent(1), 2, MST_ORIGIN_FUNCTION);
    assert_int_equal(shell_sent(1)->code, 3);
    shell_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_runs_in_order_in_its_slots),
        cmocka_unit_test(what_was_prefetched_is_given_back),
        cmocka_unit_test(a_run_can_be_taken_back_until_it_is_given_to_a_slot_83),
        cmocka_unit_test(a_cancel_asks_and_then_kills),
        cmocka_unit_test(a_run_has_a_limit_and_a_deadline),
        cmocka_unit_test(one_whose_time_is_over_is_killed_when_its_coordinator_knows),
        cmocka_unit_test(one_whose_time_is_over_is_killed_also_when_its_coordinator_is_silent),
        cmocka_unit_test(one_that_sees_its_time_over_first_fails_for_its_deadline),
        cmocka_unit_test(it_says_on_a_new_connection_again_what_is_overdue),
        cmocka_unit_test(a_coordinator_that_names_no_grace_hears_nothing_of_what_is_overdue),
        cmocka_unit_test(a_function_that_bears_no_other_beside_it_is_alone),
        cmocka_unit_test(progress_and_lines_go_before_the_result),
        cmocka_unit_test(a_result_beyond_the_limit_is_a_failure),
        cmocka_unit_test(a_run_waits_for_its_value),
        cmocka_unit_test(a_value_that_fails_is_wrapped_once_27),
        cmocka_unit_test(a_value_nobody_built_fails_its_run),
        cmocka_unit_test(a_lost_value_is_built_again),
        cmocka_unit_test(results_wait_for_a_coordinator_that_is_away),
        cmocka_unit_test(a_result_that_did_not_come_in_is_sent_again),
        cmocka_unit_test(the_last_results_that_were_sent_are_kept),
        cmocka_unit_test(the_oldest_results_go_first),
        cmocka_unit_test(it_connects_again_and_again_ever_later),
        cmocka_unit_test(a_refusal_is_told_and_tried_again),
        cmocka_unit_test(only_the_largest_term_is_obeyed),
        cmocka_unit_test(when_the_key_is_gone_so_is_its_work),
        cmocka_unit_test(another_term_behind_the_address_is_not_obeyed),
        cmocka_unit_test(a_drain_ends_what_has_begun),
        cmocka_unit_test(a_drained_one_waits_a_little_for_its_coordinator),
        cmocka_unit_test(who_was_given_up_stops_everything),
        cmocka_unit_test(a_coordinator_that_lies_is_hung_up_on),
        cmocka_unit_test(what_comes_too_late_is_not_looked_at),
        cmocka_unit_test(a_configuration_must_make_sense),
        cmocka_unit_test(a_result_without_memory_is_exhausted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
