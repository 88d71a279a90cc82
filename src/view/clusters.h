/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_VIEW_CLUSTERS_H
#define MST_VIEW_CLUSTERS_H

/* What the keys of a job say about its clusters, for people and for metrics. */

#include "proto/cluster_status.h"
#include "view/items.h"

#define MST_CLUSTERS_MAX 64u /* of a job that are read: any client may write such keys */

struct mst_cluster_look {
    struct mst_slice name;
    struct mst_cluster_status status; /* its ages as of now */
};

/* One key of a job; false: it is no status of a cluster. */
bool mst_cluster_look_read(const struct mst_item *item, struct mst_cluster_look *out);

/* By name. What is no status is passed over. */
void mst_clusters_each(const struct mst_items *keys,
                       void (*fn)(void *ctx, const struct mst_cluster_look *look), void *ctx);

#endif
