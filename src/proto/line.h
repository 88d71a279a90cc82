/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROTO_LINE_H
#define MST_PROTO_LINE_H

/* Values of keys as one line of words, `name=value name=value`, so that an operator can read and
 * write them. Any client may have written them: a line is accepted whole or refused. */

#include <stdint.h>

#include "base/slice.h"
#include "base/text.h"

struct mst_line_word {
    struct mst_slice name, value;
};

/* Takes the next word off the line. The value of the word `rest` is the whole remainder; NULL:
 * there is none. False: no word. */
bool mst_line_take(struct mst_slice *line, struct mst_line_word *out, const char *rest);

/* As mst_slice_number, also behind a minus. */
bool mst_line_signed(struct mst_slice text, int64_t *out);

/* No control characters. */
bool mst_line_printable(struct mst_slice text);

/* ` name=` and the value, where that is not empty; in it blanks and control characters become
 * dashes. */
void mst_line_put(struct mst_text *line, const char *head, struct mst_slice value);

#endif
