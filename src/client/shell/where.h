/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_WHERE_H
#define MST_CLIENT_SHELL_WHERE_H

/* The place of a rank without an index: from its launcher's variables. */

#include "discover/discover.h"
#include "muster/status.h"

struct mst_lib_where {
    enum mst_launcher launcher;
    struct mst_discovered place;
    char whose[160]; /* "4 ranks of openmpi-123", for a line */
};

/* EINVAL, with the reason, for variables that contradict each other or are incomplete. */
muster_status mst_lib_where(struct mst_lib_where *out, struct muster_error *err);

/* Names the job after the launcher's process where the launcher names none; only the ranks of this
 * machine agree on that. */
void mst_lib_where_name(struct mst_lib_where *where);

/* Several nodes and no address: EINVAL, with the remedy. */
muster_status mst_lib_where_apart(const struct mst_lib_where *where, struct muster_error *err);

#endif
