/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_FRONTS_SHELL_KINDS_H
#define MST_FRONTS_SHELL_KINDS_H

/* The fronts that there are. */

#include "base/slice.h"
#include "fronts/shell/fronts.h"

#define MST_FRONTS_MAX 2u
#define MST_FRONTS_DEFAULT "xla" /* without --front */

/* The one of that name. NULL: there is none. */
const struct mst_fronts_kind *mst_fronts_kind(struct mst_slice name);

/* The names of a list such as "xla,tcpstore", or "none". False: another word is in it, which is
 * `wrong_out`. */
bool mst_fronts_kinds(const char *list, struct mst_fronts_kind kinds[MST_FRONTS_MAX],
                      unsigned *count_out, struct mst_slice *wrong_out);

#endif
