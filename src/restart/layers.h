/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_RESTART_LAYERS_H
#define MST_RESTART_LAYERS_H

/* The tree of an assignment: ranks are its leaves, a layer says into which group of it each
 * belongs. layers.c draws how a fault is answered. */

#include "base/mem.h"
#include "base/text.h"
#include "muster/assignment.h"

/* EINVAL, and `why` goes on with which rule the layers break. */
muster_status mst_layers_check(const struct muster_assignment_layer *layers, size_t count,
                               struct mst_text *why);

/* Sets `number` of all places by what they had before (`previous`). EINVAL, and `why` goes on with
 * what is wrong; ENOMEM. The numbers are then of no use. */
muster_status mst_layers_apply(const struct muster_assignment_layer *layers, size_t layer_count,
                               struct muster_place *places, size_t count, const struct mst_mem *mem,
                               struct mst_text *why);

#endif
