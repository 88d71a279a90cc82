/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHARLM_CHECKPOINT_H
#define CHARLM_CHECKPOINT_H

/* A model in files, one for each place of the job. Writing and committing are two acts, and only
 * what is committed is ever loaded:
 *
 *   PATH.INDEX.WRITER   written, under the number of its writer: its generation, say
 *   PATH.INDEX          committed
 *
 * So a process that was replaced while it wrote, and goes on later, touches nothing that counts.
 *
 * A file is these numbers, with nothing between them, as the machine holds them that wrote it (the
 * first one differs where the order of bytes does; floats are IEEE 754):
 *
 *   at    type             what
 *     0   u64              FORMAT, which is "charlm1" where the lowest byte comes first
 *     8   u64              \
 *    16   u64               | seed, steps in all, text and shards: struct training
 *    24   u64               |
 *    32   u64              /
 *    40   u64[5]           SHARD, SYMBOLS, CONTEXT, WIDTH, HIDDEN: the model's sizes
 *    80   u64              digest of all behind it
 *    88   i64              steps made
 *    96   f32[3][WEIGHTS]  weights, and the means of their gradients and of the squares of these
 */

#include <stdbool.h>

#include "model.h"

/* What the weights depend on, beside the sizes of the model and the program itself. Where one of
 * these differs it is another training, and its checkpoints are not for this one. */
struct training {
    uint64_t seed;
    uint64_t steps; /* in all: the learning rate goes by it */
    uint64_t text;  /* a digest of what it learns from */
    uint64_t shards;
};

struct checkpoint {
    const char *path; /* NULL: none is kept */
    uint32_t index;
    struct training training;
};

enum { CHECKPOINT_WHY = 256 };

/* Whole, on the disk, and not committed. False: errno says why. */
bool checkpoint_write(const struct checkpoint *self, uint64_t writer, const struct model *model);

/* What was written becomes what is loaded, whenever this process or its machine ends, and what the
 * writers before this one left is removed. False: errno says why, and what was committed before is
 * still there. */
bool checkpoint_commit(const struct checkpoint *self, uint64_t writer);

/* The step that is committed, without reading all of it; -1: none. Where it is that of another
 * training it is none, and `why` says so in one line; else `why` is empty. */
int64_t checkpoint_step(const struct checkpoint *self, char why[CHECKPOINT_WHY]);

/* False: there is none, or it is damaged. */
bool checkpoint_load(const struct checkpoint *self, struct model *model);

/* Removes what this training has in files of PATH: of all places and writers, committed or not. */
void checkpoint_remove(const struct checkpoint *self);

#endif
