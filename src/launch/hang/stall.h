/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_HANG_STALL_H
#define MST_LAUNCH_HANG_STALL_H

/* The word of an agent that a rank makes no progress, until the service has heard it. Before that
 * no rank is interrupted, and what waits in muster may wait for the service: so no limit runs while
 * it is owed (mst_monitor's `held`). One at a time, the newest counts. */

#include "client/shell/deliver.h"
#include "client/shell/internal.h"

struct mst_stalled {
    uint64_t generation, pid;
    uint32_t index;
    bool named;       /* the rank is why; false: none is known to be */
    const char *text; /* copied */
};

struct mst_stall {
    struct mst_delivery delivery; /* the caller sets whether it outlives a session */
    struct mst_stalled is;
    char text[400];
};

/* Client NULL: it is only owed. Locks the client. */
void mst_stall_set(struct mst_stall *stall, muster_client *client, const struct mst_stalled *is);

/* Whether the service has not taken it yet. Locks the client. */
bool mst_stall_owed(const struct mst_stall *stall, muster_client *client);

#endif
