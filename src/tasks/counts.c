/* SPDX-License-Identifier: Apache-2.0 */
/* Counts for status and metrics. */
#include "base/panic.h"
#include "tasks/machine.h"

enum mst_cluster_wait mst_closure_waits(const struct mst_cluster *cluster,
                                        const struct mst_closure *closure)
{
    if (cluster->connected == 0) {
        return MST_WAIT_WORKERS;
    }
    if (cluster->ending) {
        return MST_WAIT_SERIES;
    }
    if (closure->where == MST_WHERE_BACKOFF) {
        return MST_WAIT_BACKOFF;
    }
    if (closure->kind->providers == 0) {
        return MST_WAIT_FUNCTION;
    }
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        const struct mst_task_worker *worker = cluster->workers[i];

        if (worker->link && !mst_tree_linked(&worker->start.node) &&
            mst_task_worker_place(worker, closure->kind) != MST_FUNCTION_NONE) {
            return MST_WAIT_SLOT;
        }
    }
    return MST_WAIT_DELAY;
}

static void oldest(const struct mst_cluster *cluster, uint64_t now_ns,
                   struct mst_cluster_counts *out)
{
    if (cluster->counts.queued == 0) {
        return;
    }
    MST_EACH(closure, &cluster->live, const struct mst_closure, live) {
        if (!mst_closure_out(closure)) {
            out->oldest = closure->number;
            out->oldest_ns = now_ns - closure->admitted_ns;
            out->oldest_waits = mst_closure_waits(cluster, closure);
            out->oldest_function = closure->kind->name;
            return;
        }
    }
}

void mst_cluster_counts(const struct mst_cluster *cluster, uint64_t now_ns,
                        struct mst_cluster_counts *out)
{
    uint64_t taken = 0;
    uint64_t room;

    *out = cluster->counts;
    out->workers = cluster->worker_count;
    out->present = cluster->connected;
    out->slots = (uint32_t)cluster->slots;
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        const struct mst_task_worker *worker = cluster->workers[i];

        if (worker->link && worker->running_count < worker->slots) {
            out->slots_free += worker->slots - worker->running_count;
        }
        taken += worker->link ? worker->running_count + worker->prefetched_count : 0;
    }
    room = cluster->slots * (1 + (uint64_t)cluster->config.prefetch);
    taken += cluster->counts.queued;
    out->hungry = room > taken ? room - taken : 0;
    oldest(cluster, now_ns, out);
}

static enum mst_worker_state state_of(const struct mst_task_worker *worker)
{
    if (worker->state == MST_WORKER_PRESENT && !worker->link) {
        return worker->ever ? MST_WORKER_SILENT : MST_WORKER_ABSENT;
    }
    return worker->state == MST_WORKER_PRESENT && worker->draining ? MST_WORKER_DRAINING
                                                                   : worker->state;
}

bool mst_cluster_worker_at(const struct mst_cluster *cluster, uint64_t now_ns, uint32_t number,
                           struct mst_cluster_worker *out)
{
    const struct mst_task_worker *worker;

    if (number >= cluster->worker_count) {
        return false;
    }
    worker = cluster->workers[number];
    *out = (struct mst_cluster_worker){.index = worker->index,
                                       .incarnation = worker->incarnation,
                                       .pid = worker->pid,
                                       .host = mst_slice_of(worker->host, worker->host_size),
                                       .state = state_of(worker),
                                       .slots = worker->slots,
                                       .running = worker->running_count,
                                       .prefetched = worker->prefetched_count,
                                       .losses = worker->losses,
                                       .done = worker->done};
    MST_EACH(closure, &worker->running, const struct mst_closure, place.list) {
        uint64_t run_ns = now_ns - closure->begun_ns;

        if (out->oldest == 0 || run_ns > out->oldest_run_ns) {
            out->oldest = closure->number;
            out->oldest_run_ns = run_ns;
            out->oldest_function = closure->kind->name;
        }
    }
    return true;
}

const struct mst_histogram *mst_cluster_histogram(const struct mst_cluster *cluster,
                                                  enum mst_cluster_timer timer)
{
    return &cluster->timers[timer];
}
