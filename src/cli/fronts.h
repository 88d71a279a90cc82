/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_FRONTS_H
#define MST_CLI_FRONTS_H

#include "cli/cli.h"

/* The fronts that --front names: how many there are, 0 for "none", and whether JAX's is one of
 * them. OK, or an exit code after one line. */
int mst_cli_fronts(const struct mst_cli *cli, const char *list, unsigned *count_out, bool *jax_out);

#endif
