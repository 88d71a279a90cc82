/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <stdint.h>
#include <string.h>

void *mst_mem_zalloc(const struct mst_mem *mem, size_t size)
{
    void *p = mem->alloc(mem->ctx, size);

    if (p) {
        memset(p, 0, size);
    }
    return p;
}

void *mst_mem_array(const struct mst_mem *mem, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size) {
        return NULL;
    }
    return mst_mem_zalloc(mem, count * size);
}

void mst_mem_release(const struct mst_mem *mem, void *p)
{
    mem->release(mem->ctx, p);
}
