/* SPDX-License-Identifier: Apache-2.0 */
/* The screen of `muster top`, drawn from a status and a size.
 *
 * behaviour: program / muster top */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "view/screen.h"

enum { RANKS = 64, NODES = 8, HUNG = 61, LINES_MAX = 400 };

#define TEXT(words) mst_slice_text(words)

static struct {
    struct mst_status status;
    struct mst_item job, members[RANKS], round, incident;
    uint32_t missing[1];
    char hosts[NODES][8];
    struct mst_top_screen screen;
    char *lines[LINES_MAX];
    uint32_t count;
} stage;

/* 64 ranks on 8 nodes, of which one has not come to the round of the others for 12 seconds. */
static void set(uint32_t columns, uint32_t rows)
{
    memset(&stage, 0, sizeof stage);
    stage.status.job = "train";
    stage.job = (struct mst_item){.name = TEXT("train"),
                                  .number = 2,
                                  .arrived = RANKS,
                                  .expected = RANKS,
                                  .since_ms = 1 + 60000};
    for (uint32_t i = 0; i < RANKS; i++) {
        (void)snprintf(stage.hosts[i % NODES], sizeof stage.hosts[0], "b%u", i % NODES);
        stage.members[i] = (struct mst_item){.since_ms = 1 + 60000,
                                             .name = i == HUNG ? TEXT("") : TEXT("epoch"),
                                             .who = {.index = i,
                                                     .rank = i,
                                                     .role = MST_ROLE_RANK,
                                                     .state = MST_PRESENT,
                                                     .pid = 1000 + i,
                                                     .host = TEXT(stage.hosts[i % NODES])}};
    }
    stage.missing[0] = HUNG;
    stage.round = (struct mst_item){.name = TEXT("epoch"),
                                    .arrived = RANKS - 1,
                                    .expected = RANKS,
                                    .since_ms = 1 + 12000,
                                    .missing = stage.missing,
                                    .missing_count = 1};
    stage.status.jobs = (struct mst_items){.items = &stage.job, .count = 1};
    stage.status.members = (struct mst_items){.items = stage.members, .count = RANKS};
    stage.status.rounds = (struct mst_items){.items = &stage.round, .count = 1};
    stage.screen.columns = columns;
    stage.screen.rows = rows;
}

/* The lines, without what erases the rest of each. */
static void draw(void)
{
    static char *drawn;
    char *at, *next;

    free(drawn);
    drawn = mst_top_screen_draw(&stage.screen, &stage.status);
    assert_non_null(drawn);
    stage.count = 0;
    for (at = drawn; at; at = next) {
        char *erase;

        next = strstr(at, "\r\n");
        if (next) {
            *next = '\0';
            next += 2;
        }
        erase = strstr(at, "\033[K");
        assert_non_null(erase);
        *erase = '\0';
        assert_null(strchr(at, '\033')); /* no colours were asked for */
        assert_true(stage.count < LINES_MAX);
        stage.lines[stage.count++] = at;
    }
}

/* The first line with these words; NULL: none. */
static const char *line_with(const char *words)
{
    for (uint32_t i = 0; i < stage.count; i++) {
        if (strstr(stage.lines[i], words)) {
            return stage.lines[i];
        }
    }
    return NULL;
}

static void press(const int *keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_true(mst_top_screen_press(&stage.screen, keys[i]));
        draw();
    }
}
#define PRESS(...) press((const int[]){__VA_ARGS__}, sizeof(int[]){__VA_ARGS__} / sizeof(int))

/* 64 ranks run on 8 nodes and one hangs. Its row is the first of the table on a screen of 80 x 24,
 * the verdict names it, and the bar has a mark for it. */
static void the_rank_that_hangs_comes_first(void **state)
{
    (void)state;
    set(80, 24);
    draw();
    assert_int_equal(stage.count, 24);
    assert_string_equal(stage.lines[0], "job train  generation 2 for 60 s  64 of 64 here");
    assert_string_equal(stage.lines[1],
                        "63 of 64 wait in 'epoch' for 12 s: rank 61 (#61) on b5 has not come");
    assert_string_equal(stage.lines[2], "b0 ........ b1 ........ b2 ........ b3 ........ b4 "
                                        "........ b5 .......?");
    assert_string_equal(stage.lines[3], "b6 ........ b7 ........");
    assert_int_equal(strncmp(stage.lines[4], " RANK ", 6), 0);
    assert_int_equal(strncmp(stage.lines[5], ">rank 61 (#61)    present ", 25), 0);
    assert_int_equal(strncmp(stage.lines[6], " rank 0 (#0) ", 12), 0);
    assert_non_null(strstr(stage.lines[23], "q quit"));
}

static void step_to(uint32_t index, int64_t step, uint32_t behind)
{
    stage.members[index].has_progress = true;
    stage.members[index].progress = (struct mst_rank_progress){
        .generation = 2, .step = step, .stepped = true, .behind = behind, .rate = 2468};
}

/* The ranks report their steps, and one is a straggler. The head has the step rate, the table each
 * rank's step and how many it is behind, on a screen of 80 x 24; the straggler is the first row and
 * has a mark. A part of the head that has no room is left out, and no step is cut. */
static void how_far_the_ranks_are(void **state)
{
    (void)state;
    set(80, 24);
    stage.status.rounds.count = 0;
    stage.job.total = 12;
    for (uint32_t i = 0; i < RANKS; i++) {
        step_to(i, 4711, 0);
        stage.members[i].name = TEXT("");
    }
    step_to(HUNG, 4708, 3);
    stage.members[HUNG].progress.straggler = true;
    stage.members[HUNG].progress.slower = 1350;
    draw();
    assert_string_equal(
        stage.lines[0],
        "job train  generation 2 for 60 s  64 of 64 here  2.46 steps/s  12 restarts");
    assert_non_null(strstr(stage.lines[1], "; rank 61 (#61) on b5 is a straggler: 1.35 times"));
    assert_non_null(line_with("b5 #######<"));
    assert_string_equal(line_with(">"),
                        ">rank 61 (#61)    present    60 s     b5           4708     3      0    ");
    assert_string_equal(line_with("rank 7 (#7) "),
                        " rank 7 (#7)      present    60 s     b7           4711     0      0    ");
    assert_int_equal(strstr(line_with(" RANK "), "STEP ") - line_with(" RANK "),
                     strstr(line_with(">"), "4708") - line_with(">"));
    step_to(7, INT64_C(-1234567890123), 0);
    stage.members[9].has_progress = false;
    draw();
    assert_non_null(strstr(line_with("rank 7 (#7) "), " -1234567890123 0 "));
    assert_string_equal(line_with("rank 9 (#9) "),
                        " rank 9 (#9)      present    60 s     b1                           0    ");
    PRESS(MST_KEY_ENTER);
    assert_non_null(line_with("step 4708, 3 behind the median, 2.46 steps/s, straggler: 1.35 times "
                              "the work "));
    stage.screen.columns = 200;
    draw();
    assert_string_equal(stage.lines[0], "job train  generation 2 for 60 s  64 of 64 here  2.46 "
                                        "steps/s  12 restarts, lost 0.0 s");
}

/* The screen has any size. So many lines are drawn, and none is wider. */
static void every_size_is_kept(void **state)
{
    static const uint32_t sizes[][2] = {{80, 24}, {40, 10}, {20, 5}, {1, 1}, {300, 100}, {7, 3}};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        set(sizes[i][0], sizes[i][1]);
        for (int opened = 0; opened < 4; opened++) {
            stage.screen.opened = opened == 1;
            stage.screen.help = opened == 2;
            stage.screen.typing = opened == 3;
            draw();
            assert_int_equal(stage.count, sizes[i][1]);
            for (uint32_t k = 0; k < stage.count; k++) {
                assert_true(strlen(stage.lines[k]) <= sizes[i][0]);
            }
        }
    }
}

/* Names and last words come from outside. What a terminal would obey is shown as \xNN. */
static void nothing_from_outside_reaches_the_terminal(void **state)
{
    (void)state;
    set(200, 24);
    stage.members[HUNG].who.host = TEXT("b\033[2J");
    stage.members[HUNG].who.state = MST_STATE_LOST;
    stage.members[HUNG].value = TEXT("oops\033]0;x\a\r\nforged");
    stage.members[3].name = TEXT("\033c");
    draw(); /* which looks for escapes */
    assert_non_null(line_with("oops\\x1b]0;x\\x07\\x0d\\x0aforged"));
    assert_non_null(line_with("b\\x1b[2J"));
    PRESS(MST_KEY_ENTER);
    assert_non_null(line_with("last words: oops\\x1b]0;x\\x07\\x0d\\x0aforged"));
}

/* Keys sort, filter, move, open one member and close it, show help and quit. */
static void keys(void **state)
{
    (void)state;
    set(80, 24);
    draw();
    PRESS('s');
    assert_int_equal(strncmp(stage.lines[5], ">rank 0 (#0) ", 12), 0);
    assert_non_null(line_with("sort: index"));
    PRESS(MST_KEY_DOWN, MST_KEY_DOWN);
    assert_non_null(line_with(">rank 2 (#2)"));
    PRESS(MST_KEY_END);
    assert_non_null(line_with(">rank 63 (#63)"));
    PRESS(MST_KEY_HOME, MST_KEY_UP);
    assert_non_null(line_with(">rank 0 (#0)"));
    PRESS('/', 'b', '5', 'q');
    assert_non_null(line_with("filter: b5q"));
    assert_non_null(line_with("nothing passes the filter"));
    PRESS(MST_KEY_ERASE, MST_KEY_ENTER);
    assert_non_null(line_with("filter: b5 (8 of 64)"));
    assert_non_null(line_with(">rank 5 (#5)"));
    PRESS(MST_KEY_ENTER);
    assert_non_null(line_with("rank 5 (#5): present for 60 s"));
    assert_non_null(line_with("waits at 'epoch' 0"));
    assert_null(line_with(" RANK "));
    PRESS(MST_KEY_ESCAPE, MST_KEY_ESCAPE);
    assert_non_null(line_with(">rank 0 (#0)"));
    PRESS('h');
    assert_non_null(line_with("quit"));
    PRESS('h');
    assert_false(mst_top_screen_press(&stage.screen, 'q'));
}

/* The service cannot be reached. The last status stays, and the screen says how old it is and why.
 */
static void an_old_status_says_so(void **state)
{
    (void)state;
    set(80, 24);
    stage.screen.trouble = "no service at unix:/s";
    stage.screen.stale_ms = 3200;
    draw();
    assert_string_equal(stage.lines[1],
                        "the service was last seen 3.2 s ago: no service at unix:/s");
    assert_non_null(line_with("rank 61"));
}

/* A member was lost before. Opened, it lists what happened to it. */
static void what_happened_to_one(void **state)
{
    (void)state;
    set(80, 24);
    stage.incident = (struct mst_item){.incident = MST_INCIDENT_LOST,
                                       .who = {.index = HUNG,
                                               .rank = HUNG,
                                               .role = MST_ROLE_RANK,
                                               .cause = MST_CAUSE_EXIT,
                                               .code = 3,
                                               .heard_ms = 45000}};
    stage.status.history = (struct mst_items){.items = &stage.incident, .count = 1};
    draw();
    PRESS(MST_KEY_ENTER);
    assert_non_null(line_with("45 s ago: rank 61 (#61) ended with status 3"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rank_that_hangs_comes_first),
        cmocka_unit_test(how_far_the_ranks_are),
        cmocka_unit_test(every_size_is_kept),
        cmocka_unit_test(nothing_from_outside_reaches_the_terminal),
        cmocka_unit_test(keys),
        cmocka_unit_test(an_old_status_says_so),
        cmocka_unit_test(what_happened_to_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
