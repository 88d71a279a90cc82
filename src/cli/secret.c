/* SPDX-License-Identifier: Apache-2.0 */
/* Which of --secret-file, --secret-fd and --insecure counts. Flags override the environment, and a
 * descriptor overrides a file, because it was passed deliberately. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"

static bool wants_file(const struct mst_cli *cli)
{
    bool file = *mst_cli_text(cli, "secret_file") != '\0';

    return file && (mst_cli_typed(cli, "secret_file") || mst_cli_number(cli, "secret_fd") < 0);
}

int mst_cli_secret(const struct mst_cli *cli, struct mst_secret *out)
{
    int fd = (int)mst_cli_number(cli, "secret_fd");
    struct muster_error err = {0};
    muster_status status = MUSTER_OK;

    *out = (struct mst_secret){.size = 0};
    if (mst_cli_typed(cli, "secret_file") && mst_cli_typed(cli, "secret_fd")) {
        return mst_cli_usage(cli, "--secret-file or --secret-fd, not both");
    }
    if (wants_file(cli)) {
        status = mst_secret_read(mst_cli_text(cli, "secret_file"), out, &err);
    } else if (fd >= 0) {
        status = mst_secret_read_fd(fd, out, &err);
    }
    return status == MUSTER_OK ? MST_CLI_OK : mst_cli_fail_with(cli, &err);
}

void mst_cli_pass_secret(const struct mst_cli *cli, struct muster_client_options *options)
{
    char fd[24];

    if (wants_file(cli)) {
        options->secret_file = mst_cli_text(cli, "secret_file");
    } else if (mst_cli_number(cli, "secret_fd") >= 0) {
        (void)snprintf(fd, sizeof fd, "%d", (int)mst_cli_number(cli, "secret_fd"));
        (void)setenv("MUSTER_SECRET_FD", fd, 1); /* the number, not the secret */
    }
    options->insecure = mst_cli_number(cli, "insecure") != 0;
}
