/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_JOB_H
#define MST_LAUNCH_JOB_H

/* What the parts of a run share. One loop on the main thread decides; two other kinds of threads
 * tell it something: the waiter for deaths, and whichever thread drives the client. They touch what
 * is under `lock`, wake the loop, and are never waited for with the lock held.
 *
 *   place:   RUNS --ended well--> DONE
 *              | ^--- start ---- WAITS <---+
 *              +--failed, restarts left----+
 *              +--failed, none left or the run ends--> GIVEN_UP
 *
 * When the whole group begins anew (group.c), every place of every node goes through WAITS. */

#include <limits.h>
#include <pthread.h>
#include <uv.h>

#include "launch/faults.h"
#include "launch/group.h"
#include "launch/hang/monitor.h"
#include "launch/logs.h"
#include "launch/nodes.h"
#include "launch/preempted.h"
#include "launch/process.h"
#include "launch/report.h"
#include "launch/run.h"
#include "launch/service.h"
#include "launch/session.h"
#include "process/death.h"
#include "process/environment.h"
#include "process/keeper.h"
#include "process/output.h"
#include "process/tagged.h"

#define MST_JOB_SIGNALS 6

enum mst_place_state {
    MST_PLACE_WAITS = 0,
    MST_PLACE_RUNS = 1,
    MST_PLACE_DONE = 2,
    MST_PLACE_GIVEN_UP = 3
};

struct mst_run_job;

/* A rank's place on this node. */
struct mst_place {
    struct mst_run_job *job;
    uint32_t slot;  /* on this node */
    uint32_t index; /* in the job */
    enum mst_place_state state;
    struct mst_process *process; /* the newest; changed under the lock */
    uint32_t attempts;           /* processes started */
    uint32_t life;               /* the newest process's */
    bool asks;                   /* whether it may be started again */
    bool refused;                /* it may not; what follows is decided when all nodes are known */
    uint32_t early;              /* how many in a row died before they were in a generation */
    int code;                    /* that a done one ended with: 0, or 75 */
    int start_error;             /* why it could not be started the last time; 0: it was */
    uv_timer_t again, overdue;
};

enum mst_ending {
    MST_GOES_ON = 0,
    MST_ENDS_SIGNAL = 1,    /* somebody told us to stop */
    MST_ENDS_FAILED = 2,    /* a place was given up, or its next process waits for nobody */
    MST_ENDS_WELL = 3,      /* only joiners were left */
    MST_ENDS_ELSEWHERE = 4, /* another node decided it */
    MST_ENDS_ALONE = 5      /* the run goes on without this node */
};

struct mst_run_job {
    struct mst_run_options own;            /* as typed, filled up with what the run is */
    const struct mst_run_options *options; /* that */
    char name[MST_SOCKET_PATH_MAX];
    char host[HOST_NAME_MAX + 1];
    char path[PATH_MAX]; /* of the program */
    struct mst_environment environment;
    uv_loop_t loop;
    uv_async_t woken;
    uv_signal_t child, signals[MST_JOB_SIGNALS];
    uv_timer_t grace;   /* then SIGKILL */
    uv_timer_t joiners; /* then they are stopped, if they still wait alone */
    uv_timer_t service_again;
    uv_timer_t look; /* at the progress pages */
    struct mst_monitor monitor;
    struct mst_service service;
    struct mst_run_session session;
    struct mst_nodes nodes;
    struct mst_group group;
    struct mst_faults faults;
    struct mst_preempted preempted;
    struct mst_keeper keeper;
    uint64_t tag; /* of the run: see tagged.h */
    struct mst_output *output;
    struct mst_logs logs;
    struct mst_report report;
    struct mst_death *death;
    struct mst_place *places;
    uint32_t place_count;
    uint32_t restarts;
    uint16_t master_port;
    bool uses_muster; /* a process of the run has opened a client */
    enum mst_ending ending;
    uint64_t ended_ns; /* when that was decided */
    int signal;        /* the first that we were told to stop by */
    bool closing;
    int launch_code;    /* not 0: a program, or what it needs, could not be started */
    pid_t service_lost; /* the service cannot go on, and with it the job's state is lost */
    char service_how[128];
    uint32_t service_deaths; /* soon after its start, in a row */
    uint64_t service_begun_ns;

    pthread_mutex_t lock; /* of what says so */
    struct mst_process *processes;
};

/* One line on stderr, "muster run: ...". Main thread. */
void mst_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The last such line, without what it begins with; empty: nothing was said. */
const char *mst_said_last(void);

/* say.c: from now on through the output of the ranks, and directly again. */
void mst_say_with_output(struct mst_run_job *job);
void mst_say_directly(struct mst_run_job *job);

/* variables.c: what all ranks of this node get, and what one of them gets. */
bool mst_variables_set(struct mst_run_job *job);
bool mst_variables_of(struct mst_place *place, const char *tag, int page_fd,
                      const struct mst_log *log);

/* run.c: starts every place that waits. */
void mst_run_places(struct mst_run_job *job);

/* run.c: places there are in the job, on all nodes or elsewhere; and how many must be left that it
 * goes on without one that is not started again, 0: all. */
uint32_t mst_run_indices(const struct mst_run_job *job);
uint32_t mst_run_enough(const struct mst_run_job *job);

/* ending.c: the run ends: the processes get `number`, and SIGKILL after the grace time. */
void mst_job_end(struct mst_run_job *job, enum mst_ending ending, int number);
void mst_job_signal(struct mst_run_job *job, int number);        /* to all that run */
void mst_job_end_processes(struct mst_run_job *job, int number); /* ...and SIGKILL as well */
void mst_job_look(struct mst_run_job *job); /* whether it is over, or only joiners are left */

/* place.c */
int mst_place_start(struct mst_place *place); /* 0, or the exit code after one line */
bool mst_place_reap(struct mst_place *place); /* after SIGCHLD: whether it is gone */
void mst_place_forget(struct mst_run_job *job, uint32_t index); /* old ones that were got over */
void mst_place_sweep(struct mst_run_job *job); /* kills what those that are gone have left */
void mst_place_go_on(struct mst_place *place, bool may); /* it failed and asked */
void mst_place_notice(struct mst_place *place);
void mst_place_member(struct mst_run_job *job, const struct mst_who *who);
void mst_place_told(void *job, uint64_t tag);

/* hung.c: who makes no progress is told of, and ended. */
void mst_hung_init(struct mst_run_job *job);
void mst_hung_watch(struct mst_place *place); /* its process, from now on... */
void mst_hung_forget(struct mst_place *place);
void mst_hung_stop(struct mst_run_job *job); /* and none any more */

/* The time before the next try, after `failures` in a row: doubling, at most a minute. */
uint64_t mst_back_off_ms(uint32_t failures);

/* cause.c: what the run is told to have ended by, once no process is left. */
void mst_cause_tell(struct mst_run_job *job);
void mst_cause_text(struct mst_run_job *job, char *text, size_t room); /* empty: nothing to tell */
int mst_cause_code(const struct mst_run_job *job);

#endif
