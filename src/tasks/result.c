/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of an attempt: a value, another attempt, or a failure. The origin that its worker
 * names decides, never a text. */
#include "base/panic.h"
#include "tasks/machine.h"

enum { RUN_MIN_NS = 1000, RUN_MAX_NS = 1000000000 };

/* The closure that the message is about, if its attempt is the current one of this worker. */
static struct mst_closure *current(const struct mst_cluster *cluster,
                                   const struct mst_task_worker *worker,
                                   const struct mst_cluster_message *message)
{
    struct mst_closure *closure = mst_closure_current(cluster, worker, message->attempt);

    return closure && closure->series == message->series ? closure : NULL;
}

/* As if it had not arrived: it is sent again. */
static void starved(struct mst_cluster *cluster, struct mst_task_worker *worker)
{
    worker->results--;
    mst_link_break(cluster, worker->link);
}

/* ---- how long it took ---- */

static void measure(struct mst_cluster *cluster, struct mst_closure *closure,
                    const struct mst_cluster_message *message)
{
    uint64_t whole_ns = cluster->now_ns - closure->begun_ns;
    uint64_t run_ns = message->run_ns;
    uint64_t bounded = mst_sooner(mst_later(run_ns, RUN_MIN_NS), RUN_MAX_NS);
    uint32_t *average = &closure->kind->run_ns;
    enum mst_cluster_timer timer =
        message->failure.origin == MST_ORIGIN_NONE ? MST_TIMER_RUN : MST_TIMER_FAILED;

    *average =
        *average == 0 ? (uint32_t)bounded : (uint32_t)(((uint64_t)*average * 7 + bounded) / 8);
    mst_histogram_add(&cluster->timers[timer], run_ns, 1);
    mst_histogram_add(&cluster->timers[MST_TIMER_FETCH], whole_ns > run_ns ? whole_ns - run_ns : 0,
                      1);
}

/* ---- again ---- */

static uint64_t backoff(struct mst_cluster *cluster, const struct mst_closure *closure)
{
    const struct mst_cluster_config *config = &cluster->config;
    uint64_t span_ns = config->backoff_ns;
    uint64_t fifth;

    for (uint32_t i = 1; i < closure->retries && span_ns < config->backoff_max_ns; i++) {
        span_ns *= 2;
    }
    span_ns = mst_sooner(span_ns, config->backoff_max_ns);
    fifth = span_ns / 5;
    return span_ns - fifth + mst_prng_below(&cluster->prng, 2 * fifth + 1);
}

static void again_later(struct mst_cluster *cluster, struct mst_closure *closure)
{
    if (closure->retries < UINT16_MAX) {
        closure->retries++;
    }
    mst_closure_back(cluster, closure, backoff(cluster, closure));
}

/* Out of this budget, if it may run again at all. */
static bool retried(struct mst_cluster *cluster, struct mst_closure *closure, uint32_t *left)
{
    if (closure->once || *left == 0 || closure->stopping != MST_ORIGIN_NONE) {
        return false;
    }
    --*left;
    cluster->counts.retried++;
    again_later(cluster, closure);
    return true;
}

static void crashed(struct mst_cluster *cluster, const struct mst_task_worker *worker,
                    struct mst_closure *closure, int32_t code)
{
    struct mst_worker_end end = {.cause = code < 0 ? MST_CAUSE_SIGNAL : MST_CAUSE_EXIT,
                                 .code = code == INT32_MIN || code >= 0 ? code : -code};

    mst_poison_add(cluster, closure, worker, end, true);
    closure->blamed = true; /* only its own child died */
}

/* Its worker had not begun with it. */
static void returned(struct mst_cluster *cluster, struct mst_closure *closure, bool asked)
{
    closure->begun = closure->retries > 0 || closure->losses > 0;
    if (asked) {
        mst_closure_back(cluster, closure, 0);
    } else {
        again_later(cluster, closure);
    }
}

static uint32_t *budget_of(struct mst_closure *closure, enum mst_origin origin)
{
    return origin == MST_ORIGIN_RETRYABLE   ? &closure->error_left
           : origin == MST_ORIGIN_CRASH     ? &closure->crash_left
           : origin == MST_ORIGIN_EXHAUSTED ? &closure->exhausted_left
                                            : NULL;
}

/* True: there will be another attempt, or was nothing to it. */
static bool tried_again(struct mst_cluster *cluster, struct mst_task_worker *worker,
                        struct mst_closure *closure, const struct mst_failure *failure)
{
    enum mst_origin origin = failure->origin;
    uint32_t *budget = budget_of(closure, origin);
    bool again;

    if (origin == MST_ORIGIN_CRASH) {
        crashed(cluster, worker, closure, failure->code);
    }
    if (budget) {
        return retried(cluster, closure, budget);
    }
    if (origin == MST_ORIGIN_RETURNED) {
        returned(cluster, closure, closure->recalled || worker->draining);
        return true;
    }
    /* The value was lost, not its function wrong: it is built again. */
    if (origin == MST_ORIGIN_INPUT && failure->cause && failure->cause->origin == MST_ORIGIN_LOST) {
        returned(cluster, closure, false);
        return true;
    }
    if (origin == MST_ORIGIN_STATE) {
        again = mst_state_tolerates(cluster, closure, failure->state);
    } else { /* cancelled, and not by us: its worker has its own reasons, and is not the only one */
        again = origin == MST_ORIGIN_CANCELLED && closure->stopping == MST_ORIGIN_NONE;
    }
    if (again && !closure->once) {
        again_later(cluster, closure);
        return true;
    }
    return false;
}

/* The origin that the user sees: a worker cannot name one that it cannot know. */
static enum mst_origin shown(const struct mst_cluster *cluster, const struct mst_closure *closure,
                             const struct mst_failure *failure)
{
    enum mst_origin stopping = (enum mst_origin)closure->stopping;
    enum mst_origin origin = failure->origin;

    if (stopping != MST_ORIGIN_NONE && !(closure->ending && origin == MST_ORIGIN_FUNCTION)) {
        return stopping;
    }
    if (origin == MST_ORIGIN_STATE && !mst_state_server_find(cluster, failure->state)) {
        return MST_ORIGIN_FUNCTION;
    }
    if (origin == MST_ORIGIN_CANCELLED) {
        return MST_ORIGIN_LOST; /* not by us: what became of it is unknown */
    }
    return origin == MST_ORIGIN_LOST || origin == MST_ORIGIN_POISON ||
                   origin == MST_ORIGIN_RETURNED || origin > MST_ORIGIN_RETRYABLE
               ? MST_ORIGIN_INTERNAL
               : origin;
}

static void failed(struct mst_cluster *cluster, struct mst_task_worker *worker,
                   struct mst_closure *closure, const struct mst_cluster_message *message)
{
    const struct mst_failure *failure = &message->failure;
    struct mst_failure stamped = *failure;
    enum mst_origin origin;
    struct mst_task_failure *copy;

    stamped.worker = worker->number;
    stamped.incarnation = worker->incarnation;
    stamped.attempt = closure->attempt;
    copy = mst_failure_copy(&cluster->mem, &stamped);
    if (!copy) {
        starved(cluster, worker);
        return;
    }
    worker->done++;
    if (tried_again(cluster, worker, closure, failure)) {
        mst_failure_drop(&cluster->mem, copy);
        return;
    }
    origin = shown(cluster, closure, failure);
    /* The worker may know more about an attempt that ran out of time. */
    if ((origin == (enum mst_origin)closure->stopping &&
         !(origin == MST_ORIGIN_DEADLINE && failure->origin == MST_ORIGIN_DEADLINE)) ||
        origin == MST_ORIGIN_LOST) {
        mst_failure_drop(&cluster->mem, copy);
        copy = NULL;
    }
    if (copy && !closure->released && message->parts.count > 0) {
        closure->result = mst_result_new(&cluster->mem, &message->parts); /* or without */
    }
    mst_closure_fail(cluster, closure, origin, copy);
}

static void value(struct mst_cluster *cluster, struct mst_task_worker *worker,
                  struct mst_closure *closure, const struct mst_parts *parts)
{
    struct mst_task_result *result = NULL;

    if (!closure->released && parts->count > 0) {
        result = mst_result_new(&cluster->mem, parts);
        if (!result) {
            starved(cluster, worker);
            return;
        }
    }
    worker->done++;
    mst_state_reached(closure);
    mst_closure_value(cluster, closure, result);
}

void mst_result_heard(struct mst_cluster *cluster, struct mst_task_worker *worker,
                      const struct mst_cluster_message *message)
{
    struct mst_closure *closure = current(cluster, worker, message);

    worker->results++;
    if (!closure) {
        cluster->counts.late++;
        mst_effect_say(cluster, MST_CLUSTER_LINE_LATE, worker, message->attempt.closure,
                       message->attempt.attempt, mst_slice_of(NULL, 0));
        return;
    }
    if (message->failure.origin != MST_ORIGIN_RETURNED) {
        measure(cluster, closure, message);
    }
    if (message->failure.origin == MST_ORIGIN_NONE) {
        value(cluster, worker, closure, &message->parts);
    } else {
        failed(cluster, worker, closure, message);
    }
}

void mst_result_progress(struct mst_cluster *cluster, struct mst_task_worker *worker,
                         const struct mst_cluster_message *message)
{
    struct mst_closure *closure = current(cluster, worker, message);
    size_t size =
        message->text.size < MST_FAILURE_TEXT_MAX ? message->text.size : MST_FAILURE_TEXT_MAX;
    struct mst_progress *progress;

    if (!closure) {
        return;
    }
    if (message->overdue) {
        mst_series_stop(cluster, closure, MST_ORIGIN_DEADLINE, cluster->config.cancel_grace_ns);
        return;
    }
    cluster->progress_ns = cluster->now_ns;
    progress = cluster->mem.alloc(cluster->mem.ctx, sizeof(*progress) + size);
    if (!progress) {
        return; /* the next report replaces it */
    }
    progress->reported_ns = cluster->now_ns;
    progress->fraction = message->fraction;
    progress->text = mst_slice_of(progress->bytes, size);
    if (size > 0) {
        memcpy(progress->bytes, message->text.data, size);
    }
    mst_mem_release(&cluster->mem, closure->progress);
    closure->progress = progress;
}
