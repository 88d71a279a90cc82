/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/follow.h"

void mst_follow_begin(struct mst_follow *follow, uint32_t kinds, struct mst_slice prefix,
                      uint32_t node)
{
    *follow =
        (struct mst_follow){.request = {.command = MST_WATCH,
                                        .watch = {.kinds = kinds, .prefix = prefix, .node = node}},
                            .again_ns = NEVER};
}

void mst_follow_took(struct mst_follow *follow, const struct mst_reply *reply)
{
    follow->request.watch.after = reply->revision;
    follow->again_ns = NEVER;
    follow->refusals = 0;
}

void mst_follow_refused(struct mst_follow *follow, uint64_t now_ns)
{
    follow->refusals += follow->refusals < UINT32_MAX;
    follow->again_ns = now_ns + mst_retry_after_ns(follow->refusals);
}
