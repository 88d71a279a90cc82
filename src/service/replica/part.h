/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_REPLICA_PART_H
#define MST_SERVICE_REPLICA_PART_H

/* The internals of a replica, shared by its files only: replica.c takes inputs, step.c drives the
 * consensus and checks it, pieces.c receives a snapshot, effects.c makes effects, heap.c is the
 * consensus's memory. */

#include "base/buffer.h"
#include "base/list.h"
#include "base/panic.h"
#include "base/text.h"
#include "base/time.h"
#include "service/replica/engine.h"
#include "service/replica/replica.h"

enum {
    MST_REPLICA_QUEUE = 256,  /* messages; what is more is lost, and repeated */
    MST_REPLICA_INFLIGHT = 32 /* entries that a follower has not acknowledged */
};

/* A message to send. Entries and pieces are read from the log when it is taken. */
struct mst_replica_outgoing {
    uint64_t peer;
    char address[MST_REPLICA_ADDRESS_ROOM];
    struct mst_replica_message message; /* APPEND: `count` are left; PIECE: without its bytes */
};

/* What is known of another replica. */
struct mst_replica_peer {
    uint64_t id;
    uint64_t heard_ns;
};

struct mst_replica {
    struct mst_mem mem;
    struct mst_replica_log *log;
    struct mst_replica_config config;
    char address[MST_REPLICA_ADDRESS_ROOM];

    struct raft_heap heap;
    struct mst_list blocks; /* of the heap: what the consensus forgets is given back at the end */
    struct raft raft;
    uint64_t id;
    uint64_t now_ns;
    raft_time now_ms;
    raft_time ticked_ms;

    /* The last known, for the invariants. */
    uint64_t term, vote, committed, applied;
    uint64_t own_index; /* LEADER: its first entry */
    uint64_t elections;
    unsigned short state; /* enum raft_state */

    bool started, ended;
    bool draining;
    bool barrier_due; /* LEADER: its first entry, if the consensus did not make one */
    bool leads;       /* LEADS was an effect */
    bool install;     /* the consensus took the snapshot that it was given */
    bool end_due, follows_due, servers_due, restore_due, yield_due;

    uint64_t leader;
    uint64_t led_ns; /* when a message of the present term's leader came last */
    char leader_address[MST_REPLICA_ADDRESS_ROOM];

    struct mst_replica_servers servers; /* the newest configuration */
    uint64_t servers_committed;         /* index of the committed one */
    struct mst_replica_servers scratch;
    unsigned char configuration[MST_REPLICA_CONFIGURATION_MAX];
    struct mst_replica_peer peers[MST_REPLICA_SERVERS_MAX];

    uint64_t
        asked_ns; /* when another replica asked for a piece of the own snapshot last; 0: never */

    /* The snapshot that is being received. */
    struct {
        struct mst_replica_saving *saving; /* NULL: none */
        uint64_t peer;
        char address[MST_REPLICA_ADDRESS_ROOM];
        uint64_t bytes;    /* of the whole */
        uint64_t asked_ns; /* for the next piece */
    } receiving;

    struct mst_replica_outgoing queue[MST_REPLICA_QUEUE];
    size_t queue_first, queue_count;
    struct raft_entry entries[MST_REPLICA_ENTRIES_MAX];         /* of the event */
    struct mst_replica_entry batch[MST_REPLICA_ENTRIES_MAX];    /* out, or to the log */
    struct mst_replica_entry batch_in[MST_REPLICA_ENTRIES_MAX]; /* of the message */
    struct mst_buffer buffer;
    unsigned char *piece; /* MST_REPLICA_PIECE_MAX */
    struct mst_replica_effect effect;
    struct mst_replica_effect end; /* the last one */
    char reason[256];
};

/* heap.c: between enter and leave the consensus allocates here. */
void mst_replica_heap_init(struct mst_replica *replica);
void mst_replica_heap_fini(struct mst_replica *replica);

/* Begins an input; false: the replica has ended. */
bool mst_replica_enter(struct mst_replica *replica, uint64_t now_ns);
void mst_replica_leave(struct mst_replica *replica);

/* Ends it, with one line; the first cause is the one. */
#define MST_REPLICA_END(replica, type, status, ...)                                                \
    do {                                                                                           \
        if (!(replica)->ended) {                                                                   \
            (void)mst_text_print((replica)->reason, sizeof(replica)->reason, __VA_ARGS__);         \
            mst_replica_end((replica), (type), (status));                                          \
        }                                                                                          \
    } while (0)
void mst_replica_end(struct mst_replica *replica, enum mst_replica_effect_type type,
                     muster_status status);

/* step.c: one event, with everything that follows from it. The consensus's code. Not 0: nothing
 * was changed (SUBMIT, TRANSFER), or the replica has ended. */
int mst_replica_step(struct mst_replica *replica, struct raft_event *event);

/* Reports what the log has made durable. */
void mst_replica_persisted(struct mst_replica *replica);

/* One entry that the consensus copies nothing of; frees `bytes`, which are of its heap. */
int mst_replica_step_submit(struct mst_replica *replica, int type, void *bytes, size_t size);

/* The configuration for an event; false: no memory. */
bool mst_replica_configuration_of(struct mst_replica *replica, struct mst_slice bytes,
                                  struct raft_configuration *out);

/* effects.c */
void mst_replica_post(struct mst_replica *replica, uint64_t peer, const char *address,
                      const struct mst_replica_message *message);

/* pieces.c */
void mst_replica_offered(struct mst_replica *replica, uint64_t peer, const char *address,
                         const struct mst_replica_message *message);
void mst_replica_got_piece(struct mst_replica *replica, uint64_t peer,
                           const struct mst_replica_message *message);
void mst_replica_ask(struct mst_replica *replica);

#endif
