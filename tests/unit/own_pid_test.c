/* SPDX-License-Identifier: Apache-2.0 */
/* The number of a process, which is kept without a system call for each question.
 *
 * behaviour: library / What it is built of */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/own_pid.h"

static pid_t by_fork(void)
{
    return fork();
}

/* As _Fork, which runs no handler of pthread_atfork. */
static pid_t by_clone(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static void a_child_has_its_own(pid_t (*make)(void))
{
    pid_t child;
    int status = -1;

    assert_int_equal(mst_own_pid(), getpid());
    child = make();
    if (child == 0) {
        pid_t first = mst_own_pid(); /* and kept from then on */

        _exit(first == getpid() && mst_own_pid() == first ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(mst_own_pid(), getpid());
}

/* A process asks for its number, and forks. The child gets its own, and the parent what it had. */
static void test_forked(void **state)
{
    (void)state;
    a_child_has_its_own(by_fork);
}

/* The child is made by a bare clone, of which no handler of a fork is told. It gets its own too. */
static void test_cloned(void **state)
{
    (void)state;
    a_child_has_its_own(by_clone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forked),
        cmocka_unit_test(test_cloned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
