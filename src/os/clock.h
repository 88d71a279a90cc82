/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_OS_CLOCK_H
#define MST_OS_CLOCK_H

/* The system's clocks, read as one number. */

#include <stdint.h>
#include <time.h>

#include "base/time.h"

static inline uint64_t mst_clock_ns(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static inline int64_t mst_clock_ms_of(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000 + time->tv_nsec / (int64_t)NS_PER_MS;
}

static inline int64_t mst_clock_ms(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return mst_clock_ms_of(&now);
}

static inline struct timespec mst_clock_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
}

#endif
