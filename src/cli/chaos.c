/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/print.h"

#define ANSWER_MS 10000

static const struct mst_cli_flag flags[] = {
    {.letter = 's',
     .row = {.unit = MST_UNIT_SIGNAL,
             .name = "signal",
             .standard = SIGKILL,
             .standard_text = "9",
             .least = 1,
             .most = 64,
             .help = "what the process gets"}},
};

static const struct muster_member *find(const muster_members *members, int64_t index)
{
    for (size_t i = 0; i < muster_members_count(members); i++) {
        const struct muster_member *member = muster_members_get(members, i);

        if (member->role == MUSTER_ROLE_RANK && member->index == index) {
            return member;
        }
    }
    return NULL;
}

static bool lives(const struct muster_member *member)
{
    return member != NULL &&
           (member->state == MUSTER_MEMBER_JOINING || member->state == MUSTER_MEMBER_PRESENT ||
            member->state == MUSTER_MEMBER_SILENT);
}

static int strike(const struct mst_cli *cli, const char *job, const struct muster_member *member)
{
    int number = (int)mst_cli_number(cli, "signal");
    char host[HOST_NAME_MAX + 1] = "", rank[32] = "";

    (void)gethostname(host, sizeof host - 1);
    if (strcmp(host, member->host) != 0) {
        return mst_cli_fail(cli, "#%" PRIu32 " of job '%s' runs on %s; this is %s", member->index,
                            job, member->host, host);
    }
    if (member->pid == 0 || member->pid > INT32_MAX || kill((pid_t)member->pid, number) != 0) {
        return mst_cli_fail(cli, "#%" PRIu32 " of job '%s', pid %" PRIu64 ": %s", member->index,
                            job, member->pid, strerror(errno));
    }
    if (member->rank != MUSTER_RANK_NONE) {
        (void)snprintf(rank, sizeof rank, "rank %" PRIu32 ", ", member->rank);
    }
    mst_cli_put("signal %d (%s) sent to #%" PRIu32 " (%spid %" PRIu64 ") of job '%s'\n", number,
                strsignal(number), member->index, rank, member->pid, job);
    return mst_cli_finish_output(cli);
}

static int kill_index(const struct mst_cli *cli, int64_t index)
{
    struct mst_cli_place place;
    struct muster_error err;
    muster_client *client = NULL;
    muster_members *members = NULL;
    const struct muster_member *member;
    int code = mst_cli_observe(cli, &client, &place);

    if (code != MST_CLI_OK) {
        return code;
    }
    if (muster_member_list(client, ANSWER_MS, &members, &err) != MUSTER_OK) {
        code = mst_cli_fail_with(cli, &err);
    } else {
        member = find(members, index);
        code = lives(member)
                   ? strike(cli, place.job, member)
                   : mst_cli_fail(cli, "no #%" PRId64 " lives in job '%s'", index, place.job);
    }
    muster_members_free(members);
    muster_client_close(client);
    return code;
}

static int run(struct mst_cli *cli)
{
    static const struct mst_setting index_row = {
        .unit = MST_UNIT_INDEX, .name = "INDEX", .most = 1000000};
    char error[256];
    int64_t index;

    if (cli->argument_count != 2 || strcmp(cli->arguments[0], "kill") != 0) {
        return mst_cli_usage(cli, "usage: muster chaos kill INDEX");
    }
    if (mst_setting_parse(&index_row, cli->arguments[1] + (cli->arguments[1][0] == '#'), &index,
                          error, sizeof error) != MUSTER_OK) {
        return mst_cli_usage(cli, "%s", error);
    }
    return kill_index(cli, index);
}

const struct mst_cli_command mst_cli_chaos = {
    .name = "chaos",
    .arguments = "kill INDEX",
    .summary = "kill a rank of a job, to see that the job survives it",
    .example = "  muster chaos kill 2 -j train\n",
    .flags = flags,
    .flag_count = sizeof flags / sizeof flags[0],
    .finds_job = true,
    .run = run,
};
