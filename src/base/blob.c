/* SPDX-License-Identifier: Apache-2.0 */
#include "base/blob.h"

#include <string.h>

#include "base/panic.h"

struct mst_blob *mst_blob_join(const struct mst_mem *mem, struct mst_slice a, struct mst_slice b)
{
    struct mst_blob *blob = NULL;

    if (a.size <= SIZE_MAX - sizeof(*blob) && b.size <= SIZE_MAX - sizeof(*blob) - a.size) {
        blob = mem->alloc(mem->ctx, sizeof(*blob) + a.size + b.size);
    }
    if (!blob) {
        return NULL;
    }
    blob->references = 1;
    blob->pinned = false;
    blob->size = a.size + b.size;
    if (a.size > 0) {
        memcpy(blob->bytes, a.data, a.size);
    }
    if (b.size > 0) {
        memcpy(blob->bytes + a.size, b.data, b.size);
    }
    return blob;
}

struct mst_blob *mst_blob_new(const struct mst_mem *mem, struct mst_slice content)
{
    return mst_blob_join(mem, content, mst_slice_of(NULL, 0));
}

struct mst_blob *mst_blob_keep(struct mst_blob *blob)
{
    if (blob) {
        MST_ASSERT(blob->references > 0 && blob->references < UINT32_MAX);
        blob->references++;
    }
    return blob;
}

void mst_blob_drop(const struct mst_mem *mem, struct mst_blob *blob)
{
    if (!blob) {
        return;
    }
    MST_ASSERT(blob->references > 0);
    if (--blob->references == 0) {
        mst_mem_release(mem, blob);
    }
}
