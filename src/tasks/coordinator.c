/* SPDX-License-Identifier: Apache-2.0 */
/* The machine itself: its beginning, its clock and its end. */
#include "tasks/coordinator.h"

#include "base/panic.h"
#include "base/text.h"
#include "tasks/machine.h"

/* ---- the clock ---- */

/* The oldest queued closures, and why each is not running. */
static void say_waits(struct mst_cluster *cluster)
{
    uint32_t said = 0;

    MST_EACH(closure, &cluster->live, const struct mst_closure, live) {
        if (mst_closure_out(closure)) {
            continue;
        }
        if (said++ == MST_CLUSTER_WAITS_MAX) {
            return;
        }
        mst_effect_say(
            cluster, MST_CLUSTER_LINE_WAITS, NULL, closure->number,
            (cluster->now_ns - closure->admitted_ns) / NS_PER_MS,
            mst_slice_text(mst_cluster_wait_sentence(mst_closure_waits(cluster, closure))));
    }
}

/* A closure that may hang: its attempt, its worker, its last progress. */
static void say_stuck(struct mst_cluster *cluster, const struct mst_task_worker *worker,
                      const struct mst_closure *closure)
{
    const struct mst_progress *progress = closure->progress;
    bool reported = progress && progress->reported_ns >= closure->begun_ns;
    struct mst_slice words = reported ? progress->text : mst_slice_of(NULL, 0);
    char line[MST_FAILURE_TEXT_MAX], last[64] = "no progress reported";

    if (reported) {
        mst_text_print(last, sizeof(last), "its last progress " MST_SECONDS " ago",
                       MST_SECONDS_ARGS((cluster->now_ns - progress->reported_ns) / NS_PER_MS));
    }
    mst_text_print(line, sizeof(line),
                   "attempt %u of '%.*s', its worker last heard " MST_SECONDS " ago, %s%s%.*s%s",
                   closure->attempt, MST_SLICE_ARGS(closure->kind->name),
                   MST_SECONDS_ARGS((cluster->now_ns - worker->heard_ns) / NS_PER_MS), last,
                   words.size > 0 ? " (" : "", MST_SLICE_ARGS(words), words.size > 0 ? ")" : "");
    mst_effect_say(cluster, MST_CLUSTER_LINE_STUCK, worker, closure->number,
                   (cluster->now_ns - closure->begun_ns) / NS_PER_MS, mst_slice_text(line));
}

/* Nothing has progressed for long although closures are live: reports what runs and for how long,
 * what is queued and why. */
static void watchdog(struct mst_cluster *cluster, struct mst_task_alarm *alarm)
{
    uint64_t span_ns = cluster->config.watchdog_ns;
    bool idle = mst_list_empty(&cluster->live);
    uint32_t said = 0;

    if (idle || cluster->now_ns - cluster->progress_ns < span_ns) {
        uint64_t since_ns = idle ? cluster->now_ns : cluster->progress_ns;

        mst_alarm_at(cluster, alarm, mst_after_ns(since_ns, span_ns));
        return;
    }
    for (uint32_t i = 0; i < cluster->worker_count && said < MST_CLUSTER_STUCK_MAX; i++) {
        const struct mst_task_worker *worker = cluster->workers[i];

        if (worker->running_count > 0) {
            say_stuck(cluster, worker,
                      MST_CONTAINER(worker->running.next, struct mst_closure, place.list));
            said++;
        }
    }
    say_waits(cluster);
    mst_alarm_at(cluster, alarm, mst_after_ns(cluster->now_ns, span_ns));
}

static void too_few(struct mst_cluster *cluster, struct mst_task_alarm *alarm)
{
    (void)alarm;
    mst_cluster_over(cluster, MUSTER_ETOOFEW);
}

void mst_cluster_tick(struct mst_cluster *cluster, uint64_t now_ns)
{
    struct mst_task_alarm *alarm;

    cluster->now_ns = now_ns;
    while ((alarm = mst_alarm_due(cluster, now_ns))) {
        alarm->ring(cluster, alarm);
    }
}

uint64_t mst_cluster_deadline_ns(const struct mst_cluster *cluster)
{
    struct mst_tree_node *first = mst_tree_first(&cluster->alarms);

    return first ? MST_CONTAINER(first, struct mst_task_alarm, node)->due_ns : NEVER;
}

/* ---- beginning ---- */

static bool makes_sense(const struct mst_cluster_config *config)
{
    return config->term > 0 && config->name.size > 0 && config->silent_ns > 0 &&
           config->recovery_max_ns > 0 && config->backoff_ns > 0 &&
           config->backoff_max_ns >= config->backoff_ns && config->policy <= MST_CLUSTER_ISOLATE &&
           (config->transient_limit == 0 || config->transient_window_ns > 0);
}

static void lists_init(struct mst_cluster *cluster)
{
    mst_tree_init(&cluster->alarms, mst_alarm_order);
    mst_tree_init(&cluster->alone, mst_queue_order);
    mst_table_init(&cluster->kinds_by_name, &cluster->mem);
    mst_list_init(&cluster->kinds);
    mst_list_init(&cluster->ready);
    mst_table_init(&cluster->closures, &cluster->mem);
    mst_table_init(&cluster->workers_by_index, &cluster->mem);
    mst_table_init(&cluster->links, &cluster->mem);
    mst_table_init(&cluster->values_by_number, &cluster->mem);
    mst_list_init(&cluster->members);
    mst_list_init(&cluster->live);
    mst_list_init(&cluster->settled);
    mst_list_init(&cluster->by_room[MST_ROOM_SPARE]);
    mst_list_init(&cluster->by_room[MST_ROOM_SLOT]);
    mst_list_init(&cluster->todo);
    mst_list_init(&cluster->all_links);
    mst_list_init(&cluster->links_todo);
    mst_list_init(&cluster->values_all);
    mst_list_init(&cluster->values_dropped);
    mst_list_init(&cluster->state_servers);
    mst_list_init(&cluster->lines);
}

muster_status mst_cluster_new(struct mst_cluster **out, uint64_t now_ns,
                              const struct mst_cluster_config *config, const struct mst_mem *mem)
{
    struct mst_cluster *cluster;

    if (!makes_sense(config)) {
        return MUSTER_EINVAL;
    }
    cluster = mst_mem_zalloc(mem, sizeof(*cluster) + config->name.size);
    if (!cluster) {
        return MUSTER_ENOMEM;
    }
    cluster->mem = *mem;
    cluster->config = *config;
    cluster->config.name.data = memcpy(cluster + 1, config->name.data, config->name.size);
    cluster->now_ns = now_ns;
    cluster->born_ns = now_ns;
    cluster->progress_ns = now_ns;
    cluster->prng.state = config->seed;
    cluster->counts.series = 1;
    cluster->closed = cluster->draining = config->dismissed;
    cluster->dismissal = config->dismissed ? MST_DISMISSED : MST_UNDISMISSED;
    cluster->recall_ns = MST_CLUSTER_RECALL_NS;
    cluster->recall.ring = mst_dispatch_recall;
    cluster->watchdog.ring = watchdog;
    cluster->too_few.ring = too_few;
    lists_init(cluster);
    for (size_t i = 0; i < sizeof(cluster->timers) / sizeof(cluster->timers[0]); i++) {
        mst_histogram_init(&cluster->timers[i], &mst_cluster_time_bounds);
    }
    if (config->watchdog_ns > 0) {
        mst_alarm_at(cluster, &cluster->watchdog, mst_after_ns(now_ns, config->watchdog_ns));
    }
    mst_workers_few(cluster);
    *out = cluster;
    return MUSTER_OK;
}

void mst_cluster_free(struct mst_cluster *cluster)
{
    struct mst_mem mem;

    if (!cluster) {
        return;
    }
    mem = cluster->mem;
    mst_series_free(cluster);
    mst_closures_free(cluster);
    mst_values_free(cluster);
    mst_links_free(cluster);
    mst_workers_free(cluster);
    mst_kinds_free(cluster);
    mst_state_servers_free(cluster);
    mst_lines_free(cluster);
    mst_mem_release(&mem, cluster);
}

/* ---- the end ---- */

void mst_cluster_over(struct mst_cluster *cluster, muster_status status)
{
    if (cluster->end != MUSTER_OK) {
        return;
    }
    cluster->end = status;
    cluster->closed = true;
    cluster->ending = false;
    mst_series_settle_all(cluster);
    MST_EACH(link, &cluster->all_links, struct mst_task_link, all) {
        mst_link_close(cluster, link);
    }
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        mst_alarm_at(cluster, &cluster->workers[i]->silent, NEVER);
        mst_alarm_at(cluster, &cluster->workers[i]->away, NEVER);
    }
    mst_alarm_at(cluster, &cluster->recall, NEVER);
    mst_alarm_at(cluster, &cluster->watchdog, NEVER);
    mst_alarm_at(cluster, &cluster->too_few, NEVER);
    cluster->changed = true;
}

void mst_cluster_superseded(struct mst_cluster *cluster, uint64_t now_ns, muster_status status)
{
    cluster->now_ns = now_ns;
    mst_cluster_over(cluster, status);
}

/* Asks the worker to stop what it runs, without waiting. Without memory for the list, the worker
 * stops it when the connection does not come back. */
static void stop_all(struct mst_cluster *cluster, struct mst_task_worker *worker)
{
    uint32_t count = worker->running_count + worker->prefetched_count;
    struct mst_list *lists[] = {&worker->running, &worker->prefetched};
    struct mst_attempt *orphans = NULL;
    uint32_t found = 0;

    if (count > 0 && worker->link) {
        orphans = mst_mem_array(&cluster->mem, count, sizeof(struct mst_attempt));
    }
    if (!orphans) {
        return;
    }
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        MST_EACH(closure, lists[i], const struct mst_closure, place.list) {
            orphans[found++] = mst_closure_attempt(closure);
        }
    }
    mst_mem_release(&cluster->mem, worker->orphans);
    worker->orphans = orphans;
    worker->orphan_count = found;
    mst_task_worker_todo(cluster, worker);
}

void mst_cluster_close(struct mst_cluster *cluster, uint64_t now_ns, bool drain)
{
    cluster->now_ns = now_ns;
    if (!drain) {
        cluster->dismissal = MST_UNDISMISSED;
    }
    if (cluster->end != MUSTER_OK) {
        return;
    }
    cluster->closed = true;
    cluster->draining = drain;
    cluster->changed = true;
    if (drain) {
        return;
    }
    cluster->hanging_up = true;
    cluster->ending = false;
    for (uint32_t i = 0; i < cluster->worker_count; i++) {
        stop_all(cluster, cluster->workers[i]);
    }
    mst_series_settle_all(cluster);
}

/* ---- the end of the cluster's work ---- */

/* Not superseded, and not closed. One that was drained may still be dismissed. */
static bool may_dismiss(const struct mst_cluster *cluster)
{
    return cluster->end == MUSTER_OK || (cluster->end == MUSTER_ECANCELLED && cluster->draining);
}

void mst_cluster_dismiss(struct mst_cluster *cluster, uint64_t now_ns)
{
    mst_cluster_close(cluster, now_ns, true);
    if (may_dismiss(cluster) &&
        (cluster->dismissal == MST_UNDISMISSED || cluster->dismissal == MST_DISMISSAL_REFUSED)) {
        cluster->dismissal = MST_DISMISSAL_ASKED;
    }
}

void mst_cluster_recorded(struct mst_cluster *cluster, uint64_t now_ns, muster_status status)
{
    cluster->now_ns = now_ns;
    if (cluster->dismissal != MST_DISMISSAL_RECORDING || !may_dismiss(cluster)) {
        return;
    }
    cluster->dismissal = status == MUSTER_OK ? MST_DISMISSED : MST_DISMISSAL_REFUSED;
    cluster->changed = true;
    for (uint32_t i = 0; i < cluster->worker_count && status == MUSTER_OK; i++) {
        mst_cluster_drain_worker(cluster, now_ns, i);
    }
    mst_workers_few(cluster);
}

muster_status mst_cluster_dismissed(const struct mst_cluster *cluster)
{
    muster_status status = mst_cluster_joined(cluster, UINT64_MAX);

    if (status != MUSTER_ECANCELLED) {
        return status == MUSTER_OK ? MUSTER_MORE : status;
    }
    if (cluster->dismissal == MST_DISMISSED) {
        return MUSTER_OK;
    }
    return cluster->dismissal == MST_UNDISMISSED ? MUSTER_ECANCELLED : MUSTER_MORE;
}
