/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CORE_PAST_H
#define MST_CORE_PAST_H

/* The numbers of a job that must never go back: they outlive the job, because a process of its old
 * generation may still live behind a broken network, and storage may fence by them. A job has its
 * past from birth, so that its end allocates nothing. Of jobs that ended, as many are remembered as
 * there may be jobs; then the one that ended first is forgotten. */

#include "core/part.h"

struct mst_past {
    struct mst_tree_node node; /* in core->pasts while the job is ended */
    struct mst_list in_list;   /* the same, in the order they ended */
    uint64_t generation;       /* the largest known of */
    uint64_t incarnation;      /* of any place */
    uint32_t name_size;
    char name[];
};

void mst_past_tree_init(struct mst_tree *tree);

/* The past of a job that begins: what is remembered of its name, else an empty one. NULL: no
 * memory. */
struct mst_past *mst_past_begin(struct mst_core *core, struct mst_slice name);

/* The job ended. */
void mst_past_end(struct mst_core *core, struct mst_past *past);

void mst_past_free_all(struct mst_core *core);

#endif
