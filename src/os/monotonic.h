/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_OS_MONOTONIC_H
#define MST_OS_MONOTONIC_H

/* Waiting for a limited time. A condition that is made without a clock counts by the wall clock:
 * when that is set back an hour, the wait takes an hour. */

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "base/time.h"

/* pthread_cond_timedwait counts by CLOCK_MONOTONIC. */
void mst_monotonic_cond_init(pthread_cond_t *cond);

/* The time of that clock in so many milliseconds. */
struct timespec mst_monotonic_in(uint32_t ms);

#endif
