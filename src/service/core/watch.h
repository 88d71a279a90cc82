/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_WATCH_H
#define MST_SERVICE_CORE_WATCH_H

/* Changes, followed by long poll. Nothing is queued for a watcher: each changed object carries the
 * revision of its last change, and a page is read from there. So a key that changed five times
 * between two polls appears once, and memory does not depend on the speed of readers. A watch
 * continues after the `revision` of its last reply. That number is opaque to the client. Inside a
 * listing of more than one page (after 0, or after a RESET) it is a cursor with bit 63 set, the
 * epoch of forgotten deletions in bits 44 to 62 and the revision below. Without the epoch the
 * second page of a listing could not be distinguished from a watcher that missed deletions. The
 * epoch moves whenever a deletion younger than the epoch itself is forgotten, so while it stands,
 * no deletion since the listing began was forgotten. */

#include "service/core/session.h"

#define MST_CURSOR_EPOCH_SHIFT 44
#define MST_CURSOR_EPOCH_MASK UINT64_C(0x7ffff)
#define MST_REVISION_MAX ((UINT64_C(1) << MST_CURSOR_EPOCH_SHIFT) - 1)

/* A prefix with watchers; counted by them. */
struct mst_prefix {
    struct mst_tree_node node; /* in keyspace->prefixes while it has watchers that wait */
    uint32_t references;
    struct mst_list watchers; /* struct mst_waiter.watch.in_prefix */
    uint32_t watcher_count;
    struct mst_keyspace *space;
    uint32_t size;
    char bytes[];
};

/* A watcher's cursor, taken apart. */
struct mst_cursor {
    uint64_t after; /* a revision */
    bool reset;     /* RESET comes first; `after` is 0 */
    bool listing;   /* report the current state, not changes */
};

/* How many wait for changes under just this prefix. */
uint32_t mst_watch_count(const struct mst_keyspace *space, struct mst_slice bytes);

void mst_watch_prefixes_init(struct mst_tree *tree);
void mst_watch_stop(struct mst_waiter *waiter);
void mst_watch_release_prefix(struct mst_core *core, struct mst_prefix *prefix);

/* A key changed, to its present revision. */
void mst_watch_wake_key(const struct mst_key *key);
/* A member changed, to its present revision. */
void mst_watch_wake_members(const struct mst_member *member);
/* Any of a topic changed, to `revision`. */
void mst_watch_wake(struct mst_job *job, enum mst_topic topic, uint64_t revision);

/* All watchers of keys of a space that is dropped. */
void mst_watch_drop(struct mst_keyspace *space, muster_status status);

struct mst_cursor mst_watch_cursor(const struct mst_waiter *waiter);
struct mst_prefix *mst_watch_first_prefix(const struct mst_keyspace *space);
struct mst_prefix *mst_watch_next_prefix(const struct mst_prefix *prefix);

#endif
