/* SPDX-License-Identifier: Apache-2.0 */
/* The tasks of the whole job, by a watch of its members in the session of one task of this node:
 * who is lost reaches those that poll, and WatchTasks lists all. */
#include "fronts/xla/machine.h"

static const char published[] = "xla-task/";

static struct mst_xla_peer *peer_at(struct mst_xla *front, uint32_t index)
{
    struct mst_tree_node *node = mst_tree_find(&front->peers, &index);
    struct mst_xla_peer *peer = MST_CONTAINER_OR_NULL(node, struct mst_xla_peer, by_index);

    if (!peer) {
        peer = mst_mem_zalloc(&front->mem, sizeof *peer);
        if (peer) {
            peer->index = index;
            peer->state = MST_XLA_DISCONNECTED;
            (void)mst_tree_insert(&front->peers, &index, &peer->by_index);
        }
    }
    return peer;
}

void mst_xla_members_free(struct mst_xla *front)
{
    struct mst_tree_node *node;

    while ((node = mst_tree_first(&front->peers)) != NULL) {
        struct mst_xla_peer *peer = MST_CONTAINER(node, struct mst_xla_peer, by_index);

        mst_tree_remove(&front->peers, node);
        mst_mem_release(&front->mem, peer->error);
        mst_mem_release(&front->mem, peer);
    }
}

/* ---- WatchTasks ---- */

static uint32_t size_of(const struct mst_xla *front)
{
    struct mst_tree_node *node = front->peers.root;
    uint32_t size = front->config.size;

    while (node && node->child[1]) {
        node = node->child[1];
    }
    if (node && MST_CONTAINER(node, struct mst_xla_peer, by_index)->index >= size) {
        size = MST_CONTAINER(node, struct mst_xla_peer, by_index)->index + 1;
    }
    return size;
}

static void fill(struct mst_xla_state *state, const struct mst_xla_peer *peer)
{
    state->state = peer->state;
    state->incarnation = peer->incarnation;
    if (peer->state == MST_XLA_ERROR && peer->error) {
        state->code = peer->error->code;
        state->text = mst_slice_text(peer->error->text);
        state->has_origin = true;
        state->origin = peer->error->origin;
    }
}

static void answer_watch(struct mst_xla_call *call)
{
    struct mst_xla *front = call->connection->front;
    uint32_t size = size_of(front);
    struct mst_xla_state *states = mst_mem_array(&front->mem, size + 1, sizeof *states);
    struct mst_xla_error error;

    if (!states) {
        error = mst_xla_error_of(MST_XLA_RESOURCE_EXHAUSTED, "WatchTasks: no memory");
        mst_xla_refuse(call, &error);
        return;
    }
    for (uint32_t i = 0; i < size; i++) {
        states[i].place.id = i;
        states[i].state = MST_XLA_DISCONNECTED;
    }
    MST_TREE_EACH(peer, &front->peers, struct mst_xla_peer, by_index) {
        fill(&states[peer->index], peer);
    }
    mst_xla_answer(call, &(struct mst_xla_reply){
                             .states = states, .state_count = size, .version = front->version});
    mst_mem_release(&front->mem, states);
}

static void bump(struct mst_xla *front)
{
    struct mst_xla_call *call;

    front->version++;
    while ((call = mst_xla_next_waiting(&front->watching)) != NULL) {
        answer_watch(call);
    }
}

void mst_xla_watch(struct mst_xla_call *call, struct mst_xla_task *task,
                   const struct mst_xla_request *request)
{
    if ((uint64_t)request->number == task->front->version) {
        mst_list_append(&task->front->watching, &call->waits);
    } else {
        answer_watch(call);
    }
}

/* An error of before stays. */
static void set_error(struct mst_xla *front, struct mst_xla_peer *peer,
                      const struct mst_xla_error *error)
{
    if (!error || peer->error) {
        return;
    }
    peer->error = front->mem.alloc(front->mem.ctx, sizeof *peer->error);
    if (peer->error) {
        *peer->error = *error;
    }
}

void mst_xla_members_set(struct mst_xla *front, uint32_t index, uint32_t state,
                         uint64_t incarnation, const struct mst_xla_error *error)
{
    struct mst_xla_peer *peer = peer_at(front, index);

    if (!peer || (peer->state == state && peer->incarnation == incarnation)) {
        return;
    }
    if (state != MST_XLA_ERROR) {
        mst_mem_release(&front->mem, peer->error);
        peer->error = NULL;
    }
    peer->state = state;
    peer->incarnation = incarnation;
    set_error(front, peer, error);
    bump(front);
}

/* ---- what the service reports ---- */

static struct mst_xla_error error_of(const struct mst_who *who, struct mst_slice words)
{
    struct mst_caused caused = {.cause = who->cause, .code = who->code, .text = words};
    bool by_front = (who->cause == MST_CAUSE_FAULT || who->cause == MST_CAUSE_UNHEALTHY) &&
                    who->code > 0 && who->code <= MST_XLA_CODE_LAST;
    struct mst_xla_error error;
    struct mst_text text;

    if (by_front) {
        error = mst_xla_error_of((enum mst_xla_code)who->code, "%.*s", MST_SLICE_ARGS(words));
    } else {
        error = mst_xla_error_of(MST_XLA_UNAVAILABLE, "task %u ", who->index);
        text = (struct mst_text){
            .start = error.text, .size = strlen(error.text), .room = sizeof error.text};
        mst_cause_sentence(&text, &caused);
        if (who->host.size > 0) {
            mst_text_format(&text, " (node %.*s)", MST_SLICE_ARGS(who->host));
        }
    }
    error.has_source = true;
    error.origin.source.id = who->index;
    error.origin.reported = by_front && who->cause == MST_CAUSE_FAULT;
    return error;
}

static bool is_in_job(const struct mst_xla *front, uint64_t index)
{
    return index < (front->config.size > 0 ? front->config.size : front->config.limits.members_max);
}

/* One that is here is known better, by its own task. */
static bool is_other(const struct mst_xla *front, const struct mst_who *who)
{
    const struct mst_xla_task *task = mst_xla_task_at(front, who->index);

    return who->role == MST_ROLE_RANK && is_in_job(front, who->index) &&
           (!task || task->stage == MST_XLA_ABSENT);
}

static uint64_t incarnation_of(struct mst_xla *front, uint32_t index)
{
    struct mst_xla_peer *peer = peer_at(front, index);

    return peer ? peer->incarnation : 0;
}

/* Losses of the generation are faults of it as well, and reach those that poll as such. */
static void take_member(struct mst_xla *front, const struct mst_item *item)
{
    const struct mst_who *who = &item->who;
    uint64_t incarnation = incarnation_of(front, who->index);
    struct mst_xla_error error;

    if (who->state == MST_STATE_LOST) {
        error = error_of(who, item->value);
        mst_xla_members_set(front, who->index, MST_XLA_ERROR, incarnation, &error);
    } else if (who->state == MST_LEFT) {
        mst_xla_members_set(front, who->index, MST_XLA_DISCONNECTED, incarnation, NULL);
    } else if (who->state == MST_PRESENT && incarnation != 0) {
        mst_xla_members_set(front, who->index, MST_XLA_CONNECTED, incarnation, NULL);
    }
}

/* A task on another node has connected, or beats for the first time: "INCARNATION NANOSECONDS". */
static void take_key(struct mst_xla *front, const struct mst_item *item)
{
    struct mst_slice digits = mst_slice_from(item->name, sizeof published - 1), rest = item->value;
    struct mst_slice first = mst_slice_cut(&rest, ' ');
    uint64_t index, incarnation, every_ns;

    if (mst_slice_number(digits, UINT32_MAX, &index) &&
        mst_slice_number(first, UINT64_MAX, &incarnation) &&
        mst_slice_number(rest, UINT64_MAX, &every_ns) && is_in_job(front, index) &&
        !mst_xla_task_at(front, (uint32_t)index)) {
        front->beat_every_ns = mst_later(front->beat_every_ns, every_ns);
        mst_xla_members_set(front, (uint32_t)index, MST_XLA_CONNECTED, incarnation, NULL);
    }
}

static void take_item(struct mst_xla *front, const struct mst_item *item)
{
    struct mst_xla_error error;

    if (item->kind == MST_ITEM_KEY) {
        take_key(front, item);
    } else if (item->kind == MST_ITEM_MEMBER && is_other(front, &item->who)) {
        take_member(front, item);
    } else if (item->kind == MST_ITEM_FAULT && is_other(front, &item->who) &&
               item->who.cause != MST_CAUSE_LEFT) {
        error = error_of(&item->who, item->value);
        mst_xla_members_set(front, item->who.index, MST_XLA_ERROR,
                            incarnation_of(front, item->who.index), &error);
        mst_xla_propagate(front, &error);
    }
}

static void watched(struct mst_xla *front, struct mst_xla_op *op, const struct mst_reply *reply);

static void post_watch(struct mst_xla *front)
{
    struct mst_xla_op *op = mst_xla_op_new(front->watcher, MST_WATCH, 0, watched);

    if (!op) {
        mst_follow_refused(&front->follow, front->now_ns);
        return;
    }
    op->request = front->follow.request;
    op->stays = true;
    front->follow.again_ns = NEVER;
    front->watch = op;
    mst_xla_op_post(op);
}

static void watched(struct mst_xla *front, struct mst_xla_op *op, const struct mst_reply *reply)
{
    (void)op;
    if (reply->status != MUSTER_OK) {
        mst_follow_refused(&front->follow, front->now_ns);
        return;
    }
    for (uint32_t i = 0; i < reply->item_count; i++) {
        take_item(front, &reply->items[i]);
    }
    if (front->watcher == op->task) { /* nothing above has ended it */
        mst_follow_took(&front->follow, reply);
        post_watch(front);
    }
}

void mst_xla_members_begin(struct mst_xla_task *task)
{
    struct mst_xla *front = task->front;

    if (front->watcher && front->watcher->generation == task->generation) {
        return;
    }
    if (front->watch) {
        mst_xla_op_drop(front->watch);
    }
    front->watcher = task;
    mst_follow_begin(&front->follow, MST_WATCH_KEYS | MST_WATCH_MEMBERS | MST_WATCH_FAULTS,
                     mst_slice_text(published), MST_NODE_NONE);
    front->follow.request.watch.generation = task->generation;
    post_watch(front);
}

void mst_xla_members_stop(struct mst_xla_task *task)
{
    struct mst_xla *front = task->front;

    if (front->watcher != task) {
        return;
    }
    if (front->watch) {
        mst_xla_op_drop(front->watch);
    }
    front->watcher = NULL;
    MST_TREE_EACH(other, &front->tasks, struct mst_xla_task, by_index) {
        if (other != task && other->stage == MST_XLA_HERE && !front->watcher) {
            mst_xla_members_begin(other);
        }
    }
}

void mst_xla_members_tick(struct mst_xla *front)
{
    if (front->watcher && !front->watch && front->now_ns >= front->follow.again_ns) {
        post_watch(front);
    }
}
