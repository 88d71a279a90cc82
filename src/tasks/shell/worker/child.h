/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_TASKS_SHELL_WORKER_CHILD_H
#define MST_TASKS_SHELL_WORKER_CHILD_H

/* Other processes that run functions for a worker. The worker's lock is held, except where said.
 *
 *   orders.c      the worker's end of the supervisor
 *   supervisor.c  the process that starts, watches and ends children and commands
 *   child.c       the worker's end of the children
 *   children.c    the child's end
 *   command.c     external programs
 *   subreaper.c   the process above each of these
 *   exec.c        the last step of a command */

#include "os/folder.h"
#include "tasks/shell/worker/worker.h"

enum { MST_WORK_SCRATCH_MAX = 1024, MST_WORK_COMMAND_FDS = 4 };

/* ---- the supervisor, which forks, watches and ends them ---- */

/* What it is asked for, with descriptors beside it: for a child its end of the pair; for a command
 * its three streams, and a file with what it is to run, in the folder `scratch`, which the
 * supervisor removes afterwards. */
enum mst_supervisor_order {
    MST_SUPERVISOR_CHILD = 1,
    MST_SUPERVISOR_COMMAND = 2,
    MST_SUPERVISOR_SIGNAL = 3, /* to the whole group */
    MST_SUPERVISOR_END = 4     /* once all have ended by themselves, or a moment later */
};

/* Forks it, if one of the functions needs it. No lock: there is no other thread yet. */
muster_status mst_work_supervisor_start(struct muster_worker *worker, struct muster_error *err);
void mst_work_supervisor_ready(struct muster_worker *worker);
void mst_work_supervisor_end(struct muster_worker *worker); /* no lock */

/* `id`: of a child its slot; of a command that and the number of slots. False: the supervisor has
 * died, and the worker ends with it. The descriptors stay the caller's. */
bool mst_work_supervisor_ask(struct muster_worker *worker, enum mst_supervisor_order order,
                             uint32_t id, int signal, const char *scratch, const int *fds,
                             int count);

/* ---- the subreaper of a command ---- */

/* Kills all below it, and then ends; SIGTERM it hands on to the command's group. */
#define MST_WORK_SUBREAPER_KILL SIGUSR2

/* What it writes to `ending`, or the command before it, if it cannot be run: the error. */
struct mst_work_ending {
    int error, status;
};

/* `fds` of MST_SUPERVISOR_COMMAND. All signals are blocked. */
_Noreturn void mst_work_subreaper_main(pid_t supervisor, const char *scratch, const int *fds,
                                       int ending);

/* In the process that becomes the command: `file` says what to run. Returns with errno. */
void mst_work_exec(int file);

/* ---- children (child.c) and commands (command.c), one of each for each slot ---- */

void mst_work_child_forget(struct mst_work_child *child); /* hangs up */
void mst_work_child_begin(struct muster_worker *worker, struct mst_work_job *job);
void mst_work_child_stop(struct muster_worker *worker, struct mst_work_job *job, bool kill);
void mst_work_child_drop(struct muster_worker *worker, const struct mst_cluster_message *drop);
void mst_work_child_ready(struct muster_worker *worker, uint32_t slot, uint32_t events);
/* It has ended with that status, or could not be started: the error. */
void mst_work_child_ended(struct muster_worker *worker, uint32_t slot, int error, int status);

void mst_work_command_forget(struct muster_worker *worker, struct mst_work_command *command);
void mst_work_command_begin(struct muster_worker *worker, struct mst_work_job *job);
void mst_work_command_stop(struct muster_worker *worker, struct mst_work_job *job, bool kill);
void mst_work_command_ready(struct muster_worker *worker, uint32_t slot);
void mst_work_command_ended(struct muster_worker *worker, uint32_t slot, int error, int status);

const char *mst_work_signal_name(int signal); /* "SIGSEGV"; "": it has none here */

/* In the child: serves its end of the pair until the worker hangs up. */
_Noreturn void mst_work_child_main(struct muster_worker *worker, uint32_t slot, int fd);

#endif
