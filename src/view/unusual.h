/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_VIEW_UNUSUAL_H
#define MST_VIEW_UNUSUAL_H

/* Which members of a job are to be looked at. */

#include "view/verdict.h"

/* From nothing to see to the worst: by this `muster top` sorts. */
enum mst_unusual {
    MST_ORDINARY = 0,
    MST_UNUSUAL_LOSSES, /* it is here, and the place was lost before */
    MST_UNUSUAL_LEFT,
    MST_UNUSUAL_STRAGGLER, /* the others wait for it in each step */
    MST_UNUSUAL_ABSENT,    /* a round waits for it */
    MST_UNUSUAL_SILENT,
    MST_UNUSUAL_LOST,
    MST_UNUSUAL_BLAMED /* the verdict is about it */
};

enum mst_unusual mst_member_unusual(const struct mst_status *status,
                                    const struct mst_job_verdict *verdict,
                                    const struct mst_item *member);

#endif
