/* SPDX-License-Identifier: Apache-2.0 */
#include "core_service.h"

#include <stdlib.h>
#include <string.h>

#include "base/panic.h"

#define LEASE_NS UINT64_C(1000000000000000)

static void *give(void *ctx, size_t size)
{
    (void)ctx;
    return malloc(size);
}

static void take(void *ctx, void *memory)
{
    (void)ctx;
    free(memory);
}

static const struct mst_mem mem = {.alloc = give, .release = take};

/* ---- copies ---- */

static size_t bytes_of(const struct mst_reply *reply)
{
    size_t size = reply->value.size;

    for (uint32_t i = 0; reply->has_detail && i < reply->detail.who_count; i++) {
        size += reply->detail.who[i].host.size;
    }
    for (uint32_t i = 0; i < reply->item_count; i++) {
        const struct mst_item *item = &reply->items[i];

        size += item->name.size + item->value.size + item->who.host.size;
    }
    return size;
}

static char *move(char *at, struct mst_slice *slice)
{
    if (slice->size > 0) {
        memcpy(at, slice->data, slice->size);
    }
    slice->data = at;
    return at + slice->size;
}

struct mst_reply *core_reply_copy(const struct mst_reply *reply)
{
    size_t room = reply->item_count * sizeof(struct mst_item);
    struct mst_reply *copy = malloc(sizeof(*copy) + room + bytes_of(reply));
    struct mst_item *items = (struct mst_item *)(void *)(copy + 1);
    char *at = (char *)items + room;

    MST_ASSERT(copy);
    *copy = *reply;
    at = move(at, &copy->value);
    for (uint32_t i = 0; copy->has_detail && i < copy->detail.who_count; i++) {
        at = move(at, &copy->detail.who[i].host);
    }
    for (uint32_t i = 0; i < copy->item_count; i++) {
        items[i] = reply->items[i];
        at = move(at, &items[i].name);
        at = move(at, &items[i].value);
        at = move(at, &items[i].who.host);
    }
    copy->items = items;
    return copy;
}

/* ---- the core ---- */

static void told(struct core_service *service, const struct mst_effect *effect)
{
    uint32_t client = (uint32_t)effect->conn.id - 1;

    MST_ASSERT(client < service->client_count);
    if (effect->type != MST_EFFECT_REPLY) {
        return; /* to a client that has left */
    }
    if (service->asked != 0 && service->asked_by == client && effect->reply->id == service->asked) {
        service->answer = core_reply_copy(effect->reply);
    } else if (service->replied) {
        service->replied(service->ctx, client, effect->reply);
    }
}

static void drain(struct core_service *service)
{
    const struct mst_effect *effect;

    while ((effect = mst_core_next(service->core))) {
        told(service, effect);
        mst_core_done(service->core, effect);
    }
}

void core_service_init(struct core_service *service, uint64_t now_ns)
{
    const struct mst_core_config config = {.lease_ns = LEASE_NS, .limits = mst_limits_default};

    *service = (struct core_service){.now_ns = now_ns};
    MST_ASSERT(mst_core_new(&service->core, &config, &mem) == MUSTER_OK);
}

void core_service_fini(struct core_service *service)
{
    mst_core_free(service->core);
    free(service->answer);
    *service = (struct core_service){.core = NULL};
}

static void request(struct core_service *service, uint32_t client, struct mst_request *made)
{
    made->oldest = made->id;
    MST_ASSERT(mst_core_request(service->core, service->now_ns, service->clients[client].conn,
                                made) == MUSTER_OK);
    drain(service);
}

uint32_t core_service_open(struct core_service *service, const struct mst_open *open)
{
    uint32_t number = service->client_count++;
    struct core_client *client = &service->clients[number];
    struct mst_request made = {.id = 1, .command = MST_OPEN, .open = *open};

    MST_ASSERT(service->client_count <= CORE_CLIENTS_MAX);
    *client = (struct core_client){.conn = {.id = number + 1}};
    made.open.token = (struct mst_token){.high = 7, .low = number + 1};
    made.open.job = mst_slice_text("train");
    made.open.pid = 100 + number;
    made.open.node = MST_NODE_NONE;
    MST_ASSERT(mst_core_open(service->core, service->now_ns, client->conn) == MUSTER_OK);
    service->asked = made.id;
    service->asked_by = number;
    free(service->answer);
    service->answer = NULL;
    request(service, number, &made);
    service->asked = 0;
    MST_ASSERT(service->answer && service->answer->status == MUSTER_OK);
    return number;
}

uint64_t core_service_send(struct core_service *service, uint32_t client,
                           const struct mst_request *given)
{
    struct mst_request made = *given;

    made.id = ++service->clients[client].id;
    request(service, client, &made);
    return made.id;
}

const struct mst_reply *core_service_ask(struct core_service *service, uint32_t client,
                                         const struct mst_request *given)
{
    struct mst_request cancel = {.command = MST_CANCEL};
    struct mst_request made = *given;

    made.id = service->asked = ++service->clients[client].id;
    service->asked_by = client;
    free(service->answer);
    service->answer = NULL;
    request(service, client, &made);
    if (!service->answer) {
        service->asked = 0;
        cancel.cancel.id = made.id;
        (void)core_service_send(service, client, &cancel);
    }
    service->asked = 0;
    return service->answer;
}

uint64_t core_service_deadline_ns(const struct core_service *service)
{
    return mst_core_deadline_ns(service->core);
}

void core_service_tick(struct core_service *service, uint64_t now_ns)
{
    service->now_ns = now_ns;
    if (mst_core_deadline_ns(service->core) <= now_ns) {
        mst_core_tick(service->core, now_ns);
        drain(service);
    }
}
