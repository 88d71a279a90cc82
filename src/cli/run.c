/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/run.h"
#include "cli/commands.h"

static const struct mst_cli_flag flags[] = {
    {.letter = 'j',
     .row = {.scope = MST_SCOPE_CLIENT,
             .unit = MST_UNIT_TEXT,
             .name = "job",
             .help = "the job's name (default: the program's name and a number)"}},
    {.row = {.scope = MST_SCOPE_CLIENT,
             .unit = MST_UNIT_COUNT,
             .name = "size",
             .most = 1000000,
             .help = "ranks of the job (default: as many as are started)"}},
    {.row = {.scope = MST_SCOPE_CLIENT,
             .unit = MST_UNIT_COUNT,
             .name = "min_size",
             .least = 1,
             .most = 1000000,
             .help = "go on without lost ranks while this many are left"}},
    {.row = {.scope = MST_SCOPE_CLIENT,
             .unit = MST_UNIT_MS,
             .name = "join_wait",
             .most = 86400000,
             .help = "start with min-size ranks after this long; 0: wait for all"}},
    {.row = {.scope = MST_SCOPE_CLIENT,
             .unit = MST_UNIT_CHOICE,
             .name = "grow",
             .standard_text = "check",
             .choices = "check, fault, off",
             .help = "when newcomers are let in"}},
    {.row = {.unit = MST_UNIT_COUNT,
             .name = "nproc_per_node",
             .least = 1,
             .most = 65536,
             .help = "the same as --nproc, for those who know torchrun"}},
};

/* Inside a rank of another run the environment speaks of that one's job, not of ours. */
static bool given(const struct mst_cli *cli, const char *name)
{
    bool inside = getenv("MUSTER_INDEX") != NULL;

    for (size_t i = 0; i < cli->value_count; i++) {
        if (strcmp(cli->values[i].row->name, name) == 0) {
            return inside ? cli->values[i].by_flag : cli->values[i].given;
        }
    }
    return false;
}

/* The number, or `otherwise` where it is not given. */
static int64_t number(const struct mst_cli *cli, const char *name, int64_t otherwise)
{
    return given(cli, name) ? mst_cli_number(cli, name) : otherwise;
}

static const char *grow_of(const struct mst_cli *cli)
{
    static const char *const words[] = {"check", "fault", "off"};

    return words[number(cli, "grow", 0)];
}

static int check(const struct mst_cli *cli, const struct mst_run_options *options)
{
    if (cli->argument_count == 0) {
        return mst_cli_usage(cli, "which program? usage: muster run -n 4 -- PROGRAM ARGUMENTS");
    }
    if (options->size < options->nproc) {
        return mst_cli_usage(cli, "--size %u is less than the %u ranks to be started",
                             (unsigned)options->size, (unsigned)options->nproc);
    }
    if (options->min_size > options->size) {
        return mst_cli_usage(cli, "--min-size %u is more than the %u ranks of the job",
                             (unsigned)options->min_size, (unsigned)options->size);
    }
    return MST_CLI_OK;
}

static int run(struct mst_cli *cli)
{
    char lease[24];
    int64_t nproc = number(cli, "nproc_per_node", mst_cli_number(cli, "nproc"));
    struct mst_run_options options = {
        .job = given(cli, "job") ? mst_cli_text(cli, "job") : NULL,
        .nproc = (uint32_t)nproc,
        .size = (uint32_t)number(cli, "size", nproc),
        .min_size = (uint32_t)number(cli, "min_size", 0),
        .join_wait_ms = number(cli, "join_wait", 0),
        .grow = grow_of(cli),
        .lease = lease,
        .http = given(cli, "http") ? mst_cli_text(cli, "http") : NULL,
        .max_restarts = (uint32_t)mst_cli_number(cli, "max_restarts"),
        .grace_ms = mst_cli_number(cli, "grace"),
        .dump = mst_cli_number(cli, "core") != 0,
        .label = mst_cli_number(cli, "label") != 0,
        .arguments = cli->arguments,
    };
    int code = check(cli, &options);

    (void)snprintf(lease, sizeof lease, "%lldms", (long long)mst_cli_number(cli, "lease"));
    mst_cli_forget_place();
    return code == MST_CLI_OK ? mst_run(&options) : code;
}

const struct mst_cli_command mst_cli_run = {
    .name = "run",
    .arguments = "-- PROGRAM [ARGUMENTS]",
    .summary = "start the ranks of a job on this machine, watch them, and start lost ones again",
    .details =
        "Each rank gets MUSTER_*, RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT and the "
        "other\nvariables torchrun sets. A rank that fails is started again, if any rank has "
        "opened a muster\nclient; when that is no longer allowed the run ends, and its last line "
        "names the first cause.\nA rank's standard input is empty, and what it started ends with "
        "it, also when muster run is killed:\nall but a process that has left the rank's process "
        "group. SIGTERM, SIGINT, SIGHUP and SIGQUIT\nreach all ranks and end the run within the "
        "grace time; SIGUSR1 and SIGUSR2 are passed on.\n\n"
        "Exit codes: 0 all ranks ended well; the first failed rank's status, or 128 and its "
        "signal; 75 a\nrank saved its state and asks to be run again; 125 the launcher failed, "
        "126 the program cannot be\nexecuted, 127 it is not found.\n",
    .example = "  muster run -n 4 --max-restarts 5 -- ./train --steps 1000\n",
    .flags = flags,
    .flag_count = sizeof flags / sizeof flags[0],
    .scopes = MST_CLI_SCOPE(MST_SCOPE_RUN) | MST_CLI_SCOPE(MST_SCOPE_SERVICE),
    .runs_program = true,
    .run = run,
};
