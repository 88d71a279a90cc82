/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_SECONDARY_H
#define MST_PROTO_SECONDARY_H

/* A secondary failure: the process of a peer died, and a rank fails because its connection to that
 * peer broke. The kernel closes the connection before the agent can report the death, so the
 * failure may be reported first. A death that is reported within MST_SECONDARY_MS of a failure of
 * another rank stands before it in the record, and that failure does not count against the rank's
 * faults_max. Only a fault of the cause FAULT can be a secondary failure: an unhealthy or silent
 * rank is not so because a peer died. */

#include "proto/request.h"

#define MST_SECONDARY_MS 250u

/* The end of a process that no decision of muster preceded. */
static inline bool mst_cause_is_death(enum mst_cause cause)
{
    return cause == MST_CAUSE_EXIT || cause == MST_CAUSE_SIGNAL || cause == MST_CAUSE_GONE ||
           cause == MST_CAUSE_LEASE || cause == MST_CAUSE_HARD_TIMEOUT;
}

#endif
