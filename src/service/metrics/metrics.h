/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_METRICS_METRICS_H
#define MST_SERVICE_METRICS_METRICS_H

/* The metrics for a scraper: the table metrics.def over a copy of the figures, so that another
 * thread than that of the service can make the text. */

#include "proto/cluster_status.h"
#include "service/core/counts.h"
#include "service/metrics/exposition.h"

struct mst_job_figures {
    char *name; /* owned */
    size_t name_size;
    uint64_t generation;
    uint64_t members[MST_SPARE + 1];
    uint64_t saved_ranks;
    uint64_t counted_ns, rate, stragglers; /* look.h */
    struct mst_job_counts counts;          /* with the time that the ranks are away now */
};

struct mst_cluster_figures {
    size_t job; /* its place among the jobs */
    size_t name_size;
    char name[MST_CLUSTER_LABEL_MAX];
    struct mst_cluster_status status;
};

/* Of one of several replicas. */
struct mst_replica_figures {
    bool there; /* else it is the only service, and has none of these */
    bool leads;
    uint64_t term, voters, heard, elections;
    uint64_t lag;                 /* entries: of the last of the others, that a leader knows */
    struct mst_histogram commits; /* from the end of a turn's inputs to their commit */
};

struct mst_figures {
    struct mst_counts counts;
    struct mst_histogram key_times[MST_KEY_OPS];
    uint64_t sessions, connections;
    struct mst_replica_figures replica;
    struct mst_job_figures *jobs; /* owned */
    size_t job_count;
    struct mst_cluster_figures *clusters; /* owned */
    size_t cluster_count;
};

void mst_figures_init(struct mst_figures *figures);
void mst_figures_fini(struct mst_figures *figures);

/* The bounds of `key_times`. */
extern const struct mst_bounds mst_key_time_bounds;

extern const struct mst_metric mst_metrics[];
extern const size_t mst_metric_count;

/* The whole text; the caller frees it. NULL: no memory. */
char *mst_metrics_text(const struct mst_figures *figures, bool open_metrics);

#endif
