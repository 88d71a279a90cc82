/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_FRONTS_FRONT_H
#define MST_LAUNCH_FRONTS_FRONT_H

/* What `muster run` and `muster agent --front` have in common around the fronts of a node. */

#include <stdbool.h>
#include <stdint.h>

#include "fronts/shell/kinds.h"
#include "process/environment.h"

/* Where a front is, for its clients. False: no memory. */
bool mst_front_variables(struct mst_environment *environment, const struct mst_front *front,
                         uint16_t port);

enum { MST_FRONT_NOTICES_MAX = 64 };

/* A certain notice of preemption, by this machine's clock since its start. */
struct mst_front_notice {
    uint32_t index;  /* of its key */
    uint64_t end_ns; /* the deadline */
    uint64_t due_ns; /* when processes of JAX are to have it; 0: at once */
    char text[400];  /* its source and reason */
};

/* Those that hold. Of more than there is room for, the earliest. */
struct mst_front_notices {
    struct mst_front_notice list[MST_FRONT_NOTICES_MAX];
    uint32_t count;
};

/* What a watch of the job's notices has told. */
void mst_front_notices_hear(struct mst_front_notices *notices, const struct mst_item *item);

/* The earliest, but for those that were over before `since_ns`: an earlier attempt was meant.
 * False: there is none. */
bool mst_front_notices_next(const struct mst_front_notices *notices, uint64_t since_ns,
                            struct mst_front_notice *out);

#endif
