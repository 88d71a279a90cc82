/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_PREEMPTED_H
#define MST_LAUNCH_PREEMPTED_H

/* A run and the notices of its node: the sources that give them, the polite signal that is one,
 * what became of the save that followed, and that the job is to be run again. */

#include <signal.h>
#include <uv.h>

#include "launch/announcer.h"
#include "launch/saving.h"

struct mst_run_job;
struct mst_process;

#define MST_PREEMPTED_LINES MST_SOURCES_MAX /* each may have something to say at once */

struct mst_preempted {
    struct mst_announcer announcer;
    struct mst_saving saving;
    uint32_t *indices;                    /* of this node's places */
    uv_timer_t again;                     /* to look at the sources once more */
    uv_timer_t end;                       /* of the grace time that a signal gave */
    int signal;                           /* that was taken as a notice; 0: none */
    bool opened;                          /* a rank of this node takes, or took, notices */
    char lines[MST_PREEMPTED_LINES][400]; /* of sources, to be said; under the run's lock */
    unsigned line_count;
    bool late; /* the grace time is over, and the service is asked which ranks had not saved */
    bool asked_again;
    bool stays;          /* the node has left, but for the service, which the others need: said */
    sigset_t before;     /* what was blocked before _settle */
    const char *requeue; /* how the job was asked to be run again; NULL: it was not */
};

/* Before anything runs: opens the sources. 0, or the exit code after one line. */
int mst_preempted_open(struct mst_run_job *job);
void mst_preempted_close(struct mst_run_job *job); /* before the session is, or later */

/* The session is another one, or the node has another number. */
void mst_preempted_begin(struct mst_run_job *job);

/* On the loop, whenever something was told. */
void mst_preempted_look(struct mst_run_job *job);

/* Whether the signal is a notice, and was taken as one. */
bool mst_preempted_signal(struct mst_run_job *job, int number);

/* The time of the run is over: whether that was taken as a notice, because a rank takes them. */
bool mst_preempted_time_over(struct mst_run_job *job);

/* A process of this node has ended, and its page is still there: whether it took notices. */
void mst_preempted_gone(struct mst_run_job *job, const struct mst_process *process);

/* Nothing runs here any more: whether it is known what became of the save. Asks, the first time. */
bool mst_preempted_answered(struct mst_run_job *job);

/* Before and after other signals end the run again: where all have saved, the signal that is a
 * notice does not, for the code and the report are still to come. */
void mst_preempted_settle(struct mst_run_job *job);
void mst_preempted_settled(struct mst_run_job *job);

/* Whether all that the processes of this node did last was to save, with all others. */
bool mst_preempted_saved(const struct mst_run_job *job);

/* Whether it left after a save, and others of this node went on. */
bool mst_preempted_past(const struct mst_run_job *job, const struct mst_process *process);

/* Nothing runs here any more: where the others go on without this node, it goes now. */
void mst_preempted_leave(struct mst_run_job *job);

/* requeue.c: the run has ended with `code`, and said all: says what was saved, and asks that the
 * job is run again, once, if it is wanted, saved, and this is node 0. Blocks. */
void mst_preempted_requeue(struct mst_run_job *job, int code);

#endif
