/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/report.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "client/shell/items.h"
#include "launch/cause.h"
#include "launch/job.h"
#include "launch/say.h"
#include "os/own_file.h"
#include "view/story_json.h"

#define ASK_MS 1000 /* it answers at once, or is about to be started again */

/* ---- the file ---- */

/* Where FILE is: of a link that is there, what it leads to. NULL, or why there can be none. */
static const char *find_file(struct mst_report *report, const char *given)
{
    struct stat is;
    bool there = stat(given, &is) == 0;

    if (there && !S_ISREG(is.st_mode)) {
        return S_ISDIR(is.st_mode) ? strerror(EISDIR) : "no plain file";
    }
    if (strlen(given) >= sizeof report->path - 16) {
        return strerror(ENAMETOOLONG);
    }
    if (!there) {
        (void)snprintf(report->path, sizeof report->path, "%s", given);
    } else if (realpath(given, report->path) == NULL) {
        return strerror(errno);
    }
    return NULL;
}

int mst_report_open(struct mst_report *report, const char *given, const char *host)
{
    const char *reason;

    report->host = host;
    report->began_ns = mst_lib_now_ns();
    (void)clock_gettime(CLOCK_REALTIME, &report->began);
    if (given == NULL) {
        return 0;
    }
    reason = find_file(report, given);
    if (reason == NULL && !mst_own_file_replace(report->path, host, "", 0)) {
        reason = strerror(errno);
    }
    if (reason != NULL) {
        report->path[0] = '\0';
        return mst_refuse("--report %s: %s; name a file in a folder in which this user can write",
                          given, reason);
    }
    (void)unlink(
        report->path); /* if this run is killed, no reader takes the last one's end for its own */
    return 0;
}

/* ---- what is in it ---- */

/* Whatever bytes a rank wrote: JSON is UTF-8, and people read the file. */
static json_t *text_of(const char *bytes, size_t size)
{
    char line[1024];
    struct mst_text text = mst_text_in(line, sizeof line);

    for (size_t at = 0; at < size;) {
        const char *tab = memchr(bytes + at, '\t', size - at);
        size_t length = tab != NULL ? (size_t)(tab - bytes) - at : size - at;

        mst_text_format(&text, "%.*s%s", (int)length, bytes + at, tab != NULL ? "\t" : "");
        at += length + 1;
    }
    return json_string(line);
}

static json_t *string_or_null(const char *text)
{
    return text[0] != '\0' ? text_of(text, strlen(text)) : json_null();
}

static json_t *number_or_null(bool known, uint64_t number)
{
    return known ? json_integer((json_int_t)number) : json_null();
}

static json_t *time_of(const struct timespec *time)
{
    struct tm parts;
    char text[40];
    size_t size;

    (void)gmtime_r(&time->tv_sec, &parts);
    size = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(text + size, sizeof text - size, ".%03ldZ", time->tv_nsec / 1000000);
    return json_string(text);
}

static json_t *stderr_of(const struct mst_run_job *job, const struct mst_process *process)
{
    char tail[MST_OUTPUT_TAIL_MAX];
    json_t *lines = json_array();
    size_t size = 0, at = 0;

    if (process->error != NULL) {
        size = mst_output_tail(job->output, process->error, tail);
    }
    while (at < size) {
        const char *end = memchr(tail + at, '\n', size - at);
        size_t length = end != NULL ? (size_t)(end - tail) - at : size - at;

        const char *line = tail + at;

        at += length + 1;
        /* A terminal adds a carriage return to a newline. */
        length -= process->on_terminal && length > 0 && line[length - 1] == '\r';
        (void)json_array_append_new(lines, text_of(line, length));
    }
    return lines;
}

/* What only the node knows on which it ran. */
static void add_process(const struct mst_run_job *job, const struct mst_process *process,
                        json_t *cause)
{
    char path[PATH_MAX];

    mst_logs_path(&job->logs, process->index, &process->log, "stderr.log", path, sizeof path);
    if (process->died_ns != 0) {
        (void)json_object_set_new(cause, "time", time_of(&process->died));
    }
    (void)json_object_set_new(cause, "error", string_or_null(process->recorded));
    (void)json_object_set_new(cause, "stderr", stderr_of(job, process));
    (void)json_object_set_new(cause, "log", string_or_null(path));
}

static json_t *cause_of(const struct mst_run_job *job, const struct mst_first_cause *parts)
{
    bool placed = parts->placed;
    uint32_t node = placed ? parts->of.index / job->places.count : job->nodes.number;
    json_t *cause = json_pack(
        "{s:n, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:n, s:n, s:[], s:n}", "message", "kind",
        parts->kind, "code", parts->numbered ? json_integer(parts->of.code) : json_null(), "index",
        number_or_null(placed, parts->of.index), "rank",
        number_or_null(placed && parts->of.rank != MST_RANK_NONE, parts->of.rank), "node",
        json_integer(node), "host", string_or_null(parts->of.host), "pid",
        number_or_null(parts->of.pid != 0, parts->of.pid), "generation",
        number_or_null(placed || parts->of.generation != 0, parts->of.generation), "time", "error",
        "stderr", "log");

    if (cause != NULL && parts->process != NULL) {
        add_process(job, parts->process, cause);
    }
    return cause;
}

static uint64_t number_in(const json_t *object, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(object, name));
}

/* What the node that decided it has told the others, also where that is this one; empty: nothing.
 */
static const char *told_cause(const struct mst_run_job *job)
{
    const char *own = strchr(job->nodes.cause.value, '\n');

    if (job->end.how == MST_ENDS_ELSEWHERE) {
        return job->nodes.cause_report;
    }
    return own != NULL ? own + 1 : "";
}

static const struct mst_process *process_in(const struct mst_run_job *job, const json_t *cause)
{
    if (!json_is_integer(json_object_get(cause, "index"))) {
        return NULL;
    }
    return mst_cause_process(job, (uint32_t)number_in(cause, "index"), number_in(cause, "pid"));
}

/* As it was told, and what this node knows better. */
static json_t *cause_as_told(const struct mst_run_job *job)
{
    const struct mst_first_cause unknown = {.kind = "unknown", .of = {.rank = MST_RANK_NONE}};
    json_t *cause = json_loads(told_cause(job), 0, NULL);
    const struct mst_process *process;

    if (!json_is_object(cause)) { /* another node decided it, and did not say why in time */
        json_decref(cause);
        cause = cause_of(job, &unknown);
        (void)json_object_set_new(cause, "node", json_integer(job->nodes.end_number));
        return cause;
    }
    process = process_in(job, cause);
    if (process != NULL && json_is_null(json_object_get(cause, "time"))) {
        add_process(job, process, cause);
    }
    return cause;
}

/* NULL: the run ended well. */
static json_t *first_cause(const struct mst_run_job *job)
{
    struct mst_first_cause parts;

    if (job->end.how == MST_ENDS_ELSEWHERE || told_cause(job)[0] != '\0') {
        return cause_as_told(job);
    }
    mst_cause_find(job, &parts);
    return parts.kind != NULL ? cause_of(job, &parts) : NULL;
}

const struct mst_process *mst_report_process(const struct mst_run_job *job)
{
    json_t *cause = first_cause(job);
    const struct mst_process *process = process_in(job, cause);

    json_decref(cause);
    return process;
}

void mst_report_cause(const struct mst_run_job *job, char *text, size_t room)
{
    json_t *cause = first_cause(job), *lines = json_object_get(cause, "stderr");
    size_t size = cause != NULL ? json_dumpb(cause, text, room - 1, JSON_COMPACT) : 0;

    while (size >= room && json_array_size(lines) > 0) {
        (void)json_array_remove(lines, 0);
        size = json_dumpb(cause, text, room - 1, JSON_COMPACT);
    }
    if (size >= room) {
        (void)json_object_set_new(cause, "log", json_null());
        size = json_dumpb(cause, text, room - 1, JSON_COMPACT);
    }
    text[size < room ? size : 0] = '\0';
    json_decref(cause);
}

/* What became of the notices: NULL stands for "there was none that this node knows of". */
static json_t *preemption_of(const struct mst_run_job *job)
{
    const struct mst_preempted *preempted = &job->preempted;
    const struct mst_saving *saving = &preempted->saving;
    const struct mst_saving_last *last =
        mst_saving_last(saving, mst_place_generation(&job->places));
    bool saved = mst_preempted_saved(job), known = last != NULL && saving->expected > 0 && !saved;
    json_t *missing = json_array();

    if (last == NULL && preempted->signal == 0) {
        json_decref(missing);
        return json_null();
    }
    for (uint32_t i = 0; known && i < saving->missing_count; i++) {
        const struct mst_saving_missing *one = &saving->missing[i];

        (void)json_array_append_new(
            missing, json_pack("{s:I, s:o, s:o}", "index", (json_int_t)one->index, "rank",
                               number_or_null(one->rank != MST_RANK_NONE, one->rank), "host",
                               string_or_null(one->host)));
    }
    return json_pack(
        "{s:o, s:b, s:o, s:o, s:o, s:o, s:o}", "agreed_step",
        last != NULL ? json_integer(last->fact.step) : json_null(), "saved", saved, "saved_by",
        saved ? json_integer(saving->complete.fact.of) : number_or_null(known, saving->arrived),
        "of",
        saved ? json_integer(saving->complete.fact.of) : number_or_null(known, saving->expected),
        "missing", missing, "signal",
        number_or_null(preempted->signal != 0, (uint64_t)preempted->signal), "requeue",
        preempted->requeue != NULL ? json_string(preempted->requeue) : json_null());
}

static const char *ending_of(const json_t *cause, int code)
{
    const char *kind = json_string_value(json_object_get(cause, "kind"));

    if (kind == NULL) {
        return code == MST_EXIT_AGAIN ? "again" : "well";
    }
    return strcmp(kind, "stopped") == 0 || strcmp(kind, "max-time") == 0 ? "stopped" : "failed";
}

static json_t *incidents_of(const struct mst_report *report)
{
    json_t *list = report->heard ? json_array() : json_null();

    for (size_t i = 0; i < report->history.count; i++) {
        (void)json_array_append_new(list, mst_story_incident_json(&report->history.items[i]));
    }
    return list;
}

void mst_report_ask(struct mst_run_job *job)
{
    struct mst_request request = {.command = MST_HISTORY};
    struct muster_error err;

    if (job->report.path[0] != '\0' && job->session.client != NULL) {
        job->report.heard =
            mst_lib_items_collect(job->session.client, &request, ASK_MS, &job->report.history, &err,
                                  "read the history") == MUSTER_OK;
    }
}

static json_t *report_of(const struct mst_run_job *job, int code)
{
    uint64_t took_ms = (mst_lib_now_ns() - job->report.began_ns) / NS_PER_MS;
    json_t *cause = first_cause(job);
    const char *ending = ending_of(cause, code);
    struct mst_first_cause found;
    struct timespec now;

    if (cause != NULL) { /* the last line; of a run that never began the one it said instead */
        mst_cause_find(job, &found);
        (void)json_object_set_new(
            cause, "message", string_or_null(found.text[0] != '\0' ? found.text : mst_said_last()));
    }
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return json_pack(
        "{s:i, s:o, s:s, s:i, s:o, s:o, s:o, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "version", MST_REPORT_VERSION, "job", string_or_null(job->name), "ending", ending,
        "exit_code", code, "first_cause", cause != NULL ? cause : json_null(), "began",
        time_of(&job->report.began), "ended", time_of(&now), "seconds", (double)took_ms / 1000,
        "node", json_integer(job->nodes.number), "host", string_or_null(job->host), "size",
        json_integer(job->options->size), "generations",
        json_integer((json_int_t)mst_place_generation(&job->places)), "restarts",
        json_integer(job->places.restarts), "max_restarts",
        json_integer(job->options->max_restarts), "preemption", preemption_of(job), "incidents",
        incidents_of(&job->report));
}

static void write_file(const struct mst_report *report, const json_t *object)
{
    char *text = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    char *line = NULL;
    int size = -1;

    if (text != NULL) {
        size = asprintf(&line, "%s\n", text);
    }
    errno = size < 0 ? ENOMEM : 0;
    if (size < 0 || !mst_own_file_replace(report->path, report->host, line, (size_t)size)) {
        mst_say("the report %s could not be written: %s", report->path, strerror(errno));
    }
    free(size >= 0 ? line : NULL);
    free(text);
}

void mst_report_write(const struct mst_run_job *job, int code)
{
    bool wanted = job->report.path[0] != '\0';
    json_t *object = NULL;

    if (wanted || job->kept.path[0] != '\0') {
        object = report_of(job, code);
    }
    mst_kept_end(job, object);
    if (wanted) {
        write_file(&job->report, object);
    }
    json_decref(object);
}
