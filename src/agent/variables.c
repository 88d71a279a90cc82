/* SPDX-License-Identifier: Apache-2.0 */

/* What ranks find in their environment: the service and their place, and what scripts written for
 * torchrun look at. */

#define _GNU_SOURCE
#include <inttypes.h>

#include "agent/job.h"

static bool set(struct mst_environment *environment, const char *name, const char *value)
{
    return mst_environment_set(environment, name, value) == MUSTER_OK;
}

static bool set_number(struct mst_environment *environment, const char *name, uint64_t value)
{
    return mst_environment_number(environment, name, value) == MUSTER_OK;
}

static bool set_muster(struct mst_job *job, struct mst_environment *environment)
{
    const struct mst_run_options *options = job->options;

    return set(environment, "MUSTER_ADDR", job->nodes.addr) &&
           set(environment, "MUSTER_JOB", job->name) &&
           (job->nodes.secret[0] == '\0' ||
            set(environment, "MUSTER_SECRET_FILE", job->nodes.secret)) &&
           (!options->insecure || set(environment, "MUSTER_INSECURE", "1")) &&
           set_number(environment, "MUSTER_SIZE", options->size) &&
           set_number(environment, "MUSTER_MIN_SIZE",
                      options->min_size != 0 ? options->min_size : 1) &&
           set_number(environment, "MUSTER_JOIN_WAIT", (uint64_t)options->join_wait_ms) &&
           set(environment, "MUSTER_GROW", options->grow);
}

/* What scripts written for torchrun look at. */
static bool set_torch(struct mst_job *job, struct mst_environment *environment)
{
    const struct mst_run_options *options = job->options;

    if (options->nproc > 1 && mst_environment_get(environment, "OMP_NUM_THREADS") == NULL) {
        mst_say("OMP_NUM_THREADS=1 for each of the %" PRIu32 " ranks, as it is not set",
                options->nproc);
        if (!set(environment, "OMP_NUM_THREADS", "1")) {
            return false;
        }
    }
    return set_number(environment, "WORLD_SIZE", options->size) &&
           set_number(environment, "ROLE_WORLD_SIZE", options->size) &&
           set_number(environment, "LOCAL_WORLD_SIZE", options->nproc) &&
           set(environment, "MASTER_ADDR", job->nodes.master_addr) &&
           set(environment, "TORCHELASTIC_RUN_ID", job->name) &&
           set_number(environment, "TORCHELASTIC_MAX_RESTARTS", options->max_restarts);
}

bool mst_variables_set(struct mst_job *job)
{
    return set_muster(job, &job->environment) && set_torch(job, &job->environment);
}

/* What changes from one process to the next; the rest was set once. */
bool mst_variables_of(struct mst_place *place, int page_fd)
{
    struct mst_job *job = place->job;
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"MUSTER_INDEX", place->index},
        {"MUSTER_PAGE_FD", (uint64_t)page_fd},
        {"MUSTER_NODE", job->nodes.number},
        {"RANK", place->index},
        {"ROLE_RANK", place->index},
        {"LOCAL_RANK", place->slot},
        {"GROUP_RANK", job->nodes.number},
        {"MASTER_PORT", job->nodes.master_port},
        {"TORCHELASTIC_RESTART_COUNT", job->restarts},
    };
    bool ok = true;

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        ok = ok && set_number(&job->environment, numbers[i].name, numbers[i].value);
    }
    return ok;
}
