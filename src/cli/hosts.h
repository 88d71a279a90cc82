/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_HOSTS_H
#define MST_CLI_HOSTS_H

/* `muster run --hostfile FILE`: what the other hosts are to be started with. */

#include "cli/cli.h"
#include "launch/nodes/hosts.h"
#include "launch/run.h"

#define MST_CLI_HOSTS_FLAGS_MAX 16

struct mst_cli_hosts {
    struct mst_hosts hosts;
    char *flags[MST_CLI_HOSTS_FLAGS_MAX + 1];
};

/* Reads the file into the options; without --hostfile nothing. OK, or an exit code after one line.
 * Release it in any case, after the run. */
int mst_cli_hosts_take(const struct mst_cli *cli, struct mst_cli_hosts *out,
                       struct mst_run_options *options);
void mst_cli_hosts_release(struct mst_cli_hosts *hosts);

#endif
