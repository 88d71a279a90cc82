/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_MEET_H
#define MST_CLI_MEET_H

/* How processes that are members of nothing meet under a name. Whoever comes joins a job of its
 * own, of the wanted size; that its first generation is sealed says that all have come. So nobody
 * has to be a member of anything before, and who dies while it waits is noticed by its lease like
 * every member. */

#include "cli/cli.h"

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
