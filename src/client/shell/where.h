/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_WHERE_H
#define MST_CLIENT_SHELL_WHERE_H

/* The place of a rank that was told none: from its launcher's variables. */

#include <stdbool.h>
#include <stdint.h>

#include "discover/discover.h"
#include "muster/status.h"

struct mst_lib_where {
    bool launched; /* by a launcher we know; else nothing below is set */
    bool together; /* all its ranks are on this machine */
    bool single;   /* it is the only one */
    uint32_t index, size;
    char job[MST_DISCOVER_JOB_ROOM]; /* "": the launcher names none */
    char whose[160];                 /* "4 ranks of openmpi-123", for a line */
    enum mst_launcher launcher;
};

/* EINVAL with the line of the trap. */
muster_status mst_lib_where(struct mst_lib_where *out, struct muster_error *err);

/* Names the job after the launcher's process where the launcher names none; only the ranks of this
 * machine agree on that. */
void mst_lib_where_name(struct mst_lib_where *where);

/* Several nodes and no address: EINVAL, and what to do. */
muster_status mst_lib_where_apart(const struct mst_lib_where *where, struct muster_error *err);

#endif
