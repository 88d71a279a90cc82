/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_LOOK_GATHER_H
#define MST_CLI_LOOK_GATHER_H

/* What the service says of a job, as one status. */

#include "cli/cli.h"
#include "view/status_json.h"

/* From a connected client; each of the questions takes at most so long. `status` is zeroed, and the
 * caller's in any case: mst_status_fini. False: `err` says why. */
bool mst_cli_gather(muster_client *client, const struct mst_cli_place *place, int64_t timeout_ms,
                    struct mst_status *status, struct muster_error *err);

#endif
