/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_TASKS_SHELL_WORKER_SUPERVISOR_H
#define MST_TASKS_SHELL_WORKER_SUPERVISOR_H

/* Between the worker (orders.c) and the process that keeps its children and commands
 * (supervisor.c). */

#include <signal.h>
#include <sys/types.h>

#include "tasks/shell/worker/child.h"

struct mst_supervisor_word {
    uint32_t order, id;
    int32_t signal;
    char scratch[MST_WORK_SCRATCH_MAX];
};

struct mst_supervisor_report {
    uint32_t id;
    int32_t error, status; /* error: it could not be started */
};

/* One that it watches. */
struct mst_work_process {
    pid_t pid;  /* a child, or the subreaper of a command; 0: none */
    int ending; /* of a command: where its subreaper writes how it ended; -1 */
    bool ended;
    struct mst_supervisor_report report; /* ended: not sent yet */
    char scratch[MST_WORK_SCRATCH_MAX];
};

struct mst_supervisor {
    struct muster_worker *worker;
    struct mst_work_process *processes;
    uint32_t count;
    int control, signals;
    pid_t parent;
    sigset_t before;
    bool ending;
};

/* In the process that was forked for it: until the worker dies, or asks for the end. */
_Noreturn void mst_work_supervisor_main(struct mst_supervisor *supervisor);

#endif
