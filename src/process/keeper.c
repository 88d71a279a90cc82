/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "process/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/forked.h"
#include "process/tagged.h"

/* The run may be what another run has started, and have its tag: then that one's keeper would kill
 * this one together with the run, and no process would be left that knows its ranks. The kernel
 * shows the environment where it lay when the program began. */
static void hide_tag(void)
{
    char *tag = getenv(MST_TAG_VARIABLE);

    if (tag != NULL) {
        memset(tag, 0, strlen(tag));
    }
}

/* In a group of its own, with all signals blocked: what ends the run must not end this first. It
 * holds nothing that a reader of the run's output could wait for. */
static void stand_apart(void)
{
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

    hide_tag();
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_NAME, "muster-keeper");
    for (int fd = 0; fd <= STDERR_FILENO && nowhere >= 0; fd++) {
        (void)dup2(nowhere, fd);
    }
}

/* A message is what is to be kept, or minus the group that has ended. A free row has no group. */
static struct mst_kept *row_of(struct mst_kept *rows, unsigned most, pid_t group)
{
    for (unsigned i = 0; i < most; i++) {
        if (rows[i].group == group) {
            return &rows[i];
        }
    }
    return NULL;
}

static void hear(struct mst_kept *rows, unsigned most, const struct mst_kept *message)
{
    bool comes = message->group > 0;
    struct mst_kept *row = row_of(rows, most, comes ? message->group : -message->group);

    if (row == NULL && comes) {
        row = row_of(rows, most, 0);
    }
    if (row != NULL) {
        *row = comes ? *message : (struct mst_kept){.group = 0};
    }
}

static bool is_doomed(void *ctx, uint32_t index, uint32_t attempt)
{
    (void)ctx;
    (void)index;
    (void)attempt;
    return true;
}

/* Says first that it is no part of what may end the run: then the run goes on. */
static _Noreturn void keep(int line, struct mst_kept *rows, unsigned most, uint64_t run)
{
    struct mst_kept message;

    stand_apart();
    (void)!write(line, "", 1);
    while (read(line, &message, sizeof message) == (ssize_t)sizeof message) {
        hear(rows, most, &message);
    }
    for (unsigned i = 0; i < most; i++) {
        if (rows[i].group != 0) {
            (void)kill(-rows[i].group, SIGKILL);
        }
        if (rows[i].rank != 0) {
            (void)mst_tagged_signal(rows[i].rank, rows[i].start, "", SIGKILL);
        }
    }
    mst_tagged_kill(run, is_doomed, NULL);
    _exit(0);
}

bool mst_keeper_start(struct mst_keeper *keeper, unsigned most, uint64_t run)
{
    struct mst_kept *rows = calloc(most, sizeof *rows);
    int line[2];
    char apart;
    pid_t pid;

    *keeper = (struct mst_keeper){0};
    if (rows == NULL || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line) != 0) {
        free(rows);
        return false;
    }
    pid = mst_forked(NULL);
    if (pid == 0) {
        (void)close(line[1]);
        keep(line[0], rows, most, run);
    }
    free(rows);
    (void)close(line[0]);
    if (pid < 0) {
        (void)close(line[1]);
        return false;
    }
    while (read(line[1], &apart, 1) < 0 && errno == EINTR) {
    }
    *keeper = (struct mst_keeper){.pid = pid, .line = line[1]};
    return true;
}

/* If the keeper was killed, what is left is the parent-death signal. */
void mst_keeper_keep(const struct mst_keeper *keeper, struct mst_kept kept)
{
    if (keeper->pid != 0) {
        (void)send(keeper->line, &kept, sizeof kept, MSG_NOSIGNAL);
    }
}

void mst_keeper_remove(const struct mst_keeper *keeper, pid_t group)
{
    mst_keeper_keep(keeper, (struct mst_kept){.group = -group});
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
