/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_RETRY_H
#define MST_PROTO_RETRY_H

/* When a client repeats a request that the service has refused. */

#include <stdbool.h>
#include <stdint.h>

#include "muster/status.h"

/* A service without room looks for some every second. */
#define MST_RETRY_FIRST_NS UINT64_C(250000000)
#define MST_RETRY_MOST_NS UINT64_C(1000000000)

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
