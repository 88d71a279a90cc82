/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_VIEW_PREEMPTION_H
#define MST_VIEW_PREEMPTION_H

/* What the keys of a job say about its preemption, for people: the members with a
 * notice, the step that was agreed last, and the ranks that have saved it. */

#include "proto/notice.h"
#include "view/status_json.h"

struct mst_preemption_notice {
    struct mst_notice notice;
    int64_t left_ms; /* until the deadline; negative: it has passed */
};

enum mst_preemption_state {
    MST_PREEMPTION_NONE = 0,
    MST_PREEMPTION_AGREED = 1, /* and not saved by all yet */
    MST_PREEMPTION_AGAIN = 2,  /* it is agreed anew */
    MST_PREEMPTION_WITHDRAWN = 3,
    MST_PREEMPTION_SAVED = 4, /* by all */
    MST_PREEMPTION_FAILED = 5
};

/* The last agreement. */
struct mst_preemption {
    enum mst_preemption_state state;
    uint64_t generation, k;
    int64_t step;
    uint32_t saved, of; /* by how many it was saved; of 0: not known */
};

void mst_preemption_of(const struct mst_status *status, struct mst_preemption *out);
const char *mst_preemption_word(enum mst_preemption_state state);

/* By index; that of the whole job last or first, as the keys are. What is none is passed over. */
void mst_preemption_each_notice(const struct mst_status *status,
                                void (*fn)(void *ctx, const struct mst_preemption_notice *notice),
                                void *ctx);

/* Ranks that have not saved the agreed step yet. */
void mst_preemption_each_missing(const struct mst_status *status, const struct mst_preemption *now,
                                 mst_status_missing_fn *fn, void *ctx);

#endif
