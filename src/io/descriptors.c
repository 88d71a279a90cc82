/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "io/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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
    (void)snprintf(text, room, "no descriptors left: the limit is %llu (ulimit -n)",
                   (unsigned long long)limit.rlim_cur);
}
