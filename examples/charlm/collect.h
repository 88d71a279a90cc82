/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHARLM_COLLECT_H
#define CHARLM_COLLECT_H

/* Collective operations on a ring. They end as the ring does: EINTERRUPTED. */

#include "ring.h"

/* total[i] = ((mine of rank 0, in order) + mine of rank 1) + ..., one addition after the other in
 * this order: the same bits for any distribution of the parts over the ranks. All ranks get it. */
muster_status collect_sum(struct ring *ring, float *total, size_t count, const float *const *mine,
                          size_t mine_count);

/* Copies `data` of rank `root` to all ranks. */
muster_status collect_share(struct ring *ring, uint32_t root, void *data, size_t size);

#endif
