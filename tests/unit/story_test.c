/* SPDX-License-Identifier: Apache-2.0 */
/* The sentences of `muster why`, and what it adds up.
 *
 * behaviour: generations / What happened to a job */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "view/story.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static struct mst_item sealed(uint32_t before, uint32_t after, uint32_t total)
{
    return (struct mst_item){.incident = MST_INCIDENT_SEALED,
                             .number = 7,
                             .arrived = before,
                             .expected = after,
                             .total = total};
}

static struct mst_item lost(uint32_t rank)
{
    return (struct mst_item){
        .incident = MST_INCIDENT_LOST,
        .who = {.index = 3, .rank = rank, .role = MST_ROLE_RANK, .cause = MST_CAUSE_EXIT}};
}

static struct mst_item too_few(uint32_t there, uint32_t needed)
{
    return (struct mst_item){
        .incident = MST_INCIDENT_TOO_FEW, .arrived = there, .expected = needed};
}

static void expect(struct mst_item incident, const char *word, const char *sentence)
{
    char line[256];
    struct mst_text text = mst_text_in(line, sizeof(line));

    mst_story_sentence(&text, &incident);
    assert_string_equal(line, sentence);
    assert_string_equal(mst_story_word(&incident), word);
}

/* A generation begins. Its sentence and its word say whether anything had failed, and how many
 * ranks there were before and are now. */
static void a_generation_says_how_it_began(void **state)
{
    (void)state;
    expect(sealed(0, 1, 0), "started", "started with 1 rank, generation 7");
    expect(sealed(4, 4, 1), "restarted", "restarted with 4 of 4 ranks, generation 7");
    expect(sealed(4, 3, 1), "restarted", "restarted with 3 of 4 ranks, generation 7");
    expect(sealed(3, 5, 1), "restarted", "restarted, and grew from 3 to 5 ranks, generation 7");
    expect(sealed(100, 1, 99), "restarted",
           "restarted with 1 of 100 ranks after 99 faults and losses, generation 7");
    expect(sealed(3, 5, 0), "grew", "grew from 3 to 5 ranks, generation 7");
    expect(sealed(5, 4, 0), "began-again", "began again with 4 ranks, generation 7");
}

/* Too few ranks are there; or enough, of which too few would have a seat. */
static void too_few_says_what_is_missing(void **state)
{
    (void)state;
    expect(too_few(1, 2), "too-few", "could not go on: 1 rank is here, and 2 are needed");
    expect(too_few(3, 2), "too-few",
           "could not go on: 3 ranks are here, and fewer than 2 of them would have a seat");
}

/* What happened is added up: restarts after faults and losses, growth, and the losses that have no
 * line of their own, but for a generation of which the beginning is forgotten. */
static void all_is_added_up(void **state)
{
    struct mst_item items[] = {lost(3),        sealed(9, 8, 6),     sealed(8, 9, 0),
                               lost(1),        lost(MST_RANK_NONE), sealed(9, 1, 99),
                               sealed(1, 1, 0)};
    const struct mst_items history = {.items = items, .count = LENGTH(items)};
    struct mst_story story;

    (void)state;
    mst_story_of(&history, &story);
    assert_int_equal(story.restarts, 2);
    assert_int_equal(story.grown, 1);
    assert_int_equal(story.lost, 3);
    assert_int_equal(story.unlisted, 98);
    assert_false(story.from_the_start);
}

/* The second page of a list is a moment younger than the first. No incident is before the first. */
static void no_moment_is_before_the_first(void **state)
{
    struct mst_item late = lost(1);
    const struct mst_story story = {.age_ms = 40};

    (void)state;
    late.who.heard_ms = 10;
    assert_int_equal(mst_story_moment_ms(&story, &late), 30);
    late.who.heard_ms = 41;
    assert_int_equal(mst_story_moment_ms(&story, &late), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_generation_says_how_it_began),
        cmocka_unit_test(too_few_says_what_is_missing),
        cmocka_unit_test(all_is_added_up),
        cmocka_unit_test(no_moment_is_before_the_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
