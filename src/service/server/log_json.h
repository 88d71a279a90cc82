/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_LOG_JSON_H
#define MST_SERVICE_SERVER_LOG_JSON_H

/* A line of a log as one JSON object: the same words, and what a program would look for in them. */

#include <stddef.h>

#include "base/slice.h"

/* Enough for the object of a line with `words` bytes of text: each byte is in `text`, may be in
 * `fields` as well, may be escaped in both, and brings at most its share of the punctuation. */
#define MST_LOG_JSON_ROOM(words) (8 * (words) + 512)

/* The parts of a line. The text is "event key=value key="value"", or a sentence. */
struct mst_log_parts {
    const char *time, *level, *area;
    struct mst_slice job;  /* empty: none */
    struct mst_slice text; /* shown as a line may show it: mst_text_slice */
};

/* Writes the object without a line end; returns its size. */
size_t mst_log_json(char *out, size_t room, const struct mst_log_parts *parts);

#endif
