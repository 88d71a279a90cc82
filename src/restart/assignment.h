/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_RESTART_ASSIGNMENT_H
#define MST_RESTART_ASSIGNMENT_H

/* Which members run the function, and as which rank: the steps of muster/assignment.h, worked out
 * over a list of places. Nothing is kept between two calls: what was before is in the places. */

#include <stddef.h>

#include "base/mem.h"
#include "base/text.h"
#include "muster/assignment.h"

enum {
    MST_ASSIGNMENT_KEY_ROOM = 256,
    MST_ASSIGNMENT_LAYERS_MAX = 16,
    MST_ASSIGNMENT_RANKS_MAX = 1 << 20 /* previous ranks are below it */
};

/* EINVAL, and `why` says which rule the steps break; nothing is called. */
muster_status mst_assignment_check(const struct muster_assignment_step *steps, size_t count,
                                   struct mst_text *why);

/* Sets `number` of all places. On failure no place is changed and `why` says what is wrong: EINVAL
 * (the steps, the places, or what a callback said), ENOMEM, or what `assign` returned. */
muster_status mst_assignment_apply(const struct muster_assignment_step *steps, size_t count,
                                   struct muster_place *places, size_t place_count,
                                   const struct mst_mem *mem, struct mst_text *why);

/* The key of a place in `key`, ended with NUL whatever the callback did. */
void mst_assignment_key(muster_assignment_key *call, void *arg, const struct muster_place *place,
                        char key[MST_ASSIGNMENT_KEY_ROOM]);

#endif
