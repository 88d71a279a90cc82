/* SPDX-License-Identifier: Apache-2.0 */
/* The error file of torch: its message is found in both forms, and nothing else is taken for one.
 *
 * behaviour: run / The first cause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "launch/torch/error_file.h"

static void expect(const char *bytes, const char *message)
{
    char text[32];

    assert_int_equal(mst_error_file_message(bytes, strlen(bytes), text, sizeof text),
                     *message != '\0');
    assert_string_equal(text, message);
}

/* An error file holds a message, as a text or in an object. Its first line is taken, without what a
 * terminal would obey, and cut with "..." where it is long. */
static void the_first_line_of_the_message_is_taken(void **state)
{
    (void)state;
    expect("{\"message\": {\"message\": \"ValueError: nan\", \"extraInfo\": {}}}",
           "ValueError: nan");
    expect("{\"message\": \"a text\"}", "a text");
    expect("{\"message\": \"\\nCUDA error\\nsee there\"}", "CUDA error");
    expect("{\"message\": \"red \\u001b[31m\"}", "red \\x1b[31m");
    expect("{\"message\": \"0123456789012345678901234567890123456789\"}",
           "0123456789012345678901234567...");
}

/* An error file holds something else, or is empty. There is no message. */
static void anything_else_is_no_message(void **state)
{
    static const char *const files[] = {"",
                                        "{",
                                        "[\"message\"]",
                                        "{\"message\": 7}",
                                        "{\"message\": {\"text\": \"x\"}}",
                                        "{\"message\": {\"message\": {}}}",
                                        "{\"message\": \"\\n\"}"};

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        expect(files[i], "");
    }
}

/* A process writes the error file in memory by its path, and the launcher reads it. One that is too
 * long is not read. */
static void the_file_is_written_by_its_path(void **state)
{
    static const char message[] = "{\"message\": \"why\"}";
    char path[64], text[32];
    int fd = mst_error_file_new();
    FILE *file;

    (void)state;
    assert_true(fd >= 0);
    assert_false(mst_error_file_read(fd, text, sizeof text));
    assert_string_equal(text, "");
    mst_error_file_path(fd, path, sizeof path);
    for (size_t blanks = 0; blanks <= MST_ERROR_FILE_BYTES_MAX;
         blanks += MST_ERROR_FILE_BYTES_MAX) {
        file = fopen(path, "w");
        assert_non_null(file);
        for (size_t i = 0; i < blanks; i++) {
            assert_int_equal(fputc(' ', file), ' ');
        }
        assert_true(fputs(message, file) >= 0 && fclose(file) == 0);
        assert_int_equal(mst_error_file_read(fd, text, sizeof text), blanks == 0);
        assert_string_equal(text, blanks == 0 ? "why" : "");
    }
    assert_int_equal(close(fd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_line_of_the_message_is_taken),
        cmocka_unit_test(anything_else_is_no_message),
        cmocka_unit_test(the_file_is_written_by_its_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
