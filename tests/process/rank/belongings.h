/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_BELONGINGS_H
#define MST_BELONGINGS_H

/* What a process has besides its memory: threads, descriptors, children, shared segments, how each
 * signal is treated, and the environment. */

#include <stdbool.h>
#include <stddef.h>

enum { BELONGINGS_ROOM = 64 * 1024 };

struct belongings {
    char text[BELONGINGS_ROOM]; /* a line each */
};

void belongings_note(struct belongings *out);
/* Whether they are now what they were: waits a little for a thread that has been joined and is
 * still on its way out of the kernel. false: `text` says the first line that differs. */
bool belongings_are(const struct belongings *before, char *text, size_t size);
/* Whether the children are, after a while, those of then. */
bool belongings_children_are(const struct belongings *before);

#endif
