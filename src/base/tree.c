/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tree.h"

#include "base/panic.h"

static int height(const struct mst_tree_node *node)
{
    return node ? node->height : 0;
}

static void measure(struct mst_tree_node *node)
{
    int before = height(node->child[0]);
    int after = height(node->child[1]);

    node->height = 1 + (before > after ? before : after);
}

/* Hangs `child` where `old` hung under `parent`. */
static void replace(struct mst_tree *tree, struct mst_tree_node *parent,
                    const struct mst_tree_node *old, struct mst_tree_node *child)
{
    if (parent) {
        parent->child[parent->child[1] == old] = child;
    } else {
        tree->root = child;
    }
    if (child) {
        child->parent = parent;
    }
}

/* The child on that side takes the place of its parent, which becomes its child. */
static struct mst_tree_node *lift(struct mst_tree *tree, struct mst_tree_node *node, int side)
{
    struct mst_tree_node *up = node->child[side];

    replace(tree, node->parent, node, up);
    node->child[side] = up->child[!side];
    if (node->child[side]) {
        node->child[side]->parent = node;
    }
    up->child[!side] = node;
    node->parent = up;
    measure(node);
    measure(up);
    return up;
}

/* From the lowest node with a changed subtree, as far as heights change. */
static void rebalance(struct mst_tree *tree, struct mst_tree_node *node)
{
    while (node) {
        int lean = height(node->child[1]) - height(node->child[0]);
        int side = lean > 0;
        int before = node->height;

        if (lean > 1 || lean < -1) {
            struct mst_tree_node *high = node->child[side];

            if (height(high->child[side]) < height(high->child[!side])) {
                lift(tree, high, !side);
            }
            node = lift(tree, node, side);
        } else {
            measure(node);
        }
        if (node->height == before) {
            return;
        }
        node = node->parent;
    }
}

/* The outermost node on that side of the subtree. */
static struct mst_tree_node *outermost(struct mst_tree_node *node, int side)
{
    while (node && node->child[side]) {
        node = node->child[side];
    }
    return node;
}

static void hang(struct mst_tree *tree, struct mst_tree_node *parent, int side,
                 struct mst_tree_node *node)
{
    *node = (struct mst_tree_node){.parent = parent, .height = 1};
    if (parent) {
        parent->child[side] = node;
    } else {
        tree->root = node;
    }
    tree->count++;
    rebalance(tree, parent);
}

void mst_tree_init(struct mst_tree *tree, mst_tree_order *order)
{
    tree->root = NULL;
    tree->order = order;
    tree->count = 0;
}

bool mst_tree_linked(const struct mst_tree_node *node)
{
    return node->height != 0;
}

bool mst_tree_insert(struct mst_tree *tree, const void *key, struct mst_tree_node *node)
{
    struct mst_tree_node *parent = NULL, *next = tree->root;
    int side = 0;

    MST_ASSERT(!mst_tree_linked(node));
    while (next) {
        int order = tree->order(key, next);

        if (order == 0) {
            return false;
        }
        parent = next;
        side = order > 0;
        next = next->child[side];
    }
    hang(tree, parent, side, node);
    return true;
}

bool mst_tree_append(struct mst_tree *tree, const void *key, struct mst_tree_node *node)
{
    struct mst_tree_node *last = outermost(tree->root, 1);

    MST_ASSERT(!mst_tree_linked(node));
    if (last && tree->order(key, last) <= 0) {
        return false;
    }
    hang(tree, last, 1, node);
    return true;
}

void mst_tree_remove(struct mst_tree *tree, struct mst_tree_node *node)
{
    struct mst_tree_node *from; /* the lowest node with a changed subtree */

    if (!mst_tree_linked(node)) {
        return;
    }
    if (node->child[0] && node->child[1]) {
        struct mst_tree_node *heir = outermost(node->child[1], 0);

        from = heir->parent == node ? heir : heir->parent;
        if (heir->parent != node) {
            replace(tree, heir->parent, heir, heir->child[1]);
            heir->child[1] = node->child[1];
            heir->child[1]->parent = heir;
        }
        heir->child[0] = node->child[0];
        heir->child[0]->parent = heir;
        heir->height = node->height; /* what its subtree had there */
        replace(tree, node->parent, node, heir);
    } else {
        from = node->parent;
        replace(tree, node->parent, node, node->child[node->child[0] == NULL]);
    }
    *node = (struct mst_tree_node){0};
    tree->count--;
    rebalance(tree, from);
}

struct mst_tree_node *mst_tree_at_or_after(const struct mst_tree *tree, const void *key)
{
    struct mst_tree_node *node = tree->root, *best = NULL;

    while (node) {
        bool before = tree->order(key, node) > 0; /* the node is */

        best = before ? best : node;
        node = node->child[before];
    }
    return best;
}

struct mst_tree_node *mst_tree_find(const struct mst_tree *tree, const void *key)
{
    struct mst_tree_node *node = tree->root;

    while (node) {
        int order = tree->order(key, node);

        if (order == 0) {
            return node;
        }
        node = node->child[order > 0];
    }
    return NULL;
}

struct mst_tree_node *mst_tree_first(const struct mst_tree *tree)
{
    return outermost(tree->root, 0);
}

struct mst_tree_node *mst_tree_next(const struct mst_tree_node *node)
{
    if (node->child[1]) {
        return outermost(node->child[1], 0);
    }
    while (node->parent && node->parent->child[1] == node) {
        node = node->parent;
    }
    return node->parent;
}
