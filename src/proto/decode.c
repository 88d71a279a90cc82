/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "base/panic.h"
#include "base/slice.h"
#include "proto/protobuf.h"

enum {
    BITS = 7,
    MORE = 0x80,
    VARINT_MAX = 10, /* bytes */
    SHORT_MAX = 5,   /* of a tag, and of a length */
    FIXED64_SIZE = 8
};

static const char ends_early[] = "ends in the middle of a number";
static const char too_long[] = "a number of more than 10 bytes";
static const char length_too_long[] = "a length or a tag of more than 5 bytes";
static const char no_field[] = "a field without a number";
static const char wrong_type[] = "its wire type does not fit its field: ";
static const char no_type[] = "a wire type that does not exist: ";
static const char beyond[] = "goes beyond the end with a length of ";

/* A function that takes bytes returns the place behind them; NULL: the message is broken, or there
 * is no memory. */
typedef const unsigned char *bytes;

struct level {
    const struct mst_message *type;
    unsigned char *base; /* of the struct that is filled */
    bytes end;
    const struct mst_field *field; /* that is read; NULL: the table does not know it */
    bytes field_at;
    uint64_t begun;       /* messages and repeated fields that were there, by number */
    unsigned wrong_depth; /* 0: nothing was wrong when it began */
};

struct reader {
    struct level *top;
    struct mst_native_arena *arena;
    struct mst_wrong *wrong;
    uint64_t unknown; /* the first number that could be a case of the outermost message's oneof */
    bool starved;
    struct level levels[MST_MESSAGE_DEPTH_MAX];
};

/* ---- what is wrong ---- */

static bytes broken(struct reader *in, const char *why)
{
    in->wrong->why = why;
    return NULL;
}

static bytes broken_by(struct reader *in, const char *why, uint64_t number)
{
    in->wrong->with_number = true;
    in->wrong->number = (int64_t)number;
    return broken(in, why);
}

static void note_path(struct reader *in)
{
    struct mst_wrong *wrong = in->wrong;

    wrong->depth = (unsigned)(in->top - in->levels) + 1;
    for (unsigned i = 0; i < wrong->depth; i++) {
        wrong->path[i] = in->levels[i].field;
    }
}

/* Reading goes on: a message is first checked for being one at all. */
static void senseless(struct reader *in, const struct mst_field *field, int64_t number)
{
    in->top->field = field;
    note_path(in);
    in->wrong->number = number;
}

/* ---- numbers ---- */

struct varint {
    bytes behind; /* NULL: it is none, and `why` says so */
    union {
        uint64_t number;
        const char *why;
    };
};

static struct varint long_varint(bytes at, bytes end, unsigned most)
{
    uint64_t number = 0;

    if (end - at > 1 && at[1] < MORE) { /* most are that short */
        number = ((uint64_t)at[0] & (MORE - 1)) | (uint64_t)at[1] << BITS;
        return (struct varint){.behind = at + 2, .number = number};
    }
    for (unsigned i = 0; i < most; i++) {
        unsigned char byte;

        if (at == end) {
            return (struct varint){.why = ends_early};
        }
        byte = *at++;
        number |= (uint64_t)(byte & (MORE - 1)) << (BITS * i);
        if (byte < MORE) {
            return (struct varint){.behind = at, .number = number};
        }
    }
    return (struct varint){.why = most == VARINT_MAX ? too_long : length_too_long};
}

static inline struct varint varint_at(bytes at, bytes end, unsigned most)
{
    return at < end && *at < MORE ? (struct varint){.behind = at + 1, .number = *at}
                                  : long_varint(at, end, most);
}

static uint64_t fixed64_at(bytes at)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < FIXED64_SIZE; i++) {
        number |= (uint64_t)at[i] << (8 * i);
    }
    return number;
}

/* The length of what follows, which is there. */
static bytes take_length(struct reader *in, bytes at, bytes end, size_t *size)
{
    struct varint length = varint_at(at, end, SHORT_MAX);

    if (!length.behind) {
        return broken(in, length.why);
    }
    if (length.number > (size_t)(end - length.behind)) {
        return broken_by(in, beyond, length.number);
    }
    *size = (size_t)length.number;
    return length.behind;
}

static void store_signed(unsigned char *at, unsigned type, uint64_t number)
{
    uint32_t half = (uint32_t)number;

    if (type == MST_FIELD_SINT64) {
        number = number >> 1 ^ -(number & 1);
        memcpy(at, &number, sizeof number);
    } else {
        half = type == MST_FIELD_SINT32 ? half >> 1 ^ -(half & 1) : half - 1; /* PLUS_ONE */
        memcpy(at, &half, sizeof half);
    }
}

/* A number as it is on the wire. */
static inline void store(unsigned char *at, unsigned type, uint64_t number)
{
    uint32_t half = (uint32_t)number;

    if (type <= MST_FIELD_ENUM) {
        memcpy(at, &half, sizeof half);
    } else if (type >= MST_FIELD_UINT64) {
        memcpy(at, &number, sizeof number);
    } else if (type == MST_FIELD_BOOL) {
        *(bool *)(void *)at = number != 0;
    } else {
        store_signed(at, type, number);
    }
}

static bytes skip(struct reader *in, bytes at, bytes end, unsigned wire)
{
    struct varint number;
    size_t size = sizeof(uint32_t);

    switch (wire) {
    case MST_WIRE_VARINT:
        number = varint_at(at, end, VARINT_MAX);
        return number.behind ? number.behind : broken(in, number.why);
    case MST_WIRE_BYTES:
        at = take_length(in, at, end, &size);
        return at ? at + size : NULL;
    case MST_WIRE_FIXED64:
        size = sizeof(uint64_t);
        break;
    case MST_WIRE_FIXED32:
        break;
    default:
        return broken_by(in, no_type, wire);
    }
    return size > (size_t)(end - at) ? broken_by(in, beyond, size) : at + size;
}

/* ---- repeated fields ---- */

static size_t varints_in(bytes at, size_t size)
{
    size_t count = 0;

    for (size_t i = 0; i < size; i++) {
        count += at[i] < MORE; /* the last byte of one */
    }
    return count;
}

/* How many follow, this one included. Where something is wrong it ends: so does reading, in front
 * of what was not counted. */
static size_t count_ahead(const struct level *top)
{
    const struct mst_field *field = top->field;
    bool numbers = field->type == MST_FIELD_ARRAY && field->item != MST_FIELD_BYTES;
    struct mst_wrong unsaid;
    struct reader ahead;
    size_t count = 0;
    bytes at = top->field_at;

    ahead.wrong = &unsaid;
    while (at && at < top->end) {
        struct varint tag = varint_at(at, top->end, SHORT_MAX);
        size_t size = 0;

        if (!tag.behind) {
            break;
        }
        if (tag.number == field->tag && numbers) {
            at = take_length(&ahead, tag.behind, top->end, &size);
            if (at) {
                count += varints_in(at, size);
                at += size;
            }
        } else {
            count += tag.number >> MST_TAG_SHIFT == (uint64_t)field->tag >> MST_TAG_SHIFT;
            at = skip(&ahead, tag.behind, top->end, tag.number & MST_TAG_WIRE);
        }
    }
    return count;
}

/* The first element of a field in this message: room for all, behind those of the messages that it
 * is merged with. */
static bool begin_array(struct reader *in, const struct mst_field *field, size_t count)
{
    unsigned char *base = in->top->base, *array;
    uint32_t before = mst_field_count(field, base);

    count += before;
    if (field->bounded && count > (size_t)field->most) {
        if (in->wrong->depth == 0) {
            senseless(in, field, (int64_t)count);
        }
        count = (size_t)field->most;
    }
    if (field->label != MST_FIELD_MANY) {
        return true;
    }
    array = mst_native_arena_array(in->arena, count, field->size);
    if (!array) {
        in->starved = true;
        return false;
    }
    if (before > 0) {
        memcpy(array, mst_field_item(field, base, 0), (size_t)before * field->size);
    }
    memcpy(base + field->offset, &array, sizeof array);
    return true;
}

/* A new element behind so many. NULL: no memory. */
static unsigned char *chain_on(struct reader *in, const struct mst_field *field, uint32_t length)
{
    unsigned char *last, *next;

    if (length == 0) {
        return in->top->base + field->offset;
    }
    last = mst_field_item(field, in->top->base, length - 1);
    next = mst_native_arena_alloc(in->arena, field->size);
    if (!next) {
        in->starved = true;
        return NULL;
    }
    memcpy(last + field->count, &next, sizeof next);
    return next;
}

/* Whether this message has the field for the first time. */
static inline bool begin(struct level *top, const struct mst_field *field)
{
    uint64_t bit = UINT64_C(1) << (field->tag >> MST_TAG_SHIFT), before = top->begun;

    top->begun = before | bit;
    return (before & bit) == 0;
}

/* Where the next element goes; `last`: nothing is behind it. NULL: there are as many as there may
 * be, or there is no memory. */
static unsigned char *next_item(struct reader *in, const struct mst_field *field, bool last)
{
    struct level *top = in->top;
    uint32_t count;

    if (begin(top, field) && !begin_array(in, field, last ? 1 : count_ahead(top))) {
        return NULL;
    }
    count = mst_field_count(field, top->base);
    if (field->bounded && count >= (uint32_t)field->most) {
        return NULL;
    }
    if (field->label == MST_FIELD_CHAIN) {
        return chain_on(in, field, count);
    }
    count++;
    memcpy(top->base + field->count, &count, sizeof count);
    return mst_field_item(field, top->base, count - 1);
}

static bytes take_number(struct reader *in, bytes at, bytes end, const struct mst_field *field)
{
    unsigned char *item = next_item(in, field, false);
    struct varint number = varint_at(at, end, VARINT_MAX);

    if (!number.behind && !in->starved) {
        return broken(in, number.why);
    }
    if (item) {
        store(item, field->item, number.number);
    }
    return in->starved ? NULL : number.behind;
}

static bytes take_array(struct reader *in, bytes at, size_t size, const struct mst_field *field)
{
    struct mst_slice slice = mst_slice_of(at, size);
    bytes end = at + size;
    unsigned char *item;

    if (field->item == MST_FIELD_BYTES) {
        item = next_item(in, field, false);
        if (item) {
            memcpy(item, &slice, sizeof slice);
        }
        return in->starved ? NULL : end;
    }
    while (at && at < end) {
        at = take_number(in, at, end, field);
    }
    return at;
}

/* ---- fields ---- */

static inline void enter(struct reader *in, struct level *level, const struct mst_message *type,
                         unsigned char *base, bytes end)
{
    MST_ASSERT(level < in->levels + MST_MESSAGE_DEPTH_MAX);
    in->top = level;
    level->type = type;
    level->base = base;
    level->end = end;
    level->begun = 0;
    level->wrong_depth = in->wrong->depth;
}

/* Fields that are one more on the wire are not 0 by default. */
static inline void set_defaults(const struct mst_message *type, unsigned char *base)
{
    static const uint32_t absent = UINT32_MAX;

    for (uint64_t left = type->plus_one; left != 0; left &= left - 1) {
        memcpy(base + type->fields[__builtin_ctzll(left)].offset, &absent, sizeof absent);
    }
}

/* Whether it is another case than before, or the first: only the last case counts, and an earlier
 * one is forgotten with what was wrong in it. */
static bool begin_case(struct reader *in, const struct mst_field *field)
{
    const struct mst_message *type = in->top->type;
    uint32_t which = ((uint32_t)field->tag >> MST_TAG_SHIFT) - type->base;
    uint32_t before = mst_field_u32(in->top->base, type->which->offset);

    if (before != 0 && before != which) {
        memset(in->top->base + type->body, 0, type->body_size);
        in->wrong->depth = 0;
    }
    memcpy(in->top->base + type->which->offset, &which, sizeof which);
    return before != which;
}

/* The bytes behind their length, which `at` is; a struct mst_slice of them goes to its place. NULL:
 * they are broken. */
static inline bytes read_slice(bytes at, bytes end, void *place)
{
    struct varint length = varint_at(at, end, SHORT_MAX);
    struct mst_slice slice;

    if (!length.behind || length.number > (size_t)(end - length.behind)) {
        return NULL;
    }
    slice = mst_slice_of(length.behind, (size_t)length.number);
    memcpy(place, &slice, sizeof slice);
    return length.behind + slice.size;
}

/* Enters a message; one that is left out is skipped. A second message of a field that is not
 * repeated is merged into the first: what it does not have stays as it is. NULL: it is broken, or
 * there is no memory. */
static inline bytes take_message(struct reader *in, bytes at, const struct mst_field *field)
{
    struct level *top = in->top;
    unsigned char *base = top->base + field->offset;
    bool fresh = true;
    struct mst_slice slice;
    bytes end = read_slice(at, top->end, &slice);

    if (!end) {
        return NULL;
    }

    if (field->label == MST_FIELD_CASE) {
        fresh = begin_case(in, field);
    } else if (field->label == MST_FIELD_ONE) {
        fresh = begin(top, field);
        if (field->count > 0) {
            *(bool *)(void *)(top->base + field->count) = true;
        }
    } else {
        base = next_item(in, field, end == top->end);
        if (!base) {
            return in->starved ? NULL : end;
        }
        memset(base, 0, field->message->size);
    }
    if (fresh) {
        set_defaults(field->message, base);
    }
    enter(in, top + 1, field->message, base, end);
    return slice.data;
}

/* A field of a wire type that is not its row's. */
static bytes take_other(struct reader *in, bytes at, bytes end, const struct mst_field *field,
                        unsigned wire)
{
    if (field->type == MST_FIELD_ARRAY && field->item != MST_FIELD_BYTES &&
        wire == MST_WIRE_VARINT) {
        return take_number(in, at, end, field);
    }
    return broken_by(in, wire > MST_WIRE_FIXED32 || wire == 3 || wire == 4 ? no_type : wrong_type,
                     wire);
}

static bytes take_unknown(struct reader *in, bytes at, bytes end, uint64_t number, unsigned wire)
{
    if (number == 0) {
        return broken(in, no_field);
    }
    if (in->top == in->levels && in->unknown == 0 && number > in->top->type->base) {
        in->unknown = number;
    }
    in->wrong->unknown = true;
    return skip(in, at, end, wire);
}

/* An array, an unknown field, or a broken one. */
static bytes take_unusual(struct reader *in, bytes at, bytes end)
{
    struct level *top = in->top;
    struct varint tag = varint_at(at, end, SHORT_MAX);
    const struct mst_field *field;
    size_t size;

    top->field_at = at;
    top->field = NULL;
    if (!tag.behind) {
        return broken(in, tag.why);
    }
    field = mst_field_of(top->type, tag.number >> MST_TAG_SHIFT);
    top->field = field;
    if (!field) {
        return take_unknown(in, tag.behind, end, tag.number >> MST_TAG_SHIFT,
                            tag.number & MST_TAG_WIRE);
    }
    if (field->tag != tag.number) {
        return take_other(in, tag.behind, end, field, tag.number & MST_TAG_WIRE);
    }
    if (field->type != MST_FIELD_ARRAY) {
        return skip(in, tag.behind, end, tag.number & MST_TAG_WIRE); /* says how it is broken */
    }
    at = take_length(in, tag.behind, end, &size);
    return at ? take_array(in, at, size, field) : NULL;
}

/* A number to its place. NULL: it is broken. */
static inline bytes read_number(bytes at, bytes end, unsigned type, unsigned char *place)
{
    struct varint number;

    if (type < MST_FIELD_FIXED64) {
        number = varint_at(at, end, VARINT_MAX);
    } else if (end - at < FIXED64_SIZE) {
        return NULL;
    } else {
        number = (struct varint){.behind = at + FIXED64_SIZE, .number = fixed64_at(at)};
    }
    if (number.behind) {
        store(place, type, number.number);
    }
    return number.behind;
}

/* All fields up to the end, to a message, which is entered, or to an unusual field. */
static inline bytes take_fields(struct reader *in, struct level *top, bytes at)
{
    const struct mst_field *rows = top->type->fields, *field;
    uint64_t last = top->type->last;
    unsigned char *base = top->base;
    bytes end = top->end, behind;

    for (; at < end; at = behind) {
        struct varint tag = varint_at(at, end, SHORT_MAX);

        if (!tag.behind || (tag.number >> MST_TAG_SHIFT) - 1 >= last) {
            break;
        }
        field = &rows[tag.number >> MST_TAG_SHIFT];
        if (field->tag != tag.number) {
            break;
        }
        if (field->type < MST_FIELD_BYTES) {
            behind = read_number(tag.behind, end, field->type, base + field->offset);
        } else if (field->type < MST_FIELD_ARRAY) {
            behind = read_slice(tag.behind, end, base + field->offset);
        } else if (field->type == MST_FIELD_ARRAY) {
            break;
        } else {
            top->field_at = at;
            top->field = field;
            behind = take_message(in, tag.behind, field);
            if (in->top != top) {
                return behind;
            }
        }
        if (!behind) {
            break;
        }
    }
    return at;
}

/* ---- the end of a message ---- */

static int64_t bounded_number(const struct mst_field *field, const unsigned char *at)
{
    struct mst_slice slice;
    uint32_t number;

    if (field->type == MST_FIELD_BYTES) {
        memcpy(&slice, at, sizeof slice);
        return (int64_t)slice.size;
    }
    memcpy(&number, at, sizeof number);
    return field->type == MST_FIELD_SINT32 ? (int32_t)number : (int64_t)number;
}

/* What is wrong in a field of this message is reported before what is wrong in a message within it;
 * of several the first. */
static inline void finish(struct reader *in, const struct level *top)
{
    const struct mst_message *type = top->type;

    for (uint64_t left = top->wrong_depth == 0 ? type->bounded : 0; left != 0; left &= left - 1) {
        const struct mst_field *field = &type->fields[__builtin_ctzll(left)];
        int64_t number = bounded_number(field, top->base + field->offset);

        if (number < field->least || number > field->most) {
            senseless(in, field, number);
            break;
        }
    }
}

/* Leaves all messages that end here; false: the outermost one is among them. */
static inline bool leave(struct reader *in, bytes at)
{
    for (; at == in->top->end; in->top--) {
        finish(in, in->top);
        if (in->top == in->levels) {
            return false;
        }
    }
    return true;
}

/* The outermost message has a oneof without a case that the table knows. */
static void miss_case(struct reader *in, const struct mst_message *type)
{
    senseless(in, type->which, in->unknown > 0 ? (int64_t)(in->unknown - type->base) : 0);
}

muster_status mst_decode(const struct mst_message *type, void *out, struct mst_slice payload,
                         struct mst_native_arena *arena, struct mst_wrong *wrong)
{
    struct reader in;
    bytes at = payload.data;

    in.arena = arena;
    in.wrong = wrong;
    in.unknown = 0;
    in.starved = false;
    wrong->type = type;
    wrong->why = NULL;
    wrong->with_number = wrong->unknown = false;
    wrong->depth = 0;
    memset(out, 0, type->size);
    set_defaults(type, out);
    enter(&in, in.levels, type, out, at + payload.size);
    while (leave(&in, at)) {
        struct level *top = in.top;

        at = take_fields(&in, top, at);
        if (in.top == top && at != top->end) {
            at = in.starved ? NULL : take_unusual(&in, at, top->end);
            if (!at) {
                note_path(&in);
                wrong->at = (size_t)(top->field_at - (bytes)payload.data);
                return in.starved ? MUSTER_ENOMEM : MUSTER_EPROTO;
            }
        }
    }
    if (type->which && mst_field_u32(out, type->which->offset) == 0) {
        miss_case(&in, type);
    }
    return wrong->depth == 0 ? MUSTER_OK : MUSTER_EPROTO;
}

/* ---- the sentence ---- */

static void say_path(struct mst_text *text, const struct mst_wrong *wrong)
{
    for (unsigned i = 0; i < wrong->depth; i++) {
        mst_text_format(text, "%s%s", i > 0 ? "." : "",
                        wrong->path[i] ? wrong->path[i]->name : "?");
    }
}

static void say_senseless(struct mst_text *text, const struct mst_wrong *wrong)
{
    const char *complaint = wrong->path[wrong->depth - 1]->complaint;

    if (complaint) {
        mst_text_format(text, "%s %" PRId64, complaint, wrong->number);
        return;
    }
    say_path(text, wrong);
    mst_text_format(text, " %" PRId64 " is not known", wrong->number);
}

void mst_wrong_say(struct mst_text *text, const struct mst_wrong *wrong)
{
    if (!wrong->why) {
        say_senseless(text, wrong);
        return;
    }
    mst_text_format(text, "no %s: ", wrong->type->name);
    say_path(text, wrong);
    mst_text_format(text, ", %zu bytes into the message: %s", wrong->at, wrong->why);
    if (wrong->with_number) {
        mst_text_format(text, "%" PRIu64, (uint64_t)wrong->number);
    }
}
