/* SPDX-License-Identifier: Apache-2.0 */
#include "service/replica/message.h"

#include <string.h>

#include "base/digest.h"
#include "base/text.h"
#include "service/replica/server.h"

#define NUMBER_MAX (UINT64_MAX / 2)

enum {
    APPEND_FIXED = 40,
    APPEND_RESULT_FIXED = 32,
    VOTE_FIXED = 40,
    VOTE_RESULT_FIXED = 16,
    SNAPSHOT_FIXED = 48,
    TIMEOUT_NOW_FIXED = 24,
    HELLO_FIXED = 24,
    REFUSED_FIXED = 16,
    WANT_FIXED = 24,
    PIECE_FIXED = 40,
    NAME_MAX = 255,
    VERSION_MAX = 63,
    FLAG_FIRST = 1, /* disrupt; granted; last */
    FLAG_PRE = 2
};

/* ---- numbers ---- */

/* What is left of a body. Behind the end everything is 0, and `short_of` says so. */
struct cursor {
    const unsigned char *at;
    size_t left;
    bool short_of;
};

static uint64_t take_number(struct cursor *cursor, unsigned size)
{
    uint64_t number = 0;

    if (cursor->left < size) {
        cursor->short_of = true;
        cursor->left = 0;
        return 0;
    }
    for (unsigned i = 0; i < size; i++) {
        number |= (uint64_t)cursor->at[i] << (8 * i);
    }
    cursor->at += size;
    cursor->left -= size;
    return number;
}

static uint64_t take_u64(struct cursor *cursor)
{
    return take_number(cursor, 8);
}

static uint32_t take_u32(struct cursor *cursor)
{
    return (uint32_t)take_number(cursor, 4);
}

static uint16_t take_u16(struct cursor *cursor)
{
    return (uint16_t)take_number(cursor, 2);
}

static uint8_t take_u8(struct cursor *cursor)
{
    return (uint8_t)take_number(cursor, 1);
}

static bool take_zeros(struct cursor *cursor, unsigned size)
{
    return take_number(cursor, size) == 0;
}

static struct mst_slice take_bytes(struct cursor *cursor, size_t size)
{
    struct mst_slice bytes = mst_slice_of(cursor->at, size);

    if (cursor->left < size) {
        cursor->short_of = true;
        size = cursor->left;
        bytes = mst_slice_of(NULL, 0);
    }
    cursor->at += size;
    cursor->left -= size;
    return bytes;
}

static bool all_read(const struct cursor *cursor)
{
    return cursor->left == 0 && !cursor->short_of;
}

static void put_number(unsigned char **at, uint64_t number, unsigned size)
{
    for (unsigned i = 0; i < size; i++) {
        *(*at)++ = (unsigned char)(number >> (8 * i));
    }
}

static void put_u64(unsigned char **at, uint64_t number)
{
    put_number(at, number, 8);
}

static void put_u32(unsigned char **at, uint32_t number)
{
    put_number(at, number, 4);
}

static void put_bytes(unsigned char **at, struct mst_slice bytes)
{
    if (bytes.size > 0) {
        memcpy(*at, bytes.data, bytes.size);
        *at += bytes.size;
    }
}

static bool is_number(uint64_t number) /* may be 0 */
{
    return number <= NUMBER_MAX;
}

static bool is_term(uint64_t term) /* or an id, or the index of an entry */
{
    return term > 0 && term <= NUMBER_MAX;
}

static bool is_name(struct mst_slice name, size_t most)
{
    return name.size <= most && !mst_slice_has_nul(name);
}

/* An entry by its index and term: both are 0 in front of the first. */
static bool is_place(uint64_t index, uint64_t term)
{
    return is_number(index) && is_number(term) && (index == 0) == (term == 0);
}

/* ---- reading, one function for each type; what is false names the field ---- */

static bool entry_read(struct cursor *cursor, struct mst_replica_entry *out)
{
    uint32_t size;
    uint8_t type;

    out->term = take_u64(cursor);
    size = take_u32(cursor);
    type = take_u8(cursor);
    if (!take_zeros(cursor, 3) || !is_term(out->term) || size > MST_REPLICA_ENTRY_MAX) {
        return false;
    }
    out->bytes = take_bytes(cursor, size);
    switch (type) {
    case MST_REPLICA_COMMAND:
    case MST_REPLICA_BARRIER:
    case MST_REPLICA_CHANGE:
        out->type = type;
        break;
    default:
        return false;
    }
    return !cursor->short_of;
}

bool mst_replica_entry_next(struct mst_slice *entries, struct mst_replica_entry *out)
{
    struct cursor cursor = {.at = entries->data, .left = entries->size};

    if (entries->size == 0 || !entry_read(&cursor, out)) {
        return false;
    }
    *entries = mst_slice_of(cursor.at, cursor.left);
    return true;
}

static const char *read_entries(struct mst_replica_message *out)
{
    struct mst_slice rest = out->append.entries;
    struct mst_replica_servers servers;
    struct mst_replica_entry entry;
    uint64_t term = out->append.prev_term;

    for (uint32_t i = 0; i < out->append.count; i++) {
        if (!mst_replica_entry_next(&rest, &entry)) {
            return "an entry is damaged";
        }
        if (entry.term < term || entry.term > out->append.term) {
            return "the terms of its entries do not rise";
        }
        if (entry.type == MST_REPLICA_CHANGE &&
            !mst_replica_configuration_read(entry.bytes, &servers)) {
            return "a configuration is damaged";
        }
        term = entry.term;
    }
    return rest.size == 0 ? NULL : "bytes are behind its entries";
}

static const char *read_append(struct cursor *cursor, struct mst_replica_message *out)
{
    bool zeros;

    out->append.term = take_u64(cursor);
    out->append.prev_index = take_u64(cursor);
    out->append.prev_term = take_u64(cursor);
    out->append.commit = take_u64(cursor);
    out->append.count = take_u32(cursor);
    zeros = take_zeros(cursor, 4);
    if (!zeros || !is_term(out->append.term) || !is_number(out->append.commit) ||
        !is_place(out->append.prev_index, out->append.prev_term) ||
        out->append.prev_term > out->append.term ||
        out->append.prev_index > NUMBER_MAX - MST_REPLICA_ENTRIES_MAX ||
        out->append.count > MST_REPLICA_ENTRIES_MAX) {
        return "a number is out of range";
    }
    out->append.from = NULL;
    out->append.entries = take_bytes(cursor, cursor->left);
    return read_entries(out);
}

static const char *read_append_result(struct cursor *cursor, struct mst_replica_message *out)
{
    out->append_result.term = take_u64(cursor);
    out->append_result.rejected = take_u64(cursor);
    out->append_result.last_index = take_u64(cursor);
    out->append_result.features = take_u16(cursor);
    out->append_result.capacity = take_u16(cursor);
    return take_zeros(cursor, 4) && is_number(out->append_result.term) &&
                   is_number(out->append_result.rejected) &&
                   is_number(out->append_result.last_index)
               ? NULL
               : "a number is out of range";
}

static const char *read_vote(struct cursor *cursor, struct mst_replica_message *out)
{
    uint8_t flags;

    out->vote.term = take_u64(cursor);
    out->vote.candidate = take_u64(cursor);
    out->vote.last_index = take_u64(cursor);
    out->vote.last_term = take_u64(cursor);
    flags = take_u8(cursor);
    out->vote.disrupt = flags & FLAG_FIRST;
    out->vote.pre = flags & FLAG_PRE;
    return flags <= (FLAG_FIRST | FLAG_PRE) && take_zeros(cursor, 7) && is_term(out->vote.term) &&
                   is_term(out->vote.candidate) &&
                   is_place(out->vote.last_index, out->vote.last_term)
               ? NULL
               : "a number is out of range";
}

static const char *read_vote_result(struct cursor *cursor, struct mst_replica_message *out)
{
    uint8_t flags;

    out->vote_result.term = take_u64(cursor);
    flags = take_u8(cursor);
    out->vote_result.granted = flags & FLAG_FIRST;
    out->vote_result.pre = flags & FLAG_PRE;
    if (flags > (FLAG_FIRST | FLAG_PRE) || !take_zeros(cursor, 1)) {
        return "a flag is not known";
    }
    out->vote_result.features = take_u16(cursor);
    out->vote_result.capacity = take_u16(cursor);
    return take_zeros(cursor, 2) && is_number(out->vote_result.term) ? NULL
                                                                     : "a number is out of range";
}

static const char *read_snapshot(struct cursor *cursor, struct mst_replica_message *out)
{
    struct mst_replica_snapshot *about = &out->snapshot.about;
    struct mst_replica_servers servers;
    uint32_t size;

    out->snapshot.term = take_u64(cursor);
    about->index = take_u64(cursor);
    about->term = take_u64(cursor);
    about->configuration_index = take_u64(cursor);
    about->bytes = take_u64(cursor);
    size = take_u32(cursor);
    if (!take_zeros(cursor, 4) || !is_term(out->snapshot.term) || !is_term(about->index) ||
        !is_term(about->term) || about->term > out->snapshot.term ||
        !is_term(about->configuration_index) || about->configuration_index > about->index ||
        !is_term(about->bytes)) {
        return "a number is out of range";
    }
    about->configuration = take_bytes(cursor, size);
    return mst_replica_configuration_read(about->configuration, &servers)
               ? NULL
               : "its configuration is damaged";
}

static const char *read_timeout_now(struct cursor *cursor, struct mst_replica_message *out)
{
    out->timeout_now.term = take_u64(cursor);
    out->timeout_now.last_index = take_u64(cursor);
    out->timeout_now.last_term = take_u64(cursor);
    return is_term(out->timeout_now.term) &&
                   is_place(out->timeout_now.last_index, out->timeout_now.last_term)
               ? NULL
               : "a number is out of range";
}

static const char *read_hello(struct cursor *cursor, struct mst_replica_message *out)
{
    uint8_t run, address, version, flags;
    bool zeros;

    out->hello.protocol = take_u32(cursor);
    out->hello.rules = take_u32(cursor);
    out->hello.id = take_u64(cursor);
    run = take_u8(cursor);
    address = take_u8(cursor);
    version = take_u8(cursor);
    flags = take_u8(cursor);
    zeros = flags <= FLAG_FIRST && take_zeros(cursor, 4);
    out->hello.member = flags & FLAG_FIRST;
    out->hello.run = take_bytes(cursor, run);
    out->hello.address = take_bytes(cursor, address);
    out->hello.version = take_bytes(cursor, version);
    return zeros && is_term(out->hello.id) && run > 0 && address > 0 &&
                   is_name(out->hello.run, NAME_MAX) && is_name(out->hello.address, NAME_MAX) &&
                   is_name(out->hello.version, VERSION_MAX)
               ? NULL
               : "a name or a number is out of range";
}

static const char *read_refused(struct cursor *cursor, struct mst_replica_message *out)
{
    uint8_t size;

    out->refused.protocol = take_u32(cursor);
    out->refused.rules = take_u32(cursor);
    size = take_u8(cursor);
    if (!take_zeros(cursor, 7)) {
        return "a number is out of range";
    }
    out->refused.text = take_bytes(cursor, size);
    return is_name(out->refused.text, NAME_MAX) ? NULL : "its text has a NUL";
}

static const char *read_want(struct cursor *cursor, struct mst_replica_message *out)
{
    out->want.index = take_u64(cursor);
    out->want.term = take_u64(cursor);
    out->want.offset = take_u64(cursor);
    return is_term(out->want.index) && is_term(out->want.term) && is_number(out->want.offset)
               ? NULL
               : "a number is out of range";
}

static const char *read_piece(struct cursor *cursor, struct mst_replica_message *out)
{
    uint64_t sum;
    uint8_t last;

    out->piece.index = take_u64(cursor);
    out->piece.term = take_u64(cursor);
    out->piece.offset = take_u64(cursor);
    sum = take_u64(cursor);
    last = take_u8(cursor);
    out->piece.last = last;
    if (last > FLAG_FIRST || !take_zeros(cursor, 7) || !is_term(out->piece.index) ||
        !is_term(out->piece.term) || !is_number(out->piece.offset) ||
        cursor->left > MST_REPLICA_PIECE_MAX || (cursor->left == 0 && !out->piece.last)) {
        return "a number is out of range";
    }
    out->piece.bytes = take_bytes(cursor, cursor->left);
    return sum == mst_digest_slice(MST_DIGEST_INIT, out->piece.bytes) ? NULL
                                                                      : "its checksum is wrong";
}

/* ---- writing ---- */

static size_t entries_bytes(const struct mst_replica_message *message)
{
    size_t size = 0;

    for (uint32_t i = 0; message->append.from && i < message->append.count; i++) {
        size += MST_REPLICA_ENTRY_HEAD + message->append.from[i].bytes.size;
    }
    return message->append.from ? size : message->append.entries.size;
}

static void write_append(unsigned char **at, const struct mst_replica_message *message)
{
    put_u64(at, message->append.term);
    put_u64(at, message->append.prev_index);
    put_u64(at, message->append.prev_term);
    put_u64(at, message->append.commit);
    put_u32(at, message->append.count);
    put_u32(at, 0);
    if (!message->append.from) {
        put_bytes(at, message->append.entries);
        return;
    }
    for (uint32_t i = 0; i < message->append.count; i++) {
        const struct mst_replica_entry *entry = &message->append.from[i];

        put_u64(at, entry->term);
        put_u32(at, (uint32_t)entry->bytes.size);
        put_u32(at, (uint32_t)entry->type);
        put_bytes(at, entry->bytes);
    }
}

static void write_append_result(unsigned char **at, const struct mst_replica_message *message)
{
    put_u64(at, message->append_result.term);
    put_u64(at, message->append_result.rejected);
    put_u64(at, message->append_result.last_index);
    put_number(at, message->append_result.features, 2);
    put_number(at, message->append_result.capacity, 2);
    put_u32(at, 0);
}

static uint64_t flags_of(bool first, bool pre)
{
    return (first ? FLAG_FIRST : 0u) | (pre ? FLAG_PRE : 0u);
}

static void write_vote(unsigned char **at, const struct mst_replica_message *message)
{
    put_u64(at, message->vote.term);
    put_u64(at, message->vote.candidate);
    put_u64(at, message->vote.last_index);
    put_u64(at, message->vote.last_term);
    put_u64(at, flags_of(message->vote.disrupt, message->vote.pre));
}

static void write_vote_result(unsigned char **at, const struct mst_replica_message *message)
{
    put_u64(at, message->vote_result.term);
    put_number(at, flags_of(message->vote_result.granted, message->vote_result.pre), 2);
    put_number(at, message->vote_result.features, 2);
    put_number(at, message->vote_result.capacity, 2);
    put_number(at, 0, 2);
}

static void write_snapshot(unsigned char **at, const struct mst_replica_message *message)
{
    const struct mst_replica_snapshot *about = &message->snapshot.about;

    put_u64(at, message->snapshot.term);
    put_u64(at, about->index);
    put_u64(at, about->term);
    put_u64(at, about->configuration_index);
    put_u64(at, about->bytes);
    put_u32(at, (uint32_t)about->configuration.size);
    put_u32(at, 0);
    put_bytes(at, about->configuration);
}

static void write_timeout_now(unsigned char **at, const struct mst_replica_message *message)
{
    put_u64(at, message->timeout_now.term);
    put_u64(at, message->timeout_now.last_index);
    put_u64(at, message->timeout_now.last_term);
}

static void write_hello(unsigned char **at, const struct mst_replica_message *message)
{
    put_u32(at, message->hello.protocol);
    put_u32(at, message->hello.rules);
    put_u64(at, message->hello.id);
    put_number(at, message->hello.run.size, 1);
    put_number(at, message->hello.address.size, 1);
    put_number(at, message->hello.version.size, 1);
    put_number(at, flags_of(message->hello.member, false), 1);
    put_number(at, 0, 4);
    put_bytes(at, message->hello.run);
    put_bytes(at, message->hello.address);
    put_bytes(at, message->hello.version);
}

static void write_refused(unsigned char **at, const struct mst_replica_message *message)
{
    put_u32(at, message->refused.protocol);
    put_u32(at, message->refused.rules);
    put_u64(at, message->refused.text.size);
    put_bytes(at, message->refused.text);
}

static void write_want(unsigned char **at, const struct mst_replica_message *message)
{
    put_u64(at, message->want.index);
    put_u64(at, message->want.term);
    put_u64(at, message->want.offset);
}

static void write_piece(unsigned char **at, const struct mst_replica_message *message)
{
    put_u64(at, message->piece.index);
    put_u64(at, message->piece.term);
    put_u64(at, message->piece.offset);
    put_u64(at, mst_digest_slice(MST_DIGEST_INIT, message->piece.bytes));
    put_u64(at, flags_of(message->piece.last, false));
    put_bytes(at, message->piece.bytes);
}

/* ---- the types as a table ---- */

struct kind {
    enum mst_replica_message_type type;
    uint16_t fixed; /* bytes of the body, at least */
    const char *name;
    const char *(*read)(struct cursor *cursor, struct mst_replica_message *out);
    void (*write)(unsigned char **at, const struct mst_replica_message *message);
};

static const struct kind kinds[] = {
    {MST_REPLICA_APPEND, APPEND_FIXED, "append", read_append, write_append},
    {MST_REPLICA_APPEND_RESULT, APPEND_RESULT_FIXED, "append result", read_append_result,
     write_append_result},
    {MST_REPLICA_VOTE, VOTE_FIXED, "vote", read_vote, write_vote},
    {MST_REPLICA_VOTE_RESULT, VOTE_RESULT_FIXED, "vote result", read_vote_result,
     write_vote_result},
    {MST_REPLICA_SNAPSHOT, SNAPSHOT_FIXED, "snapshot", read_snapshot, write_snapshot},
    {MST_REPLICA_TIMEOUT_NOW, TIMEOUT_NOW_FIXED, "timeout now", read_timeout_now,
     write_timeout_now},
    {MST_REPLICA_HELLO, HELLO_FIXED, "hello", read_hello, write_hello},
    {MST_REPLICA_REFUSED, REFUSED_FIXED, "refused", read_refused, write_refused},
    {MST_REPLICA_WANT, WANT_FIXED, "want", read_want, write_want},
    {MST_REPLICA_PIECE, PIECE_FIXED, "piece", read_piece, write_piece},
};

static const struct kind *kind_of(uint64_t type)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if ((uint64_t)kinds[i].type == type) {
            return &kinds[i];
        }
    }
    return NULL;
}

/* Behind the fixed fields. */
static size_t bytes_behind(const struct mst_replica_message *message)
{
    switch (message->type) {
    case MST_REPLICA_APPEND:
        return entries_bytes(message);
    case MST_REPLICA_SNAPSHOT:
        return message->snapshot.about.configuration.size;
    case MST_REPLICA_HELLO:
        return message->hello.run.size + message->hello.address.size + message->hello.version.size;
    case MST_REPLICA_REFUSED:
        return message->refused.text.size;
    case MST_REPLICA_PIECE:
        return message->piece.bytes.size;
    case MST_REPLICA_APPEND_RESULT:
    case MST_REPLICA_VOTE:
    case MST_REPLICA_VOTE_RESULT:
    case MST_REPLICA_TIMEOUT_NOW:
    case MST_REPLICA_WANT:
        break;
    }
    return 0;
}

size_t mst_replica_message_bytes(const struct mst_replica_message *message)
{
    const struct kind *kind = kind_of((uint64_t)message->type);

    MST_ASSERT(kind);
    return MST_REPLICA_MESSAGE_HEAD + kind->fixed + bytes_behind(message);
}

muster_status mst_replica_message_write(struct mst_buffer *out,
                                        const struct mst_replica_message *message)
{
    const struct kind *kind = kind_of((uint64_t)message->type);
    size_t size = mst_replica_message_bytes(message);
    unsigned char *at, *end;

    MST_ASSERT(size <= MST_REPLICA_MESSAGE_MAX);
    at = mst_buffer_reserve(out, size);
    if (!at) {
        return MUSTER_ENOMEM;
    }
    end = at + size;
    put_u32(&at, (uint32_t)size);
    put_u32(&at, (uint32_t)kind->type);
    kind->write(&at, message);
    MST_ASSERT(at == end);
    mst_buffer_commit(out, size);
    return MUSTER_OK;
}

/* ---- a connection ---- */

void mst_replica_reader_init(struct mst_replica_reader *reader, const struct mst_mem *mem)
{
    *reader = (struct mst_replica_reader){.message_max = MST_REPLICA_HELLO_MAX};
    mst_buffer_init(&reader->buffer, mem, MST_REPLICA_MESSAGE_MAX + MST_REPLICA_TAKE_MAX);
}

void mst_replica_reader_fini(struct mst_replica_reader *reader)
{
    mst_buffer_fini(&reader->buffer);
}

static void drop_taken(struct mst_replica_reader *reader)
{
    mst_buffer_take(&reader->buffer, reader->taken);
    reader->taken = 0;
}

muster_status mst_replica_reader_take(struct mst_replica_reader *reader, struct mst_slice bytes)
{
    MST_ASSERT(bytes.size <= MST_REPLICA_TAKE_MAX);
    drop_taken(reader);
    return mst_buffer_append(&reader->buffer, bytes) ? MUSTER_OK : MUSTER_ENOMEM;
}

unsigned char *mst_replica_reader_room(struct mst_replica_reader *reader, size_t *size)
{
    unsigned char *room;

    drop_taken(reader);
    room = mst_buffer_reserve(&reader->buffer, MST_REPLICA_TAKE_MAX);
    *size = reader->buffer.room - reader->buffer.end;
    return room;
}

void mst_replica_reader_took(struct mst_replica_reader *reader, size_t size)
{
    mst_buffer_commit(&reader->buffer, size);
}

muster_status mst_replica_reader_next(struct mst_replica_reader *reader,
                                      struct mst_replica_message *out, const char **why)
{
    struct mst_slice content;
    const struct kind *kind;
    struct cursor cursor;
    uint32_t size;

    drop_taken(reader);
    content = mst_buffer_content(&reader->buffer);
    if (content.size < MST_REPLICA_MESSAGE_HEAD) {
        return MUSTER_MORE;
    }
    cursor = (struct cursor){.at = content.data, .left = content.size};
    size = take_u32(&cursor);
    kind = kind_of(take_u32(&cursor));
    if (!kind) {
        *why = "its type is not known";
        return MUSTER_EPROTO;
    }
    if (size < MST_REPLICA_MESSAGE_HEAD + (uint32_t)kind->fixed || size > reader->message_max) {
        *why = "its size is out of range";
        return MUSTER_EPROTO;
    }
    if (content.size < size) {
        return MUSTER_MORE;
    }
    *out = (struct mst_replica_message){.type = kind->type};
    cursor.left = size - MST_REPLICA_MESSAGE_HEAD;
    *why = kind->read(&cursor, out);
    if (!*why && !all_read(&cursor)) {
        *why = "its size does not fit its fields";
    }
    if (*why) {
        return MUSTER_EPROTO;
    }
    reader->taken = size;
    return MUSTER_OK;
}

void mst_replica_reader_admit(struct mst_replica_reader *reader)
{
    reader->message_max = MST_REPLICA_MESSAGE_MAX;
}

bool mst_replica_hello_fits(const struct mst_replica_message *own,
                            const struct mst_replica_message *other, char *line, size_t room)
{
    struct mst_text text = mst_text_in(line, room);

    if (!mst_slice_equal(own->hello.run, other->hello.run)) {
        mst_text_format(&text, "the replica at %.*s is of run '%.*s', this one of '%.*s'",
                        MST_SLICE_ARGS(other->hello.address), MST_SLICE_ARGS(other->hello.run),
                        MST_SLICE_ARGS(own->hello.run));
        return false;
    }
    if (own->hello.protocol != other->hello.protocol || own->hello.rules != other->hello.rules) {
        mst_text_format(&text,
                        "the replica at %.*s is muster %.*s (rules %u, protocol %u), this one "
                        "%.*s (rules %u, protocol %u): replicas of a run are of one version",
                        MST_SLICE_ARGS(other->hello.address), MST_SLICE_ARGS(other->hello.version),
                        other->hello.rules, other->hello.protocol,
                        MST_SLICE_ARGS(own->hello.version), own->hello.rules, own->hello.protocol);
        return false;
    }
    if (own->hello.id == other->hello.id) {
        mst_text_format(&text, "the replica at %.*s has the id %llu, which is that of this one",
                        MST_SLICE_ARGS(other->hello.address), (unsigned long long)other->hello.id);
        return false;
    }
    return true;
}
