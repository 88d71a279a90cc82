/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_CLUSTER_QUICK_H
#define MST_PROTO_CLUSTER_QUICK_H

/* RUN, and RESULT with a value: nearly all of the traffic, without the way over the structures of
 * protobuf-c. As in proto/native/quick.h: what is taken here is taken to the same result, and what
 * is written here is the same bytes. */

#include "proto/cluster.h"
#include "proto/native/arena.h"

/* False: it is for protobuf-c to say what it is. */
bool mst_cluster_quick_read(struct mst_cluster_message *out, struct mst_slice payload,
                            struct mst_native_arena *arena);

bool mst_cluster_quick_suits(const struct mst_cluster_message *message);

/* Of the whole payload, and what is before its end: of its parts and of its one field. */
struct mst_cluster_quick_size {
    uint64_t payload, body;
};
struct mst_cluster_quick_size mst_cluster_quick_size(const struct mst_cluster_message *message);

/* As many bytes as was said. */
void mst_cluster_quick_write(unsigned char *at, const struct mst_cluster_message *message,
                             struct mst_cluster_quick_size size);

#endif
