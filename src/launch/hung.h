/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_HUNG_H
#define MST_LAUNCH_HUNG_H

/* Ranks of the run that make no progress are reported, and ended. */

#include <uv.h>

#include "launch/hang/monitor.h"

struct mst_hung {
    struct mst_monitor monitor;
    uv_timer_t look; /* at the progress pages */
};

struct mst_run_job;
struct mst_place;

void mst_hung_init(struct mst_run_job *job);
void mst_hung_watch(struct mst_place *place); /* its process, from now on... */
void mst_hung_forget(struct mst_place *place);
void mst_hung_stop(struct mst_run_job *job); /* and none any more */

#endif
