/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_BASE_PRNG_H
#define MST_BASE_PRNG_H

#include <stdint.h>

/* splitmix64: small, seedable, the same everywhere. For jitter and tests, never for secrets. */
struct mst_prng {
    uint64_t state;
};

uint64_t mst_prng_next(struct mst_prng *prng);
uint64_t mst_prng_below(struct mst_prng *prng, uint64_t bound); /* bound > 0 */

#endif
