/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/meet.h"
#include "cli/print.h"
#include "client/shell/items.h"
#include "proto/words.h"
#include "view/story.h"

#define ANSWER_MS 10000

/* ---- as text ---- */

/* Hours and minutes from the first incident on: "  1:02:03.4". */
static void put_moment(uint64_t ms)
{
    const uint64_t minute = 60, hour = 60 * minute;
    uint64_t seconds = ms / 1000;

    mst_cli_put("%5" PRIu64 ":%02u:%02u.%u  ", seconds / hour,
                (unsigned)(seconds / minute % minute), (unsigned)(seconds % minute),
                (unsigned)(ms / 100 % 10));
}

/* Most restarts take some milliseconds. */
static void put_cost(uint64_t ms)
{
    if (ms < 1000) {
        mst_cli_put("%" PRIu64 " ms", ms);
    } else {
        mst_cli_put(MST_SECONDS, MST_SECONDS_ARGS(ms));
    }
}

static void print_verdict(const struct mst_cli_place *place, const struct mst_items *history,
                          const struct mst_story *story)
{
    uint64_t tenths =
        story->age_ms > 0 ? (story->away_ms * 1000 + story->age_ms / 2) / story->age_ms : 0;

    mst_cli_say("job %.*s: ", MST_TEXT_ARGS(place->job));
    if (history->count == 0) {
        mst_cli_put("nothing is remembered\n");
        return;
    }
    mst_cli_put("restarted %" PRIu64 " time%s", story->restarts, story->restarts == 1 ? "" : "s");
    if (story->grown > 0) {
        mst_cli_put(", grew %" PRIu64 " time%s", story->grown, story->grown == 1 ? "" : "s");
    }
    if (story->lost > 0) {
        mst_cli_put(", lost %" PRIu64 " process%s", story->lost, story->lost == 1 ? "" : "es");
    }
    if (story->unlisted > 0) {
        mst_cli_put(", and %" PRIu64 " more fault%s", story->unlisted,
                    story->unlisted == 1 ? " or loss" : "s or losses");
    }
    mst_cli_put(", in " MST_SECONDS, MST_SECONDS_ARGS(story->age_ms));
    if (story->away_ms > 0) {
        mst_cli_put("; ");
        put_cost(story->away_ms);
        mst_cli_put(" (%" PRIu64 ".%u %%) of it in restarts", tenths / 10, (unsigned)(tenths % 10));
    }
    mst_cli_put("%s\n", story->from_the_start ? "" : "; what came before is not remembered");
}

static void print_text(const struct mst_cli_place *place, const struct mst_items *history)
{
    struct mst_story story;

    mst_story_of(history, &story);
    print_verdict(place, history, &story);
    for (size_t i = 0; i < history->count; i++) {
        char line[1024];
        struct mst_text text = mst_text_in(line, sizeof line);

        put_moment(mst_story_moment_ms(&story, &history->items[i]));
        mst_story_sentence(&text, &history->items[i]);
        mst_cli_put("%s\n", line);
    }
}

/* ---- as JSON ---- */

static json_t *number_but(uint64_t number, uint64_t none)
{
    return number == none ? json_null() : json_integer((json_int_t)number);
}

static json_t *bytes(struct mst_slice slice)
{
    return mst_cli_json_bytes((struct muster_slice){slice.data, slice.size});
}

static json_t *incident_as_json(const struct mst_item *incident)
{
    const struct mst_who *who = &incident->who;
    bool named = who->index != MST_INDEX_ANY;
    char line[1024];
    struct mst_text text = mst_text_in(line, sizeof line);

    mst_story_sentence(&text, incident);
    return mst_cli_json_object((struct mst_cli_field[]){
        {"number", json_integer((json_int_t)incident->revision)},
        {"what", json_string(mst_story_word(incident))},
        {"ago_ms", json_integer((json_int_t)who->heard_ms)},
        {"generation", json_integer((json_int_t)incident->number)},
        {"role", named ? json_string(mst_role_word(who->role)) : json_null()},
        {"index", number_but(who->index, MST_INDEX_ANY)},
        {"rank", number_but(who->rank, MST_RANK_NONE)},
        {"incarnation", named ? json_integer((json_int_t)who->incarnation) : json_null()},
        {"host", who->host.size > 0 ? bytes(who->host) : json_null()},
        {"node", number_but(who->node, MST_NODE_NONE)},
        {"pid", who->pid > 0 ? json_integer((json_int_t)who->pid) : json_null()},
        {"cause", json_string(mst_cause_word(who->cause))},
        {"code", json_integer(who->code)},
        {"text", bytes(incident->value)},
        {"told_by", number_but((uint64_t)incident->told_by - 1, UINT64_MAX)},
        {"before", json_integer(incident->arrived)},
        {"after", json_integer(incident->expected)},
        {"faults", json_integer(incident->total)},
        {"interrupt_ms", json_integer((json_int_t)incident->interrupt_ms)},
        {"gather_ms", json_integer((json_int_t)incident->gather_ms)},
        {"step", json_integer(incident->step)},
        {"sentence", mst_cli_json_text(line)},
        {NULL, NULL}});
}

static void print_json(const struct mst_cli_place *place, const struct mst_items *history)
{
    json_t *list = mst_cli_json_check(json_array());
    struct mst_story story;

    mst_story_of(history, &story);
    for (size_t i = 0; i < history->count; i++) {
        mst_cli_json_append(list, incident_as_json(&history->items[i]));
    }
    mst_cli_json_print(mst_cli_json_object(
        (struct mst_cli_field[]){{"job", mst_cli_json_text(place->job)},
                                 {"age_ms", json_integer((json_int_t)story.age_ms)},
                                 {"from_the_start", json_boolean(story.from_the_start)},
                                 {"restarts", json_integer((json_int_t)story.restarts)},
                                 {"grown", json_integer((json_int_t)story.grown)},
                                 {"lost", json_integer((json_int_t)story.lost)},
                                 {"unlisted", json_integer((json_int_t)story.unlisted)},
                                 {"restart_ms", json_integer((json_int_t)story.away_ms)},
                                 {"service_restarts", json_integer((json_int_t)story.services)},
                                 {"incidents", list},
                                 {NULL, NULL}}));
}

/* ---- the command ---- */

static int run(struct mst_cli *cli)
{
    struct mst_request request = {.command = MST_HISTORY};
    struct mst_items history = {0};
    struct mst_cli_place place;
    muster_client *client = NULL;
    struct muster_error err;
    int code = mst_cli_observe(cli, &client, &place);

    if (code == MST_CLI_OK && mst_lib_items_collect(client, &request, ANSWER_MS, &history, &err,
                                                    "read the history") != MUSTER_OK) {
        code = mst_cli_fail_with(cli, &err);
    }
    if (code == MST_CLI_OK && mst_cli_number(cli, "json")) {
        print_json(&place, &history);
    } else if (code == MST_CLI_OK) {
        print_text(&place, &history);
    }
    mst_items_fini(&history);
    muster_client_close(client);
    return code == MST_CLI_OK ? mst_cli_finish_output(cli) : code;
}

const struct mst_cli_command mst_cli_why = {
    .name = "why",
    .arguments = "",
    .summary = "tell what happened to the job, in which order, and what it cost",
    .example = "  muster why\n  muster why -j train --json\n",
    .finds_job = true,
    .run = run,
};
