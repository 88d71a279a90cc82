/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/scan.h"

#include <string.h>

#include "service/core/job.h"

#define SORTED_MAX (MST_PAGE_ITEMS + 1)

enum {
    FEW_CHANGES = 128, /* looked at before the names are */
    NAMES_MAX = 2048,  /* under a prefix, for the names to be the way */
    CHANGES_MAX = 8192 /* looked at in one scan */
};

static bool suits(const struct mst_scan *scan, const struct mst_key *key)
{
    return (key->value || scan->deletions) &&
           mst_slice_starts_with(mst_key_name(key), scan->prefix);
}

/* ---- along the changes ---- */

/* From `key` on. False: so many were looked at, and `*key_out` is the next one to look at. */
static bool follow_changes(struct mst_scan *scan, const struct mst_key *key, uint32_t steps_max,
                           const struct mst_key **next_out)
{
    uint32_t steps = 0;

    while (key && !suits(scan, key) && steps < steps_max) {
        key = mst_key_changed_next(key);
        steps++;
    }
    scan->steps -= steps;
    scan->core->walked += steps;
    *next_out = key;
    return !key || suits(scan, key);
}

/* ---- along the names ---- */

/* Keeps the oldest changes, as many as there is room for, in their order. */
static void sort_in(struct mst_scan *scan, const struct mst_key *key)
{
    const struct mst_key **sorted = scan->core->sorted;
    uint32_t low = 0;
    uint32_t high = scan->sorted_count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (sorted[middle]->revision < key->revision) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == SORTED_MAX) {
        return;
    }
    if (scan->sorted_count < SORTED_MAX) {
        scan->sorted_count++;
    }
    memmove(&sorted[low + 1], &sorted[low],
            (scan->sorted_count - 1 - low) * sizeof(const struct mst_key *));
    sorted[low] = key;
}

/* False: there are too many of them. */
static bool follow_names(struct mst_scan *scan, uint64_t after)
{
    const struct mst_key *key = mst_key_after(scan->space, scan->prefix);
    uint32_t names = 0;

    for (; key && mst_slice_starts_with(mst_key_name(key), scan->prefix); key = mst_key_next(key)) {
        if (names++ == NAMES_MAX) {
            break;
        }
        if (key->revision > after && suits(scan, key)) {
            sort_in(scan, key);
        }
    }
    scan->core->walked += names;
    if (names > NAMES_MAX) {
        scan->sorted_count = 0;
        return false;
    }
    scan->key = scan->sorted_count > 0 ? scan->core->sorted[0] : NULL;
    return true;
}

/* ---- */

/* The next one that changed after `after`, of which `from` is the first. */
static void find(struct mst_scan *scan, const struct mst_key *from, uint64_t after)
{
    uint32_t few = scan->steps < FEW_CHANGES ? scan->steps : FEW_CHANGES;
    const struct mst_key *next;

    if (follow_changes(scan, from, few, &next)) {
        scan->key = next;
        return;
    }
    if (!scan->too_many_names && follow_names(scan, after)) {
        return;
    }
    scan->too_many_names = true;
    if (follow_changes(scan, next, scan->steps, &next)) {
        scan->key = next;
    } else {
        scan->key = NULL;
        scan->end = next->revision - 1; /* from `next` on no change was visited */
    }
}

void mst_scan_begin(struct mst_scan *scan, struct mst_core *core, const struct mst_keyspace *space,
                    struct mst_slice prefix, uint64_t after)
{
    *scan = (struct mst_scan){.core = core,
                              .space = space,
                              .prefix = prefix,
                              .deletions = after != 0,
                              .end = NEVER,
                              .steps = CHANGES_MAX};
    find(scan, mst_key_changed(space, after + 1), after);
}

void mst_scan_next(struct mst_scan *scan)
{
    if (scan->sorted_count == 0) {
        find(scan, mst_key_changed_next(scan->key), scan->key->revision);
        return;
    }
    scan->sorted_next++;
    scan->key =
        scan->sorted_next < scan->sorted_count ? scan->core->sorted[scan->sorted_next] : NULL;
}
