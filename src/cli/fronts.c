/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/fronts.h"

#include <string.h>

#include "base/text.h"
#include "fronts/shell/kinds.h"

int mst_cli_fronts(const struct mst_cli *cli, const char *list, unsigned *count_out, bool *jax_out)
{
    struct mst_fronts_kind kinds[MST_FRONTS_MAX];
    struct mst_slice wrong;

    if (!mst_fronts_kinds(list, kinds, count_out, &wrong)) {
        return mst_cli_usage(cli, "--front %s: there is no front '%.*s'; xla, tcpstore or none",
                             list, MST_SLICE_ARGS(wrong));
    }
    *jax_out = false;
    for (unsigned i = 0; i < *count_out; i++) {
        *jax_out = *jax_out || strcmp(kinds[i].front->name, "xla") == 0;
    }
    return MST_CLI_OK;
}
