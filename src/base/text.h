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

/* The size of the character that `bytes` begin with, 1 to 4, if a line may show it as it is. 0: it
 * is none of UTF-8, or a terminal or an editor would obey it: a control character, of C1 too, one
 * that ends a line, or one that turns the direction of text. */
size_t mst_text_shown(struct mst_slice bytes);

/* The one way in which bytes that somebody else chose come into a line for people: what may not be
 * shown is \xNN, byte by byte. What was quoted once stays as it is. */
void mst_text_slice(struct mst_text *text, struct mst_slice bytes);
void mst_text_u64(struct mst_text *text, uint64_t number);
void mst_text_i64(struct mst_text *text, int64_t number);
void mst_text_hex(struct mst_text *text, uint64_t number);
void mst_text_seconds(struct mst_text *text, uint64_t ms); /* "12.4 s" */

#endif
