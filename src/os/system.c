/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "os/system.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/descriptors.h"

uint64_t mst_system_now_ns(void)
{
    return mst_clock_ns(CLOCK_MONOTONIC);
}

void mst_system_random(uint64_t *numbers, unsigned count)
{
    unsigned char *bytes = (unsigned char *)numbers;
    size_t size = count * sizeof(*numbers);

    for (size_t have = 0; have < size;) {
        ssize_t got = getrandom(bytes + have, size - have, 0);

        if (got > 0) {
            have += (size_t)got;
        } else if (got < 0 && errno != EINTR) {
            /* Only a kernel without the call, or a filter that forbids it: two processes of one
             * machine still differ in these. */
            for (unsigned i = 0; i < count; i++) {
                numbers[i] = mst_system_now_ns() ^ ((uint64_t)getpid() << (32 + i));
            }
            return;
        }
    }
}

static void *take(void *ctx, size_t size)
{
    (void)ctx;
    return malloc(size > 0 ? size : 1);
}

static void release(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

const struct mst_mem mst_system_mem = {.alloc = take, .release = release};

int mst_system_event(void)
{
    return mst_descriptor_beyond_streams(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

void mst_system_event_ring(int fd)
{
    uint64_t one = 1;
    ssize_t wrote;

    do {
        wrote = write(fd, &one, sizeof(one));
    } while (wrote < 0 && errno == EINTR); /* full: it is readable as it is */
}

void mst_system_event_quiet(int fd)
{
    uint64_t count;
    ssize_t got;

    do {
        got = read(fd, &count, sizeof(count));
    } while (got < 0 && errno == EINTR);
}
