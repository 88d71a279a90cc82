/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_VIEW_REPLICAS_H
#define MST_VIEW_REPLICAS_H

/* What a service says of itself in the value of its reply to JOBS, in lines: its process, "process
 * PID HOST"; and if it has replicas, of each what the one that leads knows, "leads 0 ADDRESS",
 * "follows ENTRIES ADDRESS" or "away ENTRIES ADDRESS", and "standby ADDRESS" of one that does not
 * vote. A single service has no replica. */

#include "base/text.h"
#include "view/items.h"

struct mst_service_process {
    uint64_t pid;
    struct mst_slice host; /* borrowed from the lines */
};

void mst_service_process_write(struct mst_text *lines, const struct mst_service_process *process);

/* False: the service is older than this line. */
bool mst_service_process_read(struct mst_slice lines, struct mst_service_process *out);

enum mst_replica_there {
    MST_REPLICA_THERE_LEADS = 0,
    MST_REPLICA_THERE_FOLLOWS = 1,
    MST_REPLICA_THERE_AWAY = 2, /* the leader has not heard of it for an election timeout */
    MST_REPLICA_THERE_LAST = MST_REPLICA_THERE_AWAY
};

struct mst_replica_look {
    enum mst_replica_there there;
    uint64_t behind;          /* entries of the log that it is not known to have */
    struct mst_slice address; /* borrowed from the lines */
};

void mst_replica_standby_write(struct mst_text *lines, struct mst_slice address);

/* Whether the replica at that address is one of those that vote. */
bool mst_replica_votes(struct mst_slice lines, struct mst_slice address);

void mst_replica_look_write(struct mst_text *lines, const struct mst_replica_look *look);

/* Takes the next line off; one that no service writes is passed over. False: that was the last. */
bool mst_replica_look_next(struct mst_slice *lines, struct mst_replica_look *out);

/* The one that leads. False: none is listed. */
bool mst_replica_leader(struct mst_slice lines, struct mst_replica_look *out);

/* How many are listed, and how many of them are not away. */
void mst_replicas_count(struct mst_slice lines, uint32_t *listed_out, uint32_t *here_out);

/* Which node of a run has the replica at that address, as the keys under MST_RUN_REPLICA_PREFIX
 * say. False: it is not known. */
bool mst_replica_node(const struct mst_items *keys, struct mst_slice address, uint32_t *node_out);

/* "node 1 (b2:7000) leads, 2 of 3 replicas, node 0 (b1:7000) is 0 entries behind, b3:7000 is away",
 * without the nodes that `keys` do not name; empty: no replica is listed. */
void mst_replicas_sentence(struct mst_text *text, struct mst_slice lines,
                           const struct mst_items *keys);

#endif
