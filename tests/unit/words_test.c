/* SPDX-License-Identifier: Apache-2.0 */
/* Each cause in a list, and in a sentence with all that is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/words.h"

static const struct {
    enum mst_cause cause;
    const char *word, *phrase, *sentence;
} rows[] = {
    {MST_CAUSE_NONE, "none", "lost", "was lost: why"},
    {MST_CAUSE_EXIT, "exit", "ended with status 9", "ended with status 9: why"},
    {MST_CAUSE_SIGNAL, "signal", "killed by signal 9", "was killed by signal 9 (Killed): why"},
    {MST_CAUSE_GONE, "gone", "gone, status unknown", "is gone, status unknown: why"},
    {MST_CAUSE_LEASE, "lease", "silent for longer than the lease",
     "was silent for longer than the lease: why"},
    {MST_CAUSE_FAULT, "fault", "failed: code 9", "failed: code 9: why"},
    {MST_CAUSE_EVICTED, "evicted", "did not come to the restart in time",
     "did not come to the restart in time: why"},
    {MST_CAUSE_LEFT, "left", "left", "left: why"},
    {MST_CAUSE_SOFT_TIMEOUT, "soft-timeout", "made no progress", "why"},
    {MST_CAUSE_HARD_TIMEOUT, "hard-timeout", "made no progress and was ended by signal 9",
     "why and was ended by signal 9 (Killed)"},
    {MST_CAUSE_UNHEALTHY, "unhealthy", "unhealthy: code 9", "is unhealthy: code 9: why"},
    {MST_CAUSE_AGAIN, "again", "asked for a restart", "asked for a restart"},
    {MST_CAUSE_ABORTED, "aborted", "asked that all end: code 9", "asked that all end: code 9: why"},
};

static void causes_are_worded(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mst_caused caused = {.cause = rows[i].cause, .code = 9};
        char line[128];
        struct mst_text text = mst_text_in(line, sizeof line);

        assert_int_equal(rows[i].cause, i);
        assert_string_equal(mst_cause_word(rows[i].cause), rows[i].word);
        mst_cause_phrase(&text, &caused);
        assert_string_equal(line, rows[i].phrase);
        caused.signal = "Killed";
        caused.text = mst_slice_text("why");
        text = mst_text_in(line, sizeof line);
        mst_cause_sentence(&text, &caused);
        assert_string_equal(line, rows[i].sentence);
    }
    assert_string_equal(mst_cause_word((enum mst_cause)13), "?");
    assert_string_equal(mst_cause_word((enum mst_cause) - 1), "?");
}

static void what_is_not_known_is_left_out(void **state)
{
    static const struct {
        enum mst_cause cause;
        const char *sentence;
    } table[] = {
        {MST_CAUSE_EXIT, "ended with status 0"},      {MST_CAUSE_FAULT, "failed"},
        {MST_CAUSE_SOFT_TIMEOUT, "made no progress"}, {MST_CAUSE_UNHEALTHY, "is unhealthy"},
        {MST_CAUSE_ABORTED, "asked that all end"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char line[128];
        struct mst_text text = mst_text_in(line, sizeof line);

        mst_cause_sentence(&text, &(struct mst_caused){.cause = table[i].cause});
        assert_string_equal(line, table[i].sentence);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(causes_are_worded),
        cmocka_unit_test(what_is_not_known_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
