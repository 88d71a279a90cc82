/* SPDX-License-Identifier: Apache-2.0 */
/* A line of the log as one JSON object.
 *
 * behaviour: service / Its log */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "service/server/log_json.h"

static char line[MST_LOG_JSON_ROOM(2048)];

static void assert_line(const char *text, const char *expected)
{
    size_t size = mst_log_json(line, sizeof line,
                               &(struct mst_log_parts){.time = "t",
                                                       .level = "info",
                                                       .area = "core",
                                                       .job = mst_slice_text("train"),
                                                       .text = mst_slice_text(text)});
    json_t *found = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
    json_t *wanted = json_loads(expected, 0, NULL);

    assert_non_null(found);
    assert_non_null(wanted);
    (void)json_object_set_new(wanted, "time", json_string("t"));
    (void)json_object_set_new(wanted, "level", json_string("info"));
    (void)json_object_set_new(wanted, "area", json_string("core"));
    (void)json_object_set_new(wanted, "job", json_string("train"));
    (void)json_object_set_new(wanted, "text", json_string(text));
    if (!json_equal(found, wanted)) {
        print_error("%.*s\n", (int)size, line);
    }
    assert_true(json_equal(found, wanted));
    json_decref(found);
    json_decref(wanted);
}

/* With `--log-format json` a line is an object with time, level, area, job and text. An event has
 * its name and its fields besides: numbers as numbers, `#5` as the index, quotes taken off. */
static void test_an_event_has_its_fields(void **state)
{
    (void)state;
    assert_line("member-lost #5 incarnation=9 cause=signal code=-9",
                "{\"event\":\"member-lost\",\"fields\":{\"index\":5,\"incarnation\":9,"
                "\"cause\":\"signal\",\"code\":-9}}");
    assert_line("stopping reason=\"the parent is gone\"",
                "{\"event\":\"stopping\",\"fields\":{\"reason\":\"the parent is gone\"}}");
    assert_line("fault text=\"a \"quoted\" word\" code=1",
                "{\"event\":\"fault\",\"fields\":{\"text\":\"a \\\"quoted\\\" word\",\"code\":1}}");
    assert_line("job-ended", "{\"event\":\"job-ended\",\"fields\":{}}");
}

/* A line of the log is a sentence, or its fields are not such. The object has its text and no
 * event. */
static void test_a_sentence_is_text(void **state)
{
    (void)state;
    assert_line("the disk of the journal is full", "{}");
    assert_line("record-ended because=", "{}");
    assert_line("Upper case=1", "{}");
    assert_line("", "{}");
}

/* A name in the log has quotes, backslashes or digits that are no number of JSON. The object is
 * valid, and the name unchanged. */
static void test_names_of_others_are_escaped(void **state)
{
    (void)state;
    assert_line("round-open name=a\\x0a\"b", "{\"event\":\"round-open\",\"fields\":{\"name\":"
                                             "\"a\\\\x0a\\\"b\"}}");
    assert_line("x a=007 b=- c=1e5 d=1234567890123456 e=12 f=0",
                "{\"event\":\"x\",\"fields\":{\"a\":\"007\",\"b\":\"-\",\"c\":\"1e5\","
                "\"d\":\"1234567890123456\",\"e\":12,\"f\":0}}");
}

/* A line is as long as the log takes it, and all of it must be escaped. It fits. */
static void test_the_longest_line_fits(void **state)
{
    char text[2048];

    (void)state;
    memset(text, '"', sizeof text);
    memcpy(text, "event k=x", strlen("event k=x"));
    text[sizeof text - 1] = '\0';
    (void)mst_log_json(line, sizeof line,
                       &(struct mst_log_parts){.time = "2026-11-21T09:30:00.123456Z",
                                               .level = "error",
                                               .area = "service",
                                               .text = mst_slice_text(text)});
    for (size_t i = strlen("event"); i + 5 < sizeof text; i += 4) {
        memcpy(text + i, " a=\\", 4);
    }
    (void)mst_log_json(line, sizeof line,
                       &(struct mst_log_parts){.time = "2026-11-21T09:30:00.123456Z",
                                               .level = "error",
                                               .area = "service",
                                               .text = mst_slice_text(text)});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_event_has_its_fields),
        cmocka_unit_test(test_a_sentence_is_text),
        cmocka_unit_test(test_names_of_others_are_escaped),
        cmocka_unit_test(test_the_longest_line_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
