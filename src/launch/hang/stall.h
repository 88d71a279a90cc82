/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_HANG_STALL_H
#define MST_LAUNCH_HANG_STALL_H

/* The word of an agent that a rank makes no progress, until the service has heard it. Before that
 * nobody is interrupted, and what waits in muster may wait for the service: so no limit runs while
 * it is owed (mst_monitor's `held`). One at a time, the newest counts. */

#include "client/shell/internal.h"

struct mst_stall {
    /* Set by the caller: */
    bool outlives; /* a session that ends without having said it: the next one is to */
    void (*refused)(
        void *ctx); /* owed for want of room; with the client's lock held. May be NULL */
    void *ctx;

    bool owed;
    muster_client *client; /* it was said to last */
    struct mst_lib_post post;
    uint64_t generation, pid;
    uint32_t index;   /* MST_INDEX_ANY: of none in particular; then it falls back on: */
    uint32_t instead; /* the one that is named to a service that takes no such word */
    char text[400];
};

/* Both with the client's lock held, if there is a client. */
void mst_stall_set(struct mst_stall *stall, muster_client *client, uint64_t generation,
                   const char *text);
void mst_stall_say(struct mst_stall *stall, muster_client *client); /* if it is owed */

bool mst_stall_unheard(const struct mst_stall *stall);

#endif
