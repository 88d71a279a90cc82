/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/meet.h"

#include <stdio.h>
#include <time.h>

static uint64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int64_t mst_cli_meet_left_ms(const struct mst_meeting *meeting)
{
    uint64_t now = now_ms();

    if (meeting->until_ms == UINT64_MAX) {
        return -1;
    }
    return meeting->until_ms > now ? (int64_t)(meeting->until_ms - now) : 0;
}

int mst_cli_meet(const struct mst_cli *cli, const char *kind, int64_t index,
                 struct mst_meeting *out)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    int64_t timeout_ms = mst_cli_number(cli, "timeout");
    char job[32 + MST_SOCKET_PATH_MAX];
    struct mst_cli_place place;
    struct muster_error err;
    int code;

    *out = (struct mst_meeting){.name = cli->arguments[0],
                                .until_ms =
                                    timeout_ms < 0 ? UINT64_MAX : now_ms() + (uint64_t)timeout_ms};
    if (snprintf(job, sizeof job, "%s/%s", kind, out->name) >= (int)sizeof job) {
        return mst_cli_usage(cli, "the name is too long");
    }
    code = mst_cli_locate(cli, &place);
    if (code != MST_CLI_OK) {
        return code;
    }
    mst_cli_forget_place();
    options.job = job;
    mst_cli_reach(cli, &place, &options);
    options.index = index;
    options.size_of_job = (uint32_t)mst_cli_number(cli, "number");
    options.min_size = options.size_of_job;
    if (muster_client_open(&out->client, &options, timeout_ms, &err) != MUSTER_OK) {
        return mst_cli_fail_with(cli, &err);
    }
    muster_client_view(out->client, &out->view);
    return MST_CLI_OK;
}
