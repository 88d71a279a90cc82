/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_LOGS_H
#define MST_LAUNCH_LOGS_H

/* --log-dir: what each process of the run writes, in files of its own:
 *
 *   DIR/JOB/INDEX/ATTEMPT/stdout.log, stderr.log
 *
 * An index is a place of the job for all nodes, so these may share the folder. ATTEMPT is the first
 * free number from 0 on: that of a process, whether it was started for the
 * first time, in a lost one's place, with the whole group, or by a later run of the same job.
 *
 * The launcher reads and writes, not the rank: what has no room there comes to the terminal, and
 * the rank notices nothing. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "process/output.h"

#define MST_LOGS_PATH_MAX 4096u
#define MST_LOGS_ERROR "error.json" /* beside them: see torch/error_file.h */

struct mst_logs {
    char folder[MST_LOGS_PATH_MAX]; /* DIR/JOB, absolute; empty: there are none */
    atomic_bool told;               /* that something has no room */
};

/* The files of one process. */
struct mst_log {
    bool made;
    uint32_t attempt;
    int out, error; /* the output takes them over; -1: none */
};

/* Makes the folder of the job in the one that was given; NULL: there is none. 0, or the exit code
 * after one line. */
int mst_logs_open(struct mst_logs *logs, const char *given, const char *job);

/* The first line of the run about them; and the output is to be ready for files. */
void mst_logs_begin(struct mst_logs *logs, struct mst_output *output);

/* Makes the files of the next process of a place. Without --log-dir, or after one line about what
 * failed, there are none. */
void mst_logs_make(struct mst_logs *logs, uint32_t index, uint32_t attempts, struct mst_log *out);

/* The path of one of a process's files; empty: it has none. */
void mst_logs_path(const struct mst_logs *logs, uint32_t index, const struct mst_log *log,
                   const char *name, char *path, size_t room);

#endif
