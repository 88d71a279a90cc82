/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLUSTER_GENERATOR_H
#define CLUSTER_GENERATOR_H

/* As message_generator.h, of what a coordinator and its workers say. */

#include "message_generator.h"
#include "proto/cluster.h"

struct cluster_generator {
    struct message_generator base; /* decides */
    struct mst_cluster_message message;
    /* what it points at */
    struct mst_part parts[GENERATOR_MANY];
    struct mst_function functions[GENERATOR_MANY];
    struct mst_attempt held[GENERATOR_MANY];
    uint64_t numbers[GENERATOR_MANY];
    struct mst_failure causes[MST_FAILURE_DEPTH_MAX];
};

void cluster_generator_init(struct cluster_generator *generator, uint64_t seed);

/* Valid until the next one is made. */
const struct mst_cluster_message *cluster_generator_any(struct cluster_generator *generator);
const struct mst_cluster_message *cluster_generator_of(struct cluster_generator *generator,
                                                       enum mst_cluster_message_type type);

/* All of them, in their order. */
enum { CLUSTER_TYPES = 14 };
extern const enum mst_cluster_message_type cluster_types[CLUSTER_TYPES];

/* Equal in every field of their type: bytes, not where they are. */
bool cluster_message_equal(const struct mst_cluster_message *a,
                           const struct mst_cluster_message *b);

#endif
