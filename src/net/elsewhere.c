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

/* The last line is there when all of it is. */
static bool write_all(int fd, const struct mst_elsewhere *where)
{
    char text[TEXT_MAX];
    int size = snprintf(text, sizeof text, "%s\n%s\n%d\n", where->addr, where->secret,
                        where->insecure ? 1 : 0);

    return size < (int)sizeof text && ftruncate(fd, 0) == 0 &&
           write(fd, text, (size_t)size) == size;
}

muster_status mst_elsewhere_keep(const char *job, const struct mst_elsewhere *where, int *fd_out,
                                 struct muster_error *err)
{
    char path[MST_SOCKET_PATH_MAX];
    muster_status status = mst_elsewhere_path(job, path, true, err);
    int fd;

    if (status != MUSTER_OK) {
        return status;
    }
    while ((fd = mst_own_file_open(AT_FDCWD, path, O_RDWR | O_CREAT)) >= 0) {
        if (!lock(fd)) {
            (void)close(fd);
            *fd_out = -1;
            return MUSTER_OK;
        }
        if (mst_own_file_found(AT_FDCWD, path, fd)) {
            break;
        }
        (void)close(fd); /* removed by its keeper just then */
    }
    if (fd < 0) {
        return fail(err, path, errno);
    }
    if (!write_all(fd, where)) {
        status = fail(err, path, errno);
        (void)unlink(path);
        (void)close(fd);
        return status;
    }
    *fd_out = fd;
    return MUSTER_OK;
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

pid_t mst_elsewhere_read(const char *path, struct mst_elsewhere *out)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct mst_elsewhere where;
    int fd = mst_own_file_open(AT_FDCWD, path, O_RDONLY);
    pid_t keeper = 0;

    if (fd < 0) {
        return 0;
    }
    if (fcntl(fd, F_GETLK, &whole) == 0 && whole.l_type != F_UNLCK && read_all(fd, &where)) {
        keeper = whole.l_pid > 0 ? whole.l_pid : -1; /* of another namespace of pids */
        if (out != NULL) {
            *out = where;
        }
    }
    (void)close(fd);
    return keeper;
}
