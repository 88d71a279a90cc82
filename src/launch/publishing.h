/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_PUBLISHING_H
#define MST_LAUNCH_PUBLISHING_H

/* Gives a notice to the service, or takes one back, through a client and without waiting: what
 * preempt/shell/publish.h does, for callers that do not hold the client's lock. */

#include "preempt/shell/publish.h"

/* Zeroed: idle. It must stay where it is while it is busy. */
struct mst_publishing {
    struct mst_lib_publish publish; /* `written`, `unheard`, `error` once it is not busy any more */
    bool asks;                      /* whether a rank listens */
    /* It has ended. With the client's lock held: short, no call back. NULL: no notice of it. */
    void (*ended)(void *ctx);
    void *ctx;
};

/* Begins; not while it is busy. `given_ns`: when the notice was given, on mst_lib_now_ns. ENOMEM,
 * EINVAL: nothing has begun. */
muster_status mst_publishing_begin(struct mst_publishing *publishing, muster_client *client,
                                   uint64_t given_ns, const struct mst_publish_config *config);

/* Lock not held. */
bool mst_publishing_busy(const struct mst_publishing *publishing);

/* Waits for the end of what was begun. */
muster_status mst_publishing_wait(struct mst_publishing *publishing, int64_t timeout_ms,
                                  struct muster_error *err);

/* Ends it without an answer, before its client is closed. */
void mst_publishing_drop(struct mst_publishing *publishing);

#endif
