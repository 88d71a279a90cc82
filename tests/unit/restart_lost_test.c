/* SPDX-License-Identifier: Apache-2.0 */
/* A rank whose connection to a peer broke: the machine.
 *
 * behaviour: restart / A peer's socket breaks */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "failing_mem.h"
#include "restart/restart.h"

#define MS UINT64_C(1000000)
#define NOTHING mst_slice_of(NULL, 0)

static struct failing_mem memory;

static struct mst_restart_config config = {.barrier_timeout_ms = 1000, .stalled_max = -1};

static struct mst_view view_of(uint64_t generation, uint64_t faults)
{
    return (struct mst_view){
        .generation = generation, .size = 4, .rank = 1, .index = 1, .faults = faults};
}

/* The next effect, which must be of this type. */
static struct mst_restart_effect next_of(struct mst_restart *restart,
                                         enum mst_machine_effect_kind kind)
{
    const struct mst_restart_effect *effect = mst_restart_machine.next(restart);
    struct mst_restart_effect copy;

    assert_non_null(effect);
    assert_int_equal(effect->head.kind, kind);
    copy = *effect;
    if (copy.head.request) { /* what is asked for stays in the machine until the next effect */
        static struct mst_request request;

        request = *copy.head.request;
        copy.head.request = &request;
    }
    mst_restart_check(restart);
    return copy;
}

static struct mst_restart_effect next(struct mst_restart *restart,
                                      enum mst_restart_effect_type type)
{
    struct mst_restart_effect effect = next_of(restart, MST_MACHINE_OWN);

    assert_int_equal(effect.type, type);
    return effect;
}

static void quiet(struct mst_restart *restart)
{
    assert_null(mst_restart_machine.next(restart));
}

static struct mst_restart *running(void)
{
    struct mst_view view = view_of(1, 0);
    struct mst_restart *restart;

    assert_int_equal(mst_restart_new(&restart, &config, &memory.mem), MUSTER_OK);
    mst_restart_start(restart, 0, &view);
    (void)next(restart, MST_RESTART_ENTER);
    return restart;
}

/* The connection to a peer broke, and nothing interrupts this rank within the wait. The peer is
 * reported, with both ends in the text, and this rank is told when that is answered, taken or not.
 * */
static void test_a_broken_connection_is_reported_after_the_wait(void **state)
{
    static const char text[] = "the connection of rank 1 (#1) to #3 broke, and no other fault was "
                               "reported within 2.5 s";
    static const muster_status answers[] = {MUSTER_OK, MUSTER_ENOSPACE, MUSTER_EFENCED};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct mst_restart *restart = running();
        struct mst_restart_effect effect;

        mst_restart_lost(restart, 100 * MS, 3, 2500);
        quiet(restart);
        assert_true(mst_restart_machine.deadline_ns(restart) == 2600 * MS);
        mst_restart_machine.tick(restart, 2600 * MS - 1);
        quiet(restart);
        mst_restart_machine.tick(restart, 2600 * MS);
        effect = next_of(restart, MST_MACHINE_CALL);
        assert_int_equal(effect.head.request->command, MST_FAULT);
        assert_int_equal(effect.head.request->fault.generation, 1);
        assert_int_equal(effect.head.request->fault.kind, MST_CAUSE_NONE);
        assert_int_equal(effect.head.request->fault.code, MUSTER_ELOST);
        assert_int_equal(effect.head.request->fault.peer, 1 + 3);
        assert_int_equal(effect.head.request->fault.text.size, strlen(text));
        assert_memory_equal(effect.head.request->fault.text.data, text, strlen(text));
        assert_true(mst_restart_machine.deadline_ns(restart) == UINT64_MAX);
        quiet(restart);
        mst_restart_machine.reply(restart, 2601 * MS, effect.head.tag,
                                  &(struct mst_reply){.status = answers[i]});
        (void)next(restart, MST_RESTART_TELL);
        mst_restart_returned(restart, 2602 * MS, MUSTER_EINTERRUPTED, true);
        /* Not a word of a fault of its own. */
        assert_int_equal(next(restart, MST_RESTART_UNWIND).faults->count, 0);
        mst_restart_free(restart);
    }
}

/* The connection to a peer broke, and the interruption comes within the wait; or the function
 * failed before, or returns. Nothing is reported about the peer. */
static void test_an_interruption_within_the_wait_is_no_fault_of_the_peer(void **state)
{
    struct mst_restart *restart = running();
    struct mst_view view = view_of(1, 0);
    struct mst_restart_effect effect;

    (void)state;
    mst_restart_lost(restart, 100 * MS, 3, 2500);
    view.attention = MST_INTERRUPT;
    mst_restart_machine.attention(restart, 101 * MS, &view, false);
    (void)next(restart, MST_RESTART_TELL);
    (void)next(restart, MST_RESTART_INTERRUPT);
    mst_restart_lost(restart, 102 * MS, 3, 0);
    mst_restart_machine.tick(restart, 9000 * MS);
    (void)next(restart, MST_RESTART_INTERRUPT);
    quiet(restart);
    mst_restart_free(restart);

    /* The interruption is known, and comes when it has settled. */
    config.settle_ms = 5000;
    restart = running();
    mst_restart_lost(restart, 100 * MS, 3, 2500);
    mst_restart_machine.attention(restart, 101 * MS, &view, false);
    mst_restart_machine.tick(restart, 2600 * MS);
    quiet(restart);
    assert_true(mst_restart_machine.deadline_ns(restart) == 5101 * MS);
    mst_restart_free(restart);

    config.settle_ms = 0;
    restart = running();
    mst_restart_failed(restart, 100 * MS, MST_CAUSE_FAULT, 7, mst_slice_text("mine"));
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(effect.head.request->fault.peer, 0);
    mst_restart_lost(restart, 100 * MS, 3, 0);
    assert_true(mst_restart_machine.deadline_ns(restart) == UINT64_MAX);
    mst_restart_free(restart);

    restart = running();
    mst_restart_lost(restart, 100 * MS, 3, 2500);
    mst_restart_returned(restart, 101 * MS, MUSTER_OK, false);
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_true(effect.head.request->round.final);
    mst_restart_machine.tick(restart, 9000 * MS);
    quiet(restart);
    mst_restart_free(restart);
}

/* A rank reports a peer, and the answer comes when a later attempt runs already. That one is not
 * interrupted. The rank's own next fault names no peer. */
static void test_a_late_answer_is_not_for_the_next_attempt(void **state)
{
    struct mst_restart *restart = running();
    struct mst_restart_effect effect;
    uint64_t tag;

    (void)state;
    mst_restart_lost(restart, 100 * MS, 3, 0);
    mst_restart_machine.tick(restart, 100 * MS);
    tag = next_of(restart, MST_MACHINE_CALL).head.tag;
    mst_restart_returned(restart, 101 * MS, MUSTER_EINTERRUPTED, true);
    (void)next(restart, MST_RESTART_UNWIND);
    mst_restart_unwound(restart, 102 * MS, MUSTER_OK, MST_WHY_REPLY, 0, NOTHING);
    effect = next_of(restart, MST_MACHINE_CALL);
    mst_restart_machine.reply(
        restart, 102 * MS, effect.head.tag,
        &(struct mst_reply){.status = MUSTER_OK, .has_view = true, .view = view_of(2, 1)});
    (void)next(restart, MST_RESTART_ENTER);
    mst_restart_machine.reply(restart, 103 * MS, tag, &(struct mst_reply){.status = MUSTER_OK});
    quiet(restart);
    mst_restart_returned(restart, 104 * MS, MUSTER_EFAILED, false);
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(effect.head.request->fault.code, MUSTER_EFAILED);
    assert_int_equal(effect.head.request->fault.peer, 0);
    mst_restart_free(restart);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_broken_connection_is_reported_after_the_wait),
        cmocka_unit_test(test_an_interruption_within_the_wait_is_no_fault_of_the_peer),
        cmocka_unit_test(test_a_late_answer_is_not_for_the_next_attempt),
    };

    failing_mem_init(&memory, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
