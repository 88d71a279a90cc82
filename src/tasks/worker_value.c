/* SPDX-License-Identifier: Apache-2.0 */
/* Per-worker values: from their BUILD to their DROP. */
#include "base/panic.h"
#include "proto/copy.h"
#include "tasks/worker_machine.h"

int mst_worker_value_order(const void *key, const struct mst_tree_node *node)
{
    return mst_tree_compare(*(const uint64_t *)key,
                            MST_CONTAINER_CONST(node, struct mst_worker_value, node)->build.value);
}

struct mst_worker_value *mst_worker_value_find(const struct mst_worker *worker, uint64_t number)
{
    return MST_CONTAINER_OR_NULL(mst_tree_find(&worker->values, &number), struct mst_worker_value,
                                 node);
}

static void value_answer(struct mst_worker *worker, struct mst_worker_value *value)
{
    mst_list_remove(&value->out.link);
    if (worker->link == MST_LINK_WELCOMED) {
        mst_worker_post(worker, &value->out, &value->built);
    }
}

void mst_worker_value_tell(struct mst_worker *worker, struct mst_worker_value *value)
{
    if (!value->dropped && value->state == MST_VALUE_READY) {
        value_answer(worker, value);
    }
}

/* Once more from its BUILD. */
void mst_worker_value_again(struct mst_worker *worker, struct mst_worker_value *value)
{
    if (value->build.function >= worker->config.function_count) {
        value_answer(worker, value); /* as before */
        return;
    }
    mst_list_remove(&value->out.link);
    value->state = MST_VALUE_WAITING;
    mst_list_append(&worker->builds, &value->link);
}

void mst_worker_value_free(struct mst_worker *worker, struct mst_worker_value *value)
{
    mst_tree_remove(&worker->values, &value->node);
    mst_list_remove(&value->link);
    mst_list_remove(&value->out.link);
    mst_mem_release(&worker->mem, value->content);
    mst_mem_release(&worker->mem, value);
}

/* The shell gets DROP once no run uses it. A value that it never saw, or that failed, is just
 * forgotten. */
void mst_worker_value_settle(struct mst_worker *worker, struct mst_worker_value *value)
{
    if (!value->dropped || value->users > 0 || value->state == MST_VALUE_BUILDING) {
        return;
    }
    if (!value->shown) {
        mst_worker_value_free(worker, value);
    } else if (!mst_list_linked(&value->link)) {
        value->drop =
            (struct mst_cluster_message){.type = MST_CLUSTER_DROP, .value = value->build.value};
        mst_list_append(&worker->drops, &value->link);
    }
}

/* Its BUILD was not given out yet: then it is not built. */
static void value_recall(struct mst_worker *worker, struct mst_worker_value *value)
{
    for (uint32_t i = 0; i < worker->config.slots; i++) {
        struct mst_worker_slot *slot = &worker->slots[i];

        if (slot->value == value && mst_list_linked(&slot->start)) {
            mst_worker_slot_clear(worker, slot);
            mst_worker_value_again(worker, value);
            return;
        }
    }
}

void mst_worker_value_drop(struct mst_worker *worker, struct mst_worker_value *value)
{
    if (value->dropped) {
        return;
    }
    value->dropped = true;
    value_recall(worker, value);
    mst_list_remove(&value->out.link);
    if (value->state == MST_VALUE_WAITING) {
        mst_list_remove(&value->link);
    }
    mst_worker_value_settle(worker, value);
}

static void value_made(struct mst_worker *worker, struct mst_worker_value *value,
                       const struct mst_failure *failure, struct mst_parts parts)
{
    struct mst_cluster_message built = {
        .type = MST_CLUSTER_BUILT, .value = value->build.value, .parts = parts};

    (void)mst_worker_answer(worker, &value->built, &built, failure, &value->content);
    value->state = built.failure.origin == MST_ORIGIN_NONE ? MST_VALUE_READY : MST_VALUE_FAILED;
    value_answer(worker, value);
}

bool mst_worker_value_take(struct mst_worker *worker, const struct mst_cluster_message *message)
{
    size_t size = sizeof(struct mst_worker_value) + mst_copy_size(&mst_cluster_fields, message);
    struct mst_worker_value *value = worker->mem.alloc(worker->mem.ctx, size);
    struct mst_failure unknown = {.origin = MST_ORIGIN_UNKNOWN,
                                  .text = mst_slice_text("this worker has no such function")};

    if (!value) {
        return false;
    }
    *value = (struct mst_worker_value){.state = MST_VALUE_WAITING};
    mst_copy(&mst_cluster_fields, &value->build, message, value + 1);
    MST_ASSERT(mst_tree_insert(&worker->values, &value->build.value, &value->node));
    if (message->function < worker->config.function_count) {
        mst_list_append(&worker->builds, &value->link);
    } else {
        value_made(worker, value, &unknown, (struct mst_parts){0});
    }
    return true;
}

void mst_worker_built(struct mst_worker *worker, uint64_t now_ns, uint64_t number,
                      const struct mst_failure *failure, struct mst_parts parts)
{
    struct mst_worker_value *value = mst_worker_value_find(worker, number);
    struct mst_failure room;

    MST_ASSERT(value && value->state == MST_VALUE_BUILDING);
    worker->now_ns = now_ns;
    for (uint32_t i = 0; i < worker->config.slots; i++) {
        if (worker->slots[i].value == value) {
            mst_worker_slot_clear(worker, &worker->slots[i]);
        }
    }
    failure = mst_worker_judge(worker, failure, MST_ORIGIN_NONE, &parts, &room);
    value_made(worker, value, failure, parts);
    mst_worker_value_settle(worker, value);
    mst_worker_advance(worker);
}

void mst_worker_value_lost(struct mst_worker *worker, uint64_t now_ns, uint64_t number)
{
    struct mst_worker_value *value = mst_worker_value_find(worker, number);

    worker->now_ns = now_ns;
    if (value && !value->dropped && value->state == MST_VALUE_READY) {
        mst_worker_value_again(worker, value);
    }
    mst_worker_advance(worker);
}
