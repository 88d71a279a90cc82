/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_REPLICA_MESSAGE_H
#define MST_SERVICE_REPLICA_MESSAGE_H

/* The bytes between two replicas: a hello each, then messages. docs/replica-protocol.md has the
 * tables. A message is a head of 8 bytes (size, type, two zeros) and a body of fixed fields, with
 * bytes behind them; numbers are little-endian. Every field is checked when it is read, so what
 * was read makes sense by itself.
 *
 * A snapshot goes in pieces, which its receiver asks for: SNAPSHOT offers it, WANT asks for the
 * bytes at an offset, PIECE is the answer. So the sender remembers nothing, there is one piece on
 * the way, and after a cut the receiver asks on. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/mem.h"
#include "base/slice.h"
#include "muster/status.h"
#include "service/replica/log.h"

#define MST_REPLICA_PROTOCOL 1u

enum {
    MST_REPLICA_MESSAGE_HEAD = 8,
    MST_REPLICA_ENTRY_HEAD = 16,
    MST_REPLICA_PIECE_MAX = 256 * 1024,
    MST_REPLICA_HELLO_MAX = 1024, /* bytes of a message before the hello is there */
    MST_REPLICA_TAKE_MAX = 64 * 1024,
    MST_REPLICA_ENTRIES_MAX = 1024,
    /* An APPEND of several entries is no longer than this; one of one entry may be. */
    MST_REPLICA_BATCH_MAX = 1u << 20,
    MST_REPLICA_MESSAGE_MAX = MST_REPLICA_ENTRY_MAX + 4096
};

/* The numbers up to 6 are libraft's. */
enum mst_replica_message_type {
    MST_REPLICA_APPEND = 1,
    MST_REPLICA_APPEND_RESULT = 2,
    MST_REPLICA_VOTE = 3,
    MST_REPLICA_VOTE_RESULT = 4,
    MST_REPLICA_SNAPSHOT = 5,
    MST_REPLICA_TIMEOUT_NOW = 6,
    MST_REPLICA_HELLO = 16,   /* the first one, from each side */
    MST_REPLICA_REFUSED = 17, /* the last one: the hello does not fit, `text` says why */
    MST_REPLICA_WANT = 18,
    MST_REPLICA_PIECE = 19
};

/* Terms, indexes, ids and sizes are less than 2^63; terms and ids are not 0 unless it says so. */
struct mst_replica_message {
    enum mst_replica_message_type type;
    union {
        struct {
            uint64_t term;
            uint64_t prev_index, prev_term; /* both 0: in front of the first entry */
            uint64_t commit;
            uint32_t count;
            /* Read: encoded, mst_replica_entry_next. Write: `from`, which has `count`. */
            struct mst_slice entries;
            const struct mst_replica_entry *from;
        } append;
        struct {
            uint64_t term;                 /* may be 0 */
            uint64_t rejected, last_index; /* either may be 0 */
            uint16_t features, capacity;
        } append_result;
        struct {
            uint64_t term, candidate;
            uint64_t last_index, last_term; /* either may be 0 */
            bool disrupt, pre;
        } vote;
        struct {
            uint64_t term;
            bool granted, pre;
            uint16_t features, capacity;
        } vote_result;
        struct {
            uint64_t term; /* of the leader */
            struct mst_replica_snapshot about;
        } snapshot;
        struct {
            uint64_t term, last_index, last_term;
        } timeout_now;
        struct {
            uint32_t protocol, rules;
            uint64_t id;
            bool member;              /* it has the log of a group, or a vote */
            struct mst_slice run;     /* the name of the job; 1 to 255 bytes */
            struct mst_slice address; /* where this replica listens; 1 to 255 */
            struct mst_slice version; /* of the program, for people; up to 63 */
        } hello;
        struct {
            uint32_t protocol, rules; /* of the replica that refuses */
            struct mst_slice text;    /* one line; up to 255 bytes */
        } refused;
        struct {
            uint64_t index, term, offset;
        } want;
        struct {
            uint64_t index, term, offset;
            bool last;
            struct mst_slice bytes; /* 1 to PIECE_MAX; 0 only as the last */
        } piece;
    };
};

/* Entry after entry of an APPEND that was read. */
bool mst_replica_entry_next(struct mst_slice *entries, struct mst_replica_entry *out);

size_t mst_replica_message_bytes(const struct mst_replica_message *message);

/* Appends the message to `out`. ENOMEM: no memory, or more than `out` may have. */
muster_status mst_replica_message_write(struct mst_buffer *out,
                                        const struct mst_replica_message *message);

/* ---- a connection's bytes ---- */

struct mst_replica_reader {
    struct mst_buffer buffer;
    size_t message_max; /* HELLO_MAX until the hello is there, then MESSAGE_MAX */
    size_t taken;       /* of the message that was read last */
};

void mst_replica_reader_init(struct mst_replica_reader *reader, const struct mst_mem *mem);
void mst_replica_reader_fini(struct mst_replica_reader *reader);

/* At most TAKE_MAX bytes, after which next is called until MORE. Memory grows with what has come,
 * never with what a head promises. ENOMEM. */
muster_status mst_replica_reader_take(struct mst_replica_reader *reader, struct mst_slice bytes);

/* The same of bytes that are received where they are read: room for `*size` of them, which are
 * TAKE_MAX or more, and how many came. NULL: no memory. */
unsigned char *mst_replica_reader_room(struct mst_replica_reader *reader, size_t *size);
void mst_replica_reader_took(struct mst_replica_reader *reader, size_t size);

/* OK: a message, whose slices are borrowed until the next call. MORE: it is not whole yet. EPROTO:
 * it makes no sense, nor does anything behind it; `why` is a few words. */
muster_status mst_replica_reader_next(struct mst_replica_reader *reader,
                                      struct mst_replica_message *out, const char **why);

/* The hello was accepted: longer messages may come. */
void mst_replica_reader_admit(struct mst_replica_reader *reader);

/* Whether this hello fits ours; otherwise one line for a REFUSED and the log is written to `line`:
 * which run, which rules, which version. */
bool mst_replica_hello_fits(const struct mst_replica_message *own,
                            const struct mst_replica_message *other, char *line, size_t room);

#endif
