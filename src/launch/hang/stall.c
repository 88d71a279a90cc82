/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/hang/stall.h"

#include <stdio.h>

#include "base/panic.h"

/* Refused for another reason than want of room: that generation has ended, and what was seen in it
 * is no news. */
static void on_said(struct mst_delivery *delivery, const struct mst_reply *reply)
{
    struct mst_stall *stall = MST_CONTAINER(delivery, struct mst_stall, delivery);
    bool nobody_is_known = reply->status == MUSTER_OK && reply->number == 0;

    if (nobody_is_known && !stall->is.named) { /* to a service of 0.1 */
        stall->is.named = true;
        mst_deliver(delivery, delivery->client);
    }
}

static muster_status say(struct mst_delivery *delivery)
{
    const struct mst_stall *stall = MST_CONTAINER(delivery, struct mst_stall, delivery);
    const struct mst_request request = {
        .command = MST_FAULT,
        .fault = {.generation = stall->is.generation,
                  .kind = MST_CAUSE_SOFT_TIMEOUT,
                  .text = mst_slice_text(stall->text),
                  .pid = stall->is.pid,
                  .index = stall->is.named ? stall->is.index : MST_INDEX_ANY}};

    return mst_lib_post(delivery->client, &request, UINT64_MAX, &delivery->post);
}

static void lock(muster_client *client)
{
    if (client != NULL) {
        mst_lib_lock(client);
    }
}

static void unlock(muster_client *client)
{
    if (client != NULL) {
        mst_lib_unlock(client);
    }
}

void mst_stall_set(struct mst_stall *stall, muster_client *client, const struct mst_stalled *is)
{
    lock(client);
    mst_deliver_stop(&stall->delivery);
    stall->is = *is;
    (void)snprintf(stall->text, sizeof stall->text, "%s", is->text);
    stall->delivery.send = say;
    stall->delivery.arrived = on_said;
    mst_deliver(&stall->delivery, client);
    unlock(client);
}

bool mst_stall_owed(const struct mst_stall *stall, muster_client *client)
{
    bool owed;

    lock(client);
    owed = stall->delivery.owed;
    unlock(client);
    return owed;
}
