/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_RENDER_H
#define MST_SERVICE_CORE_RENDER_H

/* A decided waiter as the reply that the codec encodes. Nothing is allocated: numbers are copied,
 * bytes are borrowed from the waiter or from the state. */

#include "service/core/state.h"

void mst_render_reply(struct mst_core *core, struct mst_waiter *waiter);

/* Whether the reply is a page: the records that are visited for it count as walked. */
bool mst_render_searches(const struct mst_waiter *waiter);

#endif
