/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"
#include "cli/meet.h"
#include "cli/print.h"

/* That all have come is the barrier. */

static void print_done(const struct mst_cli *cli, const struct mst_meeting *meeting)
{
    json_t *object;

    if (!mst_cli_number(cli, "json")) {
        return;
    }
    object = mst_cli_json_check(json_object());
    mst_cli_json_put(object, "barrier", mst_cli_json_text(meeting->name));
    mst_cli_json_put(object, "rank", json_integer(meeting->view.rank));
    mst_cli_json_put(object, "size", json_integer(meeting->view.size));
    mst_cli_json_print(object);
}

static int run(struct mst_cli *cli)
{
    struct mst_meeting meeting;
    int code;

    if (cli->argument_count != 1 || !mst_cli_given(cli, "number")) {
        return mst_cli_usage(cli, "usage: muster barrier NAME -n NUMBER [--timeout 30s]");
    }
    code = mst_cli_meet(cli, "barrier", MUSTER_INDEX_ANY, &meeting);
    if (code != MST_CLI_OK) {
        return code;
    }
    print_done(cli, &meeting);
    muster_client_close(meeting.client);
    return mst_cli_finish_output(cli);
}

const struct mst_cli_command mst_cli_barrier = {
    .name = "barrier",
    .arguments = "NAME -n NUMBER",
    .summary = "wait until a number of processes, from anywhere, have arrived at NAME",
    .example = "  muster barrier loaded -n 4 --timeout 30s\n",
    .finds_job = true,
    .run = run,
};
