/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_REPLICA_H
#define MST_SERVICE_SERVER_REPLICA_H

/* One of several replicas of the service in a process: the machine of service/replica, its folder,
 * its links, and the journal that its core is fed through.
 *
 *   follower: what is committed is applied; clients are sent on to the leader
 *   LEADS_DUE --mst_uv_replica_lead--> serves: a turn's inputs are one entry, and nothing of the
 *   turn leaves before that is committed (mst_uv_replica_commit)
 *   ENDED: the lead or the disk is lost, or the state differs; the process ends, and is started
 *   again as a follower
 *
 * The links have a loop of their own, so that a leader that waits for its commit serves nothing
 * else. The main loop watches that loop, and runs it without waiting in each turn.
 *
 * The first start of a group: the replica whose address is the first of the list founds a group of
 * one, as soon as all others are connected and none of them belongs to a group; the leader then
 * adds the others. So an id is drawn at random, and never comes back with an empty folder, which
 * has forgotten its votes. */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/mem.h"
#include "base/text.h"
#include "muster/status.h"
#include "net/secret.h"
#include "service/journal/journal.h"
#include "service/metrics/metrics.h"
#include "service/replica/replica.h"
#include "service/server/log.h"

/* Two lines with each address. */
enum { MST_UV_REPLICA_LOOK_ROOM = MST_REPLICA_SERVERS_MAX * 2 * (MST_REPLICA_ADDRESS_ROOM + 32) };

struct mst_uv_links;
struct mst_uv_replica;

struct mst_uv_replica_config {
    const char
        *addresses; /* of the replicas, with commas; borrowed for the call, as all of these */
    char self[MST_REPLICA_ADDRESS_ROOM]; /* of this one */
    unsigned voters;                     /* wanted: 1, 3 or 5 */
    const char *run; /* the name of the job; a link to another one's replica is refused */
    const struct mst_secret *secret; /* only for the call */
    uint64_t lease_ns;
    const char *path; /* of its folder */
    const char *version;
    bool sync;
};

enum mst_uv_replica_role {
    MST_UV_REPLICA_FOLLOWS,
    MST_UV_REPLICA_LEADS_DUE, /* it was elected, and may lead */
    MST_UV_REPLICA_LEADS,
    MST_UV_REPLICA_ENDED
};

/* What a user typed: finds out which of the addresses is this one, from those that it listens on
 * and the one that it is to be found at (empty: none), and how many vote (0: as many as there are
 * addresses). `anywhere`: addresses of other hosts too. No addresses are right as well. EINVAL:
 * `err` is one line that names the flag. */
muster_status mst_uv_replica_config_check(struct mst_uv_replica_config *config, const char *listens,
                                          const char *advertised, bool anywhere,
                                          struct muster_error *err);

/* Opens the folder and the log. EEXISTS: another process has the folder; EFAILED; ENOMEM; ENOSPACE;
 * EINVAL. `err` is one line. `mem` and `log` outlive it. */
muster_status mst_uv_replica_open(struct mst_uv_replica **out, uv_loop_t *loop,
                                  struct mst_uv_log *log,
                                  const struct mst_uv_replica_config *config,
                                  const struct mst_mem *mem, struct muster_error *err);

/* What the journal is to be opened with. */
struct mst_journal_sink mst_uv_replica_sink(struct mst_uv_replica *replica);

/* Begins with what the log has: `journal` and its core are fed. */
muster_status mst_uv_replica_start(struct mst_uv_replica *replica, struct mst_journal *journal,
                                   struct mst_core *core, struct muster_error *err);

/* In order: the lead is handed over, if another one can take it, within an election timeout. */
void mst_uv_replica_stop(struct mst_uv_replica *replica);

/* NULL: no-op. The handle on the main loop is closed by that loop's owner, before. */
void mst_uv_replica_free(struct mst_uv_replica *replica);

/* ---- turns ---- */

/* What came from the others, and what time asks for. */
void mst_uv_replica_turn(struct mst_uv_replica *replica);

/* The same of a leader in the midst of a long turn, if it is due: heartbeats. */
void mst_uv_replica_pulse(struct mst_uv_replica *replica);

/* When the next turn is due at the latest, on the clock of uv_hrtime. */
uint64_t mst_uv_replica_deadline_ns(struct mst_uv_replica *replica);

enum mst_uv_replica_role mst_uv_replica_role(const struct mst_uv_replica *replica);

/* Of the core that is fed; another one after a turn in which a snapshot was received. */
struct mst_core *mst_uv_replica_core(const struct mst_uv_replica *replica);

/* The journal leads from now on. False: it has ended. */
bool mst_uv_replica_lead(struct mst_uv_replica *replica);

/* The index of the last entry that the journal gave. */
uint64_t mst_uv_replica_given(const struct mst_uv_replica *replica);

/* Waits until all that the journal gave is committed by this leader, and with `more` an entry of
 * nothing behind it. False: it has ended, and nothing may leave. */
bool mst_uv_replica_commit(struct mst_uv_replica *replica, bool more);

/* At the end of a turn of a leader: digests, and the voters. */
void mst_uv_replica_rest(struct mst_uv_replica *replica);

/* ---- for people ---- */

/* Why nothing can be served, here or elsewhere; NULL: a leader is known. */
const char *mst_uv_replica_trouble(const struct mst_uv_replica *replica);

/* `out` is zeroed. */
void mst_uv_replica_figures(const struct mst_uv_replica *replica, struct mst_replica_figures *out);

/* view/replicas.h, of one that leads. */
void mst_uv_replica_look(const struct mst_uv_replica *replica, struct mst_text *lines);

/* ---- where the service is ---- */

/* Whether the addresses have changed since the last call. */
bool mst_uv_replica_moved(struct mst_uv_replica *replica);

/* The addresses for clients: the leader's first, if it is known, then those of the others.
 * Borrowed until the next turn. */
const char *mst_uv_replica_addresses(struct mst_uv_replica *replica);

struct mst_uv_links *mst_uv_replica_links(struct mst_uv_replica *replica);

/* ---- own snapshots ---- */

bool mst_uv_replica_snapshot_due(const struct mst_uv_replica *replica);
bool mst_uv_replica_snapshot_begin(struct mst_uv_replica *replica); /* false: not now */
muster_status mst_uv_replica_snapshot_write(void *replica);         /* in a child */
void mst_uv_replica_snapshot_end(struct mst_uv_replica *replica, bool written);

/* The leader's comes: the own one is to be ended. */
bool mst_uv_replica_snapshot_yields(const struct mst_uv_replica *replica);

struct mst_journal_disk *mst_uv_replica_disk(struct mst_uv_replica *replica);

#endif
