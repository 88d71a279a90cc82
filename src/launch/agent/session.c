/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/agent/session.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "launch/say.h"

#define AGAIN_MS 200 /* between two attempts */

/* ---- what other threads say ---- */

/* On any thread. */
static void on_line(void *ctx, const char *line)
{
    struct mst_agent_session *session = ctx;

    (void)pthread_mutex_lock(&session->lock);
    if (session->line_count < MST_AGENT_LINES) {
        (void)snprintf(session->lines[session->line_count++], sizeof session->lines[0], "%s", line);
    }
    (void)pthread_mutex_unlock(&session->lock);
    session->changed(session->ctx);
}

static void on_ring(void *ctx)
{
    const struct mst_agent_session *session = ctx;

    session->changed(session->ctx);
}

static void say_lines(struct mst_agent_session *session)
{
    char lines[MST_AGENT_LINES][sizeof session->lines[0]];
    unsigned count;

    (void)pthread_mutex_lock(&session->lock);
    count = session->line_count;
    memcpy(lines, session->lines, sizeof lines);
    session->line_count = 0;
    (void)pthread_mutex_unlock(&session->lock);
    for (unsigned i = 0; i < count; i++) {
        mst_say("%s", lines[i]);
    }
}

/* ---- what the service says; with the client's lock held ---- */

static void on_ended(void *ctx, uint64_t now_ns, muster_status status)
{
    struct mst_agent_session *session = ctx;

    (void)now_ns;
    (void)status;
    (void)pthread_mutex_lock(&session->lock);
    session->ended = true;
    (void)pthread_mutex_unlock(&session->lock);
    session->changed(session->ctx);
}

static muster_status take_members(void *ctx, const struct mst_reply *reply)
{
    struct mst_agent_session *session = ctx;

    for (uint32_t i = 0; i < reply->item_count; i++) {
        if (reply->items[i].kind == MST_ITEM_MEMBER) {
            mst_helper_notices_member(&session->sources, &reply->items[i].who);
        }
    }
    if (mst_follow_listed(reply)) {
        mst_helper_notices_listed(&session->sources);
    }
    session->changed(session->ctx);
    return MUSTER_OK;
}

static muster_status take_notices(void *ctx, const struct mst_reply *reply)
{
    struct mst_agent_session *session = ctx;

    (void)pthread_mutex_lock(&session->lock);
    for (uint32_t i = 0; i < reply->item_count; i++) {
        mst_front_notices_hear(&session->told, &reply->items[i]);
    }
    (void)pthread_mutex_unlock(&session->lock);
    session->changed(session->ctx);
    return MUSTER_OK;
}

/* ---- sessions ---- */

static void follow_notices(struct mst_agent_session *session)
{
    mst_lib_lock(session->client);
    mst_lib_follow(&session->notices, session->client, MST_WATCH_KEYS,
                   mst_slice_text(MST_PREEMPT_PREFIX), MST_NODE_NONE);
    mst_lib_unlock(session->client);
}

static void begin(struct mst_agent_session *session, muster_client *client)
{
    const struct mst_lib_hook hook = {.ended = on_ended, .ctx = session};

    session->client = client;
    mst_lib_lock(client);
    mst_lib_hook(client, MST_USER_AGENT, &hook);
    mst_lib_follow(&session->members, client, MST_WATCH_MEMBERS, mst_slice_text(""), MST_NODE_NONE);
    if (mst_lib_status(client) != MUSTER_OK) { /* it ended before */
        on_ended(session, 0, MUSTER_ECANCELLED);
    }
    mst_lib_unlock(client);
    if (session->hears) {
        follow_notices(session);
    }
}

/* In any place, as a helper has: it starts no rank, so it makes no node. */
static struct muster_client_options options_of(const struct mst_agent_session *session)
{
    struct muster_client_options options = *session->access;

    options.role = MUSTER_ROLE_AGENT;
    options.index = MST_INDEX_HELPER;
    options.host = session->host;
    return options;
}

static void open_again(struct mst_agent_session *session)
{
    const struct mst_lib_other other = {.pid = (uint64_t)getpid(), .node = MST_NODE_NONE};
    struct muster_client_options options = options_of(session);
    muster_client *client;

    session->again_ns = mst_lib_now_ns() + AGAIN_MS * NS_PER_MS;
    if (mst_lib_open_other(&client, &options, &other, NULL) == MUSTER_OK) {
        begin(session, client);
    }
}

static void end(struct mst_agent_session *session)
{
    if (session->client != NULL) {
        mst_helper_notices_reset(&session->sources);
        muster_client_close(session->client);
        session->client = NULL;
        session->members.post.open = session->notices.post.open = false;
    }
}

muster_status mst_agent_session_open(struct mst_agent_session *session, int64_t timeout_ms,
                                     struct muster_error *err)
{
    struct muster_client_options options = options_of(session);
    muster_client *client;
    muster_status status;

    (void)pthread_mutex_init(&session->lock, NULL);
    mst_helper_notices_init(&session->sources, session->host, MST_INDEX_HELPER, getpid(), on_line,
                            on_ring, session);
    session->members.take = take_members;
    session->notices.take = take_notices;
    session->members.ctx = session->notices.ctx = session;
    status = muster_client_open(&client, &options, timeout_ms, err);
    if (status == MUSTER_OK) {
        begin(session, client);
    }
    return status;
}

void mst_agent_session_close(struct mst_agent_session *session)
{
    end(session);
    mst_helper_notices_fini(&session->sources);
    say_lines(session);
}

void mst_agent_session_hear(struct mst_agent_session *session)
{
    session->hears = true;
    if (session->client != NULL) {
        follow_notices(session);
    }
}

uint64_t mst_agent_session_look(struct mst_agent_session *session, bool *renewed_out)
{
    muster_client *before = session->client;
    uint64_t at_ns;
    bool ended;

    (void)pthread_mutex_lock(&session->lock);
    ended = session->ended;
    session->ended = false;
    (void)pthread_mutex_unlock(&session->lock);
    if (ended) {
        end(session);
    }
    if (session->client == NULL && mst_lib_now_ns() >= session->again_ns) {
        open_again(session);
    }
    *renewed_out = session->client != before || ended;
    at_ns = mst_helper_notices_look(&session->sources, session->client);
    say_lines(session);
    return session->client == NULL ? mst_sooner(at_ns, session->again_ns) : at_ns;
}

bool mst_agent_session_notice(struct mst_agent_session *session, uint64_t since_ns,
                              struct mst_front_notice *out)
{
    bool some;

    (void)pthread_mutex_lock(&session->lock);
    some = mst_front_notices_next(&session->told, since_ns, out);
    (void)pthread_mutex_unlock(&session->lock);
    return some;
}
