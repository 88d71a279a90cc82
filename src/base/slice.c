/* SPDX-License-Identifier: Apache-2.0 */
#include "base/slice.h"

#include <string.h>

struct mst_slice mst_slice_of(const void *data, size_t size)
{
    return (struct mst_slice){.data = data, .size = size};
}

struct mst_slice mst_slice_text(const char *text)
{
    return mst_slice_of(text, text ? strlen(text) : 0);
}

bool mst_slice_equal(struct mst_slice a, struct mst_slice b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

bool mst_slice_starts_with(struct mst_slice whole, struct mst_slice prefix)
{
    return whole.size >= prefix.size &&
           (prefix.size == 0 || memcmp(whole.data, prefix.data, prefix.size) == 0);
}

bool mst_slice_has_nul(struct mst_slice slice)
{
    const unsigned char *bytes = slice.data;

    for (size_t i = 0; i < slice.size; i++) {
        if (bytes[i] == 0) {
            return true;
        }
    }
    return false;
}

int mst_slice_compare(struct mst_slice a, struct mst_slice b)
{
    size_t shorter = a.size < b.size ? a.size : b.size;
    int order = shorter == 0 ? 0 : memcmp(a.data, b.data, shorter);

    if (order != 0) {
        return order;
    }
    return (a.size > b.size) - (a.size < b.size);
}
