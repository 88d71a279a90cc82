/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_PIN_H
#define MST_SERVICE_CORE_PIN_H

/* Memory that no state counts, only what waits on connections:
 *
 *   waits   GETs, WAITs and WATCHes that wait, with their lists and the names that they wait for
 *   values  that replies hold and no key does any more: it was written or deleted since
 *   rounds  likewise, whose name has a newer result or is gone
 *
 * A reply that is sent at once holds them for a moment. A deferred one, or one to a client that
 * does not read, holds them for as long as its connection lasts: so they are counted, and a
 * connection is charged its share. Memory that several replies hold is shared between them.
 * The value of a JOIN is left out: a connection has one JOIN. */

#include "service/core/round.h"
#include "service/core/waiter.h"

/* Drops the state's reference. Only replies may hold others. */
void mst_pin_leave_value(struct mst_core *core, struct mst_blob *value);
void mst_pin_leave_round(struct mst_core *core, struct mst_round *round);

/* Drops a reply's reference. NULL is fine. */
void mst_pin_drop_value(struct mst_core *core, struct mst_blob *value);
void mst_pin_drop_round(struct mst_core *core, struct mst_round *round);

/* This reply's share of values and rounds. */
uint64_t mst_pin_share(const struct mst_waiter *waiter);

#endif
