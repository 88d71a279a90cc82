/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/hang/stall.h"

#include <stdio.h>

static bool no_room(muster_status status)
{
    return status == MUSTER_ENOMEM || status == MUSTER_ENOSPACE || status == MUSTER_ELIMIT;
}

/* Refused for another reason: that generation has ended, and what was seen in it is no news. */
static void on_said(void *ctx, const struct mst_reply *reply)
{
    struct mst_stall *stall = ctx;

    bool nobody_is_known = !stall->post.local && reply->status == MUSTER_OK && reply->number == 0;

    stall->owed = no_room(reply->status) || (stall->post.local && stall->outlives);
    if (nobody_is_known && stall->index == MST_INDEX_ANY) { /* to a service of 0.1 */
        stall->index = stall->instead;
        stall->owed = true;
        mst_stall_say(stall, stall->client);
        return;
    }
    if (stall->owed && !stall->post.local && stall->refused != NULL) {
        stall->refused(stall->ctx);
    }
}

void mst_stall_say(struct mst_stall *stall, muster_client *client)
{
    struct mst_request request = {.command = MST_FAULT,
                                  .fault = {.generation = stall->generation,
                                            .kind = MST_CAUSE_SOFT_TIMEOUT,
                                            .text = mst_slice_text(stall->text),
                                            .pid = stall->pid,
                                            .index = stall->index}};
    muster_status status;

    if (!stall->owed || client == NULL) {
        return;
    }
    stall->client = client;
    stall->post = (struct mst_lib_post){.complete = on_said, .ctx = stall};
    status = mst_lib_post(client, &request, UINT64_MAX, &stall->post);
    stall->owed = no_room(status) || (status != MUSTER_OK && stall->outlives);
    if (no_room(status) && stall->refused != NULL) {
        stall->refused(stall->ctx);
    }
}

void mst_stall_set(struct mst_stall *stall, muster_client *client, uint64_t generation,
                   const char *text)
{
    if (client != NULL) {
        mst_lib_post_drop(client, &stall->post);
    }
    stall->generation = generation;
    (void)snprintf(stall->text, sizeof stall->text, "%s", text);
    stall->owed = true;
    mst_stall_say(stall, client);
}

bool mst_stall_unheard(const struct mst_stall *stall)
{
    return stall->owed || stall->post.open;
}
