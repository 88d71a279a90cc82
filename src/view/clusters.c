/* SPDX-License-Identifier: Apache-2.0 */
#include "view/clusters.h"

/* The key's age goes on top of what was so when it was written; neither may wrap. */
static uint64_t aged(uint64_t ms, uint64_t age_ms)
{
    return age_ms > INT64_MAX - ms ? INT64_MAX : ms + age_ms;
}

bool mst_cluster_look_read(const struct mst_item *item, struct mst_cluster_look *out)
{
    uint64_t age_ms = item->number;

    if (item->kind != MST_ITEM_KEY || !mst_cluster_status_key_read(item->name, &out->name) ||
        !mst_cluster_status_read(item->value, &out->status)) {
        return false;
    }
    out->status.oldest_ms = aged(out->status.oldest_ms, age_ms);
    out->status.longest_ms = aged(out->status.longest_ms, age_ms);
    return true;
}

void mst_clusters_each(const struct mst_items *keys,
                       void (*fn)(void *ctx, const struct mst_cluster_look *look), void *ctx)
{
    uint32_t count = 0;

    for (size_t i = 0; i < keys->count && count < MST_CLUSTERS_MAX; i++) {
        struct mst_cluster_look look;

        if (mst_cluster_look_read(&keys->items[i], &look)) {
            fn(ctx, &look);
            count++;
        }
    }
}
