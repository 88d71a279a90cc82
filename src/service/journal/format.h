/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_JOURNAL_FORMAT_H
#define MST_SERVICE_JOURNAL_FORMAT_H

/* The bytes of a file: a head, then frames of records. docs/journal.md has the tables. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "service/journal/crc.h"

#define MST_JOURNAL_FORMAT 1u

enum {
    MST_FILE_HEAD = 64,
    MST_FILE_VERSION_ROOM = 24,
    MST_FRAME_HEAD = 16,
    MST_FRAME_ALIGN = 8,
    MST_RECORD_HEAD = 24,
    MST_FILE_NAME_ROOM = 48
};

/* More files than any service makes: behind them there are still names for the next ones. */
#define MST_SEQUENCE_MAX UINT64_C(8999999999)

/* UNFINISHED is no kind of a head: a snapshot has this name until it is whole. ENTRIES and those
 * after it are of a replica's log, docs/replica-log.md. */
enum mst_file_kind {
    MST_FILE_JOURNAL = 1,
    MST_FILE_SNAPSHOT = 2,
    MST_FILE_UNFINISHED = 3,
    MST_FILE_RECORD = 4, /* all that one service was fed; no journal */
    MST_FILE_ENTRIES = 5,
    MST_FILE_STATE = 6,
    MST_FILE_STATE_UNFINISHED = 7
};

enum mst_record_type {
    MST_RECORD_NONE = 0, /* the padding of a frame */

    /* inputs */
    MST_RECORD_RESUME = 1,  /* body: lease, limits by their names */
    MST_RECORD_OPEN = 2,    /* a connection */
    MST_RECORD_REQUEST = 3, /* body: the request as a message of the schema */
    MST_RECORD_CLOSE = 4,
    MST_RECORD_TICK = 5,
    MST_RECORD_HOLD = 6, /* the core is held; body: why; empty: it is released. Not in a journal,
                            which continues with a snapshot then */

    /* of the journal itself */
    MST_RECORD_CONTINUE = 16, /* the first of a file that goes on from the one before; body: how
                                 many bytes of that one count */
    MST_RECORD_BASE = 17,     /* the first of a file that means nothing without its snapshot */
    MST_RECORD_ENDED = 18,    /* the journal ended here: later inputs are in no file */

    /* of a record, which has the snapshot it begins with, if any, behind the first */
    MST_RECORD_BEGUN = 19,   /* the first; body: the time of day in ns since 1970, and as RESUME */
    MST_RECORD_STOPPED = 20, /* the last, of a service that stopped in order; body: the digest of
                                the state, and the count of inputs */

    /* of a snapshot */
    MST_RECORD_PART = 32,
    MST_RECORD_WHOLE = 33, /* the last; body: the bytes of all parts; conn: the largest ever used */

    /* of a replica's log: a term in the place of the time, an index or id in that of conn */
    MST_RECORD_SEGMENT = 48, /* the first of a file; conn: the id of the replica */
    MST_RECORD_ENTRY = 49,   /* flags: its type; body: its bytes */
    MST_RECORD_VOTE = 50,    /* conn: the replica with the vote in this term; 0: none */
    MST_RECORD_ABOUT = 51    /* the first of a state: its last entry; body: the configuration */
};

/* Flags of a REQUEST. The first is in a record that of an OPEN too. */
#define MST_RECORD_REFUSED 1u  /* for want of room */
#define MST_RECORD_WORDLESS 2u /* carried out without its text, for which there was no memory */

/* No service comes so far in nanoseconds or connections, and what follows can still be counted. */
#define MST_COUNTED_MAX (UINT64_MAX / 2)

struct mst_file_head {
    uint64_t sequence;
    enum mst_file_kind kind;
    uint32_t rules;
    char version[MST_FILE_VERSION_ROOM];
};

struct mst_journal_record {
    enum mst_record_type type;
    unsigned flags;
    uint64_t now_ns;
    uint64_t conn;
    struct mst_slice body;
};

uint64_t mst_get_u64(const unsigned char *at);
void mst_put_u64(unsigned char *at, uint64_t value);

/* "0000000007.journal" */
void mst_file_name(char name[MST_FILE_NAME_ROOM], enum mst_file_kind kind, uint64_t sequence);

/* False: no name of a journal's; a record, which may lie in the same folder, is none. */
bool mst_file_name_read(const char *name, enum mst_file_kind *kind, uint64_t *sequence);
bool mst_record_name_read(const char *name, uint64_t *sequence);
bool mst_replica_name_read(const char *name, enum mst_file_kind *kind, uint64_t *sequence);

/* The head of a new file. A longer version is cut. */
struct mst_file_head mst_file_head_of(enum mst_file_kind kind, uint64_t sequence, uint32_t rules,
                                      const char *version);
void mst_file_head_write(unsigned char at[MST_FILE_HEAD], const struct mst_crc *crc,
                         const struct mst_file_head *head);
/* False: damaged, too short, or of another format. */
bool mst_file_head_read(struct mst_file_head *out, const struct mst_crc *crc,
                        struct mst_slice file);

/* The head of a record, in front of the `body_size` bytes of its body. */
void mst_record_head_write(unsigned char at[MST_RECORD_HEAD],
                           const struct mst_journal_record *record, size_t body_size);

/* Takes the first record off a payload. False: there is none, which is an error only if `*rest` is
 * not empty then. */
bool mst_record_read(struct mst_journal_record *out, struct mst_slice *rest);

/* The size of a frame with this payload in the file. */
uint64_t mst_frame_bytes(uint64_t payload);

/* Completes a frame: `frame` is room for the head, then `payload` bytes, then room to align. The
 * place in the file is part of the checksum, so that bytes that were a frame elsewhere are none
 * here. */
void mst_frame_write(unsigned char *frame, const struct mst_crc *crc, uint64_t sequence,
                     uint64_t offset, size_t payload, uint64_t durable);

/* The payload of the frame at the start of `bytes`, which lie at `offset` of their file. False: no
 * frame lies there. */
bool mst_frame_read(struct mst_slice *payload, const struct mst_crc *crc, struct mst_slice bytes,
                    uint64_t sequence, uint64_t offset);

enum mst_frame_found {
    MST_FRAME_WHOLE,
    MST_FRAME_END,    /* nothing but zeros follows */
    MST_FRAME_TORN,   /* what follows was never promised: it is cut */
    MST_FRAME_CORRUPT /* a later frame says that these bytes were durable */
};

struct mst_frame_reader {
    const struct mst_crc *crc;
    struct mst_slice file;
    uint64_t sequence;
    uint64_t offset; /* of the next frame */
};

enum mst_frame_found mst_frame_next(struct mst_frame_reader *reader, struct mst_slice *payload);

#endif
