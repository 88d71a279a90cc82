/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/native/diagnose.h"

#include <stdbool.h>
#include <stdint.h>

enum { DEPTH_MAX = 8 }; /* of messages within messages; the schema has 4 */

struct level {
    const ProtobufCMessageDescriptor *type;
    const ProtobufCFieldDescriptor *field; /* in which the next level lies */
    size_t end;
};

struct walk {
    const unsigned char *bytes;
    size_t at;
    struct level levels[DEPTH_MAX];
    unsigned depth;
    uint64_t number; /* that goes with the complaint */
};

static const char ends_early[] = "ends in the middle of a number";
static const char too_long[] = "a number of more than 10 bytes";
static const char no_field[] = "a field without a number";
static const char wrong_type[] = "its wire type does not fit its field: ";
static const char no_type[] = "a wire type that does not exist: ";
static const char beyond[] = "goes beyond the end with a length of ";

static struct level *top(struct walk *walk)
{
    return &walk->levels[walk->depth];
}

static const char *varint(struct walk *walk, uint64_t *out)
{
    size_t end = top(walk)->end;
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 70; shift += 7) {
        unsigned char byte;

        if (walk->at == end) {
            return ends_early;
        }
        byte = walk->bytes[walk->at++];
        value |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        if (byte < 0x80) {
            *out = value;
            return NULL;
        }
    }
    return too_long;
}

static const char *skip(struct walk *walk, uint64_t size)
{
    if (size > top(walk)->end - walk->at) {
        walk->number = size;
        return beyond;
    }
    walk->at += (size_t)size;
    return NULL;
}

static ProtobufCWireType wire_type(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return PROTOBUF_C_WIRE_TYPE_32BIT;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return PROTOBUF_C_WIRE_TYPE_64BIT;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM:
        break;
    }
    return PROTOBUF_C_WIRE_TYPE_VARINT;
}

static bool fits(const ProtobufCFieldDescriptor *field, uint64_t type)
{
    return type == (uint64_t)wire_type(field) ||
           (field->label == PROTOBUF_C_LABEL_REPEATED &&
            type == (uint64_t)PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED);
}

static const char *body(struct walk *walk, uint64_t type)
{
    const ProtobufCFieldDescriptor *field = top(walk)->field;
    uint64_t number = 0;
    const char *wrong = NULL;

    if (type == 0) {
        return varint(walk, &number);
    }
    if (type == 1 || type == 5) {
        return skip(walk, type == 1 ? 8 : 4);
    }
    wrong = varint(walk, &number);
    if (wrong) {
        return wrong;
    }
    if (field && field->type == PROTOBUF_C_TYPE_MESSAGE && walk->depth + 1 < DEPTH_MAX &&
        number <= top(walk)->end - walk->at) {
        walk->levels[walk->depth + 1] =
            (struct level){.type = field->descriptor, .end = walk->at + (size_t)number};
        walk->depth++;
        return NULL;
    }
    return skip(walk, number);
}

/* One field, from its tag on. NULL: nothing is wrong with it. */
static const char *one_field(struct walk *walk)
{
    struct level *level = top(walk);
    uint64_t tag = 0;
    uint64_t type;
    const char *wrong;

    level->field = NULL;
    wrong = varint(walk, &tag);
    if (wrong) {
        return wrong;
    }
    type = tag & 7;
    walk->number = type;
    if (tag >> 3 == 0) {
        return no_field;
    }
    if (tag >> 3 <= UINT32_MAX >> 3) {
        level->field = protobuf_c_message_descriptor_get_field(level->type, (unsigned)(tag >> 3));
    }
    if (type == 3 || type == 4 || type > 5) {
        return no_type;
    }
    if (level->field && !fits(level->field, type)) {
        return wrong_type;
    }
    return body(walk, type);
}

static void name_path(struct mst_text *text, const struct walk *walk)
{
    for (unsigned i = 0; i <= walk->depth; i++) {
        const ProtobufCFieldDescriptor *field = walk->levels[i].field;

        mst_text_format(text, "%s%s", i > 0 ? "." : "", field ? field->name : "?");
    }
}

void mst_native_diagnose(struct mst_text *text, const ProtobufCMessageDescriptor *type,
                         struct mst_slice payload)
{
    struct walk walk = {.bytes = payload.data, .levels = {{.type = type, .end = payload.size}}};
    const char *wrong = NULL;
    size_t start = 0;

    for (;;) {
        while (walk.depth > 0 && walk.at == top(&walk)->end) {
            walk.depth--;
        }
        if (walk.at == top(&walk)->end) {
            break;
        }
        start = walk.at;
        wrong = one_field(&walk);
        if (wrong) {
            break;
        }
    }
    if (!wrong) {
        mst_text_format(text, "no %s: it cannot be unpacked", type->short_name);
        return;
    }
    mst_text_format(text, "no %s: ", type->short_name);
    name_path(text, &walk);
    mst_text_format(text, ", %zu bytes into the message: %s", start, wrong);
    if (wrong == wrong_type || wrong == no_type || wrong == beyond) {
        mst_text_format(text, "%" PRIu64, walk.number);
    }
}
