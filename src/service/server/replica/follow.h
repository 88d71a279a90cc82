/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_REPLICA_FOLLOW_H
#define MST_SERVICE_SERVER_REPLICA_FOLLOW_H

/* What the hub of one of several replicas does as a follower, and when it is elected. Without
 * replicas nothing. */

#include "service/server/hub.h"

/* The hub is there: clients are to be sent on until it leads. ENOMEM. */
muster_status mst_uv_follow_begin(struct mst_uv_hub *hub, struct muster_error *err);

/* At the begin of a turn, before the core ticks. hub->feed.broken: this replica has ended. */
void mst_uv_follow_turn(struct mst_uv_hub *hub);

#endif
