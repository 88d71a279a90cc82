/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_PLAIN_H
#define MST_LAUNCH_PLAIN_H

/* Ranks of this node that run and have opened no client: the service knows nothing of them, so the
 * agent says for `muster status` that they run (proto/run_keys.h). */

#include <uv.h>

#include "launch/session.h"

struct mst_plain_ranks {
    struct mst_note note;
    uv_timer_t young; /* then those that run are old enough to be named */
};

struct mst_run_job;

void mst_plain_open(struct mst_run_job *job);  /* the timer of the loop */
void mst_plain_begin(struct mst_run_job *job); /* the session is open */

/* On the loop, whenever a process was started, is gone, or may have opened a client. */
void mst_plain_look(struct mst_run_job *job);

#endif
