/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/commands.h"
#include "launch/helper/helper.h"

#define FD_ROW(field, text)                                                                        \
    {                                                                                              \
        .row = {                                                                                   \
            .unit = MST_UNIT_INDEX,                                                                \
            .name = (field),                                                                       \
            .standard = -1,                                                                        \
            .standard_text = "-1",                                                                 \
            .least = -1,                                                                           \
            .most = 1000000,                                                                       \
            .help = (text)                                                                         \
        }                                                                                          \
    }

static const struct mst_cli_flag flags[] = {
    FD_ROW("page_fd", "descriptor of the progress page"),
    FD_ROW("link_fd", "descriptor of the connection to the library"),
    FD_ROW("pid_fd", "descriptor of the process"),
    FD_ROW("index", "the process's place in the job"),
    {.row = {.unit = MST_UNIT_COUNT,
             .name = "since",
             .standard_text = "0",
             .most = INT64_MAX,
             .help = "its incarnation"}},
    {.row = {.unit = MST_UNIT_FLAG,
             .name = "worker",
             .help = "this process is a worker, not a rank"}},
    {.row = {.unit = MST_UNIT_TEXT,
             .name = "host",
             .standard_text = "",
             .help = "its host, as the job names it"}},
};

static int greatest(int a, int b)
{
    return a > b ? a : b;
}

static int run(struct mst_cli *cli)
{
    struct mst_helper_options options = {
        .addr = mst_cli_text(cli, "addr"),
        .job = mst_cli_text(cli, "job"),
        .host = mst_cli_text(cli, "host"),
        .index = (uint32_t)mst_cli_number(cli, "index"),
        .worker = mst_cli_number(cli, "worker") != 0,
        .incarnation = (uint64_t)mst_cli_number(cli, "since"),
        .page_fd = (int)mst_cli_number(cli, "page_fd"),
        .link_fd = (int)mst_cli_number(cli, "link_fd"),
        .pid_fd = (int)mst_cli_number(cli, "pid_fd"),
    };
    struct muster_client_options access = MUSTER_CLIENT_OPTIONS_INIT;

    if (options.page_fd < 0 || options.link_fd < 0 || mst_cli_number(cli, "index") < 0 ||
        *options.addr == '\0') {
        return mst_cli_usage(cli, "the library starts it for a process that no agent has started; "
                                  "there is nothing to type");
    }
    mst_cli_forget_place();
    mst_cli_pass_secret(cli, &access);
    options.secret = access.secret_file;
    options.insecure = access.insecure;
    options.last_fd = greatest(greatest(options.page_fd, options.link_fd),
                               greatest(options.pid_fd, (int)mst_cli_number(cli, "secret_fd")));
    return mst_helper(&options);
}

const struct mst_cli_command mst_cli_agent = {
    .name = "agent",
    .arguments = "",
    .summary = "the helper of one rank; the library starts it",
    .details =
        "`muster run` watches the ranks that it has started: it reports their death at once, and "
        "finds hangs. For a rank that srun, mpirun or a shell has started, the library starts this "
        "helper at the first muster_restart_run, and again if it ends. It ends with the rank. "
        "MUSTER_AGENT=0 starts none; MUSTER_PROGRAM is the path of `muster`.\n",
    .example = "",
    .flags = flags,
    .flag_count = sizeof flags / sizeof flags[0],
    .finds_job = true,
    .run = run,
};
