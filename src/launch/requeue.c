/* SPDX-License-Identifier: Apache-2.0 */

/* The job is asked to be run again, once, after all have saved: by Slurm's scontrol, or by a file
 * that somebody outside looks for, as where a container has no scontrol. */

#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/job.h"
#include "launch/say.h"
#include "os/own_file.h"
#include "process/child.h"
#include "sources/slurm_words.h"

#define REQUEUE_NS UINT64_C(30000000000)

extern char **environ;

/* The request is one line, and the file is there whole or not at all. */
static void ask_by_file(struct mst_run_job *job)
{
    const char *path = job->options->requeue_file, *id = getenv("SLURM_JOB_ID");
    char line[512];
    int size = snprintf(line, sizeof line, "requeue job=%s step=%lld slurm_job_id=%s\n", job->name,
                        (long long)job->preempted.saving.complete.fact.step,
                        id != NULL && mst_slurm_job_id(id) ? id : "none");

    if (mst_own_file_replace(path, job->host, line, (size_t)size)) {
        job->preempted.requeue = "file";
        mst_say("saved by all: asked by %s that the job is run again", path);
    } else {
        mst_say("saved by all, but the request to run the job again could not be written to %s: %s",
                path, strerror(errno));
    }
}

static int start_scontrol(char *id, struct mst_child *child)
{
    char *const arguments[] = {"scontrol", "requeue", id, NULL};
    const struct mst_spawn spawn = {.program = arguments[0],
                                    .arguments = arguments,
                                    .environment = environ,
                                    .input = MST_SPAWN_NOWHERE,
                                    .out = MST_SPAWN_OURS,
                                    .error = MST_SPAWN_OURS,
                                    .deaf = true};

    return mst_child_start(child, &spawn);
}

static void ask_slurm(struct mst_run_job *job)
{
    char *id = getenv("SLURM_JOB_ID");
    char how[128] = "did not end within 30 s";
    struct mst_child child;
    int error, status = 0;
    bool in_time;

    if (id == NULL || !mst_slurm_job_id(id)) {
        mst_say("saved by all, but this is no Slurm job (SLURM_JOB_ID is not set), so it is "
                "not requeued; --requeue-file PATH asks by a file");
        return;
    }
    mst_say("saved by all: scontrol requeue %s", id);
    error = start_scontrol(id, &child);
    if (error != 0) {
        mst_say("scontrol could not be started: %s; where a container has none, --requeue-file "
                "PATH asks by a file",
                strerror(error));
        return;
    }
    job->preempted.requeue = "scontrol";
    in_time =
        mst_child_finish(&child, mst_lib_now_ns() + REQUEUE_NS, -1, &status) != MST_CHILD_LATE;
    if (!in_time || status != 0) {
        if (in_time) {
            mst_status_how(status, how, sizeof how);
        }
        job->preempted.requeue = NULL;
        mst_say("scontrol requeue %s %s: the job is not run again by us", id, how);
    }
}

/* What became of the job, and what makes it go on. Of several nodes each has a command of its own.
 */
static void say_saved(const struct mst_run_job *job)
{
    const struct mst_preempt_fact *fact = &job->preempted.saving.complete.fact;
    struct mst_words line = {.size = 0};
    char by[32] = "its rank";

    if (fact->of != 1) {
        (void)snprintf(by, sizeof by, "all %" PRIu32 " ranks", fact->of);
    }
    if (job->options->requeue) {
        mst_say("preempted: step %" PRId64 " is saved by %s", fact->step, by);
    } else if (job->options->nodes_max > 1 || !mst_words_own(&line)) {
        mst_say("preempted: step %" PRId64 " is saved by %s; the same command goes on from there",
                fact->step, by);
    } else {
        mst_say("preempted: step %" PRId64 " is saved by %s; this goes on from there:%s",
                fact->step, by, line.text);
    }
}

void mst_preempted_requeue(struct mst_run_job *job, int code)
{
    if (code != MST_EXIT_AGAIN || !mst_preempted_saved(job) || job->end.how == MST_ENDS_ALONE) {
        return; /* alone: the others go on, and the last line has said so */
    }
    say_saved(job);
    if (!job->options->requeue || !job->nodes.first) {
        return;
    }
    if (job->options->requeue_file != NULL) {
        ask_by_file(job);
    } else {
        ask_slurm(job);
    }
}
