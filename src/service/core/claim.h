/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_CLAIM_H
#define MST_SERVICE_CORE_CLAIM_H

/* OPEN: resuming a session, or a new one that claims a place.
 *
 *   token known ------------------------------> resumed
 *   token lost, or an incarnation named ------> EFENCED
 *   place free -------------------------------> admitted, in a new incarnation
 *   place held -------------------------------> waits; a second claim: EEXISTS */

#include "service/core/session.h"

/* Returns what a handler returns: handlers.h. */
muster_status mst_claim_open(struct mst_core *core, struct mst_link *link,
                             struct mst_waiter *waiter, const struct mst_open *open);

/* A session that waits for a place stops waiting, and ends. */
void mst_claim_withdraw(struct mst_session *session);

#endif
