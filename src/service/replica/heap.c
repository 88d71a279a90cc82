/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "service/replica/part.h"

/* In front of what the consensus is given. */
struct block {
    _Alignas(max_align_t) struct mst_list link;
    size_t size;
};

static void *heap_malloc(void *data, size_t size)
{
    struct mst_replica *replica = data;
    struct block *block;

    if (size > SIZE_MAX - sizeof *block) {
        return NULL;
    }
    block = replica->mem.alloc(replica->mem.ctx, sizeof *block + size);
    if (!block) {
        return NULL;
    }
    block->size = size;
    mst_list_append(&replica->blocks, &block->link);
    return block + 1;
}

static void heap_free(void *data, void *bytes)
{
    struct mst_replica *replica = data;

    if (bytes) {
        struct block *block = (struct block *)bytes - 1;

        mst_list_remove(&block->link);
        mst_mem_release(&replica->mem, block);
    }
}

static void *heap_calloc(void *data, size_t count, size_t size)
{
    void *bytes;

    if (size != 0 && count > SIZE_MAX / size) {
        return NULL;
    }
    bytes = heap_malloc(data, count * size);
    if (bytes) {
        memset(bytes, 0, count * size);
    }
    return bytes;
}

static void *heap_realloc(void *data, void *bytes, size_t size)
{
    void *larger = heap_malloc(data, size);

    if (larger && bytes) {
        size_t before = ((struct block *)bytes - 1)->size;

        memcpy(larger, bytes, before < size ? before : size);
        heap_free(data, bytes);
    }
    return larger;
}

static void *heap_aligned_alloc(void *data, size_t alignment, size_t size)
{
    return alignment <= _Alignof(max_align_t) ? heap_malloc(data, size) : NULL;
}

static void heap_aligned_free(void *data, size_t alignment, void *bytes)
{
    (void)alignment;
    heap_free(data, bytes);
}

void mst_replica_heap_init(struct mst_replica *replica)
{
    mst_list_init(&replica->blocks);
    replica->heap = (struct raft_heap){.data = replica,
                                       .malloc = heap_malloc,
                                       .free = heap_free,
                                       .calloc = heap_calloc,
                                       .realloc = heap_realloc,
                                       .aligned_alloc = heap_aligned_alloc,
                                       .aligned_free = heap_aligned_free};
}

void mst_replica_heap_fini(struct mst_replica *replica)
{
    struct mst_list *link;

    while ((link = mst_list_take(&replica->blocks)) != NULL) {
        mst_mem_release(&replica->mem, MST_CONTAINER(link, struct block, link));
    }
}
