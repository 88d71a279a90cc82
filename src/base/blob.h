/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_BASE_BLOB_H
#define MST_BASE_BLOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/slice.h"

/* Counted immutable bytes: one value, many receivers. The count is not atomic: a blob belongs to
 * one machine. Only its creator may write `bytes`, before the second reference. */
struct mst_blob {
    uint32_t references;
    bool pinned; /* for the machine: only undelivered replies hold it */
    size_t size;
    unsigned char bytes[];
};

/* A copy of the slice with one reference, or NULL. */
struct mst_blob *mst_blob_new(const struct mst_mem *mem, struct mst_slice content);
/* Likewise of two slices, concatenated. */
struct mst_blob *mst_blob_join(const struct mst_mem *mem, struct mst_slice a, struct mst_slice b);
struct mst_blob *mst_blob_keep(struct mst_blob *blob); /* NULL stays NULL */
void mst_blob_drop(const struct mst_mem *mem, struct mst_blob *blob);

/* NULL: empty. */
static inline struct mst_slice mst_blob_slice(const struct mst_blob *blob)
{
    return blob ? mst_slice_of(blob->bytes, blob->size) : mst_slice_of(NULL, 0);
}

#endif
