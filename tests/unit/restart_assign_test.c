/* SPDX-License-Identifier: Apache-2.0 */
/* The table of an assignment, and the machine that meets, lists, and stands at the seal with the
 * order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "failing_mem.h"
#include "restart/places.h"
#include "restart/restart.h"

#define NOTHING mst_slice_of(NULL, 0)

enum { PLACES = 5 };

static struct failing_mem memory;

/* A page of places, as the service lists them. */
struct page {
    char names[PLACES][MST_PLACE_NAME_ROOM];
    unsigned char values[PLACES][MST_PLACE_VALUE_ROOM];
    struct mst_item items[PLACES];
    uint32_t count;
};

static void page_add(struct page *page, uint32_t index, uint32_t previous, const char *host)
{
    uint32_t at = page->count++;

    page->items[at] = (struct mst_item){
        .kind = MST_ITEM_KEY,
        .name = mst_slice_of(page->names[at], mst_place_name(index, page->names[at])),
        .value = mst_slice_of(page->values[at],
                              mst_place_value(previous, 7, mst_slice_text(host),
                                              mst_slice_text("rack"), page->values[at]))};
}

static struct mst_reply page_reply(const struct page *page)
{
    return (struct mst_reply){.status = MUSTER_OK, .items = page->items, .item_count = page->count};
}

/* ---- the table ---- */

static void test_place_reads_as_it_was_written(void **state)
{
    static struct page page;
    struct mst_places places;
    struct mst_reply reply;
    char host[400];

    (void)state;
    memset(host, 'h', sizeof(host) - 1);
    host[sizeof(host) - 1] = 0;
    page.count = 0;
    page_add(&page, 2, MST_RANK_NONE, "node1");
    page_add(&page, 300, 4, host);
    reply = page_reply(&page);
    assert_int_equal(mst_places_new(&places, 2, &memory.mem), MUSTER_OK);
    assert_int_equal(mst_places_add(&places, &reply), MUSTER_OK);
    assert_int_equal(places.count, 2);
    assert_int_equal(places.list[0].index, 2);
    assert_int_equal(places.list[0].previous, MUSTER_NUMBER_NONE);
    assert_int_equal(places.list[0].node, 7);
    assert_string_equal(places.list[0].host, "node1");
    assert_string_equal(places.list[0].label, "rack");
    assert_int_equal(places.list[1].index, 300);
    assert_int_equal(places.list[1].previous, 4);
    assert_int_equal(strlen(places.list[1].host), 255); /* cut */
    mst_places_free(&places, &memory.mem);
}

static void test_what_is_no_place_is_refused(void **state)
{
    static struct page page;
    struct mst_places places;
    struct mst_reply reply;

    (void)state;
    for (unsigned what = 0; what < 5; what++) {
        page.count = 0;
        page_add(&page, 2, 0, "node1");
        page_add(&page, 3, 1, "node1");
        if (what == 0) {
            page.items[1].value.size = 7; /* in the middle of a number */
        } else if (what == 1) {
            page.items[1].name = mst_slice_text("muster/place/0000000x");
        } else if (what == 2) {
            page.items[1] = page.items[0]; /* twice */
        } else if (what == 3) {
            page.items[1].value.size--; /* in the middle of a label */
        } else {
            page_add(&page, 4, 2, "node1"); /* more than there are members */
        }
        reply = page_reply(&page);
        assert_int_equal(mst_places_new(&places, 2, &memory.mem), MUSTER_OK);
        assert_int_equal(mst_places_add(&places, &reply), MUSTER_EPROTO);
        mst_places_free(&places, &memory.mem);
    }
    /* What a later version adds behind is not looked at. */
    page.count = 0;
    page_add(&page, 2, 0, "node1");
    page.items[0].value.size++;
    reply = page_reply(&page);
    assert_int_equal(mst_places_new(&places, 2, &memory.mem), MUSTER_OK);
    assert_int_equal(mst_places_add(&places, &reply), MUSTER_OK);
    mst_places_free(&places, &memory.mem);
}

/* Any subset lost: those are kept as not alive, in the order of the indices. */
static void test_lost_places_stay_in_the_table(void **state)
{
    static struct page page;
    struct mst_places old, places;
    struct mst_reply reply;

    (void)state;
    for (unsigned lost = 0; lost < 1u << PLACES; lost++) {
        uint32_t alive = 0;

        page.count = 0;
        for (uint32_t i = 0; i < PLACES; i++) {
            page_add(&page, i, i + 10, "old");
        }
        reply = page_reply(&page);
        assert_int_equal(mst_places_new(&old, PLACES, &memory.mem), MUSTER_OK);
        assert_int_equal(mst_places_add(&old, &reply), MUSTER_OK);
        mst_places_close(&old, &(struct mst_places){0});
        page.count = 0;
        for (uint32_t i = 0; i < PLACES; i++) {
            if (!(lost & 1u << i)) {
                page_add(&page, i, i + 20, "new");
            }
        }
        reply = page_reply(&page);
        assert_int_equal(mst_places_new(&places, PLACES + page.count, &memory.mem), MUSTER_OK);
        assert_int_equal(mst_places_add(&places, &reply), MUSTER_OK);
        mst_places_close(&places, &old);
        mst_places_free(&old, &memory.mem);
        assert_int_equal(places.count, PLACES);
        for (uint32_t i = 0; i < PLACES; i++) {
            bool gone = lost & 1u << i;

            assert_int_equal(places.list[i].index, i);
            assert_int_equal(places.list[i].alive, !gone);
            assert_int_equal(places.list[i].previous, gone ? i + 10 : i + 20);
            assert_string_equal(places.list[i].host, gone ? "old" : "new");
            assert_int_equal(places.list[i].number, gone ? MUSTER_NUMBER_NONE : alive);
            alive += !gone;
        }
        mst_places_free(&places, &memory.mem);
    }
}

static void test_only_a_permutation_over_the_living_is_seated(void **state)
{
    static const struct {
        uint32_t numbers[3]; /* of #0, #1, and #2, which is not alive */
        muster_status status;
    } cases[] = {
        {{1, 0, MUSTER_NUMBER_NONE}, MUSTER_OK},
        {{0, MUSTER_NUMBER_NONE, MUSTER_NUMBER_NONE}, MUSTER_OK},
        {{0, 0, MUSTER_NUMBER_NONE}, MUSTER_EINVAL},
        {{0, 2, MUSTER_NUMBER_NONE}, MUSTER_EINVAL},
        {{1, MUSTER_NUMBER_NONE, MUSTER_NUMBER_NONE}, MUSTER_EINVAL},
        {{0, MUSTER_NUMBER_NONE, 1}, MUSTER_EINVAL},
        {{77, 0, MUSTER_NUMBER_NONE}, MUSTER_EINVAL},
        {{MUSTER_NUMBER_NONE, MUSTER_NUMBER_NONE, MUSTER_NUMBER_NONE}, MUSTER_ETOOFEW},
    };
    static struct page page;
    struct mst_places places;
    struct mst_reply reply;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        page.count = 0;
        for (uint32_t index = 0; index < 3; index++) {
            page_add(&page, index, 0, "node1");
        }
        reply = page_reply(&page);
        assert_int_equal(mst_places_new(&places, 3, &memory.mem), MUSTER_OK);
        assert_int_equal(mst_places_add(&places, &reply), MUSTER_OK);
        for (uint32_t index = 0; index < 3; index++) {
            places.list[index].number = cases[i].numbers[index];
        }
        places.list[2].alive = false;
        assert_int_equal(mst_places_seat(&places), cases[i].status);
        mst_places_free(&places, &memory.mem);
    }
}

/* ---- the machine ---- */

static const struct mst_restart_config config = {.barrier_timeout_ms = 1000,
                                                 .stalled_max = -1,
                                                 .by_table = true,
                                                 .host = {"node1", 5},
                                                 .label = {"rack", 4},
                                                 .node = 7};

static struct mst_view view_of(uint64_t generation, bool ordered)
{
    return (struct mst_view){
        .generation = generation, .size = 3, .rank = 1, .index = 1, .ordered = ordered};
}

static struct mst_restart_effect next_of(struct mst_restart *restart,
                                         enum mst_machine_effect_kind kind)
{
    static struct mst_request request;
    const struct mst_restart_effect *effect = mst_restart_machine.next(restart);
    struct mst_restart_effect copy;

    assert_non_null(effect);
    assert_int_equal(effect->head.kind, kind);
    copy = *effect;
    if (copy.head.request) {
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

/* Stands at the round that elects: its tag, and what it bids. */
static uint64_t meets(struct mst_restart *restart, unsigned char bid[8])
{
    struct mst_restart_effect effect = next_of(restart, MST_MACHINE_CALL);

    assert_int_equal(effect.head.request->command, MST_WRITE);
    assert_memory_equal(effect.head.request->write.ops->key.data, "muster/place/00000001", 21);
    mst_restart_machine.reply(restart, 0, effect.head.tag,
                              &(struct mst_reply){.status = MUSTER_OK});
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(effect.head.request->command, MST_ROUND);
    assert_memory_equal(effect.head.request->round.name.data, "muster/assign", 13);
    assert_int_equal(effect.head.request->round.reduce, MST_REDUCE_MAX);
    assert_int_equal(effect.head.request->round.data.size, 8);
    memcpy(bid, effect.head.request->round.data.data, 8);
    return effect.head.tag;
}

static struct mst_restart *met(unsigned char bid[8], uint64_t *tag)
{
    struct mst_view view = view_of(1, false);
    struct mst_restart *restart;

    assert_int_equal(mst_restart_new(&restart, &config, &memory.mem), MUSTER_OK);
    mst_restart_start(restart, 0, &view);
    *tag = meets(restart, bid);
    return restart;
}

static void reply_value(struct mst_restart *restart, uint64_t tag, const unsigned char *bytes)
{
    mst_restart_machine.reply(
        restart, 0, tag, &(struct mst_reply){.status = MUSTER_OK, .value = mst_slice_of(bytes, 8)});
    mst_restart_check(restart);
}

static void reply_view(struct mst_restart *restart, uint64_t tag, uint64_t generation, bool ordered)
{
    mst_restart_machine.reply(restart, 0, tag,
                              &(struct mst_reply){.status = MUSTER_OK,
                                                  .has_view = true,
                                                  .view = view_of(generation, ordered)});
    mst_restart_check(restart);
}

/* #0 and #1 listed in two pages; what the shell is asked to number. */
static struct mst_restart_effect lists(struct mst_restart *restart)
{
    static struct page page;
    struct mst_restart_effect effect = next_of(restart, MST_MACHINE_CALL);
    struct mst_reply reply;

    assert_int_equal(effect.head.request->command, MST_LIST);
    assert_int_equal(effect.head.request->list.after.size, 0);
    page.count = 0;
    page_add(&page, 0, MST_RANK_NONE, "node0");
    reply = page_reply(&page);
    reply.next = 1;
    mst_restart_machine.reply(restart, 0, effect.head.tag, &reply);
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(effect.head.request->command, MST_LIST);
    assert_memory_equal(effect.head.request->list.after.data, "muster/place/00000000", 21);
    page.count = 0;
    page_add(&page, 1, MST_RANK_NONE, "node1");
    reply = page_reply(&page);
    mst_restart_machine.reply(restart, 0, effect.head.tag, &reply);
    return next(restart, MST_RESTART_ASSIGN);
}

static void test_elected_rank_seals_with_the_order(void **state)
{
    unsigned char bid[8], later[8];
    uint64_t tag;
    struct mst_restart *restart = met(bid, &tag);
    struct mst_view view = view_of(1, false);
    struct mst_restart_effect effect;

    (void)state;
    reply_value(restart, tag, bid);
    /* The others are at the seal already: no reason to give up. */
    view.attention = MST_INTERRUPT;
    mst_restart_machine.attention(restart, 0, &view, false);
    effect = lists(restart);
    assert_int_equal(effect.place_count, 2);
    assert_int_equal(effect.places[0].number, 0);
    effect.places[0].number = 1;
    effect.places[1].number = 0;
    mst_restart_assigned(restart, 0, MUSTER_OK, NOTHING);
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_true(effect.head.request->round.seal);
    assert_int_equal(effect.head.request->round.order_count, 2);
    assert_int_equal(effect.head.request->round.order[0], 1);
    assert_int_equal(effect.head.request->round.order[1], 0);
    reply_view(restart, effect.head.tag, 2, true);
    assert_int_equal(next(restart, MST_RESTART_ENTER).iteration, 0);

    /* The next meeting: it has the newest table, and its bid says so. */
    mst_restart_returned(restart, 0, MUSTER_EINTERRUPTED, true);
    (void)next(restart, MST_RESTART_UNWIND);
    mst_restart_unwound(restart, 0, MUSTER_OK, MST_WHY_REPLY, 0, NOTHING);
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(effect.head.request->round.order_count, 0);
    reply_view(restart, effect.head.tag, 3, false);
    tag = meets(restart, later);
    assert_true(memcmp(later, bid, 8) != 0);
    reply_value(restart, tag, later);
    effect = lists(restart);
    assert_int_equal(effect.place_count, 2);
    mst_restart_free(restart);
}

static void test_who_is_not_elected_goes_to_the_seal(void **state)
{
    static const unsigned char other[8] = {1, 2, 3};
    unsigned char bid[8];
    uint64_t tag;
    struct mst_restart *restart = met(bid, &tag);
    struct mst_restart_effect effect;

    (void)state;
    reply_value(restart, tag, other);
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_true(effect.head.request->round.seal);
    assert_int_equal(effect.head.request->round.order_count, 0);
    /* By index, unordered: somebody of the order was lost, so all begin again. */
    reply_view(restart, effect.head.tag, 2, false);
    (void)meets(restart, bid);
    mst_restart_free(restart);
}

/* What it was in the generation before; of one that it did not hear of it knows nothing. */
static void test_previous_number_is_that_of_the_generation_before(void **state)
{
    static const unsigned char other[8] = {1, 2, 3};

    (void)state;
    for (uint64_t to = 3; to <= 4; to++) {
        uint32_t previous = to == 3 ? 1 : MST_RANK_NONE;
        unsigned char bid[8], expected[MST_PLACE_VALUE_ROOM];
        struct mst_restart_effect effect;
        uint64_t tag;
        struct mst_restart *restart = met(bid, &tag);
        const struct mst_slice *value;

        reply_value(restart, tag, other);
        effect = next_of(restart, MST_MACHINE_CALL);
        reply_view(restart, effect.head.tag, 2, true);
        (void)next(restart, MST_RESTART_ENTER);
        mst_restart_returned(restart, 0, MUSTER_EINTERRUPTED, true);
        (void)next(restart, MST_RESTART_UNWIND);
        mst_restart_unwound(restart, 0, MUSTER_OK, MST_WHY_REPLY, 0, NOTHING);
        effect = next_of(restart, MST_MACHINE_CALL);
        reply_view(restart, effect.head.tag, to, false);
        effect = next_of(restart, MST_MACHINE_CALL);
        value = &effect.head.request->write.ops->value;
        assert_int_equal(value->size, mst_place_value(previous, 7, mst_slice_text("node1"),
                                                      mst_slice_text("rack"), expected));
        assert_memory_equal(value->data, expected, value->size);
        mst_restart_free(restart);
    }
}

static void test_a_loss_at_the_meeting_leads_to_the_seal(void **state)
{
    unsigned char bid[8];
    uint64_t tag;
    struct mst_restart *restart = met(bid, &tag);
    struct mst_view view = view_of(1, false);
    struct mst_restart_effect effect;

    (void)state;
    view.attention = MST_INTERRUPT;
    mst_restart_machine.attention(restart, 0, &view, false);
    effect = next_of(restart, MST_MACHINE_CANCEL);
    assert_int_equal(effect.head.tag, tag);
    mst_restart_machine.reply(restart, 0, tag, &(struct mst_reply){.status = MUSTER_ECANCELLED});
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_true(effect.head.request->round.seal);
    mst_restart_free(restart);

    /* It was over when the cancel came: the service's word counts. */
    restart = met(bid, &tag);
    mst_restart_machine.attention(restart, 0, &view, false);
    (void)next_of(restart, MST_MACHINE_CANCEL);
    reply_value(restart, tag, bid);
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(effect.head.request->command, MST_LIST);
    mst_restart_free(restart);
}

/* The run ends for all: it tells a fault, and stands at the seal without an order. */
static void gives_up(struct mst_restart *restart, const char *text, muster_status status)
{
    struct mst_restart_effect effect = next_of(restart, MST_MACHINE_CALL);

    assert_int_equal(effect.head.request->command, MST_FAULT);
    assert_int_equal(effect.head.request->fault.kind, MST_CAUSE_ABORTED);
    assert_int_equal(effect.head.request->fault.code, status);
    assert_memory_equal(effect.head.request->fault.text.data, text, strlen(text));
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_true(effect.head.request->round.seal);
    assert_int_equal(effect.head.request->round.number, 0); /* one that was refused did not count */
    assert_int_equal(effect.head.request->round.order_count, 0);
    /* What all contributed comes back: here it was this rank alone. */
    mst_restart_machine.reply(restart, 0, effect.head.tag,
                              &(struct mst_reply){.status = MUSTER_OK,
                                                  .value = effect.head.request->round.data,
                                                  .has_view = true,
                                                  .view = view_of(2, false)});
    effect = next(restart, MST_RESTART_FINISH);
    assert_int_equal(effect.status, status);
    assert_int_equal(effect.why, MST_WHY_ASSIGNMENT);
}

static void test_failed_assignment_ends_the_run_for_all(void **state)
{
    unsigned char bid[8];
    uint64_t tag;
    struct mst_restart *restart = met(bid, &tag);
    struct mst_restart_effect effect;

    (void)state;
    reply_value(restart, tag, bid);
    (void)lists(restart);
    mst_restart_assigned(restart, 0, (muster_status)-40, mst_slice_text("step 2: no"));
    gives_up(restart, "step 2: no", (muster_status)-40);
    mst_restart_free(restart);

    restart = met(bid, &tag);
    reply_value(restart, tag, bid);
    effect = lists(restart);
    effect.places[0].number = 5;
    mst_restart_assigned(restart, 0, MUSTER_OK, NOTHING);
    gives_up(restart, "the numbers of the assignment", MUSTER_EINVAL);
    mst_restart_free(restart);

    restart = met(bid, &tag);
    reply_value(restart, tag, bid);
    effect = lists(restart);
    effect.places[0].number = MUSTER_NUMBER_NONE;
    effect.places[1].number = MUSTER_NUMBER_NONE;
    mst_restart_assigned(restart, 0, MUSTER_OK, NOTHING);
    gives_up(restart, "the assignment left nobody", MUSTER_ETOOFEW);
    mst_restart_free(restart);
}

static void test_order_that_the_service_refuses_ends_the_run_for_all(void **state)
{
    unsigned char bid[8];
    uint64_t tag;
    struct mst_restart *restart = met(bid, &tag);
    struct mst_restart_effect effect;

    (void)state;
    reply_value(restart, tag, bid);
    (void)lists(restart);
    mst_restart_assigned(restart, 0, MUSTER_OK, NOTHING);
    effect = next_of(restart, MST_MACHINE_CALL);
    assert_int_equal(effect.head.request->round.number, 0);
    mst_restart_machine.reply(restart, 0, effect.head.tag,
                              &(struct mst_reply){.status = MUSTER_ELIMIT});
    gives_up(restart, "the order of the assignment", MUSTER_ELIMIT);
    mst_restart_free(restart);
}

static void test_no_memory_for_the_table_ends_the_run_for_all(void **state)
{
    unsigned char bid[8];
    uint64_t tag;

    (void)state;
    for (size_t fail_at = 2; fail_at <= 4; fail_at++) {
        struct mst_restart *restart;

        failing_mem_init(&memory, fail_at);
        restart = met(bid, &tag);
        reply_value(restart, tag, bid);
        assert_true(memory.failed);
        gives_up(restart, "no memory", MUSTER_ENOMEM);
        mst_restart_free(restart);
        assert_int_equal(memory.live, 0);
    }
}

static void test_end_of_the_session_while_assigning(void **state)
{
    unsigned char bid[8];
    uint64_t tag;
    struct mst_restart *restart = met(bid, &tag);

    (void)state;
    reply_value(restart, tag, bid);
    (void)lists(restart);
    mst_restart_machine.ended(restart, 0, MUSTER_EFENCED);
    assert_int_equal(next(restart, MST_RESTART_FINISH).status, MUSTER_EFENCED);
    mst_restart_assigned(restart, 0, MUSTER_OK, NOTHING); /* too late, and harmless */
    assert_null(mst_restart_machine.next(restart));
    mst_restart_free(restart);
}

static int after_each(void **state)
{
    (void)state;
    return memory.live == 0 ? 0 : -1;
}

static int before_each(void **state)
{
    (void)state;
    failing_mem_init(&memory, 0);
    return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, before_each, after_each)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_place_reads_as_it_was_written),
        TEST(test_what_is_no_place_is_refused),
        TEST(test_lost_places_stay_in_the_table),
        TEST(test_only_a_permutation_over_the_living_is_seated),
        TEST(test_elected_rank_seals_with_the_order),
        TEST(test_who_is_not_elected_goes_to_the_seal),
        TEST(test_previous_number_is_that_of_the_generation_before),
        TEST(test_a_loss_at_the_meeting_leads_to_the_seal),
        TEST(test_failed_assignment_ends_the_run_for_all),
        TEST(test_order_that_the_service_refuses_ends_the_run_for_all),
        TEST(test_no_memory_for_the_table_ends_the_run_for_all),
        TEST(test_end_of_the_session_while_assigning),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
