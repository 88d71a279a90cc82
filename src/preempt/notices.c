/* SPDX-License-Identifier: Apache-2.0 */
/* The watch of all keys of preemption, and what is known from it: the notices that there are, and
 * how far the agreement at hand and the last one after it are. News come in the order in which the
 * keys were written, each page whole: a page that finds no memory is asked for again. */
#include <string.h>

#include "base/panic.h"
#include "preempt/machine.h"

static int order(const void *key, const struct mst_tree_node *node)
{
    const struct mst_preempt_seen *seen = (const struct mst_preempt_seen *)(const void *)node;
    uint32_t index = *(const uint32_t *)key;

    return (index > seen->notice.index) - (index < seen->notice.index);
}

static struct mst_preempt_seen *seen_of(struct mst_tree_node *node)
{
    return node ? MST_CONTAINER(node, struct mst_preempt_seen, node) : NULL;
}

const struct mst_preempt_seen *mst_preempt_notice_of(const struct mst_preempt *preempt,
                                                     uint32_t index)
{
    return seen_of(mst_tree_find(&preempt->notices, &index));
}

struct mst_preempt_seen *mst_preempt_seen_first(const struct mst_preempt *preempt)
{
    return seen_of(mst_tree_first(&preempt->notices));
}

struct mst_preempt_seen *mst_preempt_seen_next(const struct mst_preempt_seen *seen)
{
    return seen_of(mst_tree_next(&seen->node));
}

void mst_preempt_notices_init(struct mst_preempt *preempt)
{
    mst_tree_init(&preempt->notices, order);
}

static void seen_drop(struct mst_preempt *preempt, struct mst_preempt_seen *seen)
{
    if (preempt->sums.best == seen) {
        preempt->sums.best = NULL;
        preempt->owe_noticed = true;
    }
    mst_tree_remove(&preempt->notices, &seen->node);
    mst_mem_release(&preempt->mem, seen);
}

void mst_preempt_notices_free(struct mst_preempt *preempt)
{
    struct mst_preempt_seen *seen;

    while ((seen = mst_preempt_seen_first(preempt))) {
        seen_drop(preempt, seen);
    }
}

/* ---- what follows from them ---- */

/* Of two the one that matters more. */
static bool before(const struct mst_preempt_seen *a, const struct mst_preempt_seen *b)
{
    if (a->notice.level != b->notice.level) {
        return a->notice.level == MST_NOTICE_CERTAIN;
    }
    return a->deadline_ns < b->deadline_ns;
}

static bool spent(const struct mst_preempt *preempt, const struct mst_preempt_seen *seen)
{
    return seen->deadline_ns < preempt->began_ns;
}

static int64_t due_of(const struct mst_preempt *preempt, const struct mst_preempt_seen *seen)
{
    return seen->deadline_ns - (int64_t)(preempt->config.window_ms * NS_PER_MS);
}

bool mst_preempt_is_up_to(const struct mst_preempt *preempt, const struct mst_preempt_seen *seen,
                          struct mst_preempt_mark mark)
{
    return seen->revision <= mark.revision && due_of(preempt, seen) <= mark.by_ns;
}

bool mst_preempt_leaves(const struct mst_preempt *preempt, const struct mst_preempt_fact *fact,
                        int64_t by_ns)
{
    const struct mst_preempt_mark mark = {.revision = fact->covered, .by_ns = by_ns};
    bool leaves = fact->leave_all;

    for (const struct mst_preempt_seen *seen = mst_preempt_seen_first(preempt); seen && !leaves;
         seen = mst_preempt_seen_next(seen)) {
        bool here =
            seen->notice.index == preempt->view.index || seen->notice.index == MST_NOTICE_ALL;

        leaves = here && seen->notice.level == MST_NOTICE_CERTAIN &&
                 mst_preempt_is_up_to(preempt, seen, mark);
    }
    return leaves;
}

static void sum_certain(struct mst_preempt *preempt, const struct mst_preempt_seen *seen)
{
    struct mst_preempt_sums *sums = &preempt->sums;
    int64_t due_ns = due_of(preempt, seen);

    if (seen->revision > sums->newest) {
        sums->newest = seen->revision;
    }
    if (!preempt->still && mst_preempt_is_up_to(preempt, seen, preempt->covered)) {
        return;
    }
    if (due_ns < sums->live_ns) {
        sums->live_ns = due_ns;
    }
    if (seen->deadline_ns > sums->last_ns) {
        sums->last_ns = seen->deadline_ns;
    }
    if (spent(preempt, seen) || mst_preempt_is_up_to(preempt, seen, preempt->attempted)) {
        return;
    }
    if (!sums->eligible || seen->deadline_ns < sums->deadline_ns) {
        sums->deadline_ns = seen->deadline_ns;
        sums->due_ns = due_ns;
    }
    sums->eligible = true;
}

void mst_preempt_sum(struct mst_preempt *preempt)
{
    const struct mst_preempt_seen *best = preempt->sums.best;
    uint64_t revision = best ? best->revision : 0;

    preempt->sums = (struct mst_preempt_sums){.last_ns = INT64_MIN, .live_ns = INT64_MAX};
    for (const struct mst_preempt_seen *seen = mst_preempt_seen_first(preempt); seen;
         seen = mst_preempt_seen_next(seen)) {
        if (seen->notice.level == MST_NOTICE_CERTAIN) {
            sum_certain(preempt, seen);
        }
        if (!spent(preempt, seen) && (!preempt->sums.best || before(seen, preempt->sums.best))) {
            preempt->sums.best = seen;
        }
    }
    best = preempt->sums.best;
    if ((best ? best->revision : 0) != revision) {
        preempt->owe_noticed = true;
    }
}

/* ---- news ---- */

static void line_of_notice(struct mst_preempt *preempt, enum mst_preempt_log what, uint32_t index,
                           int64_t left_ms)
{
    bool concerned = index == preempt->view.index && preempt->view.generation > 0;

    if (concerned || preempt->view.rank == 0 || preempt->view.generation == 0) {
        struct mst_preempt_line *line = mst_preempt_line(preempt, what);

        line->index = index;
        line->left_ms = left_ms;
    }
}

static int64_t age_ns(const struct mst_item *item)
{
    uint64_t ms = item->number < MST_NOTICE_LEFT_MS_MAX ? item->number : MST_NOTICE_LEFT_MS_MAX;

    return (int64_t)(ms * NS_PER_MS);
}

/* False: there is no memory. */
static bool notice_put(struct mst_preempt *preempt, uint64_t now_ns, uint32_t index,
                       const struct mst_item *item)
{
    struct mst_preempt_seen *seen = seen_of(mst_tree_find(&preempt->notices, &index));
    struct mst_notice notice;
    int64_t left_ms, deadline_ns;

    if (seen && seen->revision == item->revision) { /* listed again: what was known is no worse */
        seen->listed = true;
        return true;
    }
    if (!mst_notice_read(item->value, &notice)) {
        line_of_notice(preempt, MST_PREEMPT_LOG_GARBAGE, index, 0);
        if (seen) {
            seen_drop(preempt, seen);
        }
        return true;
    }
    if (!seen) {
        seen = mst_mem_zalloc(&preempt->mem, sizeof(*seen));
        if (!seen) {
            return false;
        }
        seen->notice.index = index;
        (void)mst_tree_insert(&preempt->notices, &index, &seen->node);
    }
    deadline_ns = (int64_t)now_ns + (int64_t)(notice.left_ms * NS_PER_MS) - age_ns(item);
    left_ms = (deadline_ns - (int64_t)now_ns) / (int64_t)NS_PER_MS;
    seen->notice = notice;
    seen->notice.index = index;
    seen->revision = item->revision;
    seen->deadline_ns = deadline_ns;
    seen->listed = true;
    if (!spent(preempt, seen)) {
        line_of_notice(preempt, MST_PREEMPT_LOG_NOTICED, index, left_ms);
    }
    return true;
}

static void known_take(struct mst_preempt_known *known, const struct mst_preempt_name *name,
                       struct mst_slice value)
{
    struct mst_preempt_fact fact;

    known->any = true;
    known->k = name->k;
    if (name->kind == MST_PREEMPT_KEY_VERDICT && known->verdict == MST_VERDICT_NONE) {
        known->verdict = mst_verdict_read(value);
        known->floor = mst_verdict_step(value);
    } else if (name->kind == MST_PREEMPT_KEY_COMPLETE) {
        known->complete = known->complete || mst_preempt_fact_read(value, &fact);
    } else if (name->kind == MST_PREEMPT_KEY_FAILED) {
        known->failed = known->failed || mst_preempt_fact_read(value, &fact);
    }
}

static void raise(struct mst_preempt_mark *mark, uint64_t revision, int64_t by_ns)
{
    if (revision > mark->revision) {
        mark->revision = revision;
    }
    if (by_ns > mark->by_ns) {
        mark->by_ns = by_ns;
    }
}

/* Saved by all. A rank that was among them and was to leave, but has been called to the next
 * generation before it could, is still there. */
static void cover(struct mst_preempt *preempt, uint64_t generation,
                  const struct mst_preempt_fact *fact, int64_t by_ns)
{
    bool among = preempt->seated > 0 && generation >= preempt->seated;
    bool leaves = among && mst_preempt_leaves(preempt, fact, by_ns);

    if (!leaves || generation >= preempt->view.generation) {
        raise(&preempt->covered, fact->covered, by_ns);
        preempt->stays = preempt->stays && generation < preempt->view.generation;
    } else {
        preempt->stays = true;
    }
    if (!leaves) {
        raise(&preempt->stayed, fact->covered, by_ns);
    }
}

/* A key of an agreement. What it says of one that is over here is of no interest, but for what was
 * covered. */
static void agreement_take(struct mst_preempt *preempt, uint64_t now_ns,
                           const struct mst_preempt_name *name, const struct mst_item *item)
{
    struct mst_slice value = item->value;
    struct mst_preempt_fact fact;

    if (name->kind == MST_PREEMPT_KEY_COMPLETE && mst_preempt_fact_read(value, &fact)) {
        cover(preempt, name->generation, &fact, (int64_t)now_ns - age_ns(item));
    }
    if (name->generation != preempt->view.generation || name->k < preempt->k ||
        name->k == UINT64_MAX) {
        return;
    }
    if (name->k == preempt->k) {
        known_take(&preempt->now, name, value);
        return;
    }
    if (!preempt->ahead.any || name->k > preempt->ahead.k) {
        preempt->ahead = (struct mst_preempt_known){.floor = -1};
    }
    if (!preempt->ahead.any || name->k == preempt->ahead.k) {
        known_take(&preempt->ahead, name, value);
    }
}

static bool item_take(struct mst_preempt *preempt, uint64_t now_ns, const struct mst_item *item)
{
    struct mst_preempt_name name;
    struct mst_preempt_seen *seen;

    if (item->kind == MST_ITEM_RESET) {
        preempt->listing = true;
        for (seen = mst_preempt_seen_first(preempt); seen; seen = mst_preempt_seen_next(seen)) {
            seen->listed = false;
        }
        return true;
    }
    if ((item->kind != MST_ITEM_KEY && item->kind != MST_ITEM_DELETED) ||
        !mst_preempt_name_read(item->name, &name)) {
        return true;
    }
    if (name.kind != MST_PREEMPT_KEY_NOTICE) {
        if (item->kind == MST_ITEM_KEY) {
            agreement_take(preempt, now_ns, &name, item);
        }
        return true;
    }
    if (item->kind == MST_ITEM_KEY) {
        return notice_put(preempt, now_ns, name.index, item);
    }
    seen = seen_of(mst_tree_find(&preempt->notices, &name.index));
    if (seen) {
        seen_drop(preempt, seen);
    }
    return true;
}

/* What was deleted while the watch was broken. */
static void sweep(struct mst_preempt *preempt)
{
    struct mst_preempt_seen *seen = mst_preempt_seen_first(preempt);

    while (seen) {
        struct mst_preempt_seen *next = mst_preempt_seen_next(seen);

        if (!seen->listed) {
            seen_drop(preempt, seen);
        }
        seen = next;
    }
}

void mst_preempt_watched(struct mst_preempt *preempt, uint64_t now_ns,
                         const struct mst_reply *reply)
{
    bool good = reply->status == MUSTER_OK;

    preempt->watch_tag = 0;
    for (uint32_t i = 0; good && i < reply->item_count; i++) {
        good = item_take(preempt, now_ns, &reply->items[i]);
    }
    mst_preempt_sum(preempt);
    if (!good) {
        mst_follow_refused(&preempt->follow, now_ns);
        return;
    }
    mst_follow_took(&preempt->follow, reply);
    preempt->owe_watch = true;
    if (mst_follow_listed(reply) && preempt->listing) {
        preempt->listing = false;
        sweep(preempt);
        mst_preempt_sum(preempt);
    }
}
