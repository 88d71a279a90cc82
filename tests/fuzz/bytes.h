/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FUZZ_BYTES_H
#define FUZZ_BYTES_H

/* The bytes of a fuzzer as a row of choices, taken from the front. Whoever makes an input at random
 * from a seed can make it from these instead: then the fuzzer decides, and learns what its
 * decisions reach. Behind the end everything is 0. */

#include <stdint.h>
#include <string.h>

#include "base/slice.h"

struct fuzz_bytes {
    const unsigned char *at;
    size_t left;
};

static inline uint8_t fuzz_u8(struct fuzz_bytes *bytes)
{
    if (bytes->left == 0) {
        return 0;
    }
    bytes->left--;
    return *bytes->at++;
}

/* Of `size` bytes, at most 8, the last one highest. */
static inline uint64_t fuzz_number(struct fuzz_bytes *bytes, unsigned size)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < size; i++) {
        number |= (uint64_t)fuzz_u8(bytes) << (8 * i);
    }
    return number;
}

/* As few bytes as the bound needs, so that a changed byte is another choice. */
static inline uint64_t fuzz_below(struct fuzz_bytes *bytes, uint64_t bound)
{
    unsigned size = 0;

    for (uint64_t most = bound - 1; most > 0; most >>= 8) {
        size++;
    }
    return size == 0 ? 0 : fuzz_number(bytes, size) % bound;
}

/* The next bytes as they are: at most `size`. */
static inline struct mst_slice fuzz_slice(struct fuzz_bytes *bytes, size_t size)
{
    struct mst_slice slice = {.data = bytes->at, .size = size < bytes->left ? size : bytes->left};

    bytes->at += slice.size;
    bytes->left -= slice.size;
    return slice;
}

/* The same as text with an end: cut at a NUL and at `room`. */
static inline void fuzz_text(struct fuzz_bytes *bytes, size_t size, char *out, size_t room)
{
    struct mst_slice slice = fuzz_slice(bytes, size < room ? size : room - 1);

    if (slice.size > 0) {
        memcpy(out, slice.data, slice.size);
    }
    out[slice.size] = '\0';
}

#endif
