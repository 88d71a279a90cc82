/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/copy.h"

#include "base/panic.h"
#include "base/slice.h"

/* The same walk counts and copies: without `room` it only counts, and `to` is never written. */
struct pack {
    unsigned char *room;
    size_t used;
    bool overflow;
};

enum { ALIGNMENT = 8 };

static void *take(struct pack *pack, const void *from, size_t count, size_t size)
{
    size_t at = size > 1 ? (pack->used + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1) : pack->used;

    if (count > (SIZE_MAX / 2 - at) / size) {
        pack->overflow = true;
        return NULL;
    }
    if (count == 0) {
        return NULL;
    }
    pack->used = at + count * size;
    return pack->room ? memcpy(pack->room + at, from, count * size) : NULL;
}

static void copy_slice(struct pack *pack, const char *from, char *to)
{
    struct mst_slice slice;

    memcpy(&slice, from, sizeof slice);
    slice.data = take(pack, slice.data, slice.size, 1);
    if (to) {
        memcpy(to, &slice, sizeof slice);
    }
}

/* Of an element, which points at nothing else. */
static void copy_slices(struct pack *pack, const struct mst_message *type, const char *from,
                        char *to)
{
    for (unsigned number = 1; number <= type->last; number++) {
        const struct mst_field *field = &type->fields[number];

        MST_ASSERT(field->type < MST_FIELD_ARRAY);
        if (field->type >= MST_FIELD_BYTES) {
            copy_slice(pack, from + field->offset, to ? to + field->offset : NULL);
        }
    }
}

static void copy_array(struct pack *pack, const struct mst_field *field, const char *from, char *to)
{
    uint32_t count = mst_field_count(field, from);
    const char *items = count > 0 ? mst_field_item(field, from, 0) : NULL;
    char *copies = take(pack, items, count, field->size);

    for (uint32_t i = 0; i < count && !pack->overflow; i++) {
        const char *item = items + (size_t)i * field->size;
        char *copy = copies ? copies + (size_t)i * field->size : NULL;

        if (field->type == MST_FIELD_MESSAGE) {
            copy_slices(pack, field->message, item, copy);
        } else if (field->item == MST_FIELD_BYTES) {
            copy_slice(pack, item, copy);
        }
    }
    if (to) {
        memcpy(to + field->offset, &copies, sizeof copies);
    }
}

static void copy_chain(struct pack *pack, const struct mst_field *field, const char *from, char *to)
{
    uint32_t count = mst_field_count(field, from);
    char *copy = pack->room ? to + field->offset : NULL;

    for (uint32_t i = 0; i < count; i++) {
        char *next = NULL;

        copy_slices(pack, field->message, mst_field_item(field, from, i), copy);
        if (i + 1 < count) {
            next = take(pack, mst_field_item(field, from, i + 1), 1, field->size);
        }
        if (copy) {
            memcpy(copy + field->count, &next, sizeof next);
        }
        copy = next;
    }
}

static void copy_case(struct pack *pack, const struct mst_message *type, const char *from, char *to)
{
    const struct mst_field *which = mst_field_case(type, from);

    for (unsigned number = 1; which && number <= which->message->last; number++) {
        const struct mst_field *field = &which->message->fields[number];

        if (field->label == MST_FIELD_MANY) {
            copy_array(pack, field, from, to);
        } else if (field->label == MST_FIELD_CHAIN) {
            copy_chain(pack, field, from, to);
        } else if (field->type >= MST_FIELD_BYTES) {
            MST_ASSERT(field->type < MST_FIELD_ARRAY);
            copy_slice(pack, from + field->offset, to ? to + field->offset : NULL);
        }
    }
}

size_t mst_copy_size(const struct mst_message *type, const void *from)
{
    struct pack pack = {.room = NULL};

    copy_case(&pack, type, from, NULL);
    return pack.overflow ? SIZE_MAX : pack.used;
}

void mst_copy(const struct mst_message *type, void *out, const void *from, void *room)
{
    struct pack pack = {.room = room};

    memcpy(out, from, type->size);
    copy_case(&pack, type, from, out);
    MST_ASSERT(!pack.overflow);
}
