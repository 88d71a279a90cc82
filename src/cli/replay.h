/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_REPLAY_H
#define MST_CLI_REPLAY_H

#include <limits.h>

#include "cli/cli.h"
#include "service/journal/replay.h"

/* A record that is replayed: one file, or all of a folder in their order. */
struct mst_cli_record {
    const struct mst_cli *cli;
    char path[PATH_MAX];             /* of the current file */
    struct mst_replayed about;       /* it */
    struct mst_replay_config config; /* `about` is set by the call */
    void (*over)(void *ctx);         /* after each file; NULL: nothing */
    uint64_t files, inputs, time_ns;
};

/* OK, or an exit code after one line. */
int mst_cli_record_replay(struct mst_cli_record *record, const char *path);

#endif
