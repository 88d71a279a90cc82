/* SPDX-License-Identifier: Apache-2.0 */
/* What sources of notices read: times, lines, Slurm's variables; also what is none of it.
 *
 * behaviour: sources / Files, commands, ends that are known */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sources/metadata/date.h"
#include "sources/slurm_words.h"
#include "sources/words.h"

#define NOW_MS INT64_C(1803874030000) /* 2027-03-01T04:07:10 in Greenwich is 1803874030 */

/* At the end of memory that is its own, so that a sanitizer sees one byte too far. */
static struct mst_slice tight(const char *text, size_t size)
{
    char *copy = test_malloc(size > 0 ? size : 1);

    if (size > 0) {
        memcpy(copy, text, size);
    }
    return mst_slice_of(copy, size);
}

static void drop(struct mst_slice slice)
{
    union {
        const void *read;
        void *owned;
    } memory = {.read = slice.data};

    test_free(memory.owned);
}

static bool reads_time(const char *text, int64_t *out)
{
    struct mst_slice slice = tight(text, strlen(text));
    bool is = mst_date_rfc3339(slice, out);

    drop(slice);
    return is;
}

static void times_of_rfc3339(void **state)
{
    static const struct {
        const char *text;
        int64_t unix_ms;
    } good[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2027-03-01T04:07:10Z", NOW_MS},
        {"2027-03-01t04:07:10z", NOW_MS},
        {"2027-03-01 04:07:10Z", NOW_MS},
        {"2027-03-01T05:07:10+01:00", NOW_MS},
        {"2027-02-28T22:37:10-05:30", NOW_MS},
        {"2027-03-01T04:07:10.5Z", NOW_MS + 500},
        {"2027-03-01T04:07:10.123456789Z", NOW_MS + 123},
        {"2024-02-29T00:00:00Z", INT64_C(1709164800000)},
        {"2000-02-29T00:00:00Z", INT64_C(951782400000)},
        {"2016-12-31T23:59:60Z", INT64_C(1483228800000)},
        {"9999-12-31T23:59:59Z", INT64_C(253402300799000)},
    };
    int64_t ms;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(reads_time(good[i].text, &ms));
        assert_int_equal(ms, good[i].unix_ms);
    }
}

/* A source's text has what is no time. It is no deadline. */
static void what_is_no_time(void **state)
{
    static const char *const bad[] = {
        "",
        "Z",
        "2027",
        "2027-03-01",
        "2027-03-01T04:07:10",
        "2027-03-01T04:07Z",
        "2027-03-01T04:07:10.Z",
        "2027-03-01T04:07:10,5Z",
        "2027-03-01T04:07:10+1:00",
        "2027-03-01T04:07:10+0100",
        "2027-03-01T04:07:10+24:00",
        "2027-03-01T04:07:10ZZ",
        "2027-13-01T04:07:10Z",
        "2027-00-01T04:07:10Z",
        "2027-02-29T04:07:10Z",
        "2100-02-29T04:07:10Z",
        "2027-03-32T04:07:10Z",
        "2027-03-00T04:07:10Z",
        "2027-03-01T24:07:10Z",
        "2027-03-01T04:60:10Z",
        "2027-03-01T04:07:61Z",
        "1969-12-31T23:59:59Z",
        "+027-03-01T04:07:10Z",
        "2027-03-01T04:07:10 Z",
        "0000-00-00T00:00:00Z",
        "infinite-future",
    };
    int64_t ms = -7;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (reads_time(bad[i], &ms)) {
            fail_msg("'%s' was taken for a time", bad[i]);
        }
    }
    assert_int_equal(ms, -7);
}

/* A source's text has durations. They are read, or the line is no notice. */
static void durations(void **state)
{
    static const struct {
        const char *text;
        int64_t ms; /* -1: none */
    } rows[] = {
        {"60s", 60000},
        {"500ms", 500},
        {"2m", 120000},
        {"1h", 3600000},
        {"0s", 0},
        {"720h", INT64_C(2592000000)},
        {"721h", -1},
        {"2592000001ms", -1},
        {"60", -1},
        {"s", -1},
        {"", -1},
        {"-1s", -1},
        {"1.5s", -1},
        {"60S", -1},
        {"60 s", -1},
        {"60sec", -1},
        {"99999999999999999999999999s", -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t ms = -1;
        struct mst_slice slice = tight(rows[i].text, strlen(rows[i].text));
        bool is = mst_source_duration(slice, &ms);

        drop(slice);
        assert_int_equal(is, rows[i].ms >= 0);
        assert_true(!is || ms == rows[i].ms);
    }
}

static struct mst_source_notice line(const char *text, size_t size, bool is)
{
    struct mst_slice slice = tight(text, size);
    struct mst_source_notice notice;

    assert_int_equal(mst_source_line(slice, NOW_MS, &notice), is);
    drop(slice);
    assert_true(memchr(notice.reason, '\0', sizeof notice.reason) != NULL);
    return notice;
}

static void assert_line(const char *text, int64_t left_ms, bool relative, const char *reason)
{
    struct mst_source_notice notice = line(text, strlen(text), true);

    assert_int_equal(notice.left_ms, left_ms);
    assert_int_equal(notice.relative, relative);
    assert_string_equal(notice.reason, reason);
    assert_false(notice.advisory);
    assert_false(notice.whole_job);
}

/* A source's line is malformed, cut or hostile. It makes one printable line, or no notice. */
static void lines(void **state)
{
    (void)state;
    assert_line("60s maintenance of b3", 60000, true, "maintenance of b3");
    assert_line("60s", 60000, true, "");
    assert_line("\n\n  \r\n 60s\tdrain \nsecond line", 60000, true, "drain");
    assert_line("2027-03-01T04:08:10Z spot", 60000, false, "spot");
    assert_line("2027-03-01T04:00:00Z it was", 0, false, "it was");
    assert_line("in an hour or so", -1, false, "in an hour or so");
    assert_line("60 is no duration", -1, false, "60 is no duration");
    assert_line("-5s", -1, false, "-5s");
    assert_line("60s;60s", -1, false, "60s;60s");
    (void)line("", 0, false);
    (void)line(" \r\n\t\n", 5, false);
    (void)line("\0\0\0", 3, false);
}

/* A source's line has any bytes. It makes one printable line, or no notice. */
static void lines_of_anything(void **state)
{
    struct mst_source_notice notice;
    static const unsigned char euro[] = {0xe2, 0x82, 0xac};
    char huge[6000];

    (void)state;
    notice = line("30s a\x01"
                  "b\x1b[2J\x7f"
                  "c",
                  14, true);
    assert_string_equal(notice.reason, "a b [2J c");
    notice = line("30s gr\xc3\xbc\xc3\x9f e\xff\xfe! \xed\xa0\x80 \xc0\xaf.", 24, true);
    assert_string_equal(notice.reason, "gr\xc3\xbc\xc3\x9f e ! .");
    memset(huge, 'x', sizeof huge);
    notice = line(huge, sizeof huge, true);
    assert_int_equal(notice.left_ms, -1);
    assert_int_equal(strlen(notice.reason), sizeof notice.reason - 1);
    for (size_t i = 0; i + 2 < sizeof huge; i += 3) { /* cut between characters */
        memcpy(huge + i, euro, sizeof euro);
    }
    notice = line(huge, sizeof huge, true);
    assert_int_equal(strlen(notice.reason), 255);
    assert_int_equal(strlen(notice.reason) % 3, 0);
}

/* A source's line has random bytes. It makes one line of printable characters that ends. */
static void lines_at_random(void **state)
{
    static const char pieces[] = "0123456789:-TZsmh+. \n\t\r\0\x7f\xc3\xe2\xff";
    uint64_t seed = 88172645463325252u;

    (void)state;
    for (unsigned round = 0; round < 20000; round++) {
        struct mst_source_notice notice;
        char text[64];
        size_t size = round % sizeof text;
        struct mst_slice slice;

        for (size_t i = 0; i < size; i++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            text[i] = pieces[seed % (sizeof pieces - 1)];
        }
        slice = tight(text, size);
        (void)mst_source_line(slice, NOW_MS, &notice);
        drop(slice);
        assert_true(notice.left_ms >= -1);
        for (const char *at = notice.reason; *at != '\0'; at++) {
            assert_true((unsigned char)*at >= ' ' && *at != '\x7f');
        }
    }
}

static void places_of_slurm(void **state)
{
    (void)state;
    assert_int_equal(mst_slurm_place(NULL, NULL), MST_SLURM_NOWHERE);
    assert_int_equal(mst_slurm_place("", "0"), MST_SLURM_NOWHERE);
    assert_int_equal(mst_slurm_place("x1", "0"), MST_SLURM_NOWHERE);
    assert_int_equal(mst_slurm_place("17", NULL), MST_SLURM_BATCH);
    assert_int_equal(mst_slurm_place("17", ""), MST_SLURM_BATCH);
    assert_int_equal(mst_slurm_place("17", "batch"), MST_SLURM_BATCH);
    assert_int_equal(mst_slurm_place("17", "0"), MST_SLURM_STEP);
    assert_int_equal(mst_slurm_place("17_3", "4294967294"), MST_SLURM_STEP);
    assert_false(mst_slurm_job_id("17; rm -rf /"));
    assert_false(mst_slurm_job_id("-17"));
    assert_false(mst_slurm_job_id("11111111111111111111111111111111111111111"));
    assert_true(mst_slurm_job_id("17+1"));
}

/* Slurm's end times are read. */
static void ends_of_slurm(void **state)
{
    int64_t ms = -7;

    (void)state;
    assert_false(mst_slurm_end_time(NULL, &ms));
    assert_false(mst_slurm_end_time("", &ms));
    assert_false(mst_slurm_end_time("0", &ms));
    assert_false(mst_slurm_end_time("Unknown", &ms));
    assert_false(mst_slurm_end_time("-1", &ms));
    assert_false(mst_slurm_end_time("1803874030x", &ms));
    assert_false(mst_slurm_end_time("18446744073709551615", &ms));
    assert_int_equal(ms, -7);
    assert_true(mst_slurm_end_time("1803874030", &ms));
    assert_int_equal(ms, NOW_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_of_rfc3339),  cmocka_unit_test(what_is_no_time),
        cmocka_unit_test(durations),         cmocka_unit_test(lines),
        cmocka_unit_test(lines_of_anything), cmocka_unit_test(lines_at_random),
        cmocka_unit_test(places_of_slurm),   cmocka_unit_test(ends_of_slurm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
