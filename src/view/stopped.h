/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_VIEW_STOPPED_H
#define MST_VIEW_STOPPED_H

/* Ranks of a job whose process a signal has stopped, as their agents say. */

#include "view/status_json.h"

struct mst_stopped {
    uint32_t index, pid;
    uint64_t for_ms;
};

void mst_stopped_each(const struct mst_status *status,
                      void (*fn)(void *ctx, const struct mst_stopped *stopped), void *ctx);

#endif
