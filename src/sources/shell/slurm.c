/* SPDX-License-Identifier: Apache-2.0 */
/* An end that is known beforehand: the time limit of a Slurm job, or what the user says. The notice
 * comes a margin before it, for the whole job. What Slurm sends at a preemption is a signal, and
 * another source's business; here it is only said when none can come. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "os/clock.h"
#include "sources/metadata/date.h"
#include "sources/slurm_words.h"
#include "sources/words.h"

struct end {
    bool known;
    const char *what;
    int64_t unix_ms, margin_ms;
};

static bool end_new(struct end **out, const struct mst_source_setup *setup, const char *what,
                    char *why, size_t room)
{
    struct end *end = calloc(1, sizeof *end);

    if (end == NULL) {
        (void)snprintf(why, room, "the sources of notices: out of memory");
        return false;
    }
    end->margin_ms = setup->margin_ms;
    end->what = what;
    *out = end;
    return true;
}

static enum mst_source_answer look(void *own, struct mst_source_notice *out)
{
    const struct end *end = own;
    int64_t left_ms = end->unix_ms - mst_clock_ms(CLOCK_REALTIME);

    if (!end->known || left_ms > end->margin_ms) {
        return MST_SOURCE_NOTHING;
    }
    out->left_ms = left_ms > 0 ? left_ms : 0;
    out->whole_job = true;
    (void)snprintf(out->reason, sizeof out->reason, "%s", end->what);
    return MST_SOURCE_NOTICE;
}

/* ---- what the user says ---- */

/* A duration counts from the beginning of the run, whenever it is asked for. */
static bool read_end(const char *text, int64_t age_ms, int64_t *unix_ms_out)
{
    struct mst_slice given = mst_slice_text(text);
    int64_t ms;

    if (mst_source_duration(given, &ms)) {
        *unix_ms_out = mst_clock_ms(CLOCK_REALTIME) - age_ms + ms;
        return true;
    }
    return mst_date_rfc3339(given, unix_ms_out) || mst_slurm_end_time(text, unix_ms_out);
}

static bool open_deadline(void **out, const struct mst_source_setup *setup, char *why, size_t room)
{
    struct end *end;
    int64_t unix_ms;

    if (!read_end(setup->argument, setup->age_ms, &unix_ms)) {
        (void)snprintf(why, room,
                       "the source of notices 'deadline': '%.80s' is neither a duration (90m) nor "
                       "a time (2027-03-01T04:00:00Z, or seconds since 1970)",
                       setup->argument);
        return false;
    }
    if (!end_new(&end, setup, "the end that was given", why, room)) {
        return false;
    }
    end->known = true;
    end->unix_ms = unix_ms;
    *out = end;
    return true;
}

const struct mst_source_kind mst_source_deadline = {
    .name = "deadline",
    .argument = "TIME",
    .help = "a known end: 90m from now, 2027-03-01T04:00:00Z, or seconds since 1970",
    .period_ms = 1000,
    .open = open_deadline,
    .look = look,
    .close = free,
};

/* ---- Slurm ---- */

static bool open_slurm(void **out, const struct mst_source_setup *setup, char *why, size_t room)
{
    enum mst_slurm_place place = mst_slurm_place(getenv("SLURM_JOB_ID"), getenv("SLURM_STEP_ID"));
    struct end *end;

    if (place == MST_SLURM_NOWHERE) {
        (void)snprintf(why, room,
                       "the source of notices 'slurm': this is no Slurm job, SLURM_JOB_ID is not "
                       "set");
        return false;
    }
    if (!end_new(&end, setup, "the time limit of the Slurm job", why, room)) {
        return false;
    }
    end->known = mst_slurm_end_time(getenv("SLURM_JOB_END_TIME"), &end->unix_ms);
    if (place == MST_SLURM_BATCH) {
        setup->say(setup->say_ctx,
                   "in a Slurm job, but not started by srun: Slurm signals only what srun has "
                   "started when it preempts, so no notice will come here; start it with srun");
    }
    *out = end;
    return true;
}

const struct mst_source_kind mst_source_slurm = {
    .name = "slurm",
    .help = "the time limit of the job, SLURM_JOB_END_TIME; warns if the signal of a preemption "
            "cannot arrive",
    .period_ms = 1000,
    .open = open_slurm,
    .look = look,
    .close = free,
};
