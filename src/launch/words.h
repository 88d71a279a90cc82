/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_WORDS_H
#define MST_LAUNCH_WORDS_H

/* The words of a command that somebody is to type, as a shell takes them. What does not fit is left
 * out. */

#include <stdbool.h>
#include <stddef.h>

struct mst_words {
    char text[3500];
    size_t size;
};

/* A blank, and the word. */
void mst_words_add(struct mst_words *line, const char *word);

/* The command that this process was started by. False: it is not known, or too long to be typed. */
bool mst_words_own(struct mst_words *line);

#endif
