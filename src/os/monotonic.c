/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "os/monotonic.h"

#include "os/clock.h"

void mst_monotonic_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t how;

    (void)pthread_condattr_init(&how);
    (void)pthread_condattr_setclock(&how, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &how);
    (void)pthread_condattr_destroy(&how);
}

struct timespec mst_monotonic_in(uint32_t ms)
{
    return mst_clock_timespec(mst_clock_ns(CLOCK_MONOTONIC) + ms * NS_PER_MS);
}
