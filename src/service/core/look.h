/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_LOOK_H
#define MST_SERVICE_CORE_LOOK_H

/* Queries of the core from its own process, without a session. They are no inputs and change only
 * counters. Not between mst_core_next and mst_core_done. */

#include "service/core/core.h"
#include "service/core/counts.h"

/* The answer to JOBS, MEMBERS, ROUNDS, HOSTS, FAULTS or HISTORY of this job after `after`; valid
 * until the next call. ENOTFOUND in it: there is no such job (JOBS need none). */
const struct mst_reply *mst_look_page(struct mst_core *core, enum mst_command command,
                                      struct mst_slice job, uint64_t after);

/* The same for LIST: keys under `prefix` after the name `after`; `next` of the reply marks further
 * ones. ENOMEM in it: no memory for the query. */
const struct mst_reply *mst_look_keys(struct mst_core *core, struct mst_slice job,
                                      struct mst_slice prefix, struct mst_slice after);

struct mst_job_look {
    struct mst_slice name;
    uint64_t generation;
    uint64_t members[MST_SPARE + 1]; /* ranks and workers, by state */
    uint64_t away_ns; /* since the ranks were interrupted, if they have not begun again; and... */
    enum mst_cause away_cause; /* ...by what */
    uint64_t counted_ns;       /* since which time `counts` are kept, ago; 0: since none */
    uint64_t rate, stragglers; /* progress.h */
    uint32_t saved_ranks;      /* in the last preemption that all saved for; 0: none */
    const struct mst_job_counts *counts;
};

/* Every job, in order of creation. A lost member with a pending exit status counts as `gone` from
 * now on, also as the reason of a restart. */
void mst_look_jobs(struct mst_core *core, void (*fn)(void *ctx, const struct mst_job_look *look),
                   void *ctx);

#endif
