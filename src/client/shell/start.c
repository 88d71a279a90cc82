/* SPDX-License-Identifier: Apache-2.0 */
/* Started calls. A call is in `calls` of its client until it is freed, and in `over` from its end
 * until it is dispatched; the thread that drives the connection ends it. Only
 * muster_client_dispatch runs its callback, without the lock.
 *
 * A call may be used while and after its client is closed. So it holds a reference to the client:
 * with the last one the memory is freed, of which a closed client uses the lock and its flags. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/panic.h"
#include "client/shell/call.h"
#include "client/shell/uncancelled.h"
#include "os/own_pid.h"
#include "os/system.h"

struct muster_call {
    struct mst_call core;
    struct mst_list link; /* in calls of the client */
    struct mst_list over; /* in over of the client */
    muster_call_done *done;
    void *ctx;
    bool abandoned; /* freed in a callback of the client: its memory is freed with the close */
    struct muster_error error;
    char room[]; /* core.what, core.kept */
};

/* A thread that dispatches, on its stack. */
struct dispatcher {
    struct mst_list link;
    pthread_t thread;
    muster_call *call; /* whose callback it runs; NULL: none, or it was freed there */
};

/* ---- starting ---- */

void mst_call_queue(struct mst_call *core)
{
    muster_call *call = MST_CONTAINER(core, struct muster_call, core);
    struct muster_client *client = core->client;

    if (mst_list_linked(&call->over)) {
        return;
    }
    mst_list_append(&client->over, &call->over);
    if (client->over_count++ == 0 && client->call_event >= 0) {
        mst_system_event_ring(client->call_event);
    }
}

static void unqueue(muster_call *call)
{
    struct muster_client *client = call->core.client;

    if (mst_list_linked(&call->over)) {
        mst_list_remove(&call->over);
        if (--client->over_count == 0 && client->call_event >= 0) {
            mst_system_event_quiet(client->call_event);
        }
    }
}

/* A copy with the texts that the caller only lent and that are needed after the first post. */
static muster_call *moved(const struct mst_call *call)
{
    size_t what_size = strlen(call->what) + 1;
    size_t kept_size = call->kept ? strlen(call->kept) + 1 : 0;
    muster_call *copy = calloc(1, sizeof(*copy) + what_size + kept_size);

    if (copy) {
        copy->core = *call;
        copy->core.what = memcpy(copy->room, call->what, what_size);
        if (kept_size > 0) {
            copy->core.kept = memcpy(copy->room + what_size, call->kept, kept_size);
        }
        copy->core.post.ctx = &copy->core;
    }
    return copy;
}

muster_status mst_call_start(struct mst_call *call, muster_call **out)
{
    struct muster_client *client = call->client;
    muster_call *started;
    muster_status status;
    bool hurries;

    if (!out) {
        return mst_lib_refuse(call->err, call->what, "call_out is NULL");
    }
    started = moved(call);
    if (!started) {
        return mst_lib_fail(call->err, MUSTER_ENOMEM, call->what, NULL);
    }
    mst_lib_lock(client);
    hurries = !mst_lib_thread.waits_at_once;
    mst_lib_thread.waits_at_once = false;
    status = mst_call_begin(&started->core);
    if (status >= 0) {
        started->core.err = &started->error;
        started->core.started = true;
        mst_list_append(&client->calls, &started->link);
        client->references++;
        if (status == MUSTER_OK) {
            mst_call_queue(&started->core);
        } else if (hurries) {
            mst_lib_hurry(client);
        }
    }
    mst_lib_unlock(client);
    if (status < 0) {
        free(started);
        return status;
    }
    *out = started;
    return MUSTER_OK;
}

/* ---- the end of all of them ---- */

/* Lock held. */
void mst_lib_calls_end(struct muster_client *client, muster_status status)
{
    MST_LIST_EACH(link, following, &client->calls)
    {
        mst_call_end(&MST_CONTAINER(link, struct muster_call, link)->core, status);
    }
}

void mst_lib_calls_close(struct muster_client *client)
{
    mst_lib_lock(client);
    client->closed = true;
    MST_LIST_EACH(link, following, &client->calls)
    {
        muster_call *call = MST_CONTAINER(link, struct muster_call, link);

        if (call->abandoned) {
            mst_list_remove(link);
            client->references--;
            free(call);
        }
    }
    mst_lib_unlock(client);
}

void mst_lib_release(struct muster_client *client)
{
    bool last = --client->references == 0;

    mst_lib_unlock(client);
    if (last) {
        (void)pthread_mutex_destroy(&client->lock);
        free(client);
    }
}

/* ---- waiting, cancelling, freeing ---- */

static bool is_over(void *ctx)
{
    return ((muster_call *)ctx)->core.over;
}

typedef bool wait_fn(struct muster_client *client, bool (*ready)(void *ctx), void *ctx,
                     uint64_t deadline_ns);

/* Lock held. */
static muster_status wait_for(muster_call *call, wait_fn *wait, int64_t timeout_ms,
                              struct muster_error *err)
{
    struct muster_client *client = call->core.client;
    muster_status status;

    if (!call->core.over && timeout_ms != 0) {
        if (mst_lib_thread.no_waiting) {
            return mst_lib_forbidden(err, call->core.what);
        }
        mst_lib_thread.waits_for = call->core.what;
        (void)wait(client, is_over, call, mst_lib_deadline_ns(timeout_ms, 0));
        mst_lib_thread.waits_for = NULL;
        mst_lib_thread.waits_at_once = true;
    }
    if (!call->core.over && !client->poisoned) {
        return MUSTER_MORE;
    }
    if (client->poisoned) {
        mst_call_end(&call->core, MUSTER_EINTERNAL);
    }
    status = mst_call_status(&call->core);
    if (status < 0 && err) {
        *err = call->error;
    }
    return status;
}

static muster_status wait_with(muster_call *call, wait_fn *wait, int64_t timeout_ms,
                               struct muster_error *err)
{
    muster_status status;

    if (!call) {
        return mst_lib_refuse(err, "wait for a call", "the call is NULL");
    }
    status = mst_lib_enter(call->core.client, err, call->core.what);
    if (status == MUSTER_OK) {
        mst_lib_lock(call->core.client);
        status = wait_for(call, wait, timeout_ms, err);
        mst_lib_unlock(call->core.client);
    }
    return status;
}

muster_status muster_call_wait(muster_call *call, int64_t timeout_ms, struct muster_error *err)
{
    return wait_with(call, mst_lib_wait, timeout_ms, err);
}

muster_status muster_call_wait_signal(muster_call *call, int64_t timeout_ms,
                                      struct muster_error *err)
{
    return wait_with(call, mst_lib_wait_until_signal, timeout_ms, err);
}

static void leave(const muster_call *call, bool locked)
{
    if (locked) {
        mst_lib_unlock(call->core.client);
    }
}

/* Takes the lock of the call's client, unless a callback of the client holds it already: then
 * *locked is false. False: the client is closed, or another process's, and the lock not taken. */
static bool enter(const muster_call *call, bool *locked)
{
    struct muster_client *client = call ? call->core.client : NULL;

    if (!client || client->pid != mst_own_pid()) {
        return false;
    }
    *locked = !mst_lib_holds(client);
    if (*locked) {
        mst_lib_lock(client);
    }
    if (!client->closed) {
        return true;
    }
    leave(call, *locked);
    return false;
}

void muster_call_cancel(muster_call *call)
{
    bool locked;

    if (!enter(call, &locked)) {
        return;
    }
    if (!call->core.over) {
        mst_call_end(&call->core, MUSTER_ECANCELLED);
        (void)mst_lib_refuse(&call->error, call->core.what, "cancelled");
        call->error.status = MUSTER_ECANCELLED;
        mst_lib_wake_ready(call->core.client);
    }
    leave(call, locked);
}

/* The dispatcher that runs the call's callback, on `thread` or on any (NULL); NULL: none. */
static struct dispatcher *dispatcher_of(const muster_call *call, const pthread_t *thread)
{
    MST_LIST_EACH(link, following, &call->core.client->dispatchers)
    {
        struct dispatcher *dispatcher = MST_CONTAINER(link, struct dispatcher, link);

        if (dispatcher->call == call && (!thread || pthread_equal(dispatcher->thread, *thread))) {
            return dispatcher;
        }
    }
    return NULL;
}

static bool has_returned(void *ctx)
{
    return !dispatcher_of(ctx, NULL);
}

static void end(muster_call *call)
{
    call->done = NULL;
    mst_call_end(&call->core, MUSTER_ECANCELLED);
    unqueue(call);
}

void muster_call_free(muster_call *call)
{
    struct muster_client *client = call ? call->core.client : NULL;

    if (!client || client->pid != mst_own_pid()) {
        free(call);
        return;
    }
    if (mst_lib_holds(client)) { /* in a callback, in which the machine may report this very call */
        end(call);
        call->abandoned = true;
        return;
    }
    mst_lib_lock(client);
    if (!client->closed) {
        const pthread_t self = pthread_self();
        struct dispatcher *own = dispatcher_of(call, &self);

        end(call);
        if (own) {
            own->call = NULL;
        }
        if (!has_returned(call)) {
            (void)mst_lib_wait(client, has_returned, call, NEVER);
        }
    }
    mst_list_remove(&call->link);
    free(call);
    mst_lib_release(client);
}

/* ---- callbacks ---- */

void muster_call_on_done(muster_call *call, muster_call_done *done, void *ctx)
{
    bool locked;

    if (!enter(call, &locked)) {
        return;
    }
    call->done = done;
    call->ctx = ctx;
    if (done && call->core.over && !call->core.client->closing) {
        mst_call_queue(&call->core);
    }
    leave(call, locked);
}

muster_status muster_client_fd(muster_client *client, int *fd_out, struct muster_error *err)
{
    static const char what[] = "get a descriptor to poll";
    muster_status status;

    if (!fd_out) {
        return mst_lib_refuse(err, what, "fd_out is NULL");
    }
    status = mst_lib_enter(client, err, what);
    if (status != MUSTER_OK) {
        return status;
    }
    mst_lib_lock(client);
    if (client->call_event < 0) {
        client->call_event = mst_system_event();
        if (client->call_event < 0) {
            status = mst_lib_fail_system(err, what, errno);
        } else if (client->over_count > 0) {
            mst_system_event_ring(client->call_event);
        }
    }
    if (status == MUSTER_OK) {
        *fd_out = client->call_event;
    }
    mst_lib_unlock(client);
    return status;
}

/* Runs the callback of the first that is over, without the lock. */
static void call_back(struct muster_client *client, struct dispatcher *dispatcher)
{
    muster_call *call = MST_CONTAINER(client->over.next, struct muster_call, over);
    muster_call_done *done = call->done;
    void *ctx = call->ctx;

    mst_list_remove(&call->over);
    client->over_count--;
    if (!done) {
        return;
    }
    call->done = NULL;
    dispatcher->call = call;
    mst_lib_unlock(client);
    done(ctx, call);
    mst_lib_lock(client);
    dispatcher->call = NULL;
    mst_lib_wake_ready(client); /* a thread that frees it */
}

static void dispatch(muster_client *client)
{
    struct dispatcher dispatcher = {.thread = pthread_self()};
    muster_status status = mst_lib_enter(client, NULL, "dispatch");

    if (status != MUSTER_OK && status != MUSTER_EINTERNAL) {
        return;
    }
    mst_lib_lock(client);
    mst_lib_keep(client);
    mst_list_append(&client->dispatchers, &dispatcher.link);
    if (client->poisoned) {
        mst_lib_calls_end(client, MUSTER_EINTERNAL);
    }
    mst_system_event_quiet(client->call_event);
    for (size_t left = client->over_count; left > 0 && client->over_count > 0 && !client->closing;
         left--) {
        call_back(client, &dispatcher);
    }
    if (client->over_count > 0) {
        mst_system_event_ring(client->call_event);
    }
    mst_list_remove(&dispatcher.link);
    mst_lib_let_go(client);
    mst_lib_unlock(client);
}

void muster_client_dispatch(muster_client *client)
{
    mst_uncancelled_begin();
    dispatch(client);
    mst_uncancelled_end();
}
