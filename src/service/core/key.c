/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/key.h"

#include <string.h>

#include "service/core/generation.h"
#include "service/core/handlers.h"
#include "service/core/job.h"
#include "service/core/pin.h"
#include "service/core/watch.h"

enum {
    LATEST_MAX = 4096, /* what a search may have to pass over */
    WIDE_WAITS = 4,    /* of wait_keys_max keys each: what the WAITs of a connection may wait for */
    WIDE_LEAST = 256
};

/* ---- the trees it is in ---- */

static int order_name(const void *key, const struct mst_tree_node *node)
{
    const struct mst_slice *name = key;

    return mst_slice_compare(*name, mst_key_name(MST_CONTAINER_CONST(node, struct mst_key, node)));
}

static int order_change(const void *key, const struct mst_tree_node *node)
{
    const uint64_t *revision = key;
    const struct mst_key *other = MST_CONTAINER_CONST(node, struct mst_key, change_node);

    return mst_tree_compare(*revision, other->revision);
}

static struct mst_key *key_of(struct mst_tree_node *node)
{
    return MST_CONTAINER_OR_NULL(node, struct mst_key, node);
}

static struct mst_key *changed_of(struct mst_tree_node *node)
{
    return MST_CONTAINER_OR_NULL(node, struct mst_key, change_node);
}

void mst_keyspace_init(struct mst_keyspace *space, const struct mst_core *core)
{
    mst_tree_init(&space->names, order_name);
    mst_table_init(&space->table, &core->mem);
    space->secret = &core->secret;
    mst_tree_init(&space->changes, order_change);
    mst_list_init(&space->latest);
    space->latest_count = 0;
    mst_watch_prefixes_init(&space->prefixes);
    mst_list_init(&space->tombstones);
}

struct mst_keyspace *mst_keyspace_of(struct mst_job *job, uint64_t generation)
{
    if (generation == 0) {
        return &job->keys;
    }
    return generation == job->generation ? &job->generation_keys : NULL;
}

struct mst_slice mst_key_name(const struct mst_key *key)
{
    return mst_slice_of(key->name, key->name_size);
}

struct mst_key *mst_key_find(const struct mst_keyspace *space, struct mst_slice name)
{
    struct mst_table_node *node =
        mst_table_find(&space->table, mst_table_hash(space->secret, name));

    for (; node; node = mst_table_again(node)) {
        struct mst_key *key = MST_CONTAINER(node, struct mst_key, in_table);

        if (mst_slice_equal(mst_key_name(key), name)) {
            return key;
        }
    }
    return NULL;
}

struct mst_key *mst_key_after(const struct mst_keyspace *space, struct mst_slice name)
{
    return key_of(mst_tree_at_or_after(&space->names, &name));
}

struct mst_key *mst_key_next(const struct mst_key *key)
{
    return key_of(mst_tree_next(&key->node));
}

/* ---- changes: most keys that change change again soon, so the latest are only a list; a key moves
 * to the tree when many newer ones follow it ---- */

static struct mst_key *latest_of(const struct mst_keyspace *space, struct mst_list *node)
{
    return node != &space->latest ? MST_CONTAINER(node, struct mst_key, in_latest) : NULL;
}

/* From the end: most readers miss only the last few. */
static struct mst_key *latest_from(const struct mst_keyspace *space, uint64_t revision)
{
    struct mst_key *found = latest_of(space, space->latest.next);
    struct mst_list *node = space->latest.prev;

    if (!found || found->revision >= revision) {
        return found;
    }
    while (MST_CONTAINER(node, struct mst_key, in_latest)->revision >= revision) {
        node = node->prev;
    }
    return latest_of(space, node->next);
}

struct mst_key *mst_key_changed(const struct mst_keyspace *space, uint64_t revision)
{
    struct mst_tree_node *node = mst_tree_at_or_after(&space->changes, &revision);

    return node ? changed_of(node) : latest_from(space, revision);
}

struct mst_key *mst_key_changed_next(const struct mst_key *key)
{
    struct mst_tree_node *node;

    if (mst_list_linked(&key->in_latest)) {
        return latest_of(key->space, key->in_latest.next);
    }
    node = mst_tree_next(&key->change_node);
    return node ? changed_of(node) : latest_of(key->space, key->space->latest.next);
}

size_t mst_keyspace_change_count(const struct mst_keyspace *space)
{
    return space->changes.count + space->latest_count;
}

static void drop_change(struct mst_key *key)
{
    if (mst_list_linked(&key->in_latest)) {
        mst_list_remove(&key->in_latest);
        key->space->latest_count--;
    } else {
        mst_tree_remove(&key->space->changes, &key->change_node);
    }
}

/* It has the newest revision of all. */
static void add_change(struct mst_key *key)
{
    struct mst_keyspace *space = key->space;
    struct mst_key *oldest;
    bool fresh;

    mst_list_append(&space->latest, &key->in_latest);
    if (space->latest_count < LATEST_MAX) {
        space->latest_count++;
        return;
    }
    oldest = MST_CONTAINER(mst_list_take(&space->latest), struct mst_key, in_latest);
    fresh = mst_tree_append(&space->changes, &oldest->revision, &oldest->change_node);
    MST_ASSERT(fresh); /* the newest there */
}

uint64_t mst_key_age_ms(const struct mst_core *core, const struct mst_key *key)
{
    return (core->kept_ns - key->since_ns) / NS_PER_MS;
}

muster_status mst_key_check_name(struct mst_waiter *waiter, struct mst_slice name)
{
    if (name.size > waiter->core->config.limits.key_bytes_max) {
        return mst_waiter_exceed_limit(waiter, MST_LIMIT_KEY_BYTES, name.size);
    }
    return name.size == 0 || mst_slice_has_nul(name) ? MUSTER_EINVAL : MUSTER_OK;
}

/* ---- records: existing keys count against the job's limits, tombstones have a limit of their own.
 * Names that are only awaited are counted apart: the waits of the moment must not decide whether a
 * write has room ---- */

enum { IN = 1, OUT = -1 };

/* Counts the record, in the state that it is in, or no more. */
static void count(struct mst_job *job, const struct mst_key *key, int by)
{
    uint64_t one = (uint64_t)by;

    if (key->value) {
        key->space->live += one;
        job->key_count += one;
        job->key_bytes += one * (key->name_size + key->value->size);
    } else if (key->revision != 0) {
        key->space->tombstone_count += one;
    } else {
        job->awaited_count += one;
        job->awaited_bytes += one * key->name_size;
    }
}

static struct mst_key *new_record(struct mst_job *job, struct mst_keyspace *space,
                                  struct mst_slice name)
{
    struct mst_key *key = mst_mem_zalloc(&job->core->mem, sizeof(*key) + name.size);

    if (key) {
        key->space = space;
        mst_list_init(&key->waits);
        key->name_size = (uint32_t)name.size;
        memcpy(key->name, name.data, name.size);
    }
    return key;
}

static void remove_record(struct mst_job *job, struct mst_key *key)
{
    mst_tree_remove(&key->space->names, &key->node);
    mst_table_remove(&key->space->table, &key->in_table);
    mst_mem_release(&job->core->mem, key);
}

struct mst_key *mst_key_obtain(struct mst_job *job, struct mst_keyspace *space,
                               struct mst_slice name)
{
    struct mst_key *key = mst_key_find(space, name);

    if (key) {
        return key;
    }
    key = new_record(job, space, name);
    if (key) {
        bool fresh = mst_tree_insert(&space->names, &name, &key->node);

        MST_ASSERT(fresh);
        mst_table_insert(&space->table, mst_table_hash(space->secret, name), &key->in_table);
        count(job, key, IN);
    }
    return key;
}

muster_status mst_key_restore(struct mst_job *job, struct mst_keyspace *space,
                              struct mst_slice name, const struct mst_key *kept)
{
    struct mst_key *key = new_record(job, space, name);

    if (!key) {
        return MUSTER_ENOMEM;
    }
    key->revision = kept->revision;
    key->since_ns = kept->since_ns;
    if (!mst_tree_append(&space->names, &name, &key->node)) {
        mst_mem_release(&job->core->mem, key);
        return MUSTER_EPROTO;
    }
    mst_table_insert(&space->table, mst_table_hash(space->secret, name), &key->in_table);
    if (!mst_tree_insert(&space->changes, &key->revision, &key->change_node)) {
        remove_record(job, key);
        return MUSTER_EPROTO;
    }
    key->value = kept->value;
    count(job, key, IN);
    return MUSTER_OK;
}

void mst_keyspace_restore_order(struct mst_keyspace *space)
{
    struct mst_key *key = space->tombstone_count > 0 ? mst_key_changed(space, 0) : NULL;

    for (; key; key = mst_key_changed_next(key)) {
        if (!key->value) {
            mst_list_append(&space->tombstones, &key->in_tombstones);
        }
    }
}

muster_status mst_key_check_room(struct mst_waiter *waiter, uint64_t keys, uint64_t bytes)
{
    if (keys > waiter->core->config.limits.keys_max) {
        return mst_waiter_exceed_limit(waiter, MST_LIMIT_KEYS, keys);
    }
    if (bytes > waiter->core->config.limits.job_bytes_max) {
        return mst_waiter_exceed_limit(waiter, MST_LIMIT_JOB_BYTES, bytes);
    }
    return MUSTER_OK;
}

void mst_key_release(struct mst_job *job, struct mst_key *key)
{
    if (key->revision == 0 && key->staged == 0 && mst_list_empty(&key->waits) &&
        !key->space->dropping) {
        count(job, key, OUT);
        remove_record(job, key);
    }
}

/* Forgets the oldest deletion: a watcher from before it will get a RESET. */
static void forget_one(struct mst_job *job, struct mst_keyspace *space)
{
    struct mst_key *key =
        MST_CONTAINER(mst_list_take(&space->tombstones), struct mst_key, in_tombstones);

    count(job, key, OUT);
    space->forgotten = key->revision;
    if (key->revision > space->epoch_revision) {
        space->epoch++;
        space->epoch_revision = job->revision;
    }
    drop_change(key);
    key->revision = 0;
    count(job, key, IN);
    mst_key_release(job, key);
}

void mst_keyspace_trim(struct mst_job *job, struct mst_keyspace *space)
{
    while (space->tombstone_count > job->core->config.limits.tombstones_max) {
        forget_one(job, space);
    }
}

/* ---- changing ---- */

static void set_revision(struct mst_job *job, struct mst_key *key)
{
    drop_change(key);
    key->revision = mst_job_next_revision(job);
    key->since_ns = job->core->now_ns;
    add_change(key);
}

void mst_key_own(struct mst_key *key, struct mst_session *owner)
{
    mst_list_remove(&key->in_owner);
    key->owner = owner;
    if (owner) {
        mst_list_append(&owner->owned, &key->in_owner);
    }
}

/* A wait is fulfilled. The last one of its waiter answers it. */
static void fulfil(struct mst_key *key, struct mst_key_wait *wait)
{
    struct mst_waiter *waiter = wait->waiter;

    mst_list_remove(&wait->in_key);
    wait->key = NULL;
    if (--waiter->keys.pending > 0) {
        return;
    }
    if (waiter->command == MST_GET) {
        waiter->value = mst_blob_keep(key->value);
        waiter->revision = key->revision;
    }
    mst_waiter_answer(waiter, MUSTER_OK);
}

void mst_key_store(struct mst_job *job, struct mst_key *key, struct mst_blob *value,
                   struct mst_session *owner)
{
    count(job, key, OUT);
    if (key->value) {
        mst_pin_leave_value(job->core, key->value);
    }
    mst_list_remove(&key->in_tombstones);
    key->value = value;
    mst_key_own(key, owner);
    set_revision(job, key);
    count(job, key, IN);
    MST_LIST_EACH(node, following, &key->waits)
    {
        fulfil(key, MST_CONTAINER(node, struct mst_key_wait, in_key));
    }
    mst_counts_stored(job, key);
    mst_history_key(job, key);
    mst_watch_wake_key(key);
}

void mst_key_erase(struct mst_job *job, struct mst_key *key)
{
    struct mst_keyspace *space = key->space;

    MST_ASSERT(key->value);
    count(job, key, OUT);
    mst_pin_leave_value(job->core, key->value);
    key->value = NULL;
    mst_key_own(key, NULL);
    set_revision(job, key);
    count(job, key, IN);
    mst_list_append(&space->tombstones, &key->in_tombstones);
    mst_watch_wake_key(key);
    mst_keyspace_trim(job, space);
    if (space->live == 0) {
        mst_job_mark(job);
    }
}

static void drop_key(struct mst_job *job, struct mst_key *key, muster_status status)
{
    while (!mst_list_empty(&key->waits)) {
        mst_waiter_answer(MST_CONTAINER(key->waits.next, struct mst_key_wait, in_key)->waiter,
                          status);
    }
    count(job, key, OUT);
    if (key->value) {
        mst_pin_leave_value(job->core, key->value);
    }
    mst_list_remove(&key->in_owner);
    remove_record(job, key);
}

void mst_keyspace_drop(struct mst_job *job, struct mst_keyspace *space, muster_status status)
{
    space->dropping = true;
    mst_watch_drop(space, status);
    while (space->names.root) {
        drop_key(job, key_of(mst_tree_first(&space->names)), status);
    }
    mst_keyspace_init(space, job->core);
    space->dropping = false;
    /* Deletions in it are no longer known: a cursor from before begins again. */
    space->forgotten = job->revision;
    space->epoch++;
    space->epoch_revision = job->revision;
}

/* ---- requests ---- */

void mst_key_stop(struct mst_waiter *waiter)
{
    for (uint32_t i = 0; i < waiter->keys.room; i++) {
        struct mst_key_wait *wait = &waiter->keys.waits[i];
        struct mst_key *key = wait->key;

        if (key) {
            mst_list_remove(&wait->in_key);
            wait->key = NULL;
            mst_key_release(waiter->job, key);
        }
    }
    waiter->keys.pending = 0;
    waiter->link->wide -= waiter->command == MST_WAIT ? waiter->keys.room : 0;
    mst_mem_release(&waiter->core->mem, waiter->keys.waits);
    waiter->keys.waits = NULL;
    waiter->keys.room = 0;
}

static muster_status wait_for_one(struct mst_waiter *waiter, struct mst_keyspace *space,
                                  struct mst_slice name, struct mst_key_wait *wait, uint64_t *bytes)
{
    struct mst_job *job = waiter->job;
    struct mst_key *key = mst_key_find(space, name);

    if (key && key->value) {
        return MUSTER_OK;
    }
    if (!key) {
        muster_status status = mst_key_check_room(waiter, job->key_count + job->awaited_count + 1,
                                                  job->key_bytes + job->awaited_bytes + name.size);

        if (status != MUSTER_OK) {
            return status;
        }
        key = mst_key_obtain(job, space, name);
        if (!key) {
            return MUSTER_ENOMEM;
        }
        *bytes += sizeof(*key) + name.size;
    }
    wait->key = key;
    wait->waiter = waiter;
    mst_list_append(&key->waits, &wait->in_key);
    waiter->keys.pending++;
    return MUSTER_OK;
}

/* All WAITs of a connection together: a key of a list costs little memory and as much time at the
 * end of the connection as a GET. */
static muster_status check_wide(struct mst_waiter *waiter, uint32_t count)
{
    uint64_t most = WIDE_WAITS * waiter->core->config.limits.wait_keys_max;
    uint64_t asked = waiter->link->wide + count;

    most = mst_later(most, WIDE_LEAST);
    return waiter->command == MST_WAIT && asked > most
               ? mst_waiter_exceed(waiter, MST_LIMIT_AWAITED_KEYS, most, asked)
               : MUSTER_OK;
}

/* Waits for the names that do not exist: MORE. OK: all of them exist. On failure nothing is left
 * behind. */
static muster_status wait_for(struct mst_waiter *waiter, struct mst_keyspace *space,
                              const struct mst_slice *names, uint32_t count)
{
    uint64_t bytes = sizeof(*waiter) + count * sizeof(struct mst_key_wait);
    muster_status status = check_wide(waiter, count);

    if (status == MUSTER_OK) {
        status = mst_waiter_check_wait(waiter, bytes);
    }
    if (status != MUSTER_OK) {
        return status;
    }
    waiter->keys.waits = mst_mem_array(&waiter->core->mem, count, sizeof(struct mst_key_wait));
    if (!waiter->keys.waits) {
        return MUSTER_ENOMEM;
    }
    waiter->keys.room = count;
    waiter->link->wide += waiter->command == MST_WAIT ? count : 0;
    for (uint32_t i = 0; i < count && status == MUSTER_OK; i++) {
        status = wait_for_one(waiter, space, names[i], &waiter->keys.waits[i], &bytes);
    }
    if (status == MUSTER_OK && waiter->keys.pending > 0) { /* now with the names that are new */
        status = mst_waiter_check_wait(waiter, bytes);
    }
    if (status != MUSTER_OK || waiter->keys.pending == 0) {
        mst_key_stop(waiter);
        return status;
    }
    mst_waiter_wait(waiter, bytes);
    return MUSTER_MORE;
}

muster_status mst_key_get(struct mst_session *session, struct mst_waiter *waiter,
                          const struct mst_request *request)
{
    struct mst_keyspace *space = mst_keyspace_of(session->job, request->get.generation);
    const struct mst_key *key;
    muster_status status;

    if (!space) {
        return mst_generation_fence(session, waiter);
    }
    status = mst_key_check_name(waiter, request->get.key);
    if (status != MUSTER_OK) {
        return status;
    }
    key = mst_key_find(space, request->get.key);
    if (key && key->value) {
        waiter->value = mst_blob_keep(key->value);
        waiter->revision = key->revision;
        waiter->number = (int64_t)mst_key_age_ms(session->core, key);
        return MUSTER_OK;
    }
    return request->get.wait ? wait_for(waiter, space, &request->get.key, 1) : MUSTER_ENOTFOUND;
}

muster_status mst_key_wait_all(struct mst_session *session, struct mst_waiter *waiter,
                               const struct mst_request *request)
{
    struct mst_keyspace *space = mst_keyspace_of(session->job, request->wait.generation);
    uint32_t count = request->wait.count;

    if (!space) {
        return mst_generation_fence(session, waiter);
    }
    if (count > session->core->config.limits.wait_keys_max) {
        return mst_waiter_exceed_limit(waiter, MST_LIMIT_WAIT_KEYS, count);
    }
    if (count == 0) {
        return MUSTER_EINVAL;
    }
    for (uint32_t i = 0; i < count; i++) {
        muster_status status = mst_key_check_name(waiter, request->wait.keys[i]);

        if (status != MUSTER_OK) {
            return status;
        }
    }
    session->core->walked += count;
    return wait_for(waiter, space, request->wait.keys, count);
}

muster_status mst_key_list(struct mst_session *session, struct mst_waiter *waiter,
                           const struct mst_request *request)
{
    const struct mst_core *core = session->core;
    size_t longest = request->list.prefix.size > request->list.after.size
                         ? request->list.prefix.size
                         : request->list.after.size;

    if (!mst_keyspace_of(session->job, request->list.generation)) {
        return mst_generation_fence(session, waiter);
    }
    if (longest > core->config.limits.key_bytes_max) {
        return mst_waiter_exceed_limit(waiter, MST_LIMIT_KEY_BYTES, longest);
    }
    waiter->list.generation = request->list.generation;
    waiter->list.prefix = mst_blob_new(&core->mem, request->list.prefix);
    waiter->list.after_name = mst_blob_new(&core->mem, request->list.after);
    return waiter->list.prefix && waiter->list.after_name ? MUSTER_OK : MUSTER_ENOMEM;
}
