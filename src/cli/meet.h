/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_MEET_H
#define MST_CLI_MEET_H

/* How processes that are members of nothing meet under a name. Whoever comes joins a job of its
 * own, of the wanted size; that its first generation is sealed says that all have come. So nobody
 * has to be a member of anything before, and who dies while it waits is noticed by its lease like
 * every member. */

#include "cli/cli.h"

#define MST_CLI_MEET_FLAGS                                                                         \
    {.letter = 'n',                                                                                \
     .row = {.unit = MST_UNIT_COUNT,                                                               \
             .name = "number",                                                                     \
             .standard = 0,                                                                        \
             .least = 1,                                                                           \
             .most = 1000000,                                                                      \
             .help = "number of participants"}},                                                   \
    {                                                                                              \
        .row = {.unit = MST_UNIT_MS,                                                               \
                .name = "timeout",                                                                 \
                .standard = -1,                                                                    \
                .most = 86400000,                                                                  \
                .help = "fail after this long with exit 124 (default: never)"},                    \
    }

struct mst_meeting {
    muster_client *client;
    struct muster_view view;
    const char *name;
};

/* The one argument is the name, `kind` what meets there: "barrier". `index` as in client.h. OK, or
 * an exit code after one line. The client is the caller's. */
int mst_cli_meet(const struct mst_cli *cli, const char *kind, int64_t index,
                 struct mst_meeting *out);

#endif
