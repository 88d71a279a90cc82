/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_REDUCE_H
#define MST_SERVICE_CORE_REDUCE_H

/* What becomes of contributions. No result depends on the order of arrival:
 *
 * - most reductions combine each contribution into the value as it arrives. A sum of integers is
 *   exact: an element may leave int64 on the way and come back; only a result outside is an error;
 * - a gather and a sum of doubles keep the contributions until the end, for the result follows the
 *   order of the parts. The sum then adds into the first one's buffer, so the end needs no memory;
 * - a broadcast takes the value from one part. */

#include "service/core/round.h"

/* Whether `data` can be a contribution under `reduce` at all. */
bool mst_reduce_accepts(enum mst_reduce reduce, struct mst_slice data);

/* Whether the parts have data of their own. */
bool mst_reduce_keeps(enum mst_reduce reduce);

/* Reserves for the first contribution. False: no memory. */
bool mst_reduce_start(struct mst_core *core, struct mst_round *round, struct mst_slice data);

/* Takes a contribution in; `part->differs` says whether the round can succeed with it. ENOMEM:
 * nothing was changed. */
muster_status mst_reduce_add(struct mst_core *core, struct mst_round *round,
                             struct mst_round_part *part, struct mst_slice data);

/* Ends the reduction of at least one contribution: OK or ERANGE. */
muster_status mst_reduce_finish(struct mst_round *round);

#endif
