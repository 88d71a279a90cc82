/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_FOLLOW_H
#define MST_CLIENT_SHELL_FOLLOW_H

/* A continued watch in a client (proto/follow.h), until it is ended, `take` stops it, or the
 * session is over. The client's lock is held in all functions. */

#include "client/shell/internal.h"
#include "proto/follow.h"

struct mst_lib_follow {
    /* Set by the caller: processes a reply. OK: continue; ENOMEM: the same again after a while;
     * MORE: processed, and mst_lib_follow_on continues; another status: stop. */
    muster_status (*take)(void *ctx, const struct mst_reply *reply);
    /* The session is over. May be NULL. */
    void (*over)(void *ctx, muster_status status);
    void *ctx;

    muster_client *client;
    struct mst_follow state;
    struct mst_lib_post post;
    struct mst_lib_timer timer;
};

/* Begins, or begins anew with other parameters. */
void mst_lib_follow(struct mst_lib_follow *follow, muster_client *client, uint32_t kinds,
                    struct mst_slice prefix, uint32_t node);

/* The same, only of what comes after `revision`: a revision that a reply named. */
void mst_lib_follow_after(struct mst_lib_follow *follow, muster_client *client, uint32_t kinds,
                          struct mst_slice prefix, uint32_t node, uint64_t revision);

void mst_lib_follow_on(struct mst_lib_follow *follow);

/* A no-op before it began. Not for a poisoned client. */
void mst_lib_follow_end(struct mst_lib_follow *follow);

#endif
