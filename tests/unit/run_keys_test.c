/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes of a run write for each other is read; anything else that a key may hold is refused.
 *
 * behaviour: nodes / Refused nodes */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/run_keys.h"

static bool read_key(const char *name, const char *value, struct mst_run_word *out)
{
    return mst_run_key_read(mst_slice_text(name), mst_slice_text(value), out);
}

static bool read_peer(const char *name, const char *value, struct mst_run_peer *out)
{
    return mst_run_peer_read(mst_slice_text(name), mst_slice_text(value), out);
}

static bool is(struct mst_slice slice, const char *text)
{
    return mst_slice_equal(slice, mst_slice_text(text));
}

static void what_is_written_is_read(void **state)
{
    static const uint32_t numbers[] = {0, 1, 7, UINT32_MAX - 1, UINT32_MAX};
    char room[MST_RUN_VALUE_ROOM], name[16];
    struct mst_run_word word;
    struct mst_run_peer peer;

    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        for (unsigned flags = 0; flags < 8; flags++) {
            struct mst_all all = {.done = (flags & 1) != 0,
                                  .runs = (flags & 2) != 0,
                                  .ender_gone = (flags & 4) != 0,
                                  .life = numbers[i]};

            mst_run_all_write(room, &all);
            assert_true(read_key("all", room, &word));
            assert_int_equal(word.key, MST_RUN_KEY_ALL);
            assert_true(word.all.done == all.done && word.all.runs == all.runs &&
                        word.all.ender_gone == all.ender_gone && word.all.life == all.life);
        }
        for (int number = 0; number <= MST_RUN_SIGNAL_MAX; number++) {
            mst_run_end_write(room, numbers[i], number);
            assert_true(read_key("end", room, &word));
            assert_int_equal(word.key, MST_RUN_KEY_END);
            assert_true(word.number == numbers[i] && word.code == number);
        }
        for (unsigned at = MST_PEER_RUNS; at <= MST_PEER_DONE; at++) {
            mst_run_peer_write(room, (enum mst_peer_state)at, numbers[i]);
            (void)snprintf(name, sizeof name, "%u", (unsigned)numbers[i]);
            assert_true(read_peer(name, room, &peer));
            assert_true(peer.state == at && peer.life == numbers[i] && peer.number == numbers[i]);
        }
    }
}

static void the_words_of_a_cause_and_of_a_life_are_kept(void **state)
{
    struct mst_run_word word;

    (void)state;
    assert_true(read_key("cause", "137 rank 1 (#2, node b3) was killed\nkind=signal 9", &word));
    assert_true(word.key == MST_RUN_KEY_CAUSE && word.code == 137);
    assert_true(is(word.text, "rank 1 (#2, node b3) was killed") &&
                is(word.report, "kind=signal 9"));
    assert_true(read_key("cause", "0 ", &word));
    assert_true(is(word.text, "") && is(word.report, ""));
    assert_true(read_key("cause", "255", &word));
    assert_true(read_key("master_port", "65535", &word));
    assert_true(word.key == MST_RUN_KEY_MASTER_PORT && word.number == 65535);
    assert_true(read_key("life/3", "too few ranks 1 2", &word));
    assert_true(word.key == MST_RUN_KEY_LIFE && word.number == 3 &&
                is(word.text, "too few ranks 1 2"));
    assert_true(read_key("finished/0", "1", &word));
    assert_true(word.key == MST_RUN_KEY_FINISHED && word.number == 0);
    assert_true(read_key("restarts", "4", &word));
    assert_true(word.key == MST_RUN_KEY_RESTARTS && word.number == 4);
}

static const struct {
    const char *name, *value;
} no_words[] = {
    {"all", ""},
    {"all", "1 0 0"},
    {"all", "1 0 0 "},
    {"all", "1 0 0 1 "},
    {"all", "1 0 0 1 1"},
    {"all", "2 0 0 1"},
    {"all", "1  0 0 1"},
    {"all", " 1 0 0 1"},
    {"all", "1 0 0 4294967296"},
    {"all", "1 0 0 -1"},
    {"all", "x 0 0 1"},
    {"all/", "1 0 0 1"},
    {"finished/", "1"},
    {"finished/x", "1"},
    {"finished/-1", "1"},
    {"finished/4294967296", "1"},
    {"finished/1/2", "1"},
    {"life/", "why"},
    {"life/ 1", "why"},
    {"life/99999999999999999999999", "why"},
    {"master_port", ""},
    {"master_port", "0"},
    {"master_port", "65536"},
    {"restarts", ""},
    {"restarts", "-1"},
    {"restarts", "1 "},
    {"restarts", "4294967296"},
    {"end", ""},
    {"end", "soon"},
    {"end", "0"},
    {"end", "0 "},
    {"end", "0 9 9"},
    {"end", "0 65"},
    {"end", "0 -9"},
    {"end", "0 4294967305"}, /* 9, if it were cut */
    {"end", "-1 9"},
    {"end", "4294967296 9"},
    {"cause", ""},
    {"cause", "text"},
    {"cause", "-1 text"},
    {"cause", "256 text"},
    {"cause", "\n1 text"},
    {"nproc", "2"},
    {"", "1"},
};

/* Keys of a run hold what no node writes. They are refused. */
static void what_no_node_writes_is_refused(void **state)
{
    struct mst_run_word word;

    (void)state;
    for (size_t i = 0; i < sizeof no_words / sizeof no_words[0]; i++) {
        if (read_key(no_words[i].name, no_words[i].value, &word)) {
            fail_msg("'%s' = '%s' was read", no_words[i].name, no_words[i].value);
        }
    }
}

/* "2 ranks 0, 1: in barrier 'a'" for each line that was taken. */
static void takes(const char *value, const char *expected)
{
    struct mst_slice left = mst_slice_text(value);
    struct mst_run_waits line;
    char text[256] = "";

    while (mst_run_waits_take(&left, 6, &line)) {
        size_t used = strlen(text);

        (void)snprintf(text + used, sizeof text - used, "%s%u %.*s: %.*s; ",
                       line.silent ? "silent " : "", (unsigned)line.count, (int)line.ranks.size,
                       (const char *)line.ranks.data, (int)line.what.size,
                       (const char *)line.what.data);
    }
    assert_int_equal(left.size, 0);
    assert_string_equal(text, expected);
}

static void ranks_that_wait_are_read_line_by_line(void **state)
{
    static const char *const no_counts[] = {"",   "+6",  " 6", "6 ",         "-1",
                                            "7",  "6x",  "x",  "4294967302", /* 6, if it were cut */
                                            "6,", "\t6", "0x6"};

    (void)state;
    takes("", "");
    takes("\n\n\t\t", "");
    takes("2\tranks 0, 1\tin barrier 'a'\n1\trank 2\tin muster\n",
          "2 ranks 0, 1: in barrier 'a'; 1 rank 2: in muster; ");
    takes("silent\trank 2\n2\tx\ty\nsilently\tz", "silent 0 rank 2: ; 2 x: y; ");
    takes("6", "6 : ; ");
    takes("5\tx\n1", "5 x: ; 1 : ; ");
    takes("1\ta\tb\t6\t7\n0\tc\td", "1 a: b; 0 c: d; ");
    for (size_t i = 0; i < sizeof no_counts / sizeof no_counts[0]; i++) {
        char value[64];

        (void)snprintf(value, sizeof value, "%s\tall\tin a\n3\tc\td\n", no_counts[i]);
        takes(value, "3 c: d; ");
    }
}

/* Keys of a run describe a node that is none. They are refused. */
static void a_node_that_is_none_is_refused(void **state)
{
    static const struct {
        const char *name, *value;
    } peers[] = {
        {"", "runs 0"},
        {"x", "runs 0"},
        {"-1", "runs 0"},
        {"18446744073709551615", "runs 0"},
        {"4294967296", "done 0"},
        {"0", ""},
        {"0", "runs"},
        {"0", "runs "},
        {"0", "run 0"},
        {"0", "runs 0 0"},
        {"0", "Done 0"},
        {"0", "done 4294967296"},
        {"0", " done 0"},
        {"0/1", "done 0"},
        {"0", "done -1"},
    };
    struct mst_run_peer peer;

    (void)state;
    for (size_t i = 0; i < sizeof peers / sizeof peers[0]; i++) {
        if (read_peer(peers[i].name, peers[i].value, &peer)) {
            fail_msg("'%s' = '%s' was read", peers[i].name, peers[i].value);
        }
    }
}

/* "0:17 +3 " for each that was taken. */
static void takes_plain(const char *value, const char *expected)
{
    struct mst_slice left = mst_slice_text(value);
    struct mst_run_plain one;
    char text[128] = "";

    while (mst_run_plain_take(&left, &one)) {
        size_t used = strlen(text);

        (void)snprintf(text + used, sizeof text - used, one.more > 0 ? "+%u " : "%u:%u ",
                       one.more > 0 ? (unsigned)one.more : (unsigned)one.index, (unsigned)one.pid);
    }
    assert_string_equal(text, expected);
}

/* An agent names its ranks that run without muster. They are read up to the first word that no
 * agent writes. [program / muster status] */
static void ranks_without_muster_are_read_one_by_one(void **state)
{
    static const char *const no_ranks[] = {
        "",    ":",  "1",  "1:",           ":1", "-1:1",  "1:-1",        "1:x",
        "x:1", "+0", "+x", "4294967295:1", "+",  "1:1:1", "1:2147483648"};

    (void)state;
    takes_plain("", "");
    takes_plain("0:17", "0:17 ");
    takes_plain("0:17 3:2147483647 +4294967295", "0:17 3:2147483647 +4294967295 ");
    for (size_t i = 0; i < sizeof no_ranks / sizeof no_ranks[0]; i++) {
        char value[64];

        (void)snprintf(value, sizeof value, "7:8 %s 9:10", no_ranks[i]);
        takes_plain(value, "7:8 ");
    }
}

/* An agent names its ranks that a signal has stopped. They are read up to the first word that no
 * agent writes. [program / muster status] */
static void stopped_ranks_are_read_one_by_one(void **state)
{
    static const char *const no_ranks[] = {"",     "1:2",    "1:2:",  "1::3",
                                           ":2:3", "1:2:-3", "1:2:x", "1:2:3:4"};
    struct mst_run_stopped one;

    (void)state;
    for (size_t i = 0; i < sizeof no_ranks / sizeof no_ranks[0]; i++) {
        struct mst_slice value = mst_slice_text(no_ranks[i]);

        assert_false(mst_run_stopped_take(&value, &one));
    }
    struct mst_slice value = mst_slice_text("7:8:1200 9:10:0");

    assert_true(mst_run_stopped_take(&value, &one));
    assert_true(one.index == 7 && one.pid == 8 && one.for_ms == 1200);
    assert_true(mst_run_stopped_take(&value, &one));
    assert_true(one.index == 9 && one.pid == 10 && one.for_ms == 0);
    assert_false(mst_run_stopped_take(&value, &one));
}

/* An agent names the processes that wait in a front for others. They are read up to the first line
 * that no agent writes. [program / muster status] */
static void waits_in_a_front_are_read_one_by_one(void **state)
{
    static const char *const no_waits[] = {"",          "1\t2\t3",   "1\t2\t3\t",  "x\t2\t3\tk",
                                           "1\t\t3\tk", "1\t2\t\tk", "1\t2\t-3\tk"};
    struct mst_run_front_wait one;

    (void)state;
    for (size_t i = 0; i < sizeof no_waits / sizeof no_waits[0]; i++) {
        struct mst_slice value = mst_slice_text(no_waits[i]);

        assert_false(mst_run_front_wait_take(&value, &one));
    }
    struct mst_slice value =
        mst_slice_text("7\t8\t1200\tfor the key 'k'\n\t9\t0\tat the barrier 'b'\n+3");

    assert_true(mst_run_front_wait_take(&value, &one));
    assert_true(one.index == 7 && one.pid == 8 && one.for_ms == 1200);
    assert_true(mst_slice_is(one.what, "for the key 'k'"));
    assert_true(mst_run_front_wait_take(&value, &one));
    assert_true(one.index == MST_RUN_NO_INDEX && one.pid == 9 && one.for_ms == 0);
    assert_true(mst_slice_is(one.what, "at the barrier 'b'") && one.more == 0);
    assert_true(mst_run_front_wait_take(&value, &one) && one.more == 3);
    assert_false(mst_run_front_wait_take(&value, &one));
}

/* The first node says how many restarts are used, and of how many. What is no such pair, or more
 * than there may be, is refused. [program / muster why] */
static void restarts_are_read_as_a_pair(void **state)
{
    static const char *const no_pairs[] = {"", "1", "1 ", " 1", "1 x", "3 2", "-1 2", "1 2 3"};
    uint32_t used, most;

    (void)state;
    for (size_t i = 0; i < sizeof no_pairs / sizeof no_pairs[0]; i++) {
        assert_false(mst_run_restarts_read(mst_slice_text(no_pairs[i]), &used, &most));
    }
    assert_true(mst_run_restarts_read(mst_slice_text("2 3"), &used, &most));
    assert_true(used == 2 && most == 3);
    assert_true(mst_run_restarts_read(mst_slice_text("0 0"), &used, &most));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(the_words_of_a_cause_and_of_a_life_are_kept),
        cmocka_unit_test(what_no_node_writes_is_refused),
        cmocka_unit_test(a_node_that_is_none_is_refused),
        cmocka_unit_test(ranks_without_muster_are_read_one_by_one),
        cmocka_unit_test(stopped_ranks_are_read_one_by_one),
        cmocka_unit_test(waits_in_a_front_are_read_one_by_one),
        cmocka_unit_test(restarts_are_read_as_a_pair),
        cmocka_unit_test(ranks_that_wait_are_read_line_by_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
