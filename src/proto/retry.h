/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_RETRY_H
#define MST_PROTO_RETRY_H

/* When a client repeats a request that the service has refused. */

#include <stdbool.h>

#include "base/time.h"
#include "muster/status.h"

/* A service without room looks for some every second. */
#define MST_RETRY_FIRST_NS (250 * NS_PER_MS)
#define MST_RETRY_MOST_NS (1000 * NS_PER_MS)

/* Whether the service had no room for it now: nothing was changed. */
static inline bool mst_retry_helps(muster_status status)
{
    return status == MUSTER_ENOMEM || status == MUSTER_ENOSPACE || status == MUSTER_ELIMIT;
}

/* The wait after this many refusals in a row. */
static inline uint64_t mst_retry_after_ns(uint32_t refusals)
{
    return refusals <= 1   ? MST_RETRY_FIRST_NS
           : refusals == 2 ? 2 * MST_RETRY_FIRST_NS
                           : MST_RETRY_MOST_NS;
}

#endif
