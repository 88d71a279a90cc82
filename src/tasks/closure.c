/* SPDX-License-Identifier: Apache-2.0 */
/* Closures: admission, the ways they come to their end, and what the user sees of them. */
#include "base/panic.h"
#include "tasks/machine.h"

/* ---- finding ---- */

struct mst_closure *mst_closure_find(const struct mst_cluster *cluster, uint64_t number)
{
    return MST_CONTAINER_OR_NULL(mst_table_find(&cluster->closures, number), struct mst_closure,
                                 node);
}

struct mst_closure *mst_closure_current(const struct mst_cluster *cluster,
                                        const struct mst_task_worker *worker,
                                        struct mst_attempt attempt)
{
    struct mst_closure *closure = mst_closure_find(cluster, attempt.closure);

    return closure && mst_closure_out(closure) && closure->worker == worker &&
                   closure->attempt == attempt.attempt
               ? closure
               : NULL;
}

bool mst_closure_settled(const struct mst_closure *closure)
{
    return closure->where == MST_WHERE_VALUE || closure->where == MST_WHERE_FAILED;
}

bool mst_closure_out(const struct mst_closure *closure)
{
    return closure->where == MST_WHERE_RUNNING || closure->where == MST_WHERE_PREFETCHED;
}

static void closure_free(struct mst_cluster *cluster, struct mst_closure *closure)
{
    mst_table_remove(&cluster->closures, &closure->node);
    mst_list_remove(&closure->live);
    mst_mem_release(&cluster->mem, closure->result);
    mst_failure_drop(&cluster->mem, closure->failure);
    mst_mem_release(&cluster->mem, closure->progress);
    mst_mem_release(&cluster->mem, closure->lost);
    mst_mem_release(&cluster->mem, closure);
}

void mst_closures_free(struct mst_cluster *cluster)
{
    MST_EACH(closure, &cluster->live, struct mst_closure, live) {
        closure_free(cluster, closure);
    }
    MST_EACH(closure, &cluster->settled, struct mst_closure, live) {
        closure_free(cluster, closure);
    }
}

/* ---- times ---- */

void mst_closure_alarm(struct mst_cluster *cluster, struct mst_closure *closure)
{
    uint64_t due_ns = closure->grace_ns;

    if (closure->stopping == MST_ORIGIN_NONE) {
        due_ns = mst_sooner(due_ns, closure->total_ns);
        if (closure->where != MST_WHERE_RUNNING && !closure->begun && !closure->recalled) {
            due_ns = mst_sooner(due_ns, closure->start_ns);
        }
    }
    if (due_ns != NEVER || mst_tree_linked(&closure->alarm.node)) {
        mst_alarm_at(cluster, &closure->alarm, due_ns);
    }
}

static bool too_late(const struct mst_closure *closure, uint64_t now_ns)
{
    return now_ns >= closure->total_ns || (!closure->begun && now_ns >= closure->start_ns);
}

/* Its worker did not answer CANCEL in time: the connection is closed. */
static void unanswered(struct mst_cluster *cluster, struct mst_closure *closure)
{
    uint64_t number = closure->number;
    struct mst_task_worker *worker = closure->worker;

    closure->grace_ns = NEVER;
    if (worker->link) {
        cluster->counts.lies++;
        mst_effect_say(cluster, MST_CLUSTER_LINE_REFUSED, worker, number, 0,
                       mst_slice_text("it was asked to cancel and does not answer"));
        mst_link_break(cluster, worker->link);
    }
    closure = mst_closure_find(cluster, number); /* closing may have put it back */
    if (closure && mst_closure_out(closure)) {
        mst_closure_back(cluster, closure, 0);
    }
}

static void due_in_queue(struct mst_cluster *cluster, struct mst_closure *closure)
{
    if (too_late(closure, cluster->now_ns)) {
        mst_closure_fail(cluster, closure, MST_ORIGIN_DEADLINE, NULL);
        return;
    }
    if (closure->where == MST_WHERE_BACKOFF && cluster->now_ns >= closure->grace_ns) {
        closure->grace_ns = NEVER;
        mst_queue_return(cluster, closure);
    }
    mst_closure_alarm(cluster, closure);
}

void mst_closure_due(struct mst_cluster *cluster, struct mst_task_alarm *alarm)
{
    struct mst_closure *closure = MST_CONTAINER(alarm, struct mst_closure, alarm);

    if (!mst_closure_out(closure)) {
        due_in_queue(cluster, closure);
    } else if (closure->stopping != MST_ORIGIN_NONE) {
        unanswered(cluster, closure);
    } else if (cluster->now_ns >= closure->total_ns) {
        mst_series_stop(cluster, closure, MST_ORIGIN_DEADLINE, cluster->config.cancel_grace_ns);
    } else {
        if (closure->where == MST_WHERE_PREFETCHED && !closure->recalled) {
            closure->recalled = true; /* only its worker knows whether it has begun */
            mst_task_worker_owe(cluster, closure);
        }
        mst_closure_alarm(cluster, closure);
    }
}

/* ---- admission ---- */

static uint64_t sum_of(const struct mst_parts *parts)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < parts->count; i++) {
        uint64_t size = parts->items[i].data.size;

        sum = size > UINT64_MAX - sum ? UINT64_MAX : sum + size;
    }
    return sum;
}

/* Of a message, whatever is queued. NONE: `*bytes` are those of the parts. */
static struct mst_cluster_excess closure_excess(const struct mst_closure_call *call, size_t *bytes)
{
    const struct mst_cluster_excess asked[] = {
        {MST_CLUSTER_LIMIT_NAME, MST_CLUSTER_NAME_MAX, call->function.size},
        {MST_CLUSTER_LIMIT_KEY, MST_CLUSTER_KEY_MAX, call->options ? call->options->key.size : 0},
        {MST_CLUSTER_LIMIT_NEEDS, MST_CLUSTER_PARTS_MAX, call->need_count},
        {MST_CLUSTER_LIMIT_PARTS, MST_CLUSTER_PARTS_MAX, call->parts.count},
    };

    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        if (asked[i].asked > asked[i].most) {
            return asked[i];
        }
    }
    if (!mst_parts_size(&call->parts, bytes)) {
        return (struct mst_cluster_excess){MST_CLUSTER_LIMIT_BYTES, MST_CLUSTER_BYTES_MAX,
                                           sum_of(&call->parts)};
    }
    return (struct mst_cluster_excess){.limit = MST_CLUSTER_LIMIT_NONE};
}

static struct mst_cluster_excess queue_excess(const struct mst_cluster *cluster, size_t bytes)
{
    const struct mst_cluster_config *config = &cluster->config;
    uint64_t queued = (uint64_t)cluster->counts.queued + 1,
             all_bytes = cluster->counts.queued_bytes + bytes;

    if (cluster->counts.queued > 0 && config->queue_limit > 0 && queued > config->queue_limit) {
        return (struct mst_cluster_excess){MST_CLUSTER_LIMIT_QUEUE, config->queue_limit, queued};
    }
    /* A large closure is admitted into an empty queue. */
    if (cluster->counts.queued > 0 && config->queue_bytes > 0 && all_bytes > config->queue_bytes) {
        return (struct mst_cluster_excess){MST_CLUSTER_LIMIT_QUEUE_BYTES, config->queue_bytes,
                                           all_bytes};
    }
    return (struct mst_cluster_excess){.limit = MST_CLUSTER_LIMIT_NONE};
}

static bool ends_series(const struct mst_cluster *cluster)
{
    return cluster->ending && !mst_list_empty(&cluster->live);
}

struct mst_cluster_excess mst_cluster_excess(const struct mst_cluster *cluster,
                                             const struct mst_closure_call *call)
{
    size_t bytes = 0;
    struct mst_cluster_excess excess = closure_excess(call, &bytes);

    return excess.limit != MST_CLUSTER_LIMIT_NONE || ends_series(cluster)
               ? excess
               : queue_excess(cluster, bytes);
}

muster_status mst_closure_refusal(const struct mst_cluster *cluster,
                                  const struct mst_closure_call *call, size_t *bytes)
{
    if (cluster->end != MUSTER_OK) {
        return cluster->end;
    }
    if (cluster->closed) {
        return MUSTER_ECANCELLED;
    }
    if (call->function.size == 0 || !call->function.data) {
        return MUSTER_EINVAL;
    }
    return closure_excess(call, bytes).limit == MST_CLUSTER_LIMIT_NONE ? MUSTER_OK : MUSTER_ELIMIT;
}

static muster_status refusal(struct mst_cluster *cluster, const struct mst_closure_call *call,
                             size_t *bytes)
{
    muster_status status = mst_closure_refusal(cluster, call, bytes);

    if (status != MUSTER_OK) {
        return status;
    }
    for (uint32_t i = 0; i < call->need_count; i++) {
        const struct mst_value *value = mst_value_find(cluster, call->needs[i]);

        if (!value || value->dropped) {
            return MUSTER_EINVAL;
        }
    }
    if (ends_series(cluster)) {
        return MUSTER_MORE;
    }
    if (cluster->ending ||
        (cluster->config.policy == MST_CLUSTER_FAIL_FAST && cluster->pending.count > 0)) {
        return MUSTER_EFAILED;
    }
    if (queue_excess(cluster, *bytes).limit != MST_CLUSTER_LIMIT_NONE) {
        cluster->full = true;
        return MUSTER_MORE;
    }
    return MUSTER_OK;
}

static uint64_t after(uint64_t now_ns, uint64_t span_ns)
{
    return span_ns == 0 ? NEVER : mst_after_ns(now_ns, span_ns);
}

static void take_options(struct mst_closure *closure, uint64_t now_ns,
                         const struct mst_closure_options *options)
{
    static const struct mst_closure_options plain = {.crash_retries = 1, .exhausted_retries = 1};

    if (!options) {
        options = &plain;
    }
    closure->group = options->group;
    closure->start_ns = after(now_ns, options->start_ns);
    closure->total_ns = after(now_ns, options->total_ns);
    closure->run_limit_ns = options->run_ns;
    closure->error_left = options->error_retries;
    closure->crash_left = options->crash_retries;
    closure->exhausted_left = options->exhausted_retries;
    closure->idempotent = options->idempotent || options->pure;
    closure->once = options->once;
}

static struct mst_closure *closure_new(struct mst_cluster *cluster,
                                       const struct mst_closure_call *call, size_t bytes)
{
    size_t parts = call->parts.count * sizeof(struct mst_part);
    size_t needs = call->need_count * sizeof(uint64_t);
    size_t key = call->options ? call->options->key.size : 0;
    size_t size = sizeof(struct mst_closure) + parts + needs + bytes + key;
    struct mst_closure *closure = cluster->mem.alloc(cluster->mem.ctx, size);
    struct mst_part *items;
    char *to;

    if (!closure) {
        return NULL;
    }
    *closure = (struct mst_closure){.alarm = {.ring = mst_closure_due},
                                    .bytes = bytes,
                                    .part_count = call->parts.count,
                                    .need_count = call->need_count};
    items = (struct mst_part *)(closure + 1);
    to = (char *)items + parts;
    if (needs > 0) {
        memcpy(to, call->needs, needs);
    }
    to = mst_parts_copy(items, to + needs, &call->parts);
    if (key > 0) {
        memcpy(to, call->options->key.data, key);
    }
    closure->key_size = (uint32_t)key;
    return closure;
}

muster_status mst_cluster_schedule(struct mst_cluster *cluster, uint64_t now_ns,
                                   const struct mst_closure_call *call, uint64_t *number)
{
    size_t bytes = 0;
    muster_status status = refusal(cluster, call, &bytes);
    uint32_t version = call->options ? call->options->version : 0;
    struct mst_closure *closure;
    struct mst_kind *kind;

    if (status != MUSTER_OK) {
        return status;
    }
    cluster->now_ns = now_ns;
    kind = mst_kind_of(cluster, call->function, version);
    closure = kind ? closure_new(cluster, call, bytes) : NULL;
    if (!closure) {
        return MUSTER_ENOMEM;
    }
    take_options(closure, now_ns, call->options);
    closure->kind = kind;
    closure->number = ++cluster->counts.admitted;
    closure->series = cluster->counts.series;
    closure->ran_on = MST_WORKER_NONE;
    closure->grace_ns = NEVER;
    closure->admitted_ns = now_ns;
    if (cluster->counts.queued + cluster->counts.running == 0) {
        cluster->progress_ns = now_ns;
    }
    cluster->counts.queued++;
    cluster->counts.queued_bytes += bytes;
    mst_table_insert(&cluster->closures, closure->number, &closure->node);
    mst_list_append(&cluster->live, &closure->live);
    mst_value_use(cluster, closure);
    mst_queue_append(cluster, closure);
    mst_closure_alarm(cluster, closure);
    mst_dispatch_watch(cluster);
    *number = closure->number;
    return MUSTER_OK;
}

/* ---- the end ---- */

/* Removes it from the queue or its worker, and from all that concerns unsettled closures. */
static void settle(struct mst_cluster *cluster, struct mst_closure *closure, enum mst_where where)
{
    if (mst_closure_out(closure)) {
        mst_dispatch_leave(cluster, closure);
    } else {
        mst_queue_remove(cluster, closure);
    }
    cluster->counts.queued--;
    cluster->counts.queued_bytes -= closure->bytes;
    closure->where = (uint8_t)where;
    closure->worker = NULL;
    mst_list_remove(&closure->live);
    mst_list_append(&cluster->settled, &closure->live);
    if (mst_tree_linked(&closure->alarm.node)) {
        mst_alarm_at(cluster, &closure->alarm, NEVER);
    }
    if (closure->need_count > 0) {
        mst_value_leave(cluster, closure);
    }
    cluster->progress_ns = cluster->now_ns;
    cluster->changed = true;
}

static void settled(struct mst_cluster *cluster, struct mst_closure *closure)
{
    if (closure->released) {
        closure_free(cluster, closure);
    }
}

void mst_closure_value(struct mst_cluster *cluster, struct mst_closure *closure,
                       struct mst_task_result *result)
{
    settle(cluster, closure, MST_WHERE_VALUE);
    closure->result = result;
    cluster->counts.values++;
    settled(cluster, closure);
}

void mst_closure_fail(struct mst_cluster *cluster, struct mst_closure *closure,
                      enum mst_origin origin, struct mst_task_failure *failure)
{
    settle(cluster, closure, MST_WHERE_FAILED);
    closure->origin = (uint8_t)origin;
    closure->failure = failure;
    if (origin == MST_ORIGIN_CANCELLED) {
        cluster->counts.cancelled++;
    } else {
        cluster->counts.failures++;
        cluster->counts.failed[origin]++;
        mst_series_failed(cluster, closure);
    }
    settled(cluster, closure);
}

/* An attempt ended without a result. A closure that was asked to stop has stopped. */
void mst_closure_back(struct mst_cluster *cluster, struct mst_closure *closure, uint64_t backoff_ns)
{
    enum mst_origin stopping = (enum mst_origin)closure->stopping;

    mst_dispatch_leave(cluster, closure);
    closure->recalled = false;
    closure->grace_ns = NEVER;
    cluster->progress_ns = cluster->now_ns;
    if (stopping != MST_ORIGIN_NONE) {
        mst_closure_fail(cluster, closure, stopping, NULL);
        return;
    }
    if (too_late(closure, cluster->now_ns)) {
        mst_closure_fail(cluster, closure, MST_ORIGIN_DEADLINE, NULL);
        return;
    }
    if (!mst_loss_judge(cluster, closure)) {
        return; /* it has failed, or is held */
    }
    if (backoff_ns > 0) {
        closure->grace_ns = mst_after_ns(cluster->now_ns, backoff_ns);
    } else {
        mst_queue_return(cluster, closure);
    }
    mst_closure_alarm(cluster, closure);
}

/* ---- what the user sees ---- */

void mst_closure_failure(const struct mst_closure *closure, const struct mst_cluster *cluster,
                         struct mst_failure *out)
{
    const struct mst_task_worker *worker =
        closure->ran_on != MST_WORKER_NONE ? cluster->workers[closure->ran_on] : NULL;

    if (closure->failure) {
        *out = closure->failure->chain[0];
    } else {
        *out = (struct mst_failure){.text = mst_failure_text((enum mst_origin)closure->origin)};
    }
    out->origin = (enum mst_origin)closure->origin;
    out->worker = closure->ran_on;
    out->attempt = closure->attempt;
    out->incarnation = worker && !closure->failure ? worker->incarnation : out->incarnation;
}

void mst_cluster_look(const struct mst_cluster *cluster, uint64_t number,
                      struct mst_closure_look *out)
{
    const struct mst_closure *closure = mst_closure_find(cluster, number);

    *out = (struct mst_closure_look){.worker = MST_WORKER_NONE, .fraction = -1};
    if (!closure || closure->released) {
        return;
    }
    out->attempts = closure->attempt;
    out->worker = closure->ran_on;
    if (closure->result) {
        out->parts = closure->result->parts;
    }
    if (closure->progress) {
        out->fraction = closure->progress->fraction;
        out->text = closure->progress->text;
    }
    if (closure->where == MST_WHERE_VALUE) {
        out->state = MST_CLOSURE_VALUE;
    } else if (closure->where == MST_WHERE_FAILED) {
        out->state = MST_CLOSURE_FAILED;
        mst_closure_failure(closure, cluster, &out->failure);
    } else {
        out->state = mst_closure_out(closure) ? MST_CLOSURE_RUNNING : MST_CLOSURE_QUEUED;
    }
}

void mst_cluster_release(struct mst_cluster *cluster, uint64_t now_ns, uint64_t number)
{
    struct mst_closure *closure = mst_closure_find(cluster, number);

    (void)now_ns;
    if (closure) {
        closure->released = true;
        if (mst_closure_settled(closure)) {
            closure_free(cluster, closure);
        }
    }
}
