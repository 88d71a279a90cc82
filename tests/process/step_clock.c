/* SPDX-License-Identifier: Apache-2.0 */

/* Loaded before a process: its wall clock is off by as many seconds as the file STEP_CLOCK says,
 * from one moment to the next. The file is 8 bytes, and is written by the test. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *step;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("STEP_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd >= 0 ? mmap(NULL, sizeof *step, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (fd >= 0) {
        (void)close(fd);
    }
    if (at != MAP_FAILED) {
        step = at;
    }
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *now);
__attribute__((visibility("default"))) int gettimeofday(struct timeval *now, void *zone);
__attribute__((visibility("default"))) time_t seconds(time_t *out) __asm__("time");

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int code = (int)syscall(SYS_clock_gettime, clock, now);

    if (code == 0 && step && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        now->tv_sec += (time_t)*step;
    }
    return code;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec exact;

    (void)zone;
    (void)clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t seconds(time_t *out)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (out) {
        *out = now.tv_sec;
    }
    return now.tv_sec;
}
