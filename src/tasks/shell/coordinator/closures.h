/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_TASKS_SHELL_COORDINATOR_CLOSURES_H
#define MST_TASKS_SHELL_COORDINATOR_CLOSURES_H

/* The handle of a closure. A million of them may be queued: it is small until it has ended. */

#include "tasks/shell/coordinator/cluster.h"

struct muster_closure {
    muster_cluster *cluster; /* its memory is held */
    uint64_t number;
    struct mst_coord_outcome *outcome; /* once it was looked at after its end */
};

/* Cluster's lock held, or not. NULL: no memory. */
muster_closure *mst_closure_new(muster_cluster *cluster);
void mst_closure_unmake(muster_closure *closure); /* it was not admitted; NULL: a no-op */

#endif
