/* SPDX-License-Identifier: Apache-2.0 */
/* A program started alone is a job of one: its service is a child on a private socket, which ends
 * when its standard input does, that is with us, however we end. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/shell/handle.h"
#include "client/shell/sidecar/serve.h"
#include "net/socket_dir.h"

#define STOP_NS (2 * NS_PER_S)

struct mst_lib_alone {
    struct mst_served served;       /* -1: the program has closed that descriptor */
    char path[MST_SOCKET_PATH_MAX]; /* of its socket */
};

static muster_status refuse(struct muster_error *err, const char *what, const char *program,
                            int os_errno)
{
    return mst_fail(
        err, MUSTER_EUNREACHABLE, os_errno,
        "%s: no MUSTER_ADDR is set, and a service for this process alone cannot be started: "
        "'%s': %s; set MUSTER_PROGRAM, or start the program with `muster run`",
        what, program, strerror(os_errno));
}

static muster_status start(struct mst_lib_alone *alone, const char *addr, struct muster_error *err,
                           const char *what)
{
    static const char *const flags[] = {NULL};
    char program[MST_LIB_PROGRAM_ROOM];
    int failed;

    mst_lib_program(program);
    failed = mst_lib_serve(&alone->served, program, addr, flags, false);
    if (failed) {
        return refuse(err, what, program, failed);
    }
    fprintf(stderr,
            "muster: no MUSTER_ADDR: a job of one, with a service of its own (process %d at %s)\n",
            (int)alone->served.child.pid, addr);
    return MUSTER_OK;
}

muster_status mst_lib_alone_start(struct mst_lib_alone **out, char **addr_out, char **job_out,
                                  struct muster_error *err, const char *what)
{
    struct mst_lib_alone *alone = calloc(1, sizeof(*alone));
    static atomic_uint count; /* of clients that were alone in this process */
    unsigned number = atomic_fetch_add(&count, 1);
    char path[MST_SOCKET_PATH_MAX];
    char job[40];
    char addr[MST_SOCKET_PATH_MAX + 8];
    muster_status status;

    if (number == 0) {
        (void)snprintf(job, sizeof(job), "alone-%d", (int)getpid());
    } else {
        (void)snprintf(job, sizeof(job), "alone-%d-%u", (int)getpid(), number);
    }
    status = mst_socket_path(job, path, true, err);
    if (status == MUSTER_OK) {
        (void)snprintf(addr, sizeof(addr), "unix:%s", path);
        *addr_out = strdup(addr);
        *job_out = strdup(job);
        if (!alone || !*addr_out || !*job_out) {
            status = mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
        } else {
            memcpy(alone->path, path, sizeof(path));
            status = start(alone, addr, err, what);
        }
    }
    if (status != MUSTER_OK) {
        free(alone);
        return status;
    }
    *out = alone;
    return MUSTER_OK;
}

#define ENDED "%s: the service that was started for this process alone ended"

bool mst_lib_alone_runs(struct mst_lib_alone *alone, struct muster_error *err, const char *what)
{
    int how = 0;
    bool known;

    if (!mst_child_await(&alone->served.child, 0, -1)) {
        return true;
    }
    known = mst_child_reap(&alone->served.child, &how);
    if (!known) { /* SIGCHLD is ignored, or somebody else has waited for it */
        (void)mst_fail(err, MUSTER_EUNREACHABLE, 0, ENDED "; what it said is on stderr", what);
    } else {
        (void)mst_fail(err, MUSTER_EUNREACHABLE, 0, ENDED " with %s %d%s", what,
                       WIFEXITED(how) ? "status" : "signal",
                       WIFEXITED(how) ? WEXITSTATUS(how) : WTERMSIG(how),
                       WIFEXITED(how) && WEXITSTATUS(how) == 127
                           ? ": there is no `muster` program; set MUSTER_PROGRAM"
                           : "; what it said is on stderr");
    }
    return false;
}

static void close_if(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* It ends by itself when its standard input does, and removes its socket; a stuck one is not waited
 * for long, and can do neither. */
void mst_lib_alone_stop(struct mst_lib_alone *alone)
{
    bool killed;

    if (!alone) {
        return;
    }
    close_if(alone->served.line);
    killed = !mst_child_await(&alone->served.child, mst_lib_now_ns() + STOP_NS, -1);
    if (killed) {
        mst_child_signal(&alone->served.child, SIGKILL);
    }
    (void)mst_child_reap(&alone->served.child, NULL);
    if (killed) {
        (void)unlink(alone->path);
    }
    free(alone);
}

void mst_lib_alone_abandon(struct mst_lib_alone *alone)
{
    if (alone) {
        close_if(alone->served.line);
        close_if(alone->served.child.pidfd);
    }
}

void mst_lib_alone_disown(struct mst_lib_alone *alone)
{
    if (alone) {
        alone->served.line = alone->served.child.pidfd = -1;
    }
}
