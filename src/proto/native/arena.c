/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/native/arena.h"

#include <stdint.h>

enum { ALIGNMENT = _Alignof(max_align_t), CHUNK = 4096 };

struct mst_native_chunk {
    struct mst_native_chunk *next;
    _Alignas(max_align_t) unsigned char bytes[];
};

void mst_native_arena_init(struct mst_native_arena *arena, const struct mst_mem *mem)
{
    arena->mem = mem;
    arena->chunks = NULL;
    mst_native_arena_reset(arena, SIZE_MAX);
}

void mst_native_arena_fini(struct mst_native_arena *arena)
{
    mst_native_arena_reset(arena, 0);
}

void mst_native_arena_reset(struct mst_native_arena *arena, size_t used_max)
{
    while (arena->chunks) {
        struct mst_native_chunk *chunk = arena->chunks;

        arena->chunks = chunk->next;
        mst_mem_release(arena->mem, chunk);
    }
    arena->next = arena->first;
    arena->left = sizeof(arena->first);
    arena->used = 0;
    arena->used_max = used_max;
    arena->starved = false;
    arena->full = false;
}

static unsigned char *chunk_new(struct mst_native_arena *arena, size_t size)
{
    struct mst_native_chunk *chunk = NULL;

    if (size <= SIZE_MAX - sizeof(*chunk)) {
        chunk = arena->mem->alloc(arena->mem->ctx, sizeof(*chunk) + size);
    }
    if (!chunk) {
        arena->starved = true;
        return NULL;
    }
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    return chunk->bytes;
}

void *mst_native_arena_alloc(struct mst_native_arena *arena, size_t size)
{
    unsigned char *p;

    if (size > SIZE_MAX - (ALIGNMENT - 1)) {
        arena->full = true;
        return NULL;
    }
    /* What it takes counts: many single bytes are sixteen times as much. */
    size = (size + (ALIGNMENT - 1)) & ~(size_t)(ALIGNMENT - 1);
    if (size > arena->used_max - arena->used) {
        arena->full = true;
        return NULL;
    }
    arena->used += size;
    if (size > arena->left) {
        /* Something large gets memory of its own, so that the rest of a chunk is not wasted. */
        if (size > CHUNK / 4) {
            return chunk_new(arena, size);
        }
        p = chunk_new(arena, CHUNK);
        if (!p) {
            return NULL;
        }
        arena->next = p;
        arena->left = CHUNK;
    }
    p = arena->next;
    arena->next += size;
    arena->left -= size;
    return p;
}

void *mst_native_arena_array(struct mst_native_arena *arena, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size) {
        arena->full = true;
        return NULL;
    }
    return mst_native_arena_alloc(arena, count * size);
}
