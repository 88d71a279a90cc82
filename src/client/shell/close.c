/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a client: the calls of other threads, the farewell to the service, and its memory. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "base/panic.h"
#include "client/shell/call.h"
#include "client/shell/sidecar/helper.h"
#include "client/shell/sidecar/serve.h"
#include "client/shell/uncancelled.h"
#include "os/own_pid.h"
#include "process/page.h"

#define FAREWELL_NS NS_PER_S

static uint64_t end_ns = NEVER;

void mst_lib_end_by(uint64_t ns)
{
    end_ns = ns;
}

uint64_t mst_lib_end_ns(void)
{
    return end_ns;
}

static void close_descriptors(const struct muster_client *client)
{
    const int own[] = {client->caller_event, client->background_event, client->call_event,
                       client->secret_fd, client->agent_fd};

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        if (own[i] >= 0) {
            (void)close(own[i]);
        }
    }
}

static void free_client(struct muster_client *client)
{
    mst_lib_calls_close(client);
    while (mst_list_take(&client->timers)) {
    }
    MST_LIB_HOOKS(hook, client, release)
    {
        hook->release(hook->ctx);
    }
    mst_driver_free(client->driver);
    mst_tls_context_free(client->tls);
    mst_page_unmap(client->page);
    mst_lib_alone_stop(client->alone);
    mst_lib_counters_free(&client->counters);
    close_descriptors(client);
    free(client->secret_path);
    free(client->addr);
    free(client->job);
    free(client->host);
    mst_lib_lock(client);
    mst_lib_release(client);
}

enum { LAST_WORDS = 2 };

struct farewell {
    struct mst_lib_post posts[LAST_WORDS];
    unsigned open;
};

static void word_answered(void *ctx, const struct mst_reply *reply)
{
    (void)reply;
    ((struct farewell *)ctx)->open--;
}

static bool all_answered(void *ctx)
{
    return ((struct farewell *)ctx)->open == 0;
}

void mst_lib_farewell(muster_client *client, const struct mst_request *requests, unsigned count,
                      uint64_t until_ns)
{
    struct farewell farewell = {.open = 0};

    MST_ASSERT(count <= LAST_WORDS);
    for (unsigned i = 0; i < count; i++) {
        farewell.posts[i] = (struct mst_lib_post){.complete = word_answered, .ctx = &farewell};
        farewell.open +=
            mst_lib_post(client, &requests[i], UINT64_MAX, &farewell.posts[i]) == MUSTER_OK;
    }
    if (farewell.open == 0) {
        return;
    }
    mst_driver_turn(client->driver, mst_lib_now_ns()); /* sent, even if no time is left to wait */
    (void)mst_lib_wait(client, all_answered, &farewell, until_ns);
    for (unsigned i = 0; i < count && !client->poisoned; i++) {
        mst_lib_post_drop(client, &farewell.posts[i]);
    }
}

/* Only where the service can be reached now; otherwise the lease runs out. */
static void leave(struct muster_client *client)
{
    const struct mst_request request = {.command = MST_LEAVE};

    if (!client->ended && mst_client_online(mst_lib_machine(client))) {
        mst_lib_farewell(client, &request, 1, mst_sooner(mst_lib_now_ns() + FAREWELL_NS, end_ns));
    }
}

/* In a forked child: closes its copies of the descriptors. Another thread of the parent may have
 * been in the middle of the rest, which stays. */
static void abandon(struct muster_client *client)
{
    mst_driver_abandon(client->driver);
    mst_lib_alone_abandon(client->alone);
    mst_lib_helper_abandon(client->helper);
    close_descriptors(client);
}

static bool is_last(void *ctx)
{
    struct muster_client *client = ctx;

    return client->keepers == 0 && client->waiters.next->next == &client->waiters;
}

/* Ends the calls of other threads. A run of a function sees the end of the session, and interrupts
 * the function. */
static void end_others(struct muster_client *client)
{
    client->closing = true;
    mst_lib_calls_end(client, MUSTER_ECANCELLED);
    MST_LIB_HOOKS(hook, client, ended)
    {
        hook->ended(hook->ctx, mst_lib_now_ns(), MUSTER_ECANCELLED);
    }
    mst_lib_wake_ready(client);
    (void)mst_lib_wait(client, is_last, client, NEVER);
}

/* Whether this is called inside exit() or the function: then the handle stays. */
static bool is_within(struct muster_client *client)
{
    struct mst_lib_hook hook = {0};
    bool exiting = false;

    if (client->driver && !client->poisoned && !mst_lib_holds(client)) {
        mst_lib_lock(client);
        exiting = client->exiting && client->keepers > 0; /* the run has not returned */
        hook = client->hooks[MST_USER_RESTART];
        mst_lib_unlock(client);
    }
    return exiting || (hook.closed_within && hook.closed_within(hook.ctx));
}

static void close_client(muster_client *client)
{
    if (client && client->pid != mst_own_pid()) {
        abandon(client);
        return;
    }
    if (!client || is_within(client)) {
        return;
    }
    if (client->driver && (client->thread_runs || client->looped)) {
        mst_lib_lock(client);
        if (!client->poisoned) {
            end_others(client);
        }
        if (!client->poisoned) {
            leave(client);
        }
        mst_lib_unlock(client);
        if (client->poisoned) {
            return; /* a thread may have stopped in the middle of it for good */
        }
        mst_lib_background_stop(client);
        if (client->role == MST_ROLE_RANK) {
            mst_lib_heard_keep(client->job, client->heard);
        }
    }
    free_client(client);
}

void muster_client_close(muster_client *client)
{
    mst_uncancelled_begin();
    close_client(client);
    mst_uncancelled_end();
}

void mst_lib_close_unsaid(muster_client *client)
{
    if (client->driver) {
        mst_lib_lock(client);
        if (!client->poisoned && !client->ended) {
            mst_client_give_up(mst_lib_machine(client), mst_lib_now_ns(), MUSTER_ECANCELLED);
            mst_driver_turn(client->driver, mst_lib_now_ns());
        }
        mst_lib_unlock(client);
    }
    muster_client_close(client);
}
