/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_STOPPED_H
#define MST_LAUNCH_STOPPED_H

/* Ranks of this node whose process a signal has stopped: it cannot say so itself, so the agent says
 * it for `muster status` (proto/run_keys.h). */

#include "launch/session.h"

struct mst_run_job;

void mst_stopped_begin(struct mst_run_job *job); /* the session is open */

/* On the loop, whenever SIGCHLD has come: it comes also when a process stops or continues. */
void mst_stopped_look(struct mst_run_job *job);

#endif
