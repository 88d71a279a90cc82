/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_GROUP_H
#define MST_LAUNCH_GROUP_H

/* The second tier. A process that ends is the first one's business: another takes its place, and
 * the others go on in their processes. But when these ended because restarting in them was given
 * up, or too few of them were left, all ranks of all nodes are ended and started anew, which is one
 * of --max-restarts. So it is when a process of a program fails that does not use muster: as with
 * torchrun, all begin again.
 *
 * Such a start is a *life* of the group, counted from 0. A node with a process that gave up inserts
 * the key of the next life, and counts it, in one step: so one node does it, whichever is first.
 * All that see the key end their processes, say that they are in that life as soon as nothing runs
 * any more, and start when all nodes have said so. Before node 0 says so, it chooses the
 * MASTER_PORT of that life:
 *
 *   life L, processes run --key of L + 1--> they are ended --nothing runs--> life L + 1, waits
 *     ^----------------------------- all nodes are in life L + 1 -------------------+ */

#include "launch/session.h"

struct mst_group {
    uint32_t life; /* of this node */
    bool ends;     /* until the processes of this life are started */
    bool asks;     /* a process of this node gave up in this life */
    bool said;     /* that nodes are waited for */
    struct mst_note claim;

    /* Under the run's lock: the newest life that was begun, why, and how many restarts there were
     * then. */
    uint32_t told, told_restarts;
    char why[768]; /* a sentence without its end */
};

struct mst_run_job;

/* The process gave up, or it failed and nothing here uses muster. */
void mst_group_ask(struct mst_run_job *job, const struct mst_process *process);

/* With the run's lock held: the key of a life is there. Only what is newer counts. */
void mst_group_heard(struct mst_group *group, uint32_t life, struct mst_slice why);

/* On the loop, whenever something was told or a process is gone. */
void mst_group_look(struct mst_run_job *job);

/* This node has joined, and its ranks start: at once, or where the others have begun anew already,
 * as theirs do, when all nodes are in that life. */
void mst_group_enter(struct mst_run_job *job);

/* Whether it begins anew, or may. */
bool mst_group_begins(const struct mst_group *group);

#endif
