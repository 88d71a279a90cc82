/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tree.h"

#include "base/panic.h"

static int height(const struct mst_tree_node *node)
{
    return node ? node->height : 0;
}

static void measure(struct mst_tree_node *node)
{
    int left = height(node->left);
    int right = height(node->right);

    node->height = 1 + (left > right ? left : right);
}

/* Hangs `child` where `old` hung under `parent`. */
static void replace(struct mst_tree *tree, struct mst_tree_node *parent, struct mst_tree_node *old,
                    struct mst_tree_node *child)
{
    if (!parent) {
        tree->root = child;
    } else if (parent->left == old) {
        parent->left = child;
    } else {
        parent->right = child;
    }
    if (child) {
        child->parent = parent;
    }
}

static struct mst_tree_node *rotate_left(struct mst_tree *tree, struct mst_tree_node *node)
{
    struct mst_tree_node *up = node->right;

    replace(tree, node->parent, node, up);
    node->right = up->left;
    if (node->right) {
        node->right->parent = node;
    }
    up->left = node;
    node->parent = up;
    measure(node);
    measure(up);
    return up;
}

static struct mst_tree_node *rotate_right(struct mst_tree *tree, struct mst_tree_node *node)
{
    struct mst_tree_node *up = node->left;

    replace(tree, node->parent, node, up);
    node->left = up->right;
    if (node->left) {
        node->left->parent = node;
    }
    up->right = node;
    node->parent = up;
    measure(node);
    measure(up);
    return up;
}

/* From the lowest node whose subtree changed, as far as heights change. */
static void rebalance(struct mst_tree *tree, struct mst_tree_node *node)
{
    while (node) {
        int lean = height(node->left) - height(node->right);
        int before = node->height;

        if (lean > 1) {
            if (height(node->left->left) < height(node->left->right)) {
                rotate_left(tree, node->left);
            }
            node = rotate_right(tree, node);
        } else if (lean < -1) {
            if (height(node->right->right) < height(node->right->left)) {
                rotate_right(tree, node->right);
            }
            node = rotate_left(tree, node);
        } else {
            measure(node);
        }
        if (node->height == before) {
            return;
        }
        node = node->parent;
    }
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
    struct mst_tree_node *parent = NULL;
    struct mst_tree_node **link = &tree->root;

    MST_ASSERT(!mst_tree_linked(node));
    while (*link) {
        int order = tree->order(key, *link);

        if (order == 0) {
            return false;
        }
        parent = *link;
        link = order < 0 ? &parent->left : &parent->right;
    }
    *node = (struct mst_tree_node){.parent = parent, .height = 1};
    *link = node;
    tree->count++;
    rebalance(tree, parent);
    return true;
}

bool mst_tree_append(struct mst_tree *tree, const void *key, struct mst_tree_node *node)
{
    struct mst_tree_node *last = tree->root;

    MST_ASSERT(!mst_tree_linked(node));
    while (last && last->right) {
        last = last->right;
    }
    if (last && tree->order(key, last) <= 0) {
        return false;
    }
    *node = (struct mst_tree_node){.parent = last, .height = 1};
    if (last) {
        last->right = node;
    } else {
        tree->root = node;
    }
    tree->count++;
    rebalance(tree, last);
    return true;
}

void mst_tree_remove(struct mst_tree *tree, struct mst_tree_node *node)
{
    struct mst_tree_node *from; /* the lowest node whose subtree changed */

    if (!mst_tree_linked(node)) {
        return;
    }
    if (node->left && node->right) {
        struct mst_tree_node *heir = node->right;

        while (heir->left) {
            heir = heir->left;
        }
        from = heir->parent == node ? heir : heir->parent;
        if (heir->parent != node) {
            replace(tree, heir->parent, heir, heir->right);
            heir->right = node->right;
            heir->right->parent = heir;
        }
        heir->left = node->left;
        heir->left->parent = heir;
        heir->height = node->height; /* what its subtree had there */
        replace(tree, node->parent, node, heir);
    } else {
        from = node->parent;
        replace(tree, node->parent, node, node->left ? node->left : node->right);
    }
    *node = (struct mst_tree_node){0};
    tree->count--;
    rebalance(tree, from);
}

struct mst_tree_node *mst_tree_at_or_after(const struct mst_tree *tree, const void *key)
{
    struct mst_tree_node *node = tree->root;
    struct mst_tree_node *best = NULL;

    while (node) {
        if (tree->order(key, node) <= 0) {
            best = node;
            node = node->left;
        } else {
            node = node->right;
        }
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
        node = order < 0 ? node->left : node->right;
    }
    return NULL;
}

struct mst_tree_node *mst_tree_first(const struct mst_tree *tree)
{
    struct mst_tree_node *node = tree->root;

    while (node && node->left) {
        node = node->left;
    }
    return node;
}

struct mst_tree_node *mst_tree_next(const struct mst_tree_node *node)
{
    if (node->right) {
        struct mst_tree_node *next = node->right;

        while (next->left) {
            next = next->left;
        }
        return next;
    }
    while (node->parent && node->parent->right == node) {
        node = node->parent;
    }
    return node->parent;
}
