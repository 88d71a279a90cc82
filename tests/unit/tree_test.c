/* SPDX-License-Identifier: Apache-2.0 */
/* The tree against the plainest thing that does the same: a sorted array.
 *
 * behaviour: library / What it is built of */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/panic.h"
#include "base/prng.h"
#include "base/tree.h"

enum { NODES = 300, STEPS = 6000 };

struct thing {
    struct mst_tree_node node;
    uint32_t key;
};

static const struct thing *thing_of(const struct mst_tree_node *node)
{
    return (const struct thing *)(const void *)node; /* its first member */
}

static int by_key(const void *key, const struct mst_tree_node *node)
{
    uint32_t wanted = *(const uint32_t *)key;

    return (wanted > thing_of(node)->key) - (wanted < thing_of(node)->key);
}

struct model {
    uint32_t keys[NODES];
    size_t count;
};

/* Where `key` is or belongs. */
static size_t place(const struct model *model, uint32_t key)
{
    size_t at = 0;

    while (at < model->count && model->keys[at] < key) {
        at++;
    }
    return at;
}

static bool model_has(const struct model *model, uint32_t key)
{
    size_t at = place(model, key);

    return at < model->count && model->keys[at] == key;
}

static bool model_insert(struct model *model, uint32_t key)
{
    size_t at = place(model, key);

    if (model_has(model, key)) {
        return false;
    }
    memmove(&model->keys[at + 1], &model->keys[at], (model->count - at) * sizeof(model->keys[0]));
    model->keys[at] = key;
    model->count++;
    return true;
}

static void model_remove(struct model *model, uint32_t key)
{
    size_t at = place(model, key);

    model->count--;
    memmove(&model->keys[at], &model->keys[at + 1], (model->count - at) * sizeof(model->keys[0]));
}

static int height_of(const struct mst_tree_node *node)
{
    return node ? node->height : 0;
}

static void assert_balanced(const struct mst_tree_node *node)
{
    int left = height_of(node->child[0]);
    int right = height_of(node->child[1]);

    assert_in_range(left - right + 1, 0, 2);
    assert_int_equal(node->height, 1 + (left > right ? left : right));
    assert_true(!node->child[0] || node->child[0]->parent == node);
    assert_true(!node->child[1] || node->child[1]->parent == node);
}

static void assert_same(const struct mst_tree *tree, const struct model *model)
{
    struct mst_tree_node *node = mst_tree_first(tree);

    assert_int_equal(tree->count, model->count);
    for (size_t i = 0; i < model->count; i++) {
        assert_non_null(node);
        assert_int_equal(thing_of(node)->key, model->keys[i]);
        assert_balanced(node);
        node = mst_tree_next(node);
    }
    assert_null(node);
}

static void assert_lookups(const struct mst_tree *tree, const struct model *model, uint32_t key)
{
    size_t at = place(model, key);
    struct mst_tree_node *found = mst_tree_find(tree, &key);
    struct mst_tree_node *after = mst_tree_at_or_after(tree, &key);

    assert_int_equal(found != NULL, model_has(model, key));
    assert_int_equal(after != NULL, at < model->count);
    if (after) {
        assert_int_equal(thing_of(after)->key, model->keys[at]);
    }
    if (found) {
        assert_ptr_equal(found, after);
    }
}

static void step(struct mst_tree *tree, struct model *model, struct thing *thing, uint32_t key)
{
    if (mst_tree_linked(&thing->node)) {
        model_remove(model, thing->key);
        mst_tree_remove(tree, &thing->node);
        assert_false(mst_tree_linked(&thing->node));
        mst_tree_remove(tree, &thing->node); /* once more is no harm */
        return;
    }
    thing->key = key;
    assert_int_equal(mst_tree_insert(tree, &key, &thing->node), model_insert(model, key));
    assert_int_equal(mst_tree_linked(&thing->node), mst_tree_find(tree, &key) == &thing->node);
}

static void random_operations(uint64_t seed, uint32_t keys)
{
    static struct thing things[NODES];
    static struct model model;
    struct mst_prng prng = {.state = seed};
    struct mst_tree tree;

    memset(things, 0, sizeof(things));
    memset(&model, 0, sizeof(model));
    mst_tree_init(&tree, by_key);
    for (unsigned i = 0; i < STEPS; i++) {
        uint32_t key = (uint32_t)mst_prng_below(&prng, keys);

        step(&tree, &model, &things[mst_prng_below(&prng, NODES)], key);
        assert_lookups(&tree, &model, (uint32_t)mst_prng_below(&prng, keys + 2));
        if (i % 16 == 0) {
            assert_same(&tree, &model);
        }
    }
    for (unsigned i = 0; i < NODES; i++) {
        mst_tree_remove(&tree, &things[i].node);
    }
    assert_null(tree.root);
    assert_int_equal(tree.count, 0);
}

/* A tree is changed and walked at random. It behaves as a sorted array does. */
static void as_a_sorted_array(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        random_operations(seed, 20);   /* many duplicates, often empty */
        random_operations(seed, 2000); /* large */
    }
}

/* A tree gets ascending and descending input, the worst without balance. It stays balanced. */
static void ascending_and_descending(void **state)
{
    static struct thing things[NODES];

    (void)state;
    for (unsigned down = 0; down < 2; down++) {
        struct mst_tree tree;

        memset(things, 0, sizeof(things));
        mst_tree_init(&tree, by_key);
        for (uint32_t i = 0; i < NODES; i++) {
            things[i].key = down ? NODES - i : i;
            assert_true(down ? mst_tree_insert(&tree, &things[i].key, &things[i].node)
                             : mst_tree_append(&tree, &things[i].key, &things[i].node));
        }
        if (!down) {
            struct thing again = {.key = NODES - 1};

            assert_false(mst_tree_append(&tree, &again.key, &again.node));
            again.key = 0;
            assert_false(mst_tree_append(&tree, &again.key, &again.node));
        }
        assert_in_range(tree.root->height, 9, 11); /* log2 of 300, and a little */
        for (uint32_t i = 0; i < NODES; i += 2) {
            mst_tree_remove(&tree, &things[i].node);
        }
        for (struct mst_tree_node *node = mst_tree_first(&tree); node; node = mst_tree_next(node)) {
            assert_balanced(node);
        }
        assert_int_equal(tree.count, NODES / 2);
    }
}

static void nothing_in_it(void **state)
{
    struct mst_tree tree;
    uint32_t key = 1;

    (void)state;
    mst_tree_init(&tree, by_key);
    assert_null(mst_tree_first(&tree));
    assert_null(mst_tree_find(&tree, &key));
    assert_null(mst_tree_at_or_after(&tree, &key));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_a_sorted_array),
        cmocka_unit_test(ascending_and_descending),
        cmocka_unit_test(nothing_in_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
