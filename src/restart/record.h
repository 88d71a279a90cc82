/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_RESTART_RECORD_H
#define MST_RESTART_RECORD_H

/* The sealed record as a seal or a join reports it: bounded copies. */

#include "restart/restart.h"

/* One fault of that generation. The host and the text are cut if too long. */
void mst_fault_fill(struct muster_fault *out, uint64_t now_ns, uint64_t generation,
                    const struct mst_who *who, struct mst_slice text);

/* Instead of the records before: the items of a seal's or a join's reply. */
void mst_record_list_take(struct mst_record_list *list, uint64_t now_ns,
                          const struct mst_reply *reply);

bool mst_record_list_has(const struct mst_record_list *list, enum mst_cause kind);

#endif
