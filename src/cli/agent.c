/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/fronts.h"
#include "cli/print.h"
#include "launch/agent/agent.h"
#include "launch/helper/helper.h"

/* ---- the fronts of a node ---- */

/* One line, which a shell can read: export $(...). */
static void on_ready(char *const *variables)
{
    for (; *variables != NULL; variables++) {
        mst_cli_put("%s%s", *variables, variables[1] != NULL ? " " : "\n");
    }
    (void)fflush(stdout);
}

static int check(const struct mst_cli *cli, const struct mst_agent_options *options)
{
    unsigned count;
    bool jax;
    int code = mst_cli_fronts(cli, options->fronts, &count, &jax);

    if (code != MST_CLI_OK) {
        return code;
    }
    if (count == 0) {
        return mst_cli_usage(cli, "--front none: there is nothing to do");
    }
    if (jax && options->size == 0) {
        return mst_cli_usage(cli,
                             "--front %s: the number of processes of the job is missing, as in "
                             "--size 8",
                             options->fronts);
    }
    return MST_CLI_OK;
}

static int run_fronts(struct mst_cli *cli)
{
    struct muster_client_options access = MUSTER_CLIENT_OPTIONS_INIT;
    const struct mst_agent_options options = {
        .access = &access,
        .fronts = mst_cli_text(cli, "front"),
        .size = (uint32_t)mst_cli_number(cli, "size"),
        .port = (uint16_t)mst_cli_number(cli, "port"),
        .jax_recoverable = mst_cli_number(cli, "jax_recoverable") != 0,
        .until_idle = mst_cli_number(cli, "until_idle") != 0,
        .service_wait_ms = mst_cli_number(cli, "service_wait"),
        .ready = on_ready,
    };
    struct mst_cli_place place;
    struct muster_error err;
    int code = check(cli, &options);

    code = code == MST_CLI_OK ? mst_cli_locate(cli, &place) : code;
    if (code != MST_CLI_OK) {
        return code;
    }
    mst_cli_forget_place();
    access.job = place.job;
    mst_cli_reach(cli, &place, &access);
    if (mst_agent(&options, &err) != MUSTER_OK) {
        return mst_cli_fail_with(cli, &err);
    }
    return mst_cli_finish_output(cli);
}

/* ---- the helper of one rank ---- */

static int greatest(int a, int b)
{
    return a > b ? a : b;
}

static int run_helper(struct mst_cli *cli)
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
        return mst_cli_usage(cli, "--front is missing, as in --front xla --size 8; without it the "
                                  "library starts this command");
    }
    mst_cli_forget_place();
    mst_cli_pass_secret(cli, &access);
    options.secret = access.secret_file;
    options.insecure = access.insecure;
    options.last_fd = greatest(greatest(options.page_fd, options.link_fd),
                               greatest(options.pid_fd, (int)mst_cli_number(cli, "secret_fd")));
    return mst_helper(&options);
}

static int run(struct mst_cli *cli)
{
    return *mst_cli_text(cli, "front") != '\0' ? run_fronts(cli) : run_helper(cli);
}

const struct mst_cli_command mst_cli_agent = {
    .name = "agent",
    .arguments = "",
    .summary = "answer unmodified JAX and PyTorch processes of this node, without muster run",
    .details =
        "With --front it listens on 127.0.0.1 for processes that srun, kubectl or a shell starts, "
        "and makes each of JAX a rank of the job; a process that dies is lost in milliseconds. "
        "Start one on each node, as the user of the processes. It prints the variables that they "
        "need as one line, once the service is reached. SIGTERM stops it when the last process of "
        "the node has ended, a second one at once.\n"
        "Without --front it is the helper of one rank that `muster run` has not started: the "
        "library starts it at the first muster_restart_run, and again if it ends. It ends with the "
        "rank. MUSTER_AGENT=0 starts none; MUSTER_PROGRAM is the path of `muster`.\n",
    .example = "  muster agent --front xla --size 8 --port 4700 -j train --addr node0:7777 &\n",
    .finds_job = true,
    .run = run,
};
