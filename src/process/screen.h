/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROCESS_SCREEN_H
#define MST_PROCESS_SCREEN_H

/* What one terminal, pipe or file shows of the lines of several writers, each under the label of
 * its writer. A line that is not at its end is shown too: a prompt, a progress bar.
 *
 * A pipe or a file gets every byte. A line that is interrupted by another writer's is broken there
 * and continues under its label. A label follows a carriage return too: it is what the next version
 * of the line overwrites.
 *
 * A terminal whose cursor moves has the open lines in its last rows, one row each, in the order of
 * their writers. They are drawn anew when one of them changes; lines at their end go above them.
 * Of an open line it shows the newest version, and no sequence that moves the cursor: a writer does
 * not know where its row is. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MST_SCREEN_LABEL_MAX ((size_t)16)

/* One writer's line. Zeroed at first, but for `label`, `order` and `text`. */
struct mst_screen_line {
    struct mst_screen_line *next; /* the next row */
    uint64_t order;
    char label[MST_SCREEN_LABEL_MAX];
    size_t label_size; /* 0: none */
    char *text;        /* of the caller: what was written since the last end of a line */
    size_t size;
    size_t put;   /* of `text` into a pipe or a file */
    bool begun;   /* in the row of the cursor, after the label */
    bool is_open; /* it is a row */
};

struct mst_screen {
    /* Set by the caller. */
    bool moves;    /* a terminal whose cursor moves */
    bool raw;      /* a terminal that does not add a carriage return to a newline */
    unsigned rows; /* of the terminal */
    void (*write)(void *ctx, const char *bytes, size_t size);
    void *ctx;
    /* Zeroed at first. */
    struct mst_screen_line
        *open;      /* the rows; of a pipe or a file: the line that the cursor is in */
    unsigned drawn; /* rows, the cursor in the last one */
    bool stale;     /* the rows are to be drawn anew */
    bool returned;  /* what was passed on last ends with a carriage return */
};

/* Where the newest version of a line begins: after the last carriage return that something
 * follows. */
size_t mst_screen_version(const char *text, size_t size);

/* The line as it is so far is to be seen, though it is not at its end. */
void mst_screen_show(struct mst_screen *screen, struct mst_screen_line *line);

/* The line is at its end. Its text is empty afterwards. */
void mst_screen_end(struct mst_screen *screen, struct mst_screen_line *line);

/* Bytes of the one writer that draws for itself, as they are. Its line has no text. */
void mst_screen_pass(struct mst_screen *screen, struct mst_screen_line *line, const char *bytes,
                     size_t size);

/* Draws what has changed. After any of the above, before anyone looks. */
void mst_screen_settle(struct mst_screen *screen);

/* Another process is about to write there: the cursor is moved below all rows. */
void mst_screen_part(struct mst_screen *screen);

/* The terminal has echoed the end of a line, so the cursor is below all rows. */
void mst_screen_echoed(struct mst_screen *screen);

/* What was seen of the line so far was a prompt that has been answered. It is done as it is. */
void mst_screen_answered(struct mst_screen *screen, struct mst_screen_line *line);

#endif
