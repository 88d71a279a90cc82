/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHARLM_CHECKPOINT_H
#define CHARLM_CHECKPOINT_H

/* A model in a file, one for each place of the job: PATH.0, PATH.1, ... */

#include <stdbool.h>

#include "model.h"

/* What is there is whole, whenever this process ends. False: errno says why. */
bool checkpoint_save(const char *path, uint32_t index, const struct model *model);

/* False: there is none, or it is damaged. */
bool checkpoint_load(const char *path, uint32_t index, struct model *model);

void checkpoint_remove(const char *path, uint32_t index);

#endif
