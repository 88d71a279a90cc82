/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of an assignment.
 *
 * All work on a copy of the places, in which `number` is the rank so far or NUMBER_NONE. Two kinds
 * of step: those that leave some out and those that number the others anew, and the rules of
 * mst_assignment_check are what keeps them in an order in which the numbers mean something: a GROUP
 * makes gaps, and what limits the size cuts at a number, so it needs numbers without gaps.
 *
 * At the end the numbers are checked, whichever step gave them: a permutation of 0 to n - 1 over
 * places that are alive. A dead rank that stays in a world is not found otherwise. */
#include "restart/assignment.h"

#include <string.h>

#include "base/panic.h"
#include "base/tree.h"
#include "proto/status.h"
#include "restart/layers.h"

/* What a kind needs; the others of these are refused, because they would be ignored. */
enum { COUNT = 1, KEY = 2, FILTER = 4, ASSIGN = 8, LAYERS = 16, KEY_OPTIONAL = 32 };

static const struct {
    const char *name;
    unsigned takes;
    bool renumbers; /* without gaps, from 0 */
} kinds[] = {
    [MUSTER_ASSIGN_SHIFT] = {"shift", 0, true},
    [MUSTER_ASSIGN_FILL_GAPS] = {"fill gaps", 0, true},
    [MUSTER_ASSIGN_GROUP] = {"group", COUNT | KEY | KEY_OPTIONAL, false},
    [MUSTER_ASSIGN_MAX] = {"max", COUNT, false},
    [MUSTER_ASSIGN_MULTIPLE] = {"multiple", COUNT, false},
    [MUSTER_ASSIGN_FILTER] = {"filter", FILTER, false},
    [MUSTER_ASSIGN_TREE] = {"tree", LAYERS, true},
    [MUSTER_ASSIGN_CUSTOM] = {"custom", ASSIGN, true},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static bool known(const struct muster_assignment_step *step)
{
    const unsigned kind = (unsigned)step->kind;

    return kind > 0 && kind < KINDS;
}

/* "step 2 (max): " */
static void say_step(struct mst_text *why, const struct muster_assignment_step *step, size_t at)
{
    if (known(step)) {
        mst_text_format(why, "step %zu (%s): ", at + 1, kinds[step->kind].name);
    } else {
        mst_text_format(why, "step %zu: ", at + 1);
    }
}

static muster_status refuse(struct mst_text *why, const char *words)
{
    mst_text_add(why, words);
    return MUSTER_EINVAL;
}

/* ---- the rules ---- */

static muster_status check_fields(const struct muster_assignment_step *step, struct mst_text *why)
{
    const struct {
        unsigned field;
        bool is_set;
        const char *missing, *surplus;
    } fields[] = {
        {COUNT, step->count != 0, "`count` must be at least 1", "`count` means nothing here"},
        {KEY, step->key != NULL, NULL, "`key` means nothing here"},
        {FILTER, step->filter != NULL, "`filter` is missing", "`filter` means nothing here"},
        {ASSIGN, step->assign != NULL, "`assign` is missing", "`assign` means nothing here"},
        {LAYERS, step->layers != NULL || step->layer_count != 0, "it has no layers",
         "`layers` mean nothing here"},
    };
    const unsigned takes = kinds[step->kind].takes;

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (fields[i].is_set && !(takes & fields[i].field)) {
            return refuse(why, fields[i].surplus);
        }
        if (!fields[i].is_set && (takes & fields[i].field) && fields[i].missing) {
            return refuse(why, fields[i].missing);
        }
    }
    return MUSTER_OK;
}

/* `gaps`: some were left out since the numbers were without gaps, or they never were. */
static muster_status check_order(const struct muster_assignment_step *steps, size_t at, bool gaps,
                                 struct mst_text *why)
{
    const struct muster_assignment_step *step = &steps[at];

    if (at > 0 && step->kind == MUSTER_ASSIGN_TREE) {
        return refuse(why, "a tree does the work of all steps before it: it must be the first");
    }
    if (at > 0 && steps[0].kind == MUSTER_ASSIGN_TREE && step->kind != MUSTER_ASSIGN_FILTER) {
        return refuse(why, "after a tree only filters make sense");
    }
    if (gaps && !kinds[step->kind].renumbers && step->kind != MUSTER_ASSIGN_GROUP) {
        return refuse(why, at == 0
                               ? "a step that numbers (shift, fill gaps, custom) must come first"
                               : "a step that numbers (shift, fill gaps, custom) must stand "
                                 "between the group and it");
    }
    return MUSTER_OK;
}

static muster_status check_step(const struct muster_assignment_step *steps, size_t at, bool gaps,
                                struct mst_text *why)
{
    const struct muster_assignment_step *step = &steps[at];
    muster_status status;

    say_step(why, step, at);
    if (!known(step)) {
        mst_text_format(why, "there is no kind %" PRId64, (int64_t)step->kind);
        return MUSTER_EINVAL;
    }
    status = check_fields(step, why);
    if (status == MUSTER_OK) {
        status = check_order(steps, at, gaps, why);
    }
    if (status == MUSTER_OK && step->kind == MUSTER_ASSIGN_TREE) {
        status = mst_layers_check(step->layers, step->layer_count, why);
    }
    return status;
}

muster_status mst_assignment_check(const struct muster_assignment_step *steps, size_t count,
                                   struct mst_text *why)
{
    const struct mst_text before = *why;
    bool gaps = true;

    if (!steps || count == 0) {
        return refuse(why, "it has no steps");
    }
    for (size_t i = 0; i < count; i++) {
        if (check_step(steps, i, gaps, why) != MUSTER_OK) {
            return MUSTER_EINVAL;
        }
        *why = before; /* what the step was called is of no interest any more */
        why->start[why->size] = '\0';
        gaps = steps[i].kind == MUSTER_ASSIGN_GROUP || (gaps && !kinds[steps[i].kind].renumbers);
    }
    if (gaps) {
        say_step(why, &steps[count - 1], count - 1);
        return refuse(why, "a step that numbers (shift, fill gaps, custom) must follow");
    }
    return MUSTER_OK;
}

/* ---- the work ---- */

struct work {
    const struct muster_place *given;
    struct muster_place *places; /* a copy of them */
    size_t count;
    const struct mst_mem *mem;
    struct mst_text *why;
    uint32_t *at;   /* by number: 1 + the position in `places` of the one that has it; 0: none */
    uint32_t bound; /* all numbers are below it; the room of `at` */
    bool renumbered;
};

static bool takes_part(const struct muster_place *place)
{
    return place->number != MUSTER_NUMBER_NONE;
}

static uint32_t count_numbered(const struct work *work)
{
    uint32_t count = 0;

    for (size_t i = 0; i < work->count; i++) {
        count += takes_part(&work->places[i]) ? 1 : 0;
    }
    return count;
}

/* Puts each place at its number. False: two have the same; `why` names them. */
static bool sort_by_number(struct work *work)
{
    memset(work->at, 0, work->bound * sizeof(*work->at));
    for (size_t i = 0; i < work->count; i++) {
        const struct muster_place *place = &work->places[i];

        if (!takes_part(place)) {
            continue;
        }
        MST_ASSERT(place->number < work->bound);
        if (work->at[place->number] != 0) {
            mst_text_format(work->why, "it gives rank %u to both #%u and #%u", place->number,
                            work->places[work->at[place->number] - 1].index, place->index);
            return false;
        }
        work->at[place->number] = (uint32_t)i + 1;
    }
    return true;
}

static void sort_unique(struct work *work)
{
    MST_ASSERT(sort_by_number(work));
}

static void shift(struct work *work)
{
    uint32_t next = 0;

    sort_unique(work);
    for (uint32_t number = 0; number < work->bound; number++) {
        if (work->at[number] != 0) {
            work->places[work->at[number] - 1].number = next++;
        }
    }
}

/* Whether a place has this number and keeps it in a world of `size`. A newcomer's number only says
 * that it comes after all others. */
static bool is_kept(const struct work *work, uint32_t number, uint32_t size)
{
    const uint32_t at = work->at[number];

    return at != 0 && number < size &&
           (work->renumbered || work->places[at - 1].previous != MUSTER_NUMBER_NONE);
}

/* The places that move take, in order, the numbers that no place keeps. There are as many of each,
 * since either together with the kept ones are `size`. */
static void fill_gaps(struct work *work)
{
    const uint32_t size = count_numbered(work);
    uint32_t gap = 0;

    sort_unique(work);
    for (uint32_t number = 0; number < work->bound; number++) {
        if (work->at[number] == 0 || is_kept(work, number, size)) {
            continue;
        }
        while (is_kept(work, gap, size)) {
            gap++;
        }
        work->places[work->at[number] - 1].number = gap++;
    }
}

/* ---- groups ---- */

struct group {
    struct mst_tree_node node;
    struct group *next; /* of all, to release them */
    uint32_t members;
    size_t size;
    char key[];
};

static int by_key(const void *key, const struct mst_tree_node *node)
{
    const struct group *group = (const struct group *)(const void *)node; /* its first member */

    return mst_slice_compare(*(const struct mst_slice *)key,
                             (struct mst_slice){group->key, group->size});
}

void mst_assignment_key(muster_assignment_key *call, void *arg, const struct muster_place *place,
                        char key[MST_ASSIGNMENT_KEY_ROOM])
{
    key[0] = '\0';
    if (call) {
        call(arg, place, key, MST_ASSIGNMENT_KEY_ROOM);
    } else if (place->label) {

        mst_text_print(key, MST_ASSIGNMENT_KEY_ROOM, "%s", place->label);
    }
    key[MST_ASSIGNMENT_KEY_ROOM - 1] = '\0';
}

/* The group of a place, made if it is the first of it; NULL: no memory. */
static struct group *group_of(struct mst_tree *tree, struct group **all, const struct mst_mem *mem,
                              const char *key)
{
    const struct mst_slice name = mst_slice_text(key);
    struct mst_tree_node *node = mst_tree_find(tree, &name);
    struct group *group;

    if (node) {
        return MST_CONTAINER(node, struct group, node);
    }
    group = mst_mem_zalloc(mem, sizeof(*group) + name.size);
    if (group) {
        memcpy(group->key, key, name.size);
        group->size = name.size;
        group->next = *all;
        *all = group;
        mst_tree_insert(tree, &name, &group->node);
    }
    return group;
}

static muster_status leave_out_groups(struct work *work, const struct muster_assignment_step *step)
{
    struct group **of = mst_mem_array(work->mem, work->count, sizeof(struct group *));
    muster_status status = of ? MUSTER_OK : MUSTER_ENOMEM;
    struct group *all = NULL;
    struct mst_tree tree;

    mst_tree_init(&tree, by_key);
    for (size_t i = 0; status == MUSTER_OK && i < work->count; i++) {
        char key[MST_ASSIGNMENT_KEY_ROOM];

        if (!takes_part(&work->places[i])) {
            continue;
        }
        mst_assignment_key(step->key, step->arg, &work->places[i], key);
        of[i] = group_of(&tree, &all, work->mem, key);
        if (!of[i]) {
            status = MUSTER_ENOMEM;
            break;
        }
        of[i]->members++;
    }
    for (size_t i = 0; status == MUSTER_OK && i < work->count; i++) {
        if (of[i] && of[i]->members != step->count) {
            work->places[i].number = MUSTER_NUMBER_NONE;
        }
    }
    while (all) {
        struct group *group = all;

        all = group->next;
        mst_mem_release(work->mem, group);
    }
    mst_mem_release(work->mem, of);
    return status;
}

/* ---- how many ---- */

static void limit(struct work *work, uint32_t size)
{
    for (size_t i = 0; i < work->count; i++) {
        struct muster_place *place = &work->places[i];

        if (takes_part(place) && place->number >= size) {
            place->number = MUSTER_NUMBER_NONE;
        }
    }
}

static muster_status filter(struct work *work, const struct muster_assignment_step *step)
{
    const uint32_t size = count_numbered(work);
    const uint32_t wanted = step->filter(step->arg, size);

    if (wanted > size) {
        mst_text_format(work->why, "it says that %u of %u run", wanted, size);
        return MUSTER_EINVAL;
    }
    limit(work, wanted);
    return MUSTER_OK;
}

/* ---- the end, and what a user's own step said ---- */

/* A permutation of 0 to n - 1 over some of those that are alive. */
static muster_status check_numbers(struct work *work)
{
    const uint32_t size = count_numbered(work);

    for (size_t i = 0; i < work->count; i++) {
        const struct muster_place *place = &work->places[i];

        if (!takes_part(place) || (place->alive && place->number < size)) {
            continue;
        }
        if (!place->alive) {
            mst_text_format(work->why, "it gives rank %u to #%u, which is not alive", place->number,
                            place->index);
        } else {
            mst_text_format(work->why,
                            "it gives rank %u to #%u, but %u %s one: ranks are numbered from 0 "
                            "without gaps",
                            place->number, place->index, size, size == 1 ? "has" : "have");
        }
        return MUSTER_EINVAL;
    }
    return sort_by_number(work) ? MUSTER_OK : MUSTER_EINVAL;
}

static muster_status custom(struct work *work, const struct muster_assignment_step *step)
{
    const muster_status status = step->assign(step->arg, work->places, work->count);

    for (size_t i = 0; i < work->count; i++) { /* only the numbers are its own to change */
        const uint32_t number = work->places[i].number;

        work->places[i] = work->given[i];
        work->places[i].number = number;
    }
    if (status == MUSTER_OK) {
        return check_numbers(work);
    }
    mst_text_format(work->why, "it failed: %s", mst_status_text(status));
    return status < 0 ? status : MUSTER_EINVAL;
}

static muster_status take(struct work *work, const struct muster_assignment_step *step)
{
    switch (step->kind) {
    case MUSTER_ASSIGN_SHIFT:
        shift(work);
        return MUSTER_OK;
    case MUSTER_ASSIGN_FILL_GAPS:
        fill_gaps(work);
        return MUSTER_OK;
    case MUSTER_ASSIGN_GROUP:
        return leave_out_groups(work, step);
    case MUSTER_ASSIGN_MAX:
        limit(work, step->count);
        return MUSTER_OK;
    case MUSTER_ASSIGN_MULTIPLE:
        limit(work, count_numbered(work) / step->count * step->count);
        return MUSTER_OK;
    case MUSTER_ASSIGN_FILTER:
        return filter(work, step);
    case MUSTER_ASSIGN_TREE:
        return mst_layers_apply(step->layers, step->layer_count, work->places, work->count,
                                work->mem, work->why);
    case MUSTER_ASSIGN_CUSTOM:
        return custom(work, step);
    }
    mst_panic(__FILE__, __LINE__, "a step of no kind");
}

/* ---- the beginning ---- */

static muster_status check_places(const struct muster_place *places, size_t count,
                                  struct mst_text *why)
{
    for (size_t i = 0; i < count; i++) {
        const struct muster_place *place = &places[i];
        const char *words = NULL;

        if (i > 0 && place->index <= places[i - 1].index) {
            words = " is not above the one before it: places must ascend by index";
        } else if (place->previous != MUSTER_NUMBER_NONE &&
                   place->previous >= MST_ASSIGNMENT_RANKS_MAX) {
            words = " had no such rank: ranks are below 2^20";
        }
        if (words) {
            mst_text_format(why, "place #%u%s", place->index, words);
            return MUSTER_EINVAL;
        }
    }
    if (count > MST_ASSIGNMENT_RANKS_MAX) {
        return refuse(why, "more than 2^20 places");
    }
    return MUSTER_OK;
}

/* Each place reports its last rank itself, and a place that was left out in between reports an
 * older attempt's. Of two places with the same rank the first by index had it, and the other one is
 * a newcomer: any answer will do, as one rank gives it for all. */
static void number_first(struct work *work, uint32_t newcomers)
{
    for (size_t i = 0; i < work->count; i++) {
        struct muster_place *place = &work->places[i];

        *place = work->given[i];
        if (!place->alive) {
            place->number = MUSTER_NUMBER_NONE;
            continue;
        }
        if (place->previous != MUSTER_NUMBER_NONE && work->at[place->previous]++ > 0) {
            place->previous = MUSTER_NUMBER_NONE;
        }
        place->number = place->previous == MUSTER_NUMBER_NONE ? newcomers++ : place->previous;
    }
}

/* A place of the last attempt has its rank of then; newcomers come after all others, by index. */
static muster_status begin(struct work *work)
{
    uint32_t next = 0;

    for (size_t i = 0; i < work->count; i++) {
        if (work->given[i].previous != MUSTER_NUMBER_NONE && work->given[i].previous >= next) {
            next = work->given[i].previous + 1;
        }
    }
    work->bound = next + (uint32_t)work->count + 1;
    work->at = mst_mem_array(work->mem, work->bound, sizeof(*work->at));
    work->places = mst_mem_array(work->mem, work->count, sizeof(*work->places));
    if (!work->at || !work->places) {
        return MUSTER_ENOMEM;
    }
    number_first(work, next);
    return MUSTER_OK;
}

static muster_status take_all(struct work *work, const struct muster_assignment_step *steps,
                              size_t count)
{
    const struct mst_text before = *work->why;

    for (size_t i = 0; i < count; i++) {
        muster_status status;

        say_step(work->why, &steps[i], i);
        status = take(work, &steps[i]);
        if (status != MUSTER_OK) {
            return status;
        }
        *work->why = before;
        work->why->start[before.size] = '\0';
        work->renumbered = work->renumbered || kinds[steps[i].kind].renumbers;
    }
    return check_numbers(work);
}

muster_status mst_assignment_apply(const struct muster_assignment_step *steps, size_t count,
                                   struct muster_place *places, size_t place_count,
                                   const struct mst_mem *mem, struct mst_text *why)
{
    struct work work = {.given = places, .count = place_count, .mem = mem, .why = why};
    muster_status status = mst_assignment_check(steps, count, why);

    if (status == MUSTER_OK) {
        status = check_places(places, place_count, why);
    }
    if (status != MUSTER_OK || place_count == 0) {
        return status;
    }
    status = begin(&work);
    if (status == MUSTER_OK) {
        status = take_all(&work, steps, count);
    }
    for (size_t i = 0; status == MUSTER_OK && i < place_count; i++) {
        places[i].number = work.places[i].number;
    }
    if (status == MUSTER_ENOMEM) {
        mst_text_add(why, mst_status_text(status));
    }
    mst_mem_release(mem, work.at);
    mst_mem_release(mem, work.places);
    return status;
}
