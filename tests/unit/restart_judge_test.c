/* SPDX-License-Identifier: Apache-2.0 */
/* Which failures of a rank count against faults_max, and which are only the effect of a death.
 *
 * behaviour: restart / Fewer, and the end */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "failing_mem.h"
#include "proto/secondary.h"
#include "restart/restart.h"
#include "restart/vote.h"

#define MS UINT64_C(1000000)
#define NOTHING mst_slice_of(NULL, 0)

enum { SELF = 1, PEER = 2 };

static struct failing_mem memory;

static struct mst_view view_of(uint64_t generation)
{
    return (struct mst_view){
        .generation = generation, .size = 4, .rank = SELF, .index = SELF, .faults = generation - 1};
}

static struct mst_restart_effect next_of(struct mst_restart *restart,
                                         enum mst_machine_effect_kind kind)
{
    const struct mst_restart_effect *effect = mst_restart_machine.next(restart);

    assert_non_null(effect);
    assert_int_equal(effect->head.kind, kind);
    mst_restart_check(restart);
    return *effect;
}

static void gives(struct mst_restart *restart, enum mst_restart_effect_type type)
{
    assert_int_equal(next_of(restart, MST_MACHINE_OWN).type, type);
}

/* The next call must be this one: its tag. */
static uint64_t calls(struct mst_restart *restart, enum mst_command command)
{
    struct mst_restart_effect effect = next_of(restart, MST_MACHINE_CALL);

    assert_int_equal(effect.head.request->command, command);
    return effect.head.tag;
}

static void quiet(struct mst_restart *restart)
{
    assert_null(mst_restart_machine.next(restart));
}

static struct mst_restart *running(uint32_t faults_max)
{
    const struct mst_restart_config config = {
        .barrier_timeout_ms = 1000, .stalled_max = -1, .faults_max = faults_max};
    struct mst_view view = view_of(1);
    struct mst_restart *restart;

    assert_int_equal(mst_restart_new(&restart, &config, &memory.mem), MUSTER_OK);
    mst_restart_start(restart, 0, &view);
    gives(restart, MST_RESTART_ENTER);
    return restart;
}

/* The function reports a failure now, returns at once, and is unwound at `unwound_ns`. */
static void fails(struct mst_restart *restart, uint64_t now_ns, uint64_t unwound_ns)
{
    mst_restart_failed(restart, now_ns, MST_CAUSE_FAULT, 7, mst_slice_text("connection reset"));
    (void)calls(restart, MST_FAULT);
    mst_restart_returned(restart, now_ns, MUSTER_EFAILED, false);
    gives(restart, MST_RESTART_UNWIND);
    mst_restart_unwound(restart, unwound_ns, MUSTER_OK, MST_WHY_REPLY, 0, NOTHING);
}

static struct mst_item record_of(uint64_t generation, uint32_t index, enum mst_cause cause)
{
    return (struct mst_item){.kind = MST_ITEM_FAULT,
                             .number = generation,
                             .who = {.index = index, .rank = index, .cause = cause}};
}

static const struct mst_item *death_first(uint64_t generation)
{
    static struct mst_item items[2];

    items[0] = record_of(generation, PEER, MST_CAUSE_SIGNAL);
    items[1] = record_of(generation, SELF, MST_CAUSE_FAULT);
    return items;
}

static const struct mst_item *death_last(uint64_t generation)
{
    static struct mst_item items[2];

    items[0] = record_of(generation, SELF, MST_CAUSE_FAULT);
    items[1] = record_of(generation, PEER, MST_CAUSE_SIGNAL);
    return items;
}

/* The seal of this generation is answered, with these records of it; the next attempt begins. */
static void sealed(struct mst_restart *restart, uint64_t generation, const struct mst_item *items)
{
    unsigned char vector[MST_VOTE_SIZE];
    struct mst_vote vote;
    struct mst_reply reply = {.status = MUSTER_OK,
                              .has_view = true,
                              .view = view_of(generation + 1),
                              .items = items,
                              .item_count = 2,
                              .next = 2};
    uint64_t tag = calls(restart, MST_ROUND);

    mst_vote_begin(&vote, 0);
    vote.iteration = generation;
    vote.entered = true;
    mst_vote_write(&vote, SELF, generation - 1, vector);
    reply.value = mst_slice_of(vector, sizeof(vector));
    mst_restart_machine.reply(restart, 0, tag, &reply);
    gives(restart, MST_RESTART_ENTER);
}

static void leaves(struct mst_restart *restart)
{
    struct mst_restart_effect effect;
    const struct mst_reply ok = {.status = MUSTER_OK};

    mst_restart_machine.reply(restart, 0, calls(restart, MST_LEAVE), &ok);
    effect = next_of(restart, MST_MACHINE_OWN);
    assert_int_equal(effect.type, MST_RESTART_FINISH);
    assert_int_equal(effect.status, MUSTER_EUNHEALTHY);
    assert_int_equal(effect.why, MST_WHY_FAULTS);
    mst_restart_free(restart);
}

/* A rank has failed more often than faults_max. It asks for the record of the generation when a
 * death before its failure would have been reported, and leaves before the seal if there is none.
 * An attempt that only was interrupted does not count. */
static void one_failure_too_many(void **state)
{
    struct mst_restart *restart = running(1);
    struct mst_reply reply = {.status = MUSTER_OK, .item_count = 2};
    uint64_t tag;

    (void)state;
    fails(restart, 0, 0);
    sealed(restart, 1, death_last(1));
    mst_restart_returned(restart, 0, MUSTER_EINTERRUPTED, true);
    gives(restart, MST_RESTART_UNWIND);
    mst_restart_unwound(restart, 0, MUSTER_OK, MST_WHY_REPLY, 0, NOTHING);
    sealed(restart, 2, death_last(2));
    fails(restart, 1000 * MS, 1010 * MS);
    quiet(restart);
    assert_int_equal(mst_restart_machine.deadline_ns(restart), (1000 + MST_SECONDARY_MS) * MS);
    mst_restart_machine.tick(restart, (1000 + MST_SECONDARY_MS) * MS - 1);
    quiet(restart);
    mst_restart_machine.tick(restart, (1000 + MST_SECONDARY_MS) * MS);
    tag = calls(restart, MST_FAULTS);
    assert_true(mst_restart_machine.deadline_ns(restart) == UINT64_MAX);
    reply.items = death_last(3);
    mst_restart_machine.reply(restart, 0, tag, &reply);
    leaves(restart);
}

/* A rank has failed more often than faults_max, and the death of a peer was reported a moment
 * later. Its failure does not count: it goes to the seal. Records of another generation say
 * nothing. */
static void one_too_many_was_an_effect(void **state)
{
    struct mst_restart *restart = running(1);
    struct mst_reply reply = {.status = MUSTER_OK, .item_count = 2};

    (void)state;
    fails(restart, 0, 0);
    sealed(restart, 1, death_last(1));
    fails(restart, 1000 * MS, 5000 * MS); /* long enough to ask at once */
    reply.items = death_first(2);
    mst_restart_machine.reply(restart, 0, calls(restart, MST_FAULTS), &reply);
    sealed(restart, 2, death_first(2));
    fails(restart, 9000 * MS, 9500 * MS);
    reply.items = death_first(2);
    mst_restart_machine.reply(restart, 0, calls(restart, MST_FAULTS), &reply);
    leaves(restart);
}

/* A rank fails again and again because of deaths of its peers. None counts, by the record that
 * comes with the seal. */
static void effects_do_not_add_up(void **state)
{
    struct mst_restart *restart = running(1);

    (void)state;
    for (uint64_t generation = 1; generation < 9; generation++) {
        fails(restart, generation * 1000 * MS, generation * 1000 * MS);
        sealed(restart, generation, death_first(generation));
    }
    mst_restart_free(restart);
}

/* A rank fails when it is interrupted already. That does not count, whatever interrupted it. */
static void a_failure_of_an_interrupted_rank_does_not_count(void **state)
{
    struct mst_restart *restart = running(1);

    (void)state;
    for (uint64_t generation = 1; generation < 9; generation++) {
        struct mst_view view = view_of(generation);

        view.attention = MST_INTERRUPT;
        mst_restart_machine.attention(restart, 0, &view, false);
        gives(restart, MST_RESTART_TELL);
        gives(restart, MST_RESTART_INTERRUPT);
        fails(restart, 0, 0);
        sealed(restart, generation, death_last(generation));
    }
    mst_restart_free(restart);
}

/* The session ends while a rank waits for the record. Its run ends with that. */
static void the_session_ends_meanwhile(void **state)
{
    struct mst_restart *restart = running(1);

    (void)state;
    fails(restart, 0, 0);
    sealed(restart, 1, death_last(1));
    fails(restart, 1000 * MS, 1000 * MS);
    mst_restart_machine.ended(restart, 1000 * MS, MUSTER_EFENCED);
    gives(restart, MST_RESTART_FINISH);
    assert_true(mst_restart_machine.deadline_ns(restart) == UINT64_MAX);
    mst_restart_free(restart);
}

static int setup(void **state)
{
    (void)state;
    failing_mem_init(&memory, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return memory.live != 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_failure_too_many, setup, teardown),
        cmocka_unit_test_setup_teardown(one_too_many_was_an_effect, setup, teardown),
        cmocka_unit_test_setup_teardown(effects_do_not_add_up, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failure_of_an_interrupted_rank_does_not_count, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_session_ends_meanwhile, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
