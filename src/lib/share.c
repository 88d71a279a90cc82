/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of one machine without a service: the first of them starts one for all.
 *
 * Each looks for a living service at the job's socket, takes the lock of those who start one, looks
 * again, and starts it. The service detaches itself, so it is nobody's child, survives the rank
 * that started it, and holds none of the launcher's pipes. It ends with its last session; who comes
 * while it ends finds nobody at the socket, and the same begins anew. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "io/socket_dir.h"
#include "lib/handle.h"
#include "lib/serve.h"

#define LOCK "/.start" /* begins with a dot: no service's name does */

static muster_status fail(struct muster_error *err, int os_errno, const char *what,
                          const char *program, const char *why)
{
    if (err) {
        struct mst_text text = mst_text_in(err->text, sizeof(err->text));

        err->status = MUSTER_EUNREACHABLE;
        err->os_errno = os_errno;
        mst_text_add(&text, what);
        mst_text_add(&text, ": no MUSTER_ADDR is set, and a service for the ranks of this machine "
                            "cannot be started: '");
        mst_text_add(&text, program);
        mst_text_add(&text, "'");
        mst_text_add(&text, why);
        if (os_errno != 0) {
            mst_text_add(&text, ": ");
            mst_text_add(&text, strerror(os_errno));
        }
        mst_text_add(&text, "; set MUSTER_PROGRAM, or start `muster serve` and set MUSTER_ADDR");
    }
    return MUSTER_EUNREACHABLE;
}

/* Held until the descriptor is closed, also by our end. */
static int lock_starting(struct muster_error *err, const char *what)
{
    char dir[MST_SOCKET_PATH_MAX];
    char path[MST_SOCKET_PATH_MAX + sizeof LOCK];
    int fd;

    if (mst_socket_dir(dir, true, err) != MUSTER_OK) {
        return -1;
    }
    (void)snprintf(path, sizeof path, "%s" LOCK, dir);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    while (fd >= 0 && flock(fd, LOCK_EX) != 0) {
        if (errno != EINTR) {
            (void)close(fd);
            fd = -1;
        }
    }
    if (fd < 0) {
        (void)fail(err, errno, what, path, " cannot be locked");
    }
    return fd;
}

/* Returns when the service can be reached, or will never be. A program that reaps every child, or
 * ignores SIGCHLD, leaves us no status: then the socket alone says how it went. */
static muster_status start(const char *path, const char *addr, struct muster_error *err,
                           const char *what)
{
    static const char *const flags[] = {"--background", "--until-idle", NULL};
    char program[MST_LIB_PROGRAM_ROOM];
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pid_t pid = 0;
    pid_t ended;
    int how = 0;
    int failed;

    mst_lib_program(program);
    if (null < 0) {
        return fail(err, errno, what, "/dev/null", "");
    }
    failed = mst_lib_serve(&pid, program, addr, flags, null);
    (void)close(null);
    if (failed) {
        return fail(err, failed, what, program, "");
    }
    do {
        ended = waitpid(pid, &how, 0);
    } while (ended < 0 && errno == EINTR);
    if ((ended == pid && how == 0) || mst_socket_alive(path) != 0) {
        return MUSTER_OK;
    }
    return fail(err, 0, what, program, " ended at once; what it said is on stderr");
}

static muster_status start_first(const char *path, const char *whose, const char *addr,
                                 struct muster_error *err, const char *what)
{
    int lock = lock_starting(err, what);
    muster_status status = MUSTER_OK;

    if (lock < 0) {
        return MUSTER_EUNREACHABLE;
    }
    if (mst_socket_alive(path) == 0) {
        status = start(path, addr, err, what);
        if (status == MUSTER_OK) {
            fprintf(stderr, "muster: no MUSTER_ADDR: %s, with one service for all at %s\n", whose,
                    addr);
        }
    }
    (void)close(lock);
    return status;
}

muster_status mst_lib_share(const char *job, const char *whose, char **addr_out,
                            struct muster_error *err, const char *what)
{
    char path[MST_SOCKET_PATH_MAX];
    char addr[MST_SOCKET_PATH_MAX + 8];
    muster_status status = mst_socket_path(job, path, true, err);

    if (status != MUSTER_OK) {
        return status;
    }
    (void)snprintf(addr, sizeof(addr), "unix:%s", path);
    if (mst_socket_alive(path) == 0) {
        status = start_first(path, whose, addr, err, what);
    }
    if (status == MUSTER_OK) {
        *addr_out = strdup(addr);
        if (!*addr_out) {
            status = mst_lib_fail(err, MUSTER_ENOMEM, what, NULL);
        }
    }
    return status;
}
