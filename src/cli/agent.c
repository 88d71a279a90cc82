/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands.h"
#include "launch/helper/helper.h"

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
    .finds_job = true,
    .run = run,
};
