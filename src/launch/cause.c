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

#include "base/text.h"
#include "launch/cause.h"
#include "launch/job.h"
#include "launch/programs.h"
#include "launch/say.h"
#include "proto/status.h"
#include "proto/words.h"

/* A later process of its place was in a generation again, or, where there are spares, came to wait
 * as one. */
bool mst_cause_got_over(const struct mst_run_job *job, const struct mst_process *process)
{
    if (!job->places.uses_muster && process->life < job->group.life) {
        return true; /* all were started again */
    }
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

/* One that a front gave up ended when all others were ended. */
static bool ended_itself(const struct mst_run_job *job, const struct mst_process *process)
{
    return is_cause(job, process) && process->verdict != MST_CAUSE_UNHEALTHY;
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
        if (is_cause(job, one) && !mst_process_gave_up(one) &&
            (mst_process_generation(one) > fault->generation ||
             (ended && mst_process_generation(one) < fault->generation))) {
            return NULL;
        }
        gave_up = gave_up || mst_process_gave_up(one);
    }
    if (fault->kind == MST_CAUSE_NONE || job->end.how != MST_ENDS_FAILED) {
        return NULL;
    }
    if (gave_up && (fault->kind == MST_CAUSE_EXIT || ended) &&
        (of == NULL || mst_process_gave_up(of))) {
        return NULL;
    }
    return fault;
}

static const struct mst_process *first_that(const struct mst_run_job *job,
                                            bool is(const struct mst_run_job *job,
                                                    const struct mst_process *process))
{
    const struct mst_process *first = NULL;

    for (const struct mst_process *one = job->places.processes; one != NULL; one = one->older) {
        if (is(job, one) && (first == NULL || one->died_ns < first->died_ns)) {
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
    if (process->fronted) {
        reached = "as a rank by JAX's protocol";
    } else if (process->joined) {
        reached = "as a worker of the job";
    } else if (mst_process_client(process) != 0) {
        reached = "before it was in a generation";
    }
    (void)snprintf(text, room, "%" PRIu64 " ms after its start, %s",
                   (process->died_ns - process->started_ns) / NS_PER_MS, reached);
}

/* Programs without muster are restarted only if the user asks for it: they may not stand it. */
static const char *tell_way_out(const struct mst_run_job *job)
{
    return job->places.uses_muster || job->options->restarts_given != 0
               ? ""
               : "; with --max-restarts N all ranks of a program without muster are restarted";
}

static void tell_process(const struct mst_run_job *job, const struct mst_process *process,
                         struct mst_first_cause *out)
{
    char name[64], how[128], when[64], where[96], last[MST_OUTPUT_LAST_MAX] = "";

    if (process->error != NULL) {
        mst_output_last(job->output, process->error, last);
    }
    mst_process_name(process, name, sizeof name);
    mst_process_how(process, how, sizeof how);
    tell_time(&process->died, when, sizeof when);
    tell_where(process, where, sizeof where);
    if (process->recorded[0] != '\0') {
        (void)snprintf(out->text, sizeof out->text,
                       "first cause: %s on %s failed: %s; it %s at %s, %s%s", name, job->host,
                       process->recorded, how, when, where, tell_way_out(job));
        return;
    }
    (void)snprintf(out->text, sizeof out->text, "first cause: %s on %s %s at %s, %s; %s%s%s%s%s%s",
                   name, job->host, how, when, where,
                   last[0] != '\0' ? "its last line on " : "it said nothing on ",
                   process->on_terminal ? "its terminal" : "stderr", last[0] != '\0' ? ": \"" : "",
                   last, last[0] != '\0' ? "\"" : "", tell_way_out(job));
}

/* A rank reported it, or it was on another node. */
static void tell_fault(const struct mst_fault *fault, const char *then, struct mst_first_cause *out)
{
    struct mst_text text = mst_text_in(out->text, sizeof out->text);
    char what[400];

    mst_faults_what(fault, what, sizeof what);
    mst_text_add(&text, "first cause: ");
    if (fault->index == MST_INDEX_ANY) {
        mst_text_format(&text, "the ranks %s", what);
    } else if (fault->rank != MST_RANK_NONE) {
        mst_text_format(&text, "rank %u (#%u, pid %" PRIu64 ") on %s %s", fault->rank, fault->index,
                        fault->pid, fault->host, what);
    } else {
        mst_text_format(&text, "#%u, pid %" PRIu64 " on %s %s", fault->index, fault->pid,
                        fault->host, what);
    }
    mst_text_format(&text, ", in generation %" PRIu64 "%s", fault->generation, then);
}

/* Another rank than the one that seemed to stand still did not stop and was ended; or the one that
 * died was noticed by its peer first. */
static bool was_another(const struct mst_run_job *job, const struct mst_fault *fault)
{
    const struct mst_process *first = first_that(job, is_cause);

    if (first == NULL || first->index == fault->index ||
        mst_process_generation(first) != fault->generation) {
        return false;
    }
    return fault->kind == MST_CAUSE_SOFT_TIMEOUT
               ? first->verdict == MST_CAUSE_HARD_TIMEOUT
               : fault->kind == MST_CAUSE_FAULT && mst_status_is_passed_on(fault->code);
}

static void of_fault(const struct mst_fault *fault, const struct mst_process *process,
                     struct mst_first_cause *out)
{
    bool hung = process != NULL && process->verdict == MST_CAUSE_HARD_TIMEOUT;

    out->kind = mst_cause_word(fault->kind);
    out->numbered = fault->code != 0 || fault->kind == MST_CAUSE_EXIT;
    out->placed = process != NULL || fault->index != MST_INDEX_ANY;
    out->of = *fault;
    tell_fault(fault, hung ? "; it did not stop and was ended" : "", out);
}

static void of_process(const struct mst_run_job *job, const struct mst_process *process,
                       struct mst_first_cause *out)
{
    bool exited = WIFEXITED(process->status), aborted = mst_process_aborted(process);
    char failure[256];

    out->placed = out->numbered = true;
    out->of.index = process->index;
    out->of.rank = mst_process_rank(process);
    out->of.pid = mst_process_pid(process);
    out->of.generation = mst_process_generation(process);
    if (process->verdict != MST_CAUSE_NONE) {
        out->kind = mst_cause_word(process->verdict);
        out->numbered = process->verdict == MST_CAUSE_HARD_TIMEOUT;
        out->of.code = process->ended_by;
    } else {
        out->kind = mst_cause_word(exited ? MST_CAUSE_EXIT : MST_CAUSE_SIGNAL);
        out->of.code = exited ? WEXITSTATUS(process->status) : WTERMSIG(process->status);
    }
    mst_process_failure(process, failure, sizeof failure);
    if (failure[0] == '\0') {
        tell_process(job, process, out);
        return;
    }
    out->kind = aborted ? mst_cause_word(MST_CAUSE_ABORTED) : "gave-up";
    (void)snprintf(out->text, sizeof out->text, "first cause: %s%s",
                   aborted ? "" : "in-process restart gave up: ", failure);
}

/* What the service was told, in its words, or else the end of a process of this node. */
static void of_failure(const struct mst_run_job *job, struct mst_first_cause *out)
{
    const struct mst_fault *fault = first_fault(job);
    const struct mst_process *process = fault != NULL ? process_of(job, fault) : NULL;
    bool another = fault != NULL && was_another(job, fault);

    out->kind = "unknown";
    if (fault != NULL && !another &&
        (process == NULL || (mst_faults_told(fault) && !process->excused))) {
        of_fault(fault, process, out);
    } else {
        process = !another && process != NULL && is_cause(job, process) ? process
                                                                        : first_that(job, is_cause);
        if (process != NULL) {
            of_process(job, process, out);
        }
    }
    out->process = process;
}

static struct mst_first_cause nothing_of(const struct mst_run_job *job)
{
    struct mst_first_cause cause = {.of = {.rank = MST_RANK_NONE}};

    (void)snprintf(cause.of.host, sizeof cause.of.host, "%s", job->host);
    return cause;
}

static void of_service(const struct mst_run_job *job, struct mst_first_cause *out)
{
    out->kind = "service";
    out->of.pid = (uint64_t)job->service.lost;
    (void)snprintf(out->text, sizeof out->text,
                   "first cause: the service of job '%s' (pid %d) on %s %s, and the state of the "
                   "job was lost with it",
                   job->name, (int)job->service.lost, job->host, job->service.how);
}

/* Which one could not be started: that of the first place where it failed. */
static const char *program_of_launch(const struct mst_run_job *job)
{
    uint32_t slot = 0;

    while (slot + 1 < job->places.count && job->places.list[slot].start_error == 0) {
        slot++;
    }
    return mst_program_of(job->options, slot)->arguments[0];
}

static bool hosts_failed(const struct mst_run_job *job)
{
    return job->options->hosts != NULL &&
           mst_hosts_too_few(job->options->hosts, job->options->nodes_min);
}

/* A program that could not be started, or too many nodes; the text may be of what made the run
 * start it. */
static void of_launch(const struct mst_run_job *job, struct mst_first_cause *out)
{
    struct mst_first_cause launch = nothing_of(job);

    launch.kind = "launch";
    memcpy(launch.text, out->text, sizeof launch.text);
    if (hosts_failed(job)) {
        (void)snprintf(launch.text, sizeof launch.text, "first cause: %s",
                       job->options->hosts->how);
    } else if (mst_run_several(job->options)) {
        (void)snprintf(launch.text, sizeof launch.text,
                       "first cause: '%s' could not be started on %s", program_of_launch(job),
                       job->host);
    }
    *out = launch;
}

/* What another node said, or that it no longer could. */
static void of_elsewhere(const struct mst_run_job *job, struct mst_first_cause *out)
{
    if (job->nodes.cause_told) {
        (void)snprintf(out->text, sizeof out->text, "%s", job->nodes.cause_text);
    } else {
        (void)snprintf(out->text, sizeof out->text,
                       "first cause: node %" PRIu32 " ended the run, and did not say why in time",
                       job->nodes.end_number);
    }
}

void mst_cause_find(const struct mst_run_job *job, struct mst_first_cause *out)
{
    bool several = mst_run_several(job->options);

    *out = nothing_of(job);
    switch (job->end.how) {
    case MST_GOES_ON: /* it never began, or ended by itself */
        out->kind = job->end.launch_code != 0 ? "launch" : NULL;
        return;
    case MST_ENDS_SIGNAL:
        out->kind = "stopped";
        out->numbered = true;
        out->of.code = job->end.signal;
        (void)snprintf(out->text, sizeof out->text, "stopped by signal %d (%s)%s%s",
                       job->end.signal, strsignal(job->end.signal), several ? " on " : "",
                       several ? job->host : "");
        return;
    case MST_ENDS_TIME:
        out->kind = "max-time";
        (void)snprintf(out->text, sizeof out->text,
                       "stopped: the run has lasted " MST_SECONDS ", its --max-time",
                       MST_SECONDS_ARGS(job->options->max_time_ms));
        return;
    case MST_ENDS_FAILED:
        if (job->service.lost != 0) {
            of_service(job, out);
        } else {
            of_failure(job, out);
        }
        if (job->end.launch_code != 0) {
            of_launch(job, out);
        }
        return;
    case MST_ENDS_ALONE:
        out->kind = mst_preempted_saved(job) ? NULL : "node";
        if (job->nodes.alone != NULL) {
            (void)snprintf(out->text, sizeof out->text,
                           "node %" PRIu32 " (%s) ended without the others: %s", job->nodes.number,
                           job->host, job->nodes.alone);
        }
        return;
    case MST_ENDS_WELL:
        return;
    case MST_ENDS_ELSEWHERE:
        of_elsewhere(job, out);
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
    process =
        process != NULL && ended_itself(job, process) ? process : first_that(job, ended_itself);
    return process != NULL ? mst_process_code(process) : MST_EXIT_LAUNCHER;
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
    struct mst_first_cause cause;
    char text[1024];

    mst_cause_find(job, &cause);
    if (cause.text[0] != '\0') {
        tell_log(job);
        mst_say("%s", cause.text);
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
    if (job->end.how == MST_ENDS_TIME) {
        return mst_preempted_saved(job) ? MST_EXIT_AGAIN : MST_EXIT_TIME;
    }
    if (job->end.how == MST_ENDS_FAILED) {
        return job->service.lost == 0 ? code_of_failure(job) : MST_EXIT_LAUNCHER;
    }
    return code_of_places(job);
}
