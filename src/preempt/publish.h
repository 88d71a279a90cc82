/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PREEMPT_PUBLISH_H
#define MST_PREEMPT_PUBLISH_H

/* Giving a notice, or taking it back, for one or several places or the whole job: a pure machine
 * that lives as long as that takes. The library, the agent and the command run it.
 *
 * What is written first is inserted without asking. Where there is a notice already it stays, if it
 * is as certain, not later by more than MST_PUBLISH_SAME_MS, not long past and not yet answered by
 * a save of all; else it is replaced, by compare-and-set, so that of two notices at once the
 * earlier deadline remains. To take back deletes what was read and nothing newer. */

#include "base/mem.h"
#include "proto/machine.h"
#include "proto/notice.h"

struct mst_publish;

enum { MST_PUBLISH_SAME_MS = 100, MST_PUBLISH_PAST_MS = 5000 };

struct mst_publish_config {
    bool withdraw;
    struct mst_notice notice; /* not its index. WITHDRAW: only those of its `source`; "": any */
    const uint32_t *indices;  /* ascending, copied; the whole job is MST_NOTICE_ALL */
    uint32_t count;
};

/* One call at a time, and its last effect is its own: it is done, `written`; nothing follows. */
struct mst_publish_effect {
    struct mst_machine_effect head;
    muster_status status; /* OK; else the service's, `reply` says more */
    uint32_t written;     /* notices written or taken back; the others were as they should */
    const struct mst_reply *reply; /* of the failure; NULL: none. Until done */
};

/* ENOMEM; EINVAL: no index, or not ascending. now_ns: when the notice was given; what passes before
 * it is written is taken off it. */
muster_status mst_publish_new(struct mst_publish **out, uint64_t now_ns,
                              const struct mst_publish_config *config, const struct mst_mem *mem);
void mst_publish_free(struct mst_publish *publish);
extern const struct mst_machine mst_publish_machine; /* reply, next and done */
void mst_publish_check(const struct mst_publish *publish);

#endif
