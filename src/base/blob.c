/* SPDX-License-Identifier: Apache-2.0 */
#include "base/blob.h"

#include <string.h>

#include "base/panic.h"

struct mst_blob *mst_blob_new(const struct mst_mem *mem, struct mst_slice content)
{
    struct mst_blob *blob = NULL;

    if (content.size <= SIZE_MAX - sizeof(*blob)) {
        blob = mem->alloc(mem->ctx, sizeof(*blob) + content.size);
    }
    if (!blob) {
        return NULL;
    }
    blob->references = 1;
    blob->size = content.size;
    if (content.size > 0) {
        memcpy(blob->bytes, content.data, content.size);
    }
    return blob;
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

struct mst_slice mst_blob_slice(const struct mst_blob *blob)
{
    return blob ? mst_slice_of(blob->bytes, blob->size) : mst_slice_of(NULL, 0);
}
