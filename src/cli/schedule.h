/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_SCHEDULE_H
#define MST_CLI_SCHEDULE_H

/* When chaos strikes, how, and which target: a pure function of a seed, so that a run can be
 * repeated. The target is the n-th of the processes that are alive then. */

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"

enum mst_strike_kind { MST_STRIKE_KILL, MST_STRIKE_FREEZE, MST_STRIKE_CUT, MST_STRIKE_KINDS };

struct mst_schedule {
    struct mst_prng prng;
    uint64_t mean_ms;                             /* between two strikes; not 0 */
    enum mst_strike_kind kinds[MST_STRIKE_KINDS]; /* those there are, each once */
    uint32_t kind_count;                          /* not 0 */
};

struct mst_strike_plan {
    uint64_t gap_ms; /* since the one before: any time from 0 to twice the mean */
    enum mst_strike_kind kind;
    uint64_t pick; /* modulo how many live */
};

struct mst_strike_plan mst_schedule_next(struct mst_schedule *schedule);

/* "kill,cut": each known and named once. False: it is not. */
bool mst_schedule_parse_kinds(struct mst_schedule *schedule, const char *text);

/* "6/min", "0.5/s", "100/h", "6" (per minute): at least one in a day, at most 100 in a second.
 * False: it makes no sense. */
bool mst_schedule_parse_rate(struct mst_schedule *schedule, const char *text);

/* "kill", "freeze", "cut". */
const char *mst_strike_word(enum mst_strike_kind kind);

#endif
