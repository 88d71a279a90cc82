/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_RESTART_RECORD_H
#define MST_RESTART_RECORD_H

/* The sealed record, as it was told with a seal or a join: bounded copies. */

#include "restart/restart.h"

struct mst_record_list {
    struct mst_fault_record first[MST_NAMES_MAX]; /* the first cause first */
    uint32_t count, total;
};

void mst_record_list_clear(struct mst_record_list *list);

/* Instead of what was there: the items of a seal's or a join's reply. */
void mst_record_list_take(struct mst_record_list *list, uint64_t now_ns,
                          const struct mst_reply *reply);

/* One more that this rank knows of itself. */
void mst_record_list_own(struct mst_record_list *list, uint64_t now_ns, const struct mst_view *view,
                         enum mst_cause kind, int32_t code, struct mst_slice text);

bool mst_record_list_has(const struct mst_record_list *list, enum mst_cause kind);
uint64_t mst_record_list_digest(const struct mst_record_list *list, uint64_t digest);

#endif
