/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/copy.h"

/* The same walk counts and copies: without `room` it only counts. */
struct pack {
    unsigned char *room;
    size_t used;
};

enum { PACK_ALIGN = 8 };

static void *pack_bytes(struct pack *pack, const void *from, size_t size)
{
    size_t at = pack->used;

    pack->used += (size + PACK_ALIGN - 1) & ~(size_t)(PACK_ALIGN - 1);
    if (!pack->room || size == 0) {
        return NULL;
    }
    memcpy(pack->room + at, from, size);
    return pack->room + at;
}

static void pack_slice(struct pack *pack, struct mst_slice *slice)
{
    slice->data = pack_bytes(pack, slice->data, slice->size);
}

static void pack_parts(struct pack *pack, struct mst_parts *parts)
{
    const struct mst_part *from = parts->items;
    struct mst_part *to = pack_bytes(pack, from, parts->count * sizeof(*from));

    for (uint32_t i = 0; i < parts->count; i++) {
        const void *data = pack_bytes(pack, from[i].data.data, from[i].data.size);

        if (to) {
            to[i].data.data = data;
        }
    }
    parts->items = to;
}

static void pack_failure(struct pack *pack, struct mst_failure *to)
{
    const struct mst_failure *from = to;

    for (unsigned depth = 1; from; depth++) {
        struct mst_failure copy = *from;
        const struct mst_failure *next = depth < MST_FAILURE_DEPTH_MAX ? copy.cause : NULL;
        struct mst_failure *room;

        pack_slice(pack, &copy.text);
        pack_slice(pack, &copy.state);
        room = next ? pack_bytes(pack, next, sizeof(*next)) : NULL;
        copy.cause = room;
        if (to) {
            *to = copy;
        }
        from = next;
        to = room;
    }
}

static void pack_message(struct pack *pack, struct mst_cluster_message *message)
{
    message->functions = NULL;
    message->function_count = 0;
    message->held = NULL;
    message->held_count = 0;
    message->values = NULL;
    message->value_count = 0;
    message->cluster = (struct mst_slice){0};
    message->host = (struct mst_slice){0};
    pack_slice(pack, &message->key);
    pack_slice(pack, &message->text);
    message->needs =
        pack_bytes(pack, message->needs, message->need_count * sizeof(*message->needs));
    pack_parts(pack, &message->parts);
    pack_failure(pack, &message->failure);
}

size_t mst_cluster_copy_size(const struct mst_cluster_message *message)
{
    struct pack pack = {0};
    struct mst_cluster_message scratch = *message;

    pack_message(&pack, &scratch);
    return pack.used;
}

void mst_cluster_copy(struct mst_cluster_message *out, const struct mst_cluster_message *message,
                      void *room)
{
    struct pack pack = {.room = room};

    *out = *message;
    pack_message(&pack, out);
}
