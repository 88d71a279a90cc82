/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_CHAOS_H
#define MST_CLI_CHAOS_H

#include "cli/strike.h"

/* `muster chaos random`: strikes until the job ends, somebody stops it, or it is enough. An exit
 * code. */
int mst_cli_chaos_random(const struct mst_cli *cli);

#endif
