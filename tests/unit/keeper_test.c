/* SPDX-License-Identifier: Apache-2.0 */
/* behaviour: run / Descriptors and signals */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "process/keeper.h"
#include "process/proc_stat.h"

/* The leader of a group of its own, that does nothing. */
static pid_t group_new(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        for (;;) {
            (void)pause();
        }
    }
    assert_true(pid > 0);
    assert_int_equal(setpgid(pid, pid), 0);
    return pid;
}

static int ended_by(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void at_the_end_the_groups_that_are_left_are_killed(void **state)
{
    struct mst_keeper keeper;
    pid_t stays = group_new(), goes = group_new(), comes = group_new();

    (void)state;
    assert_true(mst_keeper_start(&keeper, 2, 0));
    mst_keeper_keep(&keeper, (struct mst_kept){.group = stays});
    mst_keeper_keep(&keeper, (struct mst_kept){.group = goes});
    mst_keeper_remove(&keeper, stays);
    mst_keeper_keep(&keeper, (struct mst_kept){.group = comes}); /* where the removed one was */
    mst_keeper_stop(&keeper);
    assert_int_equal(ended_by(goes), SIGKILL);
    assert_int_equal(ended_by(comes), SIGKILL);
    assert_int_equal(kill(stays, SIGTERM), 0);
    assert_int_equal(ended_by(stays), SIGTERM);
    mst_keeper_stop(&keeper); /* once is enough */
}

/* A wrapper's ranks have left their groups, or a rank's number is another process's by now. At
 * the end the ranks are killed, and that process is not. */
static void at_the_end_the_ranks_are_killed_that_have_left_their_groups(void **state)
{
    struct mst_keeper keeper;
    pid_t wrapper = group_new(), rank = group_new(), another = group_new();
    uint64_t start = mst_proc_stat_start(rank);

    (void)state;
    assert_true(mst_keeper_start(&keeper, 2, 0));
    mst_keeper_keep(&keeper, (struct mst_kept){.group = wrapper});
    mst_keeper_keep(&keeper, (struct mst_kept){wrapper, rank, start});
    mst_keeper_keep(&keeper, (struct mst_kept){.group = another});
    mst_keeper_keep(&keeper,
                    (struct mst_kept){another, getpid(), start + 1000000}); /* so this one stays */
    assert_int_equal(kill(rank, SIGSTOP), 0);
    mst_keeper_stop(&keeper);
    assert_int_equal(ended_by(wrapper), SIGKILL);
    assert_int_equal(ended_by(rank), SIGKILL);
    assert_int_equal(ended_by(another), SIGKILL);
}

static void what_ends_the_run_does_not_end_the_keeper_first(void **state)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    struct mst_keeper keeper;
    pid_t group = group_new();

    (void)state;
    assert_true(mst_keeper_start(&keeper, 1, 0));
    mst_keeper_keep(&keeper, (struct mst_kept){.group = group});
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        assert_int_equal(kill(keeper.pid, numbers[i]), 0);
    }
    mst_keeper_stop(&keeper);
    assert_int_equal(ended_by(group), SIGKILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_the_end_the_groups_that_are_left_are_killed),
        cmocka_unit_test(at_the_end_the_ranks_are_killed_that_have_left_their_groups),
        cmocka_unit_test(what_ends_the_run_does_not_end_the_keeper_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
