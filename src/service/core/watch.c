/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/watch.h"

#include <string.h>

#include "service/core/generation.h"
#include "service/core/handlers.h"
#include "service/core/job.h"
#include "service/core/scan.h"

enum { ALL_KINDS = MST_WATCH_KEYS | MST_WATCH_MEMBERS | MST_WATCH_FAULTS | MST_WATCH_VIEW };

/* ---- prefixes, by length and then bytes ---- */

static int order(const void *key, const struct mst_tree_node *node)
{
    const struct mst_slice *slice = key;
    const struct mst_prefix *prefix = MST_CONTAINER_CONST(node, struct mst_prefix, node);

    if (slice->size != prefix->size) {
        return slice->size < prefix->size ? -1 : 1;
    }
    return mst_slice_compare(*slice, mst_slice_of(prefix->bytes, prefix->size));
}

void mst_watch_prefixes_init(struct mst_tree *tree)
{
    mst_tree_init(tree, order);
}

static struct mst_prefix *prefix_of(struct mst_tree_node *node)
{
    return MST_CONTAINER_OR_NULL(node, struct mst_prefix, node);
}

struct mst_prefix *mst_watch_first_prefix(const struct mst_keyspace *space)
{
    return prefix_of(mst_tree_first(&space->prefixes));
}

struct mst_prefix *mst_watch_next_prefix(const struct mst_prefix *prefix)
{
    return prefix_of(mst_tree_next(&prefix->node));
}

static struct mst_prefix *obtain_prefix(struct mst_core *core, struct mst_keyspace *space,
                                        struct mst_slice bytes)
{
    struct mst_prefix *prefix = prefix_of(mst_tree_find(&space->prefixes, &bytes));

    if (!prefix) {
        prefix = mst_mem_zalloc(&core->mem, sizeof(*prefix) + bytes.size);
        if (!prefix) {
            return NULL;
        }
        mst_list_init(&prefix->watchers);
        prefix->space = space;
        prefix->size = (uint32_t)bytes.size;
        if (bytes.size > 0) {
            memcpy(prefix->bytes, bytes.data, bytes.size);
        }
    }
    prefix->references++;
    return prefix;
}

uint32_t mst_watch_count(const struct mst_keyspace *space, struct mst_slice bytes)
{
    const struct mst_prefix *prefix = prefix_of(mst_tree_find(&space->prefixes, &bytes));

    return prefix ? prefix->watcher_count : 0;
}

void mst_watch_release_prefix(struct mst_core *core, struct mst_prefix *prefix)
{
    if (prefix && --prefix->references == 0) {
        MST_ASSERT(!mst_tree_linked(&prefix->node));
        mst_mem_release(&core->mem, prefix);
    }
}

/* ---- watchers of the members of one node, by node and then in the order they came ---- */

/* The first that watches this node, or NULL. */
static struct mst_waiter *watcher_of(const struct mst_job *job, uint32_t node)
{
    struct mst_index_node *entry = mst_index_from(&job->watching_nodes, node, 0);

    return entry && entry->high == node
               ? MST_CONTAINER_OR_NULL(entry, struct mst_waiter, watch.in_node)
               : NULL;
}

/* ---- cursors ---- */

struct mst_cursor mst_watch_cursor(const struct mst_waiter *waiter)
{
    const struct mst_job *job = waiter->job;
    uint64_t after = waiter->after;
    const struct mst_prefix *prefix = waiter->watch.prefix;
    struct mst_cursor start = {.reset = after != 0, .listing = true};

    if (after & MST_CURSOR_LISTING) {
        uint64_t epoch = (after >> MST_CURSOR_EPOCH_SHIFT) & MST_CURSOR_EPOCH_MASK;

        after &= MST_REVISION_MAX;
        if (after > job->revision ||
            (prefix && epoch != (prefix->space->epoch & MST_CURSOR_EPOCH_MASK))) {
            return start;
        }
        return (struct mst_cursor){.after = after, .listing = true};
    }
    /* From a revision that does not exist, or from before a forgotten deletion. */
    if (after == 0 || after > job->revision || (prefix && after < prefix->space->forgotten)) {
        return start;
    }
    return (struct mst_cursor){.after = after};
}

/* Or so many other changes that the reply only moves the cursor. */
static bool key_to_tell(const struct mst_waiter *waiter, struct mst_cursor cursor)
{
    const struct mst_prefix *prefix = waiter->watch.prefix;
    struct mst_scan scan;

    mst_scan_begin(&scan, waiter->core, prefix->space, mst_slice_of(prefix->bytes, prefix->size),
                   cursor.after);
    return scan.key || scan.end != NEVER;
}

static bool anything_to_tell(const struct mst_waiter *waiter)
{
    const struct mst_job *job = waiter->job;
    struct mst_cursor cursor = mst_watch_cursor(waiter);
    uint32_t kinds = waiter->watch.kinds;

    return cursor.reset || ((kinds & MST_WATCH_VIEW) && job->view_revision > cursor.after) ||
           ((kinds & MST_WATCH_FAULTS) && mst_member_faulted(job, cursor.after + 1)) ||
           ((kinds & MST_WATCH_MEMBERS) &&
            mst_member_changed(job, waiter->watch.node, cursor.after + 1)) ||
           ((kinds & MST_WATCH_KEYS) && key_to_tell(waiter, cursor));
}

/* ---- waiting ---- */

static void start(struct mst_waiter *waiter, uint64_t cost)
{
    struct mst_job *job = waiter->job;
    struct mst_prefix *prefix = waiter->watch.prefix;

    mst_waiter_wait(waiter, cost);
    if (prefix) {
        struct mst_slice bytes = mst_slice_of(prefix->bytes, prefix->size);

        if (!mst_tree_linked(&prefix->node)) {
            bool fresh = mst_tree_insert(&prefix->space->prefixes, &bytes, &prefix->node);

            MST_ASSERT(fresh);
        }
        mst_list_append(&prefix->watchers, &waiter->watch.in_prefix);
        prefix->watcher_count++;
    }
    for (unsigned topic = 0; topic < MST_TOPICS; topic++) {
        if (!(waiter->watch.kinds & (unsigned)MST_WATCH_MEMBERS << topic)) {
            continue;
        }
        if (topic == MST_TOPIC_MEMBERS && waiter->watch.node != MST_NODE_NONE) {
            mst_index_put(&job->watching_nodes, &waiter->watch.in_node, waiter->watch.node,
                          ++job->watch_serial);
        } else {
            mst_list_append(&job->watching[topic], &waiter->watch.in_topic[topic]);
        }
    }
}

void mst_watch_stop(struct mst_waiter *waiter)
{
    struct mst_prefix *prefix = waiter->watch.prefix;

    mst_index_remove(&waiter->job->watching_nodes, &waiter->watch.in_node);
    for (unsigned topic = 0; topic < MST_TOPICS; topic++) {
        mst_list_remove(&waiter->watch.in_topic[topic]);
    }
    if (prefix) {
        mst_list_remove(&waiter->watch.in_prefix);
        prefix->watcher_count--;
        if (mst_list_empty(&prefix->watchers)) {
            mst_tree_remove(&prefix->space->prefixes, &prefix->node);
        }
    }
}

muster_status mst_watch_request(struct mst_session *session, struct mst_waiter *waiter,
                                const struct mst_request *request)
{
    struct mst_core *core = session->core;
    struct mst_keyspace *space = mst_keyspace_of(session->job, request->watch.generation);
    muster_status status;
    uint64_t cost;

    waiter->watch.kinds = request->watch.kinds;
    waiter->after = request->watch.after;
    waiter->watch.generation = request->watch.generation;
    waiter->watch.node = request->watch.node;
    waiter->member = session->claiming ? NULL : session->member;
    if (waiter->watch.kinds == 0 || (waiter->watch.kinds & ~(uint32_t)ALL_KINDS)) {
        return MUSTER_EINVAL;
    }
    if (request->watch.prefix.size > core->config.limits.key_bytes_max) {
        return mst_waiter_exceed_limit(waiter, MST_LIMIT_KEY_BYTES, request->watch.prefix.size);
    }
    if (waiter->watch.kinds & MST_WATCH_KEYS) {
        if (!space) {
            return mst_generation_fence(session, waiter);
        }
        waiter->watch.prefix = obtain_prefix(core, space, request->watch.prefix);
        if (!waiter->watch.prefix) {
            return MUSTER_ENOMEM;
        }
    }
    mst_counts_watch(&core->counts, request);
    if (anything_to_tell(waiter)) {
        return MUSTER_OK;
    }
    cost = sizeof(*waiter) +
           (waiter->watch.prefix ? sizeof(*waiter->watch.prefix) + waiter->watch.prefix->size : 0);
    status = mst_waiter_check_wait(waiter, cost);
    if (status != MUSTER_OK) {
        return status;
    }
    start(waiter, cost);
    return MUSTER_MORE;
}

/* ---- waking ---- */

/* Nothing that it watches changed since it began to wait, or it would have been woken then: so it
 * need not search before this change. */
static void wake(struct mst_waiter *waiter, uint64_t revision)
{
    waiter->after = revision - 1;
    mst_waiter_answer(waiter, MUSTER_OK);
}

void mst_watch_wake_key(const struct mst_key *key)
{
    const struct mst_tree *prefixes = &key->space->prefixes;
    struct mst_slice name = mst_key_name(key);
    struct mst_slice head = mst_slice_of(name.data, 0);
    struct mst_prefix *prefix;

    /* For each length that is watched, the beginning of the name is looked up. */
    while (head.size <= name.size && (prefix = prefix_of(mst_tree_at_or_after(prefixes, &head)))) {
        if (prefix->size == head.size &&
            mst_slice_equal(head, mst_slice_of(prefix->bytes, prefix->size))) {
            MST_LIST_EACH(node, following, &prefix->watchers)
            {
                wake(MST_CONTAINER(node, struct mst_waiter, watch.in_prefix), key->revision);
            }
            head.size++;
        } else if (prefix->size == head.size) {
            head.size++; /* others of this length, after ours */
        } else {
            head.size = prefix->size;
        }
    }
}

void mst_watch_wake(struct mst_job *job, enum mst_topic topic, uint64_t revision)
{
    MST_LIST_EACH(node, following, &job->watching[topic])
    {
        wake(MST_CONTAINER(node - topic, struct mst_waiter, watch.in_topic), revision);
    }
}

void mst_watch_wake_members(const struct mst_member *member)
{
    uint32_t node = mst_member_node(member);
    struct mst_waiter *waiter;

    mst_watch_wake(member->job, MST_TOPIC_MEMBERS, member->revision);
    while (node != MST_NODE_NONE && (waiter = watcher_of(member->job, node))) {
        wake(waiter, member->revision); /* and out of the index */
    }
}

void mst_watch_drop(struct mst_keyspace *space, muster_status status)
{
    struct mst_prefix *prefix;

    while ((prefix = mst_watch_first_prefix(space))) {
        mst_waiter_answer(MST_CONTAINER(prefix->watchers.next, struct mst_waiter, watch.in_prefix),
                          status);
    }
}
