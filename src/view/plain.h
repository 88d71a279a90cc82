/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_VIEW_PLAIN_H
#define MST_VIEW_PLAIN_H

/* Ranks of a job that run and do not use muster, as their agents say. */

#include "view/status_json.h"

struct mst_plain_rank {
    uint32_t index, pid, node;
    struct mst_slice host; /* of the agent; borrowed from the status */
};

struct mst_plain {
    struct mst_plain_rank *ranks; /* by index */
    size_t count;
    uint64_t more; /* that run too, and have no room in the keys */
};

/* Each index once. False: no memory. The caller frees `ranks`. */
bool mst_plain_of(const struct mst_status *status, struct mst_plain *out);

#endif
