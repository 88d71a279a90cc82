/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of an assignment: known examples, and random trees that live through faults and returns.
 * Results are written as one number per place, in the order of the indices; "-" runs nothing.
 *
 * behaviour: restart / Assignment */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/prng.h"
#include "base/text.h"
#include "failing_mem.h"
#include "restart/assignment.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LARGE_MS 2000
#else
#define LARGE_MS 50
#endif

enum {
    PLACES_MAX = 64,
    LAYERS_MAX = 4,
    LINE_ROOM = 512,
    TREES = 128,
    ROUNDS = 16,
    LARGE = 16384,
    LARGE_DEAD = 1024,
    LARGE_TRIES = 5
};

#define BOTH (MUSTER_LAYER_RESERVE | MUSTER_LAYER_BACKFILL)
#define NONE MUSTER_NUMBER_NONE

static struct failing_mem memory;
static char why_line[LINE_ROOM];

static void key_listed(void *arg, const struct muster_place *place, char *key, size_t room)
{

    mst_text_print(key, room, "%u", ((const uint32_t *)arg)[place->index]);
}

static void key_block(void *arg, const struct muster_place *place, char *key, size_t room)
{

    mst_text_print(key, room, "%u", place->index / *(const uint32_t *)arg);
}

static struct muster_assignment_layer layer(uint32_t min, uint32_t max, unsigned flags,
                                            const uint32_t *block)
{
    static uint32_t blocks[16];
    static size_t used;
    uint32_t *arg = &blocks[used++ % 16];

    *arg = block ? *block : LARGE;
    return (struct muster_assignment_layer){
        .min = min, .max = max, .flags = flags, .key = key_block, .arg = arg};
}

/* A root and groups of `block`. */
struct two {
    struct muster_assignment_layer layers[2];
};

static struct two root_and_groups(uint32_t block, struct muster_assignment_layer root,
                                  struct muster_assignment_layer groups)
{
    struct two two;

    two.layers[0] = layer(root.min, root.max, root.flags, NULL);
    two.layers[1] = layer(groups.min, groups.max, groups.flags, &block);
    return two;
}

static void fresh(struct muster_place *places, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        places[i] = (struct muster_place){
            .index = i, .alive = true, .number = NONE, .previous = NONE, .node = NONE};
    }
}

static muster_status grow(const struct muster_assignment_layer *layers, size_t layer_count,
                          struct muster_place *places, size_t count)
{
    const struct muster_assignment_step step = {
        .kind = MUSTER_ASSIGN_TREE, .layers = layers, .layer_count = layer_count};
    struct mst_text why = mst_text_in(why_line, sizeof(why_line));
    muster_status status = mst_assignment_apply(&step, 1, places, count, &memory.mem, &why);

    assert_int_equal(memory.live, 0);
    return status;
}

static const char *numbers(const struct muster_place *places, size_t count)
{
    static char line[LINE_ROOM];
    struct mst_text text = mst_text_in(line, sizeof(line));

    for (size_t i = 0; i < count; i++) {
        mst_text_add(&text, i > 0 ? " " : "");
        if (places[i].number == NONE) {
            mst_text_add(&text, "-");
        } else {
            mst_text_format(&text, "%u", places[i].number);
        }
    }
    return line;
}

static void next_attempt(struct muster_place *places, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        places[i].previous = places[i].number;
    }
}

static const char *after(const struct two *two, struct muster_place *places, uint32_t count)
{
    assert_int_equal(grow(two->layers, 2, places, count), MUSTER_OK);
    next_attempt(places, count);
    return numbers(places, count);
}

static void start(const struct two *two, struct muster_place *places, uint32_t count)
{
    fresh(places, count);
    (void)after(two, places, count);
}

/* ---- examples ---- */

static struct muster_assignment_layer flags(unsigned flags)
{
    return (struct muster_assignment_layer){.flags = flags};
}

/* *Tree*: a rank is lost in layers with and without BACKFILL. The last rank in the topmost group
 * that has it, with all layers below, moves into the gap; without it the numbers close up. Ranks
 * are always 0 to n - 1. */
static void gaps_are_filled_or_closed_75(void **state)
{
    const struct {
        uint32_t block;
        unsigned root, group;
        uint32_t dead[2];
        const char *result;
    } cases[] = {
        {4, MUSTER_LAYER_BACKFILL, MUSTER_LAYER_BACKFILL, {1, 1}, "0 - 2 3 4 5 6 1"},
        {4, 0, MUSTER_LAYER_BACKFILL, {1, 1}, "0 - 2 1 3 4 5 6"},
        {4, MUSTER_LAYER_BACKFILL, 0, {1, 1}, "0 - 1 2 3 4 5 6"},
        {4, 0, 0, {1, 1}, "0 - 1 2 3 4 5 6"},
        {2, MUSTER_LAYER_BACKFILL, MUSTER_LAYER_BACKFILL, {2, 3}, "0 1 - - 4 5 2 3"},
        {4, MUSTER_LAYER_BACKFILL, MUSTER_LAYER_BACKFILL, {1, 7}, "0 - 2 3 4 5 1 -"},
    };
    struct muster_place places[8];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct two two =
            root_and_groups(cases[i].block, flags(cases[i].root), flags(cases[i].group));

        start(&two, places, 8);
        assert_string_equal(numbers(places, 8), "0 1 2 3 4 5 6 7");
        places[cases[i].dead[0]].alive = false;
        places[cases[i].dead[1]].alive = false;
        assert_string_equal(after(&two, places, 8), cases[i].result);
    }
}

/* Members return to a tree. As many as no `max` above them forbids run, behind the others. No
 * running rank is stopped for them. */
static void spares_stand_in_75(void **state)
{
    struct muster_place places[8];
    struct two two =
        root_and_groups(4, flags(MUSTER_LAYER_RESERVE),
                        (struct muster_assignment_layer){.max = 3, .flags = MUSTER_LAYER_RESERVE});

    (void)state;
    start(&two, places, 8);
    assert_string_equal(numbers(places, 8), "0 1 2 - 3 4 5 -");
    places[1].alive = false;
    assert_string_equal(after(&two, places, 8), "0 - 2 1 3 4 5 -");
    places[4].alive = false;
    assert_string_equal(after(&two, places, 8), "0 - 2 1 - 4 5 3");
    places[2].alive = false;
    assert_string_equal(after(&two, places, 8), "0 - - 1 - 3 4 2");
    /* The dead come back: behind the others, as many as there is room for. */
    places[1].alive = true;
    places[2].alive = true;
    places[4].alive = true;
    assert_string_equal(after(&two, places, 8), "0 5 - 1 - 3 4 2");
}

/* A rank is lost in a layer with RESERVE. The last spare of its group takes its number, or one
 * of the next layer up to which all carry it; without RESERVE above the group a spare of another
 * group does not. */
static void spares_of_another_group(void **state)
{
    struct muster_place places[8];
    struct two within = root_and_groups(
        4, flags(0), (struct muster_assignment_layer){.max = 3, .flags = MUSTER_LAYER_RESERVE});
    struct two across =
        root_and_groups(4, flags(MUSTER_LAYER_RESERVE),
                        (struct muster_assignment_layer){.max = 3, .flags = MUSTER_LAYER_RESERVE});

    (void)state;
    for (int twice = 0; twice < 2; twice++) {
        start(twice ? &across : &within, places, 8);
        places[0].alive = false;
        places[1].alive = false;
        assert_string_equal(after(twice ? &across : &within, places, 8),
                            twice ? "- - 2 0 3 4 5 1" : "- - 1 0 2 3 4 -");
    }
}

/* Fewer than `min` of a group are alive; later they are back. The whole group is left out, also
 * the root; it runs again behind the others. */
static void groups_too_small_are_left_out_75(void **state)
{
    struct muster_place places[12];
    struct two min_three = root_and_groups(4, flags(0), (struct muster_assignment_layer){.min = 3});
    struct two min_seven = root_and_groups(4, (struct muster_assignment_layer){.min = 7}, flags(0));
    struct two combined = root_and_groups(
        4, flags(BOTH), (struct muster_assignment_layer){.min = 2, .max = 3, .flags = BOTH});

    (void)state;
    start(&min_three, places, 8);
    places[0].alive = false;
    places[2].alive = false;
    assert_string_equal(after(&min_three, places, 8), "- - - - 0 1 2 3");
    places[2].alive = true; /* with it the group is large enough again */
    assert_string_equal(after(&min_three, places, 8), "- 4 5 6 0 1 2 3");

    start(&min_seven, places, 8);
    places[0].alive = false;
    places[5].alive = false;
    assert_string_equal(after(&min_seven, places, 8), "- - - - - - - -");

    start(&combined, places, 12);
    assert_string_equal(numbers(places, 12), "0 1 2 - 3 4 5 - 6 7 8 -");
    places[0].alive = false;
    places[1].alive = false;
    places[2].alive = false;
    assert_string_equal(after(&combined, places, 12), "- - - - 3 4 5 1 6 7 2 0");
}

/* A process is started again in a place before the others noticed, so no rank is known as dead,
 * but a number is free. The number is filled as if it was lost. */
static void a_number_of_nobody(void **state)
{
    struct muster_place places[8];
    struct two reserve =
        root_and_groups(4, flags(MUSTER_LAYER_RESERVE), flags(MUSTER_LAYER_RESERVE));
    struct two backfill =
        root_and_groups(4, flags(MUSTER_LAYER_BACKFILL), flags(MUSTER_LAYER_BACKFILL));
    struct two none = root_and_groups(4, flags(0), flags(0));

    (void)state;
    start(&reserve, places, 8);
    places[2].previous = NONE;
    assert_string_equal(after(&reserve, places, 8), "0 1 2 3 4 5 6 7");
    start(&backfill, places, 8);
    places[2].previous = NONE;
    assert_string_equal(after(&backfill, places, 8), "0 1 7 3 4 5 6 2");
    start(&none, places, 8);
    places[2].previous = NONE;
    assert_string_equal(after(&none, places, 8), "0 1 7 2 3 4 5 6");
}

/* The indices of a group are interleaved with others. Groups and ranks follow each other in the
 * order in which their first index comes. That this is not the order of the indices is no error
 * and warns of nothing: ranks are what the tree says. */
static void order_of_the_leaves(void **state)
{
    static uint32_t all[6];
    static uint32_t rack[] = {5, 3, 5, 3, 9, 5};
    const struct muster_assignment_layer layers[] = {{.key = key_listed, .arg = all},
                                                     {.key = key_listed, .arg = rack, .max = 2}};
    struct muster_place places[6];

    (void)state;
    fresh(places, 6);
    assert_int_equal(grow(layers, 2, places, 6), MUSTER_OK);
    assert_string_equal(numbers(places, 6), "0 2 1 3 4 -");
}

static uint32_t in_fours(void *arg, uint32_t size)
{
    (void)arg;
    return size / 4 * 4;
}

/* A filter follows the tree. The ranks above its size are left out. */
static void a_filter_after_the_tree(void **state)
{
    struct two two = root_and_groups(4, flags(BOTH), flags(BOTH));
    const struct muster_assignment_step steps[] = {
        {.kind = MUSTER_ASSIGN_TREE, .layers = two.layers, .layer_count = 2},
        {.kind = MUSTER_ASSIGN_FILTER, .filter = in_fours}};
    struct mst_text why = mst_text_in(why_line, sizeof(why_line));
    struct muster_place places[10];

    (void)state;
    fresh(places, 10);
    assert_int_equal(mst_assignment_apply(steps, 2, places, 10, &memory.mem, &why), MUSTER_OK);
    assert_string_equal(numbers(places, 10), "0 1 2 3 4 5 6 7 - -");
    next_attempt(places, 10);
    places[1].alive = false;
    assert_int_equal(mst_assignment_apply(steps, 2, places, 10, &memory.mem, &why), MUSTER_OK);
    assert_string_equal(numbers(places, 10), "0 - 2 3 4 5 6 7 - 1");
}

/* The members do not share one root. The tree is refused with EINVAL that names two of them with
 * their keys. */
static void two_roots_are_refused_75(void **state)
{
    const struct muster_assignment_layer layers[] = {{.key = NULL}};
    struct muster_place places[3];

    (void)state;
    fresh(places, 3);
    places[0].label = "east";
    places[1].label = "east";
    places[2].label = "west";
    assert_int_equal(grow(layers, 1, places, 3), MUSTER_EINVAL);
    assert_string_equal(why_line, "step 1 (tree): the key of the first layer is 'east' for #0 and "
                                  "'west' for #2: all must share one root");
    places[2].alive = false; /* never seen in a rank: asks nothing of the tree */
    assert_int_equal(grow(layers, 1, places, 3), MUSTER_OK);
    assert_string_equal(numbers(places, 3), "0 1 -");
}

/* ---- random trees ---- */

struct tree {
    uint32_t count, layer_count;
    struct muster_assignment_layer layers[LAYERS_MAX];
    uint32_t keys[LAYERS_MAX][PLACES_MAX];
    bool limited;    /* some layer has a max */
    unsigned common; /* flags that all layers have */
};

static bool same_group(const struct tree *tree, uint32_t layer, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i <= layer; i++) {
        if (tree->keys[i][a] != tree->keys[i][b]) {
            return false;
        }
    }
    return true;
}

static void random_tree(struct tree *tree, struct mst_prng *prng)
{
    *tree = (struct tree){.count = 1 + (uint32_t)mst_prng_below(prng, PLACES_MAX),
                          .layer_count = 1 + (uint32_t)mst_prng_below(prng, LAYERS_MAX),
                          .common = BOTH};
    for (uint32_t i = 0; i < tree->layer_count; i++) {
        struct muster_assignment_layer *layer = &tree->layers[i];

        layer->flags = (unsigned)mst_prng_below(prng, 4);
        layer->min = (uint32_t)mst_prng_below(prng, 4);
        layer->max = mst_prng_below(prng, 2) ? 0 : layer->min + (uint32_t)mst_prng_below(prng, 12);
        layer->key = key_listed;
        layer->arg = tree->keys[i];
        tree->limited = tree->limited || layer->max != 0;
        tree->common &= layer->flags;
        for (uint32_t place = 0; i > 0 && place < tree->count; place++) {
            tree->keys[i][place] = (uint32_t)mst_prng_below(prng, 3);
        }
    }
}

/* How many of the group of `place` in this layer are alive, with those left out below not counted:
 * by the definition, without building anything. */
static uint32_t alive_in(const struct tree *tree, const struct muster_place *places, uint32_t layer,
                         uint32_t place, const bool *left_out)
{
    uint32_t alive = 0;

    for (uint32_t i = 0; i < tree->count; i++) {
        alive += same_group(tree, layer, place, i) && places[i].alive && !left_out[i] ? 1 : 0;
    }
    return alive;
}

static void find_left_out(const struct tree *tree, const struct muster_place *places,
                          bool *left_out)
{
    memset(left_out, 0, PLACES_MAX * sizeof(*left_out));
    for (uint32_t layer = tree->layer_count; layer-- > 0;) {
        bool below[PLACES_MAX];

        memcpy(below, left_out, sizeof(below));
        for (uint32_t i = 0; i < tree->count; i++) {
            left_out[i] =
                below[i] || alive_in(tree, places, layer, i, below) < tree->layers[layer].min;
        }
    }
}

static bool is_full(const struct tree *tree, const struct muster_place *places, uint32_t place)
{
    for (uint32_t layer = 0; layer < tree->layer_count; layer++) {
        const uint32_t max = tree->layers[layer].max;
        uint32_t running = 0;

        for (uint32_t i = 0; i < tree->count; i++) {
            running += same_group(tree, layer, place, i) && places[i].number != NONE ? 1 : 0;
        }
        if (max != 0 && running >= max) {
            return true;
        }
    }
    return false;
}

/* Survivors in their old order: nobody moved but to close gaps. */
static void check_order_kept(const struct tree *tree, const struct muster_place *places)
{
    for (uint32_t a = 0; a < tree->count; a++) {
        for (uint32_t b = 0; b < tree->count; b++) {
            if (places[a].number != NONE && places[a].previous != NONE &&
                places[b].number != NONE && places[b].previous > places[a].previous) {
                assert_true(places[b].number > places[a].number);
            }
        }
    }
}

static void check_world(const struct tree *tree, const struct muster_place *places)
{
    bool left_out[PLACES_MAX];
    bool taken[PLACES_MAX] = {false};
    bool flagless = true;
    uint32_t size = 0;

    find_left_out(tree, places, left_out);
    for (uint32_t i = 0; i < tree->count; i++) {
        const bool part = places[i].alive && !left_out[i];

        if (places[i].number != NONE) {
            assert_true(part);
            assert_true(places[i].number < PLACES_MAX && !taken[places[i].number]);
            taken[places[i].number] = true;
            size++;
        } else if (part) {
            assert_true(tree->limited);
            assert_int_equal(places[i].previous, NONE); /* who runs goes on */
            assert_true(is_full(tree, places, i));
        }
    }
    for (uint32_t i = 0; i < size; i++) {
        assert_true(taken[i]);
    }
    for (uint32_t i = 0; i < tree->layer_count; i++) {
        flagless = flagless && tree->layers[i].flags == 0;
    }
    if (flagless) {
        check_order_kept(tree, places);
    }
    for (uint32_t i = 0; tree->common & MUSTER_LAYER_BACKFILL && i < tree->count; i++) {
        if (places[i].number != NONE && places[i].previous < size) { /* as fill gaps: it stays, or
                                                      the new ones are what it stands above */
            assert_true(places[i].number <= places[i].previous);
        }
    }
}

static void live_on(struct tree *tree, struct muster_place *places, struct mst_prng *prng)
{
    for (uint32_t i = 0; i < tree->count; i++) {
        const uint64_t dice = mst_prng_below(prng, 12);

        places[i].previous = places[i].number;
        if (dice == 0) {
            places[i].alive = false;
        } else if (dice <= 2 && !places[i].alive) {
            places[i].alive = true;
            places[i].previous = NONE;
        } else if (dice == 3 && mst_prng_below(prng, 4) == 0) { /* replaced before the others saw */
            places[i].previous = NONE;
        }
    }
}

/* 128 random trees live through 16 rounds of deaths, returns and replacements. The ranks are
 * always 0 to n - 1; a rank that ran and may run runs; one that waits does so for a `max` or a
 * `min`; without flags none overtakes another. */
static void random_trees_live_through_faults_75(void **state)
{
    struct mst_prng prng = {.state = 4};
    struct tree tree;
    struct muster_place places[PLACES_MAX];
    uint32_t ran = 0;

    (void)state;
    for (int i = 0; i < TREES; i++) {
        random_tree(&tree, &prng);
        fresh(places, tree.count);
        for (int round = 0; round < ROUNDS; round++) {
            assert_int_equal(grow(tree.layers, tree.layer_count, places, tree.count), MUSTER_OK);
            check_world(&tree, places);
            for (uint32_t place = 0; place < tree.count; place++) {
                ran += places[place].number != NONE ? 1 : 0;
            }
            live_on(&tree, places, &prng);
        }
    }
    assert_true(ran > TREES * ROUNDS); /* it was not about nothing */
}

/* ---- size ---- */

/* Of this thread: what others do meanwhile is not what it costs. */
static double ms_since(const struct timespec *begin)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)(now.tv_sec - begin->tv_sec) * 1e3 +
           (double)(now.tv_nsec - begin->tv_nsec) / 1e6;
}

/* A tree of 16,384 places loses 1,024. That takes under 50 ms, building it included. */
static void large_76(void **state)
{
    static struct muster_place places[LARGE];
    static const uint32_t rack = 512;
    static const uint32_t host = 8;
    const struct muster_assignment_layer layers[] = {
        layer(1, 0, BOTH, NULL), layer(1, 0, BOTH, &rack), layer(1, 7, BOTH, &host)};
    struct mst_prng prng = {.state = 76};
    double best = 0;
    uint32_t size = 0;

    (void)state;
    for (int try = 0; try < LARGE_TRIES; try++) {
        struct timespec begin;
        double took;

        fresh(places, LARGE);
        assert_int_equal(grow(layers, 3, places, LARGE), MUSTER_OK);
        next_attempt(places, LARGE);
        for (uint32_t dead = 0; dead < LARGE_DEAD;) {
            struct muster_place *place = &places[mst_prng_below(&prng, LARGE)];

            dead += place->alive ? 1 : 0;
            place->alive = false;
        }
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
        assert_int_equal(grow(layers, 3, places, LARGE), MUSTER_OK);
        took = ms_since(&begin);
        best = try == 0 || took < best ? took : best;
    }
    for (uint32_t i = 0; i < LARGE; i++) {
        size += places[i].number != NONE ? 1 : 0;
    }
    print_message("%d places, %d of them dead: %.1f ms\n", LARGE, LARGE_DEAD, best);
    assert_int_equal(size, LARGE / 8 * 7); /* each was replaced by a spare */
    assert_true(best < LARGE_MS);
}

/* An assignment by a tree finds no memory. It fails with ENOMEM, and no number is changed. */
static void each_allocation_fails_in_turn(void **state)
{
    struct two two = root_and_groups(4, flags(BOTH), flags(BOTH));
    struct muster_place places[8];

    (void)state;
    for (size_t at = 1;; at++) {
        muster_status status;

        failing_mem_init(&memory, 0);
        start(&two, places, 8);
        places[1].alive = false;
        failing_mem_init(&memory, at);
        status = grow(two.layers, 2, places, 8);
        if (!memory.failed) {
            assert_int_equal(status, MUSTER_OK);
            assert_string_equal(numbers(places, 8), "0 - 2 3 4 5 6 1");
            assert_true(at > 10);
            return;
        }
        assert_int_equal(status, MUSTER_ENOMEM);
        assert_int_equal(places[7].number, 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_are_filled_or_closed_75),
        cmocka_unit_test(spares_stand_in_75),
        cmocka_unit_test(spares_of_another_group),
        cmocka_unit_test(groups_too_small_are_left_out_75),
        cmocka_unit_test(a_number_of_nobody),
        cmocka_unit_test(order_of_the_leaves),
        cmocka_unit_test(a_filter_after_the_tree),
        cmocka_unit_test(two_roots_are_refused_75),
        cmocka_unit_test(random_trees_live_through_faults_75),
        cmocka_unit_test(large_76),
        cmocka_unit_test(each_allocation_fails_in_turn),
    };

    failing_mem_init(&memory, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
