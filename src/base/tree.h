/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_BASE_TREE_H
#define MST_BASE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/panic.h"

/* An intrusive ordered set (AVL). Insertion, removal and search cost no allocation and O(log n);
 * walking is in order, so nothing that reaches an effect depends on a hash or an address.
 * Timers, keys by name and changes by revision are all this one structure. */
struct mst_tree_node {
    struct mst_tree_node *child[2], *parent; /* the nodes before it, and after it */
    int height;                              /* 0: not in a tree */
};

/* <0, 0, >0 as `key` is before, at or after `node`. The caller decides what a key points at. */
typedef int mst_tree_order(const void *key, const struct mst_tree_node *node);

/* Such an order of two numbers. */
static inline int mst_tree_compare(uint64_t key, uint64_t at)
{
    return (key > at) - (key < at);
}

struct mst_tree {
    struct mst_tree_node *root;
    mst_tree_order *order;
    size_t count;
};

void mst_tree_init(struct mst_tree *tree, mst_tree_order *order);
bool mst_tree_linked(const struct mst_tree_node *node);

/* Puts `node`, whose key is `key`, into the tree. False, and nothing done, if the key is there. */
bool mst_tree_insert(struct mst_tree *tree, const void *key, struct mst_tree_node *node);

/* Likewise where the key is after all others, without a search. False, and nothing done, if it is
 * not. */
bool mst_tree_append(struct mst_tree *tree, const void *key, struct mst_tree_node *node);

/* A node that is in no tree: a no-op. */
void mst_tree_remove(struct mst_tree *tree, struct mst_tree_node *node);

struct mst_tree_node *mst_tree_find(const struct mst_tree *tree, const void *key);

/* The first node whose key is not before `key`; NULL: none. */
struct mst_tree_node *mst_tree_at_or_after(const struct mst_tree *tree, const void *key);
struct mst_tree_node *mst_tree_first(const struct mst_tree *tree);
struct mst_tree_node *mst_tree_next(const struct mst_tree_node *node);

/* NOLINTBEGIN(bugprone-macro-parentheses): a declared name cannot be in parentheses. */
/* Walk over the objects that the nodes are the `member` of; none may be removed. */
#define MST_TREE_EACH(item, tree, type, member)                                                    \
    for (type *item = MST_CONTAINER_OR_NULL(mst_tree_first(tree), type, member); item;             \
         item = MST_CONTAINER_OR_NULL(mst_tree_next(&item->member), type, member))
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
