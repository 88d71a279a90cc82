/* SPDX-License-Identifier: Apache-2.0 */

/* The first cause: the earliest failure that the job did not get over. When a rank dies, others
 * fail because of it, and may be gone from the process table sooner than the large one whose memory
 * is still being freed; so the time counts at which a death was first known, not the order in which
 * the processes were reaped. What dies once the run is ending is a consequence.
 *
 * Of several nodes each knows its own processes only, and of a function that failed none but the
 * service: the first thing it was told of in the last generation goes before. */

#define _GNU_SOURCE
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "launch/cause.h"
#include "launch/job.h"
#include "launch/say.h"
#include "proto/status.h"
#include "proto/words.h"

/* A later process of its place was in a generation again, or, where there are spares, came to wait
 * as one. */
bool mst_cause_got_over(const struct mst_run_job *job, const struct mst_process *process)
{
    for (const struct mst_process *later = job->places.processes; later != NULL;
         later = later->older) {
        if (later->index == process->index && later->attempt > process->attempt &&
            (later->joined || (job->options->spares != 0 && mst_process_client(later) != 0))) {
            return true;
        }
    }
    return false;
}

static bool is_cause(const struct mst_run_job *job, const struct mst_process *process)
{
    return process->end == MST_PROCESS_GONE && mst_process_failed(process) &&
           process->died_ns <= job->end.at_ns && !process->excused &&
           !mst_cause_got_over(job, process);
}

const struct mst_process *mst_cause_process(const struct mst_run_job *job, uint32_t index,
                                            uint64_t pid)
{
    for (const struct mst_process *one = job->places.processes; one != NULL; one = one->older) {
        if (one->index == index && mst_process_pid(one) == pid) {
            return one;
        }
    }
    return NULL;
}

/* NULL: it was elsewhere, or did not fail. */
static const struct mst_process *process_of(const struct mst_run_job *job,
                                            const struct mst_fault *fault)
{
    return mst_cause_process(job, fault->index, fault->pid);
}

/* What the service was told of first; NULL: nothing that counts. Of generations that are over only
 * where restarting was given up, and there the ends that followed from that do not count: they are
 * exits, or of who was told to end, if not by processes of this node that did not give up. And who
 * was told to end after a process of this node had failed was told so because of that: another node
 * may have ended its ranks before the service was asked. */
static const struct mst_fault *first_fault(const struct mst_run_job *job)
{
    const struct mst_fault *fault = &job->faults.first;
    const struct mst_process *of = process_of(job, fault);
    bool ended = fault->kind == MST_CAUSE_SIGNAL && fault->code == SIGTERM;
    bool gave_up = false;

    for (const struct mst_process *one = job->places.processes; one != NULL; one = one->older) {
        if (is_cause(job, one) && !one->gave_up &&
            (mst_process_generation(one) > fault->generation ||
             (ended && mst_process_generation(one) < fault->generation))) {
            return NULL;
        }
        gave_up = gave_up || one->gave_up;
    }
    if (fault->kind == MST_CAUSE_NONE || job->end.how != MST_ENDS_FAILED) {
        return NULL;
    }
    if (gave_up && (fault->kind == MST_CAUSE_EXIT || ended) && (of == NULL || of->gave_up)) {
        return NULL;
    }
    return fault;
}

static const struct mst_process *first_cause(const struct mst_run_job *job)
{
    const struct mst_process *first = NULL;

    for (const struct mst_process *one = job->places.processes; one != NULL; one = one->older) {
        if (is_cause(job, one) && (first == NULL || one->died_ns < first->died_ns)) {
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

/* "in generation 3", or how far it came without one. */
static void tell_where(const struct mst_process *process, char *text, size_t room)
{
    uint64_t generation = mst_process_generation(process);
    const char *reached = "before it opened a muster client";

    if (generation != 0) {
        (void)snprintf(text, room, "in generation %" PRIu64, generation);
        return;
    }
    if (process->joined) {
        reached = "as a worker of the job";
    } else if (process->client_pid != 0) {
        reached = "before it was in a generation";
    }
    (void)snprintf(text, room, "%" PRIu64 " ms after its start, %s",
                   (process->died_ns - process->started_ns) / NS_PER_MS, reached);
}

static void tell_process(const struct mst_run_job *job, const struct mst_process *process,
                         char *text, size_t room)
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

/* A rank said it, or it was on another node. */
static void tell_fault(const struct mst_fault *fault, char *text, size_t room)
{
    char what[400], rank[32] = "";

    mst_faults_what(fault, what, sizeof what);
    if (fault->index == MST_INDEX_ANY) {
        (void)snprintf(text, room, "first cause: the ranks %s, in generation %" PRIu64, what,
                       fault->generation);
        return;
    }
    if (fault->rank != MST_RANK_NONE) {
        (void)snprintf(rank, sizeof rank, "rank %" PRIu32 " (", fault->rank);
    }
    (void)snprintf(
        text, room,
        "first cause: %s#%" PRIu32 ", pid %" PRIu64 "%s on %s %s, in generation %" PRIu64, rank,
        fault->index, fault->pid, rank[0] != '\0' ? ")" : "", fault->host, what, fault->generation);
}

/* What a failed run ended by: what the service was told, or the end of a process of this node. */
struct found {
    const struct mst_fault *fault;     /* to be told in its words; NULL: in those of the process */
    const struct mst_process *process; /* may be known beside a fault */
};

/* Another rank than the one that seemed to stand still did not stop and was ended; or the one that
 * died was noticed by its peer first. */
static bool was_another(const struct mst_run_job *job, const struct mst_fault *fault)
{
    const struct mst_process *first = first_cause(job);

    if (first == NULL || first->index == fault->index ||
        mst_process_generation(first) != fault->generation) {
        return false;
    }
    return fault->kind == MST_CAUSE_SOFT_TIMEOUT
               ? first->verdict == MST_CAUSE_HARD_TIMEOUT
               : fault->kind == MST_CAUSE_FAULT && mst_status_is_passed_on(fault->code);
}

static struct found find(const struct mst_run_job *job)
{
    const struct mst_fault *fault = first_fault(job);
    const struct mst_process *process = fault != NULL ? process_of(job, fault) : NULL;

    if (fault != NULL && was_another(job, fault)) {
        return (struct found){.process = first_cause(job)};
    }
    if (fault != NULL && (process == NULL || (mst_faults_told(fault) && !process->excused))) {
        return (struct found){.fault = fault, .process = process};
    }
    process = process != NULL && is_cause(job, process) ? process : first_cause(job);
    return (struct found){.process = process};
}

static bool says_why_it_gave_up(const struct mst_process *process)
{
    return process->gave_up && process->failure[0] != '\0';
}

/* A run that failed. Empty: nothing is known. */
static void tell_failure(const struct mst_run_job *job, char *text, size_t room)
{
    const struct found found = find(job);
    const struct mst_process *process = found.process;

    if (found.fault != NULL) {
        bool hung = process != NULL && process->verdict == MST_CAUSE_HARD_TIMEOUT;

        tell_fault(found.fault, text, room);
        (void)snprintf(text + strlen(text), room - strlen(text), "%s",
                       hung ? "; it did not stop and was ended" : "");
    } else if (process != NULL && says_why_it_gave_up(process)) {
        (void)snprintf(text, room, "first cause: %s%s",
                       process->aborted ? "" : "in-process restart gave up: ", process->failure);
    } else if (process != NULL) {
        tell_process(job, process, text, room);
    }
}

/* ---- in parts ---- */

static void parts_of_fault(const struct mst_fault *fault, struct mst_first_cause *out)
{
    out->kind = mst_cause_word(fault->kind);
    out->numbered = fault->code != 0 || fault->kind == MST_CAUSE_EXIT;
    out->code = fault->code;
    out->index = fault->index;
    out->rank = fault->rank;
    out->pid = fault->pid;
    out->generation = fault->generation;
    (void)snprintf(out->host, sizeof out->host, "%s", fault->host);
}

static void parts_of_process(const struct mst_run_job *job, const struct mst_process *process,
                             struct mst_first_cause *out)
{
    out->numbered = true;
    if (process->verdict != MST_CAUSE_NONE) {
        out->kind = mst_cause_word(process->verdict);
        out->numbered = process->verdict == MST_CAUSE_HARD_TIMEOUT;
        out->code = process->ended_by;
    } else if (WIFSIGNALED(process->status)) {
        out->kind = mst_cause_word(MST_CAUSE_SIGNAL);
        out->code = WTERMSIG(process->status);
    } else {
        out->kind = mst_cause_word(MST_CAUSE_EXIT);
        out->code = WEXITSTATUS(process->status);
    }
    if (says_why_it_gave_up(process)) {
        out->kind = process->aborted ? mst_cause_word(MST_CAUSE_ABORTED) : "gave-up";
    }
    out->index = process->index;
    out->rank = mst_process_rank(process);
    out->pid = mst_process_pid(process);
    out->generation = mst_process_generation(process);
    (void)snprintf(out->host, sizeof out->host, "%s", job->host);
}

static void parts_of_failure(const struct mst_run_job *job, struct mst_first_cause *out)
{
    const struct found found = find(job);

    out->placed =
        found.process != NULL || (found.fault != NULL && found.fault->index != MST_INDEX_ANY);
    out->process = found.process;
    out->kind = "unknown";
    if (found.fault != NULL) {
        parts_of_fault(found.fault, out);
    } else if (found.process != NULL) {
        parts_of_process(job, found.process, out);
    }
}

void mst_cause_parts(const struct mst_run_job *job, struct mst_first_cause *out)
{
    *out = (struct mst_first_cause){.rank = MST_RANK_NONE};
    (void)snprintf(out->host, sizeof out->host, "%s", job->host);
    switch (job->end.how) {
    case MST_GOES_ON: /* it never began, or nobody had to end it */
        out->kind = job->end.launch_code != 0 ? "launch" : NULL;
        return;
    case MST_ENDS_SIGNAL:
        out->kind = "stopped";
        out->numbered = true;
        out->code = job->end.signal;
        return;
    case MST_ENDS_FAILED:
        if (job->end.launch_code != 0) {
            out->kind = "launch";
        } else if (job->supervised.lost != 0) {
            out->kind = "service";
            out->pid = (uint64_t)job->supervised.lost;
        } else {
            parts_of_failure(job, out);
        }
        return;
    case MST_ENDS_ALONE:
        out->kind = mst_preempted_saved(job) ? NULL : "node";
        return;
    case MST_ENDS_WELL:
    case MST_ENDS_ELSEWHERE:
        return;
    }
}

/* The same in a number. */
static int code_of_failure(const struct mst_run_job *job)
{
    const struct mst_fault *fault = first_fault(job);
    const struct mst_process *process = fault != NULL ? process_of(job, fault) : NULL;

    if (fault != NULL && process == NULL && fault->kind == MST_CAUSE_EXIT && fault->code != 0) {
        return fault->code;
    }
    if (fault != NULL && process == NULL && fault->kind == MST_CAUSE_SIGNAL) {
        return 128 + fault->code;
    }
    process = process != NULL && is_cause(job, process) ? process : first_cause(job);
    return process != NULL ? mst_process_code(process) : MST_EXIT_LAUNCHER;
}

/* What another node said, or that it no longer could. */
static void tell_elsewhere(const struct mst_run_job *job, char *text, size_t room)
{
    if (job->nodes.cause_told) {
        (void)snprintf(text, room, "%s", job->nodes.cause_text);
    } else {
        (void)snprintf(text, room,
                       "first cause: node %" PRIu32 " ended the run, and did not say why in time",
                       job->nodes.end_number);
    }
}

void mst_cause_text(const struct mst_run_job *job, char *text, size_t room)
{
    text[0] = '\0';
    if (job->end.how == MST_ENDS_ELSEWHERE) {
        tell_elsewhere(job, text, room);
    } else if (job->end.how == MST_ENDS_ALONE && job->nodes.alone != NULL) {
        (void)snprintf(text, room, "node %" PRIu32 " (%s) ended without the others: %s",
                       job->nodes.number, job->host, job->nodes.alone);
    } else if (job->end.how == MST_ENDS_SIGNAL) {
        (void)snprintf(text, room, "stopped by signal %d (%s)%s%s", job->end.signal,
                       strsignal(job->end.signal), job->options->nodes_max > 1 ? " on " : "",
                       job->options->nodes_max > 1 ? job->host : "");
    } else if (job->end.launch_code != 0 && job->end.how == MST_ENDS_FAILED &&
               job->options->nodes_max > 1) {
        (void)snprintf(text, room, "first cause: '%s' could not be started on %s",
                       job->options->arguments[0], job->host);
    } else if (job->supervised.lost != 0 && job->end.how == MST_ENDS_FAILED) {
        (void)snprintf(text, room,
                       "first cause: the service of job '%s' (pid %d) on %s %s, and the state of "
                       "the job was lost with it",
                       job->name, (int)job->supervised.lost, job->host, job->supervised.how);
    } else if (job->end.how == MST_ENDS_FAILED) {
        tell_failure(job, text, room);
    }
}

/* Where it is to be read what the one that failed said, if it was on this node. */
static void tell_log(const struct mst_run_job *job)
{
    const struct mst_process *process = mst_report_process(job);
    char path[PATH_MAX] = "";

    if (process != NULL) {
        mst_logs_path(&job->logs, process->index, &process->log, "stderr.log", path, sizeof path);
    }
    if (path[0] != '\0') {
        mst_say("what #%" PRIu32 " (pid %" PRIu64 ") said on stderr: %s", process->index,
                mst_process_pid(process), path);
    }
}

void mst_cause_tell(const struct mst_run_job *job)
{
    char text[1024];

    mst_cause_text(job, text, sizeof text);
    if (text[0] != '\0') {
        tell_log(job);
        mst_say("%s", text);
    }
    mst_saving_text(&job->preempted.saving, mst_place_generation(&job->places), job->preempted.late,
                    text, sizeof text);
    if (text[0] != '\0' && mst_cause_code(job) != 0) {
        mst_say("%s", text);
    }
}

/* What the places ended with, none of which failed; when stopped, what a rank said of itself goes
 * before the signal. */
static int code_of_places(const struct mst_run_job *job)
{
    bool saved = mst_preempted_saved(job);
    int code = saved ? MST_EXIT_AGAIN : 0;

    for (uint32_t i = 0; i < job->places.count; i++) {
        const struct mst_place *place = &job->places.list[i];

        if (place->state == MST_PLACE_DONE && place->code != 0 &&
            !mst_preempted_past(job, place->process)) {
            return place->code;
        }
        if (place->state != MST_PLACE_GIVEN_UP || job->end.how != MST_ENDS_SIGNAL) {
            continue;
        }
        code = saved ? MST_EXIT_AGAIN : 128 + job->end.signal;
        if (place->process != NULL && WIFEXITED(place->process->status) &&
            place->process->died_ns >= job->end.at_ns) { /* else it was to be started again */
            return mst_process_code(place->process);
        }
    }
    return code;
}

int mst_cause_code(const struct mst_run_job *job)
{
    if (job->end.launch_code != 0) {
        return job->end.launch_code;
    }
    if (job->end.how == MST_ENDS_ELSEWHERE) {
        return job->nodes.cause_told ? job->nodes.cause_code : MST_EXIT_LAUNCHER;
    }
    if (job->end.how == MST_ENDS_ALONE) {
        return mst_preempted_saved(job) ? MST_EXIT_AGAIN : 1;
    }
    if (job->end.how == MST_ENDS_FAILED) {
        return job->supervised.lost == 0 ? code_of_failure(job) : MST_EXIT_LAUNCHER;
    }
    return code_of_places(job);
}
