/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "os/monotonic.h"

#define NS_PER_MS 1000000
#define NS_PER_S 1000000000

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
    struct timespec at;

    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += ms / 1000;
    at.tv_nsec += (long)(ms % 1000) * NS_PER_MS;
    if (at.tv_nsec >= NS_PER_S) {
        at.tv_nsec -= NS_PER_S;
        at.tv_sec++;
    }
    return at;
}
