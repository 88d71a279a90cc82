/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_REPLICA_VOTERS_H
#define MST_SERVICE_REPLICA_VOTERS_H

/* Which replicas vote: one decision at a time, from what is there.
 *
 *   absent --add--> standby --caught up--> voter          a dead voter --remove--> absent
 *
 * The wanted number is 1, 3 or 5. An even number of voters survives no more losses than one less,
 * so a group grows by two: the second voter is made only when a third one has caught up. A dead
 * voter is removed only when a live one has taken its place, since 2 of 2 is no better than 2 of 3.
 * One exception: an address that returned under another id. That id is lost for ever, since the
 * folder in which its votes were is, and an address can be in the configuration only once. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "service/replica/server.h"

/* A replica that could be a member: its process runs, on a node whose agent is present. */
struct mst_voters_present {
    uint64_t id;
    const char *address;
    struct mst_slice host; /* two voters are never chosen on one host; empty: its own */
};

struct mst_voters_wanted {
    unsigned voters; /* 1, 3 or 5 */
    const struct mst_voters_present *present;
    size_t count;
};

/* The leader's knowledge of a member, as servers->of. */
struct mst_voters_progress {
    bool current;  /* it has the whole log, or its catch-up has just ended well */
    bool catching; /* the engine's catch-up of it runs */
    bool heard;    /* it answered within an election timeout */
};

enum mst_voters_step {
    MST_VOTERS_NONE = 0,
    MST_VOTERS_ADD = 1,      /* as a standby: `id`, `address` */
    MST_VOTERS_CATCH_UP = 2, /* `id` */
    MST_VOTERS_PROMOTE = 3,  /* `id` becomes a voter */
    MST_VOTERS_REMOVE = 4    /* `id` */
};

struct mst_voters_decision {
    enum mst_voters_step step;
    uint64_t id;
    const char *address; /* ADD: of `wanted` */
};

/* The next step. `servers` is committed, nothing is in flight; `self` is the leader, never removed.
 * A member that is not in `wanted` is dead. */
struct mst_voters_decision mst_voters_next(const struct mst_voters_wanted *wanted,
                                           const struct mst_replica_servers *servers,
                                           const struct mst_voters_progress *progress,
                                           uint64_t self);

/* The configuration after a step. */
void mst_voters_apply(struct mst_replica_servers *servers, struct mst_voters_decision decision);

#endif
