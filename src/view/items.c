/* SPDX-License-Identifier: Apache-2.0 */
#include "view/items.h"

#include <stdlib.h>
#include <string.h>

struct mst_items_block {
    struct mst_items_block *next;
    char bytes[];
};

static size_t bytes_of(const struct mst_item *item)
{
    return item->missing_count * sizeof *item->missing + item->name.size + item->value.size +
           item->who.host.size + item->progress.section.size + 4;
}

static struct mst_slice lay(char **at, struct mst_slice bytes)
{
    struct mst_slice laid = mst_slice_of(*at, bytes.size);

    if (bytes.size > 0) {
        memcpy(*at, bytes.data, bytes.size);
    }
    (*at)[bytes.size] = '\0';
    *at += bytes.size + 1;
    return laid;
}

static const uint32_t *lay_numbers(char **at, const uint32_t *numbers, uint32_t count)
{
    void *laid = *at;

    if (count == 0) {
        return NULL;
    }
    *at += count * sizeof *numbers;
    return memcpy(laid, numbers, count * sizeof *numbers);
}

static bool make_room(struct mst_items *items, size_t count)
{
    size_t room = items->room > 0 ? items->room : 16;
    struct mst_item *grown;

    while (room < items->count + count) {
        room *= 2;
    }
    if (room == items->room) {
        return true;
    }
    grown = realloc(items->items, room * sizeof(*grown));
    if (!grown) {
        return false;
    }
    items->items = grown;
    items->room = room;
    return true;
}

bool mst_items_add(struct mst_items *items, const struct mst_item *from, size_t count)
{
    struct mst_items_block *block;
    size_t size = 0;
    char *at;

    if (count == 0) {
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        size += bytes_of(&from[i]);
    }
    block = make_room(items, count) ? malloc(sizeof(*block) + size) : NULL;
    if (!block) {
        return false;
    }
    block->next = items->blocks;
    items->blocks = block;
    at = block->bytes;
    for (size_t i = 0; i < count; i++) { /* all numbers before any text: they are aligned */
        items->items[items->count + i].missing =
            lay_numbers(&at, from[i].missing, from[i].missing_count);
    }
    for (size_t i = 0; i < count; i++) {
        struct mst_item item = from[i];

        item.missing = items->items[items->count].missing;
        item.name = lay(&at, item.name);
        item.value = lay(&at, item.value);
        item.who.host = lay(&at, item.who.host);
        item.progress.section = lay(&at, item.progress.section);
        items->items[items->count++] = item;
    }
    return true;
}

bool mst_items_value(struct mst_items *items, struct mst_slice value)
{
    struct mst_items_block *block;
    char *at;

    if (value.size == 0) {
        return true;
    }
    block = malloc(sizeof(*block) + value.size + 1);
    if (!block) {
        return false;
    }
    block->next = items->blocks;
    items->blocks = block;
    at = block->bytes;
    items->value = lay(&at, value);
    return true;
}

void mst_items_fini(struct mst_items *items)
{
    while (items->blocks) {
        struct mst_items_block *next = items->blocks->next;

        free(items->blocks);
        items->blocks = next;
    }
    free(items->items);
    *items = (struct mst_items){0};
}
