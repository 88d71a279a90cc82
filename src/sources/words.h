/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SOURCES_WORDS_H
#define MST_SOURCES_WORDS_H

/* What several sources read. Pure: bytes in, a notice out; any bytes whatever. */

#include "base/slice.h"
#include "sources/source.h"

/* "60s", "500ms", "2m", "1h": at most 30 days. A bare number has no unit, and is none. */
bool mst_source_duration(struct mst_slice text, int64_t *ms_out);

/* Milliseconds from now to that time; never negative: what has passed is now. */
int64_t mst_source_left_ms(int64_t unix_ms, int64_t now_unix_ms);

/* Copies `text` as a line for people: what is no printable character becomes one blank, what is too
 * long is cut between characters. */
void mst_source_reason(struct mst_source_notice *notice, struct mst_slice text);

/* The first line that has something in it: "[DEADLINE] [REASON]", the deadline as a duration or as
 * RFC 3339. What begins with neither is all reason. False: there is no such line. */
bool mst_source_line(struct mst_slice bytes, int64_t now_unix_ms, struct mst_source_notice *out);

#endif
