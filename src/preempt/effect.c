/* SPDX-License-Identifier: Apache-2.0 */
/* What the preemption machine gives out, and what is always true of it. */
#include <string.h>

#include "base/digest.h"
#include "base/panic.h"
#include "base/text.h"
#include "preempt/machine.h"
#include "proto/vector.h"

/* ---- rounds ---- */

static int64_t small(uint64_t number)
{
    return number < INT64_MAX ? (int64_t)number : INT64_MAX;
}

/* A quarter of what is left at most. */
static void request_step(struct mst_preempt *preempt, struct mst_round_request *round)
{
    uint64_t most_ms = mst_preempt_left_ms(preempt, preempt->now_ns) / 4;
    uint64_t postpone_ms = mst_preempt_postpone_ms(preempt, preempt->now_ns);

    round->deadline_ms = mst_sooner(most_ms, preempt->config.agree_timeout_ms);
    round->deadline_ms = mst_later(round->deadline_ms, MST_PREEMPT_ROUND_MIN_MS);
    preempt->held = postpone_ms > 0;
    mst_vector_put(preempt->data, MST_STEP_LAST, preempt->last);
    mst_vector_put(preempt->data, MST_STEP_REVISION, small(preempt->sums.newest));
    mst_vector_put(preempt->data, MST_STEP_POSTPONE, small(postpone_ms));
    mst_vector_put(preempt->data, MST_STEP_FLOOR, preempt->floor);
    mst_vector_put(preempt->data, MST_STEP_STILL, preempt->stays);
}

static void request_save(struct mst_preempt *preempt, struct mst_round_request *round)
{
    uint64_t end_ns = mst_preempt_end_ns(preempt);
    uint64_t from_ns = preempt->now_ns + MST_PREEMPT_MARGIN_MS * NS_PER_MS;
    uint64_t left_ms = end_ns > from_ns ? (end_ns - from_ns) / NS_PER_MS : 0;
    int64_t step = preempt->cannot ? INT64_MIN : preempt->saved;

    round->deadline_ms = mst_later(left_ms, MST_PREEMPT_MARGIN_MS);
    mst_vector_put(preempt->data, MST_SAVE_STEP, step);
    mst_vector_put(preempt->data, MST_SAVE_MINUS_STEP, preempt->cannot ? step : -step);
    mst_vector_put(preempt->data, MST_SAVE_CANNOT,
                   preempt->cannot ? (int64_t)preempt->view.index + 1 : 0);
    mst_vector_put(preempt->data, MST_SAVE_LEAVE_ALL, preempt->config.leave_all);
    mst_vector_put(preempt->data, MST_SAVE_REVISION, small(preempt->sums.newest));
}

static void effect_round(struct mst_preempt *preempt)
{
    struct mst_round_request *round = &preempt->request.round;
    bool steps = preempt->state == MST_PREEMPT_STEPPING;
    bool saves = preempt->state == MST_PREEMPT_SAVING;
    const char *prefix = steps   ? MST_PREEMPT_ROUND_STEP
                         : saves ? MST_PREEMPT_ROUND_SAVE
                                 : MST_PREEMPT_ROUND_SAVED;

    mst_machine_call(&preempt->effect.head, preempt->round_tag, &preempt->request);
    preempt->request.command = MST_ROUND;
    round->generation = preempt->view.generation;
    round->name = mst_slice_of(preempt->name, mst_text_print(preempt->name, sizeof(preempt->name),
                                                             "%s%" PRIu64, prefix, preempt->k));
    round->any_deadline = true;
    round->on_loss = saves ? MST_FAIL : MST_PROCEED;
    round->reduce = steps || saves ? MST_REDUCE_MAX : MST_REDUCE_GATHER;
    round->data =
        mst_slice_of(preempt->data, steps || saves ? MST_PREEMPT_VECTOR : MST_VECTOR_ELEMENT);
    memset(preempt->data, 0, sizeof(preempt->data));
    if (steps) {
        request_step(preempt, round);
    } else if (saves) {
        request_save(preempt, round);
    } else {
        round->deadline_ms = preempt->config.agree_timeout_ms;
        mst_vector_put(preempt->data, 0, preempt->saved);
    }
}

/* ---- keys ---- */

static void effect_insert(struct mst_preempt *preempt, uint64_t tag,
                          const struct mst_preempt_name *name, struct mst_slice value)
{
    size_t size = mst_preempt_name_write(preempt->name, sizeof(preempt->name), name);

    mst_machine_call(&preempt->effect.head, tag, &preempt->request);
    preempt->write = (struct mst_write){
        .kind = MST_INSERT, .key = mst_slice_of(preempt->name, size), .value = value};
    preempt->request.command = MST_WRITE;
    preempt->request.write.ops = &preempt->write;
    preempt->request.write.count = 1;
}

static struct mst_preempt_name name_of(const struct mst_preempt *preempt, enum mst_preempt_key kind)
{
    return (struct mst_preempt_name){
        .kind = kind, .generation = preempt->view.generation, .k = preempt->k};
}

static void effect_verdict(struct mst_preempt *preempt)
{
    struct mst_preempt_name name = name_of(preempt, MST_PREEMPT_KEY_VERDICT);
    struct mst_text text = mst_text_in(preempt->value, sizeof(preempt->value));

    mst_text_add(&text, mst_verdict_word(preempt->verdict));
    if (preempt->verdict == MST_VERDICT_AGAIN && mst_preempt_chain(preempt) >= 0) {
        mst_text_format(&text, " %" PRId64, mst_preempt_chain(preempt));
    }
    effect_insert(preempt, preempt->verdict_tag, &name, mst_slice_of(text.start, text.size));
}

static void effect_fact(struct mst_preempt *preempt, uint64_t tag,
                        const struct mst_preempt_name *name, const struct mst_preempt_fact *fact)
{
    size_t size = mst_preempt_fact_write(preempt->value, sizeof(preempt->value), name->kind, fact);

    effect_insert(preempt, tag, name, mst_slice_of(preempt->value, size));
}

static void effect_note(struct mst_preempt *preempt, struct mst_preempt_note *note)
{
    note->owed = false;
    effect_fact(preempt, ++preempt->tags, &note->name, &note->fact);
}

static bool fill_request(struct mst_preempt *preempt)
{
    if (preempt->owe_round) {
        preempt->owe_round = false;
        effect_round(preempt);
    } else if (preempt->owe_verdict) {
        preempt->owe_verdict = false;
        effect_verdict(preempt);
    } else if (preempt->owe_record) {
        struct mst_preempt_name name = name_of(preempt, MST_PREEMPT_KEY_COMPLETE);

        preempt->owe_record = false;
        effect_fact(preempt, preempt->record_tag, &name, &preempt->fact);
    } else if (preempt->owe_watch) {
        preempt->owe_watch = false;
        preempt->watch_tag = ++preempt->tags;
        mst_machine_call(&preempt->effect.head, preempt->watch_tag, &preempt->request);
        preempt->request = preempt->follow.request;
    } else if (preempt->agreed_note.owed) {
        effect_note(preempt, &preempt->agreed_note);
    } else if (preempt->failed_note.owed) {
        effect_note(preempt, &preempt->failed_note);
    } else {
        return false;
    }
    return true;
}

/* ---- the shell ---- */

/* FENCED leaves the gate as it was: the next view, or the end, is on its way. */
static bool is_closed(const struct mst_preempt *preempt)
{
    return preempt->state == MST_PREEMPT_FENCED ? preempt->closed
                                                : mst_preempt_is(preempt, MST_PREEMPT_CLOSES);
}

static int64_t limit_of(const struct mst_preempt *preempt)
{
    if (preempt->state == MST_PREEMPT_FENCED) {
        return preempt->limit_told;
    }
    return mst_preempt_is(preempt, MST_PREEMPT_LIMITS) && !preempt->cannot ? preempt->agreed
                                                                           : MST_PREEMPT_NO_LIMIT;
}

static bool fill_gate(struct mst_preempt *preempt)
{
    struct mst_preempt_effect *effect = &preempt->effect;
    bool opens =
        !is_closed(preempt) && (preempt->closed || preempt->limit_told != limit_of(preempt));

    if (preempt->owe_forget || opens) {
        effect->type = MST_PREEMPT_LIMIT;
        effect->limit = limit_of(preempt);
        effect->forget = preempt->owe_forget;
        preempt->limit_told = effect->limit;
        preempt->closed = false;
        preempt->owe_forget = false;
    } else if (preempt->owe_gate) {
        preempt->owe_gate = false;
        preempt->closed = true;
        effect->type = MST_PREEMPT_GATE;
    } else {
        return false;
    }
    return true;
}

static bool fill_shell(struct mst_preempt *preempt)
{
    struct mst_preempt_effect *effect = &preempt->effect;

    if (preempt->owe_saved) {
        preempt->owe_saved = false;
        effect->type = MST_PREEMPT_SAVED;
        effect->outcome = preempt->outcome;
    } else if (preempt->line_count > 0) {
        effect->type = MST_PREEMPT_LOG;
        effect->log = preempt->lines[0];
        preempt->line_count--;
        for (uint32_t i = 0; i < preempt->line_count; i++) {
            preempt->lines[i] = preempt->lines[i + 1];
        }
    } else if (preempt->owe_noticed) {
        preempt->owe_noticed = false;
        effect->type = MST_PREEMPT_NOTICED;
    } else {
        return false;
    }
    return true;
}

const void *mst_preempt_next(void *machine)
{
    struct mst_preempt *preempt = machine;

    memset(&preempt->effect, 0, offsetof(struct mst_preempt_effect, outcome)); /* for its type */
    return fill_gate(preempt) || fill_request(preempt) || fill_shell(preempt) ? &preempt->effect
                                                                              : NULL;
}

/* ---- checks ---- */

static void check_calls(const struct mst_preempt *preempt)
{
    bool rounds = mst_preempt_is(preempt, MST_PREEMPT_ROUND);
    bool waits = preempt->round_tag != 0 || preempt->retry_ns != NEVER;

    MST_ASSERT(rounds ? waits : preempt->round_tag == 0);
    MST_ASSERT(!preempt->owe_round || preempt->round_tag != 0);
    MST_ASSERT(!preempt->owe_verdict || preempt->verdict_tag != 0);
    MST_ASSERT(!preempt->owe_record || preempt->record_tag != 0);
    MST_ASSERT(preempt->record_tag == 0 || preempt->state == MST_PREEMPT_RECORDING);
    MST_ASSERT(preempt->round_tag <= preempt->tags && preempt->verdict_tag <= preempt->tags &&
               preempt->record_tag <= preempt->tags && preempt->watch_tag <= preempt->tags);
    MST_ASSERT(preempt->state == MST_PREEMPT_ENDED || preempt->owe_watch ||
               preempt->watch_tag != 0 || preempt->follow.again_ns != NEVER);
}

void mst_preempt_check(const struct mst_preempt *preempt)
{
    bool at_hand = preempt->state != MST_PREEMPT_CALM && preempt->state != MST_PREEMPT_ENDED;
    bool agreed = mst_preempt_is(preempt, MST_PREEMPT_AGREED);

    MST_ASSERT(preempt->state < MST_PREEMPT_STATES);
    check_calls(preempt);
    MST_ASSERT(!at_hand || preempt->view.generation > 0);
    MST_ASSERT(!agreed || preempt->agreed >= 0);
    MST_ASSERT(agreed || preempt->state == MST_PREEMPT_FENCED || preempt->agreed == -1);
    MST_ASSERT(preempt->state != MST_PREEMPT_PASSED || preempt->last >= preempt->agreed);
    MST_ASSERT(preempt->state != MST_PREEMPT_DUE || preempt->last < preempt->agreed);
    MST_ASSERT(!preempt->owe_gate || preempt->state == MST_PREEMPT_CLOSING);
    MST_ASSERT(!preempt->ahead.any || preempt->ahead.k > preempt->k);
    MST_ASSERT(!preempt->now.any || preempt->now.k == preempt->k);
    MST_ASSERT(!preempt->answering || at_hand);
    MST_ASSERT(preempt->line_count <= sizeof(preempt->lines) / sizeof(preempt->lines[0]));
}

uint64_t mst_preempt_digest(const struct mst_preempt *preempt)
{
    const uint64_t numbers[] = {preempt->state,
                                preempt->view.generation,
                                preempt->k,
                                preempt->tags,
                                preempt->follow.request.watch.after,
                                preempt->notices.count,
                                preempt->sums.newest,
                                preempt->begun_ns,
                                preempt->hold_until_ns,
                                preempt->retry_ns,
                                (uint64_t)preempt->agreed,
                                (uint64_t)preempt->saved,
                                (uint64_t)preempt->outcome.status};
    uint64_t digest = MST_DIGEST_INIT;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        digest = mst_digest_number(digest, numbers[i]);
    }
    return digest;
}
