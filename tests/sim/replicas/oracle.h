/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_REPLICAS_ORACLE_H
#define SIM_REPLICAS_ORACLE_H

/* The observer of a run: what it sees, and which property it checks then. */

#include "replicas.h"

struct mst_core_config rep_core_config(struct replicas *replicas);

void rep_oracle_start(struct replicas *replicas);
void rep_oracle_fini(struct replicas *replicas);

/* A host says that this entry is committed. */
void rep_oracle_committed(struct replicas *replicas, uint32_t host, uint64_t index, uint64_t term,
                          int type, struct mst_slice bytes);
/* Its core has applied everything up to this entry. */
void rep_oracle_applied(struct replicas *replicas, uint32_t host, uint64_t index,
                        const struct mst_core *core);
/* Bytes leave for a client, whose turn is this entry. */
void rep_oracle_tells(struct replicas *replicas, uint32_t host, uint64_t index, uint64_t term);
/* A vote leaves a host; a candidate's is for itself. */
void rep_oracle_vote(struct replicas *replicas, uint64_t id, uint64_t term, uint64_t candidate);
void rep_oracle_leads(struct replicas *replicas, uint64_t id, uint64_t term);

/* Looks which member reaches a service that serves. */
void rep_oracle_reach(struct replicas *replicas);
void rep_oracle_stopped(struct replicas *replicas, const struct rep_member *member);
void rep_oracle_ended(struct replicas *replicas, const struct rep_member *member,
                      muster_status status);

/* The value that all members append to: so long was it in an answer already. */
size_t rep_oracle_known(const struct replicas *replicas);
void rep_oracle_shown(struct replicas *replicas, uint32_t place, struct mst_slice value);
void rep_oracle_append(struct replicas *replicas, size_t size, const char *token);

#endif
