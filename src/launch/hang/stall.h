/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_HANG_STALL_H
#define MST_LAUNCH_HANG_STALL_H

/* The word of an agent that a rank makes no progress, until the service has heard it. Before that
 * no rank is interrupted, and what waits in muster may wait for the service: so no limit runs while
 * it is owed (mst_monitor's `held`). One at a time, the newest counts. */

#include "client/shell/deliver.h"
#include "client/shell/internal.h"

struct mst_stall {
    struct mst_delivery delivery; /* the caller sets whether it outlives a session */
    uint64_t generation, pid;
    uint32_t index;   /* MST_INDEX_ANY: of none in particular; then it falls back on: */
    uint32_t instead; /* the one that is named to a service that takes no such word */
    char text[400];
};

/* With the client's lock held, if there is a client. */
void mst_stall_set(struct mst_stall *stall, muster_client *client, uint64_t generation,
                   const char *text);

#endif
