/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROCESS_OUTPUT_H
#define MST_PROCESS_OUTPUT_H

/* What the ranks print: lines, each under the label of its rank, "[2]: ..."; those that are not at
 * their end, too (process/screen.h). On a thread of its own, because a terminal that is held up may
 * hold up the ranks' output and nothing else: a process that dies then is still noticed, told and
 * started again.
 *
 * A stream may have a file, which gets its bytes as they are. What a file does not take comes out
 * as lines: a full disk loses no output and ends no rank. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

/* Longer lines come out in pieces. */
#define MST_OUTPUT_LINE_MAX 8192u

/* A part of a line waits so long for its rest. */
#define MST_OUTPUT_SHOWN_AFTER_MS 200u

/* What is kept of a last line, and of all last lines. */
#define MST_OUTPUT_LAST_MAX 256u
#define MST_OUTPUT_TAIL_MAX 2048u

#define MST_OUTPUT_NO_LABEL UINT32_MAX /* for an index: of no rank */

struct mst_output;
struct mst_output_stream; /* lives as long as the output, or until it is forgotten */

/* Where a stream goes besides. */
struct mst_output_file {
    int fd;   /* owned from now on; -1: there is none */
    bool tee; /* its lines come out too */
};

/* ENOMEM, EFAILED: no thread. */
muster_status mst_output_new(struct mst_output **out, bool label);

/* `failed` is called once, on the thread of the output, when a file takes nothing more. Before any
 * stream is added. */
void mst_output_on_failure(struct mst_output *output, void (*failed)(void *ctx, int error),
                           void *ctx);

/* Drops what has not come out yet. NULL: no-op. */
void mst_output_free(struct mst_output *output);

/* The end to write to of a new pipe, close-on-exec. Its lines are copied to the descriptor `to`
 * until it is closed everywhere, its bytes to `file`, which is closed then; a last line without an
 * end gets one. -1 with errno: the file is closed. */
int mst_output_open(struct mst_output *output, uint32_t index, int to, struct mst_output_file file,
                    struct mst_output_stream **out);

/* From now on terminals get the bytes of a program that draws for itself, and lines of others
 * between them. `raw`: they do not add a carriage return to a newline. Before any stream is
 * added. */
void mst_output_pass(struct mst_output *output, bool raw);

/* What comes out of `pty` is copied to `to`, as it is. It is closed at its end. -1 with errno: it
 * is closed. */
int mst_output_open_pty(struct mst_output *output, int pty, int to, struct mst_output_stream **out);

/* Its lines are about the ranks, and it is the only such one. From now on each comes out after what
 * the other streams had when it was written: a rank's last words before the line that says how it
 * ended. */
void mst_output_comments(struct mst_output *output, struct mst_output_stream *stream);

/* Its text is not needed any more: it is freed at its end. NULL: no-op. */
void mst_output_forget(struct mst_output *output, struct mst_output_stream *stream);

/* The last line so far that was not empty, unprintable bytes replaced; empty: none. */
void mst_output_last(struct mst_output *output, const struct mst_output_stream *stream,
                     char line[MST_OUTPUT_LAST_MAX]);

/* The last lines so far, as they were written, at most the newest MST_OUTPUT_TAIL_MAX bytes: where
 * that is less than all, from the beginning of a line on. Returns how many bytes. */
size_t mst_output_tail(struct mst_output *output, const struct mst_output_stream *stream,
                       char tail[MST_OUTPUT_TAIL_MAX]);

/* The terminal has echoed the end of a line that was typed for the process of that index: it is no
 * longer in the row of its prompt, and that row is done. */
void mst_output_echoed(struct mst_output *output, uint32_t index);

/* Waits until all that was written to the streams so far has come out, last lines without an end
 * too. It does not wait for the writers of a pipe; but for a reader that is held up, as long as
 * it takes. */
void mst_output_drain(struct mst_output *output);

#endif
