/* SPDX-License-Identifier: Apache-2.0 */
/* What the service answers to the calls of an agreement. */
#include <string.h>

#include "base/panic.h"
#include "preempt/machine.h"
#include "proto/retry.h"
#include "proto/vector.h"

/* The reply is borrowed: its names are needed until the answer is given out. */
static void detail_keep(struct mst_preempt *preempt, const struct mst_reply *reply)
{
    preempt->has_detail = reply->has_detail && reply->detail.who_count <= MST_NAMES_MAX;
    if (!preempt->has_detail) {
        return;
    }
    memcpy(&preempt->detail, &reply->detail, offsetof(struct mst_detail, who));
    for (uint32_t i = 0; i < preempt->detail.who_count; i++) {
        preempt->detail.who[i] = reply->detail.who[i];
        preempt->detail.who[i].host =
            mst_slice_copy(preempt->hosts[i], sizeof(preempt->hosts[i]), reply->detail.who[i].host);
    }
}

/* Of an answer that has names, or savers. */
static void outcome_begin(struct mst_preempt *preempt)
{
    preempt->outcome = (struct mst_preempt_outcome){.step = -1};
    preempt->outcome.detail = preempt->has_detail ? &preempt->detail : NULL;
}

static void fail_plainly(struct mst_preempt *preempt, uint64_t now_ns, muster_status status)
{
    outcome_begin(preempt);
    mst_preempt_fail(preempt, now_ns, status);
}

/* ---- the step ---- */

/* Said by the first ranks: one of them at least is neither missing nor lost. */
static bool speaks(const struct mst_preempt *preempt)
{
    uint32_t away = preempt->has_detail ? preempt->detail.missing + preempt->detail.lost : 0;

    return preempt->view.rank <= away;
}

static void agreed_tell(struct mst_preempt *preempt, uint64_t now_ns, bool frozen)
{
    struct mst_preempt_note *note = &preempt->agreed_note;
    struct mst_preempt_line *line;

    if (!speaks(preempt)) {
        return;
    }
    note->name = (struct mst_preempt_name){
        .kind = MST_PREEMPT_KEY_AGREED, .generation = preempt->view.generation, .k = preempt->k};
    note->fact = (struct mst_preempt_fact){.step = preempt->agreed, .covered = preempt->revision};
    note->owed = true;
    line = mst_preempt_line(preempt, MST_PREEMPT_LOG_AGREED);
    line->left_ms = (int64_t)mst_preempt_left_ms(preempt, now_ns);
    if (frozen) {
        line = mst_preempt_line(preempt, MST_PREEMPT_LOG_FROZEN);
        line->detail = &preempt->detail;
    }
}

static void postpone(struct mst_preempt *preempt, uint64_t now_ns, int64_t ms)
{
    /* As it was agreed, and not as it would be here: a rank that knows less would end it at once.
     */
    uint64_t for_ms = (uint64_t)ms < MST_NOTICE_LEFT_MS_MAX ? (uint64_t)ms : MST_NOTICE_LEFT_MS_MAX;

    if (speaks(preempt)) {
        struct mst_preempt_line *line = mst_preempt_line(preempt, MST_PREEMPT_LOG_POSTPONED);

        line->left_ms = (int64_t)for_ms;
    }
    mst_preempt_move(preempt, now_ns, MST_PREEMPT_POSTPONED);
    preempt->until_ns = now_ns + for_ms * NS_PER_MS;
}

static void decided(struct mst_preempt *preempt, uint64_t now_ns, const struct mst_reply *reply)
{
    int64_t last = mst_vector_at(reply->value, MST_STEP_LAST);
    int64_t floor = mst_vector_at(reply->value, MST_STEP_FLOOR);
    int64_t postponed = mst_vector_at(reply->value, MST_STEP_POSTPONE);
    int64_t revision = mst_vector_at(reply->value, MST_STEP_REVISION);

    preempt->revision = revision > 0 ? (uint64_t)revision : 0;
    preempt->floor = floor;
    preempt->still = mst_vector_at(reply->value, MST_STEP_STILL) > 0;
    mst_preempt_sum(preempt);
    if (postponed > 0) {
        postpone(preempt, now_ns, postponed);
        return;
    }
    preempt->agreed = (last < INT64_MAX - 1 ? last : INT64_MAX - 2) + 1;
    if (preempt->agreed < floor) {
        preempt->agreed = floor;
    }
    preempt->owe_noticed = true;
    agreed_tell(preempt, now_ns,
                reply->status == MUSTER_ETIMEDOUT && preempt->has_detail &&
                    preempt->detail.missing > 0);
    if (preempt->last >= preempt->agreed) {
        (void)mst_preempt_line(preempt, MST_PREEMPT_LOG_AGAIN);
        mst_preempt_move(preempt, now_ns, MST_PREEMPT_PASSED);
    } else {
        mst_preempt_move(preempt, now_ns, MST_PREEMPT_DUE);
    }
}

/* ---- the save ---- */

static void cannot(struct mst_preempt *preempt, uint64_t now_ns, int64_t index)
{
    outcome_begin(preempt);
    preempt->outcome.saver_count = 1;
    preempt->outcome.savers_total = 1;
    preempt->outcome.savers[0] =
        (struct mst_preempt_saver){.index = (uint32_t)(index - 1), .step = INT64_MIN};
    mst_preempt_fail(preempt, now_ns, MUSTER_EFAILED);
}

static void all_saved(struct mst_preempt *preempt, uint64_t now_ns, const struct mst_reply *reply)
{
    int64_t step = mst_vector_at(reply->value, MST_SAVE_STEP);
    int64_t minus = mst_vector_at(reply->value, MST_SAVE_MINUS_STEP);
    int64_t who = mst_vector_at(reply->value, MST_SAVE_CANNOT);
    int64_t revision = mst_vector_at(reply->value, MST_SAVE_REVISION);

    if (who > 0) {
        cannot(preempt, now_ns, who);
        return;
    }
    if (step != -minus) {
        mst_preempt_move(preempt, now_ns, MST_PREEMPT_LISTING);
        return;
    }
    outcome_begin(preempt);
    preempt->fact = (struct mst_preempt_fact){
        .step = step,
        .covered = preempt->revision,
        .of = preempt->view.size,
        .leave_all = mst_vector_at(reply->value, MST_SAVE_LEAVE_ALL) > 0,
    };
    if (revision > 0 && (uint64_t)revision > preempt->fact.covered) {
        preempt->fact.covered = (uint64_t)revision;
    }
    mst_preempt_move(preempt, now_ns, MST_PREEMPT_RECORDING);
}

static void saver_add(struct mst_preempt_outcome *outcome, const struct mst_item *item,
                      uint32_t most)
{
    if (outcome->saver_count < most) {
        outcome->savers[outcome->saver_count++] = (struct mst_preempt_saver){
            .index = item->who.index, .step = mst_vector_at(item->value, 0)};
    }
}

/* Ranks that saved another step than most, or than the first of as many, come first. */
static int64_t usual_step(const struct mst_reply *reply)
{
    int64_t candidate = 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < reply->item_count; i++) {
        int64_t step;

        if (reply->items[i].value.size < 8) {
            continue;
        }
        step = mst_vector_at(reply->items[i].value, 0);
        if (count == 0) {
            candidate = step;
        }
        count = step == candidate ? count + 1 : count - 1;
    }
    return candidate;
}

static void listed(struct mst_preempt *preempt, uint64_t now_ns, const struct mst_reply *reply)
{
    struct mst_preempt_outcome *outcome = &preempt->outcome;
    int64_t usual = usual_step(reply);

    outcome_begin(preempt);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < reply->item_count; i++) {
            const struct mst_item *item = &reply->items[i];
            bool is_usual;

            if (item->value.size < 8) {
                continue;
            }
            is_usual = mst_vector_at(item->value, 0) == usual;
            outcome->savers_total += pass == 0;
            if (is_usual == (pass == 1)) {
                saver_add(outcome, item, pass == 0 ? MST_PREEMPT_SAVERS / 2 : MST_PREEMPT_SAVERS);
            }
        }
    }
    mst_preempt_fail(preempt, now_ns, MUSTER_EMISMATCH);
}

/* ---- all answers ---- */

/* The service had no room for it now; nothing was changed. */
static bool is_for_now(muster_status status)
{
    return mst_retry_helps(status) || status == MUSTER_ECANCELLED || status == MUSTER_EUNREACHABLE;
}

static void ask_again(struct mst_preempt *preempt, uint64_t now_ns)
{
    preempt->retry_ns = now_ns + MST_PREEMPT_RETRY_MS * NS_PER_MS;
}

static void reply_round(struct mst_preempt *preempt, uint64_t now_ns, const struct mst_reply *reply)
{
    bool ok = reply->status == MUSTER_OK;
    bool has_value = ok || reply->status == MUSTER_ETIMEDOUT;

    preempt->round_tag = 0;
    if (reply->status == MUSTER_EFENCED) {
        mst_preempt_move(preempt, now_ns, MST_PREEMPT_FENCED);
        return;
    }
    if (is_for_now(reply->status)) {
        ask_again(preempt, now_ns);
        return;
    }
    detail_keep(preempt, reply);
    if (!(preempt->state == MST_PREEMPT_SAVING ? ok : has_value)) {
        fail_plainly(preempt, now_ns, reply->status);
    } else if (preempt->state == MST_PREEMPT_LISTING) {
        listed(preempt, now_ns, reply);
    } else if (reply->value.size < MST_PREEMPT_VECTOR) {
        fail_plainly(preempt, now_ns, MUSTER_EPROTO);
    } else if (preempt->state == MST_PREEMPT_STEPPING) {
        decided(preempt, now_ns, reply);
    } else {
        all_saved(preempt, now_ns, reply);
    }
}

static void reply_verdict(struct mst_preempt *preempt, uint64_t now_ns,
                          const struct mst_reply *reply)
{
    preempt->verdict_tag = 0;
    if (reply->status == MUSTER_OK) {
        preempt->verdict_settled = true;
        if (preempt->now.verdict == MST_VERDICT_NONE) {
            preempt->now.any = true;
            preempt->now.verdict = preempt->verdict;
            preempt->now.floor = mst_preempt_chain(preempt);
        }
    } else if (reply->status == MUSTER_EEXISTS) {
        preempt->verdict_settled = true;
    } else if (preempt->now.verdict == MST_VERDICT_NONE) {
        ask_again(preempt, now_ns);
    }
}

static void reply_record(struct mst_preempt *preempt, uint64_t now_ns,
                         const struct mst_reply *reply)
{
    preempt->record_tag = 0;
    if (reply->status != MUSTER_OK && reply->status != MUSTER_EEXISTS) {
        ask_again(preempt, now_ns);
    }
}

void mst_preempt_reply(void *machine, uint64_t now_ns, uint64_t tag, const struct mst_reply *reply)
{
    struct mst_preempt *preempt = machine;

    if (tag == 0 || preempt->state == MST_PREEMPT_ENDED) {
        return;
    }
    if (tag == preempt->watch_tag) {
        mst_preempt_watched(preempt, now_ns, reply);
    } else if (tag == preempt->round_tag) {
        reply_round(preempt, now_ns, reply);
    } else if (tag == preempt->verdict_tag) {
        reply_verdict(preempt, now_ns, reply);
    } else if (tag == preempt->record_tag) {
        reply_record(preempt, now_ns, reply);
    }
    mst_preempt_advance(preempt, now_ns);
}
