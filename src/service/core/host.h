/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_HOST_H
#define MST_SERVICE_CORE_HOST_H

/* Losses on each host of a job, so that a bad host can be excluded. A host is listed while a
 * session is on it; after a loss there, as long as the job. At most members_max of them; further
 * ones are not counted. */

#include "service/core/state.h"

struct mst_host {
    struct mst_named named; /* in job->hosts */
    struct mst_job *job;
    uint64_t serial;
    uint32_t sessions;                 /* with a place, or waiting for one */
    uint32_t members;                  /* of them, holding one */
    uint32_t node_losses, rank_losses; /* whole nodes; ranks that were not lost with their node */
};

/* The host of a new session, counted; NULL in `out`: it has no name, or there are too many. ENOMEM.
 */
muster_status mst_host_reach(struct mst_job *job, struct mst_slice name, struct mst_host **out);
void mst_host_let_go(struct mst_host *host);

/* One of a snapshot, before the sessions of the job. NULL: no memory, or the name is there already.
 */
struct mst_host *mst_host_restore(struct mst_job *job, struct mst_slice name);

/* All of these take NULL. */
void mst_host_hold(struct mst_host *host,
                   int by); /* 1: a session there holds a place; -1: no more */
void mst_host_count(struct mst_host *host, enum mst_role lost); /* a rank, or an agent: its node */

void mst_host_free_all(struct mst_job *job); /* after the last session */

#endif
