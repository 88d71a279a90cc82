/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROCESS_TYPED_H
#define MST_PROCESS_TYPED_H

/* What is typed at a terminal, for one process that is not in the terminal's foreground and so
 * cannot read it. On a thread of its own, which blocks all signals: the terminal then refuses a
 * read in the background instead of stopping the program. The terminal stays in blocking mode, as
 * it is shared with the shell.
 *
 * The reader gets a pipe that has room for one read, and the next one is made when that pipe is
 * empty. So of what the user types for the shell meanwhile at most one line is taken. */

#include <stdint.h>

#include "muster/status.h"
#include "process/output.h"

struct mst_typed;

/* `output`: where the terminal echoes. ENOMEM, EFAILED: no thread. */
muster_status mst_typed_new(struct mst_typed **out, int terminal, struct mst_output *output);
void mst_typed_free(struct mst_typed *typed); /* NULL: no-op */

/* The end to read from of a new pipe, close-on-exec, for the process of that index; the one before
 * gets no more. It is at its end when the user types the end of file. -1 with errno. */
int mst_typed_open(struct mst_typed *typed, uint32_t index);

/* From now on every key goes to `pty` (process/pty.h), which is taken over; the one before gets no
 * more. Our terminal is in raw mode then, while it is in the foreground. Keys that are signals to
 * the process there are signals to our process group instead, as if our terminal had sent them. */
void mst_typed_open_pty(struct mst_typed *typed, int pty);

/* Nobody reads any more; the terminal is as it was. */
void mst_typed_close(struct mst_typed *typed);

/* This process is about to be stopped, and has the terminal as it was; it continues. */
void mst_typed_suspend(struct mst_typed *typed);
void mst_typed_resume(struct mst_typed *typed);

#endif
