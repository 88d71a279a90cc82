/* SPDX-License-Identifier: Apache-2.0 */

/* Loaded before a service: says on descriptor COUNT_SYNCS_FD in which order it syncs data ('s'),
 * syncs a folder (its path in brackets) and sends ('r') to its clients. */

#define _GNU_SOURCE
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void tell(const char *what)
{
    const char *fd = getenv("COUNT_SYNCS_FD");

    if (fd) {
        (void)!write((int)strtol(fd, NULL, 10), what, strlen(what));
    }
}

__attribute__((visibility("default"))) int fdatasync(int fd);
__attribute__((visibility("default"))) int fsync(int fd);
__attribute__((visibility("default"))) ssize_t send(int fd, const void *data, size_t size,
                                                    int flags);

int fdatasync(int fd)
{
    int code = (int)syscall(SYS_fdatasync, fd);

    if (code == 0) {
        tell("s");
    }
    return code;
}

int fsync(int fd)
{
    char link[64], path[PATH_MAX + 1] = "", text[PATH_MAX + 4];
    int code = (int)syscall(SYS_fsync, fd);

    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (code == 0 && readlink(link, path, PATH_MAX) > 0) {
        (void)snprintf(text, sizeof text, "[%s]", path);
        tell(text);
    }
    return code;
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    tell("r");
    return syscall(SYS_sendto, fd, data, size, flags, NULL, 0);
}
