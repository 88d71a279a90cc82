/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's machine: the inputs of its shell, and the way from term to term. */
#include "base/panic.h"
#include "base/text.h"
#include "proto/copy.h"
#include "tasks/worker_machine.h"

void mst_worker_say(struct mst_worker *worker, const char *words, uint64_t number,
                    struct mst_slice more)
{
    struct mst_text text;

    if (worker->line_count == MST_WORKER_LINES) {
        return;
    }
    text = mst_text_in(worker->lines[worker->line_count++], MST_WORKER_LINE_ROOM);
    mst_text_format(&text, "%s%" PRIu64, words, number);
    if (more.size > 0) {
        mst_text_format(&text, ": %.*s", MST_SLICE_ARGS(more));
    }
}

/* ---- new, free ---- */

/* The configuration, as the part of HELLO that stays the same. */
static bool config_copy(struct mst_worker *worker, const struct mst_worker_config *config)
{
    const struct mst_cluster_message hello = {.type = MST_CLUSTER_HELLO,
                                              .version = MST_CLUSTER_VERSION,
                                              .cluster = config->cluster,
                                              .index = config->index,
                                              .incarnation = config->incarnation,
                                              .pid = config->pid,
                                              .host = config->host,
                                              .slots = config->slots,
                                              .functions = config->functions,
                                              .function_count = config->function_count};

    worker->words =
        worker->mem.alloc(worker->mem.ctx, mst_copy_size(&mst_cluster_fields, &hello) + 1);
    if (!worker->words) {
        return false;
    }
    mst_copy(&mst_cluster_fields, &worker->hello, &hello, worker->words);
    worker->config = *config;
    worker->config.cluster = worker->hello.cluster;
    worker->config.host = worker->hello.host;
    worker->config.functions = worker->hello.functions;
    return true;
}

muster_status mst_worker_new(struct mst_worker **out, uint64_t now_ns,
                             const struct mst_worker_config *config, const struct mst_mem *mem)
{
    struct mst_worker *worker;

    if (config->slots == 0 || config->backoff_ns == 0 ||
        config->backoff_max_ns < config->backoff_ns) {
        return MUSTER_EINVAL;
    }
    worker = mst_mem_zalloc(mem, sizeof(*worker));
    if (!worker) {
        return MUSTER_ENOMEM;
    }
    worker->mem = *mem;
    worker->slots = mst_mem_array(mem, config->slots, sizeof(*worker->slots));
    if (!worker->slots || !config_copy(worker, config)) {
        mst_mem_release(mem, worker->slots);
        mst_mem_release(mem, worker);
        return MUSTER_ENOMEM;
    }
    worker->now_ns = now_ns;
    worker->prng = (struct mst_prng){.state = config->seed};
    worker->number = MST_WORKER_NONE;
    worker->linger_ns = NEVER;
    worker->draining.type = MST_CLUSTER_DRAINING;
    mst_tree_init(&worker->runs, mst_worker_run_order);
    mst_tree_init(&worker->values, mst_worker_value_order);
    mst_list_init(&worker->queue);
    mst_list_init(&worker->builds);
    mst_list_init(&worker->drops);
    mst_list_init(&worker->starts);
    mst_list_init(&worker->stops);
    mst_list_init(&worker->outbox);
    mst_list_init(&worker->sent);
    *out = worker;
    return MUSTER_OK;
}

static void outbox_clear(struct mst_worker *worker, bool results)
{
    MST_EACH(out, &worker->outbox, struct mst_worker_out, link) {
        if (out->message->type != MST_CLUSTER_RESULT) {
            mst_list_remove(&out->link);
            mst_worker_out_done(worker, out);
        } else if (results) {
            mst_worker_run_free(worker, MST_CONTAINER(out, struct mst_worker_run, out));
        }
    }
}

void mst_worker_free(struct mst_worker *worker)
{
    struct mst_mem mem;
    struct mst_tree_node *node;

    if (!worker) {
        return;
    }
    mem = worker->mem;
    outbox_clear(worker, false);
    while ((node = mst_tree_first(&worker->runs))) {
        mst_worker_run_free(worker, MST_CONTAINER(node, struct mst_worker_run, node));
    }
    while ((node = mst_tree_first(&worker->values))) {
        mst_worker_value_free(worker, MST_CONTAINER(node, struct mst_worker_value, node));
    }
    mst_mem_release(&mem, worker->hello_lists);
    mst_mem_release(&mem, worker->words);
    mst_mem_release(&mem, worker->slots);
    mst_mem_release(&mem, worker);
}

/* ---- the connection ---- */

/* Results are kept; other messages are sent again if the next connection needs them. */
static void link_break(struct mst_worker *worker, enum mst_worker_link to)
{
    uint64_t delay_ns = worker->config.backoff_ns;

    outbox_clear(worker, false);
    for (uint32_t i = 0; i < worker->failures && delay_ns < worker->config.backoff_max_ns; i++) {
        delay_ns *= 2;
    }
    delay_ns = mst_sooner(delay_ns, worker->config.backoff_max_ns);
    worker->failures++;
    worker->retry_ns =
        worker->now_ns + delay_ns / 2 + mst_prng_below(&worker->prng, delay_ns / 2 + 1);
    worker->owe_hello = false;
    worker->link = to;
    if (worker->end == MST_WORKER_DRAINS && worker->linger_ns == NEVER) {
        worker->linger_ns = mst_after_ms(worker->now_ns, MST_WORKER_LINGER_MS);
    }
    mst_worker_trim(worker);
}

void mst_worker_hang_up(struct mst_worker *worker)
{
    if (worker->link != MST_LINK_NONE && worker->link != MST_LINK_CLOSING) {
        link_break(worker, MST_LINK_CLOSING);
    }
}

void mst_worker_lie(struct mst_worker *worker, const char *what)
{
    mst_worker_say(worker, "hung up on the coordinator of term ", worker->term,
                   mst_slice_text(what));
    mst_worker_hang_up(worker);
}

bool mst_worker_may_connect(const struct mst_worker *worker)
{
    return worker->there && worker->link == MST_LINK_NONE && !worker->clearing &&
           worker->end != MST_WORKER_ENDS;
}

/* The attempts that it runs or has results of, and its values. */
static bool hello_fill(struct mst_worker *worker)
{
    size_t values = worker->values.count * sizeof(uint64_t);
    size_t size = values + worker->runs.count * sizeof(struct mst_attempt);
    const struct mst_list *results[] = {&worker->sent, &worker->outbox};
    struct mst_cluster_message *hello = &worker->hello;
    struct mst_attempt *held;
    uint64_t *list;

    mst_mem_release(&worker->mem, worker->hello_lists);
    worker->hello_lists = worker->mem.alloc(worker->mem.ctx, size + 1);
    if (!worker->hello_lists) {
        return false;
    }
    list = worker->hello_lists;
    held = (struct mst_attempt *)(void *)((char *)worker->hello_lists + values);
    hello->held = held;
    hello->held_count = 0;
    hello->values = list;
    hello->value_count = 0;
    hello->term = worker->term;
    hello->turn = ++worker->turn;
    hello->results = worker->forgot ? 0 : worker->results - worker->sent_count + 1;
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        MST_EACH(out, results[i], const struct mst_worker_out, link) {
            held[hello->held_count++] = out->message->attempt;
        }
    }
    MST_EACH(run, &worker->queue, const struct mst_worker_run, link) {
        held[hello->held_count++] = run->message.attempt;
    }
    MST_TREE_EACH(value, &worker->values, const struct mst_worker_value, node) {
        if (!value->dropped && value->state != MST_VALUE_FAILED) {
            list[hello->value_count++] = value->build.value;
        }
    }
    return true;
}

void mst_worker_connected(struct mst_worker *worker, uint64_t now_ns)
{
    worker->now_ns = now_ns;
    if (worker->link == MST_LINK_CONNECTING) {
        worker->link = MST_LINK_HELLO;
        worker->owe_hello = hello_fill(worker);
        if (!worker->owe_hello) {
            mst_worker_hang_up(worker);
        }
    }
    mst_worker_advance(worker);
}

void mst_worker_gone(struct mst_worker *worker, uint64_t now_ns)
{
    worker->now_ns = now_ns;
    if (worker->link == MST_LINK_CLOSING) {
        worker->link = MST_LINK_NONE; /* it was closed from the other side first */
    } else if (worker->link != MST_LINK_NONE) {
        if (worker->link == MST_LINK_WELCOMED) {
            mst_worker_say(worker, "the connection to the coordinator broke; runs that go on: ",
                           worker->busy, mst_slice_of(NULL, 0));
        }
        link_break(worker, MST_LINK_NONE);
    }
    mst_worker_advance(worker);
}

/* ---- terms ---- */

/* No coordinator waits for anything that is here. */
static void abandon(struct mst_worker *worker)
{
    struct mst_tree_node *next;

    mst_worker_hang_up(worker);
    outbox_clear(worker, true);
    mst_worker_send_again(worker, worker->results); /* none: all sent results are freed */
    worker->results = 0;
    worker->forgot = true;
    for (uint32_t i = 0; i < worker->config.slots; i++) {
        struct mst_worker_slot *slot = &worker->slots[i];

        if (slot->run && mst_worker_run_recall(worker, slot->run)) {
            continue; /* freed below */
        }
        if (mst_worker_slot_busy(slot) && !slot->old) {
            if (!mst_list_linked(&slot->start)) {
                mst_worker_ask(worker, slot, MST_ORIGIN_CANCELLED, worker->config.cancel_grace_ns);
            }
            slot->old = true;
            worker->old++;
        }
    }
    MST_EACH(run, &worker->queue, struct mst_worker_run, link) {
        if (run->state == MST_RUN_QUEUED) {
            mst_worker_run_free(worker, run);
        }
    }
    for (struct mst_tree_node *node = mst_tree_first(&worker->values); node; node = next) {
        next = mst_tree_next(node);
        mst_worker_value_drop(worker, MST_CONTAINER(node, struct mst_worker_value, node));
    }
    worker->sending_old = worker->sending != NULL;
    worker->clearing = true;
}

static void report_end(struct mst_worker *worker)
{
    if (worker->there) {
        mst_worker_say(worker, "a term is over; runs that are made to stop: ", worker->busy,
                       mst_slice_of(NULL, 0));
    }
}

void mst_worker_coordinator(struct mst_worker *worker, uint64_t now_ns, uint64_t term,
                            struct mst_slice address)
{
    bool newer = term > worker->term;

    worker->now_ns = now_ns;
    if (term != 0 && !newer && (term < worker->term || worker->there)) {
        return; /* outdated, or known */
    }
    if (newer || term == 0) {
        report_end(worker);
        abandon(worker);
        worker->there = false;
        worker->forgot = !newer; /* a new term has no results to forget */
    }
    if (address.size > MST_WORKER_ADDRESS_ROOM) {
        mst_worker_say(worker,
                       "the coordinator's address is longer than one can be; its term: ", term,
                       mst_slice_of(NULL, 0));
        worker->term = newer ? term : worker->term;
    } else if (term != 0) {
        worker->term = term;
        worker->there = true;
        worker->failures = 0;
        worker->retry_ns = now_ns;
        worker->address_size = address.size;
        if (address.size > 0) {
            memcpy(worker->address, address.data, address.size);
        }
    }
    mst_worker_advance(worker);
}

/* ---- the end ---- */

void mst_worker_drain(struct mst_worker *worker, uint64_t now_ns)
{
    worker->now_ns = now_ns;
    if (worker->end != MST_WORKER_LIVES) {
        return;
    }
    worker->end = MST_WORKER_DRAINS;
    if (worker->link == MST_LINK_WELCOMED) {
        mst_worker_post(worker, &worker->leaving, &worker->draining);
    } else {
        worker->linger_ns = mst_after_ms(worker->now_ns, MST_WORKER_LINGER_MS);
    }
    MST_EACH(run, &worker->queue, struct mst_worker_run, link) {
        if (mst_worker_run_recall(worker, run)) {
            mst_worker_run_end(worker, run, MST_ORIGIN_RETURNED, "the worker drains");
        }
    }
    mst_worker_advance(worker);
}

void mst_worker_ended(struct mst_worker *worker, uint64_t now_ns, muster_status status)
{
    worker->now_ns = now_ns;
    if (worker->end != MST_WORKER_ENDS) {
        worker->end = MST_WORKER_ENDS;
        worker->status = status;
        abandon(worker);
    }
    mst_worker_advance(worker);
}

/* All results are sent, or there is no coordinator to take them. */
static bool has_drained(const struct mst_worker *worker)
{
    bool empty = mst_list_empty(&worker->outbox) && !worker->sending;

    if (worker->end != MST_WORKER_DRAINS || worker->busy > 0) {
        return false;
    }
    return empty || !worker->there ||
           (worker->link != MST_LINK_WELCOMED && worker->now_ns >= worker->linger_ns);
}

bool mst_worker_is_over(const struct mst_worker *worker)
{
    return worker->end == MST_WORKER_ENDS && !worker->ended && worker->busy == 0 &&
           worker->values.count == 0 && worker->link == MST_LINK_NONE;
}

void mst_worker_advance(struct mst_worker *worker)
{
    if (has_drained(worker)) {
        worker->end = MST_WORKER_ENDS;
        worker->status = MUSTER_OK;
        abandon(worker);
    }
    if (worker->clearing && worker->old == 0 && worker->values.count == 0 &&
        worker->runs.count == 0) {
        worker->clearing = false;
    }
    mst_worker_fill(worker);
}

/* ---- time ---- */

void mst_worker_tick(struct mst_worker *worker, uint64_t now_ns)
{
    worker->now_ns = now_ns;
    mst_worker_look_at_clock(worker);
    mst_worker_advance(worker);
}

uint64_t mst_worker_deadline_ns(const struct mst_worker *worker)
{
    uint64_t deadline_ns = NEVER;

    for (uint32_t i = 0; i < worker->config.slots && worker->busy > 0; i++) {
        const struct mst_worker_slot *slot = &worker->slots[i];

        if (mst_worker_slot_busy(slot) && !slot->killed) {
            deadline_ns = mst_sooner(deadline_ns, slot->kill_ns);
            if (slot->why == MST_ORIGIN_NONE) {
                deadline_ns = mst_sooner(deadline_ns, slot->deadline_ns);
            }
        }
    }
    if (mst_worker_may_connect(worker)) {
        deadline_ns = mst_sooner(deadline_ns, worker->retry_ns);
    }
    if (worker->end == MST_WORKER_DRAINS && worker->link != MST_LINK_WELCOMED &&
        worker->busy == 0) {
        deadline_ns = mst_sooner(deadline_ns, worker->linger_ns);
    }
    return deadline_ns;
}

uint32_t mst_worker_number(const struct mst_worker *worker)
{
    return worker->number;
}
