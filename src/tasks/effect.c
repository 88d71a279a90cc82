/* SPDX-License-Identifier: Apache-2.0 */
/* The outputs of the machine. Messages are made from its state one at a time, so none is stored;
 * only lines for the user are. */
#include "base/panic.h"
#include "tasks/machine.h"

/* ---- lines ---- */

void mst_effect_say(struct mst_cluster *cluster, enum mst_cluster_line line,
                    const struct mst_task_worker *worker, uint64_t closure, uint64_t count,
                    struct mst_slice text)
{
    size_t size = text.size < MST_FAILURE_TEXT_MAX ? text.size : MST_FAILURE_TEXT_MAX;
    struct mst_saying *saying = NULL;

    if (cluster->line_count < MST_CLUSTER_LINES_MAX) {
        saying = cluster->mem.alloc(cluster->mem.ctx, sizeof(*saying) + size);
    }
    if (!saying) {
        return; /* the line is dropped */
    }
    *saying = (struct mst_saying){.about = worker,
                                  .effect = {.type = MST_CLUSTER_SAY,
                                             .line = line,
                                             .index = worker ? worker->index : 0,
                                             .worker = worker ? worker->number : MST_WORKER_NONE,
                                             .closure = closure,
                                             .count = count,
                                             .text = mst_slice_of(saying->text, size)}};
    if (size > 0) {
        memcpy(saying->text, text.data, size);
    }
    mst_list_append(&cluster->lines, &saying->place);
    cluster->line_count++;
}

void mst_lines_free(struct mst_cluster *cluster)
{
    struct mst_list *node;

    mst_mem_release(&cluster->mem, cluster->said);
    while ((node = mst_list_take(&cluster->lines))) {
        mst_mem_release(&cluster->mem, MST_CONTAINER(node, struct mst_saying, place));
    }
}

static bool say(struct mst_cluster *cluster)
{
    struct mst_saying *saying =
        MST_CONTAINER_OR_NULL(mst_list_take(&cluster->lines), struct mst_saying, place);
    struct mst_cluster_effect *effect = &cluster->effect;

    if (!saying) {
        return false;
    }
    cluster->line_count--;
    cluster->said = saying;
    *effect = saying->effect;
    if (saying->about) {
        effect->host = mst_slice_of(saying->about->host, saying->about->host_size);
    }
    return true;
}

/* ---- messages ---- */

static void message_on(struct mst_cluster *cluster, uint64_t connection,
                       enum mst_cluster_message_type type)
{
    cluster->message = (struct mst_cluster_message){.type = type};
    cluster->effect.type = MST_CLUSTER_SEND;
    cluster->effect.connection = connection;
    cluster->effect.message = &cluster->message;
}

void mst_effect_message(struct mst_cluster *cluster, const struct mst_task_worker *worker,
                        enum mst_cluster_message_type type)
{
    message_on(cluster, worker->link->connection, type);
}

static void cancel(struct mst_cluster *cluster, const struct mst_task_worker *worker,
                   struct mst_attempt attempt, uint64_t series, uint64_t grace_ms)
{
    mst_effect_message(cluster, worker, MST_CLUSTER_CANCEL);
    cluster->message.attempt = attempt;
    cluster->message.series = series;
    cluster->message.left_ms = grace_ms;
}

static bool send_owed(struct mst_cluster *cluster, struct mst_task_worker *worker)
{
    struct mst_closure *closure =
        MST_CONTAINER_OR_NULL(mst_list_take(&worker->owed), struct mst_closure, owed);
    struct mst_attempt attempt;

    if (!closure) {
        return false;
    }
    attempt = mst_closure_attempt(closure);
    if (closure->stopping != MST_ORIGIN_NONE) {
        cancel(cluster, worker, attempt, closure->series, closure->stop_ms);
    } else {
        mst_effect_message(cluster, worker, MST_CLUSTER_TAKE_BACK);
        cluster->message.attempt = attempt;
        cluster->message.series = closure->series;
    }
    return true;
}

static bool send_orphan(struct mst_cluster *cluster, struct mst_task_worker *worker)
{
    if (worker->orphan_count > 0) {
        cancel(cluster, worker, worker->orphans[--worker->orphan_count], cluster->counts.series,
               cluster->config.cancel_grace_ns / NS_PER_MS);
        return true;
    }
    if (worker->orphaned_value_count > 0) {
        mst_effect_message(cluster, worker, MST_CLUSTER_DROP);
        cluster->message.value = worker->orphaned_values[--worker->orphaned_value_count];
        return true;
    }
    return false;
}

/* WELCOME goes first; a BUILD precedes the runs that need it. */
static bool send_to(struct mst_cluster *cluster, struct mst_task_worker *worker)
{
    if (worker->owe_welcome) {
        worker->owe_welcome = false;
        mst_effect_message(cluster, worker, MST_CLUSTER_WELCOME);
        cluster->message.results = worker->results;
        cluster->message.term = cluster->config.term;
        cluster->message.worker = worker->number;
        cluster->message.left_ms = cluster->config.cancel_grace_ns / NS_PER_MS;
        return true;
    }
    if (send_orphan(cluster, worker)) {
        return true;
    }
    if (worker->owe_drain) {
        worker->owe_drain = false;
        mst_effect_message(cluster, worker, MST_CLUSTER_DRAIN);
        return true;
    }
    if (worker->owe_builds) {
        if (!worker->draining && !cluster->hanging_up && mst_value_build_next(cluster, worker)) {
            return true;
        }
        worker->owe_builds = false;
    }
    return send_owed(cluster, worker);
}

static bool send_todo(struct mst_cluster *cluster)
{
    while (!mst_list_empty(&cluster->todo)) {
        struct mst_task_worker *worker =
            MST_CONTAINER(cluster->todo.next, struct mst_task_worker, todo);

        if (send_to(cluster, worker)) {
            return true;
        }
        mst_list_remove(&worker->todo);
    }
    return false;
}

/* ---- hanging up ---- */

static bool hang_up(struct mst_cluster *cluster)
{
    struct mst_task_link *link;

    if (cluster->owe_unknown) {
        cluster->owe_unknown = false;
        cluster->effect.type = MST_CLUSTER_CLOSE;
        cluster->effect.connection = cluster->unknown_connection;
        return true;
    }
    if (mst_list_empty(&cluster->links_todo)) {
        return false;
    }
    link = MST_CONTAINER(cluster->links_todo.next, struct mst_task_link, todo);
    if (link->refused != MUSTER_OK) {
        message_on(cluster, link->connection, MST_CLUSTER_REFUSED);
        cluster->message.status = link->refused;
        link->refused = MUSTER_OK;
        cluster->message.term = cluster->config.term;
        return true;
    }
    cluster->effect.type = MST_CLUSTER_CLOSE;
    cluster->effect.connection = link->connection;
    mst_link_forget(cluster, link);
    return true;
}

/* Closed, and everything was sent; a caller that drains has also taken the last failure. */
static bool is_done(const struct mst_cluster *cluster)
{
    bool undelivered = cluster->draining && cluster->pending.count > 0;

    return cluster->closed && !undelivered && mst_list_empty(&cluster->live);
}

static bool record(struct mst_cluster *cluster)
{
    bool fenced = cluster->end != MUSTER_OK && cluster->end != MUSTER_ECANCELLED;

    if (cluster->dismissal != MST_DISMISSAL_ASKED || fenced || !is_done(cluster)) {
        return false;
    }
    cluster->dismissal = MST_DISMISSAL_RECORDING;
    cluster->effect.type = MST_CLUSTER_RECORD;
    return true;
}

static void end(struct mst_cluster *cluster)
{
    bool dismisses = cluster->dismissal != MST_UNDISMISSED &&
                     (cluster->dismissal != MST_DISMISSED || cluster->connected > 0);

    if (cluster->end == MUSTER_OK && is_done(cluster) && !dismisses) {
        mst_cluster_over(cluster, MUSTER_ECANCELLED);
    }
}

static bool fill(struct mst_cluster *cluster)
{
    if (send_todo(cluster) || (cluster->end == MUSTER_OK && mst_dispatch_next(cluster)) ||
        mst_value_drop_next(cluster) || record(cluster)) {
        return true;
    }
    end(cluster);
    if (hang_up(cluster) || say(cluster)) {
        return true;
    }
    if (cluster->changed) {
        cluster->changed = false;
        cluster->effect.type = MST_CLUSTER_CHANGED;
        return true;
    }
    return false;
}

const struct mst_cluster_effect *mst_cluster_next(struct mst_cluster *cluster)
{
    if (!cluster->out) {
        cluster->effect = (struct mst_cluster_effect){0};
        cluster->out = fill(cluster);
    }
    return cluster->out ? &cluster->effect : NULL;
}

void mst_cluster_done(struct mst_cluster *cluster, const struct mst_cluster_effect *effect)
{
    MST_ASSERT(cluster->out && effect == &cluster->effect);
    cluster->out = false;
    mst_mem_release(&cluster->mem, cluster->said);
    cluster->said = NULL;
}
