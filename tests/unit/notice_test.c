/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of preemption as text: written and read back, and what a hostile hand may write.
 *
 * behaviour: preemption / Giving notice */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/notice.h"

static struct mst_slice text(const char *words)
{
    return mst_slice_text(words);
}

static void a_notice_is_read_as_it_was_written(void **state)
{
    char value[MST_NOTICE_VALUE_ROOM];
    struct mst_notice read;
    struct mst_notice notice = {.index = 3,
                                .level = MST_NOTICE_ADVISORY,
                                .assumed = true,
                                .left_ms = 30000,
                                .source = "signals",
                                .host = "b3",
                                .reason = "maintenance = soon, says  the operator"};
    size_t size = mst_notice_write(value, sizeof(value), &notice);

    (void)state;
    assert_string_equal(value, "left_ms=30000 assumed=1 level=advisory source=signals host=b3 "
                               "reason=maintenance = soon, says  the operator");
    assert_int_equal(size, strlen(value));
    assert_true(mst_notice_read(mst_slice_of(value, size), &read));
    assert_int_equal(read.level, MST_NOTICE_ADVISORY);
    assert_true(read.assumed);
    assert_int_equal(read.left_ms, 30000);
    assert_string_equal(read.source, "signals");
    assert_string_equal(read.host, "b3");
    assert_string_equal(read.reason, notice.reason);
}

/* A notice is written by hand. `left_ms=60000` is enough. */
static void a_notice_by_hand_needs_only_what_is_left(void **state)
{
    struct mst_notice read;

    (void)state;
    assert_true(mst_notice_read(text("left_ms=0"), &read));
    assert_int_equal(read.left_ms, 0);
    assert_int_equal(read.level, MST_NOTICE_CERTAIN);
    assert_string_equal(read.reason, "");
    assert_true(mst_notice_read(text("colour=red left_ms=5 source="), &read));
    assert_int_equal(read.left_ms, 5);
    assert_true(mst_notice_read(text("left_ms=18446744073709551615"), &read));
    assert_true(read.left_ms == MST_NOTICE_LEFT_MS_MAX);
}

/* A key holds what is no notice: damaged or hostile. It is refused. */
static void what_is_no_notice_is_refused(void **state)
{
    static const char *const garbage[] = {
        "",
        "garbage",
        "left_ms",
        "left_ms=",
        "left_ms=-1",
        "left_ms=+1",
        "left_ms=1.5",
        "left_ms=18446744073709551616",
        "left_ms=999999999999999999999",
        "left_ms=1 left_ms=2",
        "=1 left_ms=1",
        " left_ms=1",
        "left_ms=1 nonsense",
        "left_ms=1 level=perhaps",
        "left_ms=1 assumed=2",
        "left_ms=1 assumed=x",
        "left_ms=1\n",
        "left_ms=1 reason=two\nlines",
        "2026-08-08T12:00:00.123456789+00:00",
    };
    struct mst_notice read;

    (void)state;
    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        assert_false(mst_notice_read(text(garbage[i]), &read));
    }
    assert_false(mst_notice_read(mst_slice_of("left_ms=1\0", 10), &read));
    assert_false(mst_notice_read(mst_slice_of(NULL, 0), &read));
}

/* A notice has texts that are too long. They are cut. */
static void texts_that_are_too_long_are_cut(void **state)
{
    char value[2 * MST_NOTICE_VALUE_ROOM] = "left_ms=1 source=";
    size_t size = strlen(value);
    struct mst_notice read;

    (void)state;
    memset(value + size, 'x', sizeof(value) - size);
    assert_true(mst_notice_read(mst_slice_of(value, sizeof(value)), &read));
    assert_int_equal(strlen(read.source), MST_NOTICE_SOURCE_ROOM - 1);
}

static void what_is_written_can_be_read_whatever_the_texts_are(void **state)
{
    char value[MST_NOTICE_VALUE_ROOM];
    struct mst_notice read;
    struct mst_notice notice = {.left_ms = UINT64_MAX};
    size_t size;

    (void)state;
    memset(notice.source, '\n', sizeof(notice.source) - 1);
    memset(notice.host, ' ', sizeof(notice.host) - 1);
    memset(notice.reason, 0x7f, sizeof(notice.reason) - 1);
    size = mst_notice_write(value, sizeof(value), &notice);
    assert_true(mst_notice_read(mst_slice_of(value, size), &read));
    assert_true(read.left_ms == MST_NOTICE_LEFT_MS_MAX);
    assert_int_equal(read.source[0], '-');
    assert_int_equal(strlen(read.host), MST_NOTICE_HOST_ROOM - 1);
    assert_int_equal(strlen(read.reason), MST_NOTICE_REASON_ROOM - 1);
}

static void names_are_read_as_they_were_written(void **state)
{
    char name[MST_PREEMPT_NAME_ROOM];
    struct mst_preempt_name read;
    struct mst_preempt_name longest = {
        .kind = MST_PREEMPT_KEY_COMPLETE, .generation = UINT64_MAX, .k = UINT64_MAX};
    uint32_t index = 0;
    size_t size = mst_notice_key(name, sizeof(name), MST_NOTICE_ALL);

    (void)state;
    assert_string_equal(name, "muster/preempt/notice/all");
    assert_true(mst_notice_key_read(mst_slice_of(name, size), &index));
    assert_true(index == MST_NOTICE_ALL);
    size = mst_notice_key(name, sizeof(name), 12);
    assert_string_equal(name, "muster/preempt/notice/12");
    assert_true(mst_notice_key_read(mst_slice_of(name, size), &index));
    assert_int_equal(index, 12);
    size = mst_preempt_name_write(name, sizeof(name), &longest);
    assert_string_equal(name, "muster/preempt/complete/18446744073709551615.18446744073709551615");
    assert_true(mst_preempt_name_read(mst_slice_of(name, size), &read));
    assert_int_equal(read.kind, MST_PREEMPT_KEY_COMPLETE);
    assert_true(read.generation == UINT64_MAX && read.k == UINT64_MAX);
    assert_false(mst_notice_key_read(mst_slice_of(name, size), &index));
    assert_true(mst_preempt_name_read(text("muster/preempt/verdict/2.0"), &read));
    assert_int_equal(read.kind, MST_PREEMPT_KEY_VERDICT);
    assert_true(mst_preempt_name_read(text("muster/preempt/agreed/2.1"), &read));
    assert_int_equal(read.k, 1);
    assert_true(mst_preempt_name_read(text("muster/preempt/failed/2.1"), &read));
}

/* A key's name is not quite that of a notice or an agreement. It is refused. */
static void other_names_are_refused(void **state)
{
    static const char *const others[] = {
        "",
        "muster/preempt/",
        "muster/preempt/notice/",
        "muster/preempt/notice/01",
        "muster/preempt/notice/-1",
        "muster/preempt/notice/4294967293",
        "muster/preempt/notice/All",
        "muster/preempt/agreed/1",
        "muster/preempt/agreed/1.",
        "muster/preempt/agreed/.1",
        "muster/preempt/agreed/1.1.1",
        "muster/preempt/agreed/1.99999999999999999999",
        "muster/preempt/other/1.1",
        "muster/places/1",
    };
    struct mst_preempt_name read;

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        assert_false(mst_preempt_name_read(text(others[i]), &read));
    }
}

static void verdicts_and_facts_are_read_as_they_were_written(void **state)
{
    char value[MST_PREEMPT_FACT_ROOM];
    struct mst_preempt_fact read;
    struct mst_preempt_fact fact = {
        .step = INT64_MAX, .covered = UINT64_MAX, .of = UINT32_MAX, .status = INT32_MIN};
    size_t size = mst_preempt_fact_write(value, sizeof(value), MST_PREEMPT_KEY_COMPLETE, &fact);

    (void)state;
    assert_string_equal(value, "step=9223372036854775807 of=4294967295 "
                               "covered=18446744073709551615 leave=noticed");
    assert_true(mst_preempt_fact_read(mst_slice_of(value, size), &read));
    assert_true(read.step == INT64_MAX && read.covered == UINT64_MAX && read.of == UINT32_MAX);
    assert_false(read.leave_all);
    fact = (struct mst_preempt_fact){.step = 17, .covered = 5, .of = 4, .leave_all = true};
    mst_preempt_fact_write(value, sizeof(value), MST_PREEMPT_KEY_COMPLETE, &fact);
    assert_string_equal(value, "step=17 of=4 covered=5 leave=all");
    assert_true(mst_preempt_fact_read(text(value), &read));
    assert_true(read.leave_all);
    fact.status = -15;
    size = mst_preempt_fact_write(value, sizeof(value), MST_PREEMPT_KEY_FAILED, &fact);
    assert_string_equal(value, "step=17 covered=5 status=-15");
    assert_true(mst_preempt_fact_read(mst_slice_of(value, size), &read));
    assert_int_equal(read.status, -15);
    mst_preempt_fact_write(value, sizeof(value), MST_PREEMPT_KEY_AGREED, &fact);
    assert_string_equal(value, "step=17 covered=5");
    for (unsigned i = MST_VERDICT_SAVING; i <= MST_VERDICT_WITHDRAWN; i++) {
        assert_int_equal(mst_verdict_read(text(mst_verdict_word((enum mst_verdict)i))), i);
    }
    assert_int_equal(mst_verdict_read(text("")), MST_VERDICT_NONE);
    assert_int_equal(mst_verdict_read(text("savings")), MST_VERDICT_NONE);
    assert_int_equal(mst_verdict_read(text("again 17")), MST_VERDICT_AGAIN);
    assert_int_equal(mst_verdict_step(text("again 17")), 17);
    assert_int_equal(mst_verdict_step(text("again")), -1);
    assert_int_equal(mst_verdict_read(text("again -1")), MST_VERDICT_NONE);
    assert_int_equal(mst_verdict_read(text("again x")), MST_VERDICT_NONE);
}

/* A key holds what is no fact. It is refused. */
static void what_is_no_fact_is_refused(void **state)
{
    static const char *const garbage[] = {
        "",
        "garbage",
        "covered=5",
        "step=-1",
        "step=x",
        "step=1 of=-2",
        "step=1 of=4294967296",
        "step=1 leave=some",
        "step=1 status=",
        "step=1 status=9999999999",
        "step=1\t",
        "step=9223372036854775808",
    };
    struct mst_preempt_fact read;

    (void)state;
    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        assert_false(mst_preempt_fact_read(text(garbage[i]), &read));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_notice_is_read_as_it_was_written),
        cmocka_unit_test(a_notice_by_hand_needs_only_what_is_left),
        cmocka_unit_test(what_is_no_notice_is_refused),
        cmocka_unit_test(texts_that_are_too_long_are_cut),
        cmocka_unit_test(what_is_written_can_be_read_whatever_the_texts_are),
        cmocka_unit_test(names_are_read_as_they_were_written),
        cmocka_unit_test(other_names_are_refused),
        cmocka_unit_test(verdicts_and_facts_are_read_as_they_were_written),
        cmocka_unit_test(what_is_no_fact_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
