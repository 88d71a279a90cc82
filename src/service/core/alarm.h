/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_ALARM_H
#define MST_SERVICE_CORE_ALARM_H

/* Times at which the core must be woken: one ordered set for all of them. Equal times come in the
 * order in which they were set. */

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "service/core/index.h"

struct mst_core;

enum mst_alarm_kind {
    MST_ALARM_LEASE = 1,  /* in a session */
    MST_ALARM_ROUND = 2,  /* in a round: its deadline */
    MST_ALARM_JOIN = 3,   /* in a job: join_wait is over */
    MST_ALARM_REPLACE = 4 /* in a seal: the wait for replacements is over */
};

struct mst_alarm {
    struct mst_index_node node; /* by time and serial */
    enum mst_alarm_kind kind;
    uint64_t at_ns, set_ns; /* when it rings, when it was set */
    uint64_t serial;
};

struct mst_alarms {
    struct mst_tree tree;
    uint64_t serial;
};

/* `ms` from now; a time that is absurdly far away stays below NEVER, so that it can be shifted. */
uint64_t mst_alarm_moment(uint64_t now_ns, uint64_t ms);

void mst_alarm_init(struct mst_alarms *alarms);

/* Rings at `at_ns`, and not at the time that was set before. */
void mst_alarm_set(struct mst_core *core, struct mst_alarm *alarm, uint64_t at_ns);
void mst_alarm_clear(struct mst_core *core, struct mst_alarm *alarm);
bool mst_alarm_is_set(const struct mst_alarm *alarm);
/* Loads an alarm that is not set. False: there is another in its place. */
bool mst_alarm_restore(struct mst_core *core, struct mst_alarm *alarm,
                       const struct mst_alarm *kept);
uint64_t mst_alarm_first_ns(const struct mst_core *core);

/* A due alarm, cleared; NULL: none. */
struct mst_alarm *mst_alarm_take(struct mst_core *core);

/* The clock stood still for `late_ns`: deadlines (not leases) that ran meanwhile move with it. */
void mst_alarm_shift(struct mst_core *core, uint64_t late_ns);

#endif
