/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_TASKS_PUBLISHER_H
#define MST_TASKS_PUBLISHER_H

/* When a coordinator publishes its status: at most once a second, and only what changed. The
 * value is for the key mst_cluster_status_key, which is owned as the cluster's own key is. */

#include "tasks/coordinator.h"

enum { MST_CLUSTER_PUBLISH_MS = 1000 };

struct mst_cluster_publisher {
    uint64_t due_ns;    /* not before */
    uint64_t looked_ns; /* when `settled` was so many */
    uint64_t settled;
    bool stirred; /* since then */
    size_t size;
    size_t timeless_size;
    char text[MST_CLUSTER_STATUS_ROOM];     /* the last status published */
    char timeless[MST_CLUSTER_STATUS_ROOM]; /* likewise, without ages; empty: none, or it failed */
};

void mst_cluster_publisher_init(struct mst_cluster_publisher *publisher, uint64_t now_ns);

/* Something happened in the cluster: after each turn in which it was given anything. */
void mst_cluster_publisher_stir(struct mst_cluster_publisher *publisher);

/* When to call the next one at the latest. UINT64_MAX: there is nothing to publish. */
uint64_t mst_cluster_publisher_deadline_ns(const struct mst_cluster_publisher *publisher);

/* The size of `text`, which is to be put; 0: nothing is, at present. Not while a put of it is still
 * unanswered. */
size_t mst_cluster_publisher_next(struct mst_cluster_publisher *publisher, uint64_t now_ns,
                                  const struct mst_cluster *cluster);

/* The put failed: it is published again in a second. */
void mst_cluster_publisher_failed(struct mst_cluster_publisher *publisher);

#endif
