/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHARLM_CHECKPOINT_H
#define CHARLM_CHECKPOINT_H

/* A model in files, one for each place of the job. Writing and committing are separate, and
 * only committed files are ever loaded:
 *
 *   PATH.INDEX.WRITER   written, under the number of its writer, such as its generation
 *   PATH.INDEX          committed
 *
 * So a process that was replaced while it wrote, and continues later, touches no committed file.
 *
 * A file is these numbers, without padding, in the byte order of the writer (the first one shows
 * it; floats are IEEE 754):
 *
 *   at    type             content
 *     0   u64              FORMAT: "charlm1" in little-endian order
 *     8   u64              \
 *    16   u64               | seed, steps in all, text and shards: struct training
 *    24   u64               |
 *    32   u64              /
 *    40   u64[5]           SHARD, SYMBOLS, CONTEXT, WIDTH, HIDDEN: the model's sizes
 *    80   u64              digest of the rest
 *    88   i64              steps made
 *    96   f32[3][WEIGHTS]  weights, and the means of their gradients and of the squares of these
 */

#include <stdbool.h>

#include "model.h"

/* The parameters that determine the weights, beside the sizes of the model and the program itself.
 * If one of these differs it is another training, and its checkpoints do not fit. */
struct training {
    uint64_t seed;
    uint64_t steps; /* in all: the learning rate depends on it */
    uint64_t text;  /* a digest of the training text */
    uint64_t shards;
};

struct checkpoint {
    const char *path; /* NULL: none is kept */
    uint32_t index;
    struct training training;
};

enum { CHECKPOINT_WHY = 256 };

/* Complete, on the disk, and not committed. False: errno is the reason. */
bool checkpoint_write(const struct checkpoint *self, uint64_t writer, const struct model *model);

/* Commits the written file, durably, and removes the files of earlier writers. False: errno is the
 * reason, and the previously committed file is still there. */
bool checkpoint_commit(const struct checkpoint *self, uint64_t writer);

/* The committed step, without reading the whole file; -1: none. A file of another training counts
 * as none, and `why` has the reason in one line; otherwise `why` is empty. */
int64_t checkpoint_step(const struct checkpoint *self, char why[CHECKPOINT_WHY]);

/* False: there is none, or it is damaged. */
bool checkpoint_load(const struct checkpoint *self, struct model *model);

/* Removes all files of this training at PATH: of all places and writers, committed or not. */
void checkpoint_remove(const struct checkpoint *self);

#endif
