/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPLICA_GENERATOR_H
#define REPLICA_GENERATOR_H

/* Messages between replicas, chosen field by field. */

#include <stdint.h>

#include "service/replica/message.h"
#include "service/replica/server.h"

/* Chooses a number below the bound. */
struct replica_chooser {
    void *ctx;
    uint64_t (*below)(void *ctx, uint64_t bound);
};

enum { REPLICA_GENERATED_ENTRIES = 5 };

/* What a generated message borrows. */
struct replica_generated {
    struct mst_replica_message message;
    struct mst_replica_entry entries[REPLICA_GENERATED_ENTRIES];
    struct mst_replica_servers servers;
    unsigned char configuration[8192];
    unsigned char bytes[1024];
};

/* One of each type, in turn by `kind` modulo REPLICA_GENERATED_TYPES. */
enum { REPLICA_GENERATED_TYPES = 10 };
void replica_generate(struct replica_generated *out, unsigned kind,
                      const struct replica_chooser *chooser);

#endif
