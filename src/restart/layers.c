/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of an assignment.
 *
 * It is built anew each time, out of the keys; what was before is in the ranks of the last attempt.
 * Of a layer's groups, and of a group's ranks, the one that is seen first by index comes first:
 * that is the order of the leaves. Then:
 *
 *   propagate   a group with fewer than `min` alive is left out, the lowest layer first
 *   reserve     a number that was lost goes to a spare: the last one of the lowest group above the
 *               lost leaf that has any, as long as the layers up to there carry RESERVE
 *   backfill    of the numbers of a domain the lowest are kept; a leaf above them moves into
 *               the gaps between. A domain is a group of the topmost layer that carries BACKFILL
 *               with all layers below it
 *   shift       the numbers close up
 *   fill        a leaf without one comes after them, in the order of the leaves, where no group
 * above it runs `max`. The first attempt is only this
 *
 * A number whose last leaf is unknown is lost by a leaf of no group: it is answered where all
 * layers carry the flag. Spares that stand in may bring a group above its `max`, which is better
 * than an idle place; a rank that runs is never stopped for the return of another. */
#include "restart/layers.h"

#include <string.h>

#include "base/list.h"
#include "base/panic.h"
#include "base/tree.h"
#include "restart/assignment.h"

#define NONE UINT32_MAX

struct group {
    struct mst_tree_node node;
    struct mst_list in_all; /* parents before their children */
    struct group *parent;
    uint32_t serial; /* from 1 */
    uint32_t layer;
    uint32_t leaves;
    uint32_t begin, spares_end; /* its leaves in their order; none is a spare from spares_end on */
    uint32_t alive;             /* leaves, without those of groups that are left out */
    uint32_t running;
    bool left_out;

    /* As a domain of backfill: */
    uint32_t held;               /* numbers that a leaf has */
    uint32_t passed;             /* numbers seen so far */
    uint32_t gap_first, gap_end; /* open gaps, ascending; NONE: no gap */

    size_t size;
    char key[];
};

struct leaf {
    struct muster_place *place;
    struct group *group; /* of the lowest layer */
    bool runs;           /* it has a number */
};

struct forest {
    const struct muster_assignment_layer *layers;
    uint32_t layer_count;
    const struct mst_mem *mem;
    struct mst_text *why;

    struct mst_tree names;
    struct mst_list all;
    struct group *root;
    uint32_t group_count;
    uint32_t domain; /* its layer; layer_count: there are none */
    bool all_reserve;

    struct leaf *seen; /* by index */
    struct leaf *leaf; /* in their order */
    uint32_t leaf_count;

    /* By number, of the last attempt and below `bound`; leaves plus 1, 0: none. */
    uint32_t *holder;
    uint32_t *owner;    /* the leaf that had it, when it is lost */
    uint32_t *next_gap; /* in its domain */
    uint32_t bound;
};

/* ---- the rules ---- */

static muster_status refuse(struct mst_text *why, uint32_t layer, const char *words)
{
    mst_text_format(why, "layer %u: %s", layer + 1, words);
    return MUSTER_EINVAL;
}

muster_status mst_layers_check(const struct muster_assignment_layer *layers, size_t count,
                               struct mst_text *why)
{
    if (!layers || count == 0) {
        mst_text_add(why, "it has no layers");
        return MUSTER_EINVAL;
    }
    if (count > MST_ASSIGNMENT_LAYERS_MAX) {
        mst_text_format(why, "%zu layers, more than %d", count, MST_ASSIGNMENT_LAYERS_MAX);
        return MUSTER_EINVAL;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (layers[i].flags & ~(unsigned)(MUSTER_LAYER_RESERVE | MUSTER_LAYER_BACKFILL)) {
            return refuse(why, i, "there is no such flag");
        }
        if (layers[i].max != 0 && layers[i].max < layers[i].min) {
            return refuse(why, i, "`max` is less than `min`");
        }
    }
    return MUSTER_OK;
}

/* ---- building ---- */

struct name {
    uint32_t parent;
    struct mst_slice key;
};

static int by_name(const void *key, const struct mst_tree_node *node)
{
    const struct group *group = (const struct group *)(const void *)node; /* its first member */
    const struct name *name = key;
    const uint32_t parent = group->parent ? group->parent->serial : 0;

    if (name->parent != parent) {
        return name->parent < parent ? -1 : 1;
    }
    return mst_slice_compare(name->key, (struct mst_slice){group->key, group->size});
}

static struct group *group_new(struct forest *forest, struct group *parent, const struct name *name)
{
    struct group *group = mst_mem_zalloc(forest->mem, sizeof(*group) + name->key.size);

    if (!group) {
        return NULL;
    }
    memcpy(group->key, name->key.data, name->key.size);
    group->size = name->key.size;
    group->parent = parent;
    group->layer = parent ? parent->layer + 1 : 0;
    group->serial = ++forest->group_count;
    group->gap_first = NONE;
    group->gap_end = NONE;
    mst_tree_insert(&forest->names, name, &group->node);
    mst_list_append(&forest->all, &group->in_all);
    forest->root = parent ? forest->root : group;
    return group;
}

static muster_status two_roots(const struct forest *forest, const struct muster_place *place,
                               struct mst_slice key)
{
    mst_text_format(
        forest->why,
        "the key of the first layer is '%.*s' for #%u and '%.*s' for #%u: all must share one root",
        (int)forest->root->size, forest->root->key, forest->seen[0].place->index,
        MST_SLICE_ARGS(key), place->index);
    return MUSTER_EINVAL;
}

/* The group of the lowest layer that a place belongs to, with all above it. */
static muster_status find_group(struct forest *forest, const struct muster_place *place,
                                struct group **out)
{
    struct group *group = NULL;

    for (uint32_t i = 0; i < forest->layer_count; i++) {
        char key[MST_ASSIGNMENT_KEY_ROOM];
        struct name name = {.parent = group ? group->serial : 0};
        struct mst_tree_node *node;

        mst_assignment_key(forest->layers[i].key, forest->layers[i].arg, place, key);
        name.key = mst_slice_text(key);
        node = mst_tree_find(&forest->names, &name);
        if (!node && i == 0 && forest->root) {
            return two_roots(forest, place, name.key);
        }
        group = node ? MST_CONTAINER(node, struct group, node) : group_new(forest, group, &name);
        if (!group) {
            return MUSTER_ENOMEM;
        }
    }
    *out = group;
    return MUSTER_OK;
}

/* Groups stand where they were first seen within their parent, and leaves within their group.
 * Parents are before their children in `all`. While it is filled, spares_end is the end of what is
 * in it. */
static void put_in_order(struct forest *forest)
{
    for (uint32_t i = 0; i < forest->leaf_count; i++) {
        forest->seen[i].group->leaves++;
    }
    for (struct mst_list *at = forest->all.prev; at != &forest->all; at = at->prev) {
        struct group *group = MST_CONTAINER(at, struct group, in_all);

        if (group->parent) {
            group->parent->leaves += group->leaves;
        }
    }
    for (struct mst_list *at = forest->all.next; at != &forest->all; at = at->next) {
        struct group *group = MST_CONTAINER(at, struct group, in_all);

        if (group->parent) {
            group->begin = group->spares_end = group->parent->spares_end;
            group->parent->spares_end += group->leaves;
        }
    }
    for (uint32_t i = 0; i < forest->leaf_count; i++) {
        forest->leaf[forest->seen[i].group->spares_end++] = forest->seen[i];
    }
}

static muster_status build(struct forest *forest, struct muster_place *places, size_t count)
{
    forest->seen = mst_mem_array(forest->mem, count, sizeof(*forest->seen));
    forest->leaf = mst_mem_array(forest->mem, count, sizeof(*forest->leaf));
    if (!forest->seen || !forest->leaf) {
        return MUSTER_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        struct leaf *leaf = &forest->seen[forest->leaf_count];

        if (places[i].alive || places[i].previous != MUSTER_NUMBER_NONE) {
            muster_status status = find_group(forest, &places[i], &leaf->group);

            if (status != MUSTER_OK) {
                return status;
            }
            leaf->place = &places[i];
            forest->leaf_count++;
        }
        if (places[i].previous != MUSTER_NUMBER_NONE && places[i].previous >= forest->bound) {
            forest->bound = places[i].previous + 1;
        }
    }
    for (size_t i = 0; i < count; i++) { /* not before all keys were asked for */
        places[i].number = MUSTER_NUMBER_NONE;
    }
    put_in_order(forest);
    return MUSTER_OK;
}

/* ---- what a fault does ---- */

static void propagate(struct forest *forest)
{
    for (uint32_t i = 0; i < forest->leaf_count; i++) {
        forest->leaf[i].group->alive += forest->leaf[i].place->alive ? 1 : 0;
    }
    for (struct mst_list *at = forest->all.prev; at != &forest->all; at = at->prev) {
        struct group *group = MST_CONTAINER(at, struct group, in_all);

        group->left_out = group->alive < forest->layers[group->layer].min;
        if (group->parent && !group->left_out) {
            group->parent->alive += group->alive;
        }
    }
    for (struct mst_list *at = forest->all.next; at != &forest->all; at = at->next) {
        struct group *group = MST_CONTAINER(at, struct group, in_all);

        group->left_out = group->left_out || (group->parent && group->parent->left_out);
    }
}

static bool takes_part(const struct leaf *leaf)
{
    return leaf->place->alive && !leaf->group->left_out;
}

/* Which leaf has which number of the last attempt, and which numbers are lost. */
static muster_status sort_by_number(struct forest *forest)
{
    forest->holder = mst_mem_array(forest->mem, (size_t)forest->bound + 1, sizeof(uint32_t));
    forest->owner = mst_mem_array(forest->mem, (size_t)forest->bound + 1, sizeof(uint32_t));
    forest->next_gap = mst_mem_array(forest->mem, (size_t)forest->bound + 1, sizeof(uint32_t));
    if (!forest->holder || !forest->owner || !forest->next_gap) {
        return MUSTER_ENOMEM;
    }
    for (uint32_t i = 0; i < forest->leaf_count; i++) {
        struct leaf *leaf = &forest->leaf[i];
        const uint32_t number = leaf->place->previous;

        if (number == MUSTER_NUMBER_NONE) {
            continue;
        }
        if (takes_part(leaf)) {
            forest->holder[number] = i + 1;
            leaf->runs = true;
        } else {
            forest->owner[number] = i + 1;
        }
    }
    return MUSTER_OK;
}

/* The last spare of a group, or NONE. What was looked at once is no spare later. */
static uint32_t take_spare(struct forest *forest, struct group *group)
{
    while (group->spares_end > group->begin) {
        struct leaf *leaf = &forest->leaf[--group->spares_end];

        if (takes_part(leaf) && !leaf->runs) {
            leaf->runs = true;
            return group->spares_end;
        }
    }
    return NONE;
}

static void stand_in(struct forest *forest, uint32_t number)
{
    const uint32_t owner = forest->owner[number];
    struct group *group = NULL;

    if (owner != 0) {
        group = forest->leaf[owner - 1].group;
    } else if (forest->all_reserve) {
        group = forest->root;
    }
    for (; group && forest->layers[group->layer].flags & MUSTER_LAYER_RESERVE;
         group = group->parent) {
        const uint32_t spare = take_spare(forest, group);

        if (spare != NONE) {
            forest->holder[number] = spare + 1;
            return;
        }
    }
}

static void reserve(struct forest *forest)
{
    for (uint32_t number = 0; number < forest->bound; number++) {
        if (forest->holder[number] == 0) {
            stand_in(forest, number);
        }
    }
}

/* The domain that a number belongs to: that of the leaf that has it, or had it. */
static struct group *domain_of(const struct forest *forest, uint32_t number)
{
    const uint32_t leaf = forest->holder[number] ? forest->holder[number] : forest->owner[number];
    struct group *group;

    if (leaf == 0) {
        return forest->domain == 0 ? forest->root : NULL;
    }
    group = forest->leaf[leaf - 1].group;
    while (group && group->layer > forest->domain) {
        group = group->parent;
    }
    return group;
}

static void gap_append(struct forest *forest, struct group *domain, uint32_t number)
{
    forest->next_gap[number] = NONE;
    if (domain->gap_first == NONE) {
        domain->gap_first = number;
    } else {
        forest->next_gap[domain->gap_end] = number;
    }
    domain->gap_end = number;
}

static void backfill(struct forest *forest)
{
    if (forest->domain == forest->layer_count) {
        return;
    }
    for (uint32_t number = 0; number < forest->bound; number++) {
        if (forest->holder[number] != 0) {
            domain_of(forest, number)->held++;
        }
    }
    for (uint32_t number = 0; number < forest->bound; number++) {
        struct group *domain = domain_of(forest, number);
        const uint32_t who = forest->holder[number];

        if (!domain) {
            continue;
        }
        if (domain->passed++ < domain->held) {
            if (who == 0) {
                gap_append(forest, domain, number);
            }
        } else if (who != 0) { /* as many are above as there are gaps below */
            const uint32_t gap = domain->gap_first;

            domain->gap_first = forest->next_gap[gap];
            forest->holder[gap] = who;
            forest->holder[number] = 0;
        }
    }
}

/* ---- the numbers ---- */

static void give(struct leaf *leaf, uint32_t number)
{
    leaf->place->number = number;
    for (struct group *group = leaf->group; group; group = group->parent) {
        group->running++;
    }
}

static bool has_room(const struct forest *forest, const struct leaf *leaf)
{
    for (const struct group *group = leaf->group; group; group = group->parent) {
        const uint32_t max = forest->layers[group->layer].max;

        if (max != 0 && group->running >= max) {
            return false;
        }
    }
    return true;
}

static void shift_and_fill(struct forest *forest)
{
    uint32_t next = 0;

    for (uint32_t number = 0; number < forest->bound; number++) {
        if (forest->holder[number] != 0) {
            give(&forest->leaf[forest->holder[number] - 1], next++);
        }
    }
    for (uint32_t i = 0; i < forest->leaf_count; i++) {
        struct leaf *leaf = &forest->leaf[i];

        if (takes_part(leaf) && !leaf->runs && has_room(forest, leaf)) {
            give(leaf, next++);
        }
    }
}

static void forest_init(struct forest *forest)
{
    mst_tree_init(&forest->names, by_name);
    mst_list_init(&forest->all);
    forest->all_reserve = true;
    forest->domain = forest->layer_count;
    for (uint32_t i = 0; i < forest->layer_count; i++) {
        forest->all_reserve =
            forest->all_reserve && (forest->layers[i].flags & MUSTER_LAYER_RESERVE);
    }
    while (forest->domain > 0 && forest->layers[forest->domain - 1].flags & MUSTER_LAYER_BACKFILL) {
        forest->domain--;
    }
}

static void forest_fini(struct forest *forest)
{
    MST_LIST_EACH(at, following, &forest->all)
    {
        mst_mem_release(forest->mem, MST_CONTAINER(at, struct group, in_all));
    }
    mst_mem_release(forest->mem, forest->seen);
    mst_mem_release(forest->mem, forest->leaf);
    mst_mem_release(forest->mem, forest->holder);
    mst_mem_release(forest->mem, forest->owner);
    mst_mem_release(forest->mem, forest->next_gap);
}

muster_status mst_layers_apply(const struct muster_assignment_layer *layers, size_t layer_count,
                               struct muster_place *places, size_t count, const struct mst_mem *mem,
                               struct mst_text *why)
{
    struct forest forest = {
        .layers = layers, .layer_count = (uint32_t)layer_count, .mem = mem, .why = why};
    muster_status status;

    forest_init(&forest);
    status = build(&forest, places, count);
    if (status == MUSTER_OK) {
        propagate(&forest);
        status = sort_by_number(&forest);
    }
    if (status == MUSTER_OK) {
        reserve(&forest);
        backfill(&forest);
        shift_and_fill(&forest);
    }
    forest_fini(&forest);
    return status;
}
