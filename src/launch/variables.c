/* SPDX-License-Identifier: Apache-2.0 */

/* What ranks find in their environment: the service and their place, and what scripts written for
 * torchrun look at. */

#define _GNU_SOURCE
#include "launch/variables.h"

#include <inttypes.h>

#include "launch/job.h"
#include "launch/say.h"
#include "process/tagged.h"

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

static bool set_muster(struct mst_environment *environment, const struct mst_run_job *job)
{
    const struct mst_run_options *options = job->options;

    return set(environment, "MUSTER_ADDR", job->nodes.addr) &&
           set(environment, "MUSTER_JOB", job->name) &&
           (job->nodes.secret[0] == '\0' ||
            set(environment, "MUSTER_SECRET_FILE", job->nodes.secret)) &&
           (!options->insecure || set(environment, "MUSTER_INSECURE", "1")) &&
           set_number(environment, "MUSTER_SIZE", options->size) &&
           set_given(environment, "MUSTER_MAX_SIZE", options->max_size) &&
           set_given(environment, "MUSTER_SIZE_MULTIPLE", options->size_multiple) &&
           set_number(environment, "MUSTER_MIN_SIZE",
                      options->min_size != 0 ? options->min_size : 1) &&
           set_number(environment, "MUSTER_JOIN_WAIT", (uint64_t)options->join_wait_ms) &&
           set(environment, "MUSTER_GROW", options->grow);
}

/* What scripts written for torchrun look at. */
static bool set_torch(struct mst_environment *environment, const struct mst_run_job *job)
{
    const struct mst_run_options *options = job->options;

    if (job->places.count > 1 && mst_environment_get(environment, "OMP_NUM_THREADS") == NULL) {
        mst_say("OMP_NUM_THREADS=1 for each of the %" PRIu32 " %s, as it is not set",
                job->places.count, options->spares != 0 ? "processes" : "ranks");
        if (!set(environment, "OMP_NUM_THREADS", "1")) {
            return false;
        }
    }
    return set_number(environment, "WORLD_SIZE", options->size) &&
           set_number(environment, "ROLE_WORLD_SIZE", options->size) &&
           set_number(environment, "LOCAL_WORLD_SIZE", job->places.count) &&
           set(environment, "MASTER_ADDR", job->nodes.master_addr) &&
           set(environment, "TORCHELASTIC_RUN_ID", job->name) &&
           set_number(environment, "TORCHELASTIC_MAX_RESTARTS", options->max_restarts);
}

bool mst_variables_set(struct mst_environment *environment, const struct mst_run_job *job)
{
    return set_muster(environment, job) && set_torch(environment, job);
}

/* Until muster gives it one. Beyond those of the job nobody has a rank by its place. */
static bool set_rank(struct mst_environment *environment, const struct mst_place *place)
{
    const struct mst_run_job *job = place->job;
    uint32_t rank = job->nodes.number * job->options->nproc + place->slot;

    if (place->slot >= job->options->nproc) {
        return set(environment, "RANK", NULL) && set(environment, "ROLE_RANK", NULL);
    }
    return set_number(environment, "RANK", rank) && set_number(environment, "ROLE_RANK", rank);
}

/* Where a worker of torchrun leaves what it failed by: beside its output. */
static bool set_error_file(struct mst_environment *environment, const struct mst_place *place,
                           const struct mst_log *log)
{
    char path[MST_LOGS_PATH_MAX];

    if (place->job->logs.folder[0] == '\0') {
        return true;
    }
    mst_logs_path(&place->job->logs, place->index, log, "error.json", path, sizeof path);
    return set(environment, "TORCHELASTIC_ERROR_FILE", path[0] != '\0' ? path : NULL);
}

/* What changes from one process to the next; the rest was set once. */
bool mst_variables_of(struct mst_environment *environment, const struct mst_place *place,
                      const char *tag, int page_fd, const struct mst_log *log)
{
    const struct mst_run_job *job = place->job;
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"MUSTER_INDEX", place->index},
        {"MUSTER_PAGE_FD", (uint64_t)page_fd},
        {"MUSTER_NODE", job->nodes.number},
        {"LOCAL_RANK", place->slot},
        {"GROUP_RANK", job->nodes.number},
        {"MASTER_PORT", job->nodes.master_port},
        {"TORCHELASTIC_RESTART_COUNT", job->places.restarts},
    };
    bool ok = set_rank(environment, place) && set_error_file(environment, place, log) &&
              set(environment, MST_TAG_VARIABLE, tag);

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        ok = ok && set_number(environment, numbers[i].name, numbers[i].value);
    }
    return ok;
}
