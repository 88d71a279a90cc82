/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_PAST_H
#define MST_SERVICE_CORE_PAST_H

/* The numbers of a job that must never go back: they outlive the job, because a process of its old
 * generation may still live behind a broken network, and storage may fence by them. A job has its
 * past from birth, so that its end allocates nothing. Of jobs that ended, as many are remembered as
 * there may be jobs; then the one that ended first is forgotten. */

#include "service/core/part.h"

struct mst_past {
    struct mst_named named; /* in core->pasts while the job is ended */
    uint64_t generation;    /* the largest known of */
    uint64_t incarnation;   /* of any place */
};

/* The past of a job that may begin: the one that is remembered of its name, still in its place, or
 * an empty one. NULL: no memory. */
struct mst_past *mst_past_make(struct mst_core *core, struct mst_slice name);
void mst_past_unmake(struct mst_core *core, struct mst_past *past); /* it did not begin */
void mst_past_begin(struct mst_core *core, struct mst_past *past);  /* it did */

/* The job ended. */
void mst_past_end(struct mst_core *core, struct mst_past *past);

/* As many as the limits allow are left. */
void mst_past_trim(struct mst_core *core);

void mst_past_free_all(struct mst_core *core);

#endif
