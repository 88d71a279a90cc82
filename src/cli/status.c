/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/look/gather.h"
#include "cli/look/text.h"
#include "cli/print.h"

#define ANSWER_MS 10000

static int print_json(const struct mst_cli *cli, const struct mst_status *status)
{
    char *text = mst_status_json(status);

    if (!text) {
        return mst_cli_fail(cli, "out of memory");
    }
    mst_cli_put("%s", text);
    free(text);
    return MST_CLI_OK;
}

static int run(struct mst_cli *cli)
{
    struct mst_status status = {.job = NULL};
    struct mst_cli_place place;
    muster_client *client = NULL;
    struct muster_error err;
    int code = mst_cli_observe(cli, &client, &place);

    if (code == MST_CLI_OK && !mst_cli_gather(client, &place, ANSWER_MS, &status, &err)) {
        code = mst_cli_fail_with(cli, &err);
    }
    if (code == MST_CLI_OK && mst_cli_number(cli, "json")) {
        code = print_json(cli, &status);
    } else if (code == MST_CLI_OK) {
        mst_cli_status_print(&status, mst_cli_number(cli, "all"));
    }
    mst_status_fini(&status);
    muster_client_close(client);
    return code == MST_CLI_OK ? mst_cli_finish_output(cli) : code;
}

const struct mst_cli_command mst_cli_status = {
    .name = "status",
    .arguments = "",
    .summary = "show in one sentence how the job is, then what is unusual",
    .details =
        "The first line is the verdict: all ranks run, or who waits for whom since when, and\n"
        "why. Ordinary members are summed; -a lists all.\n",
    .example = "  muster status\n  muster status -a\n  muster status -j train --json\n",
    .finds_job = true,
    .run = run,
};
