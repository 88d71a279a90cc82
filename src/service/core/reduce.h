/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_REDUCE_H
#define MST_SERVICE_CORE_REDUCE_H

/* What becomes of contributions. Sums are exact whatever the order of arrival: an element may leave
 * int64 on the way and come back; only a result outside is an error. */

#include "service/core/round.h"

/* Whether `data` can be a contribution under `reduce` at all. */
bool mst_reduce_accepts(enum mst_reduce reduce, struct mst_slice data);

/* Reserves for the first contribution. False: no memory. */
bool mst_reduce_start(struct mst_core *core, struct mst_round *round, struct mst_slice data);

/* Takes a contribution in; `part->differs` says whether the round can succeed with it. ENOMEM:
 * nothing was changed. */
muster_status mst_reduce_add(struct mst_core *core, struct mst_round *round,
                             struct mst_round_part *part, struct mst_slice data);

/* Ends the reduction of at least one contribution: OK or ERANGE. */
muster_status mst_reduce_finish(struct mst_round *round);

#endif
