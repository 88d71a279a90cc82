/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_KEPT_H
#define MST_LAUNCH_KEPT_H

/* The files of the last runs of this user (view/kept.h), which `muster why` reads when a job runs
 * no more: RUNS in the folder of net/state_dir.h, of mode 0700, one file a run. The node with the
 * service has it. A run goes on without one where it cannot be made. */

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

struct mst_kept_file {
    char path[PATH_MAX]; /* empty: none is kept */
};

struct mst_run_job;

/* A file of a run that has begun; the oldest files go, so that `--keep-runs` are left. */
void mst_kept_begin(struct mst_run_job *job);

/* The run has ended, and its service: `report` is how. */
void mst_kept_end(const struct mst_run_job *job, const json_t *report);

/* ---- for a reader ---- */

/* The newest file, of that job if one is given; what is no file of a run is passed over. Its path
 * in `path`. False: there is none. */
bool mst_kept_newest(const char *job, char path[PATH_MAX]);

/* NULL with errno; EPROTO: it is no file of a run. */
json_t *mst_kept_load(const char *path);

/* Whether the `muster run` that began it still lives here. */
bool mst_kept_runs(const json_t *run);

#endif
