/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: posted, and blocked for. */
#define _GNU_SOURCE
#include <unistd.h>

#include "lib/handle.h"
#include "msg/command.h"

#define NEVER UINT64_MAX
#define NS_PER_MS 1000000u
#define STANDARD_LEASE_NS (10000 * (uint64_t)NS_PER_MS)

/* The post is its own tag: one object, one open call. */
static uint64_t tag_of(struct mst_lib_post *post)
{
    return (uint64_t)(uintptr_t)post;
}

muster_status mst_lib_post(muster_client *client, const struct mst_request *request,
                           uint64_t deadline_ns, struct mst_lib_post *post)
{
    muster_status status;

    if (client->ended || client->poisoned) {
        return mst_lib_status(client);
    }
    status = mst_client_call(mst_driver_client(client->driver), mst_lib_now_ns(), request,
                             deadline_ns, tag_of(post));
    post->open = status == MUSTER_OK;
    post->local = false;
    client->dirty = true;
    return status;
}

void mst_lib_post_cancel(muster_client *client, struct mst_lib_post *post)
{
    if (post->open) {
        mst_client_cancel(mst_driver_client(client->driver), mst_lib_now_ns(), tag_of(post));
        client->dirty = true;
    }
}

void mst_lib_post_drop(muster_client *client, struct mst_lib_post *post)
{
    if (post->open) {
        post->open = false;
        mst_client_drop(mst_driver_client(client->driver), mst_lib_now_ns(), tag_of(post));
        client->dirty = true;
    }
}

/* ---- blocking ---- */

uint64_t mst_lib_deadline_ns(int64_t timeout_ms, uint64_t zero_ns)
{
    uint64_t now_ns = mst_lib_now_ns();
    uint64_t wait_ns = zero_ns;

    if (timeout_ms < 0) {
        return NEVER;
    }
    if (timeout_ms > 0) {
        if ((uint64_t)timeout_ms > (NEVER - now_ns) / NS_PER_MS) {
            return NEVER;
        }
        wait_ns = (uint64_t)timeout_ms * NS_PER_MS;
    }
    return wait_ns > NEVER - now_ns ? NEVER : now_ns + wait_ns;
}

/* What a timeout of 0 means for this request: a wait ends at once, and then its answer, which says
 * how things stand, is awaited; the answer to anything else is given up after one lease. */
static uint64_t zero_of(const struct muster_client *client, const struct mst_request *request)
{
    uint64_t lease_ns = mst_client_lease_ns(mst_driver_client(client->driver));

    if (mst_command_waits(request->command) &&
        !(request->command == MST_GET && !request->get.wait)) {
        return 0;
    }
    return lease_ns > 0 ? lease_ns : STANDARD_LEASE_NS;
}

struct blocked {
    struct mst_lib_post post;
    struct mst_lib_outcome *outcome;
    struct muster_error *err;
    const char *what;
    muster_status status;
    bool done;
};

static void complete(void *ctx, const struct mst_reply *reply)
{
    struct blocked *blocked = ctx;

    blocked->done = true;
    blocked->status = reply->status;
    blocked->outcome->local = blocked->post.local;
    if (blocked->outcome->on_reply) {
        blocked->outcome->on_reply(blocked->outcome->ctx, reply);
    }
    if (reply->status < 0) {
        (void)mst_lib_fail(blocked->err, reply->status, blocked->what, reply);
    }
}

static bool is_done(void *ctx)
{
    return ((struct blocked *)ctx)->done;
}

/* With the lock: why a call cannot be made, or was not answered. */
static muster_status refuse(struct muster_client *client, struct muster_error *err,
                            const char *what, muster_status status)
{
    if (client->poisoned || client->ended) {
        return mst_lib_fail_again(client, err, what);
    }
    return mst_lib_fail(err, status, what, NULL);
}

static muster_status call_locked(struct muster_client *client, const struct mst_request *request,
                                 uint64_t deadline_ns, struct blocked *blocked)
{
    muster_status status = mst_lib_post(client, request, deadline_ns, &blocked->post);

    if (status != MUSTER_OK) {
        return refuse(client, blocked->err, blocked->what, status);
    }
    (void)mst_lib_wait_interruptible(client, is_done, blocked, NEVER);
    if (blocked->done) {
        return blocked->status;
    }
    if (client->poisoned) { /* the machine must not be touched */
        return refuse(client, blocked->err, blocked->what, MUSTER_EINTERNAL);
    }
    mst_lib_post_drop(client, &blocked->post);
    return mst_lib_fail(blocked->err, client->closing ? MUSTER_ECANCELLED : MUSTER_EINTERRUPTED,
                        blocked->what, NULL);
}

muster_status mst_lib_call_full(struct muster_client *client, const struct mst_request *request,
                                int64_t timeout_ms, struct mst_lib_outcome *outcome,
                                struct muster_error *err, const char *what)
{
    struct blocked blocked = {.outcome = outcome, .err = err, .what = what};
    muster_status status = mst_lib_enter(client, err, what);

    if (status != MUSTER_OK) {
        return status;
    }
    outcome->local = true;
    blocked.post.complete = complete;
    blocked.post.ctx = &blocked;
    mst_lib_lock(client);
    if (client->closing) {
        status = mst_lib_fail(err, MUSTER_ECANCELLED, what, NULL);
    } else if (client->interrupted) {
        status = mst_lib_fail(err, MUSTER_EINTERRUPTED, what, NULL);
    } else {
        status = call_locked(client, request,
                             mst_lib_deadline_ns(timeout_ms, zero_of(client, request)), &blocked);
    }
    mst_lib_unlock(client);
    return status;
}

muster_status mst_lib_call(muster_client *client, const struct mst_request *request,
                           int64_t timeout_ms, mst_lib_reply_fn *on_reply, void *ctx,
                           struct muster_error *err, const char *what)
{
    struct mst_lib_outcome outcome = {.on_reply = on_reply, .ctx = ctx};

    return mst_lib_call_full(client, request, timeout_ms, &outcome, err, what);
}

/* ---- entering ---- */

static muster_status say(struct muster_error *err, const char *what, const char *why)
{
    if (err) {
        struct mst_text text = mst_text_in(err->text, sizeof(err->text));

        err->status = MUSTER_EINVAL;
        err->os_errno = 0;
        mst_text_add(&text, what);
        mst_text_add(&text, ": ");
        mst_text_add(&text, why);
    }
    return MUSTER_EINVAL;
}

muster_status mst_lib_refuse(struct muster_error *err, const char *what, const char *why)
{
    return say(err, what, why);
}

muster_status mst_lib_enter(muster_client *client, struct muster_error *err, const char *what)
{
    if (!client) {
        return say(err, what, "the client is NULL");
    }
    if (client->pid != getpid()) {
        return say(err, what,
                   "this client belongs to the parent process; after fork, open one of its own");
    }
    if (mst_lib_holding == client) {
        return mst_lib_fail(err, MUSTER_EDEADLK, what, NULL);
    }
    if (client->poisoned) {
        return mst_lib_fail(err, MUSTER_EINTERNAL, what, NULL);
    }
    return MUSTER_OK;
}
