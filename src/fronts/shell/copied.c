/* SPDX-License-Identifier: Apache-2.0 */
#include "fronts/shell/copied.h"

#include <stdlib.h>
#include <string.h>

/* The room is measured with `at` NULL, and filled with the same steps. What is aligned comes first:
 * the items, then the numbers of the missing, then bytes. */
struct pack {
    char *at;
    size_t size;
};

static const void *put(struct pack *pack, const void *from, size_t size)
{
    char *to = pack->at;

    pack->size += size;
    if (to == NULL || size == 0) {
        return from;
    }
    memcpy(to, from, size);
    pack->at += size;
    return to;
}

static void put_slice(struct pack *pack, struct mst_slice *slice)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): the two passes take the same steps. */
    slice->data = put(pack, slice->data, slice->size);
}

static void put_item(struct pack *pack, struct mst_item *item)
{
    put_slice(pack, &item->name);
    put_slice(pack, &item->value);
    put_slice(pack, &item->who.host);
    if (item->has_progress) {
        put_slice(pack, &item->progress.section);
    }
}

static void put_items(struct pack *pack, struct mst_reply *reply)
{
    bool fills = pack->at != NULL;
    struct mst_item *items = (struct mst_item *)pack->at;
    const struct mst_item *from = reply->items;

    reply->items = put(pack, from, reply->item_count * sizeof *from);
    for (uint32_t i = 0; i < reply->item_count; i++) {
        const uint32_t *missing =
            put(pack, from[i].missing, from[i].missing_count * sizeof *missing);

        if (fills) {
            items[i].missing = missing;
        }
    }
    for (uint32_t i = 0; i < reply->item_count; i++) {
        struct mst_item one = from[i];

        put_item(pack, fills ? &items[i] : &one);
    }
}

static size_t put_all(struct mst_reply *reply, char *room)
{
    struct pack pack = {.at = room};

    put_items(&pack, reply);
    put_slice(&pack, &reply->value);
    put_slice(&pack, &reply->addresses);
    for (uint32_t i = 0; reply->has_detail && i < reply->detail.who_count; i++) {
        put_slice(&pack, &reply->detail.who[i].host);
    }
    return pack.size;
}

void mst_fronts_copy(struct mst_fronts_copied *out, const struct mst_reply *reply)
{
    struct mst_reply measured = *reply;
    size_t size = put_all(&measured, NULL);

    out->reply = *reply;
    out->room = size > 0 ? malloc(size) : NULL;
    if (size > 0 && out->room == NULL) {
        out->reply = (struct mst_reply){.command = reply->command, .status = MUSTER_ENOMEM};
    } else if (size > 0) {
        (void)put_all(&out->reply, out->room);
    }
}
