/* SPDX-License-Identifier: Apache-2.0 */
/* The workers: the places of the job, their incarnations, and what each could take. */
#include "base/panic.h"
#include "tasks/machine.h"

struct mst_task_worker *mst_task_worker_find(const struct mst_cluster *cluster, uint32_t index)
{
    return MST_CONTAINER_OR_NULL(mst_table_find(&cluster->workers_by_index, index),
                                 struct mst_task_worker, node);
}

void mst_task_worker_todo(struct mst_cluster *cluster, struct mst_task_worker *worker)
{
    if (worker->link && !mst_list_linked(&worker->todo)) {
        mst_list_append(&cluster->todo, &worker->todo);
    }
}

void mst_task_worker_owe(struct mst_cluster *cluster, struct mst_closure *closure)
{
    if (!mst_list_linked(&closure->owed)) {
        mst_list_append(&closure->worker->owed, &closure->owed);
    }
    mst_task_worker_todo(cluster, closure->worker);
}

uint32_t mst_task_worker_place(const struct mst_task_worker *worker, const struct mst_kind *kind)
{
    uint32_t place = worker->number < kind->room ? kind->places[worker->number] : 0;

    return place == 0 ? MST_FUNCTION_NONE : place - 1;
}

static bool is_here(enum mst_worker_state state)
{
    return state == MST_WORKER_PRESENT || state == MST_WORKER_SILENT ||
           state == MST_WORKER_DRAINING;
}

bool mst_task_worker_here(const struct mst_task_worker *worker)
{
    return is_here(worker->state);
}

/* ---- what it could take ---- */

bool mst_task_worker_usable(const struct mst_task_worker *worker)
{
    return worker->link && worker->state == MST_WORKER_PRESENT && !worker->draining &&
           !worker->alone && !mst_tree_linked(&worker->start.node);
}

/* Its slots and the configured prefetch; or, of short functions, enough work to keep the connection
 * busy. */
static bool has_credit(const struct mst_cluster *cluster, const struct mst_task_worker *worker)
{
    uint64_t count = (uint64_t)worker->running_count + worker->prefetched_count;
    uint64_t slots = worker->slots;

    return count < slots * (1 + (uint64_t)cluster->config.prefetch) ||
           (worker->load_ns < slots * MST_CLUSTER_PREFETCH_NS &&
            worker->load_bytes < MST_CLUSTER_PREFETCH_BYTES &&
            count < slots * (1 + MST_CLUSTER_PREFETCH_MAX));
}

void mst_task_worker_update(struct mst_cluster *cluster, struct mst_task_worker *worker)
{
    enum mst_room room = MST_ROOM_NONE;

    if (worker->reserved && !mst_task_worker_usable(worker)) { /* another closure may reserve it */
        worker->reserved->worker = NULL;
        worker->reserved = NULL;
    }
    if (cluster->end == MUSTER_OK && !worker->reserved && mst_task_worker_usable(worker)) {
        if (worker->running_count < worker->slots) {
            room = MST_ROOM_SLOT;
        } else if (has_credit(cluster, worker)) {
            room = MST_ROOM_SPARE;
        }
    }
    if (room == worker->room) {
        return;
    }
    mst_list_remove(&worker->place);
    if (room != MST_ROOM_NONE) {
        mst_list_append(&cluster->by_room[room], &worker->place);
    }
    if (room > worker->room) {
        mst_kinds_unstick(cluster, worker);
    }
    worker->room = room;
    if (room == MST_ROOM_SLOT) {
        mst_dispatch_watch(cluster);
    }
}

/* ---- too few ---- */

void mst_workers_few(struct mst_cluster *cluster)
{
    bool few = cluster->connected < cluster->config.min_workers && cluster->end == MUSTER_OK &&
               cluster->dismissal != MST_DISMISSED;

    if (!few) {
        mst_alarm_at(cluster, &cluster->too_few, NEVER);
    } else if (!mst_tree_linked(&cluster->too_few.node)) {
        mst_alarm_at(cluster, &cluster->too_few,
                     mst_after_ns(cluster->now_ns, cluster->config.recovery_max_ns));
    }
}

/* ---- members ---- */

static bool workers_grow(struct mst_cluster *cluster)
{
    uint32_t room = cluster->worker_room == 0 ? 16 : 2 * cluster->worker_room;
    struct mst_task_worker **workers;

    if (!mst_kinds_room(cluster, room) || !mst_values_room(cluster, room)) {
        return false;
    }
    workers = mst_array_grow(&cluster->mem, cluster->workers, cluster->worker_count, room,
                             sizeof(struct mst_task_worker *));
    if (!workers) {
        return false;
    }
    cluster->workers = workers;
    cluster->worker_room = room;
    return true;
}

static void silent(struct mst_cluster *cluster, struct mst_task_alarm *alarm)
{
    struct mst_task_worker *worker = MST_CONTAINER(alarm, struct mst_task_worker, silent);

    mst_loss_silent(cluster, worker, true);
    mst_task_worker_update(cluster, worker);
}

static void away(struct mst_cluster *cluster, struct mst_task_alarm *alarm)
{
    struct mst_task_worker *worker = MST_CONTAINER(alarm, struct mst_task_worker, away);

    mst_loss_given_up(cluster, worker);
    mst_task_worker_update(cluster, worker);
}

static void start(struct mst_cluster *cluster, struct mst_task_alarm *alarm)
{
    mst_task_worker_update(cluster, MST_CONTAINER(alarm, struct mst_task_worker, start));
}

static struct mst_task_worker *worker_new(struct mst_cluster *cluster, uint32_t index)
{
    struct mst_task_worker *worker = mst_mem_zalloc(&cluster->mem, sizeof(*worker));

    if (worker) {
        worker->index = index;
        worker->number = MST_WORKER_NONE;
        worker->silent.ring = silent;
        worker->away.ring = away;
        worker->start.ring = start;
        mst_list_init(&worker->owed);
        mst_list_init(&worker->running);
        mst_list_init(&worker->prefetched);
        mst_list_append(&cluster->members, &worker->member);
        mst_table_insert(&cluster->workers_by_index, index, &worker->node);
    }
    return worker;
}

/* A member that never sends HELLO has no number. */
bool mst_task_worker_number(struct mst_cluster *cluster, struct mst_task_worker *worker)
{
    if (worker->number != MST_WORKER_NONE) {
        return true;
    }
    if (cluster->worker_count == cluster->worker_room && !workers_grow(cluster)) {
        return false;
    }
    worker->number = cluster->worker_count++;
    cluster->workers[worker->number] = worker;
    return true;
}

static void worker_host(struct mst_cluster *cluster, struct mst_task_worker *worker,
                        struct mst_slice host)
{
    char *copy;

    if (host.size == 0 || mst_slice_equal(host, mst_slice_of(worker->host, worker->host_size))) {
        return;
    }
    copy = cluster->mem.alloc(cluster->mem.ctx, host.size);
    if (copy) { /* else it goes by its number */
        memcpy(copy, host.data, host.size);
        mst_mem_release(&cluster->mem, worker->host);
        worker->host = copy;
        worker->host_size = host.size;
    }
}

static void worker_state(struct mst_cluster *cluster, struct mst_task_worker *worker,
                         enum mst_worker_state state, struct mst_worker_end end)
{
    if (!mst_task_worker_here(worker)) {
        return; /* only a new incarnation comes back */
    }
    worker->state = state;
    if (!is_here(state)) {
        mst_loss_lost(cluster, worker, state != MST_WORKER_LEFT, end);
    } else if (state == MST_WORKER_DRAINING) {
        worker->draining = true;
    }
}

/* Its place was taken in the step in which it was lost, or before the loss was reported: the report
 * of the next incarnation carries the end of the last. How any other ended is unknown. */
static void worker_replaced(struct mst_cluster *cluster, struct mst_task_worker *worker,
                            uint64_t incarnation, enum mst_worker_state state,
                            struct mst_worker_end end)
{
    if (!is_here(state) || incarnation != worker->incarnation + 1) {
        end = (struct mst_worker_end){.cause = MST_CAUSE_NONE};
    }
    worker->state = MST_WORKER_LOST;
    mst_loss_lost(cluster, worker, end.cause != MST_CAUSE_LEFT, end);
}

muster_status mst_cluster_member(struct mst_cluster *cluster, uint64_t now_ns, uint32_t index,
                                 uint64_t incarnation, enum mst_worker_state state,
                                 struct mst_worker_end end, struct mst_slice host)
{
    struct mst_task_worker *worker = mst_task_worker_find(cluster, index);

    cluster->now_ns = now_ns;
    if (!worker && !is_here(state)) {
        return MUSTER_OK;
    }
    if (!worker) {
        worker = worker_new(cluster, index);
        if (!worker) {
            return MUSTER_ENOMEM;
        }
        worker->incarnation = incarnation;
        worker->state = state;
    } else if (incarnation > worker->incarnation) {
        if (is_here(worker->state)) {
            worker_replaced(cluster, worker, incarnation, state, end);
        }
        worker->incarnation = incarnation;
        worker->state = state;
        worker->returned = true;
        worker->results = worker->connection = 0;
        worker->draining = false;
        worker->pid = 0;
    } else if (incarnation == worker->incarnation) {
        worker_state(cluster, worker, state, end);
    } else {
        return MUSTER_OK; /* outdated */
    }
    worker_host(cluster, worker, host);
    if (is_here(worker->state) && cluster->hellos > 0) {
        mst_link_member(cluster, worker);
    }
    mst_task_worker_update(cluster, worker);
    mst_workers_few(cluster);
    return MUSTER_OK;
}

void mst_cluster_drain_worker(struct mst_cluster *cluster, uint64_t now_ns, uint32_t number)
{
    cluster->now_ns = now_ns;
    if (number < cluster->worker_count && !cluster->workers[number]->draining) {
        struct mst_task_worker *worker = cluster->workers[number];

        worker->draining = true;
        worker->owe_drain = true;
        mst_task_worker_todo(cluster, worker);
        mst_task_worker_update(cluster, worker);
    }
}

void mst_workers_free(struct mst_cluster *cluster)
{
    MST_EACH(worker, &cluster->members, struct mst_task_worker, member) {
        mst_table_remove(&cluster->workers_by_index, &worker->node);
        mst_mem_release(&cluster->mem, worker->host);
        mst_mem_release(&cluster->mem, worker->hello);
        mst_mem_release(&cluster->mem, worker->orphans);
        mst_mem_release(&cluster->mem, worker->orphaned_values);
        mst_mem_release(&cluster->mem, worker->blamed);
        mst_mem_release(&cluster->mem, worker);
    }
    mst_mem_release(&cluster->mem, cluster->workers);
}
