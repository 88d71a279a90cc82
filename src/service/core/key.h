/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_KEY_H
#define MST_SERVICE_CORE_KEY_H

/* Bytes under a name. One record serves an existing key, a deleted one (a tombstone, so that a
 * watch can report it) and an awaited one:
 *
 *   awaited --store--> existing --erase--> tombstone --store--> existing
 *   tombstone --forgotten--> freed, or awaited again if a request waits for it */

#include "service/core/session.h"

struct mst_keyspace {
    struct mst_tree names;
    struct mst_table table; /* the same, to find one */
    const struct mst_table_secret *secret;
    struct mst_tree changes; /* existing keys and tombstones, by revision, but the latest: */
    struct mst_list latest;  /* in this order, all of them newer */
    size_t latest_count;
    struct mst_tree prefixes; /* struct mst_prefix: the watchers */
    struct mst_list tombstones;
    uint64_t tombstone_count;
    uint64_t live;      /* existing keys */
    uint64_t forgotten; /* deletions up to this revision are no longer known */
    uint64_t epoch;     /* how often `forgotten` passed `epoch_revision`, see watch.h */
    uint64_t epoch_revision;
    bool dropping;
};

struct mst_key {
    struct mst_tree_node node;
    struct mst_table_node in_table;
    struct mst_tree_node change_node; /* in one of the two if it has a revision */
    struct mst_list in_latest;
    struct mst_keyspace *space;
    uint64_t revision;      /* 0: only awaited */
    uint64_t since_ns;      /* when it got this revision */
    struct mst_blob *value; /* NULL: a tombstone or awaited */
    struct mst_list waits;  /* struct mst_key_wait */
    struct mst_session *owner;
    struct mst_list in_owner;
    struct mst_list in_tombstones;
    uint32_t staged; /* 1 + the last operation of the batch at hand that touches it; 0: none */
    uint32_t name_size;
    char name[];
};

void mst_keyspace_init(struct mst_keyspace *space, const struct mst_core *core);

/* As many tombstones as the limits allow are left. */
void mst_keyspace_trim(struct mst_job *job, struct mst_keyspace *space);

/* Drops everything; waiters and watchers get `status`. */
void mst_keyspace_drop(struct mst_job *job, struct mst_keyspace *space, muster_status status);

/* The key space that a request names: NULL: fenced. */
struct mst_keyspace *mst_keyspace_of(struct mst_job *job, uint64_t generation);

struct mst_slice mst_key_name(const struct mst_key *key);
struct mst_key *mst_key_find(const struct mst_keyspace *space, struct mst_slice name);
struct mst_key *mst_key_after(const struct mst_keyspace *space,
                              struct mst_slice name); /* at or after */
struct mst_key *mst_key_next(const struct mst_key *key);
struct mst_key *mst_key_changed(const struct mst_keyspace *space,
                                uint64_t revision); /* at or after */
struct mst_key *mst_key_changed_next(const struct mst_key *key);
size_t mst_keyspace_change_count(const struct mst_keyspace *space);

/* The time since its revision, by the service's time, which stands still while the service is away.
 * So it never exceeds the true age, and is smaller only by that time. It is counted to the last
 * input that a journal keeps: a recovered service reports no smaller age. */
uint64_t mst_key_age_ms(const struct mst_core *core, const struct mst_key *key);

/* OK, EINVAL (empty, or with a NUL) or ELIMIT, which the waiter explains. */
muster_status mst_key_check_name(struct mst_waiter *waiter, struct mst_slice name);

/* Whether a job may have so many keys, with so many bytes: OK, or ELIMIT. */
muster_status mst_key_check_room(struct mst_waiter *waiter, uint64_t keys, uint64_t bytes);

/* The record of this name, created if there is none; NULL: no memory. The caller checks the limits.
 */
struct mst_key *mst_key_obtain(struct mst_job *job, struct mst_keyspace *space,
                               struct mst_slice name);

/* Frees a record without a reason: no key, no tombstone, not awaited. */
void mst_key_release(struct mst_job *job, struct mst_key *key);

/* Stores the value (takes over its reference), and wakes waiters and watchers. */
void mst_key_store(struct mst_job *job, struct mst_key *key, struct mst_blob *value,
                   struct mst_session *owner);
void mst_key_erase(struct mst_job *job, struct mst_key *key);
void mst_key_own(struct mst_key *key, struct mst_session *owner); /* NULL: none */

/* Loads a key: value (its reference is taken over on success; NULL: a tombstone), revision and
 * time. By name, in ascending order; the order of the tombstones follows once all are loaded.
 * EPROTO: out of order, or the revision is taken; ENOMEM. */
muster_status mst_key_restore(struct mst_job *job, struct mst_keyspace *space,
                              struct mst_slice name, const struct mst_key *kept);
void mst_keyspace_restore_order(struct mst_keyspace *space);

/* The waiter waits for no key any more. */
void mst_key_stop(struct mst_waiter *waiter);

#endif
