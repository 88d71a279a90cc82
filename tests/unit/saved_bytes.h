/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SAVED_BYTES_H
#define SAVED_BYTES_H

/* Where a test of the core puts a snapshot. */

#include "core_fixture.h"

struct saved_bytes {
    unsigned char data[65536];
    size_t size;
};

static inline bool saved_put(void *ctx, struct mst_slice piece)
{
    struct saved_bytes *bytes = ctx;

    assert_true(bytes->size + piece.size <= sizeof bytes->data);
    memcpy(bytes->data + bytes->size, piece.data, piece.size);
    bytes->size += piece.size;
    return true;
}

#endif
