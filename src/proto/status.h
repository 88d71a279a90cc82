/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_STATUS_H
#define MST_PROTO_STATUS_H

#include <stdbool.h>

#include "muster/status.h"

const char *mst_status_name(muster_status status);
const char *mst_status_text(muster_status status);

/* Statuses that calls of muster return to the peers of a lost or failed rank. A function that
 * returns one reports a fault without a kind (MST_CAUSE_NONE), which the service accepts only if
 * the generation has no other fault. */
static inline bool mst_status_is_passed_on(muster_status status)
{
    return status == MUSTER_ELOST || status == MUSTER_EFENCED;
}

#endif
