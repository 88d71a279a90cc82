/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of an assignment, each alone and one after the other. Results are written as one number
 * per place, in the order of the indices; "-" runs nothing.
 *
 * behaviour: restart / Assignment */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "failing_mem.h"
#include "restart/assignment.h"

enum { PLACES_MAX = 16, LINE_ROOM = 256, WORLD = 8 };

#define BIT(i) (1u << (i))
#define TAKE(steps, places, count)                                                                 \
    take((steps), sizeof(steps) / sizeof((steps)[0]), (places), (count))

static struct failing_mem memory;
static char why_line[LINE_ROOM];

/* A world of `count` in which all ran at their index, and those of the set have died. */
static void world(struct muster_place *places, uint32_t count, uint32_t dead)
{
    for (uint32_t i = 0; i < count; i++) {
        places[i] = (struct muster_place){.index = i,
                                          .alive = !(dead & BIT(i)),
                                          .number = 12345,
                                          .previous = i,
                                          .node = MUSTER_NUMBER_NONE};
    }
}

static muster_status take(const struct muster_assignment_step *steps, size_t count,
                          struct muster_place *places, size_t place_count)
{
    struct mst_text why = mst_text_in(why_line, sizeof(why_line));
    muster_status status =
        mst_assignment_apply(steps, count, places, place_count, &memory.mem, &why);

    assert_int_equal(memory.live, 0);
    if (status == MUSTER_OK) {
        assert_string_equal(why_line, "");
    }
    return status;
}

static const char *numbers(const struct muster_place *places, size_t count)
{
    static char line[LINE_ROOM];
    struct mst_text text = mst_text_in(line, sizeof(line));

    for (size_t i = 0; i < count; i++) {
        mst_text_add(&text, i > 0 ? " " : "");
        if (places[i].number == MUSTER_NUMBER_NONE) {
            mst_text_add(&text, "-");
        } else {
            mst_text_format(&text, "%u", places[i].number);
        }
    }
    return line;
}

/* The ranks of this attempt are the previous ones of the next. */
static void next_attempt(struct muster_place *places, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        places[i].previous = places[i].number;
    }
}

static void pairs(void *arg, const struct muster_place *place, char *key, size_t room)
{

    mst_text_print(key, room, "%u", place->number / *(const uint32_t *)arg);
}

static const struct muster_assignment_step shift[] = {{.kind = MUSTER_ASSIGN_SHIFT}};
static const struct muster_assignment_step fill[] = {{.kind = MUSTER_ASSIGN_FILL_GAPS}};

/* ---- renumbering ---- */

/* *Shift*: of 8, ranks 1, 4 and 5, none, or all are dead; the same again without another loss.
 * The order stays and the numbers close up: 0 2 3 6 7 become 0 1 2 3 4. The second time nothing
 * changes. */
static void shift_keeps_the_order_72(void **state)
{
    struct muster_place places[WORLD];

    (void)state;
    world(places, WORLD, BIT(1) | BIT(4) | BIT(5));
    assert_int_equal(TAKE(shift, places, WORLD), MUSTER_OK);
    assert_string_equal(numbers(places, WORLD), "0 - 1 2 - - 3 4");
    next_attempt(places, WORLD);
    assert_int_equal(TAKE(shift, places, WORLD), MUSTER_OK);
    assert_string_equal(numbers(places, WORLD), "0 - 1 2 - - 3 4");

    world(places, WORLD, 0);
    assert_int_equal(TAKE(shift, places, WORLD), MUSTER_OK);
    assert_string_equal(numbers(places, WORLD), "0 1 2 3 4 5 6 7");

    world(places, WORLD, 0xff);
    assert_int_equal(TAKE(shift, places, WORLD), MUSTER_OK);
    assert_string_equal(numbers(places, WORLD), "- - - - - - - -");
}

/* There are members that had no rank before. They come after all others, by index. In the first
 * attempt all are such. */
static void newcomers_come_last(void **state)
{
    struct muster_place places[6];

    (void)state;
    world(places, 6, 0);
    places[0].previous = MUSTER_NUMBER_NONE;
    places[1].previous = 3;
    places[2].previous = 0;
    places[3].previous = MUSTER_NUMBER_NONE;
    places[4].previous = 1;
    places[4].alive = false;
    places[5].previous = 2;
    assert_int_equal(TAKE(shift, places, 6), MUSTER_OK);
    assert_string_equal(numbers(places, 6), "3 2 0 4 - 1");
    assert_int_equal(TAKE(fill, places, 6), MUSTER_OK);
    assert_string_equal(numbers(places, 6), "1 3 0 4 - 2");

    for (size_t i = 0; i < 6; i++) { /* the first attempt: by index */
        places[i].previous = MUSTER_NUMBER_NONE;
    }
    assert_int_equal(TAKE(fill, places, 6), MUSTER_OK);
    assert_string_equal(numbers(places, 6), "0 1 2 3 - 4");
    assert_int_equal(take(shift, 1, places, 0), MUSTER_OK);
}

/* *Fill gaps*: some ranks are dead, and any of the dead are back. A rank below the new size
 * keeps its number. The others move into the gaps in their order, newcomers into what is left. */
static void fill_gaps_examples(void **state)
{
    struct muster_place places[WORLD];

    (void)state;
    world(places, WORLD, BIT(1) | BIT(4) | BIT(5));
    assert_int_equal(TAKE(fill, places, WORLD), MUSTER_OK);
    assert_string_equal(numbers(places, WORLD), "0 - 2 3 - - 1 4");
    world(places, WORLD, BIT(1) | BIT(2) | BIT(7));
    assert_int_equal(TAKE(fill, places, WORLD), MUSTER_OK);
    assert_string_equal(numbers(places, WORLD), "0 - - 3 4 1 2 -");
}

/* The rule, said the other way round: who stood below the new world is where it was; the others
 * are in their old order, and so are the newcomers behind them. `come` are those of the dead that
 * are back without a rank. */
static void check_filled(uint32_t dead, uint32_t come)
{
    struct muster_place places[WORLD];
    uint32_t taken = 0;
    uint32_t size = 0;
    uint32_t moved = 0;
    uint32_t come_to = 0; /* both: behind the last one */

    world(places, WORLD, dead & ~come);
    for (uint32_t i = 0; i < WORLD; i++) {
        size += places[i].alive ? 1 : 0;
        if (come & BIT(i)) {
            places[i].previous = MUSTER_NUMBER_NONE;
        }
    }
    assert_int_equal(TAKE(fill, places, WORLD), MUSTER_OK);
    for (uint32_t i = 0; i < WORLD; i++) {
        const uint32_t number = places[i].number;

        if (!places[i].alive) {
            assert_int_equal(number, MUSTER_NUMBER_NONE);
            continue;
        }
        assert_true(number < size);
        assert_false(taken & BIT(number));
        taken |= BIT(number);
        if (come & BIT(i)) {
            assert_true(number >= come_to);
            come_to = number + 1;
        } else if (i < size) {
            assert_int_equal(number, i);
        } else {
            assert_true(number >= moved);
            moved = number + 1;
        }
    }
    for (uint32_t i = 0; i < WORLD; i++) {
        assert_true(!(come & BIT(i)) || places[i].number >= moved);
    }
}

/* *Fill gaps*: each of the 256 sets of 8 ranks is dead. A rank below the new size keeps its
 * number; every number below the size is given once. [restart] */
static void fill_gaps_for_every_subset_73(void **state)
{
    (void)state;
    for (uint32_t dead = 0; dead < BIT(WORLD); dead++) {
        for (uint32_t come = dead;; come = (come - 1) & dead) {
            check_filled(dead, come);
            if (come == 0) {
                break;
            }
        }
    }
}

/* ---- groups ---- */

/* *Group*: pairs of 8, ranks 1, 4, 5, 6 are dead. The other one of a pair is left out: 0, 1, 4
 * to 7; the others are numbered from 0. Steps can follow one another: pairs, shift, threes,
 * shift. */
static void whole_groups_74(void **state)
{
    static uint32_t two = 2;
    static uint32_t three = 3;
    const struct muster_assignment_step by_two[] = {
        {.kind = MUSTER_ASSIGN_GROUP, .count = 2, .key = pairs, .arg = &two},
        {.kind = MUSTER_ASSIGN_SHIFT}};
    const struct muster_assignment_step composed[] = {
        {.kind = MUSTER_ASSIGN_GROUP, .count = 2, .key = pairs, .arg = &two},
        {.kind = MUSTER_ASSIGN_SHIFT},
        {.kind = MUSTER_ASSIGN_GROUP, .count = 3, .key = pairs, .arg = &three},
        {.kind = MUSTER_ASSIGN_SHIFT}};
    const struct muster_assignment_step filled[] = {
        {.kind = MUSTER_ASSIGN_GROUP, .count = 2, .key = pairs, .arg = &two},
        {.kind = MUSTER_ASSIGN_FILL_GAPS}};
    struct muster_place places[WORLD];

    (void)state;
    world(places, WORLD, BIT(1) | BIT(4) | BIT(5) | BIT(6));
    assert_int_equal(TAKE(by_two, places, WORLD), MUSTER_OK);
    assert_string_equal(numbers(places, WORLD), "- - 0 1 - - - -");

    world(places, WORLD, BIT(1) | BIT(6));
    assert_int_equal(TAKE(composed, places, WORLD), MUSTER_OK);
    assert_string_equal(numbers(places, WORLD), "- - 0 1 2 - - -");

    world(places, WORLD, BIT(1));
    assert_int_equal(TAKE(filled, places, WORLD), MUSTER_OK);
    assert_string_equal(numbers(places, WORLD), "- - 2 3 4 5 0 1");
}

/* The missing one of a group comes back. The group runs again, behind the others. */
static void left_out_come_back(void **state)
{
    const struct muster_assignment_step steps[] = {{.kind = MUSTER_ASSIGN_GROUP, .count = 2},
                                                   {.kind = MUSTER_ASSIGN_FILL_GAPS}};
    static const char *const racks[] = {"a", "b", NULL, "a", "b", ""};
    struct muster_place places[6];

    (void)state;
    world(places, 6, BIT(0));
    for (size_t i = 0; i < 6; i++) {
        places[i].label = racks[i];
    }
    assert_int_equal(TAKE(steps, places, 6), MUSTER_OK);
    assert_string_equal(numbers(places, 6), "- 1 2 - 0 3"); /* no label is a label */
    next_attempt(places, 6);
    places[0].alive = true;
    assert_int_equal(TAKE(steps, places, 6), MUSTER_OK);
    assert_string_equal(numbers(places, 6), "4 1 2 5 0 3");
    next_attempt(places, 6);
    places[2].label = "a"; /* one too many is as wrong as one too few */
    assert_int_equal(TAKE(steps, places, 6), MUSTER_OK);
    assert_string_equal(numbers(places, 6), "- 1 - - 0 -");
}

/* ---- how many ---- */

static uint32_t half(void *arg, uint32_t size)
{
    *(uint32_t *)arg += 1;
    return size / 2;
}

static uint32_t one_more(void *arg, uint32_t size)
{
    (void)arg;
    return size + 1;
}

/* *Max* 6 of 8, and a rank dies: a spare takes its number, the other goes on waiting. *Multiple*
 * of 4, and 7 of 8 are left: 4 run and 3 are left out; of 3 none runs. */
static void at_most_and_multiple_77_78(void **state)
{
    const struct muster_assignment_step six[] = {{.kind = MUSTER_ASSIGN_FILL_GAPS},
                                                 {.kind = MUSTER_ASSIGN_MAX, .count = 6}};
    const struct muster_assignment_step fours[] = {{.kind = MUSTER_ASSIGN_SHIFT},
                                                   {.kind = MUSTER_ASSIGN_MULTIPLE, .count = 4}};
    struct muster_place places[WORLD];

    (void)state;
    world(places, WORLD, 0);
    assert_int_equal(TAKE(six, places, WORLD), MUSTER_OK);
    assert_string_equal(numbers(places, WORLD), "0 1 2 3 4 5 - -");
    next_attempt(places, WORLD);
    places[2].alive = false; /* a spare takes its number, the other stays one */
    assert_int_equal(TAKE(six, places, WORLD), MUSTER_OK);
    assert_string_equal(numbers(places, WORLD), "0 1 - 3 4 5 2 -");

    world(places, WORLD, BIT(3));
    assert_int_equal(TAKE(fours, places, WORLD), MUSTER_OK);
    assert_string_equal(numbers(places, WORLD), "0 1 2 - 3 - - -");
    world(places, 3, 0);
    assert_int_equal(TAKE(fours, places, 3), MUSTER_OK);
    assert_string_equal(numbers(places, 3), "- - -");
}

/* *Filter*: a function of the program says how many run; that many do. It asks for more than
 * there are: EINVAL with both numbers. */
static void filters(void **state)
{
    static uint32_t asked;
    const struct muster_assignment_step steps[] = {
        {.kind = MUSTER_ASSIGN_SHIFT},
        {.kind = MUSTER_ASSIGN_FILTER, .filter = half, .arg = &asked}};
    const struct muster_assignment_step more[] = {
        {.kind = MUSTER_ASSIGN_SHIFT}, {.kind = MUSTER_ASSIGN_FILTER, .filter = one_more}};
    struct muster_place places[5];

    (void)state;
    asked = 0;
    world(places, 5, BIT(0));
    assert_int_equal(TAKE(steps, places, 5), MUSTER_OK);
    assert_string_equal(numbers(places, 5), "- 0 1 - -");
    assert_int_equal(asked, 1);
    world(places, 5, 0);
    assert_int_equal(TAKE(more, places, 5), MUSTER_EINVAL);
    assert_string_equal(why_line, "step 2 (filter): it says that 6 of 5 run");
    assert_int_equal(places[0].number, 12345);
}

/* ---- a step of one's own ---- */

struct wish {
    uint32_t number[4];
    muster_status status;
};

static muster_status as_wished(void *arg, struct muster_place *places, size_t count)
{
    const struct wish *wish = arg;

    for (size_t i = 0; i < count; i++) {
        places[i].number = wish->number[i];
        places[i].alive = true; /* not its business */
        places[i].index = 0;
    }
    return wish->status;
}

/* Four places, of which #1 is dead. */
static muster_status try_wish(struct wish wish, struct muster_place *places)
{
    const struct muster_assignment_step steps[] = {
        {.kind = MUSTER_ASSIGN_CUSTOM, .assign = as_wished, .arg = &wish}};

    world(places, 4, BIT(1));
    return TAKE(steps, places, 4);
}

/* *Custom*: a function of the program gives a rank to a dead one, the same rank to two, a rank
 * beyond the others, or fails. EINVAL says which process has which rank, and no number is
 * changed; its own status when it failed. What else it changes has no effect. */
static void dead_ranks_in_the_set_are_refused_82(void **state)
{
    static const uint32_t none = MUSTER_NUMBER_NONE;
    const struct {
        struct wish wish;
        muster_status status;
        const char *why;
    } cases[] = {
        {{{0, 1, 2, 3}, MUSTER_OK},
         MUSTER_EINVAL,
         "step 1 (custom): it gives rank 1 to #1, which is not alive"},
        {{{1, none, 1, 0}, MUSTER_OK},
         MUSTER_EINVAL,
         "step 1 (custom): it gives rank 1 to both #0 and #2"},
        {{{0, none, 2, none}, MUSTER_OK},
         MUSTER_EINVAL,
         "step 1 (custom): it gives rank 2 to #2, but 2 have one: ranks are numbered from 0 "
         "without "
         "gaps"},
        {{{none, none, 1, none}, MUSTER_OK},
         MUSTER_EINVAL,
         "step 1 (custom): it gives rank 1 to #2, but 1 has one: ranks are numbered from 0 without "
         "gaps"},
        {{{0, none, none - 1, 1}, MUSTER_OK},
         MUSTER_EINVAL,
         "step 1 (custom): it gives rank 4294967294 to #2, but 3 have one: ranks are numbered from "
         "0 "
         "without gaps"},
        {{{0, none, 1, 2}, MUSTER_EFAILED}, MUSTER_EFAILED, NULL},
        {{{0, none, 1, 2}, MUSTER_MORE}, MUSTER_EINVAL, NULL},
    };
    struct muster_place places[4];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(try_wish(cases[i].wish, places), cases[i].status);
        if (cases[i].why) {
            assert_string_equal(why_line, cases[i].why);
        }
        assert_int_equal(places[0].number, 12345);
    }
    assert_int_equal(try_wish((struct wish){{2, none, none, 0}, MUSTER_OK}, places), MUSTER_EINVAL);
    assert_int_equal(try_wish((struct wish){{2, none, 1, 0}, MUSTER_OK}, places), MUSTER_OK);
    assert_string_equal(numbers(places, 4), "2 - 1 0");
    assert_false(places[1].alive);
    assert_int_equal(places[3].index, 3);
}

/* ---- what is refused ---- */

static void key_all(void *arg, const struct muster_place *place, char *key, size_t room)
{
    (void)arg;
    (void)place;
    memset(key, 'x', room); /* without an end */
}

/* Steps stand in an order that makes no sense, or a field is missing or of no use. The
 * assignment fails with EINVAL, each rule with its own text that names the step. */
static void each_rule_has_its_text(void **state)
{
    static const struct muster_assignment_layer layer[MST_ASSIGNMENT_LAYERS_MAX + 1];
    static const struct muster_assignment_layer narrow[] = {{0}, {.min = 4, .max = 3}};
    static const struct muster_assignment_layer flagged[] = {{.flags = 4}};
    const struct {
        struct muster_assignment_step steps[3];
        size_t count;
        const char *why;
    } cases[] = {
        {{{0}}, 0, "it has no steps"},
        {{{0}}, 1, "step 1: there is no kind 0"},
        {{{.kind = MUSTER_ASSIGN_SHIFT}, {.kind = 9}}, 2, "step 2: there is no kind 9"},
        {{{.kind = MUSTER_ASSIGN_SHIFT, .count = 1}},
         1,
         "step 1 (shift): `count` means nothing here"},
        {{{.kind = MUSTER_ASSIGN_FILL_GAPS, .key = key_all}},
         1,
         "step 1 (fill gaps): `key` means nothing here"},
        {{{.kind = MUSTER_ASSIGN_SHIFT, .filter = half}},
         1,
         "step 1 (shift): `filter` means nothing here"},
        {{{.kind = MUSTER_ASSIGN_SHIFT, .assign = as_wished}},
         1,
         "step 1 (shift): `assign` means nothing here"},
        {{{.kind = MUSTER_ASSIGN_SHIFT, .layers = layer}},
         1,
         "step 1 (shift): `layers` mean nothing here"},
        {{{.kind = MUSTER_ASSIGN_GROUP}}, 1, "step 1 (group): `count` must be at least 1"},
        {{{.kind = MUSTER_ASSIGN_SHIFT}, {.kind = MUSTER_ASSIGN_MAX}},
         2,
         "step 2 (max): `count` must be at least 1"},
        {{{.kind = MUSTER_ASSIGN_SHIFT}, {.kind = MUSTER_ASSIGN_MULTIPLE}},
         2,
         "step 2 (multiple): `count` must be at least 1"},
        {{{.kind = MUSTER_ASSIGN_SHIFT}, {.kind = MUSTER_ASSIGN_FILTER}},
         2,
         "step 2 (filter): `filter` is missing"},
        {{{.kind = MUSTER_ASSIGN_CUSTOM}}, 1, "step 1 (custom): `assign` is missing"},
        {{{.kind = MUSTER_ASSIGN_TREE}}, 1, "step 1 (tree): it has no layers"},
        {{{.kind = MUSTER_ASSIGN_TREE, .layers = layer}}, 1, "step 1 (tree): it has no layers"},
        {{{.kind = MUSTER_ASSIGN_TREE, .layers = layer, .layer_count = 17}},
         1,
         "step 1 (tree): 17 layers, more than 16"},
        {{{.kind = MUSTER_ASSIGN_TREE, .layers = narrow, .layer_count = 2}},
         1,
         "step 1 (tree): layer 2: `max` is less than `min`"},
        {{{.kind = MUSTER_ASSIGN_TREE, .layers = flagged, .layer_count = 1}},
         1,
         "step 1 (tree): layer 1: there is no such flag"},
        {{{.kind = MUSTER_ASSIGN_MAX, .count = 6}},
         1,
         "step 1 (max): a step that numbers (shift, fill gaps, custom) must come first"},
        {{{.kind = MUSTER_ASSIGN_GROUP, .count = 2}},
         1,
         "step 1 (group): a step that numbers (shift, fill gaps, custom) must follow"},
        {{{.kind = MUSTER_ASSIGN_SHIFT}, {.kind = MUSTER_ASSIGN_GROUP, .count = 2}},
         2,
         "step 2 (group): a step that numbers (shift, fill gaps, custom) must follow"},
        {{{.kind = MUSTER_ASSIGN_SHIFT},
          {.kind = MUSTER_ASSIGN_GROUP, .count = 2},
          {.kind = MUSTER_ASSIGN_MAX, .count = 4}},
         3,
         "step 3 (max): a step that numbers (shift, fill gaps, custom) must stand between the "
         "group "
         "and it"},
        {{{.kind = MUSTER_ASSIGN_SHIFT},
          {.kind = MUSTER_ASSIGN_TREE, .layers = layer, .layer_count = 1}},
         2,
         "step 2 (tree): a tree does the work of all steps before it: it must be the first"},
        {{{.kind = MUSTER_ASSIGN_TREE, .layers = layer, .layer_count = 1},
          {.kind = MUSTER_ASSIGN_MAX, .count = 4}},
         2,
         "step 2 (max): after a tree only filters make sense"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct mst_text why = mst_text_in(why_line, sizeof(why_line));

        assert_int_equal(mst_assignment_check(cases[i].steps, cases[i].count, &why), MUSTER_EINVAL);
        assert_string_equal(why_line, cases[i].why);
    }
}

/* Places are not ascending, or one had a rank that cannot be. The assignment fails with EINVAL
 * that names it. */
static void what_places_must_be(void **state)
{
    struct muster_place places[3];

    (void)state;
    world(places, 3, 0);
    places[2].index = 1;
    assert_int_equal(TAKE(shift, places, 3), MUSTER_EINVAL);
    assert_string_equal(why_line,
                        "place #1 is not above the one before it: places must ascend by index");
    world(places, 3, 0);
    places[1].previous = MST_ASSIGNMENT_RANKS_MAX;
    assert_int_equal(TAKE(shift, places, 3), MUSTER_EINVAL);
    assert_string_equal(why_line, "place #1 had no such rank: ranks are below 2^20");
    places[1].previous = MST_ASSIGNMENT_RANKS_MAX - 1;
    assert_int_equal(TAKE(fill, places, 3), MUSTER_OK);
    assert_string_equal(numbers(places, 3), "0 1 2");
}

/* Two members say that they had the same rank, because one of them was left out in between. The
 * first by index had it, the other one is a newcomer. */
static void two_had_the_same_rank(void **state)
{
    static const struct muster_assignment_layer layers[] = {{.flags = MUSTER_LAYER_BACKFILL}};
    const struct muster_assignment_step tree[] = {
        {.kind = MUSTER_ASSIGN_TREE, .layers = layers, .layer_count = 1}};
    struct muster_place places[4];

    (void)state;
    world(places, 4, 0);
    places[2].previous = 0;
    assert_int_equal(TAKE(shift, places, 4), MUSTER_OK);
    assert_string_equal(numbers(places, 4), "0 1 3 2");
    assert_int_equal(TAKE(fill, places, 4), MUSTER_OK);
    assert_string_equal(numbers(places, 4), "0 1 2 3");
    assert_int_equal(TAKE(tree, places, 4), MUSTER_OK);
    assert_string_equal(numbers(places, 4), "0 1 3 2");
    places[0].alive = false; /* of a dead one it is no matter */
    assert_int_equal(TAKE(shift, places, 4), MUSTER_OK);
    assert_string_equal(numbers(places, 4), "- 1 0 2");
    assert_int_equal(TAKE(tree, places, 4), MUSTER_OK);
    assert_string_equal(numbers(places, 4), "- 1 0 2");
}

/* A key of the program has no end. It is cut. */
static void a_key_without_an_end(void **state)
{
    const struct muster_assignment_step steps[] = {
        {.kind = MUSTER_ASSIGN_GROUP, .count = 3, .key = key_all}, {.kind = MUSTER_ASSIGN_SHIFT}};
    struct muster_place places[3];

    (void)state;
    world(places, 3, 0);
    assert_int_equal(TAKE(steps, places, 3), MUSTER_OK);
    assert_string_equal(numbers(places, 3), "0 1 2");
}

/* An assignment finds no memory. It fails with ENOMEM, and no number is changed. */
static void each_allocation_fails_in_turn(void **state)
{
    static uint32_t two = 2;
    const struct muster_assignment_step steps[] = {
        {.kind = MUSTER_ASSIGN_GROUP, .count = 2, .key = pairs, .arg = &two},
        {.kind = MUSTER_ASSIGN_FILL_GAPS},
        {.kind = MUSTER_ASSIGN_MAX, .count = 4}};
    struct muster_place places[WORLD];

    (void)state;
    for (size_t at = 1;; at++) {
        muster_status status;

        failing_mem_init(&memory, at);
        world(places, WORLD, BIT(1));
        status = TAKE(steps, places, WORLD);
        if (!memory.failed) {
            assert_int_equal(status, MUSTER_OK);
            assert_string_equal(numbers(places, WORLD), "- - 2 3 - - 0 1");
            assert_true(at > 6);
            return;
        }
        assert_int_equal(status, MUSTER_ENOMEM);
        assert_int_equal(places[0].number, 12345);
        assert_string_not_equal(why_line, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shift_keeps_the_order_72),
        cmocka_unit_test(newcomers_come_last),
        cmocka_unit_test(fill_gaps_examples),
        cmocka_unit_test(fill_gaps_for_every_subset_73),
        cmocka_unit_test(whole_groups_74),
        cmocka_unit_test(left_out_come_back),
        cmocka_unit_test(at_most_and_multiple_77_78),
        cmocka_unit_test(filters),
        cmocka_unit_test(dead_ranks_in_the_set_are_refused_82),
        cmocka_unit_test(each_rule_has_its_text),
        cmocka_unit_test(what_places_must_be),
        cmocka_unit_test(two_had_the_same_rank),
        cmocka_unit_test(a_key_without_an_end),
        cmocka_unit_test(each_allocation_fails_in_turn),
    };

    failing_mem_init(&memory, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
