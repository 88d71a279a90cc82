/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_REPLICA_REPLICA_H
#define MST_SERVICE_REPLICA_REPLICA_H

/* One replica of a service, as a pure machine around libraft's raft_step(): which entries are
 * committed, which replica leads, what is sent to the others. It has no socket, clock or thread;
 * its disk is the log's. The consensus is libraft's, unchanged.
 *
 *   FOLLOWER --election won--> LEADER --LEADS, its first entry committed--> serves
 *      any of these --DEPOSED, BROKEN, FAILED--> ended
 *
 * A turn of the shell:
 *
 *   mst_replica_receive, mst_replica_tick, mst_replica_submit   each followed by the effects
 *   mst_replica_write                                           one write, one sync; effects again
 *
 * What promises something is an effect only after it was written. A new term or vote is written
 * within the input that makes it. Entries are written by mst_replica_write: a leader sends them
 * before that, so its disk and those of the others work at the same time, and a follower
 * acknowledges them only after it. A shell that forgets to write never acknowledges.
 *
 * Ended. A leader that loses the lead is DEPOSED: its core has applied inputs that may never be
 * committed, so the process ends, and starts again as a follower. The same for BROKEN, an
 * invariant that does not hold (libraft's own checks are compiled out), and FAILED, the disk or
 * the memory. Every input after that does nothing.
 *
 * `now_ns` is monotonic and never smaller than in the call before; libraft counts milliseconds.
 * One effect at a time: what it borrows lives until mst_replica_done. No input between next and
 * done. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/slice.h"
#include "muster/status.h"
#include "service/replica/log.h"
#include "service/replica/message.h"
#include "service/replica/server.h"
#include "service/replica/voters.h"

struct mst_replica;

/* The first byte of a command's bytes in the log. */
enum mst_replica_kind {
    MST_REPLICA_RECORDS = 1, /* the payload of one frame of records; it may be empty */
    MST_REPLICA_DIGEST = 2   /* of the state: every replica that applies it compares its own */
};

enum { MST_REPLICA_PAYLOAD_MAX = MST_REPLICA_ENTRY_MAX - 1 };

struct mst_replica_config {
    uint64_t seed;        /* of the election timeouts; different on each replica */
    uint32_t election_ms; /* mst_replica_election_ms */
    const char *address;  /* where this service listens; copied */

    /* The first configuration of a group, which is in its first entry: the same on each of these.
     * It is used only if the log has neither an entry nor a term. NULL: this replica waits until a
     * leader adds it. A folder that was thrown away belongs to a member of a group that exists:
     * NULL then. */
    const struct mst_replica_servers *found;

    /* Entries kept behind a snapshot, so that one that is a little behind needs none; 0: 4,096. No
     * more are kept when they have so many bytes; 0: 64 MiB. */
    uint64_t trailing, trailing_bytes;

    /* Bytes of entries in memory; older ones that are applied are in the log's files only. 0: 1
     * MiB. */
    uint64_t entry_bytes;
};

/* L/20 of a lease, within 200 ms and 2 s. A heartbeat is due every fifth of it. */
uint32_t mst_replica_election_ms(uint64_t lease_ns);

enum mst_replica_effect_type {
    MST_REPLICA_SEND = 1,      /* `bytes`, one whole message, to `peer` at `address`. Lost ones are
                                  repeated: a peer without a connection costs nothing */
    MST_REPLICA_RESTORE = 2,   /* the state at `index` is in the log's snapshot: load the core from
                                  it (mst_replica_log_read), in the place of what it was. At the
                                  start too, if there is a snapshot */
    MST_REPLICA_COMMITTED = 3, /* apply `payload`, of `kind`, at `index`. Indexes rise; those left
                                  out are no commands. A follower's come after its write */
    MST_REPLICA_SERVERS = 4,   /* the committed members changed: mst_replica_status */
    MST_REPLICA_LEADS = 5,     /* this replica leads and has applied everything before: RESUME may
                                  be submitted. At most once */
    MST_REPLICA_FOLLOWS = 6,   /* `peer` at `address` leads; peer 0: not known. Not while leading */
    MST_REPLICA_YIELD_SNAPSHOT = 7, /* the leader's snapshot is to be installed: end the child that
                                       writes an own one, then mst_replica_snapshot_end(false) */
    MST_REPLICA_DEPOSED = 8, /* the last effect; `reason`. Drop all connections, end the process */
    MST_REPLICA_BROKEN = 9,  /* the same: an invariant does not hold */
    MST_REPLICA_FAILED = 10  /* the same: the disk or the memory, `status` */
};

struct mst_replica_effect {
    enum mst_replica_effect_type type;
    uint64_t peer;
    const char *address;
    struct mst_slice bytes;
    uint64_t index, term;
    enum mst_replica_kind kind;
    struct mst_slice payload;
    bool own; /* COMMITTED: in the present term, of which this replica is the leader. Only then may
                 what the entry's turn made leave */
    muster_status status;
    const char *reason; /* one line */
};

/* `log` is open, and is the machine's until it is freed: it alone appends, votes and writes.
 * ENOMEM, or EINVAL: the config makes no sense; `err` is one line. */
muster_status mst_replica_new(struct mst_replica **out, struct mst_replica_log *log,
                              const struct mst_replica_config *config, const struct mst_mem *mem,
                              struct muster_error *err);
void mst_replica_free(struct mst_replica *replica); /* NULL: no-op; the log stays the caller's */

/* ---- inputs ---- */

/* Begins with what the log has. Once, first. The only voter of a group leads at once. */
void mst_replica_start(struct mst_replica *replica, uint64_t now_ns);

/* A message from the replica `peer`, which its hello has named. Messages that make no sense are
 * dropped, as are those for which there is no room on the disk: the sender repeats them. */
void mst_replica_receive(struct mst_replica *replica, uint64_t now_ns, uint64_t peer,
                         const char *address, const struct mst_replica_message *message);

/* `peer` was connected again: what was under way to or from it continues at once. */
void mst_replica_connected(struct mst_replica *replica, uint64_t now_ns, uint64_t peer);

/* One more entry, at *index: it is committed when COMMITTED says so with `own`. ECONFLICT: this
 * replica does not lead, or hands over. ENOSPACE, ENOMEM: nothing was changed. ELIMIT: it is longer
 * than PAYLOAD_MAX. */
muster_status mst_replica_submit(struct mst_replica *replica, uint64_t now_ns,
                                 enum mst_replica_kind kind, struct mst_slice payload,
                                 uint64_t *index);

/* Makes what was added durable, and acknowledges it. */
void mst_replica_write(struct mst_replica *replica, uint64_t now_ns);

/* Leads the members to what is wanted, one change at a time (voters.h). To be called by the leader
 * now and then; does nothing on a follower, or while a change is in flight. */
void mst_replica_lead_voters(struct mst_replica *replica, uint64_t now_ns,
                             const struct mst_voters_wanted *wanted);

/* Hands the lead to `peer`; 0: to the voter that is least behind. This replica is then DEPOSED, or
 * goes on leading after an election timeout. ECONFLICT: it does not lead, or does so already;
 * ENOTFOUND: there is no such voter. */
muster_status mst_replica_transfer(struct mst_replica *replica, uint64_t now_ns, uint64_t peer);

void mst_replica_tick(struct mst_replica *replica, uint64_t now_ns);
uint64_t mst_replica_deadline_ns(const struct mst_replica *replica);

/* ---- own snapshots: the shell's core has applied every effect ---- */

/* What a snapshot taken now is about: `mst_replica_log_save` wants it, and writes it. Borrowed
 * until the next input. EFAILED: not now (nothing is applied since the last, the leader's is being
 * received, or the last one is being sent to another replica). */
muster_status mst_replica_snapshot_begin(struct mst_replica *replica,
                                         struct mst_replica_snapshot *out);

/* The saving that is under way in the log was closed (`whole`), and becomes its snapshot; or it is
 * dropped. */
void mst_replica_snapshot_end(struct mst_replica *replica, uint64_t now_ns, bool whole);

/* ---- effects ---- */

const struct mst_replica_effect *mst_replica_next(struct mst_replica *replica); /* NULL: none */
void mst_replica_done(struct mst_replica *replica, const struct mst_replica_effect *effect);

/* ---- for people ---- */

enum mst_replica_state {
    MST_REPLICA_FOLLOWER,
    MST_REPLICA_CANDIDATE,
    MST_REPLICA_LEADER,
    MST_REPLICA_ENDED
};

struct mst_replica_member {
    uint64_t match; /* LEADER: it is known to have the log up to here */
    bool heard;     /* LEADER: within an election timeout */
};

struct mst_replica_status {
    uint64_t id, term;
    enum mst_replica_state state;
    bool serves;     /* LEADS was an effect */
    uint64_t leader; /* 0: not known */
    const char *leader_address;
    uint64_t first, last, written, committed, applied, snapshot; /* indexes */
    const struct mst_replica_servers *servers;             /* the newest configuration in the log */
    bool changing;                                         /* and it is not committed yet */
    struct mst_replica_member of[MST_REPLICA_SERVERS_MAX]; /* as servers->of */
    uint64_t elections;                                    /* begun here */
    uint64_t receiving,
        received_bytes; /* of the snapshot from the leader, at this index; 0: none */
    const char *reason; /* ENDED: why */
};

uint64_t mst_replica_committed(const struct mst_replica *replica); /* the index, as below */

/* Borrowed pointers live until the next input. */
void mst_replica_status_of(const struct mst_replica *replica, struct mst_replica_status *out);

void mst_replica_check(const struct mst_replica *replica);
uint64_t mst_replica_digest(const struct mst_replica *replica);

#endif
