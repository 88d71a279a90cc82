/* SPDX-License-Identifier: Apache-2.0 */
#include "view/preemption.h"

/* The outcome of one agreement, collected key by key. */
struct found {
    struct mst_preempt_name name;
    struct mst_preempt_fact fact;
    enum mst_verdict verdict;
    bool there;
};

static bool is_later(const struct found *found, const struct mst_preempt_name *name)
{
    return !found->there || name->generation > found->name.generation ||
           (name->generation == found->name.generation && name->k >= found->name.k);
}

static bool is_of(const struct found *found, const struct found *agreed)
{
    return found->there && found->name.generation == agreed->name.generation &&
           found->name.k == agreed->name.k;
}

static void take_key(struct found *all, const struct mst_item *item)
{
    struct found one = {.there = true};

    if (item->kind != MST_ITEM_KEY || !mst_preempt_name_read(item->name, &one.name) ||
        one.name.kind == MST_PREEMPT_KEY_NOTICE || !is_later(&all[one.name.kind], &one.name)) {
        return;
    }
    if (one.name.kind == MST_PREEMPT_KEY_VERDICT) {
        one.verdict = mst_verdict_read(item->value);
    } else if (!mst_preempt_fact_read(item->value, &one.fact)) {
        return;
    }
    all[one.name.kind] = one;
}

static enum mst_preemption_state state_of(const struct found *all)
{
    const struct found *agreed = &all[MST_PREEMPT_KEY_AGREED];

    if (is_of(&all[MST_PREEMPT_KEY_COMPLETE], agreed)) {
        return MST_PREEMPTION_SAVED;
    }
    if (is_of(&all[MST_PREEMPT_KEY_FAILED], agreed)) {
        return MST_PREEMPTION_FAILED;
    }
    if (is_of(&all[MST_PREEMPT_KEY_VERDICT], agreed)) {
        enum mst_verdict verdict = all[MST_PREEMPT_KEY_VERDICT].verdict;

        if (verdict == MST_VERDICT_AGAIN) {
            return MST_PREEMPTION_AGAIN;
        }
        if (verdict == MST_VERDICT_WITHDRAWN) {
            return MST_PREEMPTION_WITHDRAWN;
        }
    }
    return MST_PREEMPTION_AGREED;
}

/* A rank waits in the round of saves: its name, as the members show it. */
static bool is_saver(const struct mst_item *member, const struct mst_preemption *now)
{
    struct mst_slice head = mst_slice_text(MST_PREEMPT_ROUND_SAVE);
    uint64_t k;

    return mst_slice_starts_with(member->name, head) &&
           mst_slice_number(mst_slice_from(member->name, head.size), UINT64_MAX, &k) && k == now->k;
}

static bool counts(const struct mst_item *member)
{
    return member->who.role == MST_ROLE_RANK && member->who.rank != MST_RANK_NONE;
}

void mst_preemption_of(const struct mst_status *status, struct mst_preemption *out)
{
    struct found all[MST_PREEMPT_KEYS] = {{.there = false}};
    const struct found *agreed = &all[MST_PREEMPT_KEY_AGREED];

    *out = (struct mst_preemption){.state = MST_PREEMPTION_NONE, .step = -1};
    for (size_t i = 0; i < status->preemption.count; i++) {
        take_key(all, &status->preemption.items[i]);
    }
    if (!agreed->there) {
        return;
    }
    out->state = state_of(all);
    out->generation = agreed->name.generation;
    out->k = agreed->name.k;
    out->step = agreed->fact.step;
    if (out->state == MST_PREEMPTION_SAVED) {
        out->saved = out->of = all[MST_PREEMPT_KEY_COMPLETE].fact.of;
        return;
    }
    for (size_t i = 0; i < status->members.count; i++) {
        out->of += counts(&status->members.items[i]);
        out->saved += counts(&status->members.items[i]) && is_saver(&status->members.items[i], out);
    }
}

const char *mst_preemption_word(enum mst_preemption_state state)
{
    static const char *const words[] = {
        [MST_PREEMPTION_NONE] = "none",   [MST_PREEMPTION_AGREED] = "agreed",
        [MST_PREEMPTION_AGAIN] = "again", [MST_PREEMPTION_WITHDRAWN] = "withdrawn",
        [MST_PREEMPTION_SAVED] = "saved", [MST_PREEMPTION_FAILED] = "failed",
    };

    return words[state];
}

void mst_preemption_each_notice(const struct mst_status *status,
                                void (*fn)(void *ctx, const struct mst_preemption_notice *notice),
                                void *ctx)
{
    for (size_t i = 0; i < status->preemption.count; i++) {
        const struct mst_item *item = &status->preemption.items[i];
        struct mst_preemption_notice given = {.left_ms = 0};
        uint32_t index;

        if (item->kind == MST_ITEM_KEY && mst_notice_key_read(item->name, &index) &&
            mst_notice_read(item->value, &given.notice)) {
            given.notice.index = index;
            given.left_ms = (int64_t)given.notice.left_ms - (int64_t)item->number;
            fn(ctx, &given);
        }
    }
}

void mst_preemption_each_missing(const struct mst_status *status, const struct mst_preemption *now,
                                 mst_status_missing_fn *fn, void *ctx)
{
    if (now->state != MST_PREEMPTION_AGREED) {
        return;
    }
    for (size_t i = 0; i < status->members.count; i++) {
        const struct mst_item *member = &status->members.items[i];

        if (counts(member) && !is_saver(member, now)) {
            fn(ctx, member->who.index, member);
        }
    }
}
