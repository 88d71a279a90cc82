/* SPDX-License-Identifier: Apache-2.0 */
#include "client/shell/deliver.h"

#include "proto/retry.h"

static void send_now(void *ctx);

/* `local`: the status is not from the service. */
static void answered(struct mst_delivery *delivery, const struct mst_reply *reply, bool local)
{
    if (mst_retry_helps(reply->status)) {
        delivery->refusals++;
        delivery->timer.fire = send_now;
        delivery->timer.ctx = delivery;
        mst_lib_timer_set(delivery->client, &delivery->timer,
                          mst_lib_now_ns() + mst_retry_after_ns(delivery->refusals));
        return;
    }
    delivery->refusals = 0;
    if (local && delivery->outlives) {
        return;
    }
    delivery->owed = false;
    if (delivery->arrived) {
        delivery->arrived(delivery, reply);
    }
}

static void complete(void *ctx, const struct mst_reply *reply)
{
    struct mst_delivery *delivery = ctx;

    if (delivery->again) {
        send_now(delivery);
    } else {
        answered(delivery, reply, delivery->post.local);
    }
}

static void send_now(void *ctx)
{
    struct mst_delivery *delivery = ctx;
    struct mst_reply refusal = {0};

    delivery->again = false;
    delivery->post = (struct mst_lib_post){.complete = complete, .ctx = delivery};
    refusal.status = delivery->send(delivery);
    if (refusal.status != MUSTER_OK) {
        answered(delivery, &refusal, true);
    }
}

void mst_deliver(struct mst_delivery *delivery, muster_client *client)
{
    delivery->owed = true;
    if (!client) {
        return;
    }
    delivery->client = client;
    if (delivery->post.open) {
        delivery->again = true;
    } else {
        mst_lib_timer_stop(&delivery->timer);
        send_now(delivery);
    }
}

void mst_deliver_stop(struct mst_delivery *delivery)
{
    mst_lib_timer_stop(&delivery->timer);
    if (delivery->client) {
        mst_lib_post_drop(delivery->client, &delivery->post);
    }
}
