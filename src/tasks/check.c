/* SPDX-License-Identifier: Apache-2.0 */
/* The invariants of the machine, and a number by which two machines are compared. */
#include "base/digest.h"
#include "base/panic.h"
#include "tasks/machine.h"

struct sums {
    uint64_t queued, running, bytes, prefetched;
};

static void check_out(const struct mst_closure *closure)
{
    const struct mst_task_worker *worker = closure->worker;

    MST_ASSERT(worker && mst_list_linked(&closure->place.list));
    MST_ASSERT(closure->attempt > 0 && closure->ran_on == worker->number);
    MST_ASSERT(worker->state != MST_WORKER_LOST && worker->state != MST_WORKER_LEFT);
    MST_ASSERT(closure->where == MST_WHERE_RUNNING || !closure->once);
}

/* Each is in exactly one place, and none twice. */
static void check_closure(const struct mst_cluster *cluster, const struct mst_closure *closure,
                          struct sums *sums)
{
    MST_ASSERT(!mst_closure_settled(closure));
    MST_ASSERT(mst_closure_find(cluster, closure->number) == closure);
    MST_ASSERT(closure->series == cluster->counts.series);
    MST_ASSERT(!closure->result && !closure->failure);
    if (mst_closure_out(closure)) {
        sums->running++;
        check_out(closure);
        return;
    }
    sums->queued++;
    sums->bytes += closure->bytes;
    MST_ASSERT(closure->stopping == MST_ORIGIN_NONE);
    MST_ASSERT(closure->where == MST_WHERE_ALONE || !closure->worker);
    MST_ASSERT(closure->where != MST_WHERE_FIFO || mst_list_linked(&closure->place.list));
    MST_ASSERT((closure->where != MST_WHERE_AGAIN && closure->where != MST_WHERE_ALONE) ||
               mst_tree_linked(&closure->place.tree));
    MST_ASSERT(closure->where != MST_WHERE_HELD || closure->suspects > 0);
    MST_ASSERT(closure->where != MST_WHERE_BACKOFF || mst_tree_linked(&closure->alarm.node));
}

static uint32_t check_list(const struct mst_task_worker *worker, const struct mst_list *list,
                           enum mst_where where, uint64_t *load_ns, uint64_t *load_bytes)
{
    uint32_t count = 0;

    MST_EACH(closure, list, const struct mst_closure, place.list) {
        MST_ASSERT(closure->worker == worker && closure->where == where);
        *load_ns += closure->load_ns;
        *load_bytes += closure->bytes;
        count++;
    }
    return count;
}

static void check_worker(const struct mst_cluster *cluster, const struct mst_task_worker *worker,
                         struct sums *sums)
{
    uint64_t load_ns = 0, load_bytes = 0;

    MST_ASSERT(check_list(worker, &worker->running, MST_WHERE_RUNNING, &load_ns, &load_bytes) ==
               worker->running_count);
    MST_ASSERT(check_list(worker, &worker->prefetched, MST_WHERE_PREFETCHED, &load_ns,
                          &load_bytes) == worker->prefetched_count);
    MST_ASSERT(load_ns == worker->load_ns && load_bytes == worker->load_bytes);
    MST_ASSERT(!worker->link || worker->link->worker == worker);
    MST_ASSERT(!worker->link || worker->prefetched_count == 0 ||
               worker->running_count >= worker->slots);
    MST_ASSERT(!worker->alone || worker->running_count == 1);
    MST_ASSERT(!worker->reserved || worker->reserved->worker == worker);
    MST_ASSERT(mst_list_linked(&worker->place) == (worker->room != MST_ROOM_NONE));
    MST_ASSERT(cluster->workers[worker->number] == worker);
    sums->prefetched += worker->prefetched_count;
}

static void check_kind(const struct mst_cluster *cluster, const struct mst_kind *kind)
{
    uint32_t providers = 0;

    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        MST_ASSERT(kind->places[i] == 0 || cluster->workers[i]->link);
        providers += kind->places[i] != 0;
    }
    MST_ASSERT(providers == kind->providers);
    MST_ASSERT(mst_list_linked(&kind->ready) == (mst_queue_head(kind) != NULL));
}

void mst_cluster_check(const struct mst_cluster *cluster)
{
    struct sums sums = {0};
    uint64_t before = 0;
    uint32_t connected = 0;

    MST_EACH(closure, &cluster->live, const struct mst_closure, live) {
        MST_ASSERT(closure->number > before);
        before = closure->number;
        check_closure(cluster, closure, &sums);
    }
    MST_ASSERT(sums.queued == cluster->counts.queued && sums.running == cluster->counts.running);
    MST_ASSERT(sums.bytes == cluster->counts.queued_bytes);
    MST_ASSERT(cluster->counts.queued + cluster->counts.running + cluster->counts.values +
                   cluster->counts.failures + cluster->counts.cancelled ==
               cluster->counts.admitted);
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        check_worker(cluster, cluster->workers[i], &sums);
        connected += cluster->workers[i]->link != NULL;
    }
    MST_ASSERT(sums.prefetched == cluster->prefetched_count && connected == cluster->connected);
    MST_EACH(kind, &cluster->kinds, const struct mst_kind, all) {
        check_kind(cluster, kind);
    }
    MST_ASSERT(cluster->end == MUSTER_OK || mst_list_empty(&cluster->live));
    MST_ASSERT(cluster->dismissal == MST_UNDISMISSED || cluster->closed);
    MST_ASSERT(cluster->dismissal <= MST_DISMISSAL_ASKED || mst_list_empty(&cluster->live));
}

uint64_t mst_cluster_digest(const struct mst_cluster *cluster)
{
    const uint64_t numbers[] = {cluster->counts.admitted, cluster->counts.queued,
                                cluster->counts.running,  cluster->counts.values,
                                cluster->counts.failures, cluster->counts.cancelled,
                                cluster->counts.retried,  cluster->counts.put_back,
                                cluster->counts.late,     cluster->counts.series,
                                cluster->ending,          cluster->pending.count,
                                cluster->connected,       (uint64_t)(-(int64_t)cluster->end),
                                cluster->dismissal,       cluster->prng.state};
    uint64_t digest = MST_DIGEST_INIT;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        digest = mst_digest_number(digest, numbers[i]);
    }
    MST_EACH(closure, &cluster->live, const struct mst_closure, live) {
        digest = mst_digest_number(digest, closure->number);
        digest = mst_digest_number(digest, closure->where);
        digest = mst_digest_number(digest, closure->attempt);
        digest = mst_digest_number(digest, closure->worker ? closure->worker->number : UINT64_MAX);
    }
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        digest = mst_digest_number(digest, cluster->workers[i]->incarnation);
        digest = mst_digest_number(digest, (uint64_t)cluster->workers[i]->state);
        digest = mst_digest_number(digest, cluster->workers[i]->running_count);
    }
    return digest;
}
