/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/replica/follow.h"

#include "base/fail.h"
#include "base/time.h"
#include "os/short_slice.h"
#include "service/server/addresses.h"
#include "service/server/replica.h"

static muster_status where_it_is(struct mst_uv_hub *hub)
{
    return mst_uv_addresses_set(hub, mst_uv_replica_addresses(hub->feed.replica), !hub->serves);
}

/* Every client that this process has was to be sent on. Only a leader has the short slice: with it,
 * a follower that is woken by a leader on its host would take the CPU from that one, in the midst
 * of the turn. */
static void lead(struct mst_uv_hub *hub)
{
    mst_short_slice();
    mst_uv_hub_drop_all(hub);
    hub->serves = mst_uv_feed_lead(&hub->feed);
    hub->recovering = !hub->serves;
    hub->last_id = mst_later(hub->last_id, hub->feed.last_conn);
    hub->complaints_until_ns = 0;
    hub->now_ns = 0;
}

muster_status mst_uv_follow_begin(struct mst_uv_hub *hub, struct muster_error *err)
{
    if (!hub->feed.replica) {
        return MUSTER_OK;
    }
    hub->links = mst_uv_replica_links(hub->feed.replica);
    return where_it_is(hub) == MUSTER_OK
               ? MUSTER_OK
               : mst_fail(err, MUSTER_ENOMEM, 0, "cannot be a replica: out of memory");
}

/* What came from the others is applied before what clients sent: they may be at the wrong place. */
void mst_uv_follow_turn(struct mst_uv_hub *hub)
{
    bool goes_on;

    if (!hub->feed.replica) {
        return;
    }
    goes_on = mst_uv_feed_follow(&hub->feed);
    hub->core = hub->feed.core;
    if (goes_on && mst_uv_feed_lead_due(&hub->feed)) {
        lead(hub);
    }
    if (!hub->feed.broken && mst_uv_replica_moved(hub->feed.replica) &&
        where_it_is(hub) != MUSTER_OK) {
        hub->feed.broken = true;
    }
}
