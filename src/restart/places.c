/* SPDX-License-Identifier: Apache-2.0 */
#include "restart/places.h"

#include <string.h>

#include "base/text.h"

#define DIGITS 8u
#define VERSION 1u

/* In hexadecimal and all equally long, so that the list comes in the order of the indices. */
size_t mst_place_name(uint32_t index, char out[MST_PLACE_NAME_ROOM])
{
    return mst_text_print(out, MST_PLACE_NAME_ROOM, MST_PLACE_PREFIX "%08x", index);
}

static bool name_read(struct mst_slice name, uint32_t *index)
{
    const char *text = name.data;
    size_t prefix = sizeof(MST_PLACE_PREFIX) - 1;

    if (name.size != prefix + DIGITS || memcmp(text, MST_PLACE_PREFIX, prefix) != 0) {
        return false;
    }
    *index = 0;
    for (size_t i = prefix; i < name.size; i++) {
        char digit = text[i];

        if (digit >= '0' && digit <= '9') {
            *index = *index << 4 | (uint32_t)(digit - '0');
        } else if (digit >= 'a' && digit <= 'f') {
            *index = *index << 4 | (uint32_t)(digit - 'a' + 10);
        } else {
            return false;
        }
    }
    return true;
}

static size_t put(unsigned char *out, size_t at, uint32_t number)
{
    for (unsigned i = 0; i < 4; i++) {
        out[at++] = (unsigned char)(number >> (8 * i));
    }
    return at;
}

static size_t put_text(unsigned char *out, size_t at, struct mst_slice text, size_t room)
{
    size_t size = text.size < room ? text.size : room - 1;

    out[at++] = (unsigned char)size;
    if (size > 0) {
        memcpy(out + at, text.data, size);
    }
    return at + size;
}

size_t mst_place_value(uint32_t previous, uint32_t node, struct mst_slice host,
                       struct mst_slice label, unsigned char out[MST_PLACE_VALUE_ROOM])
{
    size_t at = 0;

    out[at++] = VERSION;
    at = put(out, at, previous);
    at = put(out, at, node);
    at = put_text(out, at, host, MST_PLACE_HOST_ROOM);
    return put_text(out, at, label, MST_PLACE_LABEL_ROOM);
}

static bool take(struct mst_slice *in, void *out, size_t size)
{
    if (in->size < size) {
        return false;
    }
    if (size > 0) {
        memcpy(out, in->data, size);
    }
    in->data = (const unsigned char *)in->data + size;
    in->size -= size;
    return true;
}

static bool take_number(struct mst_slice *in, uint32_t *out)
{
    unsigned char bytes[4];

    if (!take(in, bytes, 4)) {
        return false;
    }
    *out = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
    return true;
}

static bool take_text(struct mst_slice *in, char *out, size_t room)
{
    unsigned char size;

    if (!take(in, &size, 1) || size >= room || !take(in, out, size)) {
        return false;
    }
    out[size] = 0;
    return true;
}

/* What a later version adds behind is not looked at. */
static bool value_read(struct mst_slice in, struct muster_place *place, struct mst_place_text *text)
{
    unsigned char version;

    return take(&in, &version, 1) && version >= VERSION && take_number(&in, &place->previous) &&
           take_number(&in, &place->node) && take_text(&in, text->host, sizeof(text->host)) &&
           take_text(&in, text->label, sizeof(text->label));
}

void mst_places_free(struct mst_places *places, const struct mst_mem *mem)
{
    mst_mem_release(mem, places->list);
    mst_mem_release(mem, places->texts);
    mst_mem_release(mem, places->order);
    *places = (struct mst_places){0};
}

muster_status mst_places_new(struct mst_places *places, uint32_t room, const struct mst_mem *mem)
{
    *places = (struct mst_places){.room = room};
    places->list = mst_mem_array(mem, room, sizeof(*places->list));
    places->texts = mst_mem_array(mem, room, sizeof(*places->texts));
    places->order = mst_mem_array(mem, room, sizeof(*places->order));
    if (!places->list || !places->texts || !places->order) {
        mst_places_free(places, mem);
        return MUSTER_ENOMEM;
    }
    return MUSTER_OK;
}

static void point(struct mst_places *places, uint32_t at)
{
    places->list[at].host = places->texts[at].host;
    places->list[at].label = places->texts[at].label;
}

muster_status mst_places_add(struct mst_places *places, const struct mst_reply *page)
{
    for (uint32_t i = 0; i < page->item_count; i++) {
        const struct mst_item *item = &page->items[i];
        struct muster_place place = {.alive = true, .number = MUSTER_NUMBER_NONE};
        uint32_t at = places->count;

        if (item->kind != MST_ITEM_KEY) {
            continue;
        }
        if (at == places->room || !name_read(item->name, &place.index) ||
            (at > 0 && places->list[at - 1].index >= place.index) ||
            !value_read(item->value, &place, &places->texts[at])) {
            return MUSTER_EPROTO;
        }
        places->list[at] = place;
        point(places, at);
        places->count++;
    }
    return MUSTER_OK;
}

/* Of those of `old`: both lists ascend. */
static uint32_t count_lost(const struct mst_places *places, const struct mst_places *old)
{
    uint32_t lost = 0;
    uint32_t at = 0;

    for (uint32_t i = 0; i < old->count; i++) {
        while (at < places->count && places->list[at].index < old->list[i].index) {
            at++;
        }
        lost += at == places->count || places->list[at].index != old->list[i].index;
    }
    return lost;
}

/* From the back, so that nothing is overwritten before it was read. */
static void merge(struct mst_places *places, const struct mst_places *old, uint32_t lost)
{
    uint32_t from = places->count;
    uint32_t other = old->count;
    uint32_t at = places->count + lost;

    places->count = at;
    while (other > 0 && lost > 0) {
        const struct muster_place *gone = &old->list[other - 1];

        if (from > 0 && places->list[from - 1].index >= gone->index) {
            other -= places->list[from - 1].index == gone->index;
            places->list[--at] = places->list[--from];
            places->texts[at] = places->texts[from];
        } else {
            places->list[--at] = *gone;
            places->texts[at] = old->texts[--other];
            places->list[at].alive = false;
            lost--;
        }
        point(places, at);
    }
}

void mst_places_close(struct mst_places *places, const struct mst_places *old)
{
    uint32_t lost = count_lost(places, old);
    uint32_t number = 0;

    if (lost > 0 && places->count + lost <= places->room) {
        merge(places, old, lost);
    }
    for (uint32_t i = 0; i < places->count; i++) {
        struct muster_place *place = &places->list[i];

        place->number = place->alive ? number++ : MUSTER_NUMBER_NONE;
    }
}

muster_status mst_places_seat(struct mst_places *places)
{
    uint32_t seated = 0;

    for (uint32_t i = 0; i < places->room; i++) {
        places->order[i] = UINT32_MAX;
    }
    for (uint32_t i = 0; i < places->count; i++) {
        const struct muster_place *place = &places->list[i];

        if (place->number == MUSTER_NUMBER_NONE) {
            continue;
        }
        if (!place->alive || place->number >= places->count ||
            places->order[place->number] != UINT32_MAX) {
            return MUSTER_EINVAL;
        }
        places->order[place->number] = place->index;
        seated++;
    }
    for (uint32_t number = 0; number < seated; number++) {
        if (places->order[number] == UINT32_MAX) {
            return MUSTER_EINVAL;
        }
    }
    places->order_count = seated;
    return seated > 0 ? MUSTER_OK : MUSTER_ETOOFEW;
}

void mst_places_sealed(struct mst_places *places)
{
    for (uint32_t i = 0; i < places->count; i++) {
        places->list[i].previous = places->list[i].number;
    }
}
