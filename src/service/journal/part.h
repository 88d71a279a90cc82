/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_JOURNAL_PART_H
#define MST_SERVICE_JOURNAL_PART_H

/* The journal as its own files see it: journal.c feeds and records, file.c writes, snapshot.c saves
 * the state, recover.c brings it back. */

#include "base/text.h"
#include "base/time.h"
#include "proto/native/arena.h"
#include "service/core/snapshot.h"
#include "service/journal/format.h"
#include "service/journal/gather.h"
#include "service/journal/journal.h"

#define MST_NO_FILE (-1)

enum {
    MST_JOURNAL_BUFFER = 65536,      /* to begin with */
    MST_JOURNAL_FRAME_MAX = 1 << 22, /* a turn with more becomes several frames */
    MST_SNAPSHOT_PART = 65536
};

enum mst_journal_state {
    MST_JOURNAL_KEEPS = 0,
    MST_JOURNAL_HOLDS = 1,  /* the disk is full: nothing is recorded, and nothing lasting is done */
    MST_JOURNAL_ENDED = 2,  /* ended by a full disk, or stopped in order */
    MST_JOURNAL_BROKEN = 3, /* the disk failed: nothing may leave any more */
    MST_JOURNAL_FOLLOWS = 4 /* with a sink: another replica decides */
};

struct mst_journal {
    struct mst_mem mem;
    struct mst_disk disk;
    struct mst_journal_config config;
    struct mst_core *core;
    struct mst_crc crc;
    struct mst_native_arena arena; /* of a request that is done again */
    struct mst_input_listener listener;
    enum mst_journal_state state;

    /* The file that is written. */
    int file;
    uint64_t sequence;
    uint64_t offset;   /* of the next frame */
    uint64_t reserved; /* bytes it can have without asking for room */
    uint64_t durable;  /* bytes that a sync has covered */

    struct mst_gather frame; /* that is gathered */
    enum mst_weight weight;

    uint64_t now_ns;    /* of the last record */
    uint64_t last_conn; /* the largest ever */
    uint64_t records;   /* that a recovery would replay */
    uint64_t bytes;     /* the same */
    uint64_t due_at;    /* as many records make a snapshot due */
    uint64_t due_bytes;
    uint64_t retry_ns;                     /* when room is looked for again */
    uint64_t snapshot;                     /* that is being written; 0: none */
    uint64_t records_before, bytes_before; /* that one makes unnecessary */
    uint64_t inputs;                       /* with a sink, ever */
    unsigned char *part;                   /* MST_SNAPSHOT_PART and a frame around it */

    struct mst_journal_recovered recovered;
    char why[320]; /* it is held, or broken */
};

/* ---- journal.c ---- */

/* EFAILED, with one line: it is broken. */
muster_status mst_journal_verdict(const struct mst_journal *journal, struct muster_error *err);

/* Holds the core, or releases it; the listener receives that too. */
void mst_journal_hold_core(struct mst_journal *journal, const char *why);

/* ---- file.c ---- */

void mst_journal_tell(struct mst_journal *journal, enum mst_level level, const char *event,
                      const char *reason);
void mst_journal_break(struct mst_journal *journal, const char *reason);

/* Makes `sequence` the file that is written, with `first` as its first record: CONTINUE or BASE.
 * ENOSPACE: the old one goes on. Other failures break the journal. */
muster_status mst_journal_next_file(struct mst_journal *journal, uint64_t sequence,
                                    enum mst_record_type first);

/* Gives back what was reserved, and closes it. */
void mst_journal_leave_file(struct mst_journal *journal);

/* Removes a file without meaning, and frees its number. */
void mst_journal_drop_file(struct mst_journal *journal);

/* Room for a frame with `more` bytes behind what was gathered, or the journal holds. False: what
 * would be recorded finds no room any more. */
bool mst_journal_has_room(struct mst_journal *journal, size_t more);

/* The disk reported that it is full. */
void mst_journal_hold(struct mst_journal *journal, uint64_t now_ns);

/* Where the next record goes; NULL: no memory. */
unsigned char *mst_journal_record_room(struct mst_journal *journal, size_t size);

/* Writes the frame, if there is one. */
void mst_journal_flush(struct mst_journal *journal);

/* With --sync: what was written is durable. False: the journal is broken. */
bool mst_journal_sync(struct mst_journal *journal);

/* Looks for room once a second while the journal holds. */
void mst_journal_retry(struct mst_journal *journal, uint64_t now_ns);

/* ---- snapshot.c ---- */

/* Releases the core, and writes its state then as a snapshot. ENOSPACE: no room for it, and the
 * core stays held. Any other failure ends the service: effects may be under way. */
muster_status mst_journal_snapshot_release(struct mst_journal *journal);

void mst_journal_remove_before(struct mst_journal *journal, uint64_t sequence);

/* ---- recover.c ---- */

muster_status mst_journal_recover(struct mst_journal *journal, struct muster_error *err);

#endif
