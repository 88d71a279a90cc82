/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_VIEW_STATUS_JSON_H
#define MST_VIEW_STATUS_JSON_H

/* The status of a job as one line of JSON. `muster status --json` makes it from what the service
 * answered, the service's /status.json from its own state; the bytes are the same. */

#include "view/items.h"

struct mst_status {
    const char *address; /* of the service, as MUSTER_ADDR takes it */
    const char *job;
    /* As the service lists them. */
    /* `jobs` with the replicas of the service as its value: view/replicas.h */
    struct mst_items jobs, members, rounds, hosts, faults, history;
    struct mst_items preemption;  /* the keys under MST_PREEMPT_PREFIX */
    struct mst_items clusters;    /* and under MST_CLUSTER_STATUS_PREFIX */
    struct mst_items plain;       /* and under MST_RUN_PLAIN_PREFIX */
    struct mst_items stopped;     /* and under MST_RUN_STOPPED_PREFIX */
    struct mst_items front_waits; /* and under MST_RUN_FRONT_WAITS_PREFIX */
    struct mst_items replicas;    /* and under MST_RUN_REPLICA_PREFIX */
    struct mst_items restarts;    /* and MST_RUN_RESTARTS_KEY */
};

/* Ends with a newline; the caller frees it. NULL: no memory. */
char *mst_status_json(const struct mst_status *status);
/* The same without what a reader need not have each second: view/brief.h. */
char *mst_status_brief_json(const struct mst_status *status);

/* The job that is looked at, as JOBS lists it; NULL: the service has no such job. */
const struct mst_item *mst_status_job(const struct mst_status *status);

/* The rank in that place; NULL: it never came. */
const struct mst_item *mst_status_rank(const struct mst_status *status, uint32_t index);

/* The median rate of the ranks in steps per 1000 s; 0: not known, or they stand still. */
uint32_t mst_status_rate(const struct mst_status *status);

/* Ranks of the job that wait for a seat. */
uint32_t mst_status_spares(const struct mst_status *status);

/* Present workers of a job that no rank ever joined: none of its ranks is missing. */
uint32_t mst_status_workers_only(const struct mst_status *status);

/* A place is missing when it belongs to the job's size, or was taken once, and is empty: no process
 * without muster runs there.
 * By index; `member` is NULL for a place that was never taken, which is none where all seats of the
 * size are taken: a spare of another place sits there. */
typedef void mst_status_missing_fn(void *ctx, uint32_t index, const struct mst_item *member);
void mst_status_each_missing(const struct mst_status *status, mst_status_missing_fn *fn, void *ctx);

void mst_status_fini(struct mst_status *status);

#endif
