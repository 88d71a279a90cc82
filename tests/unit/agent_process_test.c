/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent says of a process that it started.
 *
 * behaviour: run / The first cause */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "launch/process.h"
#include "proto/request.h"

enum { PID = 4242 };

static void process_init(struct mst_process *process)
{
    int fd;

    *process = (struct mst_process){.index = 2, .rank = MST_RANK_NONE};
    assert_int_equal(mst_page_create(&process->page, &fd), MUSTER_OK);
    close(fd);
    atomic_store(&process->page->pid, PID);
}

static void is_called(const struct mst_process *process, const char *expected)
{
    char text[64];

    mst_process_name(process, text, sizeof text);
    assert_string_equal(text, expected);
}

/* A rank dies right after a seal that gave it another number, before it knew. It is called by
 * the number that it had in the generation named beside it. */
static void its_rank_is_that_of_the_generation_it_was_in(void **state)
{
    struct mst_process process;

    (void)state;
    process_init(&process);
    process.rank = 2; /* of generation 1 */
    atomic_store(&process.page->rank, 1);
    atomic_store(&process.page->generation, 2);
    is_called(&process, "rank 1 (#2, pid 4242)");
    mst_process_page_end(&process);
    assert_int_equal(mst_process_generation(&process), 2);
    is_called(&process, "rank 1 (#2, pid 4242)");
}

/* A rank restarts nothing, or did not know of the seal yet, so its page has no rank. It is
 * called by the number that its agent knows. */
static void its_rank_is_what_was_heard_if_it_says_none(void **state)
{
    struct mst_process process;

    (void)state;
    process_init(&process);
    is_called(&process, "#2 (pid 4242)");
    process.rank = 0;
    is_called(&process, "rank 0 (#2, pid 4242)");
    mst_process_page_end(&process);
    assert_int_equal(mst_process_generation(&process), 0);
    is_called(&process, "rank 0 (#2, pid 4242)");
}

/* A rank behind a wrapper calls exit in the function. It ended with that status, though the
 * wrapper that is waited for was killed with it. [restart / Atomic sections, leaving, giving up] */
static void who_called_exit_in_the_function_ended_with_that_status(void **state)
{
    const struct {
        pid_t pid; /* that was started */
        int status;
        uint32_t exited;
        enum mst_cause verdict;
        const char *how;
        int code;
    } rows[] = {
        {PID - 1, SIGKILL, 1 + 1, MST_CAUSE_NONE, "ended with status 1", 1},
        {PID - 1, 0, 1 + 255, MST_CAUSE_NONE, "ended with status 255", 255},
        {PID - 1, SIGKILL, 0, MST_CAUSE_NONE, "was killed by signal 9 (Killed)", 137},
        {PID - 1, SIGKILL, 1 + 1, MST_CAUSE_HARD_TIMEOUT, "hung and was ended", 137},
        {PID, SIGKILL, 0, MST_CAUSE_UNHEALTHY, "is unhealthy: its heartbeats stopped", 137},
        {PID, SIGSEGV, 1 + 1, MST_CAUSE_NONE, "was killed by signal 11 (Segmentation fault)", 139},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mst_process process;
        char how[64];

        process_init(&process);
        process.pid = rows[i].pid;
        process.verdict = rows[i].verdict;
        (void)snprintf(process.why, sizeof process.why, "hung");
        atomic_store(&process.page->exited, rows[i].exited);
        mst_process_gone(&process, rows[i].status);
        mst_process_page_end(&process);
        mst_process_how(&process, how, sizeof how);
        assert_string_equal(how, rows[i].how);
        assert_int_equal(mst_process_code(&process), rows[i].code);
        assert_true(mst_process_failed(&process));
    }
}

/* A rank behind a shell died, and the shell ended with 0 before the run knew. The rank was killed.
 */
static void who_died_behind_a_shell_that_ends_well_was_killed(void **state)
{
    struct mst_process process;
    char how[64];
    pid_t pid;

    (void)state;
    process_init(&process);
    pid = fork();
    if (pid == 0) {
        _exit(!mst_page_hold(process.page));
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    process.pid = pid - 1;
    mst_process_gone(&process, 0);
    mst_process_page_end(&process);
    mst_process_how(&process, how, sizeof how);
    assert_string_equal(how, "was killed by signal 9 (Killed)");
    assert_true(mst_process_failed(&process));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_rank_is_that_of_the_generation_it_was_in),
        cmocka_unit_test(its_rank_is_what_was_heard_if_it_says_none),
        cmocka_unit_test(who_called_exit_in_the_function_ended_with_that_status),
        cmocka_unit_test(who_died_behind_a_shell_that_ends_well_was_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
