/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a worker's runs when it is silent, lost, or back. A closure that must not run
 * twice never does; one that costs workers is found, and its neighbours are not blamed. */
#include "base/panic.h"
#include "tasks/machine.h"

/* ---- closures that may cost workers ---- */

bool mst_loss_judge(struct mst_cluster *cluster, struct mst_closure *closure)
{
    uint32_t poison = cluster->config.poison;

    if (poison == 0) {
        return true;
    }
    if (closure->losses >= poison && closure->blamed) {
        mst_closure_fail(cluster, closure, MST_ORIGIN_POISON, mst_poison_failure(cluster, closure));
        return false;
    }
    if (closure->suspects > 0 && (uint32_t)closure->losses + closure->suspects >= poison) {
        closure->where = MST_WHERE_HELD;
        closure->grace_ns = NEVER;
        mst_closure_alarm(cluster, closure);
        return false;
    }
    return true;
}

static bool ended_itself(const struct mst_task_worker *worker)
{
    return worker->end.cause == MST_CAUSE_EXIT && worker->end.code == MST_CLUSTER_EXIT_STUCK;
}

static bool runs_what_stops(const struct mst_task_worker *worker)
{
    MST_EACH(closure, &worker->running, const struct mst_closure, place.list) {
        if (closure->stopping != MST_ORIGIN_NONE) {
            return true;
        }
    }
    return false;
}

/* When the time limit of its attempt ends; presumed, for its worker measures it. */
static uint64_t overdue_ns(const struct mst_closure *closure)
{
    return closure->run_limit_ns == 0 ? NEVER
                                      : mst_after_ns(closure->begun_ns, closure->run_limit_ns);
}

/* A worker says that a function's time is over when it tells it to stop, long before it ends itself
 * for that. If nothing of that came through, it was one whose time is over. */
static void stop_overdue(struct mst_cluster *cluster, struct mst_task_worker *worker)
{
    if (!ended_itself(worker) || runs_what_stops(worker)) {
        return;
    }
    MST_EACH(closure, &worker->running, struct mst_closure, place.list) {
        if (overdue_ns(closure) <= cluster->now_ns) {
            closure->stopping = MST_ORIGIN_DEADLINE;
        }
    }
}

/* Its function was asked to stop and did not, so the worker ended itself, as we wanted. */
static bool was_made_to_stop(const struct mst_cluster *cluster,
                             const struct mst_task_worker *worker)
{
    bool unknown = worker->end.cause == MST_CAUSE_GONE || worker->end.cause == MST_CAUSE_NONE;

    if (runs_what_stops(worker)) {
        return ended_itself(worker) || unknown;
    }
    return ended_itself(worker) && worker->blamed_count > 0 &&
           worker->overdue_ns <= cluster->now_ns;
}

/* Whether what ran on a lost worker may have been why. A machine that is lost or cut off takes its
 * workers along whatever they run (LEASE); one that drains is ended on purpose. */
static bool may_be_to_blame(const struct mst_cluster *cluster, const struct mst_task_worker *worker)
{
    return worker->end.cause != MST_CAUSE_LEASE && !worker->draining &&
           !was_made_to_stop(cluster, worker);
}

/* Before the last loss that is allowed the closure runs alone: there no other closure can be the
 * cause. */
static void count_loss(struct mst_cluster *cluster, struct mst_closure *closure,
                       const struct mst_task_worker *worker, bool shared)
{
    mst_poison_add(cluster, closure, worker, worker->end, false);
    closure->blamed = !shared;
    closure->alone = closure->alone || (cluster->config.poison > 0 &&
                                        (uint32_t)closure->losses + 1 >= cluster->config.poison);
}

/* Its losses or suspects changed while it was queued: it moves to where it belongs now. */
static void reconsider(struct mst_cluster *cluster, struct mst_closure *closure)
{
    bool waits = closure->where == MST_WHERE_BACKOFF;

    if (mst_closure_settled(closure) || mst_closure_out(closure)) {
        return;
    }
    mst_queue_remove(cluster, closure);
    closure->where = MST_WHERE_BACKOFF;
    if (!mst_loss_judge(cluster, closure)) {
        return;
    }
    if (!waits) {
        mst_queue_return(cluster, closure);
    }
}

/* Judges the closures that were put back when the worker went silent: its fate is known now. */
static void resolve(struct mst_cluster *cluster, struct mst_task_worker *worker, bool blamed)
{
    for (uint32_t i = 0; i < worker->blamed_count; i++) {
        struct mst_closure *closure = mst_closure_find(cluster, worker->blamed[i]);

        if (!closure || mst_closure_settled(closure)) {
            continue;
        }
        closure->suspects--;
        if (blamed) {
            count_loss(cluster, closure, worker, worker->blamed_shared);
        }
        reconsider(cluster, closure);
    }
    worker->blamed_count = 0;
    worker->blamed_shared = false;
}

/* ---- silent ---- */

static bool stays(const struct mst_closure *closure, bool all)
{
    if (closure->stopping != MST_ORIGIN_NONE) {
        return !all;
    }
    if (closure->where == MST_WHERE_RUNNING && closure->once) {
        return true;
    }
    return !all && !closure->idempotent;
}

/* Its worker is lost, or has forgotten it. */
static void put_back(struct mst_cluster *cluster, struct mst_closure *closure)
{
    cluster->counts.put_back++;
    mst_closure_back(cluster, closure, 0);
}

static void put_back_silent(struct mst_cluster *cluster, struct mst_task_worker *worker, bool all)
{
    bool shared = worker->running_count + worker->prefetched_count > 1;

    MST_EACH(closure, &worker->running, struct mst_closure, place.list) {
        if (stays(closure, all)) {
            continue;
        }
        if (closure->stopping == MST_ORIGIN_NONE && worker->blamed_count < worker->blamed_room) {
            if (worker->blamed_count == 0 || overdue_ns(closure) < worker->overdue_ns) {
                worker->overdue_ns = overdue_ns(closure);
            }
            worker->blamed[worker->blamed_count++] = closure->number;
            worker->blamed_shared = worker->blamed_shared || shared;
            closure->suspects++;
        }
        put_back(cluster, closure);
    }
    MST_EACH(closure, &worker->prefetched, struct mst_closure, place.list) {
        if (!stays(closure, all)) {
            put_back(cluster, closure);
        }
    }
}

void mst_loss_silent(struct mst_cluster *cluster, struct mst_task_worker *worker, bool now)
{
    uint32_t count = worker->running_count + worker->prefetched_count;

    if (!mst_task_worker_here(worker) || worker->link) {
        return; /* settled already, or connected */
    }
    if (now) {
        put_back_silent(cluster, worker, true);
        return;
    }
    if (worker->draining && count == 0) {
        mst_effect_say(cluster, MST_CLUSTER_LINE_DRAINED, worker, 0, 0, mst_slice_of(NULL, 0));
    } else {
        mst_effect_say(cluster, MST_CLUSTER_LINE_SILENT, worker, 0, count, mst_slice_of(NULL, 0));
    }
    mst_alarm_at(cluster, &worker->away,
                 mst_after_ns(cluster->now_ns, cluster->config.recovery_max_ns));
    put_back_silent(cluster, worker, false);
    mst_alarm_at(cluster, &worker->silent,
                 mst_after_ns(cluster->now_ns, cluster->config.silent_ns));
}

/* ---- lost ---- */

static void put_back_lost(struct mst_cluster *cluster, struct mst_task_worker *worker, bool blamed)
{
    /* What was prefetched may have begun: the report of it was lost with the worker. */
    bool shared = worker->running_count + worker->prefetched_count > 1 || worker->blamed_count > 0;

    worker->blamed_shared = worker->blamed_shared || (worker->running_count > 0 && shared);
    MST_EACH(closure, &worker->running, struct mst_closure, place.list) {
        if (blamed && closure->stopping == MST_ORIGIN_NONE) {
            count_loss(cluster, closure, worker, shared);
        }
        if (closure->once && closure->stopping == MST_ORIGIN_NONE) {
            mst_closure_fail(cluster, closure, MST_ORIGIN_LOST, NULL);
        } else {
            put_back(cluster, closure);
        }
    }
    MST_EACH(closure, &worker->prefetched, struct mst_closure, place.list) {
        put_back(cluster, closure);
    }
}

void mst_loss_lost(struct mst_cluster *cluster, struct mst_task_worker *worker, bool crashed,
                   struct mst_worker_end end)
{
    uint32_t count = worker->running_count + worker->prefetched_count;
    bool blamed;

    worker->end = end;
    if (worker->number == MST_WORKER_NONE) {
        return; /* it never connected */
    }
    if (worker->link) {
        mst_link_close(cluster, worker->link);
    }
    mst_alarm_at(cluster, &worker->silent, NEVER);
    mst_alarm_at(cluster, &worker->away,
                 mst_after_ns(cluster->now_ns, cluster->config.recovery_max_ns));
    if (crashed) {
        stop_overdue(cluster, worker);
    }
    blamed = crashed && may_be_to_blame(cluster, worker);
    put_back_lost(cluster, worker, blamed);
    resolve(cluster, worker, blamed);
    mst_values_lost(cluster, worker);
    if (crashed) {
        worker->losses++;
    }
    if (worker->ever) {
        mst_effect_say(cluster, crashed ? MST_CLUSTER_LINE_LOST : MST_CLUSTER_LINE_DRAINED, worker,
                       0, count, mst_slice_of(NULL, 0));
    }
}

/* A member still, but unheard for so long that nothing of it is waited for any more: neither what
 * must not begin twice, nor whether it died of what it ran. It may come back, with nothing. */
void mst_loss_given_up(struct mst_cluster *cluster, struct mst_task_worker *worker)
{
    mst_effect_say(cluster, MST_CLUSTER_LINE_GIVEN_UP, worker, 0, 0, mst_slice_of(NULL, 0));
    put_back_lost(cluster, worker, false);
    resolve(cluster, worker, false);
    mst_values_lost(cluster, worker);
}

/* ---- back ---- */

static void not_held(struct mst_cluster *cluster, struct mst_closure *closure, bool whole)
{
    if (closure->held) {
        closure->held = false;
        if (closure->stopping != MST_ORIGIN_NONE || closure->recalled) {
            /* Whether it was received is unknown; or it was asked for while the worker was away. */
            mst_list_remove(&closure->owed);
            mst_list_append(&closure->worker->owed, &closure->owed);
        }
    } else if (closure->once && !whole && closure->where == MST_WHERE_RUNNING &&
               closure->stopping == MST_ORIGIN_NONE) {
        mst_closure_fail(cluster, closure, MST_ORIGIN_LOST, NULL);
    } else {
        put_back(cluster, closure);
    }
}

/* An attempt that it holds and that is not current is orphaned: it is cancelled. */
void mst_loss_back(struct mst_cluster *cluster, struct mst_task_worker *worker, bool whole)
{
    const struct mst_cluster_message *hello = worker->hello;
    struct mst_list *lists[] = {&worker->prefetched, &worker->running};

    for (uint32_t i = 0; i < hello->held_count; i++) {
        struct mst_closure *closure = mst_closure_current(cluster, worker, hello->held[i]);

        if (closure) {
            closure->held = true;
        } else {
            worker->orphans[worker->orphan_count++] = hello->held[i];
        }
    }
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        MST_EACH(closure, lists[i], struct mst_closure, place.list) {
            not_held(cluster, closure, whole);
        }
    }
    resolve(cluster, worker, false);
}
