/* SPDX-License-Identifier: Apache-2.0 */
#include "process/screen.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ROW_BYTES_MAX ((size_t)2048) /* more than any row has room for */

#define ESCAPE '\033'
#define BELL '\007'
#define DELETE '\177'
#define NO_WRAP "\033[?7l" /* a row stays one, however long it is */
#define WRAP "\033[?7h"
#define ERASE_ROW "\r\033[K"
#define UP "\033[A"
#define NO_COLOUR "\033[m"

static void put(const struct mst_screen *screen, const char *bytes, size_t size)
{
    if (size > 0) {
        screen->write(screen->ctx, bytes, size);
    }
}

static void put_text(const struct mst_screen *screen, const char *text)
{
    put(screen, text, strlen(text));
}

static void put_newline(const struct mst_screen *screen)
{
    put_text(screen, screen->raw ? "\r\n" : "\n");
}

size_t mst_screen_version(const char *text, size_t size)
{
    while (size > 0 && text[size - 1] == '\r') {
        size--;
    }
    while (size > 0 && text[size - 1] != '\r') {
        size--;
    }
    return size;
}

/* ---- a pipe or a file ---- */

static void put_label(const struct mst_screen *screen, struct mst_screen_line *line)
{
    put(screen, line->label, line->label_size);
    line->begun = true;
}

/* Into the row of the cursor. A carriage return right after a label would do nothing. */
static void put_part(const struct mst_screen *screen, struct mst_screen_line *line,
                     const char *text, size_t size)
{
    while (size > 0 && line->label_size > 0) {
        const char *end = memchr(text, '\r', size);
        size_t part = end != NULL ? (size_t)(end - text) : size;

        if (part > 0 && !line->begun) {
            put_label(screen, line);
        }
        put(screen, text, part);
        if (end != NULL && line->begun) {
            put_text(screen, "\r");
            line->begun = false;
        }
        part += end != NULL;
        text += part;
        size -= part;
    }
    put(screen, text, size);
    line->begun = line->begun || size > 0;
}

/* The cursor goes to the line. False: it is there. */
static bool enter(struct mst_screen *screen, struct mst_screen_line *line)
{
    if (screen->open == line) {
        return false;
    }
    if (screen->open != NULL) {
        put_newline(screen);
    }
    screen->open = line;
    line->begun = false;
    return true;
}

static void put_rest(struct mst_screen *screen, struct mst_screen_line *line)
{
    put_part(screen, line, line->text + line->put, line->size - line->put);
    line->put = line->size;
}

static void end_in_pipe(struct mst_screen *screen, struct mst_screen_line *line)
{
    bool all = line->put == 0, enters;

    /* It was broken at its end: the newline is there. */
    if (!all && screen->open != line && line->put == line->size) {
        return;
    }
    enters = enter(screen, line);
    put_rest(screen, line);
    if (enters && !line->begun) {
        put_label(screen, line);
    }
    put_newline(screen);
    screen->open = NULL;
}

void mst_screen_pass(struct mst_screen *screen, struct mst_screen_line *line, const char *bytes,
                     size_t size)
{
    /* The screen was parted between the two that end a line: its newline is there. */
    bool ended = size > 0 && *bytes == '\n' && screen->returned && screen->open == NULL;

    bytes += ended;
    size -= ended;
    if (size > 0) {
        (void)enter(screen, line);
        put(screen, bytes, size);
        screen->open = bytes[size - 1] == '\n' ? NULL : line;
    }
    screen->returned = size > 0 && bytes[size - 1] == '\r';
}

/* ---- a terminal whose cursor moves ---- */

/* How many bytes from an escape on belong to it. `colour_out`: it changes nothing else. */
static size_t escape_size(const char *text, size_t size, bool *colour_out)
{
    size_t at = 2;

    *colour_out = false;
    if (size >= 2 && text[1] == '[') {
        while (at < size && text[at] >= ' ' && text[at] < '@') {
            at++;
        }
        *colour_out = at < size && text[at] == 'm';
    } else if (size >= 2 && text[1] == ']') { /* a title, a link: up to a bell, or ESC \ */
        while (at < size && text[at] != BELL && text[at - 1] != ESCAPE) {
            at++;
        }
    } else {
        at = 1;
        while (at < size && text[at] >= ' ' && text[at] < '0') {
            at++;
        }
    }
    return at < size ? at + 1 : size;
}

static bool is_shown(char byte)
{
    return ((unsigned char)byte >= ' ' && byte != DELETE) || byte == '\t' || byte == '\b';
}

/* The size of the character there, of which nothing is cut off. */
static size_t character_size(const char *text, size_t size)
{
    size_t at = 1;

    while (at < size && ((unsigned char)text[at] & 0xc0) == 0x80) {
        at++;
    }
    return at;
}

/* What moves no cursor, at most `most` bytes of it. */
static void put_row(const struct mst_screen *screen, const struct mst_screen_line *line,
                    size_t most)
{
    size_t at = mst_screen_version(line->text, line->size);
    bool coloured = false;

    put(screen, line->label, line->label_size);
    while (at < line->size) {
        const char *text = line->text + at;
        size_t left = line->size - at, size;
        bool colour = false;

        size = *text == ESCAPE ? escape_size(text, left, &colour) : character_size(text, left);
        if (size > most) {
            break;
        }
        if (colour || is_shown(*text)) {
            put(screen, text, size);
            most -= size;
        }
        coloured = coloured || colour;
        at += size;
    }
    if (coloured) {
        put_text(screen, NO_COLOUR);
    }
}

/* The rows are no longer there, and the cursor is where the first of them was. Each is erased by
 * itself: to erase the whole screen, which these rows may begin, is for tmux to keep what was on
 * it. */
static void lift(struct mst_screen *screen)
{
    for (; screen->drawn > 0; screen->drawn--) {
        put_text(screen, ERASE_ROW);
        if (screen->drawn > 1) {
            put_text(screen, UP);
        }
    }
    screen->stale = true;
}

/* Half of the terminal is for what is at its end. */
static void draw(struct mst_screen *screen)
{
    const struct mst_screen_line *line = screen->open;
    unsigned most = screen->rows / 2 > 1 ? screen->rows / 2 : 1, count = 0;

    put_text(screen, NO_WRAP);
    for (const struct mst_screen_line *one = line; one != NULL; one = one->next) {
        count++;
    }
    for (; line != NULL && screen->drawn < most; line = line->next) {
        if (screen->drawn > 0) {
            put_newline(screen);
        }
        screen->drawn++;
        if (screen->drawn == most && line->next != NULL) {
            char more[64];

            (void)snprintf(more, sizeof more, "(%u more unfinished lines)",
                           count - screen->drawn + 1);
            put_text(screen, more);
        } else {
            put_row(screen, line, ROW_BYTES_MAX);
        }
    }
    put_text(screen, WRAP);
}

static void row_add(struct mst_screen *screen, struct mst_screen_line *line)
{
    struct mst_screen_line **link = &screen->open;

    while (*link != NULL && (*link)->order <= line->order) {
        link = &(*link)->next;
    }
    line->next = *link;
    *link = line;
    line->is_open = true;
}

static void row_remove(struct mst_screen *screen, struct mst_screen_line *line)
{
    struct mst_screen_line **link = &screen->open;

    while (line->is_open && *link != line) {
        link = &(*link)->next;
    }
    if (line->is_open) {
        *link = line->next;
        line->is_open = false;
        screen->stale = true;
    }
}

void mst_screen_settle(struct mst_screen *screen)
{
    if (screen->moves && screen->stale) {
        lift(screen);
        if (screen->open != NULL) {
            draw(screen);
        }
        screen->stale = false;
    }
}

/* ---- either ---- */

void mst_screen_show(struct mst_screen *screen, struct mst_screen_line *line)
{
    if (!screen->moves) {
        if (line->put < line->size) {
            (void)enter(screen, line);
            put_rest(screen, line);
        }
        return;
    }
    if (!line->is_open) {
        row_add(screen, line);
    }
    screen->stale = true;
}

void mst_screen_end(struct mst_screen *screen, struct mst_screen_line *line)
{
    if (screen->moves) {
        row_remove(screen, line);
        lift(screen);
        put_row(screen, line, SIZE_MAX);
        put_newline(screen);
    } else {
        end_in_pipe(screen, line);
    }
    line->size = line->put = 0;
}

void mst_screen_echoed(struct mst_screen *screen)
{
    screen->drawn = 0;
    if (screen->moves) {
        screen->stale = screen->open != NULL;
    } else {
        screen->open = NULL;
    }
}

void mst_screen_part(struct mst_screen *screen)
{
    if (screen->moves ? screen->drawn > 0 : screen->open != NULL) {
        put_newline(screen);
        mst_screen_echoed(screen);
    }
}

void mst_screen_answered(struct mst_screen *screen, struct mst_screen_line *line)
{
    row_remove(screen, line);
    line->size = line->put = 0;
}
