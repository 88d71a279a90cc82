/* SPDX-License-Identifier: Apache-2.0 */

/* Loaded before a program: says on descriptor COUNT_SYNCS_FD, or at the end of COUNT_SYNCS_FILE, in
 * which order it syncs data ('s'), syncs a file or a folder (its path in brackets), renames (the
 * old path in parentheses) and sends ('r'), to its clients if it is a service. */

#define _GNU_SOURCE
#include <fcntl.h>
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
    const char *path = getenv("COUNT_SYNCS_FILE");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;

    if (fd) {
        (void)!write((int)strtol(fd, NULL, 10), what, strlen(what));
    }
    if (file >= 0) {
        (void)!write(file, what, strlen(what));
        close(file);
    }
}

__attribute__((visibility("default"))) int fdatasync(int fd);
__attribute__((visibility("default"))) int fsync(int fd);
__attribute__((visibility("default"))) int rename(const char *from, const char *to);
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

int rename(const char *from, const char *to)
{
    char text[PATH_MAX + 4];

    (void)snprintf(text, sizeof text, "(%s)", from);
    tell(text);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    tell("r");
    return syscall(SYS_sendto, fd, data, size, flags, NULL, 0);
}
