/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent says and reads while all its ranks wait, and what it says again to a service that
 * does not know a hang of no rank. The service is this test: its answers are of moments and
 * versions that no process can be brought to.
 *
 * behaviour: restart / Hangs */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "launch/hang/stall.h"
#include "launch/hang/waits.h"

#define MS UINT64_C(1000000)
#define SOFT 800

enum { RANKS = 6, LOCAL = 2, KEYS_MAX = 4, MANY = 300 };

/* ---- the client ---- */

static char handle; /* stands for a client: nobody looks into it */
static uint64_t now_ns = 1000 * MS;
static struct mst_view view = {.index = 7};
static struct mst_request asked; /* the last request; its value and its key: */
static char asked_value[4096], asked_key[64], asked_after[64];
static struct mst_lib_post *asked_post, *list_post;
static unsigned puts_count, lists_count, faults_count;

static muster_client *client(void)
{
    return (muster_client *)(void *)&handle;
}

void mst_lib_lock(muster_client *any)
{
    (void)any;
}

void mst_lib_unlock(muster_client *any)
{
    (void)any;
}

uint64_t mst_lib_now_ns(void)
{
    return now_ns;
}

const struct mst_view *mst_lib_view(const muster_client *any)
{
    (void)any;
    return &view;
}

void mst_lib_post_drop(muster_client *any, struct mst_lib_post *post)
{
    (void)any;
    post->open = false;
}

void mst_lib_timer_set(muster_client *any, struct mst_lib_timer *timer, uint64_t at_ns)
{
    (void)any;
    timer->at_ns = at_ns;
}

void mst_lib_timer_stop(struct mst_lib_timer *timer)
{
    timer->at_ns = 0;
}

static void copy(char *out, size_t room, struct mst_slice from)
{
    assert_true(from.size < room);
    memcpy(out, from.data, from.size);
    out[from.size] = '\0';
}

muster_status mst_lib_post(muster_client *any, const struct mst_request *request,
                           uint64_t deadline_ns, struct mst_lib_post *post)
{
    (void)any;
    asked = *request;
    asked_post = post;
    post->open = true;
    if (request->command == MST_WRITE) {
        assert_int_equal(deadline_ns, now_ns + SOFT / 2 * MS); /* later it says nothing of now */
        copy(asked_key, sizeof asked_key, request->write.ops[0].key);
        copy(asked_value, sizeof asked_value, request->write.ops[0].value);
        puts_count++;
    } else if (request->command == MST_LIST) {
        copy(asked_after, sizeof asked_after, request->list.after);
        list_post = post;
        lists_count++;
    } else {
        faults_count++;
    }
    return MUSTER_OK;
}

static void answer(struct mst_lib_post *post, const struct mst_reply *reply)
{
    post->open = false;
    post->complete(post->ctx, reply);
}

/* ---- ranks that wait ---- */

struct stage {
    struct mst_monitor monitor;
    struct mst_watched ranks[LOCAL];
    struct mst_waits waits;
    char text[256];
};

static void add_rank(struct stage *stage, struct mst_watched *one, uint32_t rank, uint32_t ranks,
                     const char *what)
{
    int fd;

    assert_int_equal(mst_page_create(&one->page, &fd), MUSTER_OK);
    (void)close(fd);
    atomic_store(&one->page->rank, rank);
    atomic_store(&one->page->ranks, ranks);
    mst_page_wait_begin(one->page, what);
    mst_monitor_add(&stage->monitor, one);
    one->generation = 3;
    one->hang.last =
        (struct mst_hang_sample){.turn = MST_PHASE_FUNCTION, .soft_ms = SOFT, .waits = 1};
}

static void stage_open(struct stage *stage, uint32_t first)
{
    *stage = (struct stage){.text = ""};
    mst_monitor_init(&stage->monitor, &(struct mst_monitor_events){.ctx = NULL});
    for (uint32_t i = 0; i < LOCAL; i++) {
        add_rank(stage, &stage->ranks[i], first + i, RANKS, "barrier 'a'");
    }
    puts_count = lists_count = 0;
    asked_post = list_post = NULL;
}

static void stage_close(struct stage *stage)
{
    mst_monitor_stop(&stage->monitor);
    for (uint32_t i = 0; i < LOCAL; i++) {
        mst_page_unmap(stage->ranks[i].page);
    }
}

static bool look(struct stage *stage)
{
    return mst_waits_look(&stage->waits, client(), &stage->monitor, &stage->ranks[0], now_ns,
                          stage->text, sizeof stage->text);
}

struct told {
    const char *value;
    uint64_t age_ms;
};

/* The next reading brings these keys. */
static bool reads(struct stage *stage, const struct told *told, uint32_t count)
{
    struct mst_item items[KEYS_MAX];
    const struct mst_reply done = {.status = MUSTER_OK};
    struct mst_reply reply = {.status = MUSTER_OK, .items = items, .item_count = count};
    bool found;

    now_ns += SOFT / 4 * MS;
    found = look(stage);
    if (found) {
        return true;
    }
    for (uint32_t i = 0; i < count; i++) {
        items[i] = (struct mst_item){.kind = MST_ITEM_KEY,
                                     .name = mst_slice_text("muster/waits/0"),
                                     .value = mst_slice_text(told[i].value),
                                     .number = told[i].age_ms};
    }
    answer(&stage->waits.put, &done);
    answer(list_post, &reply);
    return look(stage);
}

static const struct told all[] = {{"2\tranks 0, 1\tin barrier 'a'\n", 10},
                                  {"1\trank 2\tin barrier 'b'\n1\trank 3\tin barrier 'a'\n", 300},
                                  {"2\tranks 4, 5\tin bar\x1brier 'b'\n", 399}};

/* An agent writes what its own ranks wait for. */
static void what_the_own_ranks_wait_for_is_written(void **state)
{
    struct stage stage;

    (void)state;
    stage_open(&stage, 2);
    assert_false(look(&stage));
    assert_int_equal(puts_count, 1);
    assert_int_equal(lists_count, 0); /* rank 0 is watched elsewhere */
    assert_string_equal(asked_key, "muster/waits/7");
    assert_string_equal(asked_value, "2\tranks 2, 3\tin barrier 'a'\n");
    assert_int_equal(asked.write.generation, 3);
    assert_false(look(&stage)); /* not at each look */
    now_ns += SOFT / 4 * MS - 1;
    assert_false(look(&stage));
    assert_int_equal(puts_count, 1);
    asked_post->open = false;
    now_ns += 1;
    assert_false(look(&stage));
    assert_int_equal(puts_count, 2);
    stage_close(&stage);
}

/* All ranks wait, three times in a row. Only then do all wait. */
static void all_ranks_three_times_in_a_row(void **state)
{
    struct stage stage;

    (void)state;
    stage_open(&stage, 0);
    assert_false(reads(&stage, all, 3));
    assert_false(reads(&stage, all, 3));
    assert_false(reads(&stage, all, 2)); /* one is missing: from the beginning */
    assert_false(reads(&stage, all, 3));
    assert_false(reads(&stage, all, 3));
    assert_true(reads(&stage, all, 3));
    assert_string_equal(stage.text, "any of them, as all wait: 3 ranks wait in barrier 'a', rank 2 "
                                    "waits in barrier 'b', ranks 4, 5 wait in bar?rier 'b'");
    stage_close(&stage);
}

/* A report of waiting ranks is old. It does not count: it may be over, and twice in a row is not
 * thrice with a pause in it. */
static void what_was_said_long_ago_does_not_count(void **state)
{
    struct told old[] = {all[0], all[1], {all[2].value, SOFT / 2}};
    struct stage stage;

    (void)state;
    stage_open(&stage, 0);
    for (unsigned i = 0; i < 5; i++) {
        assert_false(reads(&stage, old, 3));
    }
    assert_false(reads(&stage, all, 3));
    assert_false(reads(&stage, all, 3));
    now_ns += SOFT / 2 * MS;
    assert_false(reads(&stage, all, 3));
    assert_false(reads(&stage, all, 3));
    assert_true(reads(&stage, all, 3));
    now_ns += SOFT / 2 * MS;
    assert_false(look(&stage));
    stage_close(&stage);
}

/* Reports are of another generation. The count begins anew. */
static void of_another_generation_it_begins_anew(void **state)
{
    struct stage stage;

    (void)state;
    stage_open(&stage, 0);
    assert_false(reads(&stage, all, 3));
    assert_false(reads(&stage, all, 3));
    stage.ranks[0].generation = stage.ranks[1].generation = 4;
    assert_false(reads(&stage, all, 3));
    assert_int_equal(asked.list.generation, 4);
    stage_close(&stage);
}

/* The reports of agents fill several pages. All are read. */
static void it_reads_page_after_page(void **state)
{
    struct mst_item item = {.kind = MST_ITEM_KEY, .name = mst_slice_text("muster/waits/12")};
    const struct mst_reply page = {.status = MUSTER_OK, .items = &item, .item_count = 1, .next = 1};
    struct stage stage;

    (void)state;
    stage_open(&stage, 0);
    item.value = mst_slice_text("6\tranks 0-5\tin barrier 'a'\n");
    assert_false(look(&stage));
    assert_string_equal(asked_after, "");
    answer(list_post, &page);
    assert_string_equal(asked_after, "muster/waits/12");
    assert_int_equal(lists_count, 2);
    answer(list_post, &(struct mst_reply){.status = MUSTER_OK});
    assert_int_equal(stage.waits.in_a_row, 1);
    now_ns += SOFT / 4 * MS;
    assert_false(look(&stage));
    answer(list_post, &(struct mst_reply){.status = MUSTER_EFENCED});
    assert_int_equal(stage.waits.in_a_row, 0);
    stage_close(&stage);
}

/* Many ranks wait for different things, which do not fit into a key. All are counted. */
static void many_ranks_that_wait_for_different_things_are_all_counted(void **state)
{
    static struct mst_watched many[MANY];
    struct stage stage;

    (void)state;
    for (uint32_t count = 1; count <= MANY; count = count * 3 / 2 + 1) {
        struct mst_item item = {.kind = MST_ITEM_KEY, .name = mst_slice_text("muster/waits/7")};

        stage_open(&stage, 0);
        mst_monitor_stop(&stage.monitor);
        for (uint32_t i = 0; i < count; i++) {
            char what[128];

            (void)snprintf(
                what, sizeof what,
                "barrier '%" PRIu32 " and a name that is as long as can be shown at all'", i);
            many[i] = (struct mst_watched){0};
            add_rank(&stage, &many[i], 4 * i, count, what);
        }
        assert_false(mst_waits_look(&stage.waits, client(), &stage.monitor, &many[0], now_ns,
                                    stage.text, sizeof stage.text));
        assert_int_equal(asked_value[strlen(asked_value) - 1], '\n');
        item.value = mst_slice_text(asked_value);
        answer(list_post,
               &(struct mst_reply){.status = MUSTER_OK, .items = &item, .item_count = 1});
        assert_int_equal(stage.waits.found.sum, count);
        assert_int_equal(stage.waits.in_a_row, 1);
        for (uint32_t i = 0; i < count; i++) {
            mst_page_unmap(many[i].page);
        }
        stage_close(&stage);
    }
}

/* A client writes values that no agent writes. They change nothing. */
static void values_that_no_agent_writes(void **state)
{
    static const char *const values[] = {"",
                                         "\n\n\t\t",
                                         "6",
                                         "-1\tall\tin a\n6\tall\tin a\n",
                                         "6x",
                                         "18446744073709551622",
                                         "7\tall\tin a",
                                         "\t\t\t\t\n5\t\n\n1",
                                         "+6\tall\tin a",
                                         " 6\tall\tin a"};

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const struct told told = {values[i], 0};
        struct stage stage;
        bool sums_up = i == 2 || i == 3 || i == 7;

        stage_open(&stage, 0);
        (void)reads(&stage, &told, 1);
        (void)reads(&stage, &told, 1);
        assert_int_equal(reads(&stage, &told, 1), sums_up);
        stage_close(&stage);
    }
}

/* ---- all but one, which never called muster ---- */

/* An agent has a silent rank. It is written apart. */
static void a_silent_rank_is_written_apart(void **state)
{
    struct stage stage;

    (void)state;
    stage_open(&stage, 0);
    stage.ranks[0].hang.last.waits = 0;
    assert_false(look(&stage));
    assert_string_equal(asked_value, "silent\trank 0\n1\trank 1\tin barrier 'a'\n");
    assert_int_equal(lists_count, 1);
    stage_close(&stage);
}

/* All ranks wait but one, which is silent. They wait for that one. */
static void all_others_wait_for_the_one_that_is_silent(void **state)
{
    static const struct told told[] = {{"2\tranks 0, 1\tin barrier 'a'\n", 10},
                                       {"silent\tra\x1bnk 2\n1\trank 3\tin barrier 'a'\n", 300},
                                       {"2\tranks 4, 5\tin barrier 'a'\n", 399}};
    struct stage stage;

    (void)state;
    stage_open(&stage, 0);
    assert_false(reads(&stage, told, 3));
    assert_false(reads(&stage, told, 3));
    assert_false(reads(&stage, told, 2)); /* one is missing: from the beginning */
    assert_false(reads(&stage, told, 3));
    assert_false(reads(&stage, told, 3));
    assert_true(reads(&stage, told, 3));
    assert_string_equal(stage.text, "not one call of muster by ra?nk 2 in this attempt, all others "
                                    "wait: 5 ranks wait in barrier 'a'");
    stage_close(&stage);
}

/* Several ranks are silent, or all are silent or have returned. Nothing is reported: they may
 * compute. */
static void of_several_silent_ranks_nothing_is_said(void **state)
{
    static const struct told told[][3] = {
        {{"2\tranks 0, 1\tin barrier 'a'\n", 10},
         {"silent\trank 2\n1\trank 3\tin barrier 'a'\n", 300},
         {"silent\trank 4\n1\trank 5\tin barrier 'a'\n", 399}},
        {{"6\tranks 0-5\tin barrier 'a'\n", 0}, {"silent\trank 4\n", 0}, {"", 0}},
        {{"silent\trank 0\nsilent\trank 1\n", 0},
         {"silent\trank 2\nsilent\trank 3\n", 0},
         {"silent\trank 4\nsilent\trank 5\n", 0}},
        {{"2\tranks 0, 1\tfor the end of the run\n", 0},
         {"silent\trank 2\n", 0},
         {"3\tranks 3-5\tfor the end of the run\n", 0}}};

    (void)state;
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        struct stage stage;

        stage_open(&stage, 0);
        for (unsigned turn = 0; turn < 5; turn++) {
            assert_false(reads(&stage, told[i], 3));
        }
        stage_close(&stage);
    }
}

/* ---- a hang of no rank ---- */

/* A service does not know the report of a hang of no rank in particular. It gets that of a rank
 * instead. */
static void a_service_that_does_not_know_it_is_told_of_a_rank(void **state)
{
    struct mst_stalled is = {.generation = 3, .pid = 50, .index = 5, .text = "made no progress"};
    struct mst_stall stall = {.text = ""};

    (void)state;
    faults_count = 0;
    mst_stall_set(&stall, client(), &is);
    assert_int_equal(asked.fault.index, MST_INDEX_ANY);
    answer(asked_post, &(struct mst_reply){.status = MUSTER_OK, .number = 0});
    assert_int_equal(faults_count, 2);
    assert_int_equal(asked.fault.index, 5);
    assert_int_equal(asked.fault.pid, 50);
    assert_true(stall.delivery.owed);
    answer(asked_post, &(struct mst_reply){.status = MUSTER_OK, .number = 0});
    assert_int_equal(faults_count, 2); /* of that one it is gone */
    assert_false(stall.delivery.owed);

    is.generation = 4;
    mst_stall_set(&stall, client(), &is);
    answer(asked_post, &(struct mst_reply){.status = MUSTER_OK, .number = 1});
    assert_int_equal(faults_count, 3);
    assert_false(stall.delivery.owed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_own_ranks_wait_for_is_written),
        cmocka_unit_test(all_ranks_three_times_in_a_row),
        cmocka_unit_test(what_was_said_long_ago_does_not_count),
        cmocka_unit_test(of_another_generation_it_begins_anew),
        cmocka_unit_test(it_reads_page_after_page),
        cmocka_unit_test(many_ranks_that_wait_for_different_things_are_all_counted),
        cmocka_unit_test(values_that_no_agent_writes),
        cmocka_unit_test(a_silent_rank_is_written_apart),
        cmocka_unit_test(all_others_wait_for_the_one_that_is_silent),
        cmocka_unit_test(of_several_silent_ranks_nothing_is_said),
        cmocka_unit_test(a_service_that_does_not_know_it_is_told_of_a_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
