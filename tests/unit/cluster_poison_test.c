/* SPDX-License-Identifier: Apache-2.0 */
/* Closures that cost their workers, and those that ran beside them.
 *
 * behaviour: cluster / Workers */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster_stage.h"

static void test_who_is_to_run_alone_takes_the_first_empty_worker(void **state)
{
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    (void)stage_schedule("f");
    (void)stage_schedule("f"); /* both with worker 0, which never ends the second one */
    stage_join(1, 1);
    number = stage_schedule("f");
    stage_die(1);
    stage_revive(1);
    stage_die(1); /* it cost two: the next time alone */
    stage_value(0, 0, "");
    assert_int_equal(stage_state(number), MST_CLOSURE_QUEUED);
    stage_revive(1);
    assert_int_equal(stage.workers[1].runs[0].attempt.closure, number);
    stage_value(1, 0, "");
    assert_int_equal(stage_state(number), MST_CLOSURE_VALUE);
    (void)stage_schedule("f");
    (void)stage_schedule("f");
    (void)stage_schedule("f");
    assert_int_equal(stage.workers[0].run_count, 2); /* nobody has it for himself any more */
    stage_end();
}

/* A closure must run alone, and no worker is empty. It reserves one and keeps it: only the others
 * get more to run, until that one is empty. */
static void test_one_that_runs_alone_keeps_the_worker_that_it_reserved(void **state)
{
    uint64_t number;

    (void)state;
    stage_config.poison = 2;
    assert_true(stage_begin());
    stage_join(2, 1);
    number = stage_schedule("f");
    stage_join(0, 2);
    stage_join(1, 2);
    (void)stage_schedule("f");
    (void)stage_schedule("f"); /* one with each of 0 and 1 */
    assert_int_equal(stage.workers[0].run_count, 1);
    assert_int_equal(stage.workers[1].run_count, 1);
    stage_die(2); /* it cost one of two: the next time alone, with 0 */
    (void)stage_schedule("f");
    assert_int_equal(stage.workers[1].run_count, 2);
    stage_value(1, 0, "");
    (void)stage_schedule("f");
    assert_int_equal(stage.workers[1].run_count, 2);
    stage_value(0, 0, "");
    assert_int_equal(stage.workers[0].run_count, 1);
    assert_int_equal(stage.workers[0].runs[0].attempt.closure, number);
    stage_end();
}

static void test_who_is_to_run_alone_waits_no_longer_for_a_function_that_is_gone(void **state)
{
    static const struct mst_function only_g = {.name = {"g", 1}, .version = 1};
    struct mst_cluster_message hello = {.type = MST_CLUSTER_HELLO,
                                        .version = MST_CLUSTER_VERSION,
                                        .cluster = {"jobs", 4},
                                        .index = 5,
                                        .incarnation = 1,
                                        .slots = 1,
                                        .functions = &only_g,
                                        .function_count = 1};
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule("f");
    stage_die(0);
    stage_revive(0);
    stage_die(0); /* it cost two: the next time alone */
    stage.workers[5] =
        (struct stage_worker){.connected = true, .connection = 999, .incarnation = 1, .slots = 1};
    stage_member(5, MST_WORKER_PRESENT);
    mst_cluster_message(stage.cluster, stage.now_ns, 999, &hello);
    stage_settle();
    assert_true(stage.workers[5].welcome);
    stage_pass(29 * STAGE_S);
    assert_int_equal(stage_state(number), MST_CLOSURE_QUEUED);
    stage_pass(2 * STAGE_S);
    assert_int_equal(stage_origin(number), MST_ORIGIN_UNKNOWN);
    stage_end();
}

/* The workers die of closure `poison`, and run all others. Returns how many died. */
static unsigned play_poison(uint64_t poison, uint32_t workers)
{
    unsigned deaths = 0;

    for (unsigned round = 0; round < 2000 && stage_joined() == MUSTER_MORE; round++) {
        for (uint32_t i = 0; i < workers; i++) {
            struct stage_worker *worker = &stage.workers[i];
            bool dies = false;

            for (uint32_t k = 0; k < worker->run_count && k < worker->slots; k++) {
                dies = dies || worker->runs[k].attempt.closure == poison;
            }
            if (dies) {
                deaths++;
                stage_die(i);
                stage_revive(i);
            } else if (worker->run_count > 0) {
                stage_value(i, 0, "");
            }
        }
    }
    return deaths;
}

/* A closure kills every worker that runs it; 100 others do not; workers are replaced. It fails
 * with POISON after the third, the 100 succeed, and no fourth worker dies. [cluster] */
static void test_a_closure_that_kills_three_workers_is_poison_54(void **state)
{
    uint64_t poison;

    (void)state;
    stage_config.policy = MST_CLUSTER_COLLECT;
    assert_true(stage_begin());
    for (uint32_t i = 0; i < 4; i++) {
        stage_join(i, 1);
    }
    for (unsigned i = 0; i < 50; i++) {
        (void)stage_schedule("f");
    }
    poison = stage_schedule("g");
    for (unsigned i = 0; i < 50; i++) {
        (void)stage_schedule("f");
    }
    assert_int_equal(play_poison(poison, 4), 3);
    assert_int_equal(stage_origin(poison), MST_ORIGIN_POISON);
    stage_told(poison,
               "'g' cost 3 processes in 3 attempts and is not run again: mend it, or raise "
               "MUSTER_CLUSTER_POISON: worker 2 (#2, node node) was killed by signal 9, worker 2 "
               "(#2, node node) was killed by signal 9, worker 2 (#2, node node) was killed by "
               "signal 9");
    assert_int_equal(stage_counts().values, 100);
    stage_end();
}

static void crash(int32_t code)
{
    stage_fail(0, 0, MST_ORIGIN_CRASH, code);
    stage_pass(100 * STAGE_S); /* longer than any pause between two attempts */
}

/* A closure kills many children, and not their workers. POISON has a line for each child up to a
 * number. */
static void test_poison_tells_of_each_child_that_it_cost(void **state)
{
    struct mst_closure_options options = {.crash_retries = 100};
    uint64_t poison;

    (void)state;
    stage_config.poison = 10;
    assert_true(stage_begin());
    stage_join(0, 1);
    poison = stage_schedule_with("f", &options);
    for (unsigned i = 0; i < 9; i++) {
        crash(i == 0 ? 3 : -11);
    }
    assert_int_equal(stage_state(poison), MST_CLOSURE_RUNNING);
    crash(-9);
    assert_int_equal(stage_origin(poison), MST_ORIGIN_POISON);
    stage_told(poison,
               "'f' cost 10 processes in 10 attempts and is not run again: mend it, or "
               "raise MUSTER_CLUSTER_POISON: a child of worker 0 (#0, node node) ended "
               "with status 3, a child of worker 0 (#0, node node) was killed by signal 11");
    stage_told(poison, "was killed by signal 11 and 2 more");
    stage_end();
}

/* Three closures run beside one that kills its worker of four slots. The three are not blamed:
 * they run again, alone before any is judged. [cluster] */
static void test_those_that_ran_beside_it_are_not_blamed_55(void **state)
{
    uint64_t poison;

    (void)state;
    stage_config.policy = MST_CLUSTER_COLLECT;
    assert_true(stage_begin());
    stage_join(0, 4);
    (void)stage_schedule("f");
    poison = stage_schedule("f");
    (void)stage_schedule("f");
    (void)stage_schedule("f");
    (void)stage_schedule("f");
    assert_int_equal(play_poison(poison, 1), 3);
    assert_int_equal(stage_origin(poison), MST_ORIGIN_POISON);
    assert_int_equal(stage_counts().values, 4);
    assert_int_equal(stage_counts().failures, 1);
    stage_end();
}

static void test_one_that_may_be_poison_waits_until_that_is_known(void **state)
{
    uint64_t number;
    struct mst_attempt held;

    (void)state;
    assert_true(stage_begin());
    for (uint32_t i = 0; i < 4; i++) {
        stage_join(i, 1);
    }
    number = stage_schedule("f");
    for (uint32_t i = 0; i < 3; i++) { /* each only went silent */
        assert_int_equal(stage.workers[i].runs[0].attempt.closure, number);
        held = stage.workers[i].runs[0].attempt;
        stage_gone(i);
        stage_pass(3 * STAGE_S);
    }
    assert_int_equal(stage.workers[3].ran, 0);
    assert_int_equal(stage_state(number), MST_CLOSURE_QUEUED);
    stage_hello(2, &held, 1, NULL, 0); /* one is back: it did not die of it */
    assert_int_equal(stage_state(number), MST_CLOSURE_RUNNING);
    stage_die(0);
    stage_die(1);
    assert_int_equal(stage_state(number), MST_CLOSURE_RUNNING);
    stage_die(3);
    stage_pass(STAGE_S);
    assert_int_equal(stage_origin(number), MST_ORIGIN_POISON);
    stage_end();
}

/* How a worker ended, and whether what it ran may have been why. */
static const struct {
    struct mst_worker_end end;
    bool blames;
} ends[] = {
    {{MST_CAUSE_NONE, 0}, true}, /* replaced, and nobody saw how it ended */
    {{MST_CAUSE_EXIT, 0}, true},
    {{MST_CAUSE_EXIT, 1}, true},
    {{MST_CAUSE_EXIT, MST_CLUSTER_EXIT_STUCK}, true}, /* of its own, if nothing was to stop */
    {{MST_CAUSE_SIGNAL, 9}, true},
    {{MST_CAUSE_SIGNAL, 11}, true},
    {{MST_CAUSE_GONE, 0}, true},
    {{MST_CAUSE_LEASE, 0}, false}, /* its machine was lost, cut off or frozen */
    {{MST_CAUSE_HARD_TIMEOUT, 9}, true},
};

enum { ENDS = sizeof(ends) / sizeof(ends[0]), TURNS = 12 };

/* What comes of a closure beside which so many workers end like this, one after the other. */
static enum mst_origin end_workers(uint64_t number, struct mst_worker_end end)
{
    for (unsigned turn = 0; turn < TURNS && stage_state(number) == MST_CLOSURE_RUNNING; turn++) {
        stage_lose(0, end);
        stage_revive(0);
    }
    return stage_origin(number);
}

/* A long closure loses one worker after the other: to machines that vanish, to drains that end
 * with a kill, to a neighbour that would not stop. It is blamed for none of them and runs again;
 * it is blamed for the end of a process. */
static void test_a_closure_is_blamed_for_the_end_of_a_process_and_not_of_a_machine(void **state)
{
    (void)state;
    for (size_t i = 0; i < ENDS; i++) {
        uint64_t number;
        enum mst_origin origin;

        assert_true(stage_begin());
        stage_join(0, 1);
        number = stage_schedule("f");
        origin = end_workers(number, ends[i].end);
        assert_int_equal(origin, ends[i].blames ? MST_ORIGIN_POISON : MST_ORIGIN_NONE);
        stage_end();
    }
}

/* Its place is taken before it is known to be lost: the next one there comes with the end of the
 * last. `skipped`: another one was there in between; `gone`: the next one is lost already. */
static enum mst_origin replace_workers(struct mst_worker_end end, bool skipped, bool gone)
{
    enum mst_origin origin;
    uint64_t number;

    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule("f");
    for (unsigned turn = 0; turn < TURNS && stage_state(number) == MST_CLOSURE_RUNNING; turn++) {
        stage.workers[0].incarnation += 1 + skipped;
        stage_lose_as(0, gone ? MST_WORKER_LOST : MST_WORKER_PRESENT, end);
        stage.workers[0].incarnation += gone;
        stage_member(0, MST_WORKER_PRESENT);
        stage_hello(0, NULL, 0, NULL, 0);
    }
    origin = stage_origin(number);
    stage_end();
    return origin;
}

/* A worker is replaced at once after its end. How it ended decides which closure is blamed. */
static void test_a_worker_that_was_replaced_at_once_blames_by_its_own_end(void **state)
{
    struct mst_worker_end lease = {.cause = MST_CAUSE_LEASE};
    struct mst_worker_end left = {.cause = MST_CAUSE_LEFT};

    (void)state;
    for (size_t i = 0; i < ENDS; i++) {
        assert_int_equal(replace_workers(ends[i].end, false, false),
                         ends[i].blames ? MST_ORIGIN_POISON : MST_ORIGIN_NONE);
    }
    assert_int_equal(replace_workers(left, false, false), MST_ORIGIN_NONE);
    assert_int_equal(replace_workers(lease, true, false),
                     MST_ORIGIN_POISON); /* another one's end */
    assert_int_equal(replace_workers(lease, false, true), MST_ORIGIN_POISON);
}

/* A worker falls silent, its connection broken as with a machine, and its lease ends. No closure
 * is blamed. */
static void test_a_silent_worker_whose_lease_ends_blames_nobody(void **state)
{
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule("f");
    for (unsigned turn = 0; turn < TURNS; turn++) {
        assert_int_equal(stage_state(number), MST_CLOSURE_RUNNING);
        stage_gone(0);
        stage_pass(3 * STAGE_S);
        stage_lose(0, (struct mst_worker_end){.cause = MST_CAUSE_LEASE});
        stage_revive(0);
    }
    stage_value(0, 0, "");
    assert_int_equal(stage_state(number), MST_CLOSURE_VALUE);
    stage_end();
}

/* A worker of a machine that is taken drains, and is killed in the end. No closure is blamed. */
static void test_a_worker_that_is_killed_while_it_drains_blames_nobody(void **state)
{
    static const struct mst_cluster_message draining = {.type = MST_CLUSTER_DRAINING};
    uint64_t number;

    (void)state;
    assert_true(stage_begin());
    stage_join(0, 1);
    number = stage_schedule("f");
    for (unsigned turn = 0; turn < TURNS; turn++) {
        assert_int_equal(stage_state(number), MST_CLOSURE_RUNNING);
        stage_say(0, &draining);
        stage_die(0);
        stage_revive(0);
    }
    stage_end();
}

/* It beside which a function ignores that it is to stop; `end`: of their worker. */
static enum mst_origin end_beside_a_stubborn_one(struct mst_worker_end end)
{
    uint64_t innocent, stubborn;
    enum mst_origin origin;

    assert_true(stage_begin());
    stage_join(0, 2);
    innocent = stage_schedule("f");
    for (unsigned turn = 0; turn < TURNS && stage_state(innocent) == MST_CLOSURE_RUNNING; turn++) {
        stubborn = stage_schedule("g");
        mst_cluster_cancel(stage.cluster, stage.now_ns, stubborn);
        stage_settle();
        stage_lose(0, end);
        assert_int_equal(stage_origin(stubborn), MST_ORIGIN_CANCELLED);
        stage_revive(0);
    }
    origin = stage_origin(innocent);
    stage_end();
    return origin;
}

/* A worker ended itself because a closure would not stop. Only that closure is blamed. */
static void test_a_worker_that_ended_itself_blames_only_what_did_not_stop(void **state)
{
    struct mst_worker_end stuck = {.cause = MST_CAUSE_EXIT, .code = MST_CLUSTER_EXIT_STUCK};
    struct mst_worker_end crash = {.cause = MST_CAUSE_SIGNAL, .code = 11};

    (void)state;
    assert_int_equal(end_beside_a_stubborn_one(stuck), MST_ORIGIN_NONE);
    assert_int_equal(end_beside_a_stubborn_one((struct mst_worker_end){.cause = MST_CAUSE_GONE}),
                     MST_ORIGIN_NONE);
    assert_int_equal(end_beside_a_stubborn_one(crash), MST_ORIGIN_POISON);
}

/* A worker's limit is over while it is silent, and it ends itself unheard. No closure is blamed. */
static void test_a_worker_that_ended_itself_unheard_blames_nobody(void **state)
{
    struct mst_worker_end stuck = {.cause = MST_CAUSE_EXIT, .code = MST_CLUSTER_EXIT_STUCK};

    (void)state;
    for (unsigned broken = 0; broken < 2; broken++) {
        for (unsigned limited = 0; limited < 2; limited++) {
            struct mst_closure_options options = {.run_ns = limited ? STAGE_S : 0};
            uint64_t innocent;

            stage_config.policy = MST_CLUSTER_ISOLATE;
            assert_true(stage_begin());
            stage_join(0, 2);
            innocent = stage_schedule("f");
            for (unsigned turn = 0; turn < TURNS; turn++) {
                uint64_t number = stage_schedule_with("g", &options);

                if (broken) {
                    stage_gone(0);
                }
                stage_pass(8 * STAGE_S);
                stage_lose(0, stuck);
                mst_cluster_cancel(stage.cluster, stage.now_ns, number);
                stage_revive(0);
            }
            assert_int_equal(stage_origin(innocent), limited ? MST_ORIGIN_NONE : MST_ORIGIN_POISON);
            stage_end();
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_to_run_alone_takes_the_first_empty_worker),
        cmocka_unit_test(test_one_that_runs_alone_keeps_the_worker_that_it_reserved),
        cmocka_unit_test(test_who_is_to_run_alone_waits_no_longer_for_a_function_that_is_gone),
        cmocka_unit_test(test_a_closure_that_kills_three_workers_is_poison_54),
        cmocka_unit_test(test_poison_tells_of_each_child_that_it_cost),
        cmocka_unit_test(test_those_that_ran_beside_it_are_not_blamed_55),
        cmocka_unit_test(test_one_that_may_be_poison_waits_until_that_is_known),
        cmocka_unit_test(test_a_closure_is_blamed_for_the_end_of_a_process_and_not_of_a_machine),
        cmocka_unit_test(test_a_worker_that_was_replaced_at_once_blames_by_its_own_end),
        cmocka_unit_test(test_a_silent_worker_whose_lease_ends_blames_nobody),
        cmocka_unit_test(test_a_worker_that_is_killed_while_it_drains_blames_nobody),
        cmocka_unit_test(test_a_worker_that_ended_itself_blames_only_what_did_not_stop),
        cmocka_unit_test(test_a_worker_that_ended_itself_unheard_blames_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
