/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_HELPER_NOTICES_H
#define MST_LAUNCH_HELPER_NOTICES_H

/* The sources of a node where no `muster run` has started its ranks: each rank has a helper, and
 * that of the lowest index on the host asks the sources, for all ranks of the host. Which one that
 * is, is seen in the members of the job: when that rank is gone the next one's helper does. The
 * agent of a node's fronts asks as long as there is a rank on the host. */

#include <pthread.h>

#include "launch/announcer.h"

#define MST_HELPER_RANKS_MAX 1024u /* on one host */

struct mst_helper_notices {
    struct mst_announcer announcer;
    const char *host;
    uint32_t own; /* index; MST_INDEX_HELPER: of no rank */
    pid_t pid;    /* of the rank: the run began with it */
    void (*ring)(void *ctx);
    void *ctx;
    bool failed; /* the sources cannot be opened: that was said */

    pthread_mutex_t lock; /* of what the service says */
    bool listed;
    uint32_t indices[MST_HELPER_RANKS_MAX]; /* ascending */
    uint32_t count;
};

/* `say` may be called from any thread; `ring` too: to look again. */
void mst_helper_notices_init(struct mst_helper_notices *notices, const char *host, uint32_t own,
                             pid_t pid, void (*say)(void *ctx, const char *line),
                             void (*ring)(void *ctx), void *ctx);
void mst_helper_notices_fini(struct mst_helper_notices *notices);

/* What the service says; with the client's lock held. */
void mst_helper_notices_member(struct mst_helper_notices *notices, const struct mst_who *who);
void mst_helper_notices_listed(struct mst_helper_notices *notices);

/* The session ends, before its client is closed. */
void mst_helper_notices_reset(struct mst_helper_notices *notices);

/* As mst_announcer_look. `client` NULL: there is no session now. */
uint64_t mst_helper_notices_look(struct mst_helper_notices *notices, muster_client *client);

#endif
