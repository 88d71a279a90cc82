/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_ANNOUNCER_H
#define MST_LAUNCH_ANNOUNCER_H

/* What the sources of a node know, told to the job: given as a notice for the places of this node,
 * or for the whole job, replaced when a worse one is known, and taken back when it is withdrawn.
 * Looked at by one thread, whenever a source or the publishing has told it to look. */

#include "launch/publishing.h"
#include "sources/shell/sources.h"

struct mst_announcer {
    struct mst_sources *sources; /* NULL: there are none */
    struct mst_publishing publishing;
    char host[MST_NOTICE_HOST_ROOM];
    /* One line for the user. */
    void (*say)(void *ctx, const char *line);
    void *ctx;

    bool published, withdraws, says;
    struct mst_sources_known given; /* what is published or being so */
    uint64_t given_ns;              /* when its left_ms was so much */
    uint32_t given_count;           /* for how many places */
    uint64_t again_ns;              /* after a failure: not before */
};

/* What each source knows is given to `client` from now on. `indices`: the places of this node,
 * ascending. UINT64_MAX, or when to look again although nothing is told. */
uint64_t mst_announcer_look(struct mst_announcer *announcer, muster_client *client,
                            const uint32_t *indices, uint32_t count);

/* The session ends, and what was published may be gone with it or hold for other places. */
void mst_announcer_reset(struct mst_announcer *announcer);

/* "signals,slurm" where the user says nothing; "none" for no source at all. */
const char *mst_announcer_list(const char *given);

/* Whether this is a Slurm step: what its processes are told is meant for the whole job. */
bool mst_announcer_in_step(void);

#endif
