/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_FOLLOW_H
#define MST_PROTO_FOLLOW_H

/* A continued watch: the next request, and its time. Changes up to a revision are reported once:
 * the next request asks for later ones. A request that was refused, or an answer that found no
 * memory here, is repeated after a while, from the same revision: so nothing is missed. Only a
 * service that has dropped that revision begins anew, with MST_ITEM_RESET. */

#include "base/time.h"
#include "proto/reply.h"
#include "proto/request.h"
#include "proto/retry.h"

struct mst_follow {
    struct mst_request request; /* the next one */
    uint64_t again_ns;          /* its time; NEVER: it is in flight */
    uint32_t refusals;          /* in a row */
};

/* Everything of `kinds` from the beginning. `prefix` must live as long. */
void mst_follow_begin(struct mst_follow *follow, uint32_t kinds, struct mst_slice prefix,
                      uint32_t node);

/* The whole reply was processed: the next request may be sent at once. */
void mst_follow_took(struct mst_follow *follow, const struct mst_reply *reply);

/* It was refused, or not processed: the same again, at again_ns. */
void mst_follow_refused(struct mst_follow *follow, uint64_t now_ns);

/* Whether a reply ends the initial list, or the list after a RESET. */
static inline bool mst_follow_listed(const struct mst_reply *reply)
{
    return (reply->revision & MST_CURSOR_LISTING) == 0;
}

#endif
