/* SPDX-License-Identifier: Apache-2.0 */
/* When a process was started, as the kernel says.
 *
 * behaviour: run / Descriptors and signals */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "process/proc_stat.h"

/* This process has a start time, by its number and without. */
static void this_process_has_one_by_its_number_and_without(void **state)
{
    (void)state;
    assert_true(mst_proc_stat_start(0) != 0);
    assert_int_equal(mst_proc_stat_start(0), mst_proc_stat_start(getpid()));
    assert_true(mst_proc_stat_start(0) >= mst_proc_stat_start(getppid()));
}

/* A process calls itself by a name that looks like fields of the kernel's line. The name does
 * not hide its start time. */
static void a_name_does_not_hide_it(void **state)
{
    static const char *const names[] = {"a) Z 1 2", "((((", "))))", ") X", ""};
    uint64_t start = mst_proc_stat_start(0);

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(prctl(PR_SET_NAME, names[i]), 0);
        assert_int_equal(mst_proc_stat_start(0), start);
    }
}

static void one_that_has_ended_has_none(void **state)
{
    pid_t pid = fork();
    siginfo_t info;

    (void)state;
    if (pid == 0) {
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(mst_proc_stat_start(pid), 0); /* a zombie */
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(mst_proc_stat_start(pid), 0);
}

/* Its parent is known as long as it is there, also as a zombie, whose other threads may live. */
static void a_child_is_found_by_its_parent(void **state)
{
    pid_t pid = fork(), one;
    struct mst_proc_stat stat;
    struct mst_folder proc;
    siginfo_t info;
    bool found = false, self = false;

    (void)state;
    if (pid == 0) {
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_true(mst_folder_open(&proc, AT_FDCWD, "/proc"));
    while ((one = mst_proc_stat_next(&proc)) != 0) {
        (void)mst_proc_stat_of(one, &stat);
        found = found || (one == pid && stat.parent == getpid());
        self = self || (one == getpid() && stat.parent == getppid());
    }
    mst_folder_close(&proc);
    assert_true(found && self);
    assert_false(mst_proc_stat_of(pid, &stat));
    assert_int_equal(stat.parent, getpid());
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(mst_proc_stat_of(pid, &stat));
    assert_int_equal(stat.parent, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(this_process_has_one_by_its_number_and_without),
        cmocka_unit_test(a_name_does_not_hide_it),
        cmocka_unit_test(one_that_has_ended_has_none),
        cmocka_unit_test(a_child_is_found_by_its_parent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
