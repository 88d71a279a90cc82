/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_TASKS_SHELL_WORKER_COMMAND_H
#define MST_TASKS_SHELL_WORKER_COMMAND_H

/* External programs: worker_command.c. The worker's lock is held, except where said. */

#include "tasks/shell/worker/worker.h"

void mst_work_command_begin(struct muster_worker *worker, struct mst_work_job *job);
void mst_work_command_stop(struct muster_worker *worker, struct mst_work_job *job, bool kill);
void mst_work_command_ready(struct muster_worker *worker, uint32_t slot);
void mst_work_command_ended(struct muster_worker *worker, uint32_t slot, int error, int status);
muster_status mst_work_commands_new(struct muster_worker *worker); /* no lock */
void mst_work_commands_free(struct muster_worker *worker);
void mst_work_commands_disown(struct muster_worker *worker);

#endif
