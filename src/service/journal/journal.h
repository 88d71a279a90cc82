/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_JOURNAL_JOURNAL_H
#define MST_SERVICE_JOURNAL_JOURNAL_H

/* Makes the state of a core outlive its process: the inputs are written before any of their effects
 * leaves, and now and then the whole state.
 *
 *   0000000007.snapshot   the state at the beginning of
 *   0000000007.journal    the inputs since then, until
 *   0000000008.journal    goes on (its snapshot is being written, or the service began again)
 *
 * The shell feeds the core through here. One turn of its loop:
 *
 *   mst_journal_request ... mst_journal_tick     record and feed
 *   mst_journal_commit                           one frame, one write, one sync if it is promised
 *   mst_core_next ...                            only now may anything leave
 *
 * and when mst_journal_snapshot_due is true: mst_journal_snapshot_begin, then
 * mst_journal_snapshot_write, in a forked child or in place, then mst_journal_snapshot_end.
 *
 * A full disk. Room is reserved ahead, so a shortage is known before an input is fed. Without room
 * the core is held: lasting requests are refused, nothing is decided by time, and nothing is
 * recorded. A new file with a snapshot is tried every second. With `go_on_when_full` the journal
 * and its promises end instead, with one line. Any other failure of the disk ends the service:
 * mst_journal_commit reports it, and no effect may leave.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "muster/status.h"
#include "service/core/core.h"
#include "service/core/snapshot.h"
#include "service/journal/disk.h"
#include "service/journal/input.h"

struct mst_journal;

/* Takes the frames in the place of files: the common log of replicas does. */
struct mst_journal_sink {
    void *ctx;
    size_t max; /* bytes of a payload */
    /* The payload of a frame, whose inputs were fed. False: nothing may leave any more. */
    bool (*take)(void *ctx, struct mst_slice payload);
};

struct mst_journal_config {
    struct mst_core_config core;
    const char *version; /* of the program, for people */
    bool sync;           /* what is promised survives the host, not only the process */
    bool go_on_when_full;
    uint64_t chunk_bytes;         /* reserved at a time; 0: 4 MiB */
    uint64_t records_max;         /* before a snapshot; 0: 200,000 */
    uint64_t bytes_max;           /* the same; 0: 64 MiB */
    struct mst_journal_sink sink; /* `take` NULL: none */
    void (*tell)(void *ctx, enum mst_level level, const char *line);
    void *tell_ctx;
};

/* The result of a recovery. */
struct mst_journal_recovered {
    uint64_t snapshot;  /* the number of the one it began with; 0: there was no state */
    uint64_t records;   /* replayed */
    uint64_t cut_bytes; /* of a torn tail */
    uint64_t digest;    /* of the state as it was, before the service began again */
    bool lost;          /* the journal had been ended by a full disk: the state begins anew */
};

/* Recovers the core from the files, and begins the next file. ENOMEM; EFAILED: it cannot be
 * recovered, or not be written; `err` says which file and where. Nothing is removed then.
 * `disk` NULL: the core begins anew and nothing is kept, from the first input on; so there is one
 * way into a core, whether its state outlives the process or not. With a sink, and no disk, it
 * follows: below. */
muster_status mst_journal_open(struct mst_journal **out, struct mst_core **core,
                               const struct mst_disk *disk, const struct mst_journal_config *config,
                               const struct mst_mem *mem, struct muster_error *err);

/* The files stay as they are; the core is the caller's. */
void mst_journal_free(struct mst_journal *journal);

const struct mst_journal_recovered *mst_journal_recovery(const struct mst_journal *journal);
bool mst_journal_fresh(const struct mst_journal *journal);         /* there was no state */
uint64_t mst_journal_time_ns(const struct mst_journal *journal);   /* where core time goes on */
uint64_t mst_journal_last_conn(const struct mst_journal *journal); /* no new one below it */

/* From now on the listener receives each input of the core, after the core: those below, and holds
 * and releases. One listener; it must not call back. */
void mst_journal_listen(struct mst_journal *journal, const struct mst_input_listener *listener);

/* ---- inputs: as those of core.h ---- */

muster_status mst_journal_conn_open(struct mst_journal *journal, uint64_t now_ns,
                                    struct mst_conn conn);
muster_status mst_journal_request(struct mst_journal *journal, uint64_t now_ns,
                                  struct mst_conn conn, const struct mst_request *request);
void mst_journal_conn_close(struct mst_journal *journal, uint64_t now_ns, struct mst_conn conn);
void mst_journal_tick(struct mst_journal *journal, uint64_t now_ns);
uint64_t
mst_journal_deadline_ns(const struct mst_journal *journal); /* to tick, beside the core's */

/* Makes the inputs since the last commit as durable as promised. On any failure no effect may leave
 * any more; `err` is one line for the operator. */
muster_status mst_journal_commit(struct mst_journal *journal, struct muster_error *err);

/* ---- snapshots ---- */

bool mst_journal_snapshot_due(const struct mst_journal *journal);

/* Between two turns: the inputs continue in the next file. False: not now (it will be due again),
 * or the disk failed, which the next commit reports. */
bool mst_journal_snapshot_begin(struct mst_journal *journal);

/* Writes the state as it was at the begin. Allocates nothing and changes nothing of the journal, so
 * that a forked child may do it. */
muster_status mst_journal_snapshot_write(struct mst_journal *journal);

/* Ends a snapshot. Written: the files before it are removed. Else it will be due again. */
void mst_journal_snapshot_end(struct mst_journal *journal, bool written);

/* The service stops in order: the state becomes a snapshot, from which another version can begin
 * too. Nothing is recorded after it. */
muster_status mst_journal_stop(struct mst_journal *journal, struct muster_error *err);

/* ---- with a sink: one of several replicas ----
 *
 * It follows until it leads: what another one decided is fed again, and the inputs above must not
 * be called. Once it leads, each commit gives the sink one frame or more, in the place of files. */

/* The inputs of a payload that a sink took elsewhere. EFAILED: it makes no sense, or there is less
 * memory than there was; `err` is one line. */
muster_status mst_journal_apply(struct mst_journal *journal, struct mst_slice payload,
                                struct muster_error *err);

/* From here on the state leads: its time goes on, all connections are gone, and every session has a
 * whole lease. The next commit has that. ENOMEM, EINVAL. */
muster_status mst_journal_lead(struct mst_journal *journal);
bool mst_journal_leads(const struct mst_journal *journal);

/* The state as bytes, as it is between two inputs, and in the place of the present one; `*core` is
 * the new one then. Saving allocates nothing, so a forked child may do it. */
bool mst_journal_save(const struct mst_journal *journal, const struct mst_snapshot_sink *sink);
muster_status mst_journal_load(struct mst_journal *journal, struct mst_slice state,
                               struct mst_core **core, struct muster_error *err);

/* Inputs, and bytes of payloads, since the last call with `restart`: what a snapshot would save the
 * next recovery. */
bool mst_journal_state_due(const struct mst_journal *journal);
void mst_journal_state_kept(struct mst_journal *journal);

uint64_t mst_journal_inputs(const struct mst_journal *journal); /* fed with a sink, ever */

/* ---- for people ---- */

/* Why the core is held, in one line; NULL: it is not. */
const char *mst_journal_held(const struct mst_journal *journal);

/* The same, or why it is broken. */
const char *mst_journal_trouble(const struct mst_journal *journal);

#endif
