/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "os/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* 0, or an errno. */
static int look_at(int fd)
{
    struct stat info;

    if (fstat(fd, &info) != 0) {
        return errno;
    }
    if (!S_ISREG(info.st_mode)) {
        return ELOOP;
    }
    return info.st_uid == geteuid() && (info.st_mode & 022) == 0 ? 0 : EPERM;
}

/* What is there is only cut after it was looked at. */
int mst_own_file_open(int folder, const char *name, int flags)
{
    int fd = openat(folder, name, (flags & ~O_TRUNC) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    int os_errno = fd >= 0 ? look_at(fd) : errno;

    if (os_errno == 0 && (flags & O_TRUNC) != 0 && ftruncate(fd, 0) != 0) {
        os_errno = errno;
    }
    if (os_errno == 0) {
        return fd;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    errno = os_errno;
    return -1;
}

int mst_own_file_new(const char *path)
{
    (void)unlink(path);
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

bool mst_own_file_replace(const char *path, const char *mark, const char *bytes, size_t size)
{
    char beside[PATH_MAX + HOST_NAME_MAX + 16];
    int fd, error;
    bool ok;

    (void)snprintf(beside, sizeof beside, "%s.%s.%d", path, mark, (int)getpid());
    fd = mst_own_file_new(beside);
    if (fd < 0) {
        return false;
    }
    ok = write(fd, bytes, size) == (ssize_t)size && fsync(fd) == 0;
    ok = close(fd) == 0 && ok;
    ok = ok && rename(beside, path) == 0;
    error = errno;
    if (!ok) {
        (void)unlink(beside);
    }
    errno = error;
    return ok;
}

bool mst_own_file_found(int folder, const char *name, int fd)
{
    struct stat there, ours;

    return fstatat(folder, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &ours) == 0 &&
           there.st_dev == ours.st_dev && there.st_ino == ours.st_ino;
}

const char *mst_own_file_why(int os_errno)
{
    switch (os_errno) {
    case ELOOP:
        return "it is no regular file, and no link is followed";
    case EPERM:
        return "it belongs to another user, or others may write to it";
    default: /* errno */
        return strerror(os_errno);
    }
}
