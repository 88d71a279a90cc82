/* SPDX-License-Identifier: Apache-2.0 */
#include "base/prng.h"

#include "base/panic.h"

uint64_t mst_prng_next(struct mst_prng *prng)
{
    uint64_t z = prng->state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t mst_prng_below(struct mst_prng *prng, uint64_t bound)
{
    MST_ASSERT(bound > 0);
    return mst_prng_next(prng) % bound;
}
