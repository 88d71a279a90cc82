/* SPDX-License-Identifier: Apache-2.0 */

/* What ranks find in their environment: the service and their place, and what scripts written for
 * torchrun look at. */

#define _GNU_SOURCE
#include <inttypes.h>

#include "launch/job.h"
#include "launch/say.h"
#include "launch/torch/error_file.h"
#include "process/tagged.h"

/* An error of a collective ends the process, so that it can be restarted. */
#define NCCL_ERRORS "TORCH_NCCL_ASYNC_ERROR_HANDLING"

static bool set(struct mst_environment *environment, const char *name, const char *value)
{
    return mst_environment_set(environment, name, value) == MUSTER_OK;
}

static bool set_number(struct mst_environment *environment, const char *name, uint64_t value)
{
    return mst_environment_number(environment, name, value) == MUSTER_OK;
}

/* 0: it is not given, whatever the run around says. */
static bool set_given(struct mst_environment *environment, const char *name, uint32_t value)
{
    return value != 0 ? set_number(environment, name, value) : set(environment, name, NULL);
}

/* A variable: a text, or else a number. */
struct variable {
    const char *name, *text;
    uint64_t number;
};

static bool set_all(struct mst_environment *environment, const struct variable *variables,
                    size_t count)
{
    bool ok = true;

    for (size_t i = 0; i < count && ok; i++) {
        const struct variable *one = &variables[i];

        ok = one->text != NULL ? set(environment, one->name, one->text)
                               : set_number(environment, one->name, one->number);
    }
    return ok;
}

/* The service and the job, and what scripts written for torchrun look at. */
bool mst_variables_set(struct mst_environment *environment, const struct mst_run_job *job)
{
    const struct mst_run_options *options = job->options;
    const struct variable variables[] = {
        {"MUSTER_ADDR", job->nodes.addr, 0},
        {"MUSTER_JOB", job->name, 0},
        {"MUSTER_SIZE", NULL, options->size},
        {"MUSTER_MIN_SIZE", NULL, options->min_size != 0 ? options->min_size : 1},
        {"MUSTER_JOIN_WAIT", NULL, (uint64_t)options->join_wait_ms},
        {"MUSTER_GROW", options->grow, 0},
        {"WORLD_SIZE", NULL, options->size},
        {"ROLE_WORLD_SIZE", NULL, options->size},
        {"LOCAL_WORLD_SIZE", NULL, job->places.count},
        {"MASTER_ADDR", job->nodes.master_addr, 0},
        {"GROUP_WORLD_SIZE", NULL, options->nodes_max},
        {"ROLE_NAME", options->role, 0},
        {"TORCHELASTIC_RUN_ID", job->name, 0},
        {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT", 0},
        {"TORCHELASTIC_USE_AGENT_STORE", "False", 0}, /* rank 0 has the store, at MASTER_PORT */
        {"TORCHELASTIC_MAX_RESTARTS", NULL, options->max_restarts},
    };

    if (job->places.count > 1 && mst_environment_get(environment, "OMP_NUM_THREADS") == NULL) {
        mst_say("OMP_NUM_THREADS=1 for each of the %" PRIu32 " %s, as it is not set",
                job->places.count, options->spares != 0 ? "processes" : "ranks");
        if (!set(environment, "OMP_NUM_THREADS", "1")) {
            return false;
        }
    }
    /* Else what a rank in Python prints stays in its buffer, and is lost when it is killed. */
    if (mst_environment_get(environment, "PYTHONUNBUFFERED") == NULL &&
        !set(environment, "PYTHONUNBUFFERED", "1")) {
        return false;
    }
    return set_all(environment, variables, sizeof variables / sizeof variables[0]) &&
           (mst_environment_get(environment, NCCL_ERRORS) != NULL ||
            set(environment, NCCL_ERRORS, "1")) &&
           set_given(environment, "MUSTER_MAX_SIZE", options->max_size) &&
           set_given(environment, "MUSTER_SIZE_MULTIPLE", options->size_multiple) &&
           (options->replace_wait_ms >= 0
                ? set_number(environment, "MUSTER_REPLACE_WAIT", (uint64_t)options->replace_wait_ms)
                : set(environment, "MUSTER_REPLACE_WAIT", NULL)) &&
           (job->nodes.secret[0] == '\0' ||
            set(environment, "MUSTER_SECRET_FILE", job->nodes.secret)) &&
           (!options->insecure || set(environment, "MUSTER_INSECURE", "1"));
}

/* Until muster assigns one. A place beyond those of the job implies no rank. */
static bool set_rank(struct mst_environment *environment, const struct mst_place *place)
{
    const struct mst_run_job *job = place->job;
    uint32_t rank = job->nodes.number * job->options->nproc + place->slot;

    if (place->slot >= job->options->nproc) {
        return set(environment, "RANK", NULL) && set(environment, "ROLE_RANK", NULL);
    }
    return set_number(environment, "RANK", rank) && set_number(environment, "ROLE_RANK", rank);
}

/* Where a worker of torch leaves what it failed by: beside its output, or in memory. */
static bool set_error_file(struct mst_environment *environment, const struct mst_place *place,
                           const struct mst_process *process)
{
    char path[MST_LOGS_PATH_MAX];

    mst_logs_path(&place->job->logs, place->index, &process->log, MST_LOGS_ERROR, path,
                  sizeof path);
    if (process->error_fd >= 0) {
        mst_error_file_path(process->error_fd, path, sizeof path);
    }
    return set(environment, "TORCHELASTIC_ERROR_FILE", path[0] != '\0' ? path : NULL);
}

/* What changes from one process to the next; the rest was set once. */
bool mst_variables_of(struct mst_environment *environment, const struct mst_place *place,
                      const struct mst_process *process, int page_fd)
{
    const struct mst_run_job *job = place->job;
    const struct variable variables[] = {
        {MST_TAG_VARIABLE, process->tag, 0},
        {"MUSTER_INDEX", NULL, place->index},
        {"MUSTER_PAGE_FD", NULL, (uint64_t)page_fd},
        {"MUSTER_NODE", NULL, job->nodes.number},
        {"LOCAL_RANK", NULL, place->slot},
        {"GROUP_RANK", NULL, job->nodes.number},
        {"MASTER_PORT", NULL, job->nodes.master_port},
        {"TORCHELASTIC_RESTART_COUNT", NULL, job->places.restarts},
    };

    return set_all(environment, variables, sizeof variables / sizeof variables[0]) &&
           set_rank(environment, place) && set_error_file(environment, place, process) &&
           mst_fronted_variables(environment, place);
}
