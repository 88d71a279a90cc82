/* SPDX-License-Identifier: Apache-2.0 */
/* What the worker learns from the service: where its cluster's coordinator is, and that its own
 * session is over. Told on whichever thread drives the client, with its lock; taken by whoever has
 * the worker's. */
#define _GNU_SOURCE
#include <string.h>

#include "os/system.h"
#include "tasks/shell/worker/worker.h"

#define KEYS "muster/cluster/"

/* What of "unix:PATH,HOST:PORT HOST" is of use here: a Unix socket is one of its own machine. */
static struct mst_slice address_of(const muster_client *client, struct mst_slice value)
{
    const char *at = value.data;
    const char *space = value.size > 0 ? memrchr(at, ' ', value.size) : NULL;
    const char *comma = NULL;

    if (!space) {
        return value;
    }
    if (!mst_slice_equal(mst_slice_of(space + 1, value.size - 1 - (size_t)(space - at)),
                         mst_slice_text(client->host)) &&
        mst_slice_starts_with(value, mst_slice_text("unix:"))) {
        comma = memchr(at, ',', (size_t)(space - at));
        at = comma ? comma + 1 : space;
    }
    return mst_slice_of(at, (size_t)(space - at));
}

/* Watch's lock held. */
static void keep(struct mst_work_watch *watch, uint64_t term, struct mst_slice address)
{
    if (address.size > sizeof(watch->address)) {
        term = 0; /* no coordinator of ours writes such a thing */
        address.size = 0;
    }
    watch->news = true;
    watch->term = term;
    watch->address_size = address.size;
    if (address.size > 0) {
        memcpy(watch->address, address.data, address.size);
    }
}

static void take_item(struct mst_work_watch *watch, const struct mst_item *item)
{
    bool ours = mst_slice_equal(item->name, mst_slice_text(watch->key));

    switch (item->kind) {
    case MST_ITEM_KEY:
        if (ours) {
            keep(watch, item->revision, address_of(watch->worker->client, item->value));
        }
        break;
    case MST_ITEM_DELETED:
        if (ours) {
            keep(watch, 0, mst_slice_of(NULL, 0));
        }
        break;
    case MST_ITEM_RESET:
        keep(watch, 0, mst_slice_of(NULL, 0)); /* it is listed again, if it is there */
        break;
    case MST_ITEM_MEMBER:
    case MST_ITEM_FAULT:
    case MST_ITEM_VIEW:
    case MST_ITEM_ROUND:
    case MST_ITEM_PART:
    case MST_ITEM_JOB:
    case MST_ITEM_HOST:
        break;
    }
}

/* Client's lock held. */
static muster_status take(void *ctx, const struct mst_reply *reply)
{
    struct mst_work_watch *watch = ctx;

    (void)pthread_mutex_lock(&watch->lock);
    for (uint32_t i = 0; i < reply->item_count; i++) {
        take_item(watch, &reply->items[i]);
    }
    if (watch->news) {
        mst_system_event_ring(atomic_load(&watch->worker->wake));
    }
    (void)pthread_mutex_unlock(&watch->lock);
    return MUSTER_OK;
}

/* ---- the hook, client's lock held ---- */

static void hook_ended(void *ctx, uint64_t now_ns, muster_status status)
{
    struct mst_work_watch *watch = ctx;

    (void)now_ns;
    (void)pthread_mutex_lock(&watch->lock);
    if (watch->ended == MUSTER_OK) {
        watch->ended = status;
    }
    (void)pthread_mutex_unlock(&watch->lock);
    mst_system_event_ring(atomic_load(&watch->worker->wake));
}

/* The others are the worker's, under its lock: see mst_work_lock. */
static void hook_disowned(void *ctx)
{
    struct muster_worker *worker = ((struct mst_work_watch *)ctx)->worker;

    atomic_store(&worker->wake, -1);
    atomic_store(&worker->lost, true);
}

static void hook_poisoned(void *ctx)
{
    hook_ended(ctx, 0, MUSTER_EINTERNAL);
}

static void hook_release(void *ctx)
{
    ((struct mst_work_watch *)ctx)->worker->client = NULL;
}

void mst_work_watch_claim(struct muster_worker *worker)
{
    const struct mst_lib_hook hook = {
        .disowned = hook_disowned, .release = hook_release, .ctx = &worker->watch};

    worker->watch.worker = worker;
    mst_lib_hook(worker->client, MST_USER_WORKER, &hook);
}

muster_status mst_work_watch_start(struct muster_worker *worker, struct muster_error *err)
{
    struct mst_work_watch *watch = &worker->watch;
    const struct mst_lib_hook hook = {.ended = hook_ended,
                                      .disowned = hook_disowned,
                                      .poisoned = hook_poisoned,
                                      .release = hook_release,
                                      .ctx = watch};
    muster_status status;

    (void)pthread_mutex_init(&watch->lock, NULL);
    mst_text_print(watch->key, sizeof(watch->key), "%s%s", KEYS, worker->cluster);
    mst_lib_lock(worker->client);
    status = mst_lib_status(worker->client);
    if (status == MUSTER_OK) {
        mst_lib_hook(worker->client, MST_USER_WORKER, &hook);
        watch->follow.take = take;
        watch->follow.ctx = watch;
        mst_lib_follow(&watch->follow, worker->client, MST_WATCH_KEYS, mst_slice_text(watch->key),
                       MST_NODE_NONE);
    } else {
        status = mst_lib_fail_again(worker->client, err, "serve");
    }
    mst_lib_unlock(worker->client);
    return status;
}

void mst_work_watch_stop(struct muster_worker *worker)
{
    struct mst_work_watch *watch = &worker->watch;

    mst_lib_lock(worker->client);
    if (!worker->client->poisoned) {
        mst_lib_follow_end(&watch->follow);
        mst_work_watch_claim(worker);
    }
    mst_lib_unlock(worker->client);
    (void)pthread_mutex_destroy(&watch->lock);
}

void mst_work_watch_take(struct muster_worker *worker, uint64_t now_ns)
{
    struct mst_work_watch *watch = &worker->watch;
    char address[MST_WORK_ADDRESS_MAX];
    struct mst_slice value;
    muster_status ended;
    uint64_t term;
    bool news;

    (void)pthread_mutex_lock(&watch->lock);
    news = watch->news;
    term = watch->term;
    ended = watch->ended;
    value = mst_slice_of(address, watch->address_size);
    memcpy(address, watch->address, watch->address_size);
    watch->news = false;
    (void)pthread_mutex_unlock(&watch->lock);
    if (news) {
        worker->term = term != 0 ? term : worker->term;
        mst_worker_coordinator(mst_work_machine(worker), now_ns, term, value);
    }
    if (ended != MUSTER_OK && worker->end_status == MUSTER_OK) {
        worker->end_status = ended;
        mst_worker_ended(mst_work_machine(worker), now_ns, ended);
    }
}
