/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_BASE_TIME_H
#define MST_BASE_TIME_H

/* Moments and spans of a monotonic clock, in nanoseconds. */

#include <stdint.h>

#define NEVER UINT64_MAX /* a moment that does not come */
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

static inline uint64_t mst_sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t mst_later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* What is beyond the clock's range is NEVER. */
static inline uint64_t mst_after_ns(uint64_t moment_ns, uint64_t span_ns)
{
    return span_ns > NEVER - moment_ns ? NEVER : moment_ns + span_ns;
}

static inline uint64_t mst_after_ms(uint64_t moment_ns, uint64_t span_ms)
{
    return span_ms > (NEVER - moment_ns) / NS_PER_MS ? NEVER : moment_ns + span_ms * NS_PER_MS;
}

/* Rounded up, so that a wait of so many milliseconds does not end before the span does. */
static inline uint64_t mst_ms_up(uint64_t span_ns)
{
    return span_ns / NS_PER_MS + (span_ns % NS_PER_MS != 0);
}

/* How many of them are left until then, rounded up; 0: it has come. */
static inline uint64_t mst_ms_until(uint64_t moment_ns, uint64_t now_ns)
{
    return moment_ns > now_ns ? mst_ms_up(moment_ns - now_ns) : 0;
}

#endif
