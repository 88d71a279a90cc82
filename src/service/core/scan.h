/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_SCAN_H
#define MST_SERVICE_CORE_SCAN_H

/* The keys under a prefix that changed after a revision, in the order of their changes.
 *
 * There are two ways to find them: along the changes, which passes over the changes of other keys,
 * and along the names, which passes over the keys under the prefix that did not change. The number
 * of either may be a million, so a scan looks at a bounded number of records: a few changes first,
 * for most readers are nearly up to date; then the names, where they are few; then more changes.
 * A scan that is not finished then has `end`, and a reader continues from there. */

#include "service/core/key.h"

struct mst_scan {
    struct mst_core *core;
    const struct mst_keyspace *space;
    struct mst_slice prefix;
    bool deletions;                     /* are found as well */
    bool too_many_names;                /* under the prefix */
    const struct mst_key *key;          /* the next one; NULL: no more that were found */
    uint64_t end;                       /* changes up to here were looked at; NEVER: all of them */
    uint32_t steps;                     /* changes that may still be looked at */
    uint32_t sorted_count, sorted_next; /* of core->sorted, which holds a page and one more; count
                                           0: along the changes */
};

/* One scan at a time. Deleted keys are found unless `after` is 0. */
void mst_scan_begin(struct mst_scan *scan, struct mst_core *core, const struct mst_keyspace *space,
                    struct mst_slice prefix, uint64_t after);
void mst_scan_next(struct mst_scan *scan);

#endif
