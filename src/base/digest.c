/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"

static uint64_t step(uint64_t digest, unsigned char byte)
{
    return (digest ^ byte) * 0x100000001b3u;
}

uint64_t mst_digest_number(uint64_t digest, uint64_t number)
{
    for (unsigned shift = 0; shift < 64; shift += 8) {
        digest = step(digest, (unsigned char)(number >> shift));
    }
    return digest;
}

uint64_t mst_digest_slice(uint64_t digest, struct mst_slice bytes)
{
    const unsigned char *data = bytes.data;

    digest = mst_digest_number(digest, bytes.size);
    for (size_t i = 0; i < bytes.size; i++) {
        digest = step(digest, data[i]);
    }
    return digest;
}
