/* SPDX-License-Identifier: Apache-2.0 */
/* News from the service: where the coordinator of the worker's cluster is, and that the worker's
 * own session is over. The thread that drives the client notes it, with the client's lock; a thread
 * that has the worker's lock takes it. */
#define _GNU_SOURCE
#include <string.h>

#include "os/system.h"
#include "tasks/shell/worker/worker.h"

/* The part of "unix:PATH,HOST:PORT HOST" that is of use here: a Unix socket is one of its own
 * machine. */
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
static void note(struct mst_work_news *news, uint64_t term, struct mst_slice address)
{
    if (address.size > sizeof(news->address)) {
        term = 0; /* no coordinator of ours writes such a thing */
        address.size = 0;
    }
    news->any = true;
    news->term = term;
    news->address_size = address.size;
    if (address.size > 0) {
        memcpy(news->address, address.data, address.size);
    }
}

static void take_item(struct mst_work_watch *watch, const struct mst_item *item)
{
    bool ours = mst_slice_equal(item->name, mst_slice_text(watch->key));

    if (item->kind == MST_ITEM_KEY &&
        mst_slice_equal(item->name, mst_slice_text(watch->record_key))) {
        watch->news.dismissed = true;
    } else if (item->kind == MST_ITEM_KEY && ours) {
        note(&watch->news, item->revision, address_of(watch->worker->client, item->value));
    } else if (item->kind == MST_ITEM_RESET || (item->kind == MST_ITEM_DELETED && ours)) {
        note(&watch->news, 0, mst_slice_of(NULL, 0)); /* after RESET all is listed again */
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
    if (watch->news.any || watch->news.dismissed) {
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
    if (watch->news.ended == MUSTER_OK) {
        watch->news.ended = status;
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
    (void)mst_cluster_key(watch->key, sizeof(watch->key), mst_slice_text(worker->cluster));
    (void)mst_cluster_dismissed_key(watch->record_key, sizeof(watch->record_key),
                                    mst_slice_text(worker->cluster));
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

bool mst_work_watch_take(struct muster_worker *worker, uint64_t now_ns)
{
    struct mst_work_watch *watch = &worker->watch;
    struct mst_work_news news;

    (void)pthread_mutex_lock(&watch->lock);
    news = watch->news;
    watch->news.any = false;
    (void)pthread_mutex_unlock(&watch->lock);
    if (news.any) {
        worker->term = news.term != 0 ? news.term : worker->term;
        mst_worker_coordinator(mst_work_machine(worker), now_ns, news.term,
                               mst_slice_of(news.address, news.address_size));
    }
    if (news.ended != MUSTER_OK && worker->end_status == MUSTER_OK) {
        worker->end_status = news.ended;
        mst_worker_ended(mst_work_machine(worker), now_ns, news.ended);
    }
    return news.dismissed;
}
