/* SPDX-License-Identifier: Apache-2.0 */
/* The sentences of `muster why`, and what it adds up.
 *
 * behaviour: generations / What happened to a job */
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

#include "service/page/page.h"
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
    struct mst_item again = sealed(4, 4, 1);

    (void)state;
    expect(sealed(0, 1, 0), "started", "started with 1 rank, generation 7");
    again.step = 1;
    expect(again, "restarted", "restarted with 4 of 4 ranks, generation 7; 1 step repeated");
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

/* All processes of a run begin anew. The reason stands behind it. */
static void beginning_anew_says_why(void **state)
{
    struct mst_item group = {.incident = MST_INCIDENT_GROUP, .expected = 2};

    (void)state;
    expect(group, "all-restarted", "all processes are to begin anew (2)");
    group.value = mst_slice_text("#0 failed");
    expect(group, "all-restarted", "all processes are to begin anew (2): #0 failed");
}

/* A node is lost with its ranks, or has none. */
static void a_lost_node_says_how_many_ranks_it_had(void **state)
{
    struct mst_item node = {.incident = MST_INCIDENT_NODE,
                            .who = {.index = 1, .host = mst_slice_text("b2")}};

    (void)state;
    expect(node, "node-lost", "node 1 (b2) was lost");
    node.expected = 1;
    expect(node, "node-lost", "node 1 (b2) was lost with 1 rank");
    node.expected = 8;
    expect(node, "node-lost", "node 1 (b2) was lost with 8 ranks");
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

/* The page colours incidents by their word. It knows each. [http / The page] */
static void the_page_knows_each_word(void **state)
{
    static const struct mst_item generations[] = {{.expected = 1},
                                                  {.arrived = 1, .expected = 1, .total = 1},
                                                  {.arrived = 1, .expected = 2},
                                                  {.arrived = 1, .expected = 1}};
    const struct mst_page_part *script = mst_page_part("/page.js");

    (void)state;
    for (int kind = MST_INCIDENT_SEALED; kind <= MST_INCIDENT_LAST; kind++) {
        for (size_t i = 0; i < LENGTH(generations); i++) {
            struct mst_item incident = generations[i];
            char bare[64], quoted[64];

            incident.incident = (enum mst_incident_kind)kind;
            (void)snprintf(bare, sizeof(bare), " %s: [", mst_story_word(&incident));
            (void)snprintf(quoted, sizeof(quoted), " \"%s\": [", mst_story_word(&incident));
            assert_true(memmem(script->text, script->size, bare, strlen(bare)) != NULL ||
                        memmem(script->text, script->size, quoted, strlen(quoted)) != NULL);
        }
    }
}

static struct mst_item at(struct mst_item incident, uint64_t ago_ms, uint64_t took_ms)
{
    incident.who.heard_ms = ago_ms;
    incident.gather_ms = took_ms;
    return incident;
}

static void expect_gap(const struct mst_story *story, const struct mst_items *history,
                       struct mst_story_walk *walk, uint64_t from_ms, uint64_t to_ms, bool idle,
                       const struct mst_item *of)
{
    struct mst_story_gap gap;

    assert_true(mst_story_gap(story, history, walk, &gap));
    assert_int_equal(gap.from_ms, from_ms);
    assert_int_equal(gap.to_ms, to_ms);
    assert_int_equal(gap.idle, idle);
    assert_ptr_equal(gap.of, of);
}

/* Ranks are lost, and the others go on without them for a while; at the end none goes on. The time
 * without all ranks is that of the restarts, that with fewer ranks, and that since the last loss.
 */
static void time_without_all_ranks_is_added_up(void **state)
{
    struct mst_item items[] = {at(sealed(0, 4, 0), 1000, 0), at(lost(3), 800, 0),
                               at(sealed(4, 3, 1), 700, 100), at(sealed(3, 4, 0), 400, 50),
                               at(lost(2), 30, 0)};
    const struct mst_items history = {.items = items, .count = LENGTH(items)};
    struct mst_story_gap none;
    struct mst_story story;
    struct mst_story_walk walk = {0};

    (void)state;
    mst_story_of(&history, &story);
    assert_int_equal(story.away_ms, 150);
    assert_int_equal(story.without_ms, 100 + 250 + 50 + 30);
    expect_gap(&story, &history, &walk, 200, 300, true, &items[2]);
    expect_gap(&story, &history, &walk, 300, 550, false, &items[2]);
    expect_gap(&story, &history, &walk, 550, 600, true, &items[3]);
    expect_gap(&story, &history, &walk, 970, 1000, true, &items[4]);
    assert_false(mst_story_gap(&story, &history, &walk, &none));
}

/* A service remembers as many incidents as it may. All is added up in no time, for each refresh of
 * a page. */
static void a_long_history_is_added_up_at_once(void **state)
{
    enum { ALL = 65536 };
    struct mst_items history = {.items = calloc(ALL, sizeof(struct mst_item)), .count = ALL};
    clock_t began = clock();
    struct mst_story story;

    (void)state;
    assert_non_null(history.items);
    for (uint32_t i = 0; i < ALL; i++) {
        history.items[i] = at(sealed(4, i % 2 == 0 ? 4 : 3, 1), ALL - i, 0);
    }
    mst_story_of(&history, &story);
    assert_int_equal(story.without_ms, ALL / 2);
    assert_true((clock() - began) / (CLOCKS_PER_SEC / 1000) < 500);
    free(history.items);
}

static void expect_advice_of(struct mst_item *items, size_t count, const struct mst_item *ended_by,
                             const char *wanted)
{
    const struct mst_items history = {.items = items, .count = count};
    char line[256];
    struct mst_text text = mst_text_in(line, sizeof(line));

    mst_story_advice(&text, &history, ended_by);
    assert_string_equal(line, wanted);
}

static void expect_advice(struct mst_item *items, size_t count, const char *wanted)
{
    expect_advice_of(items, count, NULL, wanted);
}

static struct mst_item lost_on(const char *host, enum mst_cause cause)
{
    struct mst_item incident = lost(1);

    incident.who.host = mst_slice_text(host);
    incident.who.cause = cause;
    return incident;
}

/* What to do is said of the last interruption; if one host of several has nearly all losses, of
 * that host. */
static void the_last_interruption_or_a_bad_host_is_the_advice(void **state)
{
    struct mst_item one[] = {lost_on("a", MST_CAUSE_LEASE), sealed(4, 4, 1)};
    struct mst_item bad[] = {lost_on("a", MST_CAUSE_EXIT), lost_on("b", MST_CAUSE_EXIT),
                             lost_on("b", MST_CAUSE_EXIT), lost_on("b", MST_CAUSE_EXIT)};
    struct mst_item few[] = {lost_on("a", MST_CAUSE_EXIT), too_few(1, 2)};

    (void)state;
    expect_advice(one, 0, "");
    expect_advice(one, LENGTH(one),
                  "look at that host and its network: it sent nothing for longer than the lease");
    expect_advice(bad, LENGTH(bad),
                  "3 of 4 losses and faults were on b: keep it out with --avoid b");
    expect_advice(bad + 1, 3, "read its last words: it ended by itself");
    expect_advice(few, LENGTH(few), "start more ranks, or let it go on with fewer (--min-size)");
}

/* A rank is silent, and others end because of it: the advice is of the first. If the run knows what
 * ended it, the advice is of that. The loss of a worker is none of those that end a generation. */
static void the_advice_is_of_the_first_cause(void **state)
{
    const char *silent =
        "look at that host and its network: it sent nothing for longer than the lease";
    struct mst_item all[] = {lost_on("a", MST_CAUSE_EXIT), sealed(4, 4, 1),
                             lost_on("a", MST_CAUSE_LEASE), lost_on("b", MST_CAUSE_EXIT)};
    const struct mst_item known = lost_on("b", MST_CAUSE_UNHEALTHY);
    struct mst_item worker = lost_on("b", MST_CAUSE_EXIT);

    (void)state;
    expect_advice(all, 4, silent);
    expect_advice_of(
        all, 4, &known,
        "its health check or heartbeats failed: look at that host, and keep it out with --avoid");
    expect_advice(all, 2, "read its last words: it ended by itself");
    worker.who.rank = MST_RANK_NONE;
    all[3] = worker;
    expect_advice(all, 4, silent);
    all[2] = sealed(4, 4, 0);
    expect_advice(all, 4, "read its last words: it ended by itself");
    all[2] = too_few(1, 2);
    expect_advice_of(all, 3, &known, "start more ranks, or let it go on with fewer (--min-size)");
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
        cmocka_unit_test(beginning_anew_says_why),
        cmocka_unit_test(a_lost_node_says_how_many_ranks_it_had),
        cmocka_unit_test(all_is_added_up),
        cmocka_unit_test(the_page_knows_each_word),
        cmocka_unit_test(time_without_all_ranks_is_added_up),
        cmocka_unit_test(a_long_history_is_added_up_at_once),
        cmocka_unit_test(the_last_interruption_or_a_bad_host_is_the_advice),
        cmocka_unit_test(the_advice_is_of_the_first_cause),
        cmocka_unit_test(no_moment_is_before_the_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
