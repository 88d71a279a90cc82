/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/shell/parts.h"

#include <string.h>

size_t mst_parts_room(struct mst_parts parts)
{
    size_t size = parts.count * sizeof(struct mst_part);

    for (uint32_t i = 0; i < parts.count; i++) {
        size += mst_align8(parts.items[i].data.size);
    }
    return size;
}

struct mst_parts mst_parts_keep(void *room, struct mst_parts parts)
{
    struct mst_part *items = room;
    unsigned char *at = (unsigned char *)(items + parts.count);

    for (uint32_t i = 0; i < parts.count; i++) {
        struct mst_slice data = parts.items[i].data;

        items[i] =
            (struct mst_part){.data = mst_slice_of(at, data.size), .type = parts.items[i].type};
        if (data.size > 0) {
            memcpy(at, data.data, data.size);
        }
        at += mst_align8(data.size);
    }
    return (struct mst_parts){.items = items, .count = parts.count};
}
