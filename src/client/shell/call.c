/* SPDX-License-Identifier: Apache-2.0 */
/* Posts, and calls of the public API. */
#define _GNU_SOURCE
#include <string.h>

#include "client/shell/call.h"
#include "os/own_pid.h"
#include "process/page.h"
#include "proto/command.h"

#define STANDARD_LEASE_NS (10000 * NS_PER_MS)

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
    status = mst_client_call(mst_lib_machine(client), mst_lib_now_ns(), request, deadline_ns,
                             tag_of(post));
    post->open = status == MUSTER_OK;
    post->local = false;
    client->dirty = true;
    return status;
}

void mst_lib_post_cancel(muster_client *client, struct mst_lib_post *post)
{
    if (post->open) {
        mst_client_cancel(mst_lib_machine(client), mst_lib_now_ns(), tag_of(post));
        client->dirty = true;
    }
}

void mst_lib_post_drop(muster_client *client, struct mst_lib_post *post)
{
    if (post->open) {
        post->open = false;
        mst_client_drop(mst_lib_machine(client), mst_lib_now_ns(), tag_of(post));
        client->dirty = true;
    }
}

/* ---- time ---- */

uint64_t mst_lib_deadline_ns(int64_t timeout_ms, uint64_t zero_ns)
{
    uint64_t now_ns = mst_lib_now_ns();

    if (timeout_ms < 0) {
        return NEVER;
    }
    return timeout_ms > 0 ? mst_after_ms(now_ns, (uint64_t)timeout_ms)
                          : mst_after_ns(now_ns, zero_ns);
}

int64_t mst_lib_left_ms(int64_t timeout_ms, uint64_t deadline_ns)
{
    uint64_t now_ns = mst_lib_now_ns();

    if (timeout_ms <= 0 || deadline_ns == NEVER) {
        return timeout_ms;
    }
    return deadline_ns <= now_ns ? 1 : (int64_t)mst_ms_until(deadline_ns, now_ns);
}

uint64_t mst_lib_lease_ns(const struct muster_client *client)
{
    uint64_t lease_ns = mst_client_lease_ns(mst_lib_machine(client));

    return lease_ns > 0 ? lease_ns : STANDARD_LEASE_NS;
}

/* The meaning of a timeout of 0: a wait ends at once, and the answer that describes its state is
 * awaited; any other request is awaited for one lease. */
static uint64_t zero_of(const struct muster_client *client, const struct mst_request *request)
{
    return mst_client_waits(request) ? 0 : mst_lib_lease_ns(client);
}

/* ---- texts of failures ---- */

/* A timeout that this side decided on has no names of keys and ranks, but a reason for which no
 * answer came. */
static void say_unanswered(struct mst_call *call)
{
    const struct muster_client *client = call->client;
    bool online = mst_client_online(mst_lib_machine(client));
    bool is_known = !online && client->trouble[0] != '\0';

    if (online && mst_client_waits(&call->request)) {
        return;
    }
    (void)mst_fail(call->err, call->err->status,
                   is_known ? client->trouble_errno : call->err->os_errno, "%s: timed out; %s",
                   call->what, is_known ? client->trouble : "the service does not answer");
}

/* The generation may be over, or the whole session: the view decides, if there is one. */
static void say_fenced(struct mst_call *call, uint64_t generation, const struct mst_reply *reply)
{
    struct mst_text text = mst_text_in(call->err->text, sizeof(call->err->text));
    uint64_t current = reply->has_view ? reply->view.generation : 0;

    mst_text_format(&text, "%s: generation %" PRIu64 " is not the current one", call->what,
                    generation);
    if (current == 0 || current == generation) {
        mst_text_add(&text, ", or this process was replaced");
    } else {
        mst_text_format(&text, "; the job is in generation %" PRIu64, current);
    }
}

#define WHAT_OF_ONE (MST_LIB_WHAT_ROOM + 64)

/* Whether it is about one write of a batch. A limit may be of them all. */
static bool is_of_one(const struct mst_reply *reply)
{
    return reply->status == MUSTER_EEXISTS || reply->status == MUSTER_ECONFLICT ||
           reply->status == MUSTER_ERANGE;
}

static void say_reply(struct mst_call *call, const struct mst_reply *reply)
{
    char what[WHAT_OF_ONE];
    struct mst_slice key = {0};
    uint64_t generation;

    if (!call->err) {
        return;
    }
    if (call->request.command == MST_WRITE && call->kept && is_of_one(reply)) {
        key = mst_batch_key(call->kept, (uint64_t)reply->number);
    }
    if (key.size > 0) {
        mst_text_print(what, sizeof(what), "%s: '%.*s'", call->what, MST_SLICE_ARGS(key));
    }
    (void)mst_lib_fail(call->err, reply->status, key.size > 0 ? what : call->what, reply);
    if (call->local && reply->status == MUSTER_ETIMEDOUT) {
        say_unanswered(call);
    }
    generation = reply->status == MUSTER_EFENCED ? mst_client_key_space(&call->request) : 0;
    if (generation != 0) {
        say_fenced(call, generation, reply);
    }
}

/* The size of values and contributions, which alone may be large. */
static uint64_t payload_of(const struct mst_request *request)
{
    uint64_t bytes = request->command == MST_ROUND ? request->round.data.size : 0;

    for (uint32_t i = 0; request->command == MST_WRITE && i < request->write.count; i++) {
        uint64_t size = request->write.ops[i].value.size;

        bytes = size > UINT64_MAX - bytes ? UINT64_MAX : bytes + size;
    }
    return bytes;
}

/* Before anything is copied. */
static muster_status too_large(struct mst_call *call, uint64_t bytes)
{
    return mst_fail(call->err, MUSTER_ELIMIT, 0,
                    "%s: %" PRIu64 " bytes, and a message to this service has at most %" PRIu64
                    " (--frame-bytes-max of `muster serve`); raise it there, or send less at once",
                    call->what, bytes, mst_driver_frame_max(call->client->driver));
}

/* The reason for which a call cannot be made, or was not answered. */
static muster_status refuse(struct mst_call *call, muster_status status)
{
    if (call->client->poisoned || call->client->ended) {
        return mst_lib_fail_again(call->client, call->err, call->what);
    }
    if (status == MUSTER_ELIMIT && mst_client_piles_up(&call->request)) {
        return mst_fail(call->err, MUSTER_ELIMIT, 0,
                        "%s: the calls of this client that wait for keys and changes hold %" PRIu64
                        " MiB, which is the limit; let some end first",
                        call->what, MST_CLIENT_WAIT_BYTES_MAX >> 20);
    }
    return mst_lib_fail(call->err, status, call->what, NULL);
}

/* ---- the states of a call, lock held ---- */

static void finish(struct mst_call *call, muster_status status)
{
    call->status = status;
    call->over = true;
    call->client->open_calls -= !mst_client_piles_up(&call->request);
    if (call->ended) {
        call->ended(call);
    }
    if (call->started) {
        mst_call_queue(call);
    }
}

static muster_status post(struct mst_call *call)
{
    uint64_t deadline_ns = call->deadline_ns;
    muster_status status;

    if (call->timeout_ms == 0) {
        deadline_ns = mst_lib_deadline_ns(0, zero_of(call->client, &call->request));
    }
    status = mst_lib_post(call->client, &call->request, deadline_ns, &call->post);
    if (status != MUSTER_OK) {
        call->local = true;
        call->said = status;
        finish(call, refuse(call, status));
    }
    return status;
}

static void complete(void *ctx, const struct mst_reply *reply)
{
    struct mst_call *call = ctx;
    muster_status status;

    call->said = reply->status;
    call->local = call->post.local;
    status = call->take ? call->take(call, reply) : reply->status;
    if (status == MUSTER_MORE) {
        (void)post(call);
        return;
    }
    if (status < 0 && status == reply->status) {
        say_reply(call, reply);
    } else if (status < 0) {
        (void)mst_lib_fail(call->err, status, call->what, NULL);
    }
    finish(call, status);
}

/* The library's own requests do not count, and always find room. */
static muster_status too_many(struct mst_call *call)
{
    return mst_fail(call->err, MUSTER_ELIMIT, 0,
                    "%s: %u calls of this client are open, which is the limit; let some end first",
                    call->what, MST_LIB_CALLS_MAX);
}

muster_status mst_call_begin(struct mst_call *call)
{
    struct muster_client *client = call->client;
    muster_status status = MUSTER_MORE;

    if (client->closing) {
        return mst_lib_fail(call->err, MUSTER_ECANCELLED, call->what, NULL);
    }
    if (client->interrupted) {
        return mst_lib_fail(call->err, MUSTER_EINTERRUPTED, call->what, NULL);
    }
    if (!mst_client_piles_up(&call->request) && client->open_calls >= MST_LIB_CALLS_MAX) {
        return too_many(call);
    }
    if (payload_of(&call->request) > mst_driver_frame_max(client->driver)) {
        return too_large(call, payload_of(&call->request));
    }
    if (call->begin) {
        status = call->begin(call);
    }
    if (status < 0) {
        return status;
    }
    client->open_calls += !mst_client_piles_up(&call->request);
    if (status == MUSTER_OK) {
        finish(call, MUSTER_OK);
        return MUSTER_OK;
    }
    return post(call) == MUSTER_OK ? MUSTER_MORE : call->status;
}

void mst_call_end(struct mst_call *call, muster_status status)
{
    if (call->over) {
        return;
    }
    if (!call->client->poisoned) { /* else the machine must not be touched */
        mst_lib_post_drop(call->client, &call->post);
    }
    call->local = true;
    call->said = status;
    finish(call, mst_lib_fail(call->err, status, call->what, NULL));
}

muster_status mst_call_status(struct mst_call *call)
{
    if (call->status == MUSTER_EUNREACHABLE && mst_lib_cut_off(call->client)) {
        return refuse(call, call->status);
    }
    return call->status;
}

/* ---- making one ---- */

static bool is_over(void *ctx)
{
    return ((struct mst_call *)ctx)->over;
}

static muster_status block(struct mst_call *call)
{
    struct muster_client *client = call->client;
    muster_status status;

    mst_lib_lock(client);
    status = mst_call_begin(call);
    if (status == MUSTER_MORE) {
        mst_lib_thread.waits_for = call->what;
        (void)mst_lib_wait_interruptible(client, is_over, call, NEVER);
        mst_lib_thread.waits_for = NULL;
        mst_call_end(call, client->poisoned  ? MUSTER_EINTERNAL
                           : client->closing ? MUSTER_ECANCELLED
                                             : MUSTER_EINTERRUPTED);
        status = mst_call_status(call);
    }
    mst_lib_unlock(client);
    return status;
}

muster_status mst_lib_make(struct mst_call *call, const struct mst_lib_how *how)
{
    muster_status status = mst_lib_enter(call->client, how->err, call->what);

    if (status != MUSTER_OK) {
        return status;
    }
    if (mst_lib_thread.no_waiting && !how->start) {
        return mst_lib_forbidden(how->err, call->what);
    }
    call->err = how->err;
    call->post.complete = complete;
    call->post.ctx = call;
    if (call->timeout_ms != 0) {
        call->deadline_ns = mst_lib_deadline_ns(call->timeout_ms, 0);
    }
    return how->start ? mst_call_start(call, how->out) : block(call);
}

struct mst_lib_how mst_lib_blocking(struct muster_error *err)
{
    return (struct mst_lib_how){.err = err};
}

struct mst_lib_how mst_lib_starting(muster_call **out, struct muster_error *err)
{
    if (out) {
        *out = NULL;
    }
    return (struct mst_lib_how){.start = true, .out = out, .err = err};
}

/* ---- entering ---- */

muster_status mst_lib_refuse(struct muster_error *err, const char *what, const char *format, ...)
{
    if (err) {
        struct mst_text text = mst_text_in(err->text, sizeof(err->text));
        va_list arguments;

        err->status = MUSTER_EINVAL;
        err->os_errno = 0;
        err->why = MUSTER_WHY_STATUS;
        mst_text_format(&text, "%s: ", what);
        va_start(arguments, format);
        mst_text_format_list(&text, format, arguments);
        va_end(arguments);
    }
    return MUSTER_EINVAL;
}

void mst_lib_describe(char what[MST_LIB_WHAT_ROOM], const char *verb, const char *name)
{
    mst_text_print(what, MST_LIB_WHAT_ROOM, "%s '%.*s'", verb, MST_TEXT_ARGS(name));
}

muster_status mst_lib_options(void *out, size_t size, const void *given, const char *init,
                              struct muster_error *err, const char *what)
{
    size_t given_size;

    if (!given) {
        return MUSTER_OK;
    }
    memcpy(&given_size, given, sizeof(given_size));
    if (given_size >= sizeof(given_size) && given_size <= size) {
        memcpy(out, given, given_size);
        return MUSTER_OK;
    }
    return mst_lib_refuse(
        err, what, "options.size is not that of this library's options; begin with %s", init);
}

muster_status mst_lib_bytes(struct mst_slice bytes, struct muster_error *err, const char *what)
{
    if (bytes.size > 0 && !bytes.data) {
        return mst_lib_refuse(err, what, "the data is NULL, and its size is not 0");
    }
    return MUSTER_OK;
}

_Thread_local struct mst_lib_thread mst_lib_thread;

muster_status mst_lib_forbidden(struct muster_error *err, const char *what)
{
    return mst_fail(err, MUSTER_EDEADLK, 0, "%s: %s", what, mst_lib_thread.no_waiting);
}

void mst_lib_alive(void)
{
    const struct mst_lib_thread *thread = &mst_lib_thread;

    if (thread->page) {
        _Atomic uint64_t *checks = &thread->page->checks;

        atomic_store_explicit(checks, atomic_load_explicit(checks, memory_order_relaxed) + 1,
                              memory_order_relaxed);
    }
}

void mst_lib_wait_shown(void)
{
    struct mst_lib_thread *thread = &mst_lib_thread;

    if (thread->page && thread->waits++ == 0) {
        mst_page_wait_begin(thread->page, thread->waits_for);
    }
}

void mst_lib_wait_over(void)
{
    struct mst_lib_thread *thread = &mst_lib_thread;

    if (thread->page && --thread->waits == 0) {
        mst_page_wait_end(thread->page);
    }
}

muster_status mst_lib_enter(muster_client *client, struct muster_error *err, const char *what)
{
    if (!client) {
        return mst_lib_refuse(err, what, "the client is NULL");
    }
    if (client->pid != mst_own_pid()) {
        return mst_lib_refuse(err, what, "%s", MST_LIB_OF_THE_PARENT);
    }
    mst_lib_alive();
    if (mst_lib_holds(client)) {
        return mst_lib_fail(err, MUSTER_EDEADLK, what, NULL);
    }
    if (client->poisoned) {
        return mst_lib_fail(err, MUSTER_EINTERNAL, what, NULL);
    }
    return MUSTER_OK;
}
