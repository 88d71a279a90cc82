/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/native/arena.h"

enum { CHUNK = 4096 };

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

void *mst_native_arena_more(struct mst_native_arena *arena, size_t size)
{
    unsigned char *p;

    /* Something large gets memory of its own, so that the rest of a chunk is not wasted. */
    if (size > CHUNK / 4) {
        return chunk_new(arena, size);
    }
    p = chunk_new(arena, CHUNK);
    if (p) {
        arena->next = p + size;
        arena->left = CHUNK - size;
    }
    return p;
}
