/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_REPLICA_LOG_PART_H
#define MST_SERVICE_REPLICA_LOG_PART_H

/* The log as its own files see it: log.c keeps entries and votes, log_file.c writes them,
 * log_bytes.c lets go of their bytes, log_snapshot.c has the states, log_recover.c brings all of it
 * back. */

#include "service/journal/format.h"
#include "service/journal/gather.h"
#include "service/replica/log.h"

#define MST_NO_FILE (-1)

enum {
    MST_SEGMENT_BODY = MST_REPLICA_BOOT + 40,
    MST_ABOUT_BODY = MST_REPLICA_BOOT + 16, /* and the configuration behind it */
    MST_STATE_PART = 65536,
    MST_REPLICA_SPARE = 65536 /* of a file's room, for votes: they cannot be refused */
};

/* A file of entries that is continued by another one. */
struct mst_segment {
    uint64_t sequence;
    uint64_t bytes;
    uint64_t highest; /* index of an entry in it */
    bool sync;        /* what is in it survives the host */
};

/* Where the record of an entry lies. */
struct mst_log_place {
    uint64_t sequence; /* of the file */
    uint64_t frame;    /* offset in it */
    uint64_t record;   /* offset in the frame's payload */
};

struct mst_log_slot {
    struct mst_replica_entry entry; /* its bytes are NULL: in the file only */
    struct mst_log_place place;
};

struct mst_replica_saving {
    struct mst_replica_log *log;
    struct mst_replica_snapshot about; /* its configuration lies behind this struct's part */
    uint64_t sequence;
    int file;
    uint64_t offset;
    size_t used;         /* of the part */
    unsigned char *part; /* MST_STATE_PART and a frame around it */
    muster_status status;
    bool closed;
};

struct mst_replica_log {
    struct mst_mem mem;
    struct mst_disk disk;
    struct mst_replica_log_config config;
    struct mst_crc crc;
    char why[320]; /* it is broken; empty: it is not */

    /* The file that is written. */
    int file;
    uint64_t sequence;
    uint64_t offset;   /* of the next frame */
    uint64_t reserved; /* bytes it can have without asking for room */
    uint64_t durable;  /* bytes that a sync has covered */
    uint64_t highest;
    struct mst_gather frame;

    struct mst_segment *older; /* by their numbers */
    size_t older_count, older_room;

    struct mst_log_slot *ring; /* those behind `base`, each at its index modulo the room */
    uint64_t ring_room;        /* a power of two */
    uint64_t base, last;
    uint64_t held;     /* bytes of entries in memory */
    uint64_t released; /* to here they are in files only, but for configurations */

    /* The frame that was read last for an entry. */
    struct {
        uint64_t sequence, offset; /* 0: none */
        unsigned char *bytes;
        struct mst_slice payload;
    } found;

    uint64_t base_term; /* 0: not known */
    uint64_t written, committed;
    uint64_t id, term, vote;

    struct mst_replica_snapshot snapshot;
    uint64_t state;       /* the number of its file; 0: there is none */
    uint64_t next_state;  /* the next number */
    uint64_t old_state;   /* goes when the next one is begun; 0: there is none */
    uint64_t state_first; /* offset of the first part */
    bool state_sync;
    unsigned char *part; /* for reading */
    struct mst_replica_saving *saving;

    struct mst_replica_log_recovered recovered;
};

/* ---- log.c ---- */

struct mst_log_slot *mst_replica_log_slot(const struct mst_replica_log *log, uint64_t index);

/* Room for `more` entries. False: no memory. */
bool mst_replica_log_ring_room(struct mst_replica_log *log, uint64_t more);

/* A copy of the bytes; NULL with none: no memory. */
bool mst_replica_log_copy(struct mst_replica_log *log, struct mst_slice bytes,
                          struct mst_slice *out);

/* Gives back such a copy. */
void mst_replica_log_uncopy(struct mst_replica_log *log, struct mst_slice *copy);

/* There is room: it becomes the last one, and those from its index on are dropped. */
void mst_replica_log_put(struct mst_replica_log *log, uint64_t index,
                         const struct mst_replica_entry *owned);

/* There are no entries any more, and the next one is behind `index`. */
void mst_replica_log_begin_behind(struct mst_replica_log *log, uint64_t index, uint64_t term);

/* ---- log_bytes.c ---- */

/* Gives back the frame that was read last. */
void mst_replica_log_forget_frame(struct mst_replica_log *log);

/* ---- log_file.c ---- */

void mst_replica_log_tell(struct mst_replica_log *log, enum mst_level level, const char *event,
                          const char *reason);
void mst_replica_log_break(struct mst_replica_log *log, const char *reason);
muster_status mst_replica_log_verdict(const struct mst_replica_log *log, struct muster_error *err);

/* Room in the file for a frame with `more` bytes behind what was gathered, and `spare` behind it.
 * ENOSPACE; EFAILED: it is broken. */
muster_status mst_replica_log_file_room(struct mst_replica_log *log, uint64_t more, uint64_t spare);

/* Behind what was gathered; the gathered has room for it, or it is written first. */
void mst_replica_log_note(struct mst_replica_log *log, enum mst_record_type type, uint64_t term,
                          uint64_t number);

void mst_replica_log_flush(struct mst_replica_log *log);
bool mst_replica_log_sync(struct mst_replica_log *log);

/* The next file continues the one that is written; `anew`: it does not, and its entries begin
 * behind the last one. `durable`: its head is, whatever was promised. ENOMEM, ENOSPACE: the old one
 * goes on. EFAILED: it is broken. */
muster_status mst_replica_log_next_file(struct mst_replica_log *log, uint64_t sequence, bool anew,
                                        bool durable);

/* Removes the files whose entries are all at `index` or before. */
void mst_replica_log_prune(struct mst_replica_log *log, uint64_t index);

/* ---- log_snapshot.c ---- */

/* What is at the beginning of a state. */
struct mst_state_head {
    struct mst_replica_snapshot about; /* its configuration borrowed from the log's part */
    unsigned char boot[MST_REPLICA_BOOT];
    bool sync;
    uint64_t first; /* offset of the first part */
};

/* Reads the beginning and the end of a state's file. EPROTO: it is not whole; `*at` is where. */
muster_status mst_state_look(struct mst_replica_log *log, uint64_t sequence,
                             struct mst_state_head *out, uint64_t *at);

/* Reads all of it likewise. */
muster_status mst_state_check(struct mst_replica_log *log, uint64_t sequence,
                              const struct mst_state_head *head, uint64_t *at);

/* Makes it the snapshot of this log. ENOMEM. */
muster_status mst_state_adopt(struct mst_replica_log *log, uint64_t sequence,
                              const struct mst_state_head *head);

/* ---- log_recover.c ---- */

muster_status mst_replica_log_recover(struct mst_replica_log *log, struct muster_error *err);

#endif
