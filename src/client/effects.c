/* SPDX-License-Identifier: Apache-2.0 */
/* The effects of the client machine, one at a time, and the ids of requests. */
#include "client/machine.h"
#include "proto/command.h"

static uint64_t oldest_write(struct mst_client *client)
{
    return mst_list_empty(&client->writes)
               ? client->id_next
               : MST_CONTAINER(client->writes.next, struct mst_client_call, write)->request.id;
}

static bool window_has(struct mst_client *client, uint64_t width)
{
    return client->id_next - oldest_write(client) < width;
}

static void send(struct mst_client *client, struct mst_request *request)
{
    request->oldest = oldest_write(client);
    if (request->oldest > request->id) {
        request->oldest = request->id;
    }
    client->effect = (struct mst_client_effect){.type = MST_CLIENT_SEND, .request = request};
}

static void send_own(struct mst_client *client, struct mst_client_own *own)
{
    own->due = false;
    own->waiting = true;
    own->sent_ns = client->now_ns;
    own->request.id = client->id_next;
    if (own == &client->watch) {
        own->request.watch.after = client->view_revision;
    }
    if (own != &client->open) {
        client->id_next++;
    }
    send(client, &own->request);
}

static void send_cancel(struct mst_client *client)
{
    struct mst_list *link = mst_list_take(&client->cancels);
    struct mst_client_call *call = MST_CONTAINER(link, struct mst_client_call, cancel_out);

    client->cancel = (struct mst_request){
        .id = client->id_next++, .command = MST_CANCEL, .cancel.id = call->request.id};
    send(client, &client->cancel);
    if (!call->sent) { /* an orphan: it was kept for this */
        mst_list_remove(&call->link);
        mst_mem_release(&client->mem, call);
    }
}

static struct mst_client_call *first_of(struct mst_list *list)
{
    return mst_list_empty(list) ? NULL : MST_CONTAINER(list->next, struct mst_client_call, out);
}

/* The first call that may be sent now. Calls made before a wait go before it; calls made after a
 * wait for which the service has no room pass it. */
static struct mst_client_call *first_call(struct mst_client *client)
{
    struct mst_client_call *call = first_of(&client->outbox);
    struct mst_client_call *wait = first_of(&client->patient);

    if (wait && client->sent_count[MST_CLIENT_KIND_WAIT] < client->waits_max &&
        (!call || (!has_number(call) && wait->place < call->place))) {
        return wait;
    }
    return call;
}

static bool window_takes(struct mst_client *client, const struct mst_client_call *call)
{
    return has_number(call) || ((call->kind != MST_CLIENT_KIND_PROMPT ||
                                 client->sent_count[call->kind] < MST_CLIENT_WINDOW_CALLS) &&
                                window_has(client, MST_CLIENT_WINDOW_CALLS));
}

static bool send_call(struct mst_client *client)
{
    struct mst_client_call *call = first_call(client);

    /* A client that has stopped itself sends no call until its lease is renewed, even on a living
     * connection: the service could be about to declare its node lost. */
    if (client->stopped || !call || !window_takes(client, call)) {
        return false;
    }
    if (!has_number(call)) {
        call->request.id = client->id_next++;
        if (mst_command_writes(call->request.command)) {
            mst_list_append(&client->writes, &call->write);
        }
    }
    mst_list_remove(&call->out);
    mst_list_append(&client->sent, &call->out);
    mst_client_put_id(client, call);
    call->sent = true;
    client->sent_count[call->kind]++;
    send(client, &call->request);
    if (call->cancelled) {
        mst_client_ask_to_stop(client, call);
    }
    return true;
}

static bool next_send(struct mst_client *client)
{
    if (client->state == MST_CLIENT_STATE_OPENING && client->open.due) {
        send_own(client, &client->open);
        return true;
    }
    if (client->state != MST_CLIENT_STATE_ONLINE) {
        return false;
    }
    if (window_has(client, MST_CLIENT_WINDOW_OWN)) {
        if (client->renew.due) {
            send_own(client, &client->renew);
            return true;
        }
        if (!mst_list_empty(&client->cancels)) {
            send_cancel(client);
            return true;
        }
        if (client->watch.due) {
            send_own(client, &client->watch);
            return true;
        }
    }
    return send_call(client);
}

static void next_finished(struct mst_client *client, struct mst_client_call *call)
{
    const struct mst_reply *reply = call->reply;
    bool local = !reply || reply->status != call->status || reply->id != call->request.id;

    if (local) {
        client->made = reply ? *reply : (struct mst_reply){0};
        client->made.id = call->request.id;
        client->made.command = call->request.command;
        client->made.status = call->status;
        reply = &client->made;
    }
    client->effect = (struct mst_client_effect){.type = MST_CLIENT_DONE,
                                                .tag = call->tag,
                                                .reply = reply,
                                                .status = call->status,
                                                .local = local};
    client->effect_call = call;
}

/* To connect and open. Among several one may accept and say nothing, as if it were frozen: the
 * lease must suffice for the others too. */
static uint64_t attempt_limit_ns(const struct mst_client *client)
{
    return mst_client_silence_ns(client) / (client->endpoint_count > 1 ? 2 : 1);
}

static bool next_state(struct mst_client *client)
{
    if (client->disconnect_due) {
        client->disconnect_due = false;
        client->effect.type = MST_CLIENT_DISCONNECT;
    } else if (client->connect_due) {
        client->connect_due = false;
        client->attempt_ns = mst_after_ns(client->now_ns, attempt_limit_ns(client));
        client->effect.type = MST_CLIENT_CONNECT;
        client->effect.endpoint = client->endpoint;
        client->tried |= UINT32_C(1) << client->endpoint;
    } else {
        return false;
    }
    return true;
}

static bool next_news(struct mst_client *client)
{
    if (client->attention_due) {
        client->attention_due = false;
        client->effect.type = MST_CLIENT_ATTENTION;
    } else if (client->ended_due) {
        client->ended_due = false;
        client->effect.type = MST_CLIENT_ENDED;
        client->effect.status = client->end_status;
        client->effect.reply = client->end_reply;
        client->end_reply = NULL;
    } else {
        return false;
    }
    return true;
}

const struct mst_client_effect *mst_client_next(struct mst_client *client)
{
    MST_ASSERT(!client->draining);
    client->effect = (struct mst_client_effect){0};
    client->effect_call = NULL;
    if (!next_state(client) && !next_send(client)) {
        if (!mst_list_empty(&client->finished)) {
            next_finished(client, call_of(client->finished.next));
        } else if (!next_news(client)) {
            return NULL;
        }
    }
    client->draining = true;
    return &client->effect;
}

void mst_client_done(struct mst_client *client, const struct mst_client_effect *effect)
{
    MST_ASSERT(client->draining && effect == &client->effect);
    client->draining = false;
    if (client->effect_call) {
        mst_list_remove(&client->effect_call->link);
        mst_mem_release(&client->mem, client->effect_call);
        client->effect_call = NULL;
    }
}
