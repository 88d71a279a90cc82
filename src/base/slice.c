/* SPDX-License-Identifier: Apache-2.0 */
#include "base/slice.h"

#include <stdint.h>
#include <string.h>

struct mst_slice mst_slice_copy(char *array, size_t room, struct mst_slice words)
{
    size_t size = words.size < room ? words.size : room - 1;

    if (size > 0) {
        memcpy(array, words.data, size);
    }
    array[size] = '\0';
    return mst_slice_of(array, size);
}

bool mst_slice_has_nul(struct mst_slice slice)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const unsigned char *bytes = slice.data;
    size_t left = slice.size;
    uint64_t word;

    for (; left >= sizeof word; left -= sizeof word) {
        memcpy(&word, bytes, sizeof word);
        if ((word - ones) & ~word & ones << 7) { /* a borrow from a byte that was 0 */
            return true;
        }
        bytes += sizeof word;
    }
    for (size_t i = 0; i < left; i++) {
        if (bytes[i] == 0) {
            return true;
        }
    }
    return false;
}
