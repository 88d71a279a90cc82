/* SPDX-License-Identifier: Apache-2.0 */
/* The outputs of the worker's machine, and its invariants. */
#include "base/digest.h"
#include "base/panic.h"
#include "base/text.h"
#include "tasks/worker_machine.h"

/* ---- effects ---- */

static bool effect_line(struct mst_worker *worker)
{
    if (worker->line_count == 0) {
        return false;
    }
    worker->effect.type = MST_WORKER_SAY;
    worker->effect.text = mst_slice_text(worker->lines[0]);
    return true;
}

static bool effect_stop(struct mst_worker *worker)
{
    struct mst_list *node = mst_list_take(&worker->stops);
    const struct mst_worker_slot *slot;

    if (!node) {
        return false;
    }
    slot = MST_CONTAINER(node, struct mst_worker_slot, stop);
    worker->effect.type = MST_WORKER_STOP;
    worker->effect.slot = (uint32_t)(slot - worker->slots);
    worker->effect.kill = slot->killed;
    return true;
}

static bool effect_drop(struct mst_worker *worker)
{
    const struct mst_worker_value *value;

    if (mst_list_empty(&worker->drops)) {
        return false;
    }
    value = MST_CONTAINER(worker->drops.next, struct mst_worker_value, link);
    worker->effect.type = MST_WORKER_DROP;
    worker->effect.message = &value->drop;
    return true;
}

static bool effect_start(struct mst_worker *worker)
{
    struct mst_list *node = mst_list_take(&worker->starts);
    const struct mst_worker_slot *slot;

    if (!node) {
        return false;
    }
    slot = MST_CONTAINER(node, struct mst_worker_slot, start);
    worker->effect.slot = (uint32_t)(slot - worker->slots);
    if (slot->run) {
        worker->effect.type = MST_WORKER_START;
        worker->effect.message = &slot->run->message;
        if (slot->deadline_ns != NEVER) {
            worker->effect.deadline_ns = slot->deadline_ns;
        }
    } else {
        slot->value->shown = true;
        worker->effect.type = MST_WORKER_BUILD;
        worker->effect.message = &slot->value->build;
    }
    return true;
}

static bool effect_send(struct mst_worker *worker)
{
    struct mst_list *node;

    worker->effect.type = MST_WORKER_SEND;
    if (worker->owe_hello) {
        worker->owe_hello = false;
        worker->effect.message = &worker->hello;
        return true;
    }
    if (worker->link != MST_LINK_WELCOMED || !(node = mst_list_take(&worker->outbox))) {
        return false;
    }
    worker->sending = MST_CONTAINER(node, struct mst_worker_out, link);
    worker->sending_old = false;
    worker->effect.message = worker->sending->message;
    return true;
}

static bool effect_link(struct mst_worker *worker)
{
    if (worker->link == MST_LINK_CLOSING) {
        worker->link = MST_LINK_NONE;
        worker->effect.type = MST_WORKER_HANG_UP;
        worker->effect.drained = worker->end == MST_WORKER_ENDS && worker->status == MUSTER_OK;
        return true;
    }
    if (!mst_worker_may_connect(worker) || worker->now_ns < worker->retry_ns) {
        return false;
    }
    worker->link = MST_LINK_CONNECTING;
    worker->effect.type = MST_WORKER_CONNECT;
    worker->effect.address = mst_slice_of(worker->address, worker->address_size);
    return true;
}

static bool effect_end(struct mst_worker *worker)
{
    if (!mst_worker_is_over(worker)) {
        return false;
    }
    worker->ended = true;
    worker->effect.type = MST_WORKER_END;
    worker->effect.status = worker->status;
    return true;
}

const struct mst_worker_effect *mst_worker_next(struct mst_worker *worker)
{
    MST_ASSERT(!worker->out);
    worker->effect = (struct mst_worker_effect){0};
    worker->out = effect_stop(worker) || effect_drop(worker) || effect_start(worker) ||
                  effect_send(worker) || effect_link(worker) || effect_line(worker) ||
                  effect_end(worker);
    return worker->out ? &worker->effect : NULL;
}

static void sent(struct mst_worker *worker)
{
    struct mst_worker_out *out = worker->sending;

    worker->sending = NULL;
    if (out->message->type != MST_CLUSTER_RESULT) {
        mst_worker_out_done(worker, out);
    } else if (worker->sending_old) {
        mst_worker_run_free(worker, MST_CONTAINER(out, struct mst_worker_run, out));
    } else if (worker->link == MST_LINK_WELCOMED) {
        mst_worker_sent(worker, MST_CONTAINER(out, struct mst_worker_run, out));
    } else { /* the connection broke meanwhile */
        mst_list_append(worker->outbox.next, &out->link);
    }
}

void mst_worker_done(struct mst_worker *worker, const struct mst_worker_effect *effect)
{
    MST_ASSERT(worker->out && effect == &worker->effect);
    worker->out = false;
    if (worker->sending) {
        sent(worker);
    } else if (effect->type == MST_WORKER_DROP) {
        mst_worker_value_free(worker, mst_worker_value_find(worker, effect->message->value));
    } else if (effect->type == MST_WORKER_SAY) {
        worker->line_count--;
        memmove(worker->lines[0], worker->lines[1],
                (size_t)worker->line_count * MST_WORKER_LINE_ROOM);
    }
    mst_worker_advance(worker);
}

/* ---- checks ---- */

static void check_slots(const struct mst_worker *worker)
{
    uint32_t old = 0;
    uint32_t busy = 0;

    for (uint32_t i = 0; i < worker->config.slots; i++) {
        const struct mst_worker_slot *slot = &worker->slots[i];

        if (!mst_worker_slot_busy(slot)) {
            MST_ASSERT(!mst_list_linked(&slot->start) && !mst_list_linked(&slot->stop));
            MST_ASSERT(!slot->old);
            continue;
        }
        busy++;
        old += slot->old;
        MST_ASSERT(!slot->run || !slot->value);
        MST_ASSERT(!slot->run || slot->run->state == MST_RUN_BEGUN);
        MST_ASSERT(!slot->value || slot->value->state == MST_VALUE_BUILDING);
        MST_ASSERT(!mst_list_linked(&slot->start) || !mst_list_linked(&slot->stop));
        MST_ASSERT(!slot->killed || slot->why != MST_ORIGIN_NONE);
        MST_ASSERT(!slot->old || worker->clearing);
    }
    MST_ASSERT(old == worker->old);
    MST_ASSERT(busy == worker->busy);
}

/* Those that have begun are among the first `slots` that are not answered. */
static void check_queue(const struct mst_worker *worker)
{
    uint32_t place = 0;
    uint32_t sent_count = 0;
    uint64_t sent_bytes = 0;
    uint64_t kept = 0;
    size_t all = 0;

    MST_EACH(run, &worker->queue, const struct mst_worker_run, link) {
        MST_ASSERT(run->state != MST_RUN_ANSWERED);
        MST_ASSERT(run->state != MST_RUN_BEGUN || place < worker->config.slots);
        MST_ASSERT((run->state == MST_RUN_BEGUN) == (mst_worker_slot_of(worker, run) != NULL));
        place++;
        all++;
    }
    MST_EACH(out, &worker->outbox, struct mst_worker_out, link) {
        if (out->message->type == MST_CLUSTER_RESULT) {
            kept += MST_CONTAINER(out, struct mst_worker_run, out)->size;
            all++;
        } else {
            MST_ASSERT(worker->link == MST_LINK_WELCOMED);
        }
    }
    MST_EACH(out, &worker->sent, const struct mst_worker_out, link) {
        const struct mst_worker_run *run = MST_CONTAINER_CONST(out, struct mst_worker_run, out);

        MST_ASSERT(run->sent);
        kept += run->size;
        sent_bytes += run->size;
        sent_count++;
        all++;
    }
    MST_ASSERT(sent_count == worker->sent_count && sent_bytes == worker->sent_bytes);
    if (worker->sending && worker->sending->message->type == MST_CLUSTER_RESULT) {
        kept += MST_CONTAINER(worker->sending, struct mst_worker_run, out)->size;
        all++;
    }
    MST_ASSERT(all == worker->runs.count);
    MST_ASSERT(kept == worker->kept);
}

static void check_values(const struct mst_worker *worker)
{
    uint64_t users = 0;
    uint64_t used = 0;

    MST_TREE_EACH(value, &worker->values, const struct mst_worker_value, node) {
        users += value->users;
        MST_ASSERT(value->state != MST_VALUE_WAITING || value->dropped ||
                   mst_list_linked(&value->link));
        MST_ASSERT(!value->dropped || value->users > 0 || value->state == MST_VALUE_BUILDING ||
                   (value->shown && mst_list_linked(&value->link)));
    }
    for (uint32_t i = 0; i < worker->config.slots; i++) {
        used += worker->slots[i].run ? worker->slots[i].run->message.need_count : 0;
    }
    MST_ASSERT(users == used);
}

void mst_worker_check(const struct mst_worker *worker)
{
    check_slots(worker);
    check_queue(worker);
    check_values(worker);
    MST_ASSERT(!worker->clearing || worker->link == MST_LINK_NONE ||
               worker->link == MST_LINK_CLOSING);
    MST_ASSERT(!worker->owe_hello || worker->link == MST_LINK_HELLO);
    MST_ASSERT(worker->link == MST_LINK_NONE || worker->link == MST_LINK_CLOSING || worker->there);
    MST_ASSERT(!worker->ended || worker->end == MST_WORKER_ENDS);
    MST_ASSERT(worker->line_count <= MST_WORKER_LINES);
}

uint64_t mst_worker_digest(const struct mst_worker *worker)
{
    const uint64_t numbers[] = {
        worker->term,         worker->there,         (uint64_t)worker->link,
        worker->retry_ns,     worker->linger_ns,     worker->failures,
        worker->number,       worker->runs.count,    worker->busy,
        worker->values.count, worker->old,           worker->kept,
        worker->clearing,     (uint64_t)worker->end, worker->ended,
        worker->line_count,   worker->prng.state,    (uint64_t)worker->status,
        worker->results,      worker->sent_count,    worker->forgot,
    };
    uint64_t digest = MST_DIGEST_INIT;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        digest = mst_digest_number(digest, numbers[i]);
    }
    MST_TREE_EACH(run, &worker->runs, const struct mst_worker_run, node) {
        digest = mst_digest_number(digest, run->message.attempt.closure);
        digest = mst_digest_number(digest, run->message.attempt.attempt);
        digest = mst_digest_number(digest, (uint64_t)run->state);
    }
    return digest;
}
