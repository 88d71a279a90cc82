/* SPDX-License-Identifier: Apache-2.0 */
/* What a shell, a program or a person reads of names and bytes that may be anything. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli/print.h"

static char printed[256];

void mst_cli_put(const char *format, ...)
{
    size_t used = strlen(printed);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(printed + used, sizeof printed - used, format, args);
    va_end(args);
}

void mst_cli_tell(const char *format, ...)
{
    fail_msg("%s", format);
}

int mst_cli_fail(const struct mst_cli *cli, const char *format, ...)
{
    (void)cli;
    fail_msg("%s", format);
    return 0;
}

static void a_word_can_be_pasted_into_a_shell(void **state)
{
    static const struct {
        const char *word, *shown;
    } rows[] = {
        {"unix:/run/user/0/a_b-c.sock,10.0.0.1:1%=@+",
         "unix:/run/user/0/a_b-c.sock,10.0.0.1:1%=@+"},
        {"", "$''"},
        {"a b", "$'a b'"},
        {"~", "$'~'"},
        {"it's", "$'it\\'s'"},
        {"a\\b", "$'a\\\\b'"},
        {"a\\", "$'a\\\\'"},
        {"\x1f\x7f\xc3\xa9", "$'\\x1f\\x7f\\xc3\\xa9'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        printed[0] = '\0';
        mst_cli_print_word(rows[i].word);
        assert_string_equal(printed, rows[i].shown);
    }
}

static void bytes_are_exact_and_names_are_readable(void **state)
{
    static const char bytes[] = {'a', '\\', '\n', '\0', '\xff', 'z'};

    (void)state;
    printed[0] = '\0';
    mst_cli_print_bytes((struct muster_slice){.data = bytes, .size = sizeof bytes});
    assert_string_equal(printed, "a\\\\\\x0a\\x00\\xffz");
    printed[0] = '\0';
    mst_cli_say("%.*s", MST_TEXT_ARGS("a\\\n"));
    assert_string_equal(printed, "a\\\\x0a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_word_can_be_pasted_into_a_shell),
        cmocka_unit_test(bytes_are_exact_and_names_are_readable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
