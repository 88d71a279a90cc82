/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "net/elsewhere.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "os/own_file.h"

#define TEXT_MAX (sizeof(struct mst_elsewhere) + 8)

static muster_status fail(struct muster_error *err, const char *path, int os_errno)
{
    return mst_fail(err, MUSTER_EINVAL, os_errno, "cannot write '%s': %s", path,
                    mst_own_file_why(os_errno));
}

/* False: another process has it. */
static bool lock(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_SETLK, &whole) == 0;
}

static bool write_all(int fd, const struct mst_elsewhere *where)
{
    char text[TEXT_MAX];
    int size = snprintf(text, sizeof text, "%s\n%s\n%d\n", where->addr, where->secret,
                        where->insecure ? 1 : 0);

    return size < (int)sizeof text && write(fd, text, (size_t)size) == size;
}

/* The file at `path`, locked by this process. -1: *os_errno is the error, or 0 if another one has
 * it. */
static int claim(const char *path, int *os_errno)
{
    int fd;

    while ((fd = mst_own_file_open(AT_FDCWD, path, O_RDWR | O_CREAT)) >= 0) {
        if (!lock(fd)) {
            (void)close(fd);
            *os_errno = 0;
            return -1;
        }
        if (mst_own_file_found(AT_FDCWD, path, fd)) {
            return fd;
        }
        (void)close(fd); /* removed or replaced by its keeper just then */
    }
    *os_errno = errno;
    return -1;
}

/* A reader finds what was there or this, whole and locked, at any moment. -1 with errno. */
static int put(const char *path, const struct mst_elsewhere *where)
{
    char draft[MST_SOCKET_PATH_MAX + 16];
    int fd, os_errno;

    (void)snprintf(draft, sizeof draft, "%s.%d", path, (int)getpid());
    fd = mst_own_file_open(AT_FDCWD, draft, O_RDWR | O_CREAT | O_TRUNC);
    if (fd < 0 || (lock(fd) && write_all(fd, where) && rename(draft, path) == 0)) {
        return fd;
    }
    os_errno = errno;
    (void)unlink(draft);
    (void)close(fd);
    errno = os_errno;
    return -1;
}

muster_status mst_elsewhere_keep(const char *job, const struct mst_elsewhere *where, int *fd,
                                 struct muster_error *err)
{
    char path[MST_SOCKET_PATH_MAX];
    muster_status status = mst_elsewhere_path(job, path, true, err);
    int os_errno = 0, put_fd;

    if (status != MUSTER_OK) {
        return status;
    }
    if (*fd < 0) {
        *fd = claim(path, &os_errno);
    }
    if (*fd < 0) {
        return os_errno == 0 ? MUSTER_OK : fail(err, path, os_errno);
    }
    put_fd = put(path, where);
    if (put_fd < 0) {
        status = fail(err, path, errno);
        mst_elsewhere_forget(job, *fd);
    } else {
        (void)close(*fd);
    }
    *fd = put_fd;
    return status;
}

void mst_elsewhere_forget(const char *job, int fd)
{
    char path[MST_SOCKET_PATH_MAX];

    if (fd >= 0) {
        if (mst_elsewhere_path(job, path, false, NULL) == MUSTER_OK) {
            (void)unlink(path);
        }
        (void)close(fd);
    }
}

static bool take_line(char **text, char *out, size_t room)
{
    char *end = strchr(*text, '\n');

    if (end == NULL || (size_t)(end - *text) >= room) {
        return false;
    }
    *end = '\0';
    memcpy(out, *text, (size_t)(end - *text) + 1);
    *text = end + 1;
    return true;
}

static bool read_all(int fd, struct mst_elsewhere *out)
{
    char text[TEXT_MAX], insecure[4], *rest = text;
    ssize_t size = read(fd, text, sizeof text - 1);

    text[size > 0 ? size : 0] = '\0';
    if (!take_line(&rest, out->addr, sizeof out->addr) ||
        !take_line(&rest, out->secret, sizeof out->secret) ||
        !take_line(&rest, insecure, sizeof insecure)) {
        return false;
    }
    out->insecure = insecure[0] == '1';
    return true;
}

/* Of an open file: as mst_elsewhere_read. */
static pid_t keeper_of(int fd, struct mst_elsewhere *out)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct mst_elsewhere where;

    if (fcntl(fd, F_GETLK, &whole) != 0 || whole.l_type == F_UNLCK || !read_all(fd, &where)) {
        return 0;
    }
    if (out != NULL) {
        *out = where;
    }
    return whole.l_pid > 0 ? whole.l_pid : -1; /* of another namespace of pids */
}

pid_t mst_elsewhere_read(const char *path, struct mst_elsewhere *out)
{
    pid_t keeper = 0;
    bool there;
    int fd;

    do {
        fd = mst_own_file_open(AT_FDCWD, path, O_RDONLY);
        if (fd < 0) {
            return 0;
        }
        keeper = keeper_of(fd, out);
        there = keeper != 0 || mst_own_file_found(AT_FDCWD, path, fd);
        (void)close(fd);
    } while (!there); /* replaced by its keeper just then, or removed */
    return keeper;
}
