/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/restarts_left.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "launch/job.h"
#include "proto/run_keys.h"

void mst_restarts_left_begin(struct mst_run_job *job)
{
    job->restarts_left = (struct mst_note){.owned = true, .key = MST_RUN_RESTARTS_KEY};
}

void mst_restarts_left_look(struct mst_run_job *job)
{
    char value[MST_RUN_VALUE_ROOM];

    if (!(job->options->restarts_given != 0 || mst_place_uses_muster(job)) || !job->nodes.first ||
        job->nodes.joining || job->nodes.rejoins || job->end.closing) {
        return;
    }
    (void)snprintf(value, sizeof value, "%" PRIu32 " %" PRIu32, job->places.restarts,
                   job->options->max_restarts);
    if (strcmp(value, job->restarts_left.value) != 0) {
        mst_session_write(&job->session, &job->restarts_left, value);
    }
}
