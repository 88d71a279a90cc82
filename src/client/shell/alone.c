/* SPDX-License-Identifier: Apache-2.0 */
/* A program started alone is a job of one: its service is a child on a private socket, which ends
 * when its standard input does, that is with us, however we end. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/shell/handle.h"
#include "client/shell/serve.h"
#include "net/socket_dir.h"
#include "os/descriptors.h"

#define STOP_MS UINT64_C(2000)
#define ASK_MS 10
#define NS_PER_MS UINT64_C(1000000)

struct mst_lib_alone {
    pid_t pid;
    char path[MST_SOCKET_PATH_MAX]; /* of its socket */
    int pidfd;                      /* -1: the kernel has none, or the program has closed it */
    int stdin_fd;                   /* the end of it that keeps the child alive; -1: likewise */
    bool reaped;
};

static muster_status refuse(struct muster_error *err, const char *what, const char *program,
                            int os_errno)
{
    if (err) {
        struct mst_text text = mst_text_in(err->text, sizeof(err->text));

        err->status = MUSTER_EUNREACHABLE;
        err->os_errno = os_errno;
        mst_text_add(&text, what);
        mst_text_add(&text, ": no MUSTER_ADDR is set, and a service for this process alone cannot "
                            "be started: '");
        mst_text_add(&text, program);
        mst_text_add(&text, "': ");
        mst_text_add(&text, strerror(os_errno));
        mst_text_add(&text, "; set MUSTER_PROGRAM, or start the program with `muster run`");
    }
    return MUSTER_EUNREACHABLE;
}

static muster_status start(struct mst_lib_alone *alone, const char *addr, struct muster_error *err,
                           const char *what)
{
    static const char *const flags[] = {"--parent", NULL};
    char program[MST_LIB_PROGRAM_ROOM];
    int ends[2];
    int failed;

    mst_lib_program(program);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return refuse(err, what, program, errno);
    }
    ends[1] = mst_descriptor_beyond_streams(ends[1]); /* its end, and any word, stop the service */
    if (ends[1] < 0) {
        failed = errno;
        (void)close(ends[0]);
        return refuse(err, what, program, failed);
    }
    failed = mst_lib_serve(&alone->pid, program, addr, flags, ends[0]);
    (void)close(ends[0]);
    if (failed) {
        (void)close(ends[1]);
        return refuse(err, what, program, failed);
    }
    alone->stdin_fd = ends[1];
    /* The program may reap every child it has: from now on the number alone names nobody. */
    alone->pidfd = mst_descriptor_beyond_streams((int)syscall(SYS_pidfd_open, alone->pid, 0));
    fprintf(stderr,
            "muster: no MUSTER_ADDR: a job of one, with a service of its own (process %d at %s)\n",
            (int)alone->pid, addr);
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

static void say_how(struct mst_text *text, int how)
{
    if (WIFEXITED(how)) {
        mst_text_add(text, " with status ");
        mst_text_i64(text, WEXITSTATUS(how));
    } else {
        mst_text_add(text, " with signal ");
        mst_text_i64(text, WTERMSIG(how));
    }
    mst_text_add(text, WIFEXITED(how) && WEXITSTATUS(how) == 127
                           ? ": there is no `muster` program; set MUSTER_PROGRAM"
                           : "; what it said is on stderr");
}

bool mst_lib_alone_runs(struct mst_lib_alone *alone, struct muster_error *err, const char *what)
{
    int how = 0;
    pid_t ended = waitpid(alone->pid, &how, WNOHANG);

    if (ended == 0 || (ended < 0 && errno != ECHILD)) {
        return true;
    }
    alone->reaped = true;
    if (err) {
        struct mst_text text = mst_text_in(err->text, sizeof(err->text));

        err->status = MUSTER_EUNREACHABLE;
        err->os_errno = 0;
        mst_text_add(&text, what);
        mst_text_add(&text, ": the service that was started for this process alone ended");
        if (ended > 0) {
            say_how(&text, how);
        } else { /* SIGCHLD is ignored, or somebody else has waited for it */
            mst_text_add(&text, "; what it said is on stderr");
        }
    }
    return false;
}

/* Whether it has ended and was waited for, here or by somebody else. */
static bool has_ended(struct mst_lib_alone *alone)
{
    pid_t ended = alone->reaped ? alone->pid : waitpid(alone->pid, NULL, WNOHANG);

    alone->reaped = ended > 0 || (ended < 0 && errno == ECHILD);
    return alone->reaped;
}

/* Signals that interrupt the wait do not begin it anew. Without a pidfd it is asked repeatedly. */
static bool ends_in_time(struct mst_lib_alone *alone)
{
    struct pollfd end = {.fd = alone->pidfd, .events = POLLIN};
    uint64_t until_ns = mst_lib_now_ns() + STOP_MS * NS_PER_MS;

    while (!has_ended(alone)) {
        uint64_t now_ns = mst_lib_now_ns();

        if (now_ns >= until_ns) {
            return false;
        }
        (void)poll(&end, 1, alone->pidfd < 0 ? ASK_MS : (int)((until_ns - now_ns) / NS_PER_MS) + 1);
    }
    return true;
}

static void kill_it(const struct mst_lib_alone *alone)
{
    if (alone->pidfd >= 0) {
        (void)syscall(SYS_pidfd_send_signal, alone->pidfd, SIGKILL, NULL, 0);
    } else {
        (void)kill(alone->pid, SIGKILL); /* nobody has waited for it: the number is its own */
    }
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
    close_if(alone->stdin_fd);
    killed = !ends_in_time(alone);
    if (killed) {
        kill_it(alone);
    }
    close_if(alone->pidfd);
    while (!alone->reaped && waitpid(alone->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    if (killed) {
        (void)unlink(alone->path);
    }
    free(alone);
}

void mst_lib_alone_abandon(struct mst_lib_alone *alone)
{
    if (alone) {
        close_if(alone->stdin_fd);
        close_if(alone->pidfd);
    }
}

void mst_lib_alone_disown(struct mst_lib_alone *alone)
{
    if (alone) {
        alone->stdin_fd = alone->pidfd = -1;
    }
}
