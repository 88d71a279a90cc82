/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_RENDER_H
#define MST_SERVICE_CORE_RENDER_H

/* A decided waiter as the reply that the codec encodes. Nothing is allocated: numbers are copied,
 * bytes are borrowed from what the waiter holds or from the state itself. */

#include "service/core/state.h"

void mst_render_reply(struct mst_core *core, struct mst_waiter *waiter);

/* Whether the reply is a page: what is looked at for it counts as walked. */
bool mst_render_searches(const struct mst_waiter *waiter);

/* The handler of the page commands that need only a cursor: see core.c. */
muster_status mst_render_request(struct mst_session *session, struct mst_waiter *waiter,
                                 const struct mst_request *request);

#endif
