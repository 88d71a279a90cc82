/* SPDX-License-Identifier: Apache-2.0 */
#include "collect.h"

#include <string.h>

enum { CHUNK_FLOATS = 8192, CHUNK_BYTES = CHUNK_FLOATS * (int)sizeof(float) };

muster_status collect_share(struct ring *ring, uint32_t root, void *data, size_t size)
{
    struct muster_view me;
    muster_restart_view(ring->restart, &me);
    bool receives = me.rank != root;
    bool sends = me.size > 1 && (me.rank + 1) % me.size != root;
    muster_status status = MUSTER_OK;
    for (size_t at = 0; at < size && status == MUSTER_OK; at += CHUNK_BYTES) {
        size_t part = size - at < CHUNK_BYTES ? size - at : CHUNK_BYTES;
        char *chunk = (char *)data + at;
        if (receives) {
            status = ring_move(ring, RING_PREVIOUS, chunk, part);
        }
        if (sends && status == MUSTER_OK) {
            status = ring_move(ring, RING_NEXT, chunk, part);
        }
    }
    return status;
}

/* The partial sum runs from rank 0 to the last one, chunk by chunk so that all work at once; the
 * last one then has the total and shares it. Both are lines and no circle, so no rank can wait for
 * itself with full socket buffers. */
muster_status collect_sum(struct ring *ring, float *total, size_t count, const float *const *mine,
                          size_t mine_count)
{
    struct muster_view me;
    muster_restart_view(ring->restart, &me);
    muster_status status = MUSTER_OK;
    for (size_t at = 0; at < count && status == MUSTER_OK; at += CHUNK_FLOATS) {
        size_t part = count - at < CHUNK_FLOATS ? count - at : CHUNK_FLOATS;
        float *sum = total + at;
        if (me.rank == 0) {
            memset(sum, 0, part * sizeof *sum);
        } else {
            status = ring_move(ring, RING_PREVIOUS, sum, part * sizeof *sum);
        }
        for (size_t k = 0; k < mine_count; k++) {
            for (size_t i = 0; i < part; i++) {
                sum[i] += mine[k][at + i];
            }
        }
        if (me.rank + 1 < me.size && status == MUSTER_OK) {
            status = ring_move(ring, RING_NEXT, sum, part * sizeof *sum);
        }
    }
    return status == MUSTER_OK ? collect_share(ring, me.size - 1, total, count * sizeof *total)
                               : status;
}
