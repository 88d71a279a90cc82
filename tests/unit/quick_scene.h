/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QUICK_SCENE_H
#define QUICK_SCENE_H

/* A message as protobuf-c packs it, for the tests of what reads and writes the same bytes without:
 * whole, in memory of its own, or damaged. */

#include <stdlib.h>

#include "base/prng.h"
#include "failing_mem.h"
#include "proto/native/arena.h"

enum { ROUNDS = 20000, ROOM = 1 << 17 };

struct scene {
    struct failing_mem mem;
    struct mst_native_arena sent, slow, quick; /* what the encoding and the two decodings borrow */
    unsigned char bytes[ROOM];
    size_t size;
};

struct scene *scene_new(void);
void scene_free(struct scene *scene);

/* The bytes in memory of exactly their size, so that reading on is noticed; the caller frees it. */
unsigned char *scene_alone(const struct scene *scene);

/* One byte or bit is another, one more or one less, among the first `within`. There is room. */
void scene_damage(struct scene *scene, struct mst_prng *prng, size_t within);

#endif
