/* SPDX-License-Identifier: Apache-2.0 */
#include "service/journal/gather.h"

#include <string.h>

static unsigned char *new_bytes(const struct mst_mem *mem, size_t room)
{
    return mem->alloc(mem->ctx, MST_FRAME_HEAD + room + MST_FRAME_ALIGN);
}

bool mst_gather_init(struct mst_gather *gather, const struct mst_mem *mem, size_t room)
{
    *gather = (struct mst_gather){.bytes = new_bytes(mem, room), .room = room};
    return gather->bytes != NULL;
}

void mst_gather_fini(struct mst_gather *gather, const struct mst_mem *mem)
{
    mst_mem_release(mem, gather->bytes);
    gather->bytes = NULL;
}

static bool grow(struct mst_gather *gather, const struct mst_mem *mem, size_t room)
{
    unsigned char *bytes = new_bytes(mem, room);

    if (!bytes) {
        return false;
    }
    memcpy(bytes, gather->bytes, MST_FRAME_HEAD + gather->used);
    mst_mem_release(mem, gather->bytes);
    gather->bytes = bytes;
    gather->room = room;
    return true;
}

unsigned char *mst_gather_room(struct mst_gather *gather, const struct mst_mem *mem, size_t size)
{
    size_t need = gather->used + size;
    size_t twice = gather->room * 2;

    if (need > gather->room && !grow(gather, mem, twice > need ? twice : need)) {
        return NULL;
    }
    return gather->bytes + MST_FRAME_HEAD + gather->used;
}

void mst_gather_keep(struct mst_gather *gather, const struct mst_journal_record *record,
                     size_t body_size)
{
    mst_record_head_write(gather->bytes + MST_FRAME_HEAD + gather->used, record, body_size);
    gather->used += MST_RECORD_HEAD + body_size;
}
