/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPLICA_STAGE_H
#define REPLICA_STAGE_H

/* A few replicas in one process: their disks in memory, bytes of messages between them, one clock.
 * What each applies is a state of a few numbers, and a snapshot is that with many bytes behind it.
 * After every step: what two replicas applied at an index is the same, and what was acknowledged is
 * applied by all that come so far. */

#include <stdbool.h>
#include <stdint.h>

#include "failing_mem.h"
#include "journal_disk_fake.h"
#include "service/replica/replica.h"

enum {
    STAGE_NODES = 6,
    STAGE_ENTRIES = 4096,
    STAGE_FLIGHT = 1024,
    STAGE_STATE = 600 * 1000, /* bytes of a snapshot: three pieces */
    STAGE_ELECTION_MS = 200
};

struct stage_state {
    uint64_t index, digest;
};

struct stage_node {
    uint64_t id;
    char address[32];
    struct fake_disk disk;
    struct mst_replica_log *log;
    struct mst_replica *replica; /* NULL: it is down */
    struct stage_state state;
    uint64_t seen[STAGE_ENTRIES]; /* the state's digest at each index; 0: not known */
    unsigned restored, leads, follows, servers, yields;
    uint64_t own; /* the last index that was committed while it led its term */
    enum mst_replica_effect_type ended;
    char reason[256];
};

struct stage_letter {
    size_t from, to;
    void *bytes;
    size_t size;
};

struct stage {
    struct failing_mem mem;
    uint64_t now_ns;
    struct stage_node nodes[STAGE_NODES];
    size_t count;
    bool cut[STAGE_NODES][STAGE_NODES]; /* from, to */
    struct stage_letter flight[STAGE_FLIGHT];
    size_t first, flying;
    uint64_t lost;                                  /* letters */
    uint64_t trailing, trailing_bytes, entry_bytes; /* of new replicas */
    uint64_t pieces, pieces_max; /* of snapshots that were carried; no more than so many */
    uint64_t wants_again;        /* offsets above 0 that were asked for after a cut */
    uint64_t longest;            /* bytes of a message */
    struct mst_voters_present present[STAGE_NODES];
    size_t present_count;
    unsigned wanted;
    struct muster_error err;
};

/* `count` folders; those of the first `founders` have one group. */
void stage_init(struct stage *stage, size_t count, size_t founders);
void stage_fini(struct stage *stage);

/* Set-ups of a test: a group of three; one that is a group of its own, and five that wait. */
int stage_begin_three(void **state);
int stage_begin_one(void **state);
int stage_end(void **state);

/* Down: its process is killed. Up: it starts again on its disk. */
void stage_down(struct stage *stage, size_t node);
muster_status stage_up(struct stage *stage, size_t node, const struct mst_replica_servers *found);

void stage_cut(struct stage *stage, size_t node, bool cut); /* from all others */
void stage_run(struct stage *stage, unsigned ms);

/* Runs until one replica leads and serves; fails after 10 election timeouts. */
size_t stage_leader(struct stage *stage);

/* Appends, and carries until it is committed in the leader's term; false: it was not. */
bool stage_put(struct stage *stage, size_t leader, const char *payload);

/* Runs until `node` has applied as much as `other`; fails after 20 election timeouts. */
void stage_follow(struct stage *stage, size_t node, size_t other);

/* The leader of term 1000 sends one entry, behind the one at `prev`. Effects are left to be taken.
 */
void stage_receive_entry(struct stage *stage, size_t to, size_t from, uint64_t prev,
                         uint64_t commit);

void stage_snapshot(struct stage *stage, size_t node);
/* Puts a SEND on its way; nothing else is looked at. */
void stage_post(struct stage *stage, size_t from, const struct mst_replica_effect *effect);
void stage_carry(struct stage *stage); /* effects and letters, without time */
void stage_status(struct stage *stage, size_t node, struct mst_replica_status *out);

#endif
