/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/print.h"
#include "cli/replay.h"
#include "client/shell/items.h"
#include "launch/kept.h"
#include "os/own_file.h"
#include "proto/run_keys.h"
#include "view/kept.h"
#include "view/told.h"

#define ANSWER_MS 10000
#define INCIDENTS_MAX 65536u /* of a record: as many as a service may remember */

/* ---- of a service ---- */

static int ask_service(struct mst_cli *cli, struct mst_cli_place *place, struct mst_told *told)
{
    struct mst_request request = {.command = MST_HISTORY};
    struct mst_request restarts = {.command = MST_LIST,
                                   .list = {.prefix = mst_slice_text(MST_RUN_RESTARTS_KEY)}};
    muster_client *client = NULL;
    struct muster_error err;
    int code = mst_cli_observe(cli, &client, place);

    if (code == MST_CLI_OK &&
        (mst_lib_items_collect(client, &request, ANSWER_MS, &told->history, &err,
                               "read the history") != MUSTER_OK ||
         mst_lib_items_collect(client, &restarts, ANSWER_MS, &told->restarts, &err,
                               "list the restarts left") != MUSTER_OK)) {
        code = mst_cli_fail_with(cli, &err);
    }
    told->job = place->job;
    muster_client_close(client);
    return code;
}

/* ---- of a record ---- */

struct reading {
    struct mst_cli_record record;
    const char *wanted; /* NULL: the record is of one job */
    char job[MST_SOCKET_PATH_MAX];
    bool several;
    struct mst_items *history;
    uint64_t at_ns; /* when that was so, on the clock of the core */
    bool short_of_memory;
};

static void take(void *ctx, const struct mst_item *incident)
{
    struct reading *reading = ctx;

    if (!mst_items_add(reading->history, incident, 1)) {
        reading->short_of_memory = true;
    }
}

/* The whole history at each incident: when the job has ended there is none. */
static void on_incident(void *ctx, const struct mst_core *core, struct mst_slice job)
{
    struct reading *reading = ctx;

    if (reading->wanted != NULL && !mst_slice_equal(job, mst_slice_text(reading->wanted))) {
        return;
    }
    reading->several = reading->several || (*reading->job != '\0' &&
                                            !mst_slice_equal(job, mst_slice_text(reading->job)));
    (void)snprintf(reading->job, sizeof reading->job, "%.*s", MST_SLICE_ARGS(job));
    mst_items_fini(reading->history);
    mst_core_history(core, job, take, reading);
    reading->at_ns = reading->record.about.now_ns;
}

static void on_over(void *ctx)
{
    struct reading *reading = ctx;
    uint64_t now_ns = reading->record.about.now_ns;

    for (size_t i = 0; i < reading->history->count && now_ns > reading->at_ns; i++) {
        reading->history->items[i].who.heard_ms += (now_ns - reading->at_ns) / NS_PER_MS;
    }
    reading->at_ns = now_ns;
}

static int read_record(struct mst_cli *cli, const char *path, struct mst_cli_place *place,
                       struct mst_told *told)
{
    struct reading reading = {
        .record = {.cli = cli,
                   .over = on_over,
                   .config = {.history = INCIDENTS_MAX, .incident = on_incident, .ctx = &reading}},
        .wanted = mst_cli_given(cli, "job") ? mst_cli_text(cli, "job") : NULL,
        .history = &told->history};
    int code = mst_cli_record_replay(&reading.record, path);

    if (code == MST_CLI_OK && reading.several) {
        code = mst_cli_fail(cli, "%s has several jobs; -j selects one", path);
    } else if (code == MST_CLI_OK && reading.short_of_memory) {
        code = mst_cli_fail(cli, "out of memory");
    } else if (code == MST_CLI_OK && *reading.job == '\0') {
        code =
            mst_cli_fail(cli, "%s has no incident of %s%s", path,
                         reading.wanted ? "job " : "any job", reading.wanted ? reading.wanted : "");
    }
    memcpy(place->job, reading.job, sizeof place->job);
    told->job = place->job;
    return code;
}

/* ---- of a run's file ---- */

static int read_kept(struct mst_cli *cli, const char *path, struct mst_told *told)
{
    told->run = mst_kept_load(path);
    if (told->run == NULL) {
        return mst_cli_fail(cli, "%s: %s", path,
                            errno == EPROTO ? "neither the file of a run nor a record"
                                            : strerror(errno));
    }
    told->job = json_string_value(json_object_get(told->run, "job"));
    told->runs = mst_kept_runs(told->run);
    return mst_kept_history(told->run, mst_kept_until_ms(told->run), &told->history)
               ? MST_CLI_OK
               : mst_cli_fail(cli, "out of memory");
}

/* A record begins otherwise than JSON does. */
static bool is_record(const char *path)
{
    struct stat about;
    FILE *file;
    int first;

    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
        return true;
    }
    file = fopen(path, "re");
    first = file != NULL ? fgetc(file) : EOF;
    if (file != NULL) {
        (void)fclose(file);
    }
    return file != NULL && first != '{';
}

/* ---- the command ---- */

/* A word without a slash is a job first: its program often lies beside, under the same name. */
static bool is_path(const char *what)
{
    char kept[PATH_MAX];

    return strchr(what, '/') != NULL ||
           (!mst_cli_runs_here(what) && !mst_kept_newest(what, kept) && access(what, F_OK) == 0);
}

/* A job that runs, one that has run, a file or a folder, or the last run; in this order. */
static int find(struct mst_cli *cli, struct mst_cli_place *place, struct mst_told *told)
{
    const char *what = cli->argument_count > 0 ? cli->arguments[0] : NULL;
    char path[PATH_MAX];

    if (what != NULL && is_path(what)) {
        if (access(what, F_OK) != 0) {
            return mst_cli_fail(cli, "%s: %s", what, strerror(errno));
        }
        return is_record(what) ? read_record(cli, what, place, told) : read_kept(cli, what, told);
    }
    if (what != NULL) {
        mst_cli_give(cli, "job", what);
    } else if (mst_cli_given(cli, "job")) {
        what = mst_cli_text(cli, "job");
    }
    if (*mst_cli_text(cli, "addr") || mst_cli_runs_here(what)) {
        return ask_service(cli, place, told);
    }
    if (mst_kept_newest(what, path)) {
        return read_kept(cli, path, told);
    }
    return what != NULL
               ? mst_cli_fail(cli,
                              "no job '%s' runs here, no run of it has left a file, and no "
                              "file or folder has that name",
                              what)
               : mst_cli_fail(cli, "no job runs here, and no run has left a file (muster run "
                                   "--keep-runs); name a job, a file or the folder of a record");
}

/* A new file, whole or not at all. What is no file, as /dev/stdout or a pipe, is written to, and
 * not replaced. */
static bool put_page(const char *path, const char *text)
{
    struct stat about;
    FILE *out;
    bool good;

    if (lstat(path, &about) != 0 || S_ISREG(about.st_mode)) {
        return mst_own_file_replace(path, "why", text, strlen(text));
    }
    out = fopen(path, "we");
    good = out != NULL && fputs(text, out) != EOF;
    return out != NULL && fclose(out) == 0 && good;
}

static int print(struct mst_cli *cli, const struct mst_told *told)
{
    const char *page = mst_cli_text(cli, "html");
    char *text = *page                         ? mst_told_page(told)
                 : mst_cli_number(cli, "json") ? mst_told_json(told)
                                               : mst_told_text(told);
    int code = MST_CLI_OK;

    if (text == NULL) {
        return mst_cli_fail(cli, "out of memory");
    }
    if (!*page || strcmp(page, "-") == 0) {
        mst_cli_put("%s", text);
    } else if (!put_page(page, text)) {
        code = mst_cli_fail(cli, "--html %s: %s", page, strerror(errno));
    }
    free(text);
    return code == MST_CLI_OK ? mst_cli_finish_output(cli) : code;
}

static int run(struct mst_cli *cli)
{
    struct mst_told told = {.job = ""};
    struct mst_cli_place place = {.job = ""};
    int code;

    if (cli->argument_count > 1) {
        return mst_cli_usage(cli, "one job, file or folder is expected");
    }
    if (*mst_cli_text(cli, "html") && mst_cli_number(cli, "json")) {
        return mst_cli_usage(cli, "--html and --json contradict each other");
    }
    code = find(cli, &place, &told);
    if (code == MST_CLI_OK) {
        code = print(cli, &told);
    }
    mst_told_fini(&told);
    return code;
}

const struct mst_cli_command mst_cli_why = {
    .name = "why",
    .arguments = "[JOB|FILE|DIR]",
    .summary = "tell what happened to a job, in which order, and what it cost",
    .details =
        "While the job runs its service is asked; afterwards the file is read that muster run "
        "has left of it. Without an argument: the job that runs here, else the last run. FILE "
        "is such a file, and DIR a folder that --record wrote.\n",
    .example = "  muster why\n  muster why train --html report.html\n",
    .finds_job = true,
    .run = run,
};
