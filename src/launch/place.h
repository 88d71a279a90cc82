/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_PLACE_H
#define MST_LAUNCH_PLACE_H

/* The places of the ranks on this node, and the processes that were started for them.
 *
 *   place:   RUNS --ended well--> DONE
 *              | ^--- start ---- WAITS <---+
 *              +--failed, restarts left----+
 *              +--failed, none left or the run ends--> GIVEN_UP
 *
 * When the whole group begins anew (group.c), every place of every node goes through WAITS. */

#include <uv.h>

#include "launch/hang/progress.h"
#include "launch/process.h"
#include "process/environment.h"

enum mst_place_state {
    MST_PLACE_WAITS = 0,
    MST_PLACE_RUNS = 1,
    MST_PLACE_DONE = 2,
    MST_PLACE_GIVEN_UP = 3
};

struct mst_run_job;

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
    uint64_t lost_ns;            /* when the rank died that the others wait for; 0: they do not */
    uint64_t stopped_ns;         /* since when a signal has stopped it; 0: none has */
    uint32_t early;              /* how many in a row died before they were in a generation */
    int code;                    /* that a done one ended with: 0, or 75 */
    int start_error;             /* why it could not be started the last time; 0: it was */
    uv_timer_t again, overdue;
};

struct mst_run_places {
    struct mst_place *list;
    uint32_t count;
    struct mst_process *processes; /* of all, the newest first; under the lock */
    uint32_t restarts;             /* of processes, nodes and groups, as far as this node knows */
    bool uses_muster;              /* a process had opened a client when one of them ended */
};

bool mst_place_any(const struct mst_run_places *places, enum mst_place_state state);

/* The last generation that a process of this node was in; 0: none. */
uint64_t mst_place_generation(const struct mst_run_places *places);

/* A process of this node has opened a client, as far as is known now. */
bool mst_place_uses_muster(const struct mst_run_job *job);

void mst_place_start_all(struct mst_run_job *job); /* that wait */
int mst_place_start(struct mst_place *place);      /* 0, or the exit code after one line */
bool mst_place_reap(struct mst_place *place);      /* after SIGCHLD: whether it is gone */
void mst_place_forget(struct mst_run_job *job, uint32_t index); /* old ones that were got over */
void mst_place_sweep(struct mst_run_job *job); /* kills what those that are gone have left */
void mst_place_go_on(struct mst_place *place, bool may); /* it failed and asked */
void mst_place_notice(struct mst_place *place);
/* With the run's lock held. */
void mst_place_member(struct mst_run_job *job, const struct mst_who *who);
void mst_place_told(void *job, uint64_t tag);
/* A front gives the process up, and the service is told that it is lost, and why. False: the
 * process is dead already. */
bool mst_place_unhealthy(const struct mst_place *place, int32_t code, struct mst_slice text);

/* variables.c: what all ranks of this node get, and what one of them gets. False: no memory. */
bool mst_variables_set(struct mst_environment *environment, const struct mst_run_job *job);
bool mst_variables_of(struct mst_environment *environment, const struct mst_place *place,
                      const struct mst_process *process, int page_fd);

/* hung.c: ranks that make no progress are reported, and ended. */
struct mst_hung {
    struct mst_monitor monitor;
    uv_timer_t look; /* at the progress pages */
    struct mst_progress_report report;
};

void mst_hung_init(struct mst_run_job *job);
void mst_hung_watch(struct mst_place *place); /* its process, from now on */

#endif
