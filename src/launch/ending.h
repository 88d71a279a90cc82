/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_ENDING_H
#define MST_LAUNCH_ENDING_H

/* How a run ends: by a failure, by a signal, because its time is over, by the word of another node,
 * or because nothing is left that does anything. */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum mst_ending {
    MST_GOES_ON = 0,
    MST_ENDS_SIGNAL = 1,    /* somebody told us to stop */
    MST_ENDS_FAILED = 2,    /* a place was given up, or its next process has no peers left */
    MST_ENDS_WELL = 3,      /* only joiners were left */
    MST_ENDS_ELSEWHERE = 4, /* another node decided it */
    MST_ENDS_ALONE = 5,     /* the run goes on without this node */
    MST_ENDS_TIME = 6       /* --max-time is over */
};

struct mst_end {
    enum mst_ending how;
    uint64_t at_ns;     /* when that was decided */
    int signal;         /* the first that we were told to stop by */
    bool closing;       /* no rank is left, and the service is told to stop */
    int launch_code;    /* not 0: a program, or what it needs, could not be started */
    bool time_over;     /* --max-time is; the ranks may have got a notice first */
    uv_timer_t time;    /* then it is */
    uv_timer_t grace;   /* then SIGKILL */
    uv_timer_t joiners; /* then they are stopped, if they still wait alone */
};

struct mst_run_job;

/* The run ends: the processes get `number`, and SIGKILL after the grace time. */
void mst_ending_begin(struct mst_run_job *job, enum mst_ending how, int number);
void mst_ending_stop(struct mst_run_job *job,
                     int number); /* by a signal, or the time that is over */
void mst_ending_signal(struct mst_run_job *job, int number);    /* to all that run */
void mst_ending_processes(struct mst_run_job *job, int number); /* ...and SIGKILL as well */
void mst_ending_limit(struct mst_run_job *job);                 /* --max-time begins */
bool mst_ending_decided(const struct mst_run_job *job); /* by this node: the others are told */
void mst_ending_look(struct mst_run_job *job); /* whether it is over, or only joiners are left */

#endif
