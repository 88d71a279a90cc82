/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/meet.h"
#include "cli/print.h"
#include "client/shell/items.h"
#include "view/story_json.h"

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

static int print_json(struct mst_cli *cli, const struct mst_cli_place *place,
                      const struct mst_items *history)
{
    char *line = mst_story_json(place->job, history, 0);

    if (!line) {
        return mst_cli_fail(cli, "out of memory");
    }
    mst_cli_put("%s", line);
    free(line);
    return MST_CLI_OK;
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
        code = print_json(cli, &place, &history);
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
