/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/meet.h"

#include <stdio.h>

int mst_cli_meet(const struct mst_cli *cli, const char *kind, int64_t index,
                 struct mst_meeting *out)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    char job[32 + MST_SOCKET_PATH_MAX];
    struct mst_cli_place place;
    struct muster_error err;
    int code;

    *out = (struct mst_meeting){.name = cli->arguments[0]};
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
    if (muster_client_open(&out->client, &options, mst_cli_left_ms(cli, -1), &err) != MUSTER_OK) {
        return mst_cli_fail_with(cli, &err);
    }
    muster_client_view(out->client, &out->view);
    return MST_CLI_OK;
}
