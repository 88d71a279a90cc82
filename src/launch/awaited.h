/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_AWAITED_H
#define MST_LAUNCH_AWAITED_H

/* The places of this node whose ranks were lost and whose next process has not joined yet, while
 * the other ranks wait for them: one line of the run after two seconds, and again from time to
 * time. */

#include <uv.h>

#include "launch/run.h"

struct mst_run_job;
struct mst_place;

struct mst_awaited {
    uv_timer_t look;
    uint64_t said_ns; /* the last line; 0: none since there was nothing to wait for */
};

/* How long the ranks wait for a lost one; 0: not at all. */
int64_t mst_awaited_ms(const struct mst_run_options *options);

void mst_awaited_init(struct mst_run_job *job);

/* The place gets another process: the others wait from the death of the last one that had joined.
 */
void mst_awaited_begin(struct mst_place *place);

#endif
