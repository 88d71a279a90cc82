/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/stopped.h"

#include <inttypes.h>
#include <stdio.h>

#include "launch/job.h"
#include "process/proc_stat.h"
#include "proto/run_keys.h"

#define STOPPED 'T' /* in /proc; one that a debugger holds is not */
#define WORD_ROOM 48u

static bool is_stopped(const struct mst_place *place)
{
    struct mst_proc_stat stat = {.state = '\0'};

    return place->state == MST_PLACE_RUNS && mst_proc_stat_of(place->process->pid, &stat) &&
           stat.state == STOPPED;
}

/* Whether anything has changed. */
static bool look(struct mst_run_job *job, uint64_t now_ns)
{
    bool changed = false;

    for (uint32_t i = 0; i < job->places.count; i++) {
        struct mst_place *place = &job->places.list[i];
        bool stopped = is_stopped(place);

        if (stopped != (place->stopped_ns != 0)) {
            place->stopped_ns = stopped ? now_ns : 0;
            changed = true;
        }
    }
    return changed;
}

void mst_stopped_begin(struct mst_run_job *job)
{
    job->stopped = (struct mst_note){.owned = true};
    (void)snprintf(job->stopped.key, sizeof job->stopped.key, MST_RUN_STOPPED_PREFIX "%" PRIu32,
                   job->nodes.number);
}

void mst_stopped_look(struct mst_run_job *job)
{
    uint64_t now_ns = mst_lib_now_ns();
    char value[MST_NOTE_MAX] = "";
    size_t size = 0;

    if (job->nodes.joining || job->nodes.rejoins || job->end.closing || !look(job, now_ns)) {
        return;
    }
    for (uint32_t i = 0; i < job->places.count && size + WORD_ROOM < sizeof value; i++) {
        const struct mst_place *place = &job->places.list[i];

        if (place->stopped_ns != 0) {
            size += (size_t)snprintf(value + size, sizeof value - size, "%s%" PRIu32 ":%d:%" PRIu64,
                                     size > 0 ? " " : "", place->index, (int)place->process->pid,
                                     (now_ns - place->stopped_ns) / NS_PER_MS);
        }
    }
    mst_session_write(&job->session, &job->stopped, value);
}
