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
    SHORT_MAX = 5    /* of a tag, and of a length */
};

static const char ends_early[] = "ends in the middle of a number";
static const char too_long[] = "a number of more than 10 bytes";
static const char length_too_long[] = "a length or a tag of more than 5 bytes";
static const char no_field[] = "a field without a number";
static const char wrong_type[] = "its wire type does not fit its field: ";
static const char no_type[] = "a wire type that does not exist: ";
static const char beyond[] = "goes beyond the end with a length of ";

struct level {
    const struct mst_message *type;
    unsigned char *base; /* of the struct that is filled */
    const unsigned char *end;
    const struct mst_field *field; /* that is read; NULL: the table does not know it */
    const unsigned char *field_at;
    uint64_t begun, skipped; /* repeated fields, by number */
    bool sane;               /* nothing was wrong when it began */
};

struct reader {
    struct level *top;
    struct mst_native_arena *arena;
    struct mst_wrong *wrong;
    uint64_t unknown; /* the first number that could be a case of the outermost message's oneof */
    bool starved;
    struct level levels[MST_MESSAGE_DEPTH_MAX];
};

/* What takes bytes returns the place behind them; NULL: it is broken, or there is no memory. */
typedef const unsigned char *bytes;

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

/* It goes on: what makes no sense is said only of a message that is one. */
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

/* The length of what follows, which is there. */
static inline bytes take_length(struct reader *in, bytes at, bytes end, size_t *size)
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

static inline void store(unsigned char *at, unsigned type, uint64_t number)
{
    uint32_t half = (uint32_t)number;

    switch ((enum mst_field_type)type) {
    case MST_FIELD_SINT64:
        number = number >> 1 ^ -(number & 1);
        memcpy(at, &number, sizeof number);
        return;
    case MST_FIELD_UINT64:
    case MST_FIELD_FIXED64:
    case MST_FIELD_DOUBLE:
        memcpy(at, &number, sizeof number);
        return;
    case MST_FIELD_BOOL:
        *(bool *)(void *)at = number != 0;
        return;
    case MST_FIELD_SINT32:
        half = half >> 1 ^ -(half & 1);
        break;
    case MST_FIELD_UINT32:
    case MST_FIELD_PLUS_ONE: /* at the end of the message */
    case MST_FIELD_ENUM:
    case MST_FIELD_BYTES:
    case MST_FIELD_STRING:
    case MST_FIELD_ARRAY:
    case MST_FIELD_MESSAGE:
    case MST_FIELD_NONE:
        break;
    }
    memcpy(at, &half, sizeof half);
}

static inline bytes take_varint(struct reader *in, bytes at, bytes end, unsigned type,
                                unsigned char *place)
{
    struct varint number = varint_at(at, end, VARINT_MAX);

    if (!number.behind) {
        return broken(in, number.why);
    }
    store(place, type, number.number);
    return number.behind;
}

static bytes take_fixed64(struct reader *in, bytes at, bytes end, unsigned char *place)
{
    uint64_t number = 0;

    if ((size_t)(end - at) < sizeof number) {
        return broken_by(in, beyond, sizeof number);
    }
    for (unsigned i = 0; i < sizeof number; i++) {
        number |= (uint64_t)*at++ << (8 * i);
    }
    memcpy(place, &number, sizeof number);
    return at;
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

/* The first one of a field: room for all. */
static bool begin_array(struct reader *in, const struct mst_field *field, size_t count)
{
    struct level *top = in->top;
    uint64_t bit = UINT64_C(1) << (field->tag >> MST_TAG_SHIFT);
    void *array;

    top->begun |= bit;
    if (field->bounded && count > (size_t)field->most) {
        if (in->wrong->depth == 0) {
            senseless(in, field, (int64_t)count);
        }
        top->skipped |= bit;
    } else if (field->label == MST_FIELD_MANY) {
        array = mst_native_arena_array(in->arena, count, field->size);
        if (!array) {
            in->starved = true;
            return false;
        }
        memcpy(top->base + field->offset, &array, sizeof array);
    }
    return true;
}

/* A new one at the end. NULL: no memory. */
static unsigned char *chain_on(struct reader *in, const struct mst_field *field)
{
    uint32_t length = mst_field_count(field, in->top->base);
    unsigned char *last = mst_field_item(field, in->top->base, length > 0 ? length - 1 : 0);
    unsigned char *next = mst_native_arena_alloc(in->arena, field->size);

    if (!next) {
        in->starved = true;
        return NULL;
    }
    memcpy(last + field->count, &next, sizeof next);
    return next;
}

/* Where the next one goes; `last`: nothing is behind it. NULL: it is left out, or there is no
 * memory. */
static unsigned char *next_item(struct reader *in, const struct mst_field *field, bool last)
{
    struct level *top = in->top;
    unsigned number = field->tag >> MST_TAG_SHIFT;
    bool first = !(top->begun >> number & 1);
    uint32_t count;

    if ((first && !begin_array(in, field, last ? 1 : count_ahead(top))) ||
        top->skipped >> number & 1) {
        return NULL;
    }
    if (field->label == MST_FIELD_CHAIN) {
        return first ? top->base + field->offset : chain_on(in, field);
    }
    count = mst_field_u32(top->base, field->count) + 1;
    memcpy(top->base + field->count, &count, sizeof count);
    return mst_field_item(field, top->base, count - 1);
}

static bytes take_number(struct reader *in, bytes at, bytes end, const struct mst_field *field)
{
    uint64_t unwanted;
    unsigned char *item = next_item(in, field, false);

    return in->starved ? NULL
                       : take_varint(in, at, end, field->item,
                                     item ? item : (unsigned char *)(void *)&unwanted);
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
    level->begun = level->skipped = 0;
    level->sane = in->wrong->depth == 0;
}

/* The last one counts: what an earlier one said, and what was wrong with it, is forgotten. */
static unsigned char *begin_case(struct reader *in, const struct mst_field *field)
{
    const struct mst_message *type = in->top->type;
    uint32_t which = ((uint32_t)field->tag >> MST_TAG_SHIFT) - type->base;
    unsigned char *place = in->top->base + type->which->offset;
    uint32_t before;

    memcpy(&before, place, sizeof before);
    if (before != 0) {
        memset(in->top->base + type->body, 0, type->body_size);
        in->wrong->depth = 0;
    }
    memcpy(place, &which, sizeof which);
    return in->top->base + field->offset;
}

static bytes take_message(struct reader *in, bytes at, size_t size, const struct mst_field *field)
{
    struct level *top = in->top;
    unsigned char *base;

    if (field->label == MST_FIELD_CASE) {
        base = begin_case(in, field);
    } else {
        base = field->label == MST_FIELD_ONE ? top->base + field->offset
                                             : next_item(in, field, at + size == top->end);
        if (!base) {
            return in->starved ? NULL : at + size;
        }
        if (field->label == MST_FIELD_ONE && field->count > 0) {
            *(bool *)(void *)(top->base + field->count) = true;
        }
        memset(base, 0, field->message->size);
    }
    enter(in, top + 1, field->message, base, at + size);
    return at;
}

static inline bytes take_long(struct reader *in, bytes at, bytes end, const struct mst_field *field)
{
    struct mst_slice slice;

    at = take_length(in, at, end, &slice.size);
    if (!at) {
        return NULL;
    }
    if (field->type == MST_FIELD_MESSAGE) {
        return take_message(in, at, slice.size, field);
    }
    if (field->type == MST_FIELD_ARRAY) {
        return take_array(in, at, slice.size, field);
    }
    slice.data = at;
    memcpy(in->top->base + field->offset, &slice, sizeof slice);
    return at + slice.size;
}

/* Without a row, or not of the wire type that it says. */
static bytes take_other(struct reader *in, bytes at, bytes end, uint64_t tag)
{
    const struct mst_field *field = mst_field_of(in->top->type, tag >> MST_TAG_SHIFT);
    uint64_t number = tag >> MST_TAG_SHIFT;
    unsigned wire = tag & MST_TAG_WIRE;

    in->top->field = field;
    if (number == 0) {
        return broken(in, no_field);
    }
    if (!field) {
        if (in->top == in->levels && in->unknown == 0 && number > in->top->type->base) {
            in->unknown = number;
        }
        in->wrong->unknown = true;
        return skip(in, at, end, wire);
    }
    if (field->type == MST_FIELD_ARRAY && field->item != MST_FIELD_BYTES &&
        wire == MST_WIRE_VARINT) {
        return take_number(in, at, end, field);
    }
    return broken_by(in, wire > MST_WIRE_FIXED32 || wire == 3 || wire == 4 ? no_type : wrong_type,
                     wire);
}

static bytes no_tag(struct reader *in, const char *why)
{
    in->top->field = NULL;
    return broken(in, why);
}

static inline bytes take_field(struct reader *in, struct level *top, bytes at, bytes end)
{
    struct varint tag = varint_at(at, end, SHORT_MAX);
    const struct mst_field *field;

    top->field_at = at;
    at = tag.behind;
    if (!at) {
        return no_tag(in, tag.why);
    }
    if ((tag.number >> MST_TAG_SHIFT) - 1 >= top->type->last) {
        return take_other(in, at, end, tag.number);
    }
    field = &top->type->fields[tag.number >> MST_TAG_SHIFT];
    if (field->tag != tag.number) {
        return take_other(in, at, end, tag.number);
    }
    top->field = field;
    if (field->type < MST_FIELD_FIXED64) {
        return take_varint(in, at, end, field->type, top->base + field->offset);
    }
    return field->type >= MST_FIELD_BYTES ? take_long(in, at, end, field)
                                          : take_fixed64(in, at, end, top->base + field->offset);
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

static void less_one(unsigned char *at)
{
    uint32_t number;

    memcpy(&number, at, sizeof number);
    number--;
    memcpy(at, &number, sizeof number);
}

/* What a field of this message says goes before what its parts say, and the first one counts. */
static void finish(struct reader *in)
{
    const struct level *top = in->top;
    bool good = top->sane;

    for (uint64_t left = top->type->after; left != 0; left &= left - 1) {
        const struct mst_field *field = &top->type->fields[__builtin_ctzll(left)];
        unsigned char *at = top->base + field->offset;

        if (field->type == MST_FIELD_PLUS_ONE) {
            less_one(at);
        } else if (good) {
            int64_t number = bounded_number(field, at);

            good = number >= field->least && number <= field->most;
            if (!good) {
                senseless(in, field, number);
            }
        }
    }
}

static void finish_case(struct reader *in)
{
    const struct mst_message *type = in->top->type;

    if (type->which && mst_field_u32(in->top->base, type->which->offset) == 0) {
        senseless(in, type->which, in->unknown > 0 ? (int64_t)(in->unknown - type->base) : 0);
    }
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
    enter(&in, in.levels, type, out, at + payload.size);
    for (;;) {
        while (at < in.top->end) {
            at = take_field(&in, in.top, at, in.top->end);
            if (!at) {
                note_path(&in);
                wrong->at = (size_t)(in.top->field_at - (bytes)payload.data);
                return in.starved ? MUSTER_ENOMEM : MUSTER_EPROTO;
            }
        }
        finish(&in);
        if (in.top == in.levels) {
            finish_case(&in);
            return wrong->depth == 0 ? MUSTER_OK : MUSTER_EPROTO;
        }
        in.top--;
    }
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
