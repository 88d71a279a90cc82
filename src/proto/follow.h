/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_FOLLOW_H
#define MST_PROTO_FOLLOW_H

/* A watch that goes on: what to ask for next, and when.
 *
 * What was told up to a revision is not told again: the next request is for what comes after it. A
 * request that was refused, or whose answer found no memory here, is made again after a while, for
 * the same: so nothing is missed. Only a service that has forgotten that revision begins anew, and
 * says so (MST_ITEM_RESET). */

#include "proto/reply.h"
#include "proto/request.h"
#include "proto/retry.h"

#define MST_FOLLOW_NEVER UINT64_MAX

struct mst_follow {
    struct mst_request request; /* the next one */
    uint64_t again_ns;          /* when; NEVER: it is under way */
    uint32_t refusals;          /* in a row */
};

/* Everything of `kinds` from the beginning. `prefix` must live as long. */
void mst_follow_begin(struct mst_follow *follow, uint32_t kinds, struct mst_slice prefix,
                      uint32_t node);

/* All that a reply told was taken: the next request may be made at once. */
void mst_follow_took(struct mst_follow *follow, const struct mst_reply *reply);

/* It was refused, or not taken: the same again, at again_ns. */
void mst_follow_refused(struct mst_follow *follow, uint64_t now_ns);

/* Whether a reply ends what is listed at the beginning, or after a RESET. */
static inline bool mst_follow_listed(const struct mst_reply *reply)
{
    return (reply->revision & MST_CURSOR_LISTING) == 0;
}

#endif
