/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PREEMPT_SHELL_SOURCES_H
#define MST_PREEMPT_SHELL_SOURCES_H

/* The user's own sources of notices, each asked once per period on one thread. What a source says
 * again and again is one notice, until it takes it back, or the deadline moves forward by more than
 * a second, or it becomes certain. */

#include "muster/preempt.h"

struct mst_preempt_sources;

/* Called on the thread, without any lock. False: it could not be taken; it is given again. */
typedef bool mst_preempt_sources_give_fn(void *ctx, const char *source,
                                         const struct muster_notice_given *given);
typedef void mst_preempt_sources_tell_fn(void *ctx, const char *line);

struct mst_preempt_sources_config {
    const struct muster_preempt_source *list; /* copied */
    size_t count;
    mst_preempt_sources_give_fn *give;
    mst_preempt_sources_tell_fn *tell; /* of a source that has begun to fail, or works again */
    void *ctx;
};

/* EINVAL for what is no source, with its text. */
muster_status mst_preempt_sources_check(const struct muster_preempt_source *list, size_t count,
                                        struct muster_error *err);

/* They are checked. With none of them *out is NULL. */
muster_status mst_preempt_sources_start(struct mst_preempt_sources **out,
                                        const struct mst_preempt_sources_config *config,
                                        struct muster_error *err);
void mst_preempt_sources_stop(
    struct mst_preempt_sources *sources); /* waits for the thread; NULL: no-op */

#endif
