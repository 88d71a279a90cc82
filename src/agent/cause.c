/* SPDX-License-Identifier: Apache-2.0 */

/* The first cause: the earliest failure that the job did not get over. When a rank dies, others
 * fail because of it, and may be gone from the process table sooner than the large one whose memory
 * is still being freed; so the time counts at which a death was first known, not the order in which
 * the processes were reaped. What dies once the run is ending is a consequence. */

#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/job.h"

/* A later process of its place was in a generation again. */
static bool got_over(const struct mst_job *job, const struct mst_process *process)
{
    for (const struct mst_process *later = job->processes; later != NULL; later = later->older) {
        if (later->index == process->index && later->attempt > process->attempt && later->joined) {
            return true;
        }
    }
    return false;
}

static const struct mst_process *first_cause(const struct mst_job *job)
{
    const struct mst_process *first = NULL;

    for (const struct mst_process *one = job->processes; one != NULL; one = one->older) {
        if (one->end == MST_PROCESS_GONE && mst_process_failed(one) &&
            one->died_ns <= job->ended_ns && !one->excused && !got_over(job, one) &&
            (first == NULL || one->died_ns < first->died_ns)) {
            first = one;
        }
    }
    return first;
}

static void tell_time(const struct timespec *time, char *text, size_t room)
{
    struct tm parts;
    size_t size;

    (void)localtime_r(&time->tv_sec, &parts);
    size = strftime(text, room, "%Y-%m-%d %H:%M:%S", &parts);
    (void)snprintf(text + size, room - size, ".%03ld", time->tv_nsec / 1000000);
}

/* ", in generation 3", or how far it came without one. */
static void tell_where(const struct mst_process *process, char *text, size_t room)
{
    uint64_t generation = mst_process_generation(process);

    if (generation != 0) {
        (void)snprintf(text, room, "in generation %" PRIu64, generation);
    } else {
        (void)snprintf(text, room, "%" PRIu64 " ms after its start, %s",
                       (process->died_ns - process->started_ns) / 1000000,
                       process->client_pid != 0 ? "before it was in a generation"
                                                : "before it opened a muster client");
    }
}

static void tell_process(struct mst_job *job, const struct mst_process *process, char *text,
                         size_t room)
{
    char name[64], how[128], when[64], where[96], last[MST_OUTPUT_LAST_MAX] = "";

    if (process->error != NULL) {
        mst_output_last(job->output, process->error, last);
    }
    mst_process_name(process, name, sizeof name);
    mst_process_how(process, how, sizeof how);
    tell_time(&process->died, when, sizeof when);
    tell_where(process, where, sizeof where);
    (void)snprintf(
        text, room, "first cause: %s on %s %s at %s, %s%s%s%s", name, job->host, how, when, where,
        last[0] != '\0' ? "; its last line on stderr: \"" : "; it said nothing on stderr", last,
        last[0] != '\0' ? "\"" : "");
}

/* What another node said, or that it no longer could. */
static void tell_elsewhere(struct mst_job *job, char *text, size_t room)
{
    if (job->nodes.cause_told) {
        (void)snprintf(text, room, "%s", job->nodes.cause_text);
    } else {
        (void)snprintf(text, room,
                       "first cause: node %" PRIu32 " ended the run, and did not say why in time",
                       job->nodes.end_number);
    }
}

void mst_cause_text(struct mst_job *job, char *text, size_t room)
{
    text[0] = '\0';
    if (job->ending == MST_ENDS_ELSEWHERE) {
        tell_elsewhere(job, text, room);
    } else if (job->ending == MST_ENDS_ALONE && job->nodes.alone != NULL) {
        (void)snprintf(text, room, "node %" PRIu32 " (%s) ended without the others: %s",
                       job->nodes.number, job->host, job->nodes.alone);
    } else if (job->ending == MST_ENDS_SIGNAL) {
        (void)snprintf(text, room, "stopped by signal %d (%s)%s%s", job->signal,
                       strsignal(job->signal), job->options->nodes_max > 1 ? " on " : "",
                       job->options->nodes_max > 1 ? job->host : "");
    } else if (job->launch_code != 0 && job->ending == MST_ENDS_FAILED &&
               job->options->nodes_max > 1) {
        (void)snprintf(text, room, "first cause: '%s' could not be started on %s",
                       job->options->arguments[0], job->host);
    } else if (job->service_lost != 0 && job->ending == MST_ENDS_FAILED) {
        (void)snprintf(text, room,
                       "first cause: the service of job '%s' (pid %d) on %s %s, and the state of "
                       "the job was lost with it",
                       job->name, (int)job->service_lost, job->host, job->service_how);
    } else if (job->ending == MST_ENDS_FAILED && first_cause(job) != NULL) {
        tell_process(job, first_cause(job), text, room);
    }
}

void mst_cause_tell(struct mst_job *job)
{
    char text[1024];

    mst_cause_text(job, text, sizeof text);
    if (text[0] != '\0') {
        mst_say("%s", text);
    }
}

/* What the places ended with, none of which failed; when stopped, what a rank said of itself goes
 * before the signal. */
static int code_of_places(const struct mst_job *job)
{
    int code = 0;

    for (uint32_t i = 0; i < job->place_count; i++) {
        const struct mst_place *place = &job->places[i];

        if (place->state == MST_PLACE_DONE && place->code != 0) {
            return place->code;
        }
        if (place->state != MST_PLACE_GIVEN_UP || job->ending != MST_ENDS_SIGNAL) {
            continue;
        }
        code = 128 + job->signal;
        if (place->process != NULL && WIFEXITED(place->process->status)) {
            return mst_process_code(place->process);
        }
    }
    return code;
}

int mst_cause_code(const struct mst_job *job)
{
    const struct mst_process *first;

    if (job->launch_code != 0) {
        return job->launch_code;
    }
    if (job->ending == MST_ENDS_ELSEWHERE) {
        return job->nodes.cause_told ? job->nodes.cause_code : MST_EXIT_LAUNCHER;
    }
    if (job->ending == MST_ENDS_ALONE) {
        return 1;
    }
    if (job->ending == MST_ENDS_FAILED) {
        first = job->service_lost == 0 ? first_cause(job) : NULL;
        return first != NULL ? mst_process_code(first) : MST_EXIT_LAUNCHER;
    }
    return code_of_places(job);
}
