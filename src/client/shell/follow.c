/* SPDX-License-Identifier: Apache-2.0 */
#include "client/shell/follow.h"

static void fire(void *ctx)
{
    mst_lib_follow_on(ctx);
}

static void refused(struct mst_lib_follow *follow)
{
    mst_follow_refused(&follow->state, mst_lib_now_ns());
    follow->timer.fire = fire;
    follow->timer.ctx = follow;
    mst_lib_timer_set(follow->client, &follow->timer, follow->state.again_ns);
}

static void over(const struct mst_lib_follow *follow, muster_status status)
{
    if (follow->over) {
        follow->over(follow->ctx, status);
    }
}

static void take(struct mst_lib_follow *follow, const struct mst_reply *reply)
{
    muster_status status = follow->take(follow->ctx, reply);

    if (status == MUSTER_OK || status == MUSTER_MORE) {
        mst_follow_took(&follow->state, reply);
    }
    if (status == MUSTER_OK) {
        mst_lib_follow_on(follow);
    } else if (status == MUSTER_ENOMEM) {
        refused(follow);
    }
}

/* A local status is that of the session's end. The service's EFENCED arrives before that end is
 * known here. */
static void complete(void *ctx, const struct mst_reply *reply)
{
    struct mst_lib_follow *follow = ctx;

    if (reply->status == MUSTER_OK) {
        take(follow, reply);
    } else if (follow->post.local || reply->status == MUSTER_EFENCED) {
        over(follow, reply->status);
    } else {
        refused(follow);
    }
}

void mst_lib_follow_on(struct mst_lib_follow *follow)
{
    muster_status status;

    follow->post = (struct mst_lib_post){.complete = complete, .ctx = follow};
    status = mst_lib_post(follow->client, &follow->state.request, NEVER, &follow->post);
    if (status != MUSTER_OK && mst_lib_status(follow->client) == MUSTER_OK) {
        refused(follow);
    } else if (status != MUSTER_OK) {
        over(follow, status);
    }
}

void mst_lib_follow_after(struct mst_lib_follow *follow, muster_client *client, uint32_t kinds,
                          struct mst_slice prefix, uint32_t node, uint64_t revision)
{
    mst_lib_follow_end(follow);
    follow->client = client;
    mst_follow_begin(&follow->state, kinds, prefix, node);
    follow->state.request.watch.after = revision;
    mst_lib_follow_on(follow);
}

void mst_lib_follow(struct mst_lib_follow *follow, muster_client *client, uint32_t kinds,
                    struct mst_slice prefix, uint32_t node)
{
    mst_lib_follow_after(follow, client, kinds, prefix, node, 0);
}

void mst_lib_follow_end(struct mst_lib_follow *follow)
{
    if (follow->client) {
        mst_lib_timer_stop(&follow->timer);
        mst_lib_post_drop(follow->client, &follow->post);
    }
}
