/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_RESTARTS_LEFT_H
#define MST_LAUNCH_RESTARTS_LEFT_H

/* How many restarts are left: the run counts them, and the first node says it for `muster why` and
 * `muster status` (proto/run_keys.h). Of a program without muster that is never restarted nothing
 * is said. */

struct mst_run_job;

void mst_restarts_left_begin(struct mst_run_job *job); /* the session is open */

/* On the loop, whenever a restart may have been counted. */
void mst_restarts_left_look(struct mst_run_job *job);

#endif
