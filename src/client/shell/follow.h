/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_FOLLOW_H
#define MST_CLIENT_SHELL_FOLLOW_H

/* A watch that goes on in a client (proto/follow.h), until it is ended, its taker has enough, or
 * the session is over. The client's lock is held in all of it. */

#include "client/shell/internal.h"
#include "proto/follow.h"

struct mst_lib_follow {
    /* Set by the caller. Takes what a reply told. OK: it goes on; ENOMEM: the same once more after
     * a while; MORE: it is taken, and mst_lib_follow_on asks for what comes next; another status:
     * that was all. */
    muster_status (*take)(void *ctx, const struct mst_reply *reply);
    /* The session is over: nothing is told any more. May be NULL. */
    void (*over)(void *ctx, muster_status status);
    void *ctx;

    muster_client *client;
    struct mst_follow state;
    struct mst_lib_post post;
    struct mst_lib_timer timer;
};

/* Begins, or begins anew for something else. */
void mst_lib_follow(struct mst_lib_follow *follow, muster_client *client, uint32_t kinds,
                    struct mst_slice prefix, uint32_t node);

void mst_lib_follow_on(struct mst_lib_follow *follow);

/* One that was never begun: a no-op. Not for a client that is poisoned. */
void mst_lib_follow_end(struct mst_lib_follow *follow);

#endif
