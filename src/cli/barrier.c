/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"
#include "cli/meet.h"
#include "cli/print.h"

/* The barrier is open when all participants have joined. */

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
    if (mst_cli_number(cli, "json")) {
        mst_cli_json_print(mst_cli_json_object(
            (struct mst_cli_field[]){{"barrier", mst_cli_json_text(meeting.name)},
                                     {"rank", json_integer(meeting.view.rank)},
                                     {"size", json_integer(meeting.view.size)},
                                     {NULL, NULL}}));
    }
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
