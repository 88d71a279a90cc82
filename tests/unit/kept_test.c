/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a run, and what is told of it afterwards.
 *
 * behaviour: program / muster why */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "view/kept.h"
#include "view/told.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define TEXT_BYTES 1024

enum { MANY = 256, BEGAN_MS = 1000000, WRITTEN_MS = 1060000 };

static struct mst_item sealed(uint64_t number, uint32_t before, uint32_t after, uint64_t ago_ms)
{
    return (struct mst_item){.kind = MST_ITEM_INCIDENT,
                             .incident = MST_INCIDENT_SEALED,
                             .revision = number,
                             .number = number,
                             .arrived = before,
                             .expected = after,
                             .total = before > 0 ? 1 : 0,
                             .interrupt_ms = before > 0 ? 3 : 0,
                             .gather_ms = before > 0 ? 40 : 0,
                             .who = {.index = MST_INDEX_ANY,
                                     .rank = MST_RANK_NONE,
                                     .node = MST_NODE_NONE,
                                     .heard_ms = ago_ms}};
}

static struct mst_item lost(uint64_t number, const char *text, uint64_t ago_ms)
{
    return (struct mst_item){.kind = MST_ITEM_INCIDENT,
                             .incident = MST_INCIDENT_LOST,
                             .revision = number,
                             .number = 1,
                             .value = mst_slice_text(text),
                             .told_by = 1,
                             .who = {.role = MST_ROLE_RANK,
                                     .index = 0,
                                     .rank = 0,
                                     .node = 0,
                                     .incarnation = 4,
                                     .pid = 77,
                                     .host = mst_slice_text("b2"),
                                     .cause = MST_CAUSE_SIGNAL,
                                     .code = 9,
                                     .heard_ms = ago_ms}};
}

/* The file that has these, as a reader gets it. */
static json_t *file_of(struct mst_item *items, size_t count, size_t room)
{
    const struct mst_items history = {.items = items, .count = count};
    json_t *run = mst_kept_new("train", "b1", 4242, BEGAN_MS), *read;
    char *line;

    assert_true(mst_kept_put_history(run, &history, WRITTEN_MS));
    line = mst_kept_line(run, room);
    assert_non_null(line);
    assert_true(strlen(line) <= room);
    read = mst_kept_read(line, strlen(line));
    assert_non_null(read);
    free(line);
    json_decref(run);
    return read;
}

static void expect_sentence(const struct mst_item *incident, const char *wanted)
{
    char line[1024];
    struct mst_text text = mst_text_in(line, sizeof(line));

    mst_story_sentence(&text, incident);
    assert_string_equal(line, wanted);
}

/* Incidents are put into a file and read again. They say the same, and are as old as the run was
 * when it ended. */
static void what_is_kept_is_read_again(void **state)
{
    struct mst_item items[] = {sealed(1, 0, 4, 60000), lost(2, "nan", 500), sealed(3, 4, 3, 100)};
    json_t *run = file_of(items, LENGTH(items), MST_KEPT_BYTES_MAX);
    struct mst_items read = {0};

    (void)state;
    assert_true(mst_kept_history(run, WRITTEN_MS + 2000, &read));
    assert_int_equal(read.count, LENGTH(items));
    expect_sentence(&read.items[0], "started with 4 ranks, generation 1");
    expect_sentence(&read.items[1], "rank 0 (#0) on b2 was killed by signal 9 (Killed): nan");
    expect_sentence(&read.items[2],
                    "restarted with 3 of 4 ranks, generation 3: 3 ms until the first rank was out "
                    "of its function, 40 ms until all were there");
    assert_int_equal(read.items[0].who.heard_ms, 62000);
    assert_int_equal(read.items[1].who.pid, 77);
    assert_int_equal(read.items[1].who.incarnation, 4);
    assert_int_equal(read.items[1].told_by, 1);
    assert_int_equal(read.items[2].told_by, 0);
    assert_int_equal(read.items[2].who.node, MST_NODE_NONE);
    assert_memory_equal(read.items[1].value.data, "nan", 3);
    mst_items_fini(&read);
    json_decref(run);
}

/* The text of an incident has bytes of no text, a NUL among them. The file has them all; the story,
 * its JSON and its page are made. */
static void bytes_of_no_text_are_kept(void **state)
{
    static const char words[] = "a\0b\033\xff";
    struct mst_item items[] = {lost(1, "", 500)};
    struct mst_told told = {.job = "train"};
    char *text;

    (void)state;
    items[0].value = mst_slice_of(words, 3);
    told.run = file_of(items, LENGTH(items), MST_KEPT_BYTES_MAX);
    assert_true(mst_kept_history(told.run, WRITTEN_MS, &told.history));
    assert_int_equal(told.history.items[0].value.size, 3);
    assert_memory_equal(told.history.items[0].value.data, words, 3);
    text = mst_told_json(&told);
    assert_non_null(text);
    assert_non_null(strstr(text, "(Killed): a\\\\x00b\""));
    free(text);
    text = mst_told_page(&told);
    assert_non_null(text);
    assert_non_null(strstr(text, "(Killed): a\\x00b<"));
    free(text);
    mst_told_fini(&told);
}

/* A service remembers many more small incidents than a file has room for. The file is full, of the
 * last ones, and made in no time. */
static void a_long_history_is_put_into_a_file_at_once(void **state)
{
    enum { ALL = 65536 };
    const size_t room = MST_KEPT_BYTES_MAX - MST_KEPT_REPORT_ROOM;
    struct mst_items history = {.items = calloc(ALL, sizeof(struct mst_item)), .count = ALL};
    json_t *run = mst_kept_new("train", "b1", 4242, BEGAN_MS), *list;
    clock_t began = clock();
    char *line;

    (void)state;
    assert_non_null(history.items);
    for (uint32_t i = 0; i < ALL; i++) {
        history.items[i] = sealed(i + 1, 0, 0, ALL - i);
    }
    assert_true(mst_kept_put_history(run, &history, WRITTEN_MS));
    line = mst_kept_line(run, room);
    assert_non_null(line);
    assert_in_range(strlen(line), room - 200, room);
    list = json_object_get(run, "incidents");
    assert_int_equal(json_integer_value(json_object_get(
                         json_array_get(list, json_array_size(list) - 1), "number")),
                     ALL);
    assert_true((clock() - began) / (CLOCKS_PER_SEC / 1000) < 250);
    free(line);
    free(history.items);
    json_decref(run);
}

/* More incidents with long texts happen than a file has room for. It has the last ones, and says
 * that what came before is not remembered. */
static void a_full_file_has_the_last_ones(void **state)
{
    static char words[TEXT_BYTES + 1];
    static struct mst_item items[MANY];
    struct mst_told told = {.job = "train"};
    char *text;

    (void)state;
    memset(words, 'x', TEXT_BYTES);
    for (uint32_t i = 0; i < MANY; i++) {
        items[i] = lost(i + 1, words, MANY - i);
    }
    told.run = file_of(items, MANY, MST_KEPT_BYTES_MAX - MST_KEPT_REPORT_ROOM);
    assert_true(mst_kept_history(told.run, WRITTEN_MS, &told.history));
    assert_true(told.history.count > 30 && told.history.count < MANY);
    assert_int_equal(told.history.items[told.history.count - 1].revision, MANY);
    text = mst_told_text(&told);
    assert_non_null(strstr(text, "what came before is not remembered\n"));
    free(text);
    mst_told_fini(&told);
}

/* A file is damaged, is of something else, or has numbers that make no sense. It is refused, or
 * told as far as it makes sense. */
static void what_makes_no_sense_is_refused(void **state)
{
    static const char *const no_run[] = {"",
                                         "{",
                                         "[]",
                                         "{}",
                                         "{\"job\":3,\"began_ms\":1,\"incidents\":[]}",
                                         "{\"job\":\"a\",\"incidents\":[]}",
                                         "{\"job\":\"a\",\"began_ms\":1,\"incidents\":{}}"};
    static const char odd[] = "{\"job\":\"a\",\"began_ms\":-1,\"written_ms\":\"x\",\"incidents\":["
                              "3,{},{\"what\":\"lost\","
                              "\"ago_ms\":-5,\"index\":99999999999,\"host\":7,\"cause\":\"flood\"},"
                              "{\"what\":\"melted\"}]}";
    struct mst_told told = {.job = "a"};
    char *text;

    (void)state;
    for (size_t i = 0; i < LENGTH(no_run); i++) {
        assert_null(mst_kept_read(no_run[i], strlen(no_run[i])));
    }
    told.run = mst_kept_read(odd, strlen(odd));
    assert_non_null(told.run);
    assert_true(mst_kept_history(told.run, mst_kept_until_ms(told.run), &told.history));
    assert_int_equal(told.history.count, 4);
    text = mst_told_text(&told);
    assert_non_null(strstr(text, "something that this version does not know\n"));
    free(text);
    text = mst_told_page(&told);
    assert_non_null(text);
    free(text);
    mst_told_fini(&told);
}

static void expect_ending(json_t *run, bool runs, const char *wanted)
{
    const struct mst_told told = {.job = "train", .run = run, .runs = runs};
    char line[1024];
    struct mst_text text = mst_text_in(line, sizeof(line));

    mst_told_ending(&text, &told);
    assert_string_equal(line, wanted);
}

static json_t *report(const char *ending, int code, const char *message)
{
    return json_pack("{s:s, s:i, s:{s:s?}}", "ending", ending, "exit_code", code, "first_cause",
                     "message", message);
}

/* A run has ended, was killed, or goes on. The story says which, and of a run without an end until
 * when it is known. */
static void the_end_is_told(void **state)
{
    struct mst_item items[] = {sealed(1, 0, 4, 10)};
    json_t *run = file_of(items, LENGTH(items), MST_KEPT_BYTES_MAX);

    (void)state;
    expect_ending(run, true,
                  "the run still goes on: this is what was known at 1970-01-01 00:17:40 UTC");
    expect_ending(run, false,
                  "no end is recorded, muster run and its service were killed or their host "
                  "failed: this is what was known at 1970-01-01 00:17:40 UTC");
    json_object_set_new(run, "orphaned_ms", json_integer(WRITTEN_MS + 1000));
    expect_ending(run, false, "muster run was killed");
    assert_int_equal(mst_kept_until_ms(run), WRITTEN_MS + 1000);
    json_object_set_new(run, "report", report("failed", 3, "first cause: #0"));
    expect_ending(run, false, "the run failed with exit code 3: first cause: #0");
    json_object_set_new(run, "report", report("stopped", 143, NULL));
    expect_ending(run, false, "the run was stopped with exit code 143");
    json_object_set_new(run, "report", report("well", 0, NULL));
    expect_ending(run, false, "the run ended well");
    json_object_set_new(run, "report", report("again", 75, NULL));
    expect_ending(run, false, "the run saved, and asked to be run again");
    json_decref(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_read_again),
        cmocka_unit_test(bytes_of_no_text_are_kept),
        cmocka_unit_test(a_long_history_is_put_into_a_file_at_once),
        cmocka_unit_test(a_full_file_has_the_last_ones),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(the_end_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
