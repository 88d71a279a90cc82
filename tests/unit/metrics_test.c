/* SPDX-License-Identifier: Apache-2.0 */
/* What a scraper is told: escaping, buckets, the table. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "service/metrics/metrics.h"

#define MS UINT64_C(1000000)

static const struct mst_bounds bounds = {.count = 3, .ns = {1 * MS, 250 * MS, 2000 * MS}};

static void buckets_are_inclusive_and_the_sum_does_not_wrap(void **state)
{
    struct mst_histogram histogram;

    (void)state;
    mst_histogram_init(&histogram, &bounds);
    assert_int_equal(mst_histogram_count(&histogram), 0);
    mst_histogram_add(&histogram, 0, 1);
    mst_histogram_add(&histogram, 1 * MS, 2);
    mst_histogram_add(&histogram, 1 * MS + 1, 1);
    mst_histogram_add(&histogram, 2000 * MS, 1);
    mst_histogram_add(&histogram, 2000 * MS + 1, 5);
    assert_int_equal(histogram.in[0], 3);
    assert_int_equal(histogram.in[1], 1);
    assert_int_equal(histogram.in[2], 1);
    assert_int_equal(histogram.in[3], 5);
    assert_int_equal(mst_histogram_count(&histogram), 10);
    assert_int_equal(histogram.sum_s, 12);
    assert_int_equal(histogram.sum_ns, 3 * MS + 1 + 5);
    mst_histogram_init(&histogram, &bounds);
    for (int i = 0; i < 100; i++) { /* 3000 years in nanoseconds */
        mst_histogram_add(&histogram, 946080000000 * MS, 1);
    }
    assert_int_equal(histogram.sum_s, 94608000000);
}

static void a_histogram_is_cumulative(void **state)
{
    static const struct mst_metric metric = {
        .type = MST_HISTOGRAM, .name = "t_seconds", .unit = "seconds", .help = "T"};
    const struct mst_label label = {.name = "r", .value = mst_slice_text("ok")};
    struct mst_exposition out = {.open_metrics = false};
    struct mst_histogram histogram;
    char *text;

    (void)state;
    mst_histogram_init(&histogram, &bounds);
    mst_histogram_add(&histogram, 1, 2);
    mst_histogram_add(&histogram, 1500 * MS, 3);
    mst_histogram_add(&histogram, 3000 * MS, 1);
    mst_exposition_family(&out, &metric);
    mst_exposition_histogram(&out, &label, 1, &histogram);
    mst_exposition_histogram(&out, NULL, 0, &histogram);
    text = mst_exposition_finish(&out);
    assert_string_equal(text, "# HELP t_seconds T\n"
                              "# TYPE t_seconds histogram\n"
                              "t_seconds_bucket{r=\"ok\",le=\"0.001\"} 2\n"
                              "t_seconds_bucket{r=\"ok\",le=\"0.25\"} 2\n"
                              "t_seconds_bucket{r=\"ok\",le=\"2.0\"} 5\n"
                              "t_seconds_bucket{r=\"ok\",le=\"+Inf\"} 6\n"
                              "t_seconds_sum{r=\"ok\"} 7.500000002\n"
                              "t_seconds_count{r=\"ok\"} 6\n"
                              "t_seconds_bucket{le=\"0.001\"} 2\n"
                              "t_seconds_bucket{le=\"0.25\"} 2\n"
                              "t_seconds_bucket{le=\"2.0\"} 5\n"
                              "t_seconds_bucket{le=\"+Inf\"} 6\n"
                              "t_seconds_sum 7.500000002\n"
                              "t_seconds_count 6\n");
    free(text);
}

static void values_and_help_are_escaped(void **state)
{
    static const struct {
        const char *bytes, *told;
    } rows[] = {
        {"plain", "plain"},
        {"a\"b\\c\nd", "a\\\"b\\\\c\\nd"},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x98", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x98"},
        {"\x01\x7f\r", "\\\\x01\\\\x7f\\\\x0d"},
        {"\\x01", "\\\\x5cx01"}, /* those bytes: another value than the byte 1 */
        {"\\\x01\\\\x01\\", "\\\\\\\\x01\\\\\\\\x5cx01\\\\"},
        {"\xff\xc3", "\\\\xff\\\\xc3"},
        {"\xc0\xaf", "\\\\xc0\\\\xaf"},                       /* overlong */
        {"\xe0\x80\xaf", "\\\\xe0\\\\x80\\\\xaf"},            /* overlong */
        {"\xed\xa0\x80", "\\\\xed\\\\xa0\\\\x80"},            /* a surrogate */
        {"\xf4\x90\x80\x80", "\\\\xf4\\\\x90\\\\x80\\\\x80"}, /* beyond the last */
        {"\xe2\x82", "\\\\xe2\\\\x82"},                       /* cut short */
    };
    static const struct mst_metric metric = {
        .type = MST_GAUGE, .name = "t", .unit = "", .help = "a\\b\nc\"d"};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mst_exposition out = {.open_metrics = i % 2 == 1};
        const struct mst_label label = {.name = "l", .value = mst_slice_text(rows[i].bytes)};
        char *text, *expected = NULL;

        mst_exposition_family(&out, &metric);
        mst_exposition_number(&out, &label, 1, 7);
        text = mst_exposition_finish(&out);
        assert_true(asprintf(&expected, "# HELP t a\\\\b\\nc%s\n# TYPE t gauge\nt{l=\"%s\"} 7\n%s",
                             i % 2 == 1 ? "\\\"d" : "\"d", rows[i].told,
                             i % 2 == 1 ? "# EOF\n" : "") > 0);
        assert_string_equal(text, expected);
        free(expected);
        free(text);
    }
}

static void counters_lose_their_suffix_in_openmetrics(void **state)
{
    static const struct mst_metric metric = {
        .type = MST_COUNTER, .name = "t_seconds_total", .unit = "seconds", .help = "T"};
    struct mst_exposition out = {.open_metrics = true};
    char *text;

    (void)state;
    mst_exposition_family(&out, &metric);
    mst_exposition_seconds(&out, NULL, 0, 3, 5);
    text = mst_exposition_finish(&out);
    assert_string_equal(text, "# HELP t_seconds T\n"
                              "# TYPE t_seconds counter\n"
                              "# UNIT t_seconds seconds\n"
                              "t_seconds_total 3.000000005\n"
                              "# EOF\n");
    free(text);
}

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text), end_size = strlen(end);

    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

static void every_row_is_well_named_and_told_once(void **state)
{
    struct mst_figures figures;
    const char *at, *text;
    char *whole;

    (void)state;
    mst_figures_init(&figures);
    whole = mst_metrics_text(&figures, false);
    assert_non_null(whole);
    at = text = whole;
    for (size_t i = 0; i < mst_metric_count; i++) {
        const struct mst_metric *metric = &mst_metrics[i];
        char head[160];

        assert_true(strncmp(metric->name, "muster_", 7) == 0 ||
                    strncmp(metric->name, "process_", 8) == 0);
        assert_int_equal(ends_with(metric->name, "_total"), metric->type == MST_COUNTER);
        assert_true(*metric->help && !ends_with(metric->help, "."));
        assert_true(!*metric->unit || strstr(metric->name, metric->unit));
        (void)snprintf(head, sizeof head, "# HELP %s ", metric->name);
        assert_ptr_equal(strstr(text, head), strstr(at, head)); /* in the table's order */
        at = strstr(at, head);
        assert_non_null(at);
        assert_null(strstr(at + 1, head));
    }
    free(whole);
    mst_figures_fini(&figures);
}

static void the_text_grows(void **state)
{
    struct mst_figures figures;
    char *text;

    (void)state;
    mst_figures_init(&figures);
    figures.job_count = 1000;
    figures.jobs = calloc(figures.job_count, sizeof *figures.jobs);
    assert_non_null(figures.jobs);
    for (size_t i = 0; i < figures.job_count; i++) {
        figures.jobs[i].name = calloc(1, 256);
        memset(figures.jobs[i].name, '\n', 256);
        figures.jobs[i].name_size = 256;
    }
    text = mst_metrics_text(&figures, true);
    assert_non_null(text);
    assert_true(strlen(text) > figures.job_count * 13 * 512);
    assert_true(ends_with(text, "\n# EOF\n"));
    free(text);
    mst_figures_fini(&figures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_are_inclusive_and_the_sum_does_not_wrap),
        cmocka_unit_test(a_histogram_is_cumulative),
        cmocka_unit_test(values_and_help_are_escaped),
        cmocka_unit_test(counters_lose_their_suffix_in_openmetrics),
        cmocka_unit_test(every_row_is_well_named_and_told_once),
        cmocka_unit_test(the_text_grows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
