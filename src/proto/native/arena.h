/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_NATIVE_ARENA_H
#define MST_PROTO_NATIVE_ARENA_H

/* Memory of one message. Allocation is a moved pointer, release is forgotten until the reset, and a
 * small message never leaves the first bytes, which lie inside. A limit set per message keeps a
 * peer from turning few bytes into much memory. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

enum { MST_NATIVE_ARENA_ALIGNMENT = _Alignof(max_align_t), MST_NATIVE_ARENA_FIRST = 768 };

struct mst_native_chunk;

struct mst_native_arena {
    const struct mst_mem *mem;
    struct mst_native_chunk *chunks;
    unsigned char *next;
    size_t left;
    size_t used, used_max;
    bool starved; /* the allocator had nothing */
    bool full;    /* the limit was reached */
    _Alignas(max_align_t) unsigned char first[MST_NATIVE_ARENA_FIRST];
};

void mst_native_arena_init(struct mst_native_arena *arena, const struct mst_mem *mem);
void mst_native_arena_fini(struct mst_native_arena *arena);

/* Takes back everything that it gave. It may give `used_max` bytes from now on. */
void mst_native_arena_reset(struct mst_native_arena *arena, size_t used_max);

/* So many aligned bytes, where the current chunk has not as many left. */
void *mst_native_arena_more(struct mst_native_arena *arena, size_t size);

/* Not zeroed. NULL: `starved` or `full` is set. */
static inline void *mst_native_arena_array(struct mst_native_arena *arena, size_t count,
                                           size_t size)
{
    enum { ALIGNED = MST_NATIVE_ARENA_ALIGNMENT - 1 };
    unsigned char *p = arena->next;

    /* What it takes counts: many single bytes are sixteen times as much. */
    if (__builtin_mul_overflow(count, size, &size) ||
        __builtin_add_overflow(size, (size_t)ALIGNED, &size) ||
        (size &= ~(size_t)ALIGNED) > arena->used_max - arena->used) {
        arena->full = true;
        return NULL;
    }
    arena->used += size;
    if (size > arena->left) {
        return mst_native_arena_more(arena, size);
    }
    arena->next += size;
    arena->left -= size;
    return p;
}

static inline void *mst_native_arena_alloc(struct mst_native_arena *arena, size_t size)
{
    return mst_native_arena_array(arena, 1, size);
}

#endif
