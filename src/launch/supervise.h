/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_SUPERVISE_H
#define MST_LAUNCH_SUPERVISE_H

/* The service of the run is started again when it dies, unless it cannot bring its state back. */

#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

struct mst_supervised {
    uv_timer_t again;
    pid_t lost; /* the service cannot go on, and with it the job's state is lost; 0: it can */
    char how[128];
    uint32_t deaths; /* soon after its start, in a row */
    uint64_t begun_ns;
};

struct mst_run_job;

/* The timer of the loop. */
void mst_supervise_open(struct mst_run_job *job);

/* After SIGCHLD. */
void mst_supervise_reap(struct mst_run_job *job);

/* The time before the next try, after `failures` in a row: doubling, at most a minute. */
uint64_t mst_supervise_back_off_ms(uint32_t failures);

#endif
