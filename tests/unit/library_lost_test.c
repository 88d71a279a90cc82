/* SPDX-License-Identifier: Apache-2.0 */
/* A function says that its connection to a peer broke, as the only rank of a job with a real
 * service.
 *
 * behaviour: restart / A peer's socket breaks */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "library_stage.h"
#include "restart/shell/restart.h"

enum { SHORT_MS = 100 };

static void *lose_elsewhere(void *restart)
{
    return muster_restart_lost(restart, 5, 0) == MUSTER_EINVAL ? restart : NULL;
}

static muster_status lose_once(muster_restart *restart, void *arg)
{
    struct muster_fault fault;
    struct muster_view view;
    pthread_t thread;
    void *right;

    (void)arg;
    muster_restart_view(restart, &view);
    if (view.iteration == 2) {
        return MUSTER_OK;
    }
    if (view.iteration == 1) {
        assert_true(muster_restart_fault(restart, 0, &fault));
        assert_int_equal(fault.kind, MUSTER_FAULT_FAILED);
        assert_int_equal(fault.code, MUSTER_ELOST);
        assert_string_equal(fault.text, "the connection of rank 0 (#0) to #5 broke, and no other "
                                        "fault was reported within 0.1 s");
        assert_int_equal(muster_restart_fail(restart, 7, "mine"), MUSTER_EFAILED);
        assert_int_equal(muster_restart_lost(restart, 5, 0), MUSTER_EFAILED);
        return MUSTER_EFAILED;
    }
    assert_int_equal(muster_restart_lost(NULL, 5, 0), MUSTER_EINVAL);
    assert_int_equal(muster_restart_lost(restart, view.index, 0), MUSTER_EINVAL);
    assert_int_equal(muster_restart_lost(restart, MUSTER_RANK_NONE, 0), MUSTER_EINVAL);
    assert_int_equal(pthread_create(&thread, NULL, lose_elsewhere, restart), 0);
    assert_int_equal(pthread_join(thread, &right), 0);
    assert_ptr_equal(right, restart);
    assert_int_equal(muster_restart_atomic_begin(restart), MUSTER_OK);
    assert_int_equal(muster_restart_lost(restart, 5, 0), MUSTER_EDEADLK);
    assert_int_equal(muster_restart_atomic_end(restart), MUSTER_OK);
    assert_int_equal(muster_restart_check(restart), MUSTER_OK);
    assert_int_equal(muster_restart_lost(restart, 5, SHORT_MS), MUSTER_EINTERRUPTED);
    assert_int_equal(muster_restart_check(restart), MUSTER_EINTERRUPTED);
    assert_int_equal(muster_restart_lost(restart, 5, -1), MUSTER_EINTERRUPTED);
    return MUSTER_OK; /* counts as interrupted */
}

/* The function says that a connection broke: in another thread, about itself, in an atomic section
 * it is refused; else the call waits, and the function runs again. The peer is in no generation
 * here, so the record is about this rank. Disabled restarts know no peers: ELOST.
 * */
static void a_broken_connection_waits_for_the_interruption(void **state)
{
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    muster_client *client = library_alone();
    struct muster_restart disabled = {.settings = {.disabled = true}};
    struct muster_error err;

    (void)state;
    library_ok(muster_restart_run(client, &options, lose_once, NULL, &err), &err);
    muster_client_close(client);
    assert_int_equal(muster_restart_lost(&disabled, 5, -1), MUSTER_ELOST);
}

static void *fail_once_it_waits(void *ctx)
{
    muster_restart *restart = ctx;

    while (atomic_load(&restart->page->waits) % 2 == 0) {
        (void)sched_yield();
    }
    (void)!muster_member_fault(restart->client, 1, "as was to be", LIMIT_MS, NULL);
    return NULL;
}

static muster_status interrupted_as_it_waits(muster_restart *restart, void *arg)
{
    struct muster_fault fault;
    struct muster_view view;
    pthread_t thread;

    (void)arg;
    muster_restart_view(restart, &view);
    if (view.iteration == 1) {
        assert_int_equal(muster_restart_fault_count(restart), 1);
        assert_true(muster_restart_fault(restart, 0, &fault));
        assert_int_equal(fault.code, 1);
        return MUSTER_OK;
    }
    assert_int_equal(pthread_create(&thread, NULL, fail_once_it_waits, restart), 0);
    assert_int_equal(muster_restart_lost(restart, 5, -1), MUSTER_EINTERRUPTED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return MUSTER_EINTERRUPTED;
}

/* The interruption comes while the function waits for it. The wait is shown, ends at once, and
 * nothing is reported about the peer. */
static void an_interruption_ends_the_wait(void **state)
{
    muster_client *client = library_alone();
    struct muster_error err;

    (void)state;
    library_ok(muster_restart_run(client, NULL, interrupted_as_it_waits, NULL, &err), &err);
    muster_client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broken_connection_waits_for_the_interruption),
        cmocka_unit_test(an_interruption_ends_the_wait),
    };

    return cmocka_run_group_tests(tests, library_stage_setup, library_stage_teardown);
}
