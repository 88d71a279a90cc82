/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_FIELD_H
#define MST_PROTO_FIELD_H

/* What proto/muster.proto and proto/cluster.proto say, as data: a row per field. The codec
 * encodes and decodes by these rows, the sentence about a wrong field takes its names from them,
 * and a deep copy follows them. A row stands at the index that is its field's number; an index that
 * no field has is a row of type NONE. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The order is the codec's: numbers that are the same on the wire at both ends, of 32 bits first;
 * varints before others. */
enum mst_field_type {
    MST_FIELD_NONE = 0,
    MST_FIELD_UINT32,
    MST_FIELD_ENUM,
    MST_FIELD_PLUS_ONE, /* a uint32 that is one more on the wire: UINT32_MAX is 0 there */
    MST_FIELD_SINT32,   /* zigzag, as the next one */
    MST_FIELD_SINT64,
    MST_FIELD_BOOL,
    MST_FIELD_UINT64,
    MST_FIELD_FIXED64,
    MST_FIELD_DOUBLE,
    MST_FIELD_BYTES, /* a struct mst_slice */
    MST_FIELD_STRING,
    MST_FIELD_ARRAY, /* of one of these, all but messages: `item` */
    MST_FIELD_MESSAGE
};

/* How a message lies in the struct. */
enum mst_field_label {
    MST_FIELD_ONE = 0,
    MST_FIELD_CASE,  /* of the message's oneof; its number is beyond those of all other fields */
    MST_FIELD_MANY,  /* a pointer to an array, whose length is at `count`; so are other arrays */
    MST_FIELD_FEW,   /* an array inside the struct, of `most`; its length is at `count` */
    MST_FIELD_CHAIN, /* the first one inside the struct, each has a pointer to the next at `count`,
                        at most `most`; none: its probe says so */
};

enum mst_wire_type {
    MST_WIRE_VARINT = 0,
    MST_WIRE_FIXED64 = 1,
    MST_WIRE_BYTES = 2,
    MST_WIRE_FIXED32 = 5
};
enum { MST_TAG_SHIFT = 3, MST_TAG_WIRE = 7 };

struct mst_message;

struct mst_field {
    const char *name;
    const struct mst_message *message; /* of MESSAGE */
    const char *complaint; /* about a number out of bounds; NULL: "NAME 7 is not known" */
    uint16_t offset;
    uint16_t count; /* offset, see above; of ONE MESSAGE a bool, whether it is there. 0: it is there
                       if anything in it is not 0 */
    uint16_t size;  /* of one in memory, where there may be several */
    uint16_t tag;   /* as it is on the wire: the number and the wire type */
    uint8_t type, item, label;
    bool bounded; /* as follows: a number, the size of bytes, how many there are */
    int32_t least, most;
    uint16_t probe_at;      /* offset in the struct of 8 bytes: */
    uint64_t probe, absent; /* if these bits of them are `absent`, the field is at its default */
};

struct mst_message {
    const char *name;
    const struct mst_field *fields;
    uint16_t last;              /* the largest number */
    uint16_t size;              /* of the struct; of what need not be cleared at its end, none */
    uint64_t bounded, plus_one; /* as bits: the numbers of the rows with bounds, not of how many
                                   there are; and of those that are PLUS_ONE */

    /* With a oneof: where the struct says which case it is, the number of the case less `base`; and
     * what all cases share. */
    const struct mst_field *which;
    uint16_t base, body, body_size;
    uint16_t plain; /* the largest number of the fields before the cases */
};

enum { MST_MESSAGE_DEPTH_MAX = 4 }; /* of messages within messages; the schema has 3 */

/* proto/muster.proto */
extern const struct mst_message mst_hello_fields, mst_welcome_fields, mst_request_fields,
    mst_reply_fields;

/* proto/cluster.proto */
extern const struct mst_message mst_cluster_fields;

/* The row of a number; NULL: the message has no such field. */
static inline const struct mst_field *mst_field_of(const struct mst_message *message,
                                                   uint64_t number)
{
    return number - 1 < message->last && message->fields[number].tag != 0 ? &message->fields[number]
                                                                          : NULL;
}

/* The row of the case that the struct says; NULL: there is no such one. */
const struct mst_field *mst_field_case(const struct mst_message *message, const void *from);

static inline uint32_t mst_field_u32(const void *from, size_t offset)
{
    uint32_t number;

    memcpy(&number, (const char *)from + offset, sizeof number);
    return number;
}

/* False: it is at its default. True of a message and of a case that have no such bits: more must be
 * looked at. */
static inline bool mst_field_may_be(const struct mst_field *field, const void *from)
{
    uint64_t found;

    memcpy(&found, (const char *)from + field->probe_at, sizeof found);
    return (found & field->probe) != field->absent;
}

/* How many elements a repeated field has, and one of them. */
uint32_t mst_field_chain_length(const struct mst_field *field, const void *from);
void *mst_field_element(const struct mst_field *field, const void *from, uint32_t index);

static inline uint32_t mst_field_count(const struct mst_field *field, const void *from)
{
    return field->label == MST_FIELD_CHAIN ? mst_field_chain_length(field, from)
                                           : mst_field_u32(from, field->count);
}

static inline void *mst_field_item(const struct mst_field *field, const void *from, uint32_t index)
{
    char *array;

    if (field->label != MST_FIELD_MANY) {
        return mst_field_element(field, from, index);
    }
    memcpy(&array, (const char *)from + field->offset, sizeof array);
    return array + (size_t)index * field->size;
}

#endif
