/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/print.h"

/* Whoever comes joins a job of its own, of the wanted size; that its first generation is sealed is
 * the barrier. So nobody has to be a member of anything before, and who dies while it waits is
 * noticed by its lease like every member. */

#define PREFIX "barrier/"

static const struct mst_cli_flag flags[] = {
    {.letter = 'n',
     .row = {.unit = MST_UNIT_COUNT,
             .name = "number",
             .standard = 0,
             .least = 1,
             .most = 1000000,
             .help = "how many must come"}},
    {.row = {.unit = MST_UNIT_MS,
             .name = "timeout",
             .standard = -1,
             .most = 86400000,
             .help = "give up after this long, exit 124 (else never)"}},
};

static void print_done(const struct mst_cli *cli, const char *name, muster_client *client)
{
    struct muster_view view;
    json_t *object;

    if (!mst_cli_number(cli, "json")) {
        return;
    }
    muster_client_view(client, &view);
    object = mst_cli_json_check(json_object());
    mst_cli_json_put(object, "barrier", json_string(name));
    mst_cli_json_put(object, "rank", json_integer(view.rank));
    mst_cli_json_put(object, "size", json_integer(view.size));
    mst_cli_json_print(object);
}

static int run(struct mst_cli *cli)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    char job[sizeof PREFIX + MST_SOCKET_PATH_MAX];
    struct mst_cli_place place;
    struct muster_error err;
    muster_client *client;
    int code;

    if (cli->argument_count != 1 || !mst_cli_given(cli, "number")) {
        return mst_cli_usage(cli, "usage: muster barrier NAME -n NUMBER [--timeout 30s]");
    }
    if (snprintf(job, sizeof job, PREFIX "%s", cli->arguments[0]) >= (int)sizeof job) {
        return mst_cli_usage(cli, "the name is too long");
    }
    code = mst_cli_locate(cli, &place);
    if (code != MST_CLI_OK) {
        return code;
    }
    mst_cli_forget_place();
    options.job = job;
    mst_cli_reach(cli, &place, &options);
    options.index = MUSTER_INDEX_ANY;
    options.size_of_job = (uint32_t)mst_cli_number(cli, "number");
    options.min_size = options.size_of_job;
    if (muster_client_open(&client, &options, mst_cli_number(cli, "timeout"), &err) != MUSTER_OK) {
        return mst_cli_fail_with(cli, &err);
    }
    print_done(cli, cli->arguments[0], client);
    muster_client_close(client);
    return mst_cli_finish_output(cli);
}

const struct mst_cli_command mst_cli_barrier = {
    .name = "barrier",
    .arguments = "NAME -n NUMBER",
    .summary = "wait until a number of processes, from anywhere, have come to NAME",
    .example = "  muster barrier loaded -n 4 --timeout 30s\n",
    .flags = flags,
    .flag_count = sizeof flags / sizeof flags[0],
    .finds_job = true,
    .prints_json = true,
    .run = run,
};
