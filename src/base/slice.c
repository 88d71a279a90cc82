/* SPDX-License-Identifier: Apache-2.0 */
#include "base/slice.h"

struct mst_slice mst_slice_cut(struct mst_slice *rest, char end)
{
    const char *bytes = rest->data;
    struct mst_slice piece = {.data = bytes};

    while (piece.size < rest->size && bytes[piece.size] != end) {
        piece.size++;
    }
    *rest = mst_slice_from(*rest, piece.size + 1);
    return piece;
}

bool mst_slice_number(struct mst_slice digits, uint64_t most, uint64_t *out)
{
    const char *at = digits.data;
    uint64_t number = 0;

    if (digits.size == 0 || digits.size > 20) {
        return false;
    }
    for (size_t i = 0; i < digits.size; i++) {
        uint64_t digit = (uint64_t)(at[i] - '0');

        if (at[i] < '0' || at[i] > '9' || digit > most || number > (most - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    *out = number;
    return true;
}

size_t mst_slice_among(struct mst_slice slice, const char *const *words, size_t count)
{
    size_t i = 0;

    while (i < count && !mst_slice_is(slice, words[i])) {
        i++;
    }
    return i;
}

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
