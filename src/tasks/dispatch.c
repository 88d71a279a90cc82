/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker runs what next. The oldest closure that a worker has room for goes first; free slots
 * are filled before anything is prefetched; the workers take turns. */
#include "base/panic.h"
#include "tasks/machine.h"

#define RUN_UNKNOWN_NS NS_PER_S

/* ---- what a worker has ---- */

/* A worker runs in order, so the first of what it was sent are presumed to have begun. */
void mst_dispatch_promote(struct mst_cluster *cluster, struct mst_task_worker *worker)
{
    while (worker->link && worker->running_count < worker->slots && worker->prefetched_count > 0) {
        struct mst_list *node = mst_list_take(&worker->prefetched);
        struct mst_closure *closure = MST_CONTAINER(node, struct mst_closure, place.list);

        worker->prefetched_count--;
        cluster->prefetched_count--;
        worker->running_count++;
        mst_list_append(&worker->running, node);
        closure->where = MST_WHERE_RUNNING;
        closure->begun = true;
        closure->begun_ns = cluster->now_ns;
        if (closure->start_ns != NEVER) {
            mst_closure_alarm(cluster, closure);
        }
    }
    mst_task_worker_update(cluster, worker);
}

void mst_dispatch_leave(struct mst_cluster *cluster, struct mst_closure *closure)
{
    struct mst_task_worker *worker = closure->worker;

    mst_list_remove(&closure->place.list);
    if (closure->where == MST_WHERE_RUNNING) {
        worker->running_count--;
        worker->alone = worker->alone && worker->running_count > 0;
    } else {
        worker->prefetched_count--;
        cluster->prefetched_count--;
    }
    worker->load_ns -= closure->load_ns;
    worker->load_bytes -= closure->bytes;
    mst_list_remove(&closure->owed);
    closure->worker = NULL;
    closure->where = MST_WHERE_BACKOFF; /* nowhere, for now */
    cluster->counts.running--;
    cluster->counts.queued++;
    cluster->counts.queued_bytes += closure->bytes;
    mst_dispatch_promote(cluster, worker);
}

static uint64_t left_ms(const struct mst_cluster *cluster, const struct mst_closure *closure)
{
    uint64_t left_ns = closure->total_ns - cluster->now_ns;

    if (closure->total_ns == NEVER) {
        return 0;
    }
    if (closure->total_ns <= cluster->now_ns || left_ns < NS_PER_MS) {
        return 1;
    }
    return left_ns / NS_PER_MS;
}

static void assign(struct mst_cluster *cluster, struct mst_task_worker *worker,
                   struct mst_closure *closure, uint32_t flags)
{
    const struct mst_kind *kind = closure->kind;

    mst_queue_remove(cluster, closure);
    cluster->counts.queued--;
    cluster->counts.queued_bytes -= closure->bytes;
    cluster->counts.running++;
    closure->worker = worker;
    closure->attempt++;
    closure->ran_on = worker->number;
    closure->sent_ns = cluster->now_ns;
    closure->begun_ns = cluster->now_ns;
    closure->load_ns = kind->run_ns > 0 ? kind->run_ns : RUN_UNKNOWN_NS;
    closure->once = closure->once || (flags & MST_FUNCTION_ONCE) != 0;
    closure->idempotent =
        closure->idempotent || (flags & (MST_FUNCTION_IDEMPOTENT | MST_FUNCTION_PURE)) != 0;
    closure->recalled = false;
    worker->load_ns += closure->load_ns;
    worker->load_bytes += closure->bytes;
    if (worker->running_count < worker->slots) {
        closure->where = MST_WHERE_RUNNING;
        closure->begun = true;
        worker->running_count++;
        worker->alone = closure->alone;
        mst_list_append(&worker->running, &closure->place.list);
    } else {
        closure->where = MST_WHERE_PREFETCHED;
        worker->prefetched_count++;
        cluster->prefetched_count++;
        mst_list_append(&worker->prefetched, &closure->place.list);
        cluster->recall_ns = MST_CLUSTER_RECALL_NS;
        mst_dispatch_watch(cluster);
    }
    if (mst_tree_linked(&closure->alarm.node)) {
        mst_closure_alarm(cluster, closure);
    }
    if (cluster->full) {
        cluster->full = false;
        cluster->changed = true;
    }
}

static bool run(struct mst_cluster *cluster, struct mst_task_worker *worker,
                struct mst_closure *closure)
{
    struct mst_cluster_message *message = &cluster->message;
    uint32_t place = mst_task_worker_place(worker, closure->kind);
    enum mst_room room = worker->room;

    if (closure->need_count > 0 && mst_value_build_for(cluster, worker, closure)) {
        return true; /* the value comes first */
    }
    assign(cluster, worker, closure, worker->hello->functions[place].flags);
    mst_task_worker_update(cluster, worker);
    if (worker->room == room &&
        room != MST_ROOM_NONE) { /* the next closure goes to another worker */
        mst_list_remove(&worker->place);
        mst_list_append(&cluster->by_room[room], &worker->place);
    }
    mst_effect_message(cluster, worker, MST_CLUSTER_RUN);
    message->attempt = mst_closure_attempt(closure);
    message->series = closure->series;
    message->function = place;
    message->key = mst_closure_key(closure);
    message->run_limit_ms = mst_ms_up(closure->run_limit_ns);
    message->left_ms = left_ms(cluster, closure);
    message->needs = mst_closure_needs(closure);
    message->need_count = closure->need_count;
    message->parts =
        (struct mst_parts){.items = mst_closure_parts(closure), .count = closure->part_count};
    return true;
}

/* ---- choosing a worker ---- */

static bool is_empty(const struct mst_task_worker *worker)
{
    return worker->running_count + worker->prefetched_count == 0;
}

enum use { USE_ANY = 0, USE_PREFETCH = 1, USE_ALONE = 2 };

static struct mst_task_worker *first_able(struct mst_cluster *cluster, enum mst_room room,
                                          const struct mst_closure *closure, enum use use)
{
    MST_EACH(worker, &cluster->by_room[room], struct mst_task_worker, place) {
        uint32_t place = mst_task_worker_place(worker, closure->kind);

        if (place != MST_FUNCTION_NONE && (use != USE_ALONE || is_empty(worker)) &&
            (use != USE_PREFETCH ||
             (worker->hello->functions[place].flags & MST_FUNCTION_ONCE) == 0)) {
            return worker;
        }
    }
    return NULL;
}

static struct mst_task_worker *worker_for(struct mst_cluster *cluster,
                                          const struct mst_closure *closure)
{
    struct mst_task_worker *worker = first_able(cluster, MST_ROOM_SLOT, closure, USE_ANY);

    if (!worker && !closure->once) {
        worker = first_able(cluster, MST_ROOM_SPARE, closure, USE_PREFETCH);
    }
    return worker;
}

/* The oldest closure that a worker may have room for. */
static struct mst_closure *oldest_ready(const struct mst_cluster *cluster)
{
    struct mst_closure *oldest = NULL;

    MST_EACH(kind, &cluster->ready, const struct mst_kind, ready) {
        struct mst_closure *head = kind->stuck ? NULL : mst_queue_head(kind);

        if (head && (!oldest || head->number < oldest->number)) {
            oldest = head;
        }
    }
    return oldest;
}

/* An empty worker; or any that could run the closure, if it has none reserved. */
static struct mst_task_worker *worker_alone(struct mst_cluster *cluster,
                                            const struct mst_closure *closure)
{
    struct mst_task_worker *worker = first_able(cluster, MST_ROOM_SLOT, closure, USE_ALONE);

    if (!worker && !closure->worker) {
        worker = first_able(cluster, MST_ROOM_SLOT, closure, USE_ANY);
    }
    if (!worker && !closure->worker) {
        worker = first_able(cluster, MST_ROOM_SPARE, closure, USE_ANY);
    }
    return worker;
}

static void reserve(struct mst_cluster *cluster, struct mst_closure *closure,
                    struct mst_task_worker *worker)
{
    struct mst_task_worker *before = closure->worker;

    closure->worker = worker;
    worker->reserved = closure;
    mst_task_worker_update(cluster, worker);
    if (before) {
        before->reserved = NULL;
        mst_task_worker_update(cluster, before);
    }
}

/* A closure that must run alone reserves a worker, and waits until that one or another is empty:
 * what runs there may never end. */
static bool run_alone(struct mst_cluster *cluster)
{
    MST_TREE_EACH(closure, &cluster->alone, struct mst_closure, place.tree) {
        struct mst_task_worker *worker = closure->worker;

        if (!worker || !is_empty(worker)) {
            worker = worker_alone(cluster, closure);
            if (worker) {
                reserve(cluster, closure, worker);
            }
        }
        if (worker && is_empty(worker) && mst_task_worker_usable(worker)) {
            return run(cluster, worker, closure);
        }
    }
    return false;
}

bool mst_dispatch_next(struct mst_cluster *cluster)
{
    struct mst_closure *closure;

    if (cluster->alone.count > 0 && run_alone(cluster)) {
        return true;
    }
    if (mst_list_empty(&cluster->by_room[MST_ROOM_SLOT]) &&
        mst_list_empty(&cluster->by_room[MST_ROOM_SPARE])) {
        return false;
    }
    while ((closure = oldest_ready(cluster))) {
        struct mst_task_worker *worker = worker_for(cluster, closure);

        if (worker) {
            return run(cluster, worker, closure);
        }
        closure->kind->stuck = true;
    }
    return false;
}

/* ---- taking back ---- */

void mst_dispatch_watch(struct mst_cluster *cluster)
{
    if (cluster->prefetched_count > 0 && !mst_list_empty(&cluster->by_room[MST_ROOM_SLOT]) &&
        !mst_tree_linked(&cluster->recall.node)) {
        mst_alarm_at(cluster, &cluster->recall, mst_after_ns(cluster->now_ns, cluster->recall_ns));
    }
}

static uint64_t free_slots(const struct mst_cluster *cluster)
{
    uint64_t count = 0;

    MST_EACH(worker, &cluster->by_room[MST_ROOM_SLOT], const struct mst_task_worker, place) {
        count += worker->slots - worker->running_count;
    }
    return count;
}

/* From the end of the list: that would begin last. */
static uint64_t recall_from(struct mst_cluster *cluster, struct mst_task_worker *worker,
                            uint64_t most)
{
    uint64_t count = 0;

    for (struct mst_list *at = worker->prefetched.prev; at != &worker->prefetched && count < most;
         at = at->prev) {
        struct mst_closure *closure = MST_CONTAINER(at, struct mst_closure, place.list);

        if (closure->recalled || closure->stopping != MST_ORIGIN_NONE ||
            cluster->now_ns - closure->sent_ns < MST_CLUSTER_RECALL_NS ||
            closure->kind->unable == cluster->recalls) {
            continue;
        }
        if (!first_able(cluster, MST_ROOM_SLOT, closure, USE_ANY)) {
            closure->kind->unable = cluster->recalls; /* for the rest of this round */
            continue;
        }
        closure->recalled = true;
        mst_task_worker_owe(cluster, closure);
        count++;
    }
    return count;
}

void mst_dispatch_recall(struct mst_cluster *cluster, struct mst_task_alarm *alarm)
{
    uint64_t slots = free_slots(cluster);
    uint64_t most = slots;

    (void)alarm;
    cluster->recalls++;
    for (uint32_t i = 0; i < cluster->worker_count && most > 0; i++) {
        if (cluster->workers[i]->link) {
            most -= recall_from(cluster, cluster->workers[i], most);
        }
    }
    if (most < slots) {
        cluster->recall_ns = MST_CLUSTER_RECALL_NS;
    } else if (cluster->recall_ns < NS_PER_S) {
        cluster->recall_ns *= 2; /* no idle worker could run any of it */
    }
    mst_dispatch_watch(cluster);
}
