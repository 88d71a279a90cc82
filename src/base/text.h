/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_BASE_TEXT_H
#define MST_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

/* One line built in the caller's array, always NUL-terminated. What does not fit is cut, and the
 * line then ends in "..." so that nobody takes it for whole. */
struct mst_text {
    char *start;
    size_t size, room;
};

struct mst_text mst_text_in(char *array, size_t room); /* room >= 4 */
void mst_text_add(struct mst_text *text, const char *words);
void mst_text_slice(struct mst_text *text, struct mst_slice bytes); /* unprintable bytes as \xNN */
void mst_text_u64(struct mst_text *text, uint64_t number);
void mst_text_i64(struct mst_text *text, int64_t number);
void mst_text_hex(struct mst_text *text, uint64_t number);
void mst_text_seconds(struct mst_text *text, uint64_t ms); /* "12.4 s" */

#endif
