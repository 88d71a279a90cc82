/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of one machine without a service: the first of them starts one for all.
 *
 * Each looks for a living service at the job's socket, takes the lock for starting one, looks
 * again, and starts it. The service detaches itself, so it is no child, survives the rank that
 * started it, and holds none of the launcher's pipes. It ends with its last session; a rank that
 * comes while it ends finds no service at the socket, and starts the next one. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/text.h"
#include "client/shell/handle.h"
#include "client/shell/sidecar/serve.h"
#include "net/socket_dir.h"
#include "os/own_file.h"

#define LOCK "/.start" /* begins with a dot: no service's name does */
#define LOOK_MS 5      /* between two looks at what the holder of the lock has achieved */

static muster_status fail(struct muster_error *err, int os_errno, const char *program,
                          const char *why)
{
    return mst_fail(err, MUSTER_EUNREACHABLE, os_errno,
                    "open: no MUSTER_ADDR is set, and a service for the ranks of this machine "
                    "cannot be started: '%s'%s%s%s; set MUSTER_PROGRAM, or start `muster serve` "
                    "and set MUSTER_ADDR",
                    program, why, os_errno != 0 ? ": " : "",
                    os_errno != 0 ? strerror(os_errno) : "");
}

/* Held until the descriptor is closed, also by the end of this process. -1: OK means that another
 * process has started the service meanwhile, an error that none makes progress. */
static muster_status lock_starting(const char *socket, uint64_t deadline_ns, int *lock_out,
                                   struct muster_error *err)
{
    char dir[MST_SOCKET_PATH_MAX];
    char path[MST_SOCKET_PATH_MAX + sizeof LOCK];
    muster_status status = mst_socket_dir(dir, true, err);
    int fd, failed = 0;

    *lock_out = -1;
    if (status != MUSTER_OK) {
        return status;
    }
    (void)snprintf(path, sizeof path, "%s" LOCK, dir);
    fd = mst_own_file_open(AT_FDCWD, path, O_RDWR | O_CREAT);
    if (fd < 0) {
        return fail(err, errno, path, " cannot be opened");
    }
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        failed = errno == EWOULDBLOCK || errno == EINTR ? 0 : errno;
        if (failed == 0 && mst_socket_alive(socket) != 0) {
            (void)close(fd);
            return MUSTER_OK;
        }
        if (failed != 0 || mst_lib_now_ns() >= deadline_ns) {
            (void)close(fd);
            return fail(err, failed, path,
                        failed != 0 ? " cannot be locked"
                                    : " is locked by a process that makes no progress");
        }
        (void)poll(NULL, 0, LOOK_MS);
    }
    *lock_out = fd;
    return MUSTER_OK;
}

/* Returns when the service can be reached, or will never be. In a program that reaps every child,
 * or ignores SIGCHLD, the status is lost: then the socket alone says how it went. */
static muster_status start(const char *path, const char *addr, uint64_t deadline_ns,
                           struct muster_error *err)
{
    static const char *const flags[] = {"--background", "--until-idle", NULL};
    char program[MST_LIB_PROGRAM_ROOM];
    struct mst_served served;
    enum mst_child_end end;
    int how = 0;
    int failed;

    mst_lib_program(program);
    failed = mst_lib_serve(&served, program, addr, flags, true);
    if (failed) {
        return fail(err, failed, program, "");
    }
    end = mst_child_finish(&served.child, deadline_ns, -1, &how);
    if (end == MST_CHILD_LATE) {
        return fail(err, 0, program, " did not begin to serve in time");
    }
    if ((end == MST_CHILD_ENDED && how == 0) || mst_socket_alive(path) != 0) {
        return MUSTER_OK;
    }
    return fail(err, 0, program, " ended at once; its messages are on stderr");
}

static muster_status start_first(const char *path, const char *whose, const char *addr,
                                 uint64_t deadline_ns, struct muster_error *err)
{
    muster_status status;
    int lock;

    mst_lib_wait_shown(); /* for the other ranks of this machine, and for the service */
    status = lock_starting(path, deadline_ns, &lock, err);
    if (lock >= 0 && mst_socket_alive(path) == 0) {
        status = start(path, addr, deadline_ns, err);
        if (status == MUSTER_OK) {
            fprintf(stderr, "muster: no MUSTER_ADDR: %s, with one service for all at %s\n", whose,
                    addr);
        }
    }
    if (lock >= 0) {
        (void)close(lock);
    }
    mst_lib_wait_over();
    return status;
}

muster_status mst_lib_share(const char *job, const char *whose, uint64_t deadline_ns,
                            char addr[MST_LIB_ADDR_ROOM], struct muster_error *err)
{
    char path[MST_SOCKET_PATH_MAX];
    muster_status status = mst_socket_path(job, path, true, err);

    if (status != MUSTER_OK) {
        return status;
    }
    (void)snprintf(addr, MST_LIB_ADDR_ROOM, "unix:%s", path);
    return mst_socket_alive(path) == 0 ? start_first(path, whose, addr, deadline_ns, err)
                                       : MUSTER_OK;
}
