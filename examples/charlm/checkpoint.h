/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHARLM_CHECKPOINT_H
#define CHARLM_CHECKPOINT_H

/* A model in files, one for each place of the job. Writing and committing are two acts, and only
 * what is committed is ever loaded:
 *
 *   PATH.INDEX.WRITER   written, under the number of who wrote it: its generation, say
 *   PATH.INDEX          committed
 *
 * So a process that was replaced while it wrote, and goes on later, touches nothing that counts. */

#include <stdbool.h>

#include "model.h"

/* Whole, on the disk, and not committed. False: errno says why. */
bool checkpoint_write(const char *path, uint32_t index, uint64_t writer, const struct model *model);

/* What was written becomes what is loaded, whenever this process or its machine ends, and what the
 * writers before this one left is removed. False: errno says why, and what was committed before is
 * still there. */
bool checkpoint_commit(const char *path, uint32_t index, uint64_t writer);

/* The step that is committed, without reading all of it; -1: none. */
int64_t checkpoint_step(const char *path, uint32_t index);

/* False: there is none, or it is damaged. */
bool checkpoint_load(const char *path, uint32_t index, struct model *model);

/* Removes all of it, also what the writers from 1 to `writer` have not committed. */
void checkpoint_remove(const char *path, uint32_t index, uint64_t writer);

#endif
