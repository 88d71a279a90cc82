/* SPDX-License-Identifier: Apache-2.0 */
/* Where a thread stands and how a process ended, as the kernel says.
 *
 * behaviour: restart / Hangs */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "launch/hang/diagnose.h"

static pid_t child_that(void (*does)(int fd), int *fd_out)
{
    int ends[2];
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        (void)close(ends[1]);
        does(ends[0]);
        _exit(0);
    }
    assert_true(pid > 0);
    (void)close(ends[0]);
    *fd_out = ends[1];
    return pid;
}

static void reads(int fd)
{
    char byte;

    (void)!read(fd, &byte, 1);
}

static void stops(int fd)
{
    (void)fd;
    (void)raise(SIGSTOP);
}

/* A hang report says where a thread stands: running, stopped, frozen, or blocked in a call of
 * the kernel by its name. */
static void a_thread_is_described(void **state)
{
    char text[128];
    uint64_t cpu_ns = 0;
    int fd, status;
    pid_t pid;

    (void)state;
    mst_diagnose_thread(getpid(), 0, 0, 0, text, sizeof text);
    assert_string_equal(text, "running");
    assert_true(mst_diagnose_cpu(getpid(), 0, &cpu_ns));

    pid = child_that(reads, &fd);
    do { /* it is on its way there */
        mst_diagnose_thread(pid, 0, 0, 0, text, sizeof text);
    } while (strcmp(text, "blocked in read (sleeping)") != 0);
    mst_diagnose_thread(pid, (uint64_t)pid, 0, 1, text, sizeof text); /* 1 ns: none of it used */
    (void)close(fd);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    mst_diagnose_thread(pid, 0, 0, 0, text, sizeof text);
    assert_string_equal(text, "its thread is gone");
    assert_false(mst_diagnose_cpu(pid, 0, &cpu_ns));

    pid = child_that(stops, &fd);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    mst_diagnose_thread(pid, 0, 0, 0, text, sizeof text);
    assert_string_equal(text, "stopped by a signal");
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    (void)close(fd);
}

static void exits(int fd)
{
    (void)fd;
    _exit(3);
}

static void is_killed(int fd)
{
    (void)fd;
    (void)raise(SIGKILL);
}

/* A rank is killed, crashes, or ends with a status, and the others have sealed the next
 * generation before it can be waited for. The record says by which signal or with what status
 * all the same: the kernel knows it before the memory is freed. Where that may not be looked at:
 * `gone`. [Deaths] */
static void how_a_process_ends_is_known_before_it_is_gone_27(void **state)
{
    void (*const ends[])(int fd) = {exits, is_killed};
    int fd, status, told;
    siginfo_t info;
    pid_t pid;

    (void)state;
    assert_false(mst_diagnose_end(getpid(), &status));
    for (size_t i = 0; i < 2; i++) {
        pid = child_that(ends[i], &fd);
        assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
        assert_true(mst_diagnose_end(pid, &told));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(told, status);
        assert_false(mst_diagnose_end(pid, &told));
        (void)close(fd);
    }
    pid = child_that(stops, &fd);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_false(mst_diagnose_end(pid, &told));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_is_described),
        cmocka_unit_test(how_a_process_ends_is_known_before_it_is_gone_27),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
