/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/past.h"

#include <string.h>

#include "service/core/state.h"

static struct mst_slice name_of(const struct mst_past *past)
{
    return mst_slice_of(past->name, past->name_size);
}

static int order(const void *key, const struct mst_tree_node *node)
{
    const struct mst_slice *name = key;

    return mst_slice_compare(*name, name_of(MST_OF(node, struct mst_past, node)));
}

void mst_past_tree_init(struct mst_tree *tree)
{
    mst_tree_init(tree, order);
}

static void unlink_past(struct mst_core *core, struct mst_past *past)
{
    mst_tree_remove(&core->pasts, &past->node);
    mst_list_remove(&past->in_list);
}

struct mst_past *mst_past_make(struct mst_core *core, struct mst_slice name)
{
    struct mst_tree_node *node = mst_tree_find(&core->pasts, &name);
    struct mst_past *past;

    if (node) {
        return MST_CONTAINER(node, struct mst_past, node);
    }
    past = mst_mem_zalloc(&core->mem, sizeof(*past) + name.size);
    if (past) {
        past->name_size = (uint32_t)name.size;
        memcpy(past->name, name.data, name.size);
    }
    return past;
}

void mst_past_unmake(struct mst_core *core, struct mst_past *past)
{
    if (!mst_list_linked(&past->in_list)) {
        mst_mem_release(&core->mem, past);
    }
}

void mst_past_begin(struct mst_core *core, struct mst_past *past)
{
    if (mst_list_linked(&past->in_list)) {
        unlink_past(core, past);
    }
}

static void forget(struct mst_core *core, struct mst_past *past)
{
    unlink_past(core, past);
    mst_mem_release(&core->mem, past);
}

void mst_past_end(struct mst_core *core, struct mst_past *past)
{
    struct mst_slice name = name_of(past);
    bool fresh;

    if (past->generation == 0 && past->incarnation == 0) {
        mst_mem_release(&core->mem, past);
        return;
    }
    fresh = mst_tree_insert(&core->pasts, &name, &past->node);
    MST_ASSERT(fresh);
    mst_list_append(&core->past_list, &past->in_list);
    mst_past_trim(core);
}

void mst_past_trim(struct mst_core *core)
{
    while (core->pasts.count > core->config.limits.jobs_max) {
        forget(core, MST_CONTAINER(core->past_list.next, struct mst_past, in_list));
    }
}

void mst_past_free_all(struct mst_core *core)
{
    while (!mst_list_empty(&core->past_list)) {
        forget(core, MST_CONTAINER(core->past_list.next, struct mst_past, in_list));
    }
}
