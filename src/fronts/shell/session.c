/* SPDX-License-Identifier: Apache-2.0 */
/* The native sessions of the fronts: a client for each process, which the loop drives.
 *
 *   JOINS --sealed--> OPEN --LEAVE--> LEAVES --answered--> freed
 *     |                 |               ^
 *     +---- ended ------+--> ENDED -----+ freed when the front has been given `ended` */
#define _GNU_SOURCE
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fronts/shell/copied.h"
#include "fronts/shell/internal.h"

enum call_kind { CALL_FRONT = 0, CALL_JOIN, CALL_LEAVE, CALL_UNANSWERED };

/* Of the socket that the client of a session has now. */
struct watch {
    uv_poll_t poll;
    struct mst_fronts *fronts;
    struct session *session;
};

struct session {
    struct mst_list link;
    struct mst_fronts *fronts;
    struct mst_fronts_one *one;
    uint64_t number; /* the front's */
    uint32_t index;  /* or INDEX_NONE */
    muster_client *client;
    struct mst_lib_interest interest;
    struct watch *watch; /* NULL: none */
    struct mst_list calls;
    bool dead;   /* or unhealthy: the agent tells the service that it is lost */
    bool leaves; /* the front has no interest any more */
    struct mst_fronts_news over, ready;
    muster_status status; /* why it is over */
    char why[512];
};

struct call {
    struct mst_list link;
    struct session *session;
    enum call_kind kind;
    uint64_t tag;
    struct mst_lib_post post;
    struct mst_fronts_news news;
    struct mst_fronts_copied copied;
};

static uint64_t now_ns(void)
{
    return mst_lib_now_ns();
}

/* ---- the end of a session ---- */

static void on_unwatched(uv_handle_t *handle)
{
    struct watch *watch = MST_CONTAINER((uv_poll_t *)handle, struct watch, poll);
    struct mst_fronts *fronts = watch->fronts;

    free(watch);
    mst_fronts_handle_closed(fronts);
}

/* The socket may be closed already: the loop takes that. */
static void unwatch(struct session *session)
{
    if (session->watch != NULL) {
        uv_close((uv_handle_t *)&session->watch->poll, on_unwatched);
        session->watch = NULL;
    }
}

static void call_free(struct call *call)
{
    mst_list_remove(&call->link);
    free(call->copied.room);
    free(call);
}

static void drop_calls(struct session *session)
{
    MST_LIST_EACH(link, following, &session->calls)
    {
        struct call *call = MST_CONTAINER(link, struct call, link);

        if (session->client != NULL) {
            mst_lib_lock(session->client);
            mst_lib_post_drop(session->client, &call->post);
            mst_lib_unlock(session->client);
        }
        mst_list_remove(&call->news.link);
        call_free(call);
    }
}

/* The front is not told. `leave`: with a word to the service. */
static void session_free(struct session *session, bool leave)
{
    unwatch(session);
    drop_calls(session);
    if (session->client != NULL) {
        mst_lib_lock(session->client);
        mst_lib_hook(session->client, MST_USER_AGENT, NULL);
        mst_lib_unlock(session->client);
        if (leave) {
            muster_client_close(session->client);
        } else {
            mst_lib_close_unsaid(session->client);
        }
    }
    mst_list_remove(&session->over.link);
    mst_list_remove(&session->ready.link);
    mst_list_remove(&session->link);
    free(session);
}

void mst_fronts_changed(const struct mst_fronts *fronts)
{
    if (fronts->options.changed != NULL && !fronts->closing) {
        fronts->options.changed(fronts->options.ctx);
    }
}

static void on_over(struct mst_fronts_news *news)
{
    struct session *session = MST_CONTAINER(news, struct session, over);
    struct mst_fronts *fronts = session->fronts;
    struct mst_fronts_one *one = session->one;
    uint64_t number = session->number;
    muster_status status = session->status;
    char why[sizeof session->why];
    bool silent = session->leaves;

    memcpy(why, session->why, sizeof why);
    session_free(session, false);
    mst_fronts_changed(fronts);
    if (!silent) {
        one->front->ended(one->machine, now_ns(), number, status, mst_slice_text(why));
        mst_fronts_drain(fronts, one);
    }
}

/* On the loop: not within an input of the front, which is draining. */
static void end_later(struct session *session, muster_status status, const char *why)
{
    session->status = status;
    (void)snprintf(session->why, sizeof session->why, "%s", why);
    mst_fronts_post(session->fronts, &session->over);
}

/* With the client's lock held. */
static void on_ended(void *ctx, uint64_t at_ns, muster_status status)
{
    struct session *session = ctx;
    struct muster_error err = {0};
    char what[80];

    (void)at_ns;
    (void)snprintf(what, sizeof what, "the session of process %" PRIu32, session->index);
    (void)mst_lib_fail(&err, status, what, NULL);
    end_later(session, status, err.text);
}

/* ---- calls ---- */

static void give_joined(struct session *session, const struct mst_reply *reply)
{
    struct mst_fronts_one *one = session->one;
    struct muster_error err = {0};
    char what[80];

    if (reply->status == MUSTER_OK && reply->view.rank != MST_RANK_NONE) {
        one->front->opened(one->machine, now_ns(), session->number, reply->view.generation);
        mst_fronts_changed(session->fronts);
        mst_fronts_drain(session->fronts, one);
        return;
    }
    (void)snprintf(what, sizeof what, "process %" PRIu32 " joins the job", session->index);
    (void)mst_lib_fail(&err, reply->status != MUSTER_OK ? reply->status : MUSTER_ECANCELLED, what,
                       reply);
    end_later(session, err.status, err.text);
}

static void on_answered(struct mst_fronts_news *news)
{
    struct call *call = MST_CONTAINER(news, struct call, news);
    struct session *session = call->session;
    struct mst_fronts_one *one = session->one;

    switch (call->kind) {
    case CALL_UNANSWERED:
        break;
    case CALL_LEAVE: /* answered, or the session had ended */
        session_free(session, false);
        return;
    case CALL_JOIN:
        if (!session->leaves) {
            give_joined(session, &call->copied.reply);
        }
        break;
    case CALL_FRONT:
        if (!session->leaves) {
            one->front->reply(one->machine, now_ns(), session->number, call->tag,
                              &call->copied.reply);
            mst_fronts_drain(session->fronts, one);
        }
        break;
    }
    call_free(call);
}

/* With the client's lock held. */
static void on_reply(void *ctx, const struct mst_reply *reply)
{
    struct call *call = ctx;

    mst_fronts_copy(&call->copied, reply);
    mst_fronts_post(call->session->fronts, &call->news);
}

/* False: no memory. What cannot be posted is answered as if the service had. */
static bool post(struct session *session, enum call_kind kind, uint64_t tag,
                 const struct mst_request *request, uint64_t deadline_ns)
{
    struct call *call = calloc(1, sizeof *call);
    muster_status status;

    if (call == NULL) {
        return false;
    }
    call->session = session;
    call->kind = kind;
    call->tag = tag;
    call->news.take = on_answered;
    call->post = (struct mst_lib_post){.complete = on_reply, .ctx = call};
    mst_list_append(&session->calls, &call->link);
    mst_lib_lock(session->client);
    status = mst_lib_post(session->client, request, deadline_ns, &call->post);
    mst_lib_unlock(session->client);
    if (status != MUSTER_OK) {
        call->copied.reply = (struct mst_reply){.command = request->command, .status = status};
        mst_fronts_post(session->fronts, &call->news);
    }
    return true;
}

/* ---- driving ---- */

static void on_event(uv_poll_t *poll, int status, int events);

static void start(struct session *session)
{
    int events = 0;

    events |= (session->interest.events & POLLIN) != 0 ? UV_READABLE : 0;
    events |= (session->interest.events & POLLOUT) != 0 ? UV_WRITABLE : 0;
    (void)uv_poll_start(&session->watch->poll, events, on_event);
}

/* False: no memory. */
static bool watch(struct session *session)
{
    struct mst_fronts *fronts = session->fronts;
    struct watch *made = calloc(1, sizeof *made);

    if (made == NULL ||
        uv_poll_init(fronts->options.loop, &made->poll, session->interest.fd) != 0) {
        free(made);
        return false;
    }
    fronts->handles++;
    made->fronts = fronts;
    made->session = session;
    session->watch = made;
    start(session);
    return true;
}

/* A client closes its socket without a word, and the next one may have the same number. */
static void drive(struct session *session, short found)
{
    struct mst_lib_interest *interest = &session->interest;
    uint64_t before = interest->epoch;

    mst_lib_drive(session->client, found, interest);
    if (interest->epoch == before) {
        return;
    }
    unwatch(session);
    if (interest->fd >= 0 && !watch(session)) {
        end_later(session, MUSTER_ENOMEM, "no memory to watch the connection to the service");
    }
}

/* The loop watches no more after an error, which the client may not have met: there may be bytes
 * before it. */
static void on_event(uv_poll_t *poll, int status, int events)
{
    struct watch *watch = MST_CONTAINER(poll, struct watch, poll);
    struct mst_fronts *fronts = watch->fronts;
    struct session *session = watch->session;
    short found = status == 0 ? 0 : POLLERR;

    found |= (events & UV_READABLE) != 0 ? POLLIN : 0;
    found |= (events & UV_WRITABLE) != 0 ? POLLOUT : 0;
    fronts->taking = true;
    drive(session, found);
    if (status != 0 && session->watch == watch) {
        start(session);
    }
    mst_fronts_take(fronts);
}

void mst_fronts_sessions_tick(struct mst_fronts *fronts)
{
    uint64_t now = now_ns();

    MST_LIST_EACH(link, following, &fronts->sessions)
    {
        struct session *session = MST_CONTAINER(link, struct session, link);

        if (session->client != NULL && session->interest.until_ns <= now) {
            drive(session, 0);
        }
    }
}

uint64_t mst_fronts_sessions_deadline_ns(const struct mst_fronts *fronts)
{
    uint64_t sooner = UINT64_MAX;

    MST_LIST_EACH(link, following, &fronts->sessions)
    {
        const struct session *session = MST_CONTAINER(link, struct session, link);

        sooner = session->client != NULL ? mst_sooner(sooner, session->interest.until_ns) : sooner;
    }
    return sooner;
}

/* ---- opening ---- */

static muster_status open_client(struct session *session, const struct mst_front_effect *effect,
                                 char *why, size_t room)
{
    const struct mst_fronts *fronts = session->fronts;
    struct muster_client_options options = fronts->client;
    struct mst_lib_other other = {.node = fronts->options.node, .looped = true};
    const struct mst_lib_hook hook = {.ended = on_ended, .ctx = session};
    struct muster_error err = {0};
    muster_status status;

    if (session->index == MST_FRONT_INDEX_NONE) {
        options.role = MUSTER_ROLE_OBSERVER;
    } else {
        options.role = MUSTER_ROLE_RANK;
        options.index = session->index;
        options.size_of_job = options.size_of_job != 0 ? options.size_of_job : effect->size;
        if (!fronts->options.process(fronts->options.ctx, session->index,
                                     mst_fronts_descriptor(fronts, effect->connection), &other.pid,
                                     why, room)) {
            return MUSTER_EINVAL;
        }
    }
    status = mst_lib_open_other(&session->client, &options, &other, &err);
    if (status != MUSTER_OK) {
        (void)snprintf(why, room, "%s", err.text);
        return status;
    }
    mst_lib_lock(session->client);
    mst_lib_hook(session->client, MST_USER_AGENT, &hook);
    status = mst_lib_status(session->client); /* it may have ended before */
    mst_lib_unlock(session->client);
    return status;
}

/* Of a session that is no member nothing is awaited: its calls wait for the service. */
static void on_ready(struct mst_fronts_news *news)
{
    struct session *session = MST_CONTAINER(news, struct session, ready);
    struct mst_fronts_one *one = session->one;

    if (!session->leaves) {
        one->front->opened(one->machine, now_ns(), session->number, 0);
        mst_fronts_drain(session->fronts, one);
    }
}

/* Without memory the client's own time limit ends what it waits for. */
static void open_session(struct mst_fronts *fronts, struct mst_fronts_one *one,
                         const struct mst_front_effect *effect)
{
    struct session *session = calloc(1, sizeof *session);
    const struct mst_request join = {.command = MST_JOIN};
    char why[sizeof session->why] = "the session was refused";
    muster_status status;

    if (session == NULL) {
        fronts->options.say(fronts->options.ctx, "no memory for a process's session");
        return;
    }
    session->fronts = fronts;
    session->one = one;
    session->number = effect->session;
    session->index = effect->index;
    session->over.take = on_over;
    session->ready.take = on_ready;
    mst_list_init(&session->calls);
    mst_list_append(&fronts->sessions, &session->link);
    status = open_client(session, effect, why, sizeof why);
    if (status == MUSTER_OK && session->index == MST_FRONT_INDEX_NONE) {
        mst_fronts_post(fronts, &session->ready);
    } else if (status == MUSTER_OK && !post(session, CALL_JOIN, 0, &join, UINT64_MAX)) {
        status = MUSTER_ENOMEM;
    }
    if (session->client != NULL) {
        drive(session, 0);
    }
    if (status != MUSTER_OK) {
        end_later(session, status, why);
    }
}

/* ---- effects ---- */

static struct session *find(const struct mst_fronts *fronts, const struct mst_fronts_one *one,
                            uint64_t number)
{
    MST_LIST_EACH(link, following, &fronts->sessions)
    {
        struct session *session = MST_CONTAINER(link, struct session, link);

        if (session->one == one && session->number == number) {
            return session;
        }
    }
    return NULL;
}

static void drop(struct session *session, uint64_t tag)
{
    MST_LIST_EACH(link, following, &session->calls)
    {
        struct call *call = MST_CONTAINER(link, struct call, link);

        if (call->kind == CALL_FRONT && call->tag == tag) {
            mst_lib_lock(session->client);
            mst_lib_post_drop(session->client, &call->post);
            mst_lib_unlock(session->client);
            mst_list_remove(&call->news.link);
            call_free(call);
            return;
        }
    }
}

static void fail(struct session *session, const struct mst_front_effect *effect)
{
    const struct mst_fronts_options *options = &session->fronts->options;
    struct mst_request request = {
        .command = MST_FAULT,
        .fault = {.kind = effect->cause, .code = effect->code, .text = effect->bytes}};

    if (effect->cause == MST_CAUSE_UNHEALTHY && options->unhealthy != NULL &&
        options->unhealthy(options->ctx, session->index, effect->code, effect->bytes)) {
        session->dead = true;
        return;
    }
    mst_lib_lock(session->client);
    request.fault.generation = mst_lib_view(session->client)->generation;
    mst_lib_unlock(session->client);
    (void)post(session, CALL_UNANSWERED, 0, &request, UINT64_MAX);
}

/* The agent tells the service of a dead one, which ends the session. */
static void leave(struct session *session)
{
    const struct mst_request request = {.command = MST_LEAVE};
    bool member = session->index != MST_FRONT_INDEX_NONE;

    session->leaves = true;
    mst_fronts_changed(session->fronts);
    if (session->client == NULL || (member && session->dead)) {
        return;
    }
    if (!post(session, CALL_LEAVE, 0, &request, UINT64_MAX)) {
        session->fronts->options.say(session->fronts->options.ctx,
                                     "no memory: a process does not leave the job");
    }
}

void mst_fronts_session_effect(struct mst_fronts *fronts, struct mst_fronts_one *one,
                               const struct mst_front_effect *effect)
{
    struct session *session;

    if (effect->kind == MST_FRONT_OPEN) {
        open_session(fronts, one, effect);
        return;
    }
    session = find(fronts, one, effect->session);
    if (session == NULL || session->leaves || session->client == NULL) {
        return; /* it is over, and the front learns that next */
    }
    if (effect->kind == MST_FRONT_POST) {
        if (!post(session, CALL_FRONT, effect->tag, effect->request, effect->deadline_ns)) {
            end_later(session, MUSTER_ENOMEM, "no memory for a call");
        }
    } else if (effect->kind == MST_FRONT_DROP) {
        drop(session, effect->tag);
    } else if (effect->kind == MST_FRONT_FAIL) {
        fail(session, effect);
    } else {
        leave(session);
    }
    drive(session, 0);
}

void mst_fronts_session_dead(struct mst_fronts *fronts, uint32_t index)
{
    MST_LIST_EACH(link, following, &fronts->sessions)
    {
        struct session *session = MST_CONTAINER(link, struct session, link);

        session->dead = session->dead || session->index == index;
    }
}

void mst_fronts_sessions_end(struct mst_fronts *fronts, bool leave_too)
{
    MST_LIST_EACH(link, following, &fronts->sessions)
    {
        struct session *session = MST_CONTAINER(link, struct session, link);

        session_free(session, leave_too && !session->dead);
    }
}

static bool is_member(const struct session *session)
{
    return session->index != MST_FRONT_INDEX_NONE && session->client != NULL && !session->leaves &&
           !session->dead;
}

bool mst_fronts_has(const struct mst_fronts *fronts, uint32_t index)
{
    MST_LIST_EACH(link, following, &fronts->sessions)
    {
        const struct session *session = MST_CONTAINER(link, struct session, link);

        if (session->index == index && is_member(session)) {
            return true;
        }
    }
    return false;
}

bool mst_fronts_any(const struct mst_fronts *fronts)
{
    MST_LIST_EACH(link, following, &fronts->sessions)
    {
        if (is_member(MST_CONTAINER(link, struct session, link))) {
            return true;
        }
    }
    return false;
}

bool mst_fronts_idle(const struct mst_fronts *fronts)
{
    return fronts->connection_count == 0 && !mst_fronts_any(fronts);
}
