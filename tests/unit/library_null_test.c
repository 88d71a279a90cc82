/* SPDX-License-Identifier: Apache-2.0 */
/* Every exported function is called with NULL for its handles (null_calls.py makes the calls from
 * the headers): it returns, what has a status says EINVAL, and `err` says why.
 *
 * behaviour: library / Reading the errors */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "null_calls.h"

enum { ROOM = 65536, NOT_EINVAL = 2, NOTHING_SAID = 3 };

/* In a process of its own, which a crash ends. */
static int call(const struct null_call *row, int full)
{
    static _Alignas(max_align_t) unsigned char room[ROOM];
    static struct muster_error err;
    pid_t child = fork();
    int how = 0;

    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL); /* cmocka's goes on with its tests */
        (void)signal(SIGABRT, SIG_DFL);
        if (row->call(full, room, &err) != MUSTER_EINVAL) {
            _exit(NOT_EINVAL);
        }
        _exit(full && row->takes_err && (err.status != MUSTER_EINVAL || err.text[0] == '\0')
                  ? NOTHING_SAID
                  : 0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    return how;
}

/* Any exported function is called with NULL for its handle. It gives EINVAL and a line that says
 * so; where there is no status, nothing, zero or false. */
static void no_function_dies_of_a_handle_that_is_null(void **state)
{
    int failed = 0;
    int count = 0;

    (void)state;
    for (const struct null_call *row = null_calls; row->name; row++) {
        for (int full = 0; full < 2; full++) {
            int how = call(row, full);

            if (how != 0) {
                print_error("%s(%s): %s %d\n", row->name, full ? "NULL, room" : "NULL, NULL",
                            WIFSIGNALED(how) ? "signal" : "exit",
                            WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how));
                failed++;
            }
        }
        count++;
    }
    assert_int_equal(failed, 0);
    assert_true(count > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_function_dies_of_a_handle_that_is_null)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
