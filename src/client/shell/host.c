/* SPDX-License-Identifier: Apache-2.0 */
#include "client/shell/host.h"

#include "client/shell/handle.h"

#define NAMES_NS NS_PER_S

static void look(struct mst_machine_host *host, uint64_t now_ns)
{
    if (host->shell->look) {
        host->shell->look(host, now_ns);
    }
}

/* ---- calls ---- */

static struct mst_host_call *call_find(struct mst_machine_host *host, uint64_t tag)
{
    for (size_t i = 0; i < MST_HOST_CALLS_MAX; i++) {
        if (host->calls[i].tag == tag) {
            return &host->calls[i];
        }
    }
    return NULL;
}

static void give(struct mst_machine_host *host, uint64_t tag, const struct mst_reply *reply)
{
    uint64_t now_ns = mst_lib_now_ns();

    look(host, now_ns);
    host->shell->kind->reply(host->machine, now_ns, tag, reply);
}

static void call_complete(void *ctx, const struct mst_reply *reply)
{
    struct mst_host_call *call = ctx;
    struct mst_machine_host *host = call->host;
    uint64_t tag = call->tag;

    call->tag = 0;
    if (host->silent) {
        return;
    }
    if (host->asks && call->command == MST_ROUND) {
        host->asks = false;
        host->named = reply->status == MUSTER_ECANCELLED && reply->has_detail;
        if (host->named) {
            host->shell->named(host, reply);
        }
    }
    give(host, tag, reply);
    mst_host_drain(host);
}

/* Not OK: the call cannot be made, and the machine gets that as its reply. */
static muster_status call_make(struct mst_machine_host *host,
                               const struct mst_machine_effect *effect)
{
    struct mst_host_call *call;
    muster_status status;

    if (host->shell->calls) {
        host->shell->calls(host);
    }
    call = call_find(host, 0);
    if (!call) {
        return MUSTER_ELIMIT;
    }
    *call = (struct mst_host_call){.host = host,
                                   .post = {.complete = call_complete, .ctx = call},
                                   .command = effect->request->command};
    status = mst_lib_post(host->client, effect->request, NEVER, &call->post);
    call->tag = status == MUSTER_OK ? effect->tag : 0;
    return status;
}

bool mst_host_cancel(struct mst_machine_host *host, enum mst_command command)
{
    bool any = false;

    for (size_t i = 0; i < MST_HOST_CALLS_MAX; i++) {
        struct mst_host_call *call = &host->calls[i];

        if (call->tag != 0 && call->command == command) {
            any = true;
            mst_lib_post_cancel(host->client, &call->post);
        }
    }
    return any;
}

void mst_host_ask_names(struct mst_machine_host *host)
{
    host->named = false;
    host->asks = mst_host_cancel(host, MST_ROUND);
}

struct names_wait {
    const struct mst_machine_host *host;
    bool (*over)(void *ctx);
    void *ctx;
};

static bool names_ready(void *ctx)
{
    const struct names_wait *wait = ctx;

    return !wait->host->asks || wait->over(wait->ctx);
}

bool mst_host_wait_names(struct mst_machine_host *host, bool (*over)(void *ctx), void *ctx)
{
    struct names_wait wait = {.host = host, .over = over, .ctx = ctx};

    mst_host_ask_names(host);
    (void)mst_lib_wait_interruptible(host->client, names_ready, &wait, mst_lib_now_ns() + NAMES_NS);
    return host->named;
}

void mst_host_drop(struct mst_machine_host *host)
{
    host->asks = false;
    for (size_t i = 0; i < MST_HOST_CALLS_MAX && !host->client->poisoned; i++) {
        if (host->calls[i].tag != 0) {
            mst_lib_post_drop(host->client, &host->calls[i].post);
            host->calls[i].tag = 0;
        }
    }
}

/* ---- effects ---- */

/* Afterwards the machine gets a refusal, which it may borrow, or the answer of its shell. */
static bool carry_out(struct mst_machine_host *host, const struct mst_machine_effect *effect,
                      struct mst_reply *refusal)
{
    uint64_t tag = effect->tag;
    struct mst_host_call *call;
    bool answers = false;

    refusal->status = MUSTER_OK;
    switch (effect->kind) {
    case MST_MACHINE_CALL:
        refusal->command = effect->request->command;
        refusal->status = call_make(host, effect);
        break;
    case MST_MACHINE_CANCEL:
        call = call_find(host, tag);
        if (call) { /* else it is over already */
            mst_lib_post_cancel(host->client, &call->post);
        }
        break;
    case MST_MACHINE_OWN:
        answers = host->shell->own(host, effect);
        break;
    }
    if (refusal->status) {
        give(host, tag, refusal);
    }
    return !answers || host->shell->answer(host);
}

/* The effects of an input that is made while an effect is carried out are drained by the outer
 * loop. */
void mst_host_drain(struct mst_machine_host *host)
{
    const struct mst_machine_effect *effect;
    struct mst_reply refusal = {0};

    if (host->draining) {
        return;
    }
    host->draining = true;
    while ((effect = host->shell->kind->next(host->machine)) != NULL) {
        if (!carry_out(host, effect, &refusal)) {
            return;
        }
    }
    host->draining = false;
}

/* ---- the hook ---- */

static void hook_attention(void *ctx, uint64_t now_ns, const struct mst_view *view, bool stopped)
{
    struct mst_machine_host *host = ctx;

    if (!host->silent) {
        look(host, now_ns);
        if (host->shell->kind->attention) {
            host->shell->kind->attention(host->machine, now_ns, view, stopped);
        }
        mst_host_drain(host);
    }
}

void mst_host_ended(void *ctx, uint64_t now_ns, muster_status status)
{
    struct mst_machine_host *host = ctx;

    if (!host->silent) {
        look(host, now_ns);
        if (host->shell->kind->ended) {
            host->shell->kind->ended(host->machine, now_ns, status);
        }
        mst_host_drain(host);
    }
}

static uint64_t hook_deadline_ns(void *ctx)
{
    const struct mst_machine_host *host = ctx;

    return host->silent ? NEVER : host->shell->kind->deadline_ns(host->machine);
}

static void hook_tick(void *ctx, uint64_t now_ns)
{
    struct mst_machine_host *host = ctx;

    if (!host->silent) {
        look(host, now_ns);
        host->shell->kind->tick(host->machine, now_ns);
        mst_host_drain(host);
    }
}

struct mst_lib_hook mst_host_hook(struct mst_machine_host *host)
{
    return (struct mst_lib_hook){.attention = hook_attention,
                                 .ended = mst_host_ended,
                                 .deadline_ns = hook_deadline_ns,
                                 .tick = hook_tick,
                                 .ctx = host};
}
