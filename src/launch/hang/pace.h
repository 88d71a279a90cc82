/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_HANG_PACE_H
#define MST_LAUNCH_HANG_PACE_H

/* How far one rank is and how fast, as its agent reports it to the service: from its progress page,
 * on the agent's clock. For people: nothing is decided by it.
 *
 *   rate   steps, or pings where no step is reported, since the older of two marks that are five
 *          seconds apart; a rank that stands still for twice its step loses it with time
 *   work   of a step, by the first of these that is there (docs/stragglers.md):
 *          the median time in declared sections, if more than half of the last steps have one;
 *          the median time outside the waits in muster, if it waits there in its loop;
 *          the time in which the function's thread ran or waited for a processor, in the better of
 *          the last two periods of at least eight pings and a second */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "process/page.h"
#include "proto/request.h"

struct mst_pace_mark {
    uint64_t at_ns, pings;
    int64_t step;
};

struct mst_pace {
    uint64_t turn; /* of the attempt that it is about */
    uint64_t sum;  /* of the counters, when they last changed: */
    uint64_t quiet_ns;
    struct mst_pace_mark first, middle,
        last; /* each is when the number of pings was seen to grow */
    uint64_t looked_ns;
    /* Of the thread: the period so far, and the work of the last two. */
    uint64_t cpu_ns, cpu_pings, cpu_at_ns;
    uint32_t cpu_us[2];
};

/* Looks at its page, and now and then at its thread. */
void mst_pace_look(struct mst_pace *pace, const struct mst_page *page, pid_t pid, uint64_t now_ns);

/* As of the last look. `section` has room for the name of a section, and lives as long as `out`.
 * False: it is in no attempt. */
#define MST_PACE_SECTION sizeof(((struct mst_page *)0)->section_name)
bool mst_pace_report(const struct mst_pace *pace, const struct mst_page *page,
                     char section[MST_PACE_SECTION], struct mst_rank_progress *out);

#endif
