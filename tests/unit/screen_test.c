/* SPDX-License-Identifier: Apache-2.0 */
/* behaviour: run / Output as it comes */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "process/screen.h"

/* ---- what a terminal makes of it ---- */

enum { ROWS = 8, COLUMNS = 40, LINES_MAX = 4096, SCENE_WRITERS = 12 };

/* All its lines, those that have left it at the top too. It understands what screen.c writes, and
 * fails the test at anything else. */
struct terminal {
    char lines[LINES_MAX][COLUMNS + 1];
    unsigned row, column, last;
    bool wraps;
};

static void terminal_erase(struct terminal *terminal, unsigned row, unsigned column)
{
    terminal->lines[row][column] = '\0';
}

static void terminal_char(struct terminal *terminal, char byte)
{
    char *line;

    if (terminal->column == COLUMNS && terminal->wraps) {
        terminal->row++;
        terminal->column = 0;
    } else if (terminal->column == COLUMNS) {
        terminal->column--;
    }
    assert_true(terminal->row < LINES_MAX);
    line = terminal->lines[terminal->row];
    while (strlen(line) <= terminal->column) {
        size_t end = strlen(line);

        line[end] = ' ';
        line[end + 1] = '\0';
    }
    line[terminal->column++] = byte;
    terminal->last = terminal->row > terminal->last ? terminal->row : terminal->last;
}

/* Returns the sequence's size. */
static size_t terminal_escape(struct terminal *terminal, const char *bytes, size_t size)
{
    unsigned count;
    char *end;

    if (size >= 5 && memcmp(bytes, "\033[?7", 4) == 0) {
        terminal->wraps = bytes[4] == 'h';
        return 5;
    }
    if (memcmp(bytes, "\033[K", 3) == 0) {
        terminal_erase(terminal, terminal->row, terminal->column);
        return 3;
    }
    assert_memory_equal(bytes, "\033[", 2);
    count = (unsigned)strtoul(bytes + 2, &end, 10);
    assert_true(*end == 'A' || *end == 'm');
    if (*end == 'A') {
        unsigned up = end > bytes + 2 ? count : 1;
        unsigned top = terminal->last >= ROWS ? terminal->last - ROWS + 1 : 0;

        terminal->row = terminal->row - top > up ? terminal->row - up : top;
    }
    return (size_t)(end + 1 - bytes);
}

static void terminal_take(struct terminal *terminal, const char *bytes, size_t size)
{
    for (size_t at = 0; at < size; at++) {
        if (bytes[at] == '\033') {
            at += terminal_escape(terminal, bytes + at, size - at) - 1;
        } else if (bytes[at] == '\n') {
            terminal->row++;
            terminal->column = 0;
            terminal->last = terminal->row > terminal->last ? terminal->row : terminal->last;
        } else if (bytes[at] == '\r') {
            terminal->column = 0;
        } else if (bytes[at] == '\b') {
            terminal->column -= terminal->column > 0;
        } else {
            terminal_char(terminal, bytes[at]);
        }
    }
}

/* ---- the scene ---- */

struct scene {
    struct mst_screen screen;
    struct mst_screen_line lines[SCENE_WRITERS];
    char texts[SCENE_WRITERS][256];
    char out[1 << 20]; /* all that was written... */
    size_t size, shown;
    struct terminal terminal; /* ...and what it made of that */
};

static void scene_write(void *ctx, const char *bytes, size_t size)
{
    struct scene *scene = ctx;

    assert_true(scene->size + size < sizeof scene->out);
    memcpy(scene->out + scene->size, bytes, size);
    scene->size += size;
    scene->out[scene->size] = '\0';
}

static struct scene *scene_new(bool moves)
{
    struct scene *scene = calloc(1, sizeof *scene);

    assert_non_null(scene);
    scene->screen =
        (struct mst_screen){.moves = moves, .rows = ROWS, .write = scene_write, .ctx = scene};
    scene->terminal.wraps = true;
    for (unsigned i = 0; i < SCENE_WRITERS; i++) {
        struct mst_screen_line *line = &scene->lines[i];

        line->text = scene->texts[i];
        line->order = i;
        line->label_size = (size_t)snprintf(line->label, sizeof line->label, "[%u]: ", i);
    }
    return scene;
}

static void settle(struct scene *scene)
{
    mst_screen_settle(&scene->screen);
    terminal_take(&scene->terminal, scene->out + scene->shown, scene->size - scene->shown);
    scene->shown = scene->size;
}

/* A part of a line, and time passes. */
static void part(struct scene *scene, unsigned writer, const char *text)
{
    struct mst_screen_line *line = &scene->lines[writer];

    assert_true(line->size + strlen(text) < sizeof scene->texts[0]);
    memcpy(line->text + line->size, text, strlen(text));
    line->size += strlen(text);
    mst_screen_show(&scene->screen, line);
    settle(scene);
}

/* The rest of a line. */
static void ends(struct scene *scene, unsigned writer, const char *text)
{
    struct mst_screen_line *line = &scene->lines[writer];

    memcpy(line->text + line->size, text, strlen(text));
    line->size += strlen(text);
    mst_screen_end(&scene->screen, line);
    settle(scene);
}

/* All lines of the terminal, with a mark where the cursor is. */
static void assert_terminal(struct scene *scene, const char *expected)
{
    char all[4096] = "";
    size_t size = 0;

    for (unsigned row = 0; row <= scene->terminal.last; row++) {
        size += (size_t)snprintf(all + size, sizeof all - size, "%s%s%s", row > 0 ? "\n" : "",
                                 scene->terminal.lines[row], row == scene->terminal.row ? "_" : "");
        assert_true(size < sizeof all);
    }
    assert_string_equal(all, expected);
}

/* ---- a pipe or a file ---- */

/* The output goes into a pipe, and a rank writes a part of a line. It comes out under the label,
 * and its rest follows without one. */
static void a_part_comes_out_and_its_rest_follows(void **state)
{
    struct scene *scene = scene_new(false);

    (void)state;
    part(scene, 0, "loading");
    assert_string_equal(scene->out, "[0]: loading");
    part(scene, 0, " ...");
    ends(scene, 0, " done");
    ends(scene, 1, "");
    ends(scene, 2, "\r");
    assert_string_equal(scene->out, "[0]: loading ... done\n[1]: \n[2]: \n");
    free(scene);
}

/* The output goes into a pipe, and a rank writes while another one's line is not at its end. That
 * line is broken there and continues under its label; no other byte is added or lost. */
static void an_interrupted_line_continues_under_its_label(void **state)
{
    struct scene *scene = scene_new(false);

    (void)state;
    part(scene, 0, "loading");
    ends(scene, 1, "here");
    part(scene, 0, " ...");
    part(scene, 1, "and");
    ends(scene, 0, " done");
    ends(scene, 1, "");
    ends(scene, 1, "next");
    assert_string_equal(scene->out, "[0]: loading\n[1]: here\n[0]:  ...\n[1]: and\n[0]:  done\n"
                                    "[1]: next\n");
    free(scene);
}

/* The output goes into a pipe, and a rank draws a progress bar with carriage returns. All its
 * versions come out, each under the label, so that a terminal behind the pipe shows it too. */
static void each_version_of_a_bar_has_the_label(void **state)
{
    struct scene *scene = scene_new(false);

    (void)state;
    part(scene, 0, "\r10%");
    part(scene, 0, "\r20%\r");
    ends(scene, 0, "\r100%\r");
    assert_string_equal(scene->out, "[0]: 10%\r[0]: 20%\r[0]: 100%\r\n");
    terminal_take(&scene->terminal, scene->out, scene->size);
    assert_string_equal(scene->terminal.lines[0], "[0]: 100%");
    free(scene);
}

/* `--no-label`, and the output goes into a pipe. A bar comes out byte for byte. */
static void without_labels_a_bar_is_as_it_was_written(void **state)
{
    struct scene *scene = scene_new(false);

    (void)state;
    scene->lines[0].label_size = 0;
    part(scene, 0, "\r10%");
    part(scene, 0, "\r20%\r");
    ends(scene, 0, "\r100%\r");
    assert_string_equal(scene->out, "\r10%\r20%\r\r100%\r\n");
    free(scene);
}

/* ---- a terminal ---- */

/* Ranks draw progress bars on a terminal. Each has a row at the bottom, in the order of the ranks;
 * whole lines go above, and a bar that is at its end becomes one. */
static void bars_have_rows_below_the_lines(void **state)
{
    struct scene *scene = scene_new(true);

    (void)state;
    part(scene, 1, "\r10%");
    part(scene, 0, "\rloading");
    assert_terminal(scene, "[0]: loading\n[1]: 10%_");
    ends(scene, 2, "epoch 1");
    part(scene, 1, "\r20%");
    assert_terminal(scene, "[2]: epoch 1\n[0]: loading\n[1]: 20%_");
    ends(scene, 0, "\rok");
    assert_terminal(scene, "[2]: epoch 1\n[0]: ok\n[1]: 20%_");
    ends(scene, 1, "");
    assert_terminal(scene, "[2]: epoch 1\n[0]: ok\n[1]: 20%\n_");
    free(scene);
}

/* A version of a bar is shorter than the one before, or ends with the carriage return. Nothing of
 * the older one is left, and the newer one stays until the next. */
static void a_rewritten_line_is_cleared(void **state)
{
    struct scene *scene = scene_new(true);

    (void)state;
    part(scene, 0, "\r10% of a long name\r");
    assert_terminal(scene, "[0]: 10% of a long name_");
    part(scene, 0, "20%\r");
    assert_terminal(scene, "[0]: 20%_");
    ends(scene, 0, "");
    assert_terminal(scene, "[0]: 20%\n_");
    free(scene);
}

/* A bar is longer than the terminal is wide. It keeps to its row; a whole line is not cut. */
static void a_long_bar_keeps_to_its_row(void **state)
{
    struct scene *scene = scene_new(true);
    char bar[100];

    (void)state;
    (void)memset(bar, '#', sizeof bar - 1);
    bar[sizeof bar - 1] = '\0';
    part(scene, 0, bar);
    part(scene, 1, "x");
    assert_int_equal(scene->terminal.last, 1);
    assert_string_equal(scene->terminal.lines[1], "[1]: x");
    ends(scene, 2, bar);
    assert_int_equal(strlen(scene->terminal.lines[0]), COLUMNS);
    assert_string_equal(scene->terminal.lines[4], "[1]: x");
    free(scene);
}

/* There are more bars than the terminal has room for. Half of it is for them, and the last row says
 * how many more there are. */
static void more_bars_than_rows_are_counted(void **state)
{
    struct scene *scene = scene_new(true);

    (void)state;
    for (unsigned i = 0; i < SCENE_WRITERS; i++) {
        part(scene, i, "x");
    }
    ends(scene, 11, "y");
    assert_terminal(scene, "[11]: xy\n[0]: x\n[1]: x\n[2]: x\n(8 more unfinished lines)_");
    free(scene);
}

/* A rank writes sequences that move the cursor, ring the bell or set the title. On a terminal they
 * are left out, as other ranks' lines are there; colours stay, and end with the line. */
static void a_rank_does_not_move_the_cursor(void **state)
{
    struct scene *scene = scene_new(true);

    (void)state;
    part(scene, 0,
         "\033[A\033[2K\033[31mred\033]0;title\007\033[H\007 a\033(Bb\vc\033]0;t\033\\d\033[");
    assert_non_null(strstr(scene->out, "\033[31mred abcd\033[m"));
    assert_terminal(scene, "[0]: red abcd_");
    ends(scene, 0, "");
    assert_terminal(scene, "[0]: red abcd\n_");
    free(scene);
}

/* The user answers a prompt, and the terminal echoes the answer. The prompt stays where it is, what
 * comes next is below it, and other ranks' bars are drawn anew there. */
static void what_follows_an_answer_is_below_it(void **state)
{
    struct scene *scene = scene_new(true);

    (void)state;
    part(scene, 1, "10%");
    part(scene, 2, "name? ");
    terminal_take(&scene->terminal, "me\n", 3);
    mst_screen_echoed(&scene->screen);
    mst_screen_answered(&scene->screen, &scene->lines[2]);
    settle(scene);
    assert_terminal(scene, "[1]: 10%\n[2]: name? me\n[1]: 10%_");
    ends(scene, 2, "hello me");
    assert_terminal(scene, "[1]: 10%\n[2]: name? me\n[2]: hello me\n[1]: 10%_");
    free(scene);
}

/* Another process is about to write on the terminal. Its line begins in a row of its own. */
static void another_process_finds_a_row_of_its_own(void **state)
{
    struct scene *scene = scene_new(true);

    (void)state;
    part(scene, 0, "10%");
    mst_screen_part(&scene->screen);
    scene_write(scene, "other\n", 6);
    settle(scene);
    assert_terminal(scene, "[0]: 10%\nother\n[0]: 10%_");
    free(scene);
}

/* The only rank has the terminal for itself, and another process is about to write there between
 * the carriage return and the newline of the rank's line. No empty line comes of it. */
static void a_line_that_is_passed_on_ends_once(void **state)
{
    struct scene *scene = scene_new(false);

    (void)state;
    scene->lines[0].label_size = 0;
    mst_screen_pass(&scene->screen, &scene->lines[0], "one\r", 4);
    mst_screen_part(&scene->screen);
    scene_write(scene, "other\n", 6);
    mst_screen_pass(&scene->screen, &scene->lines[0], "\ntwo\r", 5);
    mst_screen_pass(&scene->screen, &scene->lines[0], "\n\n", 2);
    mst_screen_part(&scene->screen);
    assert_string_equal(scene->out, "one\r\nother\ntwo\r\n\n");
    free(scene);
}

/* Twelve ranks write lines and bars in any order. The terminal has all lines once, in the order in
 * which they ended, and below them the bars as they are. */
static void lines_and_bars_in_any_order_garble_nothing(void **state)
{
    struct scene *scene = scene_new(true);
    static char expected[LINES_MAX][COLUMNS];
    unsigned count = 0, random = 1;

    (void)state;
    for (unsigned i = 0; i < 3000; i++) {
        unsigned writer, what;
        char text[24];

        random = random * 1103515245u + 12345u;
        writer = (random >> 16) % SCENE_WRITERS;
        what = (random >> 24) % 4;
        (void)snprintf(text, sizeof text, "\r%u", i);
        if (what > 0 && scene->lines[writer].size < 200) {
            part(scene, writer, text);
        } else {
            ends(scene, writer, text);
            (void)snprintf(expected[count++], COLUMNS, "[%u]: %u", writer, i);
        }
    }
    for (unsigned i = 0; i < count; i++) {
        assert_string_equal(scene->terminal.lines[i], expected[i]);
    }
    for (unsigned i = 0; i < SCENE_WRITERS; i++) {
        const struct mst_screen_line *line = &scene->lines[i];

        if (line->size > 0) {
            ends(scene, i, "");
            count++;
        }
    }
    assert_int_equal(scene->terminal.last, count);
    free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_comes_out_and_its_rest_follows),
        cmocka_unit_test(an_interrupted_line_continues_under_its_label),
        cmocka_unit_test(each_version_of_a_bar_has_the_label),
        cmocka_unit_test(without_labels_a_bar_is_as_it_was_written),
        cmocka_unit_test(bars_have_rows_below_the_lines),
        cmocka_unit_test(a_rewritten_line_is_cleared),
        cmocka_unit_test(a_long_bar_keeps_to_its_row),
        cmocka_unit_test(more_bars_than_rows_are_counted),
        cmocka_unit_test(a_rank_does_not_move_the_cursor),
        cmocka_unit_test(what_follows_an_answer_is_below_it),
        cmocka_unit_test(another_process_finds_a_row_of_its_own),
        cmocka_unit_test(a_line_that_is_passed_on_ends_once),
        cmocka_unit_test(lines_and_bars_in_any_order_garble_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
