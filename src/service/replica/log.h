/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_REPLICA_LOG_H
#define MST_SERVICE_REPLICA_LOG_H

/* The log of a replica, in memory and in a folder: its entries, its vote, its newest snapshot.
 *
 *   0000000007.entries     what was appended and voted, in that order
 *   0000000008.entries     goes on (the one before was large, or the replica began again)
 *   0000000003.state       the state at an index, and the configuration of the voters there
 *   0000000004.state.tmp   one that is being written
 *
 * Files only grow: an entry at an index that is taken replaces that one and all behind it, and a
 * vote is one more record. So a torn write leaves what was there before it. docs/replica-log.md
 * has the tables.
 *
 * The id. A replica that forgot its vote could vote twice, so a vote lives and dies with the id it
 * was given under: the id is in the folder, and a folder without a log gets the id of the
 * configuration, which was never used before. Without `sync` a log survives the process and not
 * the host: what another boot wrote is thrown away, and the replica has a new id. With `sync` both
 * stay. What counts is how the folder was written, not how it is opened.
 *
 * One turn of the shell:
 *
 *   mst_replica_log_append, mst_replica_log_vote   kept in memory
 *   mst_replica_log_write                          one write, one sync if there is `sync`
 *   messages leave, persisted entries are reported
 *
 * A full disk. Room is reserved ahead, so a shortage is known before an entry is taken: the append
 * returns ENOSPACE and has changed nothing. There is always room for some hundred votes more. Any
 * other failure of the disk breaks the log: nothing may leave any more, and the process ends.
 *
 * Broken invariants panic in every build: the term never falls, a vote is given once in a term, no
 * committed entry is replaced, the commit index never falls, nothing is of a term to come. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/slice.h"
#include "muster/status.h"
#include "service/journal/disk.h"
#include "service/journal/input.h" /* enum mst_level */

struct mst_replica_log;

enum {
    MST_REPLICA_BOOT = 16,            /* bytes of a boot id */
    MST_REPLICA_ENTRY_MAX = 4u << 20, /* bytes of an entry */
    MST_REPLICA_CONFIGURATION_MAX = 32768
};

/* The numbers are those in the files, and libraft's. */
enum mst_replica_entry_type {
    MST_REPLICA_COMMAND = 1,
    MST_REPLICA_BARRIER = 2,
    MST_REPLICA_CHANGE = 3
};

struct mst_replica_entry {
    uint64_t term;
    enum mst_replica_entry_type type;
    struct mst_slice bytes;
};

/* Terms, indexes and ids are less than 2^63. */
struct mst_replica_snapshot {
    uint64_t index, term; /* of the last entry in it; 0: there is none */
    uint64_t configuration_index;
    struct mst_slice configuration; /* the committed one at `index`, encoded */
    uint64_t bytes;                 /* of the state */
};

struct mst_replica_log_config {
    uint64_t id;                          /* of a replica whose folder has no log; not 0 */
    unsigned char boot[MST_REPLICA_BOOT]; /* of the host */
    bool sync;
    const char *version;    /* of the program, for people */
    uint32_t rules;         /* of the decisions: entries of others cannot be applied */
    uint64_t segment_bytes; /* a longer file is continued in the next; 0: 16 MiB */
    uint64_t chunk_bytes;   /* reserved at a time; 0: 4 MiB */
    void (*tell)(void *ctx, enum mst_level level, const char *line);
    void *tell_ctx;
};

/* The result of a recovery. */
struct mst_replica_log_recovered {
    uint64_t id;   /* of this replica */
    bool fresh;    /* there was no log, or it was thrown away: `id` is the configuration's */
    bool thrown;   /* another boot wrote it without `sync` */
    uint64_t term; /* with fresh, these are 0 */
    uint64_t vote;
    struct mst_replica_snapshot snapshot; /* borrowed until the next one is taken */
    uint64_t first, last; /* the entries; none: first is last + 1, the first index to come */
    uint64_t cut_bytes;   /* of a torn tail */
};

/* Opens the folder and begins the next file. ENOMEM; ENOSPACE; EFAILED: it cannot be recovered, or
 * not be written; `err` says which file and where. Nothing is removed then, but from a folder that
 * is thrown away. `disk` and `config` are copied; the folder must be locked by the caller. */
muster_status mst_replica_log_open(struct mst_replica_log **out, const struct mst_disk *disk,
                                   const struct mst_replica_log_config *config,
                                   const struct mst_mem *mem, struct muster_error *err);

/* The files stay as they are. */
void mst_replica_log_free(struct mst_replica_log *log);

const struct mst_replica_log_recovered *mst_replica_log_recovery(const struct mst_replica_log *log);

/* ---- what is there ---- */

uint64_t mst_replica_log_id(const struct mst_replica_log *log);
uint64_t mst_replica_log_term(const struct mst_replica_log *log);
uint64_t mst_replica_log_vote_of(const struct mst_replica_log *log); /* in that term; 0: none */
uint64_t mst_replica_log_first(const struct mst_replica_log *log);
uint64_t mst_replica_log_last(const struct mst_replica_log *log); /* with what is not written yet */
uint64_t mst_replica_log_written(const struct mst_replica_log *log); /* to here it is durable */
uint64_t mst_replica_log_committed(const struct mst_replica_log *log);

/* NULL: it is behind what a snapshot left, or not there yet. Its bytes are NULL if they are in a
 * file only. Borrowed until the next append, release or compaction. */
const struct mst_replica_entry *mst_replica_log_at(const struct mst_replica_log *log,
                                                   uint64_t index);

/* The bytes of an entry that is there, wherever they are. Those from a file are borrowed until the
 * next call for another such entry too. ENOMEM. EFAILED: they cannot be read, or are damaged; `err`
 * says which file and where. */
muster_status mst_replica_log_bytes(struct mst_replica_log *log, uint64_t index,
                                    struct mst_slice *out, struct muster_error *err);

/* Lets go of the bytes of entries that are in a file, from the first one on up to `index`, until no
 * more than `most` are in memory. Those of configurations stay. */
void mst_replica_log_release(struct mst_replica_log *log, uint64_t index, uint64_t most);

/* The term of the entry at an index, also of the last one in the snapshot; 0: not known. */
uint64_t mst_replica_log_term_at(const struct mst_replica_log *log, uint64_t index);

const struct mst_replica_snapshot *mst_replica_log_snapshot(const struct mst_replica_log *log);

/* ---- what is added; durable after the next write ---- */

/* Entries from `index` on, which is at most one more than the last; those there are replaced,
 * with all behind them. The bytes are copied. ENOMEM, ENOSPACE: nothing was changed. EFAILED: the
 * log is broken. */
muster_status mst_replica_log_append(struct mst_replica_log *log, uint64_t index,
                                     const struct mst_replica_entry *entries, size_t count);

/* Term and vote; 0: none yet. ENOSPACE: not even that fits any more: it can promise nothing. */
muster_status mst_replica_log_vote(struct mst_replica_log *log, uint64_t term, uint64_t vote);

/* Makes what was added as durable as promised. On a failure nothing may leave any more; `err` is
 * one line for the operator. */
muster_status mst_replica_log_write(struct mst_replica_log *log, struct muster_error *err);

/* Room for entries of so many bytes in all, as the next append would need. ENOSPACE; EFAILED. */
muster_status mst_replica_log_reserve(struct mst_replica_log *log, size_t count, size_t bytes);

/* Up to here every entry is committed: a fact for the invariants, which is not kept. More than the
 * last one is the last one. */
void mst_replica_log_commit(struct mst_replica_log *log, uint64_t index);

/* ---- snapshots ----
 *
 * An own one is begun in the parent, put and closed in a forked child, and taken, or dropped, in
 * the parent when the child has ended. One from the leader: the same in one process, piece by
 * piece; what was put is kept over a cut connection (mst_replica_saving_put_bytes), not over the
 * process. One at a time. */

struct mst_replica_saving;

/* `snapshot.bytes` of an own one may be 0: not known yet. ENOMEM; EFAILED: another one is under
 * way. */
muster_status mst_replica_log_save(struct mst_replica_log *log,
                                   const struct mst_replica_snapshot *snapshot,
                                   struct mst_replica_saving **out);

/* The next bytes of the state. Allocates nothing. ENOSPACE or EFAILED: it cannot be whole any more;
 * drop it. */
muster_status mst_replica_saving_put(struct mst_replica_saving *saving, struct mst_slice bytes);
uint64_t mst_replica_saving_put_bytes(const struct mst_replica_saving *saving);
const struct mst_replica_snapshot *
mst_replica_saving_about(const struct mst_replica_saving *saving);

/* The one that is under way; NULL: none. */
struct mst_replica_saving *mst_replica_log_saving(struct mst_replica_log *log);

/* It is whole: it gets its name, durable with `sync`. Allocates nothing. */
muster_status mst_replica_saving_close(struct mst_replica_saving *saving);

/* A closed one is the snapshot of this log from now on. If the log has its last entry, what is
 * behind that stays; otherwise every entry is dropped, and the log goes on behind it. Ends `saving`
 * if OK. EFAILED: the log is broken, or the file is not whole; ENOMEM. */
muster_status mst_replica_log_take(struct mst_replica_log *log, struct mst_replica_saving *saving,
                                   struct muster_error *err);
void mst_replica_log_drop(struct mst_replica_log *log, struct mst_replica_saving *saving);

/* Bytes of the state in the snapshot at `index`. ENOTFOUND: there is another one by now. EFAILED:
 * it cannot be read, or is damaged; `err` says which file and where. */
muster_status mst_replica_log_read(struct mst_replica_log *log, uint64_t index, uint64_t offset,
                                   void *into, size_t size, struct muster_error *err);

/* Drops the entries that the snapshot has, but for the last `trailing` of them, and the files that
 * have no others. */
void mst_replica_log_compact(struct mst_replica_log *log, uint64_t trailing);

/* ---- for people ---- */

/* Why it is broken; NULL: it is not. */
const char *mst_replica_log_trouble(const struct mst_replica_log *log);

uint64_t mst_replica_log_file_bytes(const struct mst_replica_log *log); /* of its .entries */

#endif
