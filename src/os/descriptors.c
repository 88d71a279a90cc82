/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "os/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define ASKED_MOST 16u

bool mst_descriptors_left(unsigned count)
{
    int taken[ASKED_MOST];
    unsigned got = 0;
    int why = 0;

    while (got < count && got < ASKED_MOST) {
        taken[got] = open("/", O_PATH | O_CLOEXEC);
        if (taken[got] < 0) {
            why = errno;
            break;
        }
        got++;
    }
    while (got > 0) {
        (void)close(taken[--got]);
    }
    errno = why;
    return why == 0;
}

int mst_descriptor_beyond_streams(int fd)
{
    int beyond;
    int why;

    if (fd < 0 || fd > STDERR_FILENO) {
        return fd;
    }
    beyond = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    why = errno;
    (void)close(fd);
    errno = why;
    return beyond;
}

void mst_descriptors_text(char *text, size_t room)
{
    struct rlimit limit = {0};

    (void)getrlimit(RLIMIT_NOFILE, &limit);
    (void)snprintf(text, room,
                   "no descriptors left: the limit is %llu (ulimit -n); raise it, or close some",
                   (unsigned long long)limit.rlim_cur);
}

/* 0: it cannot be read. */
static unsigned long long number_in(const char *path)
{
    unsigned long long number = 0;
    char line[32];
    FILE *file = fopen(path, "re");

    if (file && fgets(line, sizeof(line), file)) {
        number = strtoull(line, NULL, 10);
    }
    if (file) {
        (void)fclose(file);
    }
    return number;
}

static unsigned long long processes_max(void)
{
    struct rlimit limit = {0};

    (void)getrlimit(RLIMIT_NPROC, &limit);
    return limit.rlim_cur;
}

void mst_thread_text(char *text, size_t room)
{
    (void)snprintf(text, room,
                   "a thread could not be started: raise the limit of this user, which is %llu "
                   "(ulimit -u), or that of the control group (pids.max), or it is out of memory",
                   processes_max());
}

void mst_shortage_text(int error, char *text, size_t room)
{
    switch (error) {
    case EMFILE:
        mst_descriptors_text(text, room);
        return;
    case ENFILE:
        (void)snprintf(text, room,
                       "no descriptors left on this machine: the limit is %llu (sysctl "
                       "fs.file-max); raise it, or end a process that has many",
                       number_in("/proc/sys/fs/file-max"));
        return;
    case ENOSPC:
        (void)snprintf(text, room,
                       "no epoll watches left: the limit of this user is %llu (sysctl "
                       "fs.epoll.max_user_watches); raise it",
                       number_in("/proc/sys/fs/epoll/max_user_watches"));
        return;
    case EAGAIN:
        (void)snprintf(text, room,
                       "no more processes: the limit of this user is %llu (ulimit -u), and the "
                       "control group may have a lower one (pids.max); raise it, or end some",
                       processes_max());
        return;
    default:
        (void)snprintf(text, room, "%s", strerror(error));
        return;
    }
}
