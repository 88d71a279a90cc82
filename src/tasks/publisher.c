/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/publisher.h"

#include <string.h>

#include "base/time.h"

void mst_cluster_publisher_init(struct mst_cluster_publisher *publisher, uint64_t now_ns)
{
    *publisher =
        (struct mst_cluster_publisher){.due_ns = now_ns, .looked_ns = now_ns, .stirred = true};
}

void mst_cluster_publisher_stir(struct mst_cluster_publisher *publisher)
{
    publisher->stirred = true;
}

void mst_cluster_publisher_failed(struct mst_cluster_publisher *publisher)
{
    publisher->timeless_size = 0;
    publisher->stirred = true;
}

uint64_t mst_cluster_publisher_deadline_ns(const struct mst_cluster_publisher *publisher)
{
    return publisher->stirred ? publisher->due_ns : UINT64_MAX;
}

/* Counts the workers that ever connected, without other members of the job. */
static void look_at_workers(struct mst_cluster_status *out, uint64_t now_ns,
                            const struct mst_cluster *cluster)
{
    struct mst_cluster_worker worker;
    uint64_t longest_ns = 0;

    for (uint32_t i = 0; mst_cluster_worker_at(cluster, now_ns, i, &worker); i++) {
        out->workers += worker.state != MST_WORKER_ABSENT;
        if (worker.oldest != 0 && (out->longest == 0 || worker.oldest_run_ns > longest_ns)) {
            longest_ns = worker.oldest_run_ns;
            out->longest = worker.oldest;
            out->longest_worker = worker.index;
            out->longest_ms = longest_ns / NS_PER_MS;
            mst_cluster_status_function(out->longest_function, worker.oldest_function);
        }
    }
}

static void look_at_failures(struct mst_cluster_status *out, const uint64_t failed[MST_ORIGINS])
{
    out->failed_function = failed[MST_ORIGIN_FUNCTION];
    out->failed_crash = failed[MST_ORIGIN_CRASH];
    out->failed_lost = failed[MST_ORIGIN_LOST];
    out->failed_state = failed[MST_ORIGIN_STATE];
    out->failed_input = failed[MST_ORIGIN_INPUT];
    out->failed_deadline = failed[MST_ORIGIN_DEADLINE];
    out->failed_exhausted = failed[MST_ORIGIN_EXHAUSTED];
    out->failed_poison = failed[MST_ORIGIN_POISON];
    out->failed_unknown = failed[MST_ORIGIN_UNKNOWN];
    out->failed_argument = failed[MST_ORIGIN_ARGUMENT];
    out->failed_internal = failed[MST_ORIGIN_INTERNAL];
    out->failed_retryable = failed[MST_ORIGIN_RETRYABLE];
}

static void look(struct mst_cluster_status *out, uint64_t now_ns, const struct mst_cluster *cluster)
{
    struct mst_cluster_counts counts;

    mst_cluster_status_init(out);
    mst_cluster_counts(cluster, now_ns, &counts);
    out->queued = counts.queued;
    out->queued_bytes = counts.queued_bytes;
    out->in_flight = counts.running;
    out->present = counts.present;
    out->slots = counts.slots;
    out->slots_free = counts.slots_free;
    out->hungry = counts.hungry;
    out->admitted = counts.admitted;
    out->values = counts.values;
    out->failures = counts.failures;
    out->cancelled = counts.cancelled;
    look_at_failures(out, counts.failed);
    out->retried = counts.retried;
    out->put_back = counts.put_back;
    out->late = counts.late;
    out->refused = counts.lies;
    out->series = counts.series;
    out->oldest = counts.oldest;
    out->oldest_ms = counts.oldest_ns / NS_PER_MS;
    out->waits = counts.oldest_waits;
    mst_cluster_status_function(out->oldest_function, counts.oldest_function);
    look_at_workers(out, now_ns, cluster);
    for (unsigned timer = 0; timer < MST_TIMERS; timer++) {
        const struct mst_histogram *histogram =
            mst_cluster_histogram(cluster, (enum mst_cluster_timer)timer);

        if (histogram && histogram->bounds == &mst_cluster_time_bounds) {
            out->times[timer] = *histogram;
        }
    }
}

/* Per 1000 seconds, since the last look. */
static uint64_t rate_of(struct mst_cluster_publisher *publisher, uint64_t now_ns,
                        const struct mst_cluster_status *status)
{
    uint64_t settled = status->values + status->failures + status->cancelled;
    uint64_t more = settled - publisher->settled;
    uint64_t ms = (now_ns - publisher->looked_ns) / NS_PER_MS;

    publisher->settled = settled;
    publisher->looked_ns = now_ns;
    return ms == 0 ? 0 : more * 1000000 / ms;
}

/* What only time changes is not published again: a reader knows how old the key is. */
static bool is_news(struct mst_cluster_publisher *publisher, const struct mst_cluster_status *now)
{
    struct mst_cluster_status timeless = *now;
    char text[MST_CLUSTER_STATUS_ROOM];
    size_t size;

    timeless.oldest_ms = timeless.longest_ms = 0;
    size = mst_cluster_status_write(text, sizeof text, &timeless);
    if (size == publisher->timeless_size && memcmp(text, publisher->timeless, size) == 0) {
        return false;
    }
    memcpy(publisher->timeless, text, size);
    publisher->timeless_size = size;
    return true;
}

size_t mst_cluster_publisher_next(struct mst_cluster_publisher *publisher, uint64_t now_ns,
                                  const struct mst_cluster *cluster)
{
    struct mst_cluster_status status;

    if (!publisher->stirred || now_ns < publisher->due_ns) {
        return 0;
    }
    look(&status, now_ns, cluster);
    status.rate = rate_of(publisher, now_ns, &status);
    publisher->due_ns = now_ns + MST_CLUSTER_PUBLISH_MS * NS_PER_MS;
    publisher->stirred = status.rate > 0; /* which is 0 a second later, if nothing happens */
    if (!is_news(publisher, &status)) {
        return 0;
    }
    publisher->size = mst_cluster_status_write(publisher->text, sizeof publisher->text, &status);
    return publisher->size;
}
