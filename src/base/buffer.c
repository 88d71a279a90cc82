/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buffer.h"

#include <string.h>

#include "base/panic.h"

enum { ROOM_MIN = 256 };

void mst_buffer_init(struct mst_buffer *buffer, const struct mst_mem *mem, size_t size_max)
{
    *buffer = (struct mst_buffer){.mem = mem, .size_max = size_max};
}

void mst_buffer_fini(struct mst_buffer *buffer)
{
    if (buffer->mem) {
        mst_mem_release(buffer->mem, buffer->bytes);
    }
    *buffer = (struct mst_buffer){0};
}

static bool grow(struct mst_buffer *buffer, size_t need)
{
    size_t used = buffer->end - buffer->start;
    size_t room = buffer->room < ROOM_MIN ? ROOM_MIN : buffer->room;
    unsigned char *bytes;

    while (room < need) {
        room = room > buffer->size_max / 2 ? buffer->size_max : room * 2;
    }
    bytes = buffer->mem->alloc(buffer->mem->ctx, room);
    if (!bytes) {
        return false;
    }
    if (used > 0) {
        memcpy(bytes, buffer->bytes + buffer->start, used);
    }
    mst_mem_release(buffer->mem, buffer->bytes);
    buffer->bytes = bytes;
    buffer->room = room;
    buffer->start = 0;
    buffer->end = used;
    return true;
}

unsigned char *mst_buffer_reserve(struct mst_buffer *buffer, size_t size)
{
    size_t used = buffer->end - buffer->start;

    if (size > buffer->size_max - used) {
        return NULL;
    }
    if (buffer->room - buffer->end < size) {
        /* Moving down is worth it only when it frees at least half, or a reader that takes little
         * at a time would have every byte copied many times. */
        if (buffer->room - used >= size && used <= buffer->room / 2) {
            memmove(buffer->bytes, buffer->bytes + buffer->start, used);
            buffer->start = 0;
            buffer->end = used;
        } else if (!grow(buffer, used + size)) {
            return NULL;
        }
    }
    return buffer->bytes + buffer->end;
}

bool mst_buffer_append(struct mst_buffer *buffer, struct mst_slice bytes)
{
    unsigned char *room;

    if (bytes.size == 0) {
        return true;
    }
    room = mst_buffer_reserve(buffer, bytes.size);
    if (!room) {
        return false;
    }
    memcpy(room, bytes.data, bytes.size);
    mst_buffer_commit(buffer, bytes.size);
    return true;
}

void mst_buffer_take(struct mst_buffer *buffer, size_t size)
{
    MST_ASSERT(size <= buffer->end - buffer->start);
    buffer->start += size;
    if (buffer->start == buffer->end) {
        buffer->start = 0;
        buffer->end = 0;
    }
}
