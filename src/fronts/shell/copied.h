/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_FRONTS_SHELL_COPIED_H
#define MST_FRONTS_SHELL_COPIED_H

/* A reply that outlives what it borrows. */

#include "proto/reply.h"

struct mst_fronts_copied {
    struct mst_reply reply;
    void *room; /* what it borrows from; freed by the caller */
};

/* Without memory the copy is a reply whose status is ENOMEM. */
void mst_fronts_copy(struct mst_fronts_copied *out, const struct mst_reply *reply);

#endif
