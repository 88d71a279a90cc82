/* SPDX-License-Identifier: Apache-2.0 */
#include "counted_mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/panic.h"

struct block {
    size_t size;
    _Alignas(max_align_t) unsigned char bytes[];
};

static void *alloc(void *ctx, size_t size)
{
    struct counted_mem *counted = ctx;
    struct block *block;

    if (++counted->count == counted->fail_at || size > SIZE_MAX / 2) {
        return NULL;
    }
    block = malloc(sizeof(*block) + size);
    if (!block) {
        return NULL;
    }
    block->size = size;
    memset(block->bytes, counted->fill, size);
    counted->live += size;
    if (counted->live > counted->peak) {
        counted->peak = counted->live;
    }
    return block->bytes;
}

static void release(void *ctx, void *p)
{
    struct counted_mem *counted = ctx;

    if (p) {
        struct block *block = MST_CONTAINER(p, struct block, bytes);

        MST_ASSERT(block->size <= counted->live);
        counted->live -= block->size;
        free(block);
    }
}

void counted_mem_init(struct counted_mem *counted, unsigned char fill)
{
    *counted = (struct counted_mem){.fill = fill};
    counted->mem = (struct mst_mem){.ctx = counted, .alloc = alloc, .release = release};
}
