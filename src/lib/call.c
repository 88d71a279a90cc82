/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: posted, and blocked for. */
#define _GNU_SOURCE
#include <string.h>
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

int64_t mst_lib_left_ms(int64_t timeout_ms, uint64_t deadline_ns)
{
    uint64_t now_ns = mst_lib_now_ns();

    if (timeout_ms <= 0 || deadline_ns == NEVER) {
        return timeout_ms;
    }
    return deadline_ns <= now_ns ? 1 : (int64_t)((deadline_ns - now_ns - 1) / NS_PER_MS) + 1;
}

static bool waits(const struct mst_request *request)
{
    return mst_command_waits(request->command) &&
           !(request->command == MST_GET && !request->get.wait);
}

/* What a timeout of 0 means for this request: a wait ends at once, and then its answer, which says
 * how things stand, is awaited; the answer to anything else is given up after one lease. */
static uint64_t zero_of(const struct muster_client *client, const struct mst_request *request)
{
    uint64_t lease_ns = mst_client_lease_ns(mst_driver_client(client->driver));

    if (waits(request)) {
        return 0;
    }
    return lease_ns > 0 ? lease_ns : STANDARD_LEASE_NS;
}

struct blocked {
    struct muster_client *client;
    struct mst_lib_post post;
    struct mst_lib_outcome *outcome;
    struct muster_error *err;
    const char *what;
    muster_status status;
    uint64_t generation;
    bool waits; /* for somebody else; not only for the service's answer */
    bool done;
};

/* A timeout of which the service knows nothing says nothing about keys and ranks, but why there was
 * no answer. */
static void say_unanswered(struct blocked *blocked)
{
    const struct muster_client *client = blocked->client;
    bool online = mst_client_online(mst_driver_client(client->driver));
    struct mst_text text;

    if (online && blocked->waits) {
        return;
    }
    text = mst_text_in(blocked->err->text, sizeof(blocked->err->text));
    mst_text_add(&text, blocked->what);
    mst_text_add(&text, ": timed out; ");
    if (online || client->trouble[0] == '\0') {
        mst_text_add(&text, "the service does not answer");
    } else {
        mst_text_add(&text, client->trouble);
        blocked->err->os_errno = client->trouble_errno;
    }
}

/* The generation whose keys the request names; 0: none. */
static uint64_t generation_of(const struct mst_request *request)
{
    switch (request->command) {
    case MST_WRITE:
        return request->write.generation;
    case MST_GET:
        return request->get.generation;
    case MST_LIST:
        return request->list.generation;
    case MST_WAIT:
        return request->wait.generation;
    case MST_WATCH:
        return request->watch.generation;
    case MST_OPEN:
    case MST_JOIN:
    case MST_RENEW:
    case MST_LEAVE:
    case MST_CANCEL:
    case MST_ROUND:
    case MST_ROUND_MEMBERS:
    case MST_MEMBERS:
    case MST_ROUNDS:
    case MST_JOBS:
    case MST_HOSTS:
    case MST_FAULT:
    case MST_LOST:
        break;
    }
    return 0;
}

/* The generation may be over, or the whole session: the view tells, if there is one. */
static void say_fenced(struct blocked *blocked, const struct mst_reply *reply)
{
    uint64_t current = reply->has_view ? reply->view.generation : 0;
    struct mst_text text = mst_text_in(blocked->err->text, sizeof(blocked->err->text));

    mst_text_add(&text, blocked->what);
    mst_text_add(&text, ": generation ");
    mst_text_u64(&text, blocked->generation);
    mst_text_add(&text, " is not the current one");
    if (current == 0 || current == blocked->generation) {
        mst_text_add(&text, ", or this process was given up");
    } else {
        mst_text_add(&text, "; the job is in generation ");
        mst_text_u64(&text, current);
    }
}

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
    if (blocked->err && blocked->post.local && reply->status == MUSTER_ETIMEDOUT) {
        say_unanswered(blocked);
    }
    if (blocked->err && blocked->generation != 0 && reply->status == MUSTER_EFENCED) {
        say_fenced(blocked, reply);
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
    if (blocked->done && client->service_gone && blocked->status == MUSTER_EUNREACHABLE) {
        return refuse(client, blocked->err, blocked->what, blocked->status);
    }
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
    struct blocked blocked = {.client = client,
                              .outcome = outcome,
                              .err = err,
                              .what = what,
                              .generation = generation_of(request),
                              .waits = waits(request)};
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

muster_status mst_lib_refuse(struct muster_error *err, const char *what, const char *why)
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

void mst_lib_describe(char what[MST_LIB_WHAT_ROOM], const char *verb, const char *name)
{
    struct mst_text text = mst_text_in(what, MST_LIB_WHAT_ROOM);

    mst_text_add(&text, verb);
    mst_text_add(&text, " '");
    mst_text_slice(&text, mst_slice_text(name));
    mst_text_add(&text, "'");
}

muster_status mst_lib_options(void *out, size_t size, const void *given, const char *init,
                              struct muster_error *err, const char *what)
{
    char why[128];
    struct mst_text text = mst_text_in(why, sizeof(why));
    size_t given_size;

    if (!given) {
        return MUSTER_OK;
    }
    memcpy(&given_size, given, sizeof(given_size));
    if (given_size >= sizeof(given_size) && given_size <= size) {
        memcpy(out, given, given_size);
        return MUSTER_OK;
    }
    mst_text_add(&text, "options.size is not that of this library's options; begin with ");
    mst_text_add(&text, init);
    return mst_lib_refuse(err, what, why);
}

muster_status mst_lib_bytes(struct muster_slice bytes, struct muster_error *err, const char *what)
{
    if (bytes.size > 0 && !bytes.data) {
        return mst_lib_refuse(err, what, "the data is NULL, and its size is not 0");
    }
    return MUSTER_OK;
}

muster_status mst_lib_enter(muster_client *client, struct muster_error *err, const char *what)
{
    if (!client) {
        return mst_lib_refuse(err, what, "the client is NULL");
    }
    if (client->pid != getpid()) {
        return mst_lib_refuse(
            err, what,
            "this client belongs to the parent process; after fork, open one of its own");
    }
    if (mst_lib_holds(client)) {
        return mst_lib_fail(err, MUSTER_EDEADLK, what, NULL);
    }
    if (client->poisoned) {
        return mst_lib_fail(err, MUSTER_EINTERNAL, what, NULL);
    }
    return MUSTER_OK;
}
