/* SPDX-License-Identifier: Apache-2.0 */
/* Slots, and what is in them; runs, from their RUN to their RESULT. */
#include "base/panic.h"
#include "proto/copy.h"
#include "tasks/worker_machine.h"

int mst_worker_run_order(const void *key, const struct mst_tree_node *node)
{
    const struct mst_attempt *attempt = key;
    const struct mst_worker_run *run = MST_CONTAINER_CONST(node, struct mst_worker_run, node);
    int order = mst_tree_compare(attempt->closure, run->message.attempt.closure);

    return order != 0 ? order : mst_tree_compare(attempt->attempt, run->message.attempt.attempt);
}

struct mst_worker_run *mst_worker_run_find(const struct mst_worker *worker,
                                           struct mst_attempt attempt)
{
    return MST_CONTAINER_OR_NULL(mst_tree_find(&worker->runs, &attempt), struct mst_worker_run,
                                 node);
}

struct mst_worker_slot *mst_worker_slot_of(const struct mst_worker *worker,
                                           const struct mst_worker_run *run)
{
    for (uint32_t i = 0; i < worker->config.slots; i++) {
        if (worker->slots[i].run == run) {
            return &worker->slots[i];
        }
    }
    return NULL;
}

void mst_worker_post(struct mst_worker *worker, struct mst_worker_out *out,
                     const struct mst_cluster_message *message)
{
    out->message = message;
    mst_list_append(&worker->outbox, &out->link);
}

void mst_worker_out_done(struct mst_worker *worker, struct mst_worker_out *out)
{
    if (out->message->type == MST_CLUSTER_PROGRESS || out->message->type == MST_CLUSTER_LOG) {
        mst_mem_release(&worker->mem, MST_CONTAINER(out, struct mst_worker_note, out));
    }
}

/* ---- runs ---- */

bool mst_worker_run_take(struct mst_worker *worker, const struct mst_cluster_message *message)
{
    size_t size = sizeof(struct mst_worker_run) + mst_copy_size(&mst_cluster_fields, message);
    struct mst_worker_run *run = worker->mem.alloc(worker->mem.ctx, size);

    if (!run) {
        return false;
    }
    *run = (struct mst_worker_run){.size = size};
    mst_copy(&mst_cluster_fields, &run->message, message, run + 1);
    if (message->left_ms > 0) {
        run->until_ns = mst_after_ms(worker->now_ns, message->left_ms);
    }
    MST_ASSERT(mst_tree_insert(&worker->runs, &run->message.attempt, &run->node));
    mst_list_append(&worker->queue, &run->link);
    return true;
}

static uint64_t parts_size(struct mst_parts parts)
{
    uint64_t size = 0;

    for (uint32_t i = 0; i < parts.count; i++) {
        size += parts.items[i].data.size;
    }
    return size;
}

static void leave_sent(struct mst_worker *worker, struct mst_worker_run *run)
{
    if (run->sent) {
        run->sent = false;
        worker->sent_count--;
        worker->sent_bytes -= run->size;
    }
}

void mst_worker_run_free(struct mst_worker *worker, struct mst_worker_run *run)
{
    if (run->state == MST_RUN_ANSWERED) {
        worker->kept -= run->size;
    }
    leave_sent(worker, run);
    mst_tree_remove(&worker->runs, &run->node);
    mst_list_remove(&run->link);
    mst_list_remove(&run->out.link);
    mst_mem_release(&worker->mem, run->content);
    mst_mem_release(&worker->mem, run);
}

/* What does not fit into memory is an EXHAUSTED that needs none. */
size_t mst_worker_answer(struct mst_worker *worker, struct mst_cluster_message *to,
                         struct mst_cluster_message *answer, const struct mst_failure *failure,
                         void **content)
{
    size_t size;
    void *room;

    if (failure) {
        answer->failure = *failure;
        answer->failure.worker = worker->number;
        answer->failure.incarnation = worker->config.incarnation;
        answer->failure.attempt = answer->attempt.attempt;
    }
    size = mst_copy_size(&mst_cluster_fields, answer);
    room = size > 0 ? worker->mem.alloc(worker->mem.ctx, size) : NULL;
    if (size > 0 && !room) {
        answer->parts = (struct mst_parts){0};
        answer->failure.cause = NULL;
        answer->failure.state = (struct mst_slice){0};
        answer->failure.text = mst_slice_text("the worker had no memory for the result");
        if (!failure) {
            answer->failure.origin = MST_ORIGIN_EXHAUSTED;
        }
        *to = *answer;
        size = 0;
    } else {
        mst_copy(&mst_cluster_fields, to, answer, room);
    }
    mst_mem_release(&worker->mem, *content);
    *content = room;
    return size;
}

const struct mst_failure *mst_worker_judge(const struct mst_worker *worker,
                                           const struct mst_failure *failure, enum mst_origin why,
                                           struct mst_parts *parts, struct mst_failure *room)
{
    if (failure) {
        *room = *failure;
        if (why != MST_ORIGIN_NONE) {
            room->origin = why; /* however it took being asked, or made, to stop */
        } else if (room->origin == MST_ORIGIN_NONE) {
            room->origin = MST_ORIGIN_INTERNAL;
        }
        return room;
    }
    if (worker->config.result_max == 0 || parts_size(*parts) <= worker->config.result_max) {
        return NULL;
    }
    *parts = (struct mst_parts){0};
    *room =
        (struct mst_failure){.origin = MST_ORIGIN_EXHAUSTED,
                             .text = mst_slice_text("the result is larger than a message may be")};
    return room;
}

/* From RUN to RESULT. */
static void run_answer(struct mst_worker *worker, struct mst_worker_run *run,
                       const struct mst_failure *failure, struct mst_parts parts, uint64_t run_ns)
{
    struct mst_cluster_message result = {
        .type = MST_CLUSTER_RESULT,
        .attempt = run->message.attempt,
        .series = run->message.series,
        .run_ns = run_ns,
        .parts = parts,
    };

    run->size += mst_worker_answer(worker, &run->message, &result, failure, &run->content);
    run->state = MST_RUN_ANSWERED;
    worker->kept += run->size;
    mst_list_remove(&run->link);
    mst_worker_post(worker, &run->out, &run->message);
}

void mst_worker_run_end(struct mst_worker *worker, struct mst_worker_run *run,
                        enum mst_origin origin, const char *text)
{
    struct mst_failure failure = {.origin = origin, .text = mst_slice_text(text)};

    MST_ASSERT(run->state == MST_RUN_QUEUED);
    run_answer(worker, run, &failure, (struct mst_parts){0}, 0);
}

static struct mst_worker_run *run_of(struct mst_list *node)
{
    return MST_CONTAINER(MST_CONTAINER(node, struct mst_worker_out, link), struct mst_worker_run,
                         out);
}

void mst_worker_sent(struct mst_worker *worker, struct mst_worker_run *run)
{
    run->sent = true;
    worker->results++;
    worker->sent_count++;
    worker->sent_bytes += run->size;
    mst_list_append(&worker->sent, &run->out.link);
    while (worker->sent_count > MST_WORKER_SENT_MAX ||
           (worker->sent_bytes > MST_WORKER_SENT_BYTES && worker->sent_count > 1)) {
        mst_worker_run_free(worker, run_of(worker->sent.next));
    }
}

/* Puts them before the results that came since. */
void mst_worker_send_again(struct mst_worker *worker, uint64_t heard)
{
    uint64_t more = worker->results > heard ? worker->results - heard : 0;

    while (worker->sent_count > more) {
        mst_worker_run_free(worker, run_of(worker->sent.next));
    }
    while (worker->sent_count > 0) {
        struct mst_worker_run *run = run_of(worker->sent.prev);

        leave_sent(worker, run);
        mst_list_remove(&run->out.link);
        mst_list_append(worker->outbox.next, &run->out.link);
    }
    worker->results = heard;
    worker->forgot = false;
}

/* Drops the oldest results first: their closures are put back. Never one that HELLO listed. */
void mst_worker_trim(struct mst_worker *worker)
{
    uint64_t gone = 0;

    if (worker->link == MST_LINK_WELCOMED || worker->link == MST_LINK_HELLO) {
        return;
    }
    while (worker->kept > worker->config.results_max && worker->sent_count > 0) {
        mst_worker_run_free(worker, run_of(worker->sent.next));
    }
    MST_EACH(out, &worker->outbox, struct mst_worker_out, link) {
        if (worker->kept <= worker->config.results_max) {
            break;
        }
        if (out->message->type == MST_CLUSTER_RESULT) {
            mst_worker_run_free(worker, MST_CONTAINER(out, struct mst_worker_run, out));
            gone++;
        }
    }
    if (gone > 0) {
        worker->forgot = true;
        mst_worker_say(worker, "results dropped while the coordinator was away: ", gone,
                       mst_slice_of(NULL, 0));
    }
}

/* ---- slots ---- */

/* Only one of these may be in the process at a time. */
static bool is_alone(const struct mst_worker *worker, const struct mst_cluster_message *message)
{
    uint32_t any = MST_FUNCTION_THREADS | MST_FUNCTION_CHILD | MST_FUNCTION_COMMAND;

    return (worker->config.functions[message->function].flags & any) == 0;
}

static bool may_begin(const struct mst_worker *worker, const struct mst_cluster_message *message)
{
    if (worker->busy == 0 || !is_alone(worker, message)) {
        return true;
    }
    for (uint32_t i = 0; i < worker->config.slots; i++) {
        const struct mst_worker_slot *slot = &worker->slots[i];

        if ((slot->run && is_alone(worker, &slot->run->message)) ||
            (slot->value && is_alone(worker, &slot->value->build))) {
            return false;
        }
    }
    return true;
}

static struct mst_worker_slot *slot_free(const struct mst_worker *worker)
{
    for (uint32_t i = 0; i < worker->config.slots; i++) {
        if (!mst_worker_slot_busy(&worker->slots[i])) {
            return &worker->slots[i];
        }
    }
    return NULL;
}

void mst_worker_slot_clear(struct mst_worker *worker, struct mst_worker_slot *slot)
{
    mst_list_remove(&slot->start);
    mst_list_remove(&slot->stop);
    worker->busy--;
    if (slot->old) {
        worker->old--;
    }
    *slot = (struct mst_worker_slot){0};
}

static void slot_take(struct mst_worker *worker, struct mst_worker_slot *slot)
{
    worker->busy++;
    slot->deadline_ns = NEVER;
    slot->kill_ns = NEVER;
    mst_list_append(&worker->starts, &slot->start);
}

/* ---- beginning ---- */

static void needs_leave(struct mst_worker *worker, const struct mst_cluster_message *message)
{
    for (uint32_t i = 0; i < message->need_count; i++) {
        struct mst_worker_value *value = mst_worker_value_find(worker, message->needs[i]);

        value->users--;
        mst_worker_value_settle(worker, value);
    }
}

/* A need that failed is the run's failure, wrapped once however it came about, with the parts of
 * the builder's error. */
static void end_for_need(struct mst_worker *worker, struct mst_worker_run *run,
                         const struct mst_worker_value *value)
{
    static const char unknown[] = "it was dropped, or never asked for";
    struct mst_failure none = {.origin = MST_ORIGIN_INTERNAL,
                               .worker = MST_WORKER_NONE,
                               .text = mst_slice_of(unknown, sizeof(unknown) - 1)};
    struct mst_failure failure = {
        .origin = MST_ORIGIN_INPUT,
        .text = mst_slice_text("a per-worker value it needs could not be built"),
        .cause = value ? &value->built.failure : &none};

    if (value && value->built.failure.origin == MST_ORIGIN_INPUT) {
        failure = value->built.failure;
    }
    run_answer(worker, run, &failure, value ? value->built.parts : (struct mst_parts){0}, 0);
}

/* True: they are all there. False: one is being built, or the run has ended for one that failed. */
static bool needs_there(struct mst_worker *worker, struct mst_worker_run *run)
{
    bool all = true;

    for (uint32_t i = 0; i < run->message.need_count; i++) {
        const struct mst_worker_value *value = mst_worker_value_find(worker, run->message.needs[i]);

        if (!value || value->dropped || value->state == MST_VALUE_FAILED) {
            end_for_need(worker, run, value && !value->dropped ? value : NULL);
            return false;
        }
        all = all && value->state == MST_VALUE_READY;
    }
    return all;
}

static void run_begin(struct mst_worker *worker, struct mst_worker_slot *slot,
                      struct mst_worker_run *run)
{
    uint64_t limit_ms = run->message.run_limit_ms;

    slot->run = run;
    slot_take(worker, slot);
    run->state = MST_RUN_BEGUN;
    if (limit_ms > 0) {
        slot->deadline_ns = mst_after_ms(worker->now_ns, limit_ms);
    }
    if (run->until_ns > 0) {
        slot->deadline_ns = mst_sooner(slot->deadline_ns, run->until_ns);
    }
    for (uint32_t i = 0; i < run->message.need_count; i++) {
        mst_worker_value_find(worker, run->message.needs[i])->users++;
    }
}

static bool value_begin(struct mst_worker *worker, struct mst_worker_slot *slot)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): what was removed is not met again */
    MST_EACH(value, &worker->builds, struct mst_worker_value, link) {
        if (may_begin(worker, &value->build)) {
            mst_list_remove(&value->link);
            value->state = MST_VALUE_BUILDING;
            slot->value = value;
            slot_take(worker, slot);
            return true;
        }
    }
    return false;
}

/* The first run that may begin, of those that the coordinator presumes to have begun. */
static bool run_next(struct mst_worker *worker, struct mst_worker_slot *slot)
{
    uint32_t seen = 0;

    MST_EACH(run, &worker->queue, struct mst_worker_run, link) {
        if (seen >= worker->config.slots) {
            break;
        }
        if (run->state == MST_RUN_QUEUED && run->until_ns > 0 && run->until_ns <= worker->now_ns) {
            mst_worker_run_end(worker, run, MST_ORIGIN_DEADLINE, "its time was up before it began");
            continue;
        }
        if (run->state == MST_RUN_QUEUED && needs_there(worker, run) &&
            may_begin(worker, &run->message)) {
            run_begin(worker, slot, run);
            return true;
        }
        seen += run->state != MST_RUN_ANSWERED;
    }
    return false;
}

void mst_worker_fill(struct mst_worker *worker)
{
    struct mst_worker_slot *slot;

    if (worker->link != MST_LINK_WELCOMED || worker->end != MST_WORKER_LIVES) {
        return;
    }
    while (worker->busy < worker->config.slots &&
           (!mst_list_empty(&worker->builds) || !mst_list_empty(&worker->queue))) {
        slot = slot_free(worker);
        if (!value_begin(worker, slot) && !run_next(worker, slot)) {
            return;
        }
    }
}

/* Its START was not given out yet: it has not begun after all. */
bool mst_worker_run_recall(struct mst_worker *worker, struct mst_worker_run *run)
{
    struct mst_worker_slot *slot = mst_worker_slot_of(worker, run);

    if (!slot || !mst_list_linked(&slot->start)) {
        return run->state == MST_RUN_QUEUED;
    }
    mst_worker_slot_clear(worker, slot);
    run->state = MST_RUN_QUEUED;
    needs_leave(worker, &run->message);
    return true;
}

/* ---- ending ---- */

void mst_worker_ask(struct mst_worker *worker, struct mst_worker_slot *slot, enum mst_origin why,
                    uint64_t grace_ns)
{
    if (slot->why == MST_ORIGIN_NONE) {
        slot->why = why;
        mst_list_append(&worker->stops, &slot->stop);
    }
    slot->kill_ns = mst_sooner(slot->kill_ns, mst_after_ns(worker->now_ns, grace_ns));
}

static void note(struct mst_worker *worker, uint32_t slot, struct mst_cluster_message *message)
{
    const struct mst_worker_run *run = slot < worker->config.slots ? worker->slots[slot].run : NULL;
    struct mst_worker_note *note;

    if (!run || worker->slots[slot].old || worker->link != MST_LINK_WELCOMED) {
        return;
    }
    note = worker->mem.alloc(worker->mem.ctx,
                             sizeof(*note) + mst_copy_size(&mst_cluster_fields, message));
    if (!note) {
        return; /* nothing waits for it */
    }
    message->attempt = run->message.attempt;
    message->series = run->message.series;
    *note = (struct mst_worker_note){0};
    mst_copy(&mst_cluster_fields, &note->message, message, note + 1);
    mst_worker_post(worker, &note->out, &note->message);
}

/* The coordinator must know why the process of a function that does not stop is killed, or it
 * counts that as a crash: it answers with CANCEL, which shortens the wait to its grace. */
static void overdue(struct mst_worker *worker, uint32_t slot)
{
    struct mst_cluster_message message = {
        .type = MST_CLUSTER_PROGRESS, .fraction = -1, .overdue = true};
    uint64_t grace_ns = worker->config.cancel_grace_ns;

    if (worker->grace_ms > 0) {
        uint64_t end_ns = mst_after_ms(worker->now_ns, worker->grace_ms);

        grace_ns = mst_after_ms(end_ns, MST_WORKER_UNHEARD_MS) - worker->now_ns;
        note(worker, slot, &message);
    }
    mst_worker_ask(worker, &worker->slots[slot], MST_ORIGIN_DEADLINE, grace_ns);
}

static void look_at_deadline(struct mst_worker *worker, uint32_t slot)
{
    if (worker->slots[slot].deadline_ns <= worker->now_ns &&
        worker->slots[slot].why == MST_ORIGIN_NONE) {
        overdue(worker, slot);
    }
}

void mst_worker_overdue_again(struct mst_worker *worker)
{
    for (uint32_t i = 0; i < worker->config.slots && worker->busy > 0; i++) {
        if (worker->slots[i].run && worker->slots[i].why == MST_ORIGIN_DEADLINE) {
            overdue(worker, i);
        }
    }
}

void mst_worker_look_at_clock(struct mst_worker *worker)
{
    for (uint32_t i = 0; i < worker->config.slots && worker->busy > 0; i++) {
        struct mst_worker_slot *slot = &worker->slots[i];

        if (!mst_worker_slot_busy(slot)) {
            continue;
        }
        look_at_deadline(worker, i);
        if (slot->kill_ns <= worker->now_ns && !slot->killed) {
            slot->killed = true;
            mst_list_remove(&slot->stop);
            mst_list_append(&worker->stops, &slot->stop);
        }
    }
}

void mst_worker_finished(struct mst_worker *worker, uint64_t now_ns, uint32_t slot_number,
                         const struct mst_failure *failure, struct mst_parts parts, uint64_t run_ns)
{
    struct mst_worker_slot *slot = &worker->slots[slot_number];
    struct mst_worker_run *run = slot->run;
    struct mst_failure room;
    bool old = slot->old;

    MST_ASSERT(slot_number < worker->config.slots && run && !mst_list_linked(&slot->start));
    worker->now_ns = now_ns;
    if (failure) { /* the function may have seen before that its time is over */
        look_at_deadline(worker, slot_number);
    }
    failure = mst_worker_judge(worker, failure, slot->why, &parts, &room);
    mst_worker_slot_clear(worker, slot);
    needs_leave(worker, &run->message);
    if (old) {
        mst_worker_run_free(worker, run);
    } else {
        run_answer(worker, run, failure, parts, run_ns);
        mst_worker_trim(worker);
    }
    mst_worker_advance(worker);
}

/* ---- on the way ---- */

void mst_worker_progress(struct mst_worker *worker, uint64_t now_ns, uint32_t slot, double fraction,
                         struct mst_slice text)
{
    struct mst_cluster_message message = {
        .type = MST_CLUSTER_PROGRESS, .fraction = fraction, .text = text};

    worker->now_ns = now_ns;
    note(worker, slot, &message);
}

void mst_worker_log(struct mst_worker *worker, uint64_t now_ns, uint32_t slot,
                    struct mst_slice text)
{
    struct mst_cluster_message message = {.type = MST_CLUSTER_LOG, .text = text};

    worker->now_ns = now_ns;
    note(worker, slot, &message);
}
