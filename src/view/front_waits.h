/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_VIEW_FRONT_WAITS_H
#define MST_VIEW_FRONT_WAITS_H

/* Processes that wait in a front for others, as their agents say. */

#include "view/status_json.h"

struct mst_front_waiter {
    uint32_t index; /* of the rank; MST_INDEX_ANY: it is none */
    uint32_t pid;
    uint64_t for_ms;
    struct mst_slice what; /* "for the key 'x'"; borrowed from the status */
};

struct mst_front_waits {
    struct mst_front_waiter *list; /* by index, and what waits longer first */
    size_t count;
    uint64_t more; /* that wait too, and have no room in the keys */
};

/* False: no memory. The caller frees `list`. */
bool mst_front_waits_of(const struct mst_status *status, struct mst_front_waits *out);

/* Whether a process of the rank waits. */
bool mst_front_waits_has(const struct mst_front_waits *waits, uint32_t index);

#endif
