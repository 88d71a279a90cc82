/* SPDX-License-Identifier: Apache-2.0 */
/* The client's side of a session; client.h draws its states.
 *
 * The lease. A renewal is sent every fifth of it and counts, once answered, from the moment it was
 * *sent*: the service received it later than that. So this side stops itself 0.8 of the lease after
 * that moment, before the service can have declared it lost. Opening a session counts as well;
 * resuming one does not, therefore a renewal follows it at once.
 *
 * Numbers. A request gets its id when it is first sent. Writes keep it through every repeat, and
 * the service answers a repeat from its record. Everything else may run twice, so after a resume it
 * is sent under a new id: a watch that waits for an hour must not hold the window back. The
 * machine's own requests have a part of the window to themselves, or a full window would prevent
 * the renewal of the lease.
 *
 * Memory. A call is one allocation, made when it is admitted; nothing else here allocates. A client
 * may have tens of thousands of them that wait, so each is found by its tag, its id and its
 * deadline. */
#include "client/client.h"

#include <string.h>

#include "base/digest.h"
#include "client/machine.h"
#include "proto/command.h"
#include "proto/copy.h"
#include "proto/limit_kinds.h"

#define BACKOFF_MIN_NS (10 * NS_PER_MS)
#define BACKOFF_MAX_NS (1000 * NS_PER_MS)
#define GRACE_NS (1000 * NS_PER_MS)   /* for the names of missing ranks */
#define ATTEMPT_NS (4000 * NS_PER_MS) /* to connect and open, while no lease is known */
#define SILENCE_MIN_NS (200 * NS_PER_MS)

/* ---- birth and death ---- */

muster_status mst_client_new(struct mst_client **out, const struct mst_client_config *config,
                             const struct mst_mem *mem)
{
    struct mst_request open = {.command = MST_OPEN, .open = config->open};
    struct mst_client *client;
    size_t size = mst_copy_size(&mst_request_fields, &open);

    if (config->endpoint_count == 0 || config->endpoint_count > MST_CLIENT_ENDPOINTS_MAX ||
        size > SIZE_MAX / 2) {
        return MUSTER_EINVAL;
    }
    client = mst_mem_zalloc(mem, sizeof(*client) + size);
    if (!client) {
        return MUSTER_ENOMEM;
    }
    client->mem = *mem;
    client->prng.state = config->seed;
    client->endpoint_count = config->endpoint_count;
    client->backoff_ns = BACKOFF_MIN_NS;
    client->end_ns = config->end_ns != 0 ? config->end_ns : NEVER;
    client->id_next = 1;
    client->view.rank = MST_RANK_NONE;
    client->view.index = config->open.index;
    mst_list_init(&client->calls);
    mst_list_init(&client->writes);
    mst_list_init(&client->outbox);
    mst_list_init(&client->patient);
    mst_list_init(&client->sent);
    mst_list_init(&client->cancels);
    mst_list_init(&client->finished);
    mst_list_init(&client->orphans);
    mst_client_index_init(client);
    client->waits_max = UINT32_MAX;
    mst_copy(&mst_request_fields, &client->open.request, &open, client->room);
    client->renew.request.command = MST_RENEW;
    client->watch.request.command = MST_WATCH;
    client->watch.request.watch.kinds = MST_WATCH_VIEW;
    client->watch.request.watch.node = MST_NODE_NONE;
    *out = client;
    return MUSTER_OK;
}

static void unlist(struct mst_client *client, struct mst_client_call *call)
{
    mst_tree_remove(&client->tags, &call->in_tags);
    mst_tree_remove(&client->dues, &call->in_dues);
    mst_tree_remove(&client->ids, &call->in_ids);
    mst_list_remove(&call->link);
    mst_list_remove(&call->out);
    mst_list_remove(&call->write);
    mst_list_remove(&call->cancel_out);
}

static void release(struct mst_client *client, struct mst_client_call *call)
{
    unlist(client, call);
    mst_mem_release(&client->mem, call);
}

static void release_all(struct mst_client *client, struct mst_list *list)
{
    MST_LIST_EACH(link, following, list)
    {
        release(client, call_of(link));
    }
}

void mst_client_free(struct mst_client *client)
{
    struct mst_mem mem;

    if (!client) {
        return;
    }
    release_all(client, &client->calls);
    release_all(client, &client->finished);
    release_all(client, &client->orphans);
    mem = client->mem;
    mst_mem_release(&mem, client);
}

/* ---- calls ---- */

static void uncount_open(struct mst_client *client, struct mst_client_call *call)
{
    client->open_count[call->kind]--;
    client->wait_bytes -= call->kind == MST_CLIENT_KIND_WAIT ? call->bytes : 0;
}

static void uncount(struct mst_client *client, struct mst_client_call *call)
{
    uncount_open(client, call);
    if (call->sent) {
        client->sent_count[call->kind]--;
        call->sent = false;
    }
}

/* The call is over for its caller. `reply` lives until the effects are drained, or is NULL. */
static void finish(struct mst_client *client, struct mst_client_call *call, muster_status status,
                   const struct mst_reply *reply)
{
    uncount(client, call);
    unlist(client, call);
    call->status = status;
    call->reply = reply;
    mst_list_append(&client->finished, &call->link);
}

/* Or the attempt for one. */
static bool has_connection(const struct mst_client *client)
{
    return client->state == MST_CLIENT_STATE_OPENING || client->state == MST_CLIENT_STATE_ONLINE ||
           (client->state == MST_CLIENT_STATE_CONNECTING && !client->connect_due);
}

/* The service will answer no request of this connection. */
static void forget_connection(struct mst_client *client)
{
    client->open.due = client->open.waiting = false;
    client->renew.due = client->renew.waiting = false;
    client->watch.due = client->watch.waiting = false;
    while (mst_list_take(&client->cancels)) {
    }
    release_all(client, &client->orphans);
    client->waits_max = UINT32_MAX;
    memset(client->sent_count, 0, sizeof(client->sent_count));
}

static void end(struct mst_client *client, muster_status status, const struct mst_reply *reply)
{
    muster_status of_calls = status == MUSTER_OK ? MUSTER_ECANCELLED : status;

    if (client->state == MST_CLIENT_STATE_ENDED) {
        return;
    }
    client->disconnect_due = has_connection(client);
    client->connect_due = false;
    client->state = MST_CLIENT_STATE_ENDED;
    client->end_status = status;
    client->end_reply = reply;
    client->ended_due = true;
    MST_LIST_EACH(link, following, &client->calls)
    {
        finish(client, call_of(link), of_calls, reply);
    }
    forget_connection(client);
}

void mst_client_give_up(struct mst_client *client, uint64_t now_ns, muster_status status)
{
    client->now_ns = now_ns;
    end(client, status, NULL);
}

bool mst_client_waits(const struct mst_request *request)
{
    return mst_command_waits(request->command) &&
           (request->command != MST_GET || request->get.wait);
}

static enum mst_client_kind kind_of(const struct mst_request *request)
{
    if (!mst_client_waits(request)) {
        return MST_CLIENT_KIND_PROMPT;
    }
    return request->command == MST_ROUND || request->command == MST_JOIN ? MST_CLIENT_KIND_JOIN
                                                                         : MST_CLIENT_KIND_WAIT;
}

bool mst_client_piles_up(const struct mst_request *request)
{
    return kind_of(request) == MST_CLIENT_KIND_WAIT;
}

static void queue(struct mst_client *client, struct mst_client_call *call)
{
    bool patient = call->kind == MST_CLIENT_KIND_WAIT;

    mst_list_append(patient ? &client->patient : &client->outbox, &call->out);
}

static bool has_room(const struct mst_client *client, enum mst_client_kind kind, uint64_t bytes)
{
    if (kind == MST_CLIENT_KIND_WAIT) {
        return client->wait_bytes + bytes <= MST_CLIENT_WAIT_BYTES_MAX;
    }
    return client->open_count[MST_CLIENT_KIND_PROMPT] + client->open_count[MST_CLIENT_KIND_JOIN] <
           MST_CLIENT_CALLS_MAX;
}

muster_status mst_client_call(struct mst_client *client, uint64_t now_ns,
                              const struct mst_request *request, uint64_t deadline_ns, uint64_t tag)
{
    size_t size = mst_copy_size(&mst_request_fields, request);
    enum mst_client_kind kind = kind_of(request);
    struct mst_client_call *call;

    client->now_ns = now_ns;
    if (client->state == MST_CLIENT_STATE_ENDED) {
        return MUSTER_EFENCED;
    }
    if (size > SIZE_MAX / 2) {
        return MUSTER_ENOMEM;
    }
    if (!has_room(client, kind, sizeof(*call) + size)) {
        return MUSTER_ELIMIT;
    }
    call = client->mem.alloc(client->mem.ctx, sizeof(*call) + size);
    if (!call) {
        return MUSTER_ENOMEM;
    }
    *call = (struct mst_client_call){.kind = kind,
                                     .place = client->place_next++,
                                     .tag = tag,
                                     .due_ns = deadline_ns,
                                     .bytes = sizeof(*call) + size};
    mst_copy(&mst_request_fields, &call->request, request, call->room);

    mst_list_append(&client->calls, &call->link);
    queue(client, call);
    mst_client_put_tag(client, call);
    mst_client_put_due(client, call);
    client->open_count[kind]++;
    client->wait_bytes += kind == MST_CLIENT_KIND_WAIT ? call->bytes : 0;
    return MUSTER_OK;
}

void mst_client_ask_to_stop(struct mst_client *client, struct mst_client_call *call)
{
    if (call->sent && !mst_list_linked(&call->cancel_out)) {
        mst_list_append(&client->cancels, &call->cancel_out);
    }
}

/* A request that has its id may have reached the service, which then decides how it ends. A call
 * that was never sent ends here. */
void mst_client_cancel(struct mst_client *client, uint64_t now_ns, uint64_t tag)
{
    struct mst_client_call *call = mst_client_by_tag(client, tag);

    client->now_ns = now_ns;
    if (!call || call->cancelled) {
        return;
    }
    if (call->request.id == 0) {
        finish(client, call, MUSTER_ECANCELLED, NULL);
        return;
    }
    call->cancelled = true;
    mst_client_ask_to_stop(client, call);
}

void mst_client_drop(struct mst_client *client, uint64_t now_ns, uint64_t tag)
{
    struct mst_client_call *call = mst_client_by_tag(client, tag);

    client->now_ns = now_ns;
    if (!call) {
        return;
    }
    if (call->sent && !call->cancelled && !call->timed_out &&
        mst_command_waits(call->request.command)) {
        mst_client_ask_to_stop(client, call);
    }
    mst_list_remove(&call->link);
    mst_list_remove(&call->write);
    mst_tree_remove(&client->tags, &call->in_tags);
    mst_tree_remove(&client->dues, &call->in_dues);
    call->dropped = call->sent && call->kind == MST_CLIENT_KIND_WAIT;
    if (call->dropped) {
        uncount_open(client, call); /* it counts as sent until the service has answered */
    } else {
        mst_list_remove(&call->out);
        mst_tree_remove(&client->ids, &call->in_ids);
        uncount(client, call);
    }
    if (call->dropped || mst_list_linked(&call->cancel_out)) {
        mst_list_append(&client->orphans, &call->link);
    } else {
        mst_mem_release(&client->mem, call);
    }
}

/* ---- the connection ---- */

static void connect_to(struct mst_client *client, uint32_t endpoint)
{
    client->state = MST_CLIENT_STATE_CONNECTING;
    client->endpoint = endpoint;
    client->connect_due = true;
    client->attempt_ns = NEVER;
}

void mst_client_start(struct mst_client *client, uint64_t now_ns)
{
    MST_ASSERT(client->state == MST_CLIENT_STATE_IDLE);
    client->now_ns = now_ns;
    connect_to(client, client->endpoint);
}

uint64_t mst_client_silence_ns(const struct mst_client *client)
{
    return client->lease_ns == 0 ? ATTEMPT_NS : mst_later(client->lease_ns / 5 * 2, SILENCE_MIN_NS);
}

/* Every call without an answer is sent again: the writes first, under their ids, because only their
 * answers move the window. */
static void queue_again(struct mst_client *client)
{
    while (mst_list_take(&client->outbox) || mst_list_take(&client->patient) ||
           mst_list_take(&client->sent)) {
    }
    for (int writes = 1; writes >= 0; writes--) {
        MST_LIST_EACH(link, following, &client->calls)
        {
            struct mst_client_call *call = call_of(link);

            if (has_number(call) == (writes == 1)) {
                mst_tree_remove(&client->ids, &call->in_ids);
                queue(client, call);
            }
        }
    }
}

/* The next attempt, to `endpoint`, waits. */
static void back_off(struct mst_client *client, uint32_t endpoint)
{
    uint64_t half = client->backoff_ns / 2;

    client->state = MST_CLIENT_STATE_WAITING;
    client->attempt_ns =
        mst_after_ns(client->now_ns, half + mst_prng_below(&client->prng, half + 1));
    client->backoff_ns = mst_sooner(client->backoff_ns * 2, BACKOFF_MAX_NS);
    client->endpoint = endpoint;
    client->tried = 0;
}

/* What was sent has no answer. */
static void unsend(struct mst_client *client)
{
    MST_LIST_EACH(link, following, &client->calls)
    {
        struct mst_client_call *call = call_of(link);

        call->sent = false;
        if (call->timed_out) {
            finish(client, call, MUSTER_ETIMEDOUT, NULL);
        }
    }
    forget_connection(client);
    queue_again(client);
}

static void offline(struct mst_client *client)
{
    back_off(client, (client->endpoint + 1) % client->endpoint_count);
    unsend(client);
}

static void hang_up(struct mst_client *client)
{
    client->disconnect_due = has_connection(client);
    client->connect_due = false;
    offline(client);
}

void mst_client_connected(struct mst_client *client, uint64_t now_ns)
{
    client->now_ns = now_ns;
    if (client->state != MST_CLIENT_STATE_CONNECTING || client->connect_due) {
        return;
    }
    client->state = MST_CLIENT_STATE_OPENING;
    client->open.due = true;
}

void mst_client_disconnected(struct mst_client *client, uint64_t now_ns)
{
    client->now_ns = now_ns;
    if (has_connection(client)) {
        offline(client);
    }
}

static uint32_t bit(uint32_t endpoint)
{
    return UINT32_C(1) << endpoint;
}

void mst_client_report(struct mst_client *client, const struct mst_rank_progress *list,
                       uint32_t count)
{
    client->renew.request.renew.progress = list;
    client->renew.request.renew.count = count < MST_PROGRESS_MAX ? count : MST_PROGRESS_MAX;
}

void mst_client_endpoints(struct mst_client *client, uint32_t count, const uint32_t was[])
{
    uint32_t endpoint = client->endpoint, tried = 0;
    bool found = false;

    MST_ASSERT(count > 0 && count <= MST_CLIENT_ENDPOINTS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (was[i] == MST_CLIENT_ENDPOINT_NEW) {
            continue;
        }
        tried |= client->tried & bit(was[i]) ? bit(i) : 0;
        if (was[i] == client->endpoint) {
            endpoint = i;
            found = true;
        }
    }
    MST_ASSERT(found);
    client->endpoint_count = count;
    client->endpoint = endpoint;
    client->tried = tried;
}

void mst_client_sent_on(struct mst_client *client, uint64_t now_ns, uint32_t endpoint)
{
    client->now_ns = now_ns;
    if (client->state != MST_CLIENT_STATE_OPENING && client->state != MST_CLIENT_STATE_ONLINE) {
        return;
    }
    MST_ASSERT(endpoint < client->endpoint_count);
    client->disconnect_due = true;
    unsend(client);
    if (client->tried & bit(endpoint)) {
        back_off(client, endpoint);
    } else {
        connect_to(client, endpoint);
    }
}

/* ---- replies ---- */

static void see_view(struct mst_client *client, const struct mst_view *view)
{
    struct mst_view *mine = &client->view;

    if (view->generation < mine->generation) {
        return;
    }
    if (view->generation != mine->generation || view->size != mine->size ||
        view->rank != mine->rank || view->index != mine->index ||
        view->incarnation != mine->incarnation || view->attention != mine->attention ||
        view->spare != mine->spare || view->ordered != mine->ordered) {
        client->attention_due = true;
    }
    *mine = *view;
    client->open.request.open.generation = view->generation;
    if (view->incarnation != 0) {
        client->open.request.open.incarnation = view->incarnation;
        client->open.request.open.index = view->index;
        client->has_holder = false;
    }
}

/* The time of the self-stop. */
static uint64_t stop_ns(const struct mst_client *client)
{
    return client->lease_ns != 0 && !client->stopped
               ? mst_after_ns(client->answered_ns, client->lease_ns / 5 * 4)
               : NEVER;
}

static void renew_after(struct mst_client *client, uint64_t from_ns)
{
    client->renew_ns = mst_after_ns(from_ns, client->lease_ns / 5);
}

/* Also ends an earlier stop. */
static void renewed(struct mst_client *client, uint64_t sent_ns)
{
    client->answered_ns = sent_ns;
    renew_after(client, sent_ns);
    if (client->stopped && client->now_ns < mst_after_ns(sent_ns, client->lease_ns / 5 * 4)) {
        client->stopped = false;
        client->attention_due = true;
    }
}

static void keep_who(struct mst_who *out, char host[MST_CLIENT_HOST_ROOM],
                     const struct mst_who *who)
{
    size_t size = who->host.size < MST_CLIENT_HOST_ROOM ? who->host.size : MST_CLIENT_HOST_ROOM;

    *out = *who;
    if (size > 0) {
        memcpy(host, who->host.data, size);
    }
    out->host = mst_slice_of(host, size);
}

static void see_holder(struct mst_client *client, const struct mst_reply *reply)
{
    client->has_holder = reply->has_detail && reply->detail.who_count > 0 && reply->has_view &&
                         reply->view.incarnation == 0;
    if (client->has_holder) {
        keep_who(&client->holder, client->host, &reply->detail.who[0]);
        client->attention_due = true;
    }
}

/* The reason for an interruption. */
static void see_fault(struct mst_client *client, const struct mst_reply *reply)
{
    if (reply->has_detail && reply->detail.who_count > 0 && reply->has_view &&
        reply->view.attention == MST_INTERRUPT &&
        reply->view.generation == client->view.generation) {
        client->fault_generation = reply->view.generation;
        keep_who(&client->fault, client->fault_host, &reply->detail.who[0]);
    }
}

/* The service or its agent has no room now, or does not answer: a session that was open once waits
 * for the end of that. */
static bool passes(muster_status status)
{
    return status == MUSTER_ENOMEM || status == MUSTER_ELIMIT || status == MUSTER_ENOSPACE ||
           status == MUSTER_ETIMEDOUT;
}

static void opened(struct mst_client *client, const struct mst_reply *reply)
{
    client->open.waiting = false;
    if (reply->status != MUSTER_OK) {
        if (client->admitted && passes(reply->status)) {
            hang_up(client);
        } else {
            end(client, reply->status, reply);
        }
        return;
    }
    client->state = MST_CLIENT_STATE_ONLINE;
    client->attempt_ns = NEVER;
    client->backoff_ns = BACKOFF_MIN_NS;
    client->tried = bit(client->endpoint);
    if (reply->number > 0) {
        client->lease_ns = mst_after_ns(0, (uint64_t)reply->number * NS_PER_MS);
    }
    if (reply->has_view) {
        see_view(client, &reply->view);
    }
    see_holder(client, reply);
    /* Zero would open a new session. A session that the service has forgotten must be refused, or
     * its repeated writes would be applied a second time. An observer and a waiting claim get no
     * number. */
    if (client->open.request.open.incarnation == 0) {
        client->open.request.open.incarnation = 1;
    }
    if (!client->admitted) {
        client->admitted = true;
        renewed(client, client->open.sent_ns);
    } else {
        client->renew.due = true;
    }
    client->watch.due = client->open.request.open.role == MST_ROLE_RANK;
}

uint64_t mst_client_key_space(const struct mst_request *request)
{
    switch (request->command) {
    case MST_WRITE:
        return request->write.generation;
    case MST_DELETE_PREFIX:
        return request->delete_prefix.generation;
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
    case MST_FAULTS:
    case MST_FAULT:
    case MST_LOST:
    case MST_CUT:
    case MST_HISTORY:
        break;
    }
    return 0;
}

/* EFENCED means the session where the request names no generation that could be over instead. */
static bool ends_session(const struct mst_request *request, muster_status status)
{
    enum mst_command command = request->command;
    bool of_generation = command == MST_ROUND || command == MST_ROUND_MEMBERS ||
                         command == MST_FAULT || mst_client_key_space(request) != 0;

    if (command == MST_LEAVE && status == MUSTER_OK) {
        return true;
    }
    if ((command == MST_JOIN || command == MST_RENEW || command == MST_WATCH) &&
        status == MUSTER_EEXISTS) {
        return true; /* the claim of the place was refused */
    }
    return status == MUSTER_EFENCED && !of_generation;
}

/* A service before 0.2 has a limit of waits of a connection, and no more of it are sent. */
static bool put_back(struct mst_client *client, struct mst_client_call *call,
                     const struct mst_reply *reply)
{
    if (reply->status != MUSTER_ELIMIT || !reply->has_detail ||
        reply->detail.limit_kind != MST_LIMIT_WAITING || call->kind != MST_CLIENT_KIND_WAIT ||
        call->cancelled || call->timed_out) {
        return false;
    }
    client->waits_max = MST_CLIENT_WAITS_OLD;
    client->sent_count[call->kind]--;
    call->sent = false;
    mst_list_remove(&call->out);
    mst_tree_remove(&client->ids, &call->in_ids);
    queue(client, call);
    return true;
}

static void answered(struct mst_client *client, struct mst_client_call *call,
                     const struct mst_reply *reply)
{
    muster_status status = reply->status;
    bool over = ends_session(&call->request, status);

    if (reply->has_view) {
        see_view(client, &reply->view);
    }
    if (call->timed_out && !call->cancelled && status == MUSTER_ECANCELLED) {
        status = MUSTER_ETIMEDOUT;
    }
    finish(client, call, status, reply);
    if (over) {
        end(client, reply->status, reply);
    }
}

static void own_answered(struct mst_client *client, struct mst_client_own *own,
                         const struct mst_reply *reply)
{
    own->waiting = false;
    if (ends_session(&own->request, reply->status)) {
        end(client, reply->status, reply);
        return;
    }
    if (reply->has_view) {
        see_view(client, &reply->view);
    }
    if (own == &client->renew) {
        if (reply->status == MUSTER_OK) {
            renewed(client, own->sent_ns);
        } else {
            renew_after(client, client->now_ns);
        }
        return;
    }
    if (reply->status == MUSTER_OK) { /* else it is due again with the next renewal */
        client->view_revision = reply->revision;
        see_fault(client, reply);
        own->due = true;
    }
}

void mst_client_heard(struct mst_client *client, uint64_t now_ns)
{
    client->now_ns = now_ns;
    client->heard_ns = now_ns;
}

void mst_client_reply(struct mst_client *client, uint64_t now_ns, const struct mst_reply *reply)
{
    struct mst_client_call *call;

    client->now_ns = now_ns;
    if (client->state == MST_CLIENT_STATE_OPENING) {
        if (client->open.waiting && reply->command == MST_OPEN) {
            opened(client, reply);
        }
        return;
    }
    if (client->state != MST_CLIENT_STATE_ONLINE || reply->command == MST_CANCEL) {
        return;
    }
    if (client->renew.waiting && client->renew.request.id == reply->id) {
        own_answered(client, &client->renew, reply);
        return;
    }
    if (client->watch.waiting && client->watch.request.id == reply->id) {
        own_answered(client, &client->watch, reply);
        return;
    }
    call = mst_client_by_id(client, reply->id);
    if (call && call->dropped) {
        client->sent_count[call->kind]--;
        release(client, call);
    } else if (call && !put_back(client, call, reply)) {
        answered(client, call, reply);
    }
}

void mst_client_refused(struct mst_client *client, uint64_t now_ns, uint64_t id,
                        muster_status status)
{
    struct mst_client_call *call;

    client->now_ns = now_ns;
    if (client->state == MST_CLIENT_STATE_OPENING && client->admitted) {
        hang_up(client); /* the next attempt may find memory */
    } else if (client->state == MST_CLIENT_STATE_OPENING) {
        end(client, status, NULL);
    } else if (client->renew.waiting && client->renew.request.id == id) {
        client->renew.waiting = false;
        renew_after(client, now_ns);
    } else if (client->watch.waiting && client->watch.request.id == id) {
        client->watch.waiting = false;
    } else {
        call = mst_client_by_id(client, id);
        if (call) {
            finish(client, call, status, NULL);
        }
    }
}

/* ---- time ---- */

static void expire(struct mst_client *client, struct mst_client_call *call)
{
    if (call->timed_out || !call->sent || !mst_command_waits(call->request.command)) {
        finish(client, call, MUSTER_ETIMEDOUT, NULL);
        return;
    }
    mst_tree_remove(&client->dues, &call->in_dues);
    call->timed_out = true;
    call->due_ns = mst_later(mst_sooner(mst_after_ns(client->now_ns, GRACE_NS), client->end_ns),
                             mst_after_ns(client->now_ns, 1));
    mst_client_put_due(client, call);
    mst_client_ask_to_stop(client, call);
}

/* The time at which a connection that owes an answer counts as dead. */
static uint64_t dead_ns(const struct mst_client *client)
{
    return mst_after_ns(mst_later(client->heard_ns, client->renew.sent_ns),
                        mst_client_silence_ns(client));
}

static void tick_online(struct mst_client *client)
{
    if (client->renew.waiting) {
        if (client->now_ns >= dead_ns(client)) {
            hang_up(client);
        }
        return;
    }
    if (!client->renew.due && client->now_ns >= client->renew_ns) {
        client->renew.due = true;
        client->watch.due = client->watch.due || (!client->watch.waiting &&
                                                  client->open.request.open.role == MST_ROLE_RANK);
    }
}

void mst_client_tick(struct mst_client *client, uint64_t now_ns)
{
    client->now_ns = now_ns;
    switch (client->state) {
    case MST_CLIENT_STATE_IDLE:
    case MST_CLIENT_STATE_ENDED:
        return;
    case MST_CLIENT_STATE_WAITING:
        if (now_ns >= client->attempt_ns) {
            connect_to(client, client->endpoint);
        }
        break;
    case MST_CLIENT_STATE_CONNECTING:
    case MST_CLIENT_STATE_OPENING:
        if (now_ns >= client->attempt_ns) {
            hang_up(client);
        }
        break;
    case MST_CLIENT_STATE_ONLINE:
        tick_online(client);
        break;
    }
    if (now_ns >= stop_ns(client)) {
        client->stopped = true;
        client->attention_due = true;
    }
    while (mst_client_soonest_ns(client) <= now_ns) {
        expire(client, MST_CONTAINER_OR_NULL(mst_tree_first(&client->dues), struct mst_client_call,
                                             in_dues));
    }
}

uint64_t mst_client_deadline_ns(const struct mst_client *client)
{
    uint64_t deadline_ns = NEVER;

    if (client->state == MST_CLIENT_STATE_IDLE || client->state == MST_CLIENT_STATE_ENDED) {
        return NEVER;
    }
    if (client->state != MST_CLIENT_STATE_ONLINE) {
        deadline_ns = client->attempt_ns;
    } else if (client->renew.waiting) {
        deadline_ns = dead_ns(client);
    } else if (!client->renew.due) {
        deadline_ns = client->renew_ns;
    }
    return mst_sooner(mst_sooner(deadline_ns, stop_ns(client)), mst_client_soonest_ns(client));
}

/* ---- what the machine knows ---- */

const struct mst_view *mst_client_view(const struct mst_client *client)
{
    return &client->view;
}

bool mst_client_stopped(const struct mst_client *client)
{
    return client->stopped;
}

bool mst_client_online(const struct mst_client *client)
{
    return client->state == MST_CLIENT_STATE_ONLINE;
}

uint64_t mst_client_lease_ns(const struct mst_client *client)
{
    return client->lease_ns;
}

const struct mst_who *mst_client_holder(const struct mst_client *client)
{
    return client->has_holder ? &client->holder : NULL;
}

const struct mst_who *mst_client_first_fault(const struct mst_client *client)
{
    bool known =
        client->fault_generation != 0 && client->fault_generation == client->view.generation;

    return known ? &client->fault : NULL;
}

void mst_client_check(const struct mst_client *client)
{
    uint32_t calls = 0, unanswered = 0;
    uint32_t sent[MST_CLIENT_KINDS] = {0}, open[MST_CLIENT_KINDS] = {0};
    uint64_t wait_bytes = 0;
    uint64_t write_id = 0;

    MST_LIST_EACH(link, following, &client->calls)
    {
        const struct mst_client_call *call = call_of(link);

        calls++;
        open[call->kind]++;
        wait_bytes += call->kind == MST_CLIENT_KIND_WAIT ? call->bytes : 0;
        sent[call->kind] += call->sent;
        MST_ASSERT(mst_tree_linked(&call->in_tags) && mst_tree_linked(&call->in_dues));
        MST_ASSERT(mst_tree_linked(&call->in_ids) == call->sent);
        MST_ASSERT(call->request.id < client->id_next);
        MST_ASSERT(mst_list_linked(&call->out));
        unanswered += call->sent;
        MST_ASSERT(call->sent || !mst_list_linked(&call->cancel_out));
        MST_ASSERT(!call->sent || call->request.id != 0);
        MST_ASSERT(!has_number(call) || call->request.id > write_id);
        write_id = has_number(call) ? call->request.id : write_id;
    }
    MST_ASSERT(calls == client->tags.count && calls == client->dues.count);
    MST_ASSERT(wait_bytes == client->wait_bytes && wait_bytes <= MST_CLIENT_WAIT_BYTES_MAX);
    MST_LIST_EACH(link, following, &client->orphans)
    {
        const struct mst_client_call *call = call_of(link);

        MST_ASSERT(call->dropped == call->sent);
        MST_ASSERT(call->dropped == mst_list_linked(&call->out));
        sent[call->kind] += call->sent;
        unanswered += call->sent;
    }
    MST_LIST_EACH(link, following, &client->sent)
    {
        MST_ASSERT(MST_CONTAINER(link, struct mst_client_call, out)->sent);
        unanswered--;
    }
    MST_ASSERT(unanswered == 0);
    for (unsigned kind = 0; kind < MST_CLIENT_KINDS; kind++) {
        MST_ASSERT(sent[kind] == client->sent_count[kind]);
        MST_ASSERT(open[kind] == client->open_count[kind]);
        MST_ASSERT(client->state == MST_CLIENT_STATE_ONLINE || sent[kind] == 0);
    }
    MST_ASSERT(sent[MST_CLIENT_KIND_PROMPT] <= MST_CLIENT_WINDOW_CALLS);
    MST_ASSERT(client->state != MST_CLIENT_STATE_ENDED || calls == 0);
    MST_ASSERT(client->state != MST_CLIENT_STATE_ONLINE || client->admitted);
    MST_ASSERT(client->endpoint < client->endpoint_count);
}

uint64_t mst_client_digest(const struct mst_client *client)
{
    const uint64_t numbers[] = {(uint64_t)client->state,
                                client->prng.state,
                                client->endpoint,
                                client->endpoint_count,
                                client->tried,
                                client->id_next,
                                client->lease_ns,
                                client->answered_ns,
                                client->renew_ns,
                                client->heard_ns,
                                client->stopped,
                                client->attempt_ns,
                                client->backoff_ns,
                                client->view.generation,
                                client->view.rank,
                                client->view.incarnation,
                                (uint64_t)client->view.attention,
                                client->view_revision,
                                client->tags.count};
    uint64_t digest = MST_DIGEST_INIT;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        digest = mst_digest_number(digest, numbers[i]);
    }
    MST_LIST_EACH(link, following, &client->calls)
    {
        const struct mst_client_call *call = call_of(link);

        digest = mst_digest_number(digest, call->tag);
        digest = mst_digest_number(digest, call->request.id);
        digest = mst_digest_number(digest, (uint64_t)call->sent + 2 * (uint64_t)call->timed_out);
    }
    return digest;
}
