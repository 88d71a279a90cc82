/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_BASE_SLICE_H
#define MST_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Borrowed bytes. `data` may be NULL when `size` is 0. */
struct mst_slice {
    const void *data;
    size_t size;
};

static inline struct mst_slice mst_slice_of(const void *data, size_t size)
{
    return (struct mst_slice){.data = data, .size = size};
}

/* Without its NUL. */
static inline struct mst_slice mst_slice_text(const char *text)
{
    return mst_slice_of(text, text ? strlen(text) : 0);
}

static inline bool mst_slice_starts_with(struct mst_slice whole, struct mst_slice prefix)
{
    return whole.size >= prefix.size &&
           (prefix.size == 0 || memcmp(whole.data, prefix.data, prefix.size) == 0);
}

static inline bool mst_slice_equal(struct mst_slice a, struct mst_slice b)
{
    return a.size == b.size && mst_slice_starts_with(a, b);
}

static inline bool mst_slice_is(struct mst_slice slice, const char *text)
{
    return mst_slice_equal(slice, mst_slice_text(text));
}

/* All but the first bytes. */
static inline struct mst_slice mst_slice_from(struct mst_slice slice, size_t first)
{
    return first < slice.size ? mst_slice_of((const char *)slice.data + first, slice.size - first)
                              : mst_slice_of(NULL, 0);
}

/* Takes what is before the next `end`, which goes with it; all, where there is none. */
struct mst_slice mst_slice_cut(struct mst_slice *rest, char end);

/* 1 to 20 decimal digits and nothing else, of a number up to `most`. */
bool mst_slice_number(struct mst_slice digits, uint64_t most, uint64_t *out);

/* The position among `count` words; `count`: it is none of them. */
size_t mst_slice_among(struct mst_slice slice, const char *const *words, size_t count);

bool mst_slice_has_nul(struct mst_slice slice);

/* A copy in `array`, which has `room` for it and a NUL behind it; cut if too long. */
struct mst_slice mst_slice_copy(char *array, size_t room, struct mst_slice words);

/* Order of the bytes, a prefix before what it is a prefix of. <0, 0, >0. */
static inline int mst_slice_compare(struct mst_slice a, struct mst_slice b)
{
    size_t shorter = a.size < b.size ? a.size : b.size;
    int order = shorter == 0 ? 0 : memcmp(a.data, b.data, shorter);

    if (order != 0) {
        return order;
    }
    return (a.size > b.size) - (a.size < b.size);
}

#endif
