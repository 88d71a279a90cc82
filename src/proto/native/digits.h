/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_NATIVE_DIGITS_H
#define MST_PROTO_NATIVE_DIGITS_H

/* Protobuf by hand: what the few messages that make up most of the traffic are read and written
 * with. A reader takes what encoders write and no more: the rest is for protobuf-c to judge. */

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "muster.pb-c.h"

enum {
    MST_WIRE_VARINT = PROTOBUF_C_WIRE_TYPE_VARINT,
    MST_WIRE_BYTES = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
    MST_FIELD_SHIFT = 3,
    MST_DIGIT_BITS = 7,
    MST_DIGIT = 0x7f,
    MST_MORE_DIGITS = 0x80,
    MST_NUMBER_DIGITS = 9, /* a number of ten is left to protobuf-c */
    MST_SIZE_DIGITS = 4,   /* it takes five, */
    MST_TAG_DIGITS = 2     /* and here */
};

#define MST_TAG(field, type) ((uint64_t)(field) << MST_FIELD_SHIFT | (type))

/* ---- in ---- */

struct mst_reader {
    const unsigned char *at, *end;
};

static inline struct mst_reader mst_reader_of(struct mst_slice bytes)
{
    const unsigned char *data = bytes.data;

    return (struct mst_reader){.at = data, .end = data + bytes.size};
}

/* Not inline: most tags, sizes and numbers are one digit. */
bool mst_take_many_digits(struct mst_reader *in, unsigned digits_max, uint64_t *out);

static inline bool mst_take_digits(struct mst_reader *in, unsigned digits_max, uint64_t *out)
{
    if (in->at < in->end && *in->at < MST_MORE_DIGITS) {
        *out = *in->at++;
        return true;
    }
    return mst_take_many_digits(in, digits_max, out);
}

static inline bool mst_take_number(struct mst_reader *in, uint64_t *out)
{
    return mst_take_digits(in, MST_NUMBER_DIGITS, out);
}

static inline bool mst_take_number32(struct mst_reader *in, uint32_t *out)
{
    uint64_t number = 0;
    bool good = mst_take_number(in, &number) && number <= UINT32_MAX;

    *out = (uint32_t)number;
    return good;
}

static inline bool mst_take_bytes(struct mst_reader *in, struct mst_slice *out)
{
    uint64_t size;

    if (!mst_take_digits(in, MST_SIZE_DIGITS, &size) || size > (uint64_t)(in->end - in->at)) {
        return false;
    }
    *out = mst_slice_of(in->at, (size_t)size);
    in->at += size;
    return true;
}

/* The next field, which must be a later one than the last: then none is there twice. */
static inline bool mst_take_tag(struct mst_reader *in, uint64_t *tag)
{
    uint64_t last = *tag;

    return mst_take_digits(in, MST_TAG_DIGITS, tag) &&
           *tag >> MST_FIELD_SHIFT > last >> MST_FIELD_SHIFT;
}

/* ---- out ---- */

static inline size_t mst_digits_of(uint64_t number)
{
    size_t digits = 1;

    for (; number > MST_DIGIT; number >>= MST_DIGIT_BITS) {
        digits++;
    }
    return digits;
}

static inline unsigned char *mst_put_digits(unsigned char *out, uint64_t number)
{
    for (; number > MST_DIGIT; number >>= MST_DIGIT_BITS) {
        *out++ = (unsigned char)(number | MST_MORE_DIGITS);
    }
    *out++ = (unsigned char)number;
    return out;
}

/* A field at its default is not written. Of the fields up to 15. */
static inline unsigned char *mst_put_number(unsigned char *out, unsigned field, uint64_t number)
{
    if (number != 0) {
        *out++ = (unsigned char)MST_TAG(field, MST_WIRE_VARINT);
        out = mst_put_digits(out, number);
    }
    return out;
}

#endif
