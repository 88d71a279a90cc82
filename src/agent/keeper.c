/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "agent/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/tagged.h"

/* In a group of its own, with all signals blocked: what ends the run must not end this first. It
 * holds nothing that a reader of the run's output could wait for. */
static void stand_apart(void)
{
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_NAME, "muster-keeper");
    for (int fd = 0; fd <= STDERR_FILENO && nowhere >= 0; fd++) {
        (void)dup2(nowhere, fd);
    }
}

/* A message is the group that came, or minus the group that went. */
static void hear(pid_t *groups, unsigned most, pid_t message)
{
    pid_t wanted = message > 0 ? 0 : -message;

    for (unsigned i = 0; i < most; i++) {
        if (groups[i] == wanted) {
            groups[i] = message > 0 ? message : 0;
            return;
        }
    }
}

static bool is_doomed(void *ctx, uint32_t index, uint32_t attempt)
{
    (void)ctx;
    (void)index;
    (void)attempt;
    return true;
}

static _Noreturn void keep(int line, pid_t *groups, unsigned most, uint64_t run)
{
    pid_t message;

    stand_apart();
    while (read(line, &message, sizeof message) == (ssize_t)sizeof message) {
        hear(groups, most, message);
    }
    for (unsigned i = 0; i < most; i++) {
        if (groups[i] != 0) {
            (void)kill(-groups[i], SIGKILL);
        }
    }
    mst_tagged_kill(run, is_doomed, NULL);
    free(groups);
    _exit(0);
}

bool mst_keeper_start(struct mst_keeper *keeper, unsigned most, uint64_t run)
{
    pid_t *groups = calloc(most, sizeof *groups);
    sigset_t all, before;
    int ends[2];

    *keeper = (struct mst_keeper){0};
    if (groups == NULL || pipe2(ends, O_CLOEXEC) != 0) {
        free(groups);
        return false;
    }
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    keeper->pid = fork();
    if (keeper->pid == 0) {
        (void)close(ends[1]);
        keep(ends[0], groups, most, run);
    }
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    free(groups);
    (void)close(ends[0]);
    if (keeper->pid < 0) {
        (void)close(ends[1]);
        keeper->pid = 0;
        return false;
    }
    keeper->line = ends[1];
    return true;
}

/* If it is gone, somebody killed it: then the parent-death signal is what is left. */
static void say(const struct mst_keeper *keeper, pid_t message)
{
    if (keeper->pid != 0) {
        (void)!write(keeper->line, &message, sizeof message);
    }
}

void mst_keeper_add(const struct mst_keeper *keeper, pid_t group)
{
    say(keeper, group);
}

void mst_keeper_remove(const struct mst_keeper *keeper, pid_t group)
{
    say(keeper, -group);
}

void mst_keeper_stop(struct mst_keeper *keeper)
{
    if (keeper->pid != 0) {
        (void)close(keeper->line);
        while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR) {
        }
        keeper->pid = 0;
    }
}
