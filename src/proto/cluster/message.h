/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_CLUSTER_MESSAGE_H
#define MST_PROTO_CLUSTER_MESSAGE_H

/* A message of proto/cluster.h as one of the schema, and back. Both borrow: nothing is copied but
 * what must be laid out differently. */

#include "cluster.pb-c.h"
#include "proto/cluster.h"
#include "proto/native/arena.h"
#include "proto/native/enums.h"

/* A message and what it points at, but for arrays. */
struct mst_cluster_schema_message {
    Muster__Cluster__Message base;
    union {
        Muster__Cluster__Hello hello;
        Muster__Cluster__Result result;
        Muster__Cluster__Built built;
        Muster__Cluster__Progress progress;
        Muster__Cluster__Log log;
        Muster__Cluster__Nothing nothing;
        Muster__Cluster__Welcome welcome;
        Muster__Cluster__Refused refused;
        Muster__Cluster__Run run;
        Muster__Cluster__Cancel cancel;
        Muster__Cluster__TakeBack take_back;
        Muster__Cluster__Build build;
        Muster__Cluster__Drop drop;
    };
};

/* OK; ENOMEM; EINVAL: no such type. */
muster_status mst_cluster_message_encode(struct mst_cluster_schema_message *out,
                                         const struct mst_cluster_message *message,
                                         struct mst_native_arena *arena);

/* OK; ENOMEM; EPROTO: `fault` says why. */
muster_status mst_cluster_message_decode(struct mst_cluster_message *out,
                                         const Muster__Cluster__Message *message,
                                         struct mst_native_arena *arena,
                                         struct mst_native_fault *fault);

/* What is sent of it: the rest of a failure is cut. */
struct mst_slice mst_cluster_failure_text(struct mst_slice text);
uint32_t mst_cluster_failure_depth(const struct mst_failure *failure);

/* proto3 lets any number through. */
bool mst_cluster_origin_known(uint64_t origin);

#endif
