/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "view/told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/words.h"
#include "view/json.h"
#include "view/kept.h"
#include "view/restarts_left.h"
#include "view/span.h"
#include "view/story_json.h"

#define LINE_ROOM 2048

void mst_told_fini(struct mst_told *told)
{
    mst_items_fini(&told->history);
    mst_items_fini(&told->restarts);
    json_decref(told->run);
    told->run = NULL;
}

/* ---- parts ---- */

/* Most restarts take some milliseconds. */
static void add_cost(struct mst_text *text, uint64_t ms, uint64_t of_ms)
{
    uint64_t tenths = of_ms > 0 ? (ms * 1000 + of_ms / 2) / of_ms : 0;

    if (ms < 1000) {
        mst_text_format(text, "%" PRIu64 " ms", ms);
    } else {
        mst_text_format(text, MST_SECONDS, MST_SECONDS_ARGS(ms));
    }
    mst_text_format(text, " (%" PRIu64 ".%u %%)", tenths / 10, (unsigned)(tenths % 10));
}

static void add_counts(struct mst_text *text, const struct mst_story *story)
{
    mst_text_format(text, "restarted %" PRIu64 " time%s", story->restarts,
                    mst_plural(story->restarts));
    if (story->grown > 0) {
        mst_text_format(text, ", grew %" PRIu64 " time%s", story->grown, mst_plural(story->grown));
    }
    if (story->groups > 0) {
        mst_text_format(text, ", all to begin anew %" PRIu64 " time%s", story->groups,
                        mst_plural(story->groups));
    }
    if (story->lost > 0) {
        mst_text_format(text, ", lost %" PRIu64 " process%s", story->lost,
                        story->lost == 1 ? "" : "es");
    }
    if (story->repeated > 0) {
        mst_text_format(text, ", repeated %" PRIu64 " step%s", story->repeated,
                        mst_plural(story->repeated));
    }
    if (story->unlisted > 0) {
        mst_text_format(text, ", and %" PRIu64 " more fault%s", story->unlisted,
                        story->unlisted == 1 ? " or loss" : "s or losses");
    }
}

/* As the run says while it runs, or has said in its report. */
static bool restarts_left(const struct mst_told *told, struct mst_restarts_left *out)
{
    const json_t *report = json_object_get(told->run, "report");
    json_int_t used = json_integer_value(json_object_get(report, "restarts"));
    json_int_t most = json_integer_value(json_object_get(report, "max_restarts"));

    if (!report) {
        return mst_restarts_left_of(&told->restarts, out);
    }
    *out = (struct mst_restarts_left){.left = (uint32_t)(most - used), .of = (uint32_t)most};
    return used >= 0 && used <= most && most <= INT32_MAX;
}

void mst_told_verdict(struct mst_text *text, const struct mst_told *told,
                      const struct mst_story *story)
{
    struct mst_restarts_left left;

    if (told->history.count == 0) {
        mst_text_add(text, "nothing is remembered");
        return;
    }
    add_counts(text, story);
    mst_text_format(text, ", in " MST_SECONDS, MST_SECONDS_ARGS(story->age_ms));
    if (story->away_ms > 0) {
        mst_text_add(text, "; ");
        add_cost(text, story->away_ms, story->age_ms);
        mst_text_add(text, " of it in restarts");
    }
    if (story->without_ms > story->away_ms) {
        mst_text_add(text, story->away_ms > 0 ? ", " : "; ");
        add_cost(text, story->without_ms, story->age_ms);
        mst_text_add(text, " of it without all ranks");
    }
    if (restarts_left(told, &left)) {
        mst_text_format(text, "; %" PRIu32 " of %" PRIu32 " restart%s left", left.left, left.of,
                        mst_plural(left.of));
    }
    if (!story->from_the_start) {
        mst_text_add(text, "; what came before is not remembered");
    }
}

void mst_told_date(struct mst_text *text, int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm parts;
    char date[40];

    if (gmtime_r(&seconds, &parts) == NULL ||
        strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S UTC", &parts) == 0) {
        mst_text_add(text, "an unknown time");
        return;
    }
    mst_text_add(text, date);
}

void mst_told_moment(struct mst_text *text, uint64_t ms)
{
    const uint64_t minute = 60, hour = 60 * minute;
    uint64_t seconds = ms / 1000;
    char line[48];

    (void)snprintf(line, sizeof line, "%5" PRIu64 ":%02u:%02u.%u", seconds / hour,
                   (unsigned)(seconds / minute % minute), (unsigned)(seconds % minute),
                   (unsigned)(ms / 100 % 10));
    mst_text_add(text, line);
}

static void add_end(struct mst_text *text, const json_t *report)
{
    const char *ending = json_string_value(json_object_get(report, "ending"));
    const char *message =
        json_string_value(json_object_get(json_object_get(report, "first_cause"), "message"));
    json_int_t code = json_integer_value(json_object_get(report, "exit_code"));

    if (ending && strcmp(ending, "well") == 0) {
        mst_text_add(text, "the run ended well");
        return;
    }
    if (ending && strcmp(ending, "again") == 0) {
        mst_text_add(text, "the run saved, and asked to be run again");
        return;
    }
    mst_text_format(text, "the run %s with exit code %lld",
                    ending && strcmp(ending, "stopped") == 0 ? "was stopped" : "failed",
                    (long long)code);
    if (message) {
        mst_text_format(text, ": %.*s", MST_TEXT_ARGS(message));
    }
}

void mst_told_ending(struct mst_text *text, const struct mst_told *told)
{
    const json_t *report = json_object_get(told->run, "report");
    struct mst_kept_times times;

    if (!told->run) {
        return;
    }
    mst_kept_times(told->run, &times);
    if (report) {
        add_end(text, report);
    } else if (times.orphaned_ms > 0) {
        mst_text_add(text, "muster run was killed");
    } else if (told->runs) {
        mst_text_add(text, "the run still goes on: this is what was known at ");
        mst_told_date(text, times.written_ms);
    } else {
        mst_text_add(text, "no end is recorded, muster run and its service were killed or their "
                           "host failed: this is what was known at ");
        mst_told_date(text, times.written_ms);
    }
}

/* When that was. A service goes on for the nodes whose `muster run` lives. */
static uint64_t ending_moment_ms(const struct mst_told *told, const struct mst_story *story)
{
    int64_t until_ms = mst_kept_until_ms(told->run);
    struct mst_kept_times times;
    uint64_t since_ms;

    mst_kept_times(told->run, &times);
    if (times.ended_ms > 0 || times.orphaned_ms == 0 || times.orphaned_ms > until_ms) {
        return story->age_ms;
    }
    since_ms = (uint64_t)(until_ms - times.orphaned_ms);
    return story->age_ms > since_ms ? story->age_ms - since_ms : 0;
}

/* The first cause in the report of a run that failed. False: there is none, or it is no end of a
 * process. */
static bool first_cause(const struct mst_told *told, struct mst_item *out)
{
    const json_t *report = json_object_get(told->run, "report");
    const json_t *cause = json_object_get(report, "first_cause");
    const char *ending = json_string_value(json_object_get(report, "ending"));
    const char *host = json_string_value(json_object_get(cause, "host"));

    *out = (struct mst_item){
        .kind = MST_ITEM_INCIDENT,
        .incident = MST_INCIDENT_FAULT,
        .who = {.cause = mst_cause_named(json_string_value(json_object_get(cause, "kind"))),
                .code = (int32_t)json_integer_value(json_object_get(cause, "code")),
                .host = mst_slice_text(host ? host : "")}};
    return ending && strcmp(ending, "failed") == 0 && out->who.cause != MST_CAUSE_NONE;
}

void mst_told_advice(struct mst_text *text, const struct mst_told *told)
{
    struct mst_item cause;

    mst_story_advice(text, &told->history, first_cause(told, &cause) ? &cause : NULL);
}

/* ---- as lines ---- */

static void add_title(struct mst_text *text, const struct mst_told *told)
{
    const char *host = json_string_value(json_object_get(told->run, "host"));
    struct mst_kept_times times;

    mst_text_format(text, "job %.*s", MST_TEXT_ARGS(told->job));
    if (told->run) {
        mst_kept_times(told->run, &times);
        mst_text_add(text, ", begun ");
        mst_told_date(text, times.began_ms);
        mst_text_format(text, " on %.*s", MST_TEXT_ARGS(host ? host : "an unknown host"));
    }
    mst_text_add(text, ": ");
}

static void put_incidents(FILE *out, const struct mst_told *told, const struct mst_story *story)
{
    for (size_t i = 0; i < told->history.count; i++) {
        char line[LINE_ROOM];
        struct mst_text text = mst_text_in(line, sizeof line);

        mst_told_moment(&text, mst_story_moment_ms(story, &told->history.items[i]));
        mst_text_add(&text, "  ");
        mst_story_sentence(&text, &told->history.items[i]);
        (void)fprintf(out, "%s\n", line);
    }
}

static void put_ending(FILE *out, const struct mst_told *told, const struct mst_story *story)
{
    char line[LINE_ROOM];
    struct mst_text text = mst_text_in(line, sizeof line);

    mst_told_ending(&text, told);
    if (text.size > 0) {
        char moment[48];
        struct mst_text at = mst_text_in(moment, sizeof moment);

        mst_told_moment(&at, ending_moment_ms(told, story));
        (void)fprintf(out, "%s  %s\n", moment, line);
    }
    text = mst_text_in(line, sizeof line);
    mst_told_advice(&text, told);
    if (text.size > 0) {
        (void)fprintf(out, "what to do: %s\n", line);
    }
}

char *mst_told_text(const struct mst_told *told)
{
    char line[LINE_ROOM], *whole = NULL;
    struct mst_text text = mst_text_in(line, sizeof line);
    struct mst_story story;
    size_t size = 0;
    FILE *out = open_memstream(&whole, &size);
    bool good;

    if (!out) {
        return NULL;
    }
    mst_story_of(&told->history, &story);
    add_title(&text, told);
    mst_told_verdict(&text, told, &story);
    (void)fprintf(out, "%s\n", line);
    put_incidents(out, told, &story);
    put_ending(out, told, &story);
    good = !ferror(out);
    if (fclose(out) != 0 || !good) {
        free(whole);
        return NULL;
    }
    return whole;
}

/* ---- as JSON ---- */

static json_t *text_or_null(const struct mst_text *text)
{
    return text->size > 0 ? mst_json_text(mst_slice_of(text->start, text->size)) : json_null();
}

/* What its file has besides the incidents. */
static json_t *run_json(const struct mst_told *told)
{
    char line[LINE_ROOM];
    struct mst_text text = mst_text_in(line, sizeof line);
    json_t *run = told->run ? json_copy(told->run) : json_null();

    if (told->run) {
        (void)json_object_del(run, "incidents");
        mst_told_ending(&text, told);
        (void)mst_json_put(run, "sentence", text_or_null(&text));
    }
    return run;
}

char *mst_told_json(const struct mst_told *told)
{
    char advice[LINE_ROOM];
    struct mst_text text = mst_text_in(advice, sizeof advice);
    char *line = mst_story_json(told->job, &told->history, 0);
    json_t *object = line ? json_loads(line, JSON_ALLOW_NUL, NULL) : NULL;
    struct mst_restarts_left left;

    free(line);
    mst_told_advice(&text, told);
    if (!mst_json_put(object, "advice", text_or_null(&text)) ||
        !mst_json_put(object, "restarts_left",
                      restarts_left(told, &left) ? json_integer(left.left) : json_null()) ||
        !mst_json_put(object, "run", run_json(told))) {
        json_decref(object);
        return NULL;
    }
    return mst_json_line(object);
}
