/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_BASE_TEXT_H
#define MST_BASE_TEXT_H

#include <inttypes.h>
#include <stdarg.h>
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

/* A sentence. Of printf's conversions it knows %s, %.*s, %c, %% and those of integers, %d, %i, %u,
 * %x and %o, also with l, ll and z, and of %u, %x and %o with zeros, as %016x; any other is a
 * broken invariant. It allocates nothing and is safe in a handler of a signal. %s are words of the
 * program, as they are. %.*s are bytes that somebody else chose, shown as mst_text_slice shows
 * them. A NULL for %s is "(null)". */
void mst_text_format(struct mst_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void mst_text_format_list(struct mst_text *text, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

/* A text of one sentence in `array`; returns its size. */
size_t mst_text_print(char *array, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* For "%.*s": a slice, and words that are to be quoted. Their argument is read more than once. */
#define MST_SLICE_ARGS(slice) (int)(slice).size, (const char *)(slice).data
#define MST_TEXT_ARGS(words) MST_SLICE_ARGS(mst_slice_text(words))

/* "12.4 s": a piece of a format, and its arguments. */
#define MST_SECONDS "%" PRIu64 ".%u s"
#define MST_SECONDS_ARGS(ms)                                                                       \
    ((uint64_t)(ms) + 50) / 1000, (unsigned)(((uint64_t)(ms) + 50) / 100 % 10)

/* The size of the character that `bytes` begin with, 1 to 4, if a line may show it as it is. 0: it
 * is none of UTF-8, or a terminal or an editor would obey it: a control character, of C1 too, one
 * that ends a line, or one that turns the direction of text. */
size_t mst_text_shown(struct mst_slice bytes);

/* The one way in which bytes that somebody else chose come into a line for people: what may not be
 * shown is \xNN, byte by byte. What was quoted once stays as it is. */
void mst_text_slice(struct mst_text *text, struct mst_slice bytes);

#endif
