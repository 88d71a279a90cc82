/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_MEET_H
#define MST_CLI_MEET_H

/* How processes without a job meet under a name. Each joins a job made for this meeting, of the
 * wanted size; all have arrived when its first generation is sealed. A process that dies while it
 * waits is lost by its lease, as every member. */

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
