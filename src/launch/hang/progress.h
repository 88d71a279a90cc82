/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_HANG_PROGRESS_H
#define MST_LAUNCH_HANG_PROGRESS_H

/* What an agent's renewals say of the ranks that it watches. */

#include "client/shell/internal.h"
#include "launch/hang/monitor.h"

/* Zeroed: nothing yet. Outlives every client that it was set for. */
struct mst_progress_report {
    struct mst_rank_progress *list;
    char (*sections)[MST_PACE_SECTION];
    uint32_t room;
};

/* From now on the client's renewals carry what the monitor saw in its last look, of at most
 * MST_PROGRESS_MAX ranks. Client NULL: a no-op. Locks the client. Without memory they carry what
 * there is room for. */
void mst_progress_report_set(struct mst_progress_report *report, muster_client *client,
                             const struct mst_monitor *monitor);

void mst_progress_report_fini(struct mst_progress_report *report);

#endif
