/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_VIEW_SCREEN_H
#define MST_VIEW_SCREEN_H

/* The screen of `muster top`: what is drawn and what keys do, as functions of a status, the size of
 * the terminal and what the user chose. No terminal is touched here. */

#include "view/status_json.h"

enum mst_top_screen_sort {
    MST_SORT_WORST = 0, /* what is most wrong comes first */
    MST_SORT_INDEX,
    MST_SORT_HOST,
    MST_SORT_STATE,
    MST_SORT_SINCE, /* the latest change comes first */
    MST_SORTS
};

/* Keys that are no character. */
enum {
    MST_KEY_UP = 256,
    MST_KEY_DOWN,
    MST_KEY_PAGE_UP,
    MST_KEY_PAGE_DOWN,
    MST_KEY_HOME,
    MST_KEY_END,
    MST_KEY_ENTER,
    MST_KEY_ESCAPE,
    MST_KEY_ERASE
};

enum { MST_FILTER_ROOM = 64 };

struct mst_top_screen {
    uint32_t columns, rows;
    bool coloured;
    const char *trouble; /* the status is an old one, and why; NULL: it is not */
    uint64_t stale_ms;   /* with trouble: how old */

    /* What the user chose. */
    enum mst_top_screen_sort sort;
    char filter[MST_FILTER_ROOM];
    bool typing; /* the filter */
    bool help, opened;
    uint32_t chosen; /* the row of the table, from 0 */
    uint32_t first;  /* the first row that is seen */
};

/* `rows` lines, with "\r\n" between them, each of at most `columns` characters, and behind each
 * what erases the rest of it. The caller frees it. NULL: no memory. It moves `first` and `chosen`
 * to where there are rows. */
char *mst_top_screen_draw(struct mst_top_screen *screen, const struct mst_status *status);

/* False: the user wants to quit. */
bool mst_top_screen_press(struct mst_top_screen *screen, int key);

#endif
