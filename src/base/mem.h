/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_BASE_MEM_H
#define MST_BASE_MEM_H

#include <stddef.h>

/* The allocator a machine was born with. `alloc` returns memory aligned for any type, or NULL;
 * `release(NULL)` is a no-op. Every allocation of a machine goes through one of these, so that a
 * test can fail the n-th. */
struct mst_mem {
    void *ctx;
    void *(*alloc)(void *ctx, size_t size);
    void (*release)(void *ctx, void *p);
};

/* Like alloc, but the memory is zeroed. NULL when there is none. */
void *mst_mem_zalloc(const struct mst_mem *mem, size_t size);

/* An array of `count` zeroed elements; NULL also when the product would overflow. */
void *mst_mem_array(const struct mst_mem *mem, size_t count, size_t size);

void mst_mem_release(const struct mst_mem *mem, void *p);

#endif
