/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SOURCES_SHELL_SOURCES_H
#define MST_SOURCES_SHELL_SOURCES_H

/* The sources of one node: chosen by name, each asked again and again on a thread of its own, and
 * what they know together as one notice, the worst one.
 *
 * A thread is never waited for: one that hangs in a file system that does not answer is left behind
 * when all end. */

#include "muster/status.h"
#include "sources/source.h"

#define MST_SOURCES_MAX 16u
#define MST_SOURCE_NAME_ROOM 24u

struct mst_sources;

struct mst_sources_options {
    const char *list; /* "signals,file=/tmp/stop,slurm"; empty: none */
    int64_t period_ms, margin_ms;
    int64_t grace_ms; /* what is assumed to be left where no end is given */
    int64_t age_ms;   /* how long the run has been going on; 0: it begins now */
    /* What the sources know has changed. On the thread of a source: short, no call back. */
    void (*told)(void *ctx);
    void (*say)(void *ctx, const char *line); /* for the user; on any thread */
    void *ctx;
};

struct mst_sources_known {
    char source[MST_SOURCE_NAME_ROOM];
    bool assumed;                    /* the end is: the source gave none */
    struct mst_source_notice notice; /* its left_ms is from now, and known; 0: it has passed */
};

/* Whether the list makes sense; else EINVAL, and `why` is one line that lists the names. */
muster_status mst_sources_check(const char *list, char *why, size_t room);

/* Begins to ask. EINVAL: the list, or a source that cannot run here; ENOMEM. */
muster_status mst_sources_open(struct mst_sources **out, const struct mst_sources_options *options,
                               char *why, size_t room);
void mst_sources_close(struct mst_sources *sources); /* NULL: no-op. No callback follows */

/* Whether the owner is to take signals as notices; and that one came: its notice stays. */
bool mst_sources_wants_signals(const struct mst_sources *sources);
void mst_sources_signal(struct mst_sources *sources, const char *reason, bool whole_job);

/* False: nothing is announced. Thread: any. */
bool mst_sources_known(struct mst_sources *sources, struct mst_sources_known *out);

#endif
