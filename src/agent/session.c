/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/session.h"

#include <string.h>

#define OPEN_LIMIT_MS 10000

static void watch_on(struct mst_session *session);

static void on_watch(void *ctx, const struct mst_reply *reply)
{
    struct mst_session *session = ctx;

    if (reply->status != MUSTER_OK) {
        return; /* the session is over: the run learns why from its service */
    }
    for (uint32_t i = 0; i < reply->item_count; i++) {
        const struct mst_item *item = &reply->items[i];

        if (item->kind == MST_ITEM_MEMBER && item->who.role == MST_ROLE_RANK) {
            session->member(session->ctx, &item->who);
        }
    }
    session->revision = reply->revision;
    watch_on(session);
}

/* With the client's lock held. */
static void watch_on(struct mst_session *session)
{
    struct mst_request request = {
        .command = MST_WATCH, .watch = {.kinds = MST_WATCH_MEMBERS, .after = session->revision}};

    session->watch = (struct mst_lib_post){.complete = on_watch, .ctx = session};
    (void)mst_lib_post(session->client, &request, UINT64_MAX, &session->watch);
}

static enum muster_grow grow_of(const char *text)
{
    if (strcmp(text, "off") == 0) {
        return MUSTER_GROW_OFF;
    }
    return strcmp(text, "fault") == 0 ? MUSTER_GROW_FAULT : MUSTER_GROW_CHECK;
}

muster_status mst_session_open(struct mst_session *session, const char *addr, const char *job,
                               const struct mst_run_options *options, mst_session_member_fn *member,
                               void *ctx, struct muster_error *err)
{
    struct muster_client_options client_options = MUSTER_CLIENT_OPTIONS_INIT;
    muster_status status;

    *session = (struct mst_session){.member = member, .ctx = ctx};
    client_options.role = MUSTER_ROLE_AGENT;
    client_options.addr = addr;
    client_options.job = job;
    client_options.index = MUSTER_INDEX_ANY;
    client_options.size_of_job = options->size;
    client_options.min_size = options->min_size;
    client_options.join_wait_ms = options->join_wait_ms;
    client_options.grow = grow_of(options->grow);
    status = muster_client_open(&session->client, &client_options, OPEN_LIMIT_MS, err);
    if (status == MUSTER_OK) {
        mst_lib_lock(session->client);
        watch_on(session);
        mst_lib_unlock(session->client);
    }
    return status;
}

void mst_session_close(struct mst_session *session)
{
    if (session->client != NULL) {
        mst_lib_lock(session->client);
        mst_lib_post_cancel(session->client, &session->watch);
        mst_lib_unlock(session->client);
        muster_client_close(session->client);
        session->client = NULL;
    }
}

static void on_lost(void *ctx, const struct mst_reply *reply)
{
    (void)ctx;
    (void)reply;
}

void mst_session_lost(struct mst_session *session, struct mst_process *process,
                      enum mst_cause cause, int code)
{
    struct mst_request request = {.command = MST_LOST,
                                  .lost = {.index = process->index,
                                           .pid = mst_process_pid(process),
                                           .cause = cause,
                                           .code = code}};

    struct mst_lib_post *post;

    if (session->client == NULL) {
        return;
    }
    mst_lib_lock(session->client);
    post = &process->lost[process->lost_count++];
    *post = (struct mst_lib_post){.complete = on_lost, .ctx = process};
    /* If it cannot be said, the lease says it. */
    (void)mst_lib_post(session->client, &request, UINT64_MAX, post);
    mst_lib_unlock(session->client);
}
