/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/index.h"

#include "base/panic.h"
#include "service/core/part.h"

static int order(const void *key, const struct mst_tree_node *node)
{
    const struct mst_index_node *a = key;
    const struct mst_index_node *b = MST_CONTAINER_CONST(node, struct mst_index_node, node);

    int high = mst_tree_compare(a->high, b->high);

    return high != 0 ? high : mst_tree_compare(a->low, b->low);
}

void mst_index_init(struct mst_tree *index)
{
    mst_tree_init(index, order);
}

bool mst_index_try(struct mst_tree *index, struct mst_index_node *entry, uint64_t high,
                   uint64_t low)
{
    entry->high = high;
    entry->low = low;
    return mst_tree_insert(index, entry, &entry->node);
}

void mst_index_put(struct mst_tree *index, struct mst_index_node *entry, uint64_t high,
                   uint64_t low)
{
    bool fresh = mst_index_try(index, entry, high, low);

    MST_ASSERT(fresh);
}

void mst_index_remove(struct mst_tree *index, struct mst_index_node *entry)
{
    mst_tree_remove(index, &entry->node);
}

bool mst_index_linked(const struct mst_index_node *entry)
{
    return mst_tree_linked(&entry->node);
}

struct mst_index_node *mst_index_find(const struct mst_tree *index, uint64_t high, uint64_t low)
{
    const struct mst_index_node key = {.high = high, .low = low};

    return MST_CONTAINER_OR_NULL(mst_tree_find(index, &key), struct mst_index_node, node);
}

struct mst_index_node *mst_index_from(const struct mst_tree *index, uint64_t high, uint64_t low)
{
    const struct mst_index_node key = {.high = high, .low = low};

    return MST_CONTAINER_OR_NULL(mst_tree_at_or_after(index, &key), struct mst_index_node, node);
}

struct mst_index_node *mst_index_first(const struct mst_tree *index)
{
    return MST_CONTAINER_OR_NULL(mst_tree_first(index), struct mst_index_node, node);
}

struct mst_index_node *mst_index_next(const struct mst_index_node *entry)
{
    return MST_CONTAINER_OR_NULL(mst_tree_next(&entry->node), struct mst_index_node, node);
}
