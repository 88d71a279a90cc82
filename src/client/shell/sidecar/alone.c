/* SPDX-License-Identifier: Apache-2.0 */
/* A program that was started alone is a job of one: its service is a child on a private socket. The
 * service ends when its standard input does, that is with this process, however that ends. */
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

#define STOP_NS (2 * NS_PER_S)

struct mst_lib_alone {
    struct mst_served served;       /* -1: the program has closed that descriptor */
    char path[MST_SOCKET_PATH_MAX]; /* of its socket */
};

muster_status mst_lib_alone_start(struct mst_lib_alone **out, char job[MST_LIB_ALONE_JOB_ROOM],
                                  char addr[MST_LIB_ADDR_ROOM], struct muster_error *err)
{
    static const char *const flags[] = {NULL};
    static atomic_uint count; /* of clients that were alone in this process */
    unsigned number = atomic_fetch_add(&count, 1);
    struct mst_text name = mst_text_in(job, MST_LIB_ALONE_JOB_ROOM);
    struct mst_lib_alone alone;
    char program[MST_LIB_PROGRAM_ROOM];
    muster_status status;
    int failed;

    mst_text_format(&name, "alone-%d", (int)getpid());
    if (number > 0) {
        mst_text_format(&name, "-%u", number);
    }
    status = mst_socket_path(job, alone.path, true, err);
    if (status != MUSTER_OK) {
        return status;
    }
    (void)snprintf(addr, MST_LIB_ADDR_ROOM, "unix:%s", alone.path);
    *out = malloc(sizeof(alone));
    if (!*out) {
        return mst_lib_fail(err, MUSTER_ENOMEM, "open", NULL);
    }
    mst_lib_program(program);
    failed = mst_lib_serve(&alone.served, program, addr, flags, false);
    if (failed) {
        free(*out);
        *out = NULL;
        return mst_fail(
            err, MUSTER_EUNREACHABLE, failed,
            "open: no MUSTER_ADDR is set, and a service for this process alone cannot be started: "
            "'%s': %s; set MUSTER_PROGRAM, or start the program with `muster run`",
            program, strerror(failed));
    }
    **out = alone;
    fprintf(stderr,
            "muster: no MUSTER_ADDR: a job of one, with a service of its own (process %d at %s)\n",
            (int)alone.served.child.pid, addr);
    return MUSTER_OK;
}

#define ENDED "open: the service that was started for this process alone ended"

bool mst_lib_alone_runs(struct mst_lib_alone *alone, struct muster_error *err)
{
    int how = 0;

    if (!mst_child_await(&alone->served.child, 0, -1)) {
        return true;
    }
    if (!mst_child_reap(&alone->served.child, &how)) { /* the program ignores or reaps children */
        (void)mst_fail(err, MUSTER_EUNREACHABLE, 0, ENDED "; its messages are on stderr");
    } else if (WIFSIGNALED(how)) {
        (void)mst_fail(err, MUSTER_EUNREACHABLE, 0,
                       ENDED " with signal %d; its messages are on stderr", WTERMSIG(how));
    } else {
        (void)mst_fail(err, MUSTER_EUNREACHABLE, 0, ENDED " with status %d%s", WEXITSTATUS(how),
                       WEXITSTATUS(how) == 127
                           ? ": there is no `muster` program; set MUSTER_PROGRAM"
                           : "; its messages are on stderr");
    }
    return false;
}

static void close_if(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* The service ends when its standard input does, and removes its socket. A stuck one can do
 * neither, and is killed after a while. */
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
