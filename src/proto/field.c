/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/field.h"

static void *pointer_at(const void *from, size_t offset)
{
    void *pointer;

    memcpy(&pointer, (const char *)from + offset, sizeof pointer);
    return pointer;
}

const struct mst_field *mst_field_case(const struct mst_message *message, const void *from)
{
    uint64_t number = (uint64_t)message->base + mst_field_u32(from, message->which->offset);

    return number > message->plain ? mst_field_of(message, number) : NULL;
}

uint32_t mst_field_chain_length(const struct mst_field *field, const void *from)
{
    const char *at = (const char *)from + field->offset;
    uint32_t length = 0;

    if (mst_field_may_be(field, from)) {
        for (; at && length < (uint32_t)field->most; at = pointer_at(at, field->count)) {
            length++;
        }
    }
    return length;
}

void *mst_field_element(const struct mst_field *field, const void *from, uint32_t index)
{
    union {
        const void *in;
        char *out;
    } place = {.in = from};

    place.out += field->offset;
    if (field->label == MST_FIELD_FEW) {
        return place.out + (size_t)index * field->size;
    }
    for (; index > 0; index--) {
        place.out = pointer_at(place.out, field->count);
    }
    return place.out;
}
