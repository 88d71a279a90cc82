/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SOURCES_SLURM_WORDS_H
#define MST_SOURCES_SLURM_WORDS_H

/* What Slurm leaves in the environment of a job, as far as it speaks of the job's end. Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mst_slurm_place {
    MST_SLURM_NOWHERE = 0, /* not in a job */
    MST_SLURM_BATCH = 1,   /* in a job, but started by its batch script or by salloc, not by srun */
    MST_SLURM_STEP = 2
};

/* By the variables SLURM_JOB_ID and SLURM_STEP_ID; NULL: not set. A batch script is none, for
 * SLURM_STEP_ID is set by srun alone. */
enum mst_slurm_place mst_slurm_place(const char *job_id, const char *step_id);

/* SLURM_JOB_END_TIME: seconds since 1970. False: not set, no number, or no such time. */
bool mst_slurm_end_time(const char *text, int64_t *unix_ms_out);

/* A job's number, as scontrol takes it: digits, and what arrays and heterogeneous jobs have. */
bool mst_slurm_job_id(const char *text);

#endif
