/* SPDX-License-Identifier: Apache-2.0 */
/* The word that says whether the function was told to stop and whether it is in an atomic section.
 *
 * behaviour: restart / Atomic sections, leaving, giving up */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>

#include "restart/shell/atomic.h"

static void test_sections_nest(void **state)
{
    struct mst_atomic atomic = {0};

    (void)state;
    assert_int_equal(mst_atomic_begin(&atomic), MUSTER_OK);
    assert_int_equal(mst_atomic_begin(&atomic), MUSTER_OK);
    assert_int_equal(mst_atomic_end(&atomic), MUSTER_OK);
    assert_true(mst_atomic_inside(&atomic));
    assert_int_equal(mst_atomic_end(&atomic), MUSTER_OK);
    assert_false(mst_atomic_inside(&atomic));
    assert_int_equal(mst_atomic_end(&atomic), MUSTER_EINVAL);
}

static void test_the_word_is_hidden_until_the_end(void **state)
{
    struct mst_atomic atomic = {0};

    (void)state;
    assert_int_equal(mst_atomic_begin(&atomic), MUSTER_OK);
    mst_atomic_tell(&atomic);
    assert_false(mst_atomic_told(&atomic));
    assert_int_equal(mst_atomic_begin(&atomic), MUSTER_OK); /* in one already */
    assert_int_equal(mst_atomic_end(&atomic), MUSTER_OK);
    assert_int_equal(mst_atomic_end(&atomic), MUSTER_EINTERRUPTED);
    assert_true(mst_atomic_told(&atomic));
    assert_int_equal(mst_atomic_begin(&atomic), MUSTER_EINTERRUPTED);
    assert_false(mst_atomic_inside(&atomic));
    mst_atomic_reset(&atomic);
    assert_false(mst_atomic_told(&atomic));
}

static void test_what_was_left_open_is_ended(void **state)
{
    struct mst_atomic atomic = {0};

    (void)state;
    assert_int_equal(mst_atomic_begin(&atomic), MUSTER_OK);
    assert_int_equal(mst_atomic_begin(&atomic), MUSTER_OK);
    mst_atomic_tell(&atomic);
    mst_atomic_close(&atomic);
    assert_true(mst_atomic_told(&atomic));
    mst_atomic_wait(&atomic); /* for nothing any more */
}

enum { TURNS = 2000 };

/* Who interrupts: tells, waits for the end of a section, and looks that none begins after it. */
struct contest {
    struct mst_atomic atomic;
    _Atomic uint32_t turn, seen, body, broken;
};

static void *interrupter(void *ctx)
{
    struct contest *contest = ctx;

    for (uint32_t turn = 1; turn <= TURNS; turn++) {
        while (atomic_load(&contest->turn) < turn) {
            (void)sched_yield();
        }
        mst_atomic_tell(&contest->atomic);
        mst_atomic_wait(&contest->atomic);
        for (int look = 0; look < 10; look++) {
            if (atomic_load(&contest->body) != 0) {
                atomic_store(&contest->broken, 1);
            }
        }
        atomic_store(&contest->seen, turn);
    }
    return NULL;
}

/* A rank was interrupted and begins an atomic section. It is refused, without a wait. */
static void test_no_section_after_the_word_and_no_wait_without_end(void **state)
{
    struct contest contest = {.turn = 0};
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, interrupter, &contest), 0);
    for (uint32_t turn = 1; turn <= TURNS; turn++) {
        muster_status status = MUSTER_OK;

        mst_atomic_reset(&contest.atomic);
        atomic_store(&contest.turn, turn);
        while (status == MUSTER_OK && mst_atomic_begin(&contest.atomic) == MUSTER_OK) {
            atomic_store(&contest.body, 1);
            atomic_store(&contest.body, 0);
            status = mst_atomic_end(&contest.atomic);
        }
        while (atomic_load(&contest.seen) < turn) {
            (void)sched_yield();
        }
    }
    (void)pthread_join(thread, NULL);
    assert_int_equal(contest.broken, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sections_nest),
        cmocka_unit_test(test_the_word_is_hidden_until_the_end),
        cmocka_unit_test(test_what_was_left_open_is_ended),
        cmocka_unit_test(test_no_section_after_the_word_and_no_wait_without_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
