/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_BASE_TEXT_H
#define MST_BASE_TEXT_H

#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

/* One line built in the caller's array, always NUL-terminated. Text that does not fit is cut, and
 * the line then ends in "..." to show it. */
struct mst_text {
    char *start;
    size_t size, room;
};

struct mst_text mst_text_in(char *array, size_t room); /* room >= 4 */
void mst_text_add(struct mst_text *text, const char *words);

/* A sentence. Of printf's conversions it has %s, %.*s, %c, %% and those of integers, %d, %i, %u, %x
 * and %o, also with l, ll and z, and %u, %x and %o with zeros, as %016x; any other is a broken
 * invariant. It allocates nothing and is safe in a signal handler. %s are words of the program,
 * unchanged. %.*s are bytes from outside, shown as mst_text_slice shows them. A NULL for %s is
 * "(null)". */
void mst_text_format(struct mst_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void mst_text_format_list(struct mst_text *text, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

/* Formats one sentence into `array`; returns its size. */
size_t mst_text_print(char *array, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* For "%.*s": a slice, and quoted words. Their argument is evaluated more than once. */
#define MST_SLICE_ARGS(slice) (int)(slice).size, (const char *)(slice).data
#define MST_TEXT_ARGS(words) MST_SLICE_ARGS(mst_slice_text(words))

/* "12.4 s": a piece of a format, and its arguments. */
#define MST_SECONDS "%" PRIu64 ".%u s"
#define MST_SECONDS_ARGS(ms)                                                                       \
    ((uint64_t)(ms) + 50) / 1000, (unsigned)(((uint64_t)(ms) + 50) / 100 % 10)

/* The size of the character at the start of `bytes`, 1 to 4, if a line may show it unchanged. 0: it
 * is invalid UTF-8, or a terminal or an editor would interpret it: a control character (C1 too), a
 * line end, or a change of the text direction. */
size_t mst_text_shown(struct mst_slice bytes);

/* The only way for bytes from outside into a line for people: bytes that may not be shown become
 * \xNN, one by one. Text that was quoted before stays unchanged. */
void mst_text_slice(struct mst_text *text, struct mst_slice bytes);

#endif
