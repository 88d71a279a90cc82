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

    if (nobody_is_known && stall->index == MST_INDEX_ANY) { /* to a service of 0.1 */
        stall->index = stall->instead;
        mst_deliver(delivery, delivery->client);
    }
}

static muster_status say(struct mst_delivery *delivery)
{
    const struct mst_stall *stall = MST_CONTAINER(delivery, struct mst_stall, delivery);
    const struct mst_request request = {.command = MST_FAULT,
                                        .fault = {.generation = stall->generation,
                                                  .kind = MST_CAUSE_SOFT_TIMEOUT,
                                                  .text = mst_slice_text(stall->text),
                                                  .pid = stall->pid,
                                                  .index = stall->index}};

    return mst_lib_post(delivery->client, &request, UINT64_MAX, &delivery->post);
}

void mst_stall_set(struct mst_stall *stall, muster_client *client, uint64_t generation,
                   const char *text)
{
    mst_deliver_stop(&stall->delivery);
    stall->generation = generation;
    (void)snprintf(stall->text, sizeof stall->text, "%s", text);
    stall->delivery.send = say;
    stall->delivery.arrived = on_said;
    mst_deliver(&stall->delivery, client);
}
