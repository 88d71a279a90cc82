/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_BASE_BUFFER_H
#define MST_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"
#include "base/panic.h"
#include "base/slice.h"

/* A queue of bytes, appended at the end and taken from the front, born with its maximum size.
 * A zeroed buffer must be initialised before use. */
struct mst_buffer {
    const struct mst_mem *mem;
    unsigned char *bytes;
    size_t start, end, room;
    size_t size_max;
};

void mst_buffer_init(struct mst_buffer *buffer, const struct mst_mem *mem, size_t size_max);
void mst_buffer_fini(struct mst_buffer *buffer);

/* Room for `size` more bytes at the end, or NULL when the maximum or the memory does not allow it.
 * The bytes count only once they are committed; the pointer dies at the next call. */
unsigned char *mst_buffer_reserve(struct mst_buffer *buffer, size_t size);
static inline void mst_buffer_commit(struct mst_buffer *buffer, size_t size)
{
    MST_ASSERT(size <= buffer->room - buffer->end);
    buffer->end += size;
}

static inline struct mst_slice mst_buffer_content(const struct mst_buffer *buffer)
{
    size_t size = buffer->end - buffer->start;

    return mst_slice_of(size > 0 ? buffer->bytes + buffer->start : NULL, size);
}

bool mst_buffer_append(struct mst_buffer *buffer, struct mst_slice bytes);
void mst_buffer_take(struct mst_buffer *buffer, size_t size);

#endif
