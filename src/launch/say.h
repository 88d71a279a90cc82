/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_SAY_H
#define MST_LAUNCH_SAY_H

#include "process/output.h"

/* One line on stderr, "muster run: ...", or as the named command. Main thread. */
void mst_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, where the run goes no further: MST_EXIT_LAUNCHER. */
int mst_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
int mst_no_memory(void); /* no memory, or no descriptors */

/* From now on as this command. */
void mst_say_as(const char *command);

/* From now on such a line is a JSON object, as the service's log has them. */
void mst_say_as_json(void);

/* The last such line, without what it begins with; empty: nothing was said. */
const char *mst_said_last(void);

/* From now on through the output of the ranks, and directly again. */
void mst_say_with_output(struct mst_output *output);
void mst_say_directly(struct mst_output *output);

/* The words of a command for a shell. What does not fit is left out. */
struct mst_words {
    char text[32768];
    size_t size;
};

/* A blank, and the word, quoted where a shell needs it. */
void mst_words_add(struct mst_words *line, const char *word);

/* Text as it is. */
void mst_words_append(struct mst_words *line, const char *text);

/* Whether nothing was left out. */
bool mst_words_fit(const struct mst_words *line);

/* The command that this process was started by. False: it is not known, or too long to be typed. */
bool mst_words_own(struct mst_words *line);

#endif
