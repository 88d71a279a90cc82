/* SPDX-License-Identifier: Apache-2.0 */
/* What the library offers of assignments: keys ready to use, and trying one without a job.
 *
 * behaviour: restart / Assignment */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "muster/muster.h"

#define STEPS(steps)                                                                               \
    {                                                                                              \
        .size = sizeof(struct muster_assignment), .list = (steps),                                 \
        .count = sizeof(steps) / sizeof((steps)[0])                                                \
    }

enum { KEY_ROOM = 32, WORLD = 6 };

static void world(struct muster_place *places)
{
    static const char *const hosts[] = {"b1", "b2", "b1", "b2", "b3", NULL};

    for (uint32_t i = 0; i < WORLD; i++) {
        places[i] = (struct muster_place){.index = i,
                                          .alive = true,
                                          .number = i,
                                          .previous = i,
                                          .node = i < 3 ? 7 : MUSTER_NUMBER_NONE,
                                          .host = hosts[i]};
    }
}

static void asks(muster_assignment_key *key, void *arg, const struct muster_place *place,
                 const char *answer)
{
    char line[KEY_ROOM];

    memset(line, 'x', sizeof(line));
    key(arg, place, line, sizeof(line));
    assert_string_equal(line, answer);
}

/* A program tries an assignment with keys that are ready to use, without a job. It gets the
 * numbers. */
static void keys_ready_to_use(void **state)
{
    struct muster_place places[WORLD];
    uint32_t two = 2;
    uint32_t zero = 0;

    (void)state;
    world(places);
    asks(muster_assignment_key_host, NULL, &places[1], "b2");
    asks(muster_assignment_key_host, NULL, &places[5], "");
    asks(muster_assignment_key_node, NULL, &places[0], "7");
    asks(muster_assignment_key_node, NULL, &places[3], "");
    asks(muster_assignment_key_block, &two, &places[5], "2");
    asks(muster_assignment_key_block, &zero, &places[5], "0");
    asks(muster_assignment_key_all, NULL, &places[5], "");
    places[5].number = MUSTER_NUMBER_NONE;
    asks(muster_assignment_key_block, &two, &places[5], "2");
    places[5].previous = MUSTER_NUMBER_NONE;
    asks(muster_assignment_key_block, &two, &places[5], "");
}

/* Each process has made its key itself, as its label. A layer takes as many parts of it. */
static void parts_of_the_label_are_keys(void **state)
{
    struct muster_place places[WORLD];
    uint32_t parts[] = {0, 1, 2, 3, 9};

    (void)state;
    world(places);
    places[1].label = "pod3/rack7/b2";
    asks(muster_assignment_key_label, NULL, &places[1], "pod3/rack7/b2");
    asks(muster_assignment_key_label, &parts[0], &places[1], "pod3/rack7/b2");
    asks(muster_assignment_key_label, &parts[1], &places[1], "pod3");
    asks(muster_assignment_key_label, &parts[2], &places[1], "pod3/rack7");
    asks(muster_assignment_key_label, &parts[3], &places[1], "pod3/rack7/b2");
    asks(muster_assignment_key_label, &parts[4], &places[1], "pod3/rack7/b2");
    places[1].label = "/b2";
    asks(muster_assignment_key_label, &parts[1], &places[1], "");
    asks(muster_assignment_key_label, &parts[2], &places[1], "/b2");
    places[1].label = NULL;
    asks(muster_assignment_key_label, &parts[1], &places[1], "");
}

/* A program tries an assignment without a job. It gets the numbers, or the one line that says
 * what is wrong. */
static void tried_without_a_job(void **state)
{
    const struct muster_assignment_step whole_hosts[] = {
        {.kind = MUSTER_ASSIGN_GROUP, .count = 2, .key = muster_assignment_key_host},
        {.kind = MUSTER_ASSIGN_FILL_GAPS}};
    uint32_t three = 3;
    const struct muster_assignment_layer layers[] = {
        {.key = muster_assignment_key_all},
        {.key = muster_assignment_key_block, .arg = &three, .flags = MUSTER_LAYER_BACKFILL}};
    const struct muster_assignment_step tree[] = {
        {.kind = MUSTER_ASSIGN_TREE, .layers = layers, .layer_count = 2}};
    const struct muster_assignment hosts = STEPS(whole_hosts);
    const struct muster_assignment blocks = STEPS(tree);
    static const uint32_t by_host[WORLD] = {0, 1, 2, 3, MUSTER_NUMBER_NONE, MUSTER_NUMBER_NONE};
    static const uint32_t by_block[WORLD] = {MUSTER_NUMBER_NONE, 1, 0, 2, 3, 4};
    struct muster_place places[WORLD];

    (void)state;
    world(places);
    assert_int_equal(muster_assignment_try(&hosts, places, WORLD, NULL), MUSTER_OK);
    for (size_t i = 0; i < WORLD; i++) {
        assert_int_equal(places[i].number, by_host[i]);
    }
    world(places);
    places[0].alive = false;
    assert_int_equal(muster_assignment_try(&blocks, places, WORLD, NULL), MUSTER_OK);
    for (size_t i = 0; i < WORLD; i++) {
        assert_int_equal(places[i].number, by_block[i]);
    }
}

static muster_status fails(void *arg, struct muster_place *places, size_t count)
{
    (void)arg;
    (void)places;
    (void)count;
    return MUSTER_ENOTFOUND;
}

/* A program tries an assignment that is wrong. It gets the one line that says what is wrong. */
static void errors_are_one_line(void **state)
{
    const struct muster_assignment_step max[] = {{.kind = MUSTER_ASSIGN_MAX, .count = 4}};
    const struct muster_assignment_step own[] = {{.kind = MUSTER_ASSIGN_CUSTOM, .assign = fails}};
    const struct muster_assignment unordered = STEPS(max);
    const struct muster_assignment failing = STEPS(own);
    const struct muster_assignment nothing = MUSTER_ASSIGNMENT_INIT;
    const struct muster_assignment no_size = {0};
    struct muster_place places[WORLD];
    struct muster_error err;

    (void)state;
    world(places);
    assert_int_equal(muster_assignment_try(&unordered, places, WORLD, &err), MUSTER_EINVAL);
    assert_int_equal(err.status, MUSTER_EINVAL);
    assert_string_equal(err.text,
                        "assignment: step 1 (max): a step that numbers (shift, fill gaps, "
                        "custom) must come first");
    assert_int_equal(muster_assignment_try(&failing, places, WORLD, &err), MUSTER_ENOTFOUND);
    assert_int_equal(err.status, MUSTER_ENOTFOUND);
    assert_non_null(strstr(err.text, "assignment: step 1 (custom): it failed: "));
    assert_int_equal(muster_assignment_try(&nothing, places, WORLD, &err), MUSTER_EINVAL);
    assert_string_equal(err.text, "assignment: it has no steps");
    assert_int_equal(muster_assignment_try(&no_size, places, WORLD, &err), MUSTER_EINVAL);
    assert_non_null(strstr(err.text, "MUSTER_ASSIGNMENT_INIT"));
    assert_int_equal(muster_assignment_try(NULL, places, WORLD, &err), MUSTER_EINVAL);
    assert_int_equal(muster_assignment_try(&failing, NULL, WORLD, &err), MUSTER_EINVAL);
    assert_string_equal(err.text, "assignment: there is none, or no places for it");
    assert_int_equal(places[3].number, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_ready_to_use),
        cmocka_unit_test(parts_of_the_label_are_keys),
        cmocka_unit_test(tried_without_a_job),
        cmocka_unit_test(errors_are_one_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
