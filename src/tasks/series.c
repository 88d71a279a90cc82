/* SPDX-License-Identifier: Apache-2.0 */
/* A series is the span between two deliveries of failures. Delivering one ends it: what is queued
 * is cancelled, what runs is asked to stop, and only when nothing is left is the failure handed
 * out. */
#include "base/panic.h"
#include "tasks/machine.h"

/* ---- failures ---- */

static void failures_clear(struct mst_cluster *cluster, struct mst_failures *failures)
{
    for (uint32_t i = 0; i < failures->kept; i++) {
        mst_failure_drop(&cluster->mem, failures->copies[i]);
    }
    failures->kept = 0;
    failures->count = 0;
}

void mst_series_free(struct mst_cluster *cluster)
{
    failures_clear(cluster, &cluster->pending);
    failures_clear(cluster, &cluster->delivered);
}

void mst_series_failed(struct mst_cluster *cluster, const struct mst_closure *closure)
{
    struct mst_failures *pending = &cluster->pending;
    uint32_t at = pending->kept;

    if (cluster->config.policy == MST_CLUSTER_ISOLATE || cluster->end != MUSTER_OK) {
        return;
    }
    pending->count++;
    if (at == MST_CLUSTER_KEPT) {
        return;
    }
    pending->kept++;
    pending->closures[at] = closure->number;
    pending->copies[at] = closure->failure;
    if (closure->failure) {
        closure->failure->references++;
    }
    mst_closure_failure(closure, cluster, &pending->first[at]);
}

/* ---- stopping ---- */

void mst_series_stop(struct mst_cluster *cluster, struct mst_closure *closure,
                     enum mst_origin origin, uint64_t grace_ns)
{
    if (!mst_closure_out(closure)) {
        mst_closure_fail(cluster, closure, origin, NULL);
        return;
    }
    if (closure->stopping != MST_ORIGIN_NONE) {
        return;
    }
    closure->stopping = (uint8_t)origin;
    closure->stop_ms = grace_ns / NS_PER_MS;
    closure->grace_ns =
        mst_after_ns(cluster->now_ns, mst_after_ns(grace_ns, MST_CLUSTER_MARGIN_NS));
    mst_task_worker_owe(cluster, closure);
    mst_closure_alarm(cluster, closure);
}

void mst_cluster_cancel(struct mst_cluster *cluster, uint64_t now_ns, uint64_t number)
{
    struct mst_closure *closure = mst_closure_find(cluster, number);

    cluster->now_ns = now_ns;
    if (closure && !mst_closure_settled(closure)) {
        mst_series_stop(cluster, closure, MST_ORIGIN_CANCELLED, cluster->config.cancel_grace_ns);
    }
}

void mst_cluster_cancel_group(struct mst_cluster *cluster, uint64_t now_ns, uint64_t group)
{
    cluster->now_ns = now_ns;
    MST_EACH(closure, &cluster->live, struct mst_closure, live) {
        if (group == 0 || closure->group == group) {
            mst_series_stop(cluster, closure, MST_ORIGIN_CANCELLED,
                            cluster->config.cancel_grace_ns);
        }
    }
}

/* Nothing is waited for. */
void mst_series_settle_all(struct mst_cluster *cluster)
{
    MST_EACH(closure, &cluster->live, struct mst_closure, live) {
        mst_closure_fail(cluster, closure, MST_ORIGIN_CANCELLED, NULL);
    }
}

/* ---- joining and delivering ---- */

static bool is_done(const struct mst_cluster *cluster, uint64_t number)
{
    return mst_list_empty(&cluster->live) ||
           MST_CONTAINER(cluster->live.next, struct mst_closure, live)->number > number;
}

muster_status mst_cluster_joined(const struct mst_cluster *cluster, uint64_t number)
{
    if (cluster->end != MUSTER_OK) {
        return cluster->end;
    }
    if (cluster->pending.count > 0 && cluster->config.policy == MST_CLUSTER_FAIL_FAST) {
        return MUSTER_EFAILED;
    }
    if (!is_done(cluster, number)) {
        return MUSTER_MORE;
    }
    if (cluster->pending.count > 0) {
        return MUSTER_EFAILED;
    }
    /* Who drains waits until the connections are closed. */
    return cluster->closed && number == UINT64_MAX ? MUSTER_MORE : MUSTER_OK;
}

static void end_series(struct mst_cluster *cluster)
{
    cluster->ending = true;
    if (cluster->config.policy != MST_CLUSTER_FAIL_FAST) {
        return;
    }
    MST_EACH(closure, &cluster->live, struct mst_closure, live) {
        closure->ending = true;
        mst_series_stop(cluster, closure, MST_ORIGIN_CANCELLED, cluster->config.series_grace_ns);
    }
}

muster_status mst_cluster_deliver(struct mst_cluster *cluster, uint64_t now_ns,
                                  struct mst_cluster_failures *out)
{
    struct mst_failures *delivered = &cluster->delivered;

    if (cluster->pending.count == 0) {
        return cluster->end;
    }
    cluster->now_ns = now_ns;
    if (!cluster->ending) {
        end_series(cluster);
    }
    if (!mst_list_empty(&cluster->live)) {
        return MUSTER_MORE;
    }
    failures_clear(cluster, delivered);
    *delivered = cluster->pending;
    cluster->pending.kept = 0;
    cluster->pending.count = 0;
    cluster->ending = false;
    cluster->counts.series++;
    cluster->changed = true;
    *out = (struct mst_cluster_failures){.first = delivered->first,
                                         .closures = delivered->closures,
                                         .kept = delivered->kept,
                                         .count = delivered->count};
    return MUSTER_EFAILED;
}
