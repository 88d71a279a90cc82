/* SPDX-License-Identifier: Apache-2.0 */
/* From the last byte to the first: then a nested message is written before its size, which is known
 * by then, and nothing is measured twice. */
#include <string.h>

#include "base/panic.h"
#include "base/slice.h"
#include "proto/protobuf.h"

enum { BITS = 7, MORE = 0x80 };

struct level {
    const struct mst_message *type;
    const char *from;
    const struct mst_field *field; /* to go on with; its type's row 0: none is left */
    ptrdiff_t end;                 /* where its last byte is to be */
    uint32_t left;                 /* elements of a repeated field, once it is `begun` */
    bool begun;
    uint16_t tag; /* before it */
};

struct writer {
    struct level *top; /* NULL: it is all written */
    struct level levels[MST_MESSAGE_DEPTH_MAX];
};

/* ---- bytes ----
 *
 * `at` is the place in the room of the byte that was written last. Below 0 they are only counted.
 */

/* Of a varint. */
static inline unsigned size_of(uint64_t number)
{
    return number < MORE ? 1 : (63 - (unsigned)__builtin_clzll(number)) * 37 / 256 + 1; /* by 7 */
}

static inline void write_varint(unsigned char *byte, uint64_t number)
{
    for (; number >= MORE; number >>= BITS) {
        *byte++ = (unsigned char)(number | MORE);
    }
    *byte = (unsigned char)number;
}

static inline ptrdiff_t put_varint(unsigned char *room, ptrdiff_t at, uint64_t number)
{
    at -= (ptrdiff_t)size_of(number);
    if (at >= 0) {
        write_varint(room + at, number);
    }
    return at;
}

static ptrdiff_t put_fixed64(unsigned char *room, ptrdiff_t at, uint64_t number)
{
    at -= (ptrdiff_t)sizeof number;
    if (at >= 0) {
        for (unsigned i = 0; i < sizeof number; i++) {
            room[(size_t)at + i] = (unsigned char)(number >> (8 * i));
        }
    }
    return at;
}

static ptrdiff_t put_slice(unsigned char *room, ptrdiff_t at, struct mst_slice bytes)
{
    at -= (ptrdiff_t)bytes.size;
    if (at >= 0 && bytes.size > 0) {
        memcpy(room + at, bytes.data, bytes.size);
    }
    return put_varint(room, at, bytes.size);
}

/* ---- fields ---- */

static inline uint64_t get64(const char *at)
{
    uint64_t number;

    memcpy(&number, at, sizeof number);
    return number;
}

static struct mst_slice slice_at(const struct mst_field *field, const char *at)
{
    struct mst_slice slice;

    memcpy(&slice, at, sizeof slice);
    if (field->bounded && slice.size > (size_t)field->most) {
        slice.size = (size_t)field->most;
    }
    return slice;
}

static uint64_t zigzag(int64_t number)
{
    return (uint64_t)number << 1 ^ (number < 0 ? UINT64_MAX : 0);
}

static uint64_t changed_number_at(unsigned type, const char *at)
{
    uint32_t half = mst_field_u32(at, 0);

    return type == MST_FIELD_SINT64   ? zigzag((int64_t)get64(at))
           : type == MST_FIELD_SINT32 ? (uint32_t)zigzag((int32_t)half)
                                      : half + 1; /* PLUS_ONE */
}

/* As it is on the wire. */
static inline uint64_t number_at(unsigned type, const char *at)
{
    if (type <= MST_FIELD_ENUM) {
        return mst_field_u32(at, 0);
    }
    if (type >= MST_FIELD_UINT64) {
        return get64(at);
    }
    return type == MST_FIELD_BOOL ? *(const bool *)(const void *)at : changed_number_at(type, at);
}

/* Numbers are packed. */
static ptrdiff_t put_array(unsigned char *room, ptrdiff_t at, const struct mst_field *field,
                           const char *from)
{
    uint32_t count = mst_field_count(field, from);
    ptrdiff_t end = at;

    for (uint32_t i = count; i > 0; i--) {
        const char *item = mst_field_item(field, from, i - 1);

        if (field->item == MST_FIELD_BYTES) {
            at = put_slice(room, at, *(const struct mst_slice *)(const void *)item);
            at = put_varint(room, at, field->tag);
        } else {
            at = put_varint(room, at, number_at(field->item, item));
        }
    }
    if (count > 0 && field->item != MST_FIELD_BYTES) {
        at = put_varint(room, at, (uint64_t)(end - at));
        at = put_varint(room, at, field->tag);
    }
    return at;
}

/* Of bytes and arrays. */
static ptrdiff_t put_long(unsigned char *room, ptrdiff_t at, const struct mst_field *field,
                          const char *from)
{
    if (field->type == MST_FIELD_ARRAY) {
        return put_array(room, at, field, from);
    }
    at = put_slice(room, at, slice_at(field, from + field->offset));
    return put_varint(room, at, field->tag);
}

/* A number behind its tag. */
static inline ptrdiff_t put_number(unsigned char *room, ptrdiff_t at, const struct mst_field *field,
                                   uint64_t number)
{
    if (field->type >= MST_FIELD_FIXED64) {
        return put_varint(room, put_fixed64(room, at, number), field->tag);
    }
    if (field->tag >= MORE) {
        return put_varint(room, put_varint(room, at, number), field->tag);
    }
    at -= 1 + (ptrdiff_t)size_of(number);
    if (at >= 0) {
        room[at] = (unsigned char)field->tag;
        write_varint(room + at + 1, number);
    }
    return at;
}

/* ---- messages ---- */

/* Anything but 0 in it, as it is in memory. */
static bool is_told(const struct mst_message *type, const char *from)
{
    bool told = false;

    for (unsigned i = 1; i <= type->last && !told; i++) {
        const struct mst_field *field = &type->fields[i];

        told = field->type == MST_FIELD_PLUS_ONE ? mst_field_u32(from, field->offset) != 0
                                                 : mst_field_may_be(field, from);
    }
    return told;
}

/* The last one that may be there; NULL: its oneof says a case that does not exist. */
static inline const struct mst_field *last_field(const struct mst_message *type, const char *from)
{
    if (type->which) {
        return mst_field_case(type, from);
    }
    return type->last > 0 ? &type->fields[type->last] : type->fields;
}

static inline void enter(struct writer *out, struct level *level, const struct mst_message *type,
                         const char *from, ptrdiff_t at)
{
    MST_ASSERT(level < out->levels + MST_MESSAGE_DEPTH_MAX);
    out->top = level;
    level->type = type;
    level->from = from;
    level->field = last_field(type, from);
    level->end = at;
    level->begun = false;
}

/* The elements of a field from the last one to the first; NULL: none is left, and the fields before
 * it come next. */
static const char *next_element(struct level *level, const struct mst_field *field)
{
    if (!level->begun) {
        level->left = mst_field_count(field, level->from);
    }
    level->begun = level->left > 0;
    level->field = field - !level->begun;
    return level->begun ? mst_field_item(field, level->from, --level->left) : NULL;
}

static inline const char *next_part(struct level *level, const struct mst_field *field)
{
    const char *at = level->from + field->offset;

    if (field->label == MST_FIELD_CASE) {
        level->field = level->type->fields + level->type->plain;
        return at;
    }
    if (field->label == MST_FIELD_ONE) {
        level->field = field - 1;
        return field->count > 0 || is_told(field->message, at) ? at : NULL;
    }
    return next_element(level, field);
}

/* All up to a message, which is entered; at the beginning of one it is left. */
static inline ptrdiff_t put_fields(struct writer *out, unsigned char *room, ptrdiff_t at)
{
    struct level *level = out->top;
    const struct mst_field *rows = level->type->fields, *field = level->field;
    const char *from = level->from;

    for (; field > rows; field--) {
        if (!mst_field_may_be(field, from)) {
            continue;
        }
        if (field->type < MST_FIELD_BYTES) {
            at = put_number(room, at, field, number_at(field->type, from + field->offset));
        } else if (field->type < MST_FIELD_MESSAGE) {
            at = put_long(room, at, field, from);
        } else {
            const char *part = next_part(level, field);

            if (part) {
                enter(out, level + 1, field->message, part, at);
                out->top->tag = field->tag;
                return at;
            }
        }
    }
    if (level == out->levels) {
        out->top = NULL;
        return at;
    }
    out->top = level - 1;
    at = put_varint(room, at, (uint64_t)(level->end - at));
    return put_varint(room, at, level->tag);
}

size_t mst_encode(const struct mst_message *type, const void *from, unsigned char *room,
                  size_t room_size)
{
    ptrdiff_t at = (ptrdiff_t)room_size;
    struct writer out;

    enter(&out, out.levels, type, from, at);
    if (type->which && !out.top->field) {
        return 0;
    }
    while (out.top) {
        at = put_fields(&out, room, at);
    }
    return room_size - (size_t)at;
}
