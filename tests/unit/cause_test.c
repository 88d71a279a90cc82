/* SPDX-License-Identifier: Apache-2.0 */
/* What a run says that it ended by, of what the service was told and how its own processes ended.
 *
 * behaviour: run / The first cause */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "launch/cause.h"
#include "launch/job.h"
#include "launch/say.h"

enum { STATUS_1 = 1 << 8, OWN_PID = 4242, OTHER_PID = 77 };

/* A node of several, the only process of which ended with 1, as restarting was given up. */
static void job_init(struct mst_run_job *job, struct mst_run_options *options,
                     struct mst_process *process)
{
    *options = (struct mst_run_options){.nodes_max = 3};
    *process = (struct mst_process){.index = 4,
                                    .rank = 4,
                                    .last = {.pid = OWN_PID, .generation = 2, .runs_failed = 1},
                                    .joined = true,
                                    .end = MST_PROCESS_GONE,
                                    .status = STATUS_1,
                                    .died_ns = 1};
    (void)snprintf(process->last.failure, sizeof process->last.failure,
                   "given up after 1 attempt; the last: rank 4 (#4) failed");
    *job = (struct mst_run_job){.options = options,
                                .places = {.processes = process},
                                .end = {.how = MST_ENDS_FAILED, .at_ns = 2}};
}

static struct mst_fault of_another_node(enum mst_cause kind, int code)
{
    return (struct mst_fault){
        .index = 2, .rank = 2, .kind = kind, .code = code, .pid = OTHER_PID, .generation = 2};
}

static void ends_by(struct mst_run_job *job, const char *expected, int code)
{
    struct mst_first_cause cause;

    mst_cause_find(job, &cause);
    assert_non_null(strstr(cause.text, expected));
    assert_int_equal(mst_cause_code(job), code);
}

/* Restarting is given up, and a rank of another node is ended because of it before it has closed
 * its client. The last line says why it was given up, not that this one was killed, and the exit
 * code is that of the rank that gave up. */
static void who_was_ended_because_it_was_given_up_is_not_the_cause(void **state)
{
    static struct mst_run_job job;
    struct mst_run_options options;
    struct mst_process process;

    (void)state;
    job_init(&job, &options, &process);
    job.faults.first = of_another_node(MST_CAUSE_SIGNAL, SIGTERM);
    ends_by(&job, "gave up: given up after 1 attempt; the last: rank 4 (#4) failed", 1);
    job.faults.first = of_another_node(MST_CAUSE_EXIT, 1);
    ends_by(&job, "gave up: given up after 1 attempt; the last: rank 4 (#4) failed", 1);
}

static void who_was_killed_otherwise_is(void **state)
{
    static struct mst_run_job job;
    struct mst_run_options options;
    struct mst_process process;

    (void)state;
    job_init(&job, &options, &process);
    job.faults.first = of_another_node(MST_CAUSE_SIGNAL, SIGKILL);
    ends_by(&job, "rank 2 (#2, pid 77) on  was killed by signal 9", 128 + SIGKILL);
}

/* A rank was ended at its hard timeout, after another one was suspected in the same generation.
 * Its timeout is the first cause. [restart / Hangs] */
static void of_another_rank_the_hard_timeout_is(void **state)
{
    const struct mst_item soft = {.number = 3,
                                  .who = {.cause = MST_CAUSE_SOFT_TIMEOUT, .index = 1}};
    const struct {
        struct mst_item item;
        bool better;
    } others[] = {
        {{.number = 3, .who = {.cause = MST_CAUSE_HARD_TIMEOUT, .index = 2}}, true},
        {{.number = 3, .who = {.cause = MST_CAUSE_HARD_TIMEOUT, .index = 1}}, false},
        {{.number = 2, .who = {.cause = MST_CAUSE_HARD_TIMEOUT, .index = 2}}, false},
        {{.number = 3, .who = {.cause = MST_CAUSE_SIGNAL, .index = 2}}, false},
        {{.number = 4, .who = {.cause = MST_CAUSE_SIGNAL, .index = 2}}, true},
    };

    (void)state;
    assert_true(mst_faults_better(&soft, NULL));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(mst_faults_better(&others[i].item, &soft), others[i].better);
    }
    assert_false(mst_faults_better(&others[0].item, &others[3].item));
}

/* A rank passed on a status of a peer, and something befell another in the same generation. The
 * latter is the first cause, whichever was reported first. [restart / Fewer, and the end] */
static void what_befell_a_peer_goes_before_what_is_passed_on(void **state)
{
    const struct mst_item passed_on = {
        .number = 3, .who = {.cause = MST_CAUSE_FAULT, .code = MUSTER_ELOST, .index = 1}};
    const struct {
        struct mst_item item;
        bool better;
    } others[] = {
        {{.number = 3, .who = {.cause = MST_CAUSE_SIGNAL, .index = 2}}, true},
        {{.number = 3, .who = {.cause = MST_CAUSE_FAULT, .code = 7, .index = 2}}, true},
        {{.number = 3, .who = {.cause = MST_CAUSE_FAULT, .code = MUSTER_EFENCED}}, false},
        {{.number = 2, .who = {.cause = MST_CAUSE_SIGNAL, .index = 2}}, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(mst_faults_better(&others[i].item, &passed_on), others[i].better);
    }
}

/* A status that is passed on follows a death. The death behind it is one of the same generation:
 * one of a generation before was survived. */
static void the_death_behind_what_is_passed_on_is_of_its_generation(void **state)
{
    static struct mst_run_job job;
    struct mst_run_options options;
    struct mst_process process;

    (void)state;
    job_init(&job, &options, &process);
    process.last.runs_failed = 0;
    job.faults.first = of_another_node(MST_CAUSE_FAULT, MUSTER_ELOST);
    ends_by(&job, "first cause: rank 4 (#4, pid 4242) on ", 1);
    process.last.generation = 1;
    ends_by(&job, "first cause: rank 2 (#2, pid 77) on ", 1);
}

/* A process of JAX is frozen, another one aborts because of that, and the end of the run kills the
 * first. The first cause is that it is unhealthy, also where the service does not answer; the exit
 * code is of the one that ended by itself. */
static void an_unhealthy_process_goes_before_those_that_abort(void **state)
{
    static struct mst_run_job job;
    struct mst_run_options options;
    struct mst_process aborts, frozen;

    (void)state;
    job_init(&job, &options, &aborts);
    aborts.last.runs_failed = 0;
    aborts.status = SIGABRT;
    aborts.died_ns = 2;
    frozen = aborts;
    frozen.index = frozen.rank = 3;
    frozen.last.pid = OTHER_PID;
    frozen.verdict = MST_CAUSE_UNHEALTHY;
    frozen.status = SIGKILL;
    frozen.died_ns = 1;
    aborts.older = &frozen;
    ends_by(&job, "first cause: rank 3 (#3, pid 77) on  is unhealthy: its heartbeats stopped at ",
            128 + SIGABRT);
    job.faults.first = of_another_node(MST_CAUSE_UNHEALTHY, 14);
    job.faults.first.index = job.faults.first.rank = 3;
    ends_by(&job, "first cause: rank 3 (#3, pid 77) on  is unhealthy: code 14, in generation 2",
            128 + SIGABRT);
}

static void hears(struct mst_run_job *job, uint64_t revision)
{
    const struct mst_item item = {
        .kind = MST_ITEM_FAULT,
        .revision = revision,
        .number = 3,
        .who = {.cause = MST_CAUSE_FAULT, .index = (uint32_t)revision, .rank = MST_RANK_NONE}};

    mst_faults_heard(&job->faults, &(struct mst_reply){.items = &item, .item_count = 1});
}

/* A second has as many fault lines as are allowed. As many are printed again after it. */
static void faults_are_said_after_a_second_of_many(void **state)
{
    enum { MANY = MST_FAULTS_ROOM + 5 };
    static struct mst_run_job job;
    char last[64];

    (void)state;
    job = (struct mst_run_job){.end = {.how = MST_GOES_ON}};
    (void)pthread_mutex_init(&job.shared.lock, NULL);
    assert_int_equal(uv_loop_init(&job.loop), 0);
    mst_faults_open(&job.faults, &job.loop, &job.shared);
    for (uint64_t i = 1; i <= MANY; i++) {
        hears(&job, i);
    }
    mst_faults_look(&job.faults, &job.group, false);
    (void)snprintf(last, sizeof last, "#%u failed;", MST_FAULTS_ROOM);
    assert_non_null(strstr(mst_said_last(), last));
    assert_int_equal(job.faults.unsaid, MANY - MST_FAULTS_ROOM);
    job.faults.window_ns -= UINT64_C(2000000000); /* it is over */
    hears(&job, MANY + 1);
    mst_faults_look(&job.faults, &job.group, false);
    (void)snprintf(last, sizeof last, "#%d failed;", MANY + 1);
    assert_non_null(strstr(mst_said_last(), last));
    assert_int_equal(job.faults.unsaid, 0);
    uv_close((uv_handle_t *)&job.faults.more, NULL);
    (void)uv_run(&job.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&job.loop), 0);
    (void)pthread_mutex_destroy(&job.shared.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_was_ended_because_it_was_given_up_is_not_the_cause),
        cmocka_unit_test(who_was_killed_otherwise_is),
        cmocka_unit_test(of_another_rank_the_hard_timeout_is),
        cmocka_unit_test(what_befell_a_peer_goes_before_what_is_passed_on),
        cmocka_unit_test(the_death_behind_what_is_passed_on_is_of_its_generation),
        cmocka_unit_test(an_unhealthy_process_goes_before_those_that_abort),
        cmocka_unit_test(faults_are_said_after_a_second_of_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
