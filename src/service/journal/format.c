/* SPDX-License-Identifier: Apache-2.0 */
#include "service/journal/format.h"

#include <string.h>

enum { DIGITS = 10, FRAME_DURABLE = 8, HEAD_CRC = MST_FILE_HEAD - 4 };

static const unsigned char magic[8] = {'M', 'U', 'S', 'T', 'E', 'R', 'L', '\n'};
static const char *const endings[] = {
    [MST_FILE_JOURNAL] = ".journal",           [MST_FILE_SNAPSHOT] = ".snapshot",
    [MST_FILE_UNFINISHED] = ".snapshot.tmp",   [MST_FILE_RECORD] = ".record",
    [MST_FILE_ENTRIES] = ".entries",           [MST_FILE_STATE] = ".state",
    [MST_FILE_STATE_UNFINISHED] = ".state.tmp"};

/* ---- numbers, the least byte first ---- */

static uint32_t get_u32(const unsigned char *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void put_u32(unsigned char *at, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++) {
        at[i] = (unsigned char)(value >> (8 * i));
    }
}

uint64_t mst_get_u64(const unsigned char *at)
{
    return (uint64_t)get_u32(at) | (uint64_t)get_u32(at + 4) << 32;
}

void mst_put_u64(unsigned char *at, uint64_t value)
{
    put_u32(at, (uint32_t)value);
    put_u32(at + 4, (uint32_t)(value >> 32));
}

/* ---- names ---- */

void mst_file_name(char name[MST_FILE_NAME_ROOM], enum mst_file_kind kind, uint64_t sequence)
{
    for (int i = DIGITS - 1; i >= 0; i--, sequence /= 10) {
        name[i] = (char)('0' + sequence % 10);
    }
    memcpy(name + DIGITS, endings[kind], strlen(endings[kind]) + 1);
}

static bool is_name_of(const char *name, enum mst_file_kind kind, uint64_t *sequence)
{
    size_t size = DIGITS + strlen(endings[kind]);
    uint64_t number = 0;

    for (unsigned i = 0; i < DIGITS; i++) {
        if (name[i] < '0' || name[i] > '9') { /* also where it ends */
            return false;
        }
        number = number * 10 + (uint64_t)(name[i] - '0');
    }
    *sequence = number;
    return strlen(name) == size && memcmp(name + DIGITS, endings[kind], size - DIGITS) == 0 &&
           number > 0 && number <= MST_SEQUENCE_MAX;
}

static bool is_name_of_any(const char *name, enum mst_file_kind first, enum mst_file_kind last,
                           enum mst_file_kind *kind, uint64_t *sequence)
{
    for (unsigned i = first; i <= last; i++) {
        if (is_name_of(name, (enum mst_file_kind)i, sequence)) {
            *kind = (enum mst_file_kind)i;
            return true;
        }
    }
    return false;
}

bool mst_file_name_read(const char *name, enum mst_file_kind *kind, uint64_t *sequence)
{
    return is_name_of_any(name, MST_FILE_JOURNAL, MST_FILE_UNFINISHED, kind, sequence);
}

bool mst_record_name_read(const char *name, uint64_t *sequence)
{
    return is_name_of(name, MST_FILE_RECORD, sequence);
}

bool mst_replica_name_read(const char *name, enum mst_file_kind *kind, uint64_t *sequence)
{
    return is_name_of_any(name, MST_FILE_ENTRIES, MST_FILE_STATE_UNFINISHED, kind, sequence);
}

/* ---- the head of a file ---- */

struct mst_file_head mst_file_head_of(enum mst_file_kind kind, uint64_t sequence, uint32_t rules,
                                      const char *version)
{
    struct mst_file_head head = {.kind = kind, .sequence = sequence, .rules = rules};
    size_t size = strlen(version);

    memcpy(head.version, version, size < sizeof head.version ? size : sizeof head.version - 1);
    return head;
}

void mst_file_head_write(unsigned char at[MST_FILE_HEAD], const struct mst_crc *crc,
                         const struct mst_file_head *head)
{
    memset(at, 0, MST_FILE_HEAD);
    memcpy(at, magic, sizeof magic);
    put_u32(at + 8, MST_JOURNAL_FORMAT);
    put_u32(at + 12, (uint32_t)head->kind);
    mst_put_u64(at + 16, head->sequence);
    put_u32(at + 24, head->rules);
    memcpy(at + 28, head->version, MST_FILE_VERSION_ROOM);
    put_u32(at + HEAD_CRC, mst_crc_of(crc, 0, mst_slice_of(at, HEAD_CRC)));
}

bool mst_file_head_read(struct mst_file_head *out, const struct mst_crc *crc, struct mst_slice file)
{
    const unsigned char *at = file.data;

    if (file.size < MST_FILE_HEAD || memcmp(at, magic, sizeof magic) != 0 ||
        get_u32(at + 8) != MST_JOURNAL_FORMAT ||
        get_u32(at + HEAD_CRC) != mst_crc_of(crc, 0, mst_slice_of(at, HEAD_CRC))) {
        return false;
    }
    out->kind = (enum mst_file_kind)get_u32(at + 12);
    out->sequence = mst_get_u64(at + 16);
    out->rules = get_u32(at + 24);
    memcpy(out->version, at + 28, MST_FILE_VERSION_ROOM);
    out->version[MST_FILE_VERSION_ROOM - 1] = '\0';
    return true;
}

/* ---- records ---- */

void mst_record_head_write(unsigned char at[MST_RECORD_HEAD],
                           const struct mst_journal_record *record, size_t body_size)
{
    put_u32(at, (uint32_t)body_size);
    at[4] = (unsigned char)record->type;
    at[5] = (unsigned char)record->flags;
    at[6] = at[7] = 0;
    mst_put_u64(at + 8, record->now_ns);
    mst_put_u64(at + 16, record->conn);
}

bool mst_record_read(struct mst_journal_record *out, struct mst_slice *rest)
{
    const unsigned char *at = rest->data;
    size_t body;

    if (rest->size < MST_RECORD_HEAD || at[4] == MST_RECORD_NONE) {
        return false;
    }
    body = get_u32(at);
    if (body > rest->size - MST_RECORD_HEAD || mst_get_u64(at + 8) > MST_COUNTED_MAX ||
        mst_get_u64(at + 16) > MST_COUNTED_MAX) {
        return false;
    }
    *out = (struct mst_journal_record){.type = (enum mst_record_type)at[4],
                                       .flags = at[5],
                                       .now_ns = mst_get_u64(at + 8),
                                       .conn = mst_get_u64(at + 16),
                                       .body = mst_slice_of(at + MST_RECORD_HEAD, body)};
    *rest = mst_slice_of(at + MST_RECORD_HEAD + body, rest->size - MST_RECORD_HEAD - body);
    return true;
}

/* ---- frames ---- */

uint64_t mst_frame_bytes(uint64_t payload)
{
    uint64_t size = MST_FRAME_HEAD + payload;

    return (size + MST_FRAME_ALIGN - 1) / MST_FRAME_ALIGN * MST_FRAME_ALIGN;
}

static uint32_t checksum(const unsigned char *frame, const struct mst_crc *crc, uint64_t sequence,
                         uint64_t offset, size_t payload)
{
    unsigned char place[24];
    uint32_t sum;

    mst_put_u64(place, sequence);
    mst_put_u64(place + 8, offset);
    mst_put_u64(place + 16, payload);
    sum = mst_crc_of(crc, 0, mst_slice_of(place, sizeof place));
    return mst_crc_of(crc, sum, mst_slice_of(frame + FRAME_DURABLE, 8 + payload));
}

void mst_frame_write(unsigned char *frame, const struct mst_crc *crc, uint64_t sequence,
                     uint64_t offset, size_t payload, uint64_t durable)
{
    memset(frame + MST_FRAME_HEAD + payload, 0,
           (size_t)mst_frame_bytes(payload) - MST_FRAME_HEAD - payload);
    put_u32(frame, (uint32_t)payload);
    mst_put_u64(frame + FRAME_DURABLE, durable);
    put_u32(frame + 4, checksum(frame, crc, sequence, offset, payload));
}

bool mst_frame_read(struct mst_slice *payload, const struct mst_crc *crc, struct mst_slice bytes,
                    uint64_t sequence, uint64_t offset)
{
    const unsigned char *at = bytes.data;
    size_t size;

    if (bytes.size < MST_FRAME_HEAD) {
        return false;
    }
    size = get_u32(at);
    if (size == 0 || mst_frame_bytes(size) > bytes.size ||
        mst_get_u64(at + FRAME_DURABLE) > offset ||
        get_u32(at + 4) != checksum(at, crc, sequence, offset, size)) {
        return false;
    }
    *payload = mst_slice_of(at + MST_FRAME_HEAD, size);
    return true;
}

static bool frame_at(const struct mst_frame_reader *reader, uint64_t offset,
                     struct mst_slice *payload)
{
    return mst_frame_read(payload, reader->crc, mst_slice_from(reader->file, (size_t)offset),
                          reader->sequence, offset);
}

/* No frame lies here: was there one? */
static enum mst_frame_found why_not(const struct mst_frame_reader *reader)
{
    const unsigned char *bytes = reader->file.data;
    uint64_t size = reader->file.size;
    enum mst_frame_found found = MST_FRAME_END;
    struct mst_slice later;

    for (uint64_t at = reader->offset; at + MST_FRAME_ALIGN <= size; at += MST_FRAME_ALIGN) {
        if (mst_get_u64(bytes + at) == 0) {
            continue;
        }
        found = MST_FRAME_TORN;
        if (at > reader->offset && size - at >= MST_FRAME_HEAD &&
            mst_get_u64(bytes + at + FRAME_DURABLE) > reader->offset &&
            frame_at(reader, at, &later)) {
            return MST_FRAME_CORRUPT;
        }
    }
    return size % MST_FRAME_ALIGN != 0 && size > reader->offset ? MST_FRAME_TORN : found;
}

enum mst_frame_found mst_frame_next(struct mst_frame_reader *reader, struct mst_slice *payload)
{
    if (reader->offset >= reader->file.size) {
        return MST_FRAME_END;
    }
    if (!frame_at(reader, reader->offset, payload)) {
        return why_not(reader);
    }
    reader->offset += mst_frame_bytes(payload->size);
    return MST_FRAME_WHOLE;
}
