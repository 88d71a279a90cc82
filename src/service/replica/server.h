/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_REPLICA_SERVER_H
#define MST_SERVICE_REPLICA_SERVER_H

/* The members of a group of replicas, as values, and the bytes of a configuration, which are
 * libraft's. libraft reads them without looking where they end: everything that came from outside
 * is read here first. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

/* The numbers are libraft's. */
enum mst_replica_role {
    MST_REPLICA_STANDBY = 0, /* has the log, and no vote */
    MST_REPLICA_VOTER = 1
};

enum { MST_REPLICA_SERVERS_MAX = 16, MST_REPLICA_ADDRESS_ROOM = 256 };

struct mst_replica_server {
    uint64_t id; /* never 0, less than 2^63 */
    enum mst_replica_role role;
    char address[MST_REPLICA_ADDRESS_ROOM]; /* never empty; where its service listens */
};

struct mst_replica_servers {
    size_t count;
    struct mst_replica_server of[MST_REPLICA_SERVERS_MAX];
};

/* NULL: it is not among them. */
const struct mst_replica_server *mst_replica_servers_find(const struct mst_replica_servers *servers,
                                                          uint64_t id);
size_t mst_replica_servers_voters(const struct mst_replica_servers *servers);

/* False: damaged, or more than this version knows. */
bool mst_replica_configuration_read(struct mst_slice bytes, struct mst_replica_servers *out);

/* Bytes that it takes, and writes it there. */
size_t mst_replica_configuration_bytes(const struct mst_replica_servers *servers);
void mst_replica_configuration_write(unsigned char *at, const struct mst_replica_servers *servers);

#endif
