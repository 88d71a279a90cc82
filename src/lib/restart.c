/* SPDX-License-Identifier: Apache-2.0 */
/* muster_restart_run around the restart machine: makes its calls, runs the function on the caller's
 * thread, and interrupts it from whichever thread drives the connection.
 *
 * One handle per client, made at the first run and kept with the client: the machine counts the
 * rounds of a generation through all runs in it and hears of what happens between two runs. */
#define _GNU_SOURCE
#include "muster/restart.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/panic.h"
#include "base/slice.h"
#include "io/page.h"
#include "io/poll/system.h"
#include "lib/handle.h"
#include "lib/interrupt.h"
#include "restart/restart.h"

/* At most two calls are of interest at a time; a few answers to old faults may be on their way. */
enum { CALLS_MAX = 8 };

struct restart_call {
    struct muster_restart *restart;
    struct mst_lib_post post;
    uint64_t tag;
};

struct muster_restart {
    /* Read and written by the function's threads, without the lock. */
    _Atomic uint32_t told;      /* checks say EINTERRUPTED */
    _Atomic uint32_t delivered; /* one has said it */
    _Atomic uint64_t *pings;    /* on the progress page, or `no_page` */
    _Atomic uint64_t no_page;
    struct muster_view view; /* of the function; constant while it runs */

    /* Under the client's lock. */
    muster_client *client;
    struct mst_restart *machine;
    struct restart_call calls[CALLS_MAX];
    bool busy;   /* a run is in progress, on interrupt.thread */
    bool inside; /* and the function runs */
    bool cut;    /* its blocking calls were cut short */
    bool owe_enter;
    struct mst_view entry;
    uint64_t iteration;
    bool finished;
    muster_status status;
    struct muster_error error;
    struct mst_interrupt interrupt;
};

/* --- the machine's effects, with the lock held on any thread --- */

static void drain(struct muster_restart *restart);

static void call_complete(void *ctx, const struct mst_reply *reply)
{
    struct restart_call *call = ctx;
    struct muster_restart *restart = call->restart;
    uint64_t tag = call->tag;

    call->tag = 0;
    mst_restart_reply(restart->machine, mst_lib_now_ns(), tag, reply);
    drain(restart);
}

static struct restart_call *call_find(struct muster_restart *restart, uint64_t tag)
{
    for (size_t i = 0; i < CALLS_MAX; i++) {
        if (restart->calls[i].tag == tag) {
            return &restart->calls[i];
        }
    }
    return NULL;
}

/* A call that cannot be made is answered here. */
static void effect_request(struct muster_restart *restart, const struct mst_request *request,
                           uint64_t tag, struct mst_reply *refusal)
{
    struct restart_call *call = call_find(restart, 0);

    refusal->command = request->command;
    if (!call) {
        refusal->status = MUSTER_ELIMIT;
        return;
    }
    call->tag = tag;
    call->restart = restart;
    call->post = (struct mst_lib_post){.complete = call_complete, .ctx = call};
    refusal->status = mst_lib_post(restart->client, request, UINT64_MAX, &call->post);
    if (refusal->status) {
        call->tag = 0;
    }
}

static void effect_cancel(struct muster_restart *restart, uint64_t tag)
{
    struct restart_call *call = call_find(restart, tag);

    if (call) {
        mst_lib_post_cancel(restart->client, &call->post);
    }
}

static void effect_enter(struct muster_restart *restart, const struct mst_restart_effect *effect)
{
    restart->owe_enter = true;
    restart->entry = effect->view;
    restart->iteration = effect->iteration;
    restart->cut = false;
    atomic_store_explicit(&restart->told, 0, memory_order_relaxed);
    atomic_store_explicit(&restart->delivered, 0, memory_order_relaxed);
}

static void effect_finish(struct muster_restart *restart, const struct mst_restart_effect *effect)
{
    static const char what[] = "run the function again";

    restart->finished = true;
    restart->status = effect->status;
    if (effect->status >= 0) {
        return;
    }
    if (!effect->reply && effect->status == mst_lib_status(restart->client)) {
        (void)mst_lib_fail_again(restart->client, &restart->error, what);
    } else {
        (void)mst_lib_fail(&restart->error, effect->status, what, effect->reply);
    }
}

/* Returns the tag of a call that was refused at once, whose refusal is owed to the machine; or 0.
 */
static uint64_t effect_carry(struct muster_restart *restart,
                             const struct mst_restart_effect *effect, struct mst_reply *refusal)
{
    switch (effect->type) {
    case MST_RESTART_REQUEST:
        effect_request(restart, effect->request, effect->tag, refusal);
        return refusal->status ? effect->tag : 0;
    case MST_RESTART_CANCEL:
        effect_cancel(restart, effect->tag);
        break;
    case MST_RESTART_ENTER:
        effect_enter(restart, effect);
        break;
    case MST_RESTART_TELL:
        atomic_store_explicit(&restart->told, 1, memory_order_release);
        break;
    case MST_RESTART_INTERRUPT:
        restart->cut = true;
        mst_lib_interrupt(restart->client, true);
        if (restart->inside) {
            mst_interrupt_send(&restart->interrupt);
        }
        break;
    case MST_RESTART_FINISH:
        effect_finish(restart, effect);
        break;
    }
    return 0;
}

static void drain(struct muster_restart *restart)
{
    const struct mst_restart_effect *effect;

    while ((effect = mst_restart_next(restart->machine)) != NULL) {
        struct mst_reply refusal = {0};
        uint64_t refused = effect_carry(restart, effect, &refusal);

        mst_restart_done(restart->machine, effect);
        if (refused != 0) {
            mst_restart_reply(restart->machine, mst_lib_now_ns(), refused, &refusal);
        }
    }
}

/* --- the hook in the client, with the lock held --- */

static void hook_attention(void *ctx, uint64_t now_ns, const struct mst_view *view, bool stopped)
{
    struct muster_restart *restart = ctx;

    mst_restart_attention(restart->machine, now_ns, view, stopped);
    drain(restart);
}

static void hook_ended(void *ctx, uint64_t now_ns, muster_status status)
{
    struct muster_restart *restart = ctx;

    mst_restart_ended(restart->machine, now_ns, status);
    drain(restart);
}

static uint64_t hook_deadline_ns(void *ctx)
{
    const struct muster_restart *restart = ctx;

    return mst_restart_deadline_ns(restart->machine);
}

static void hook_tick(void *ctx, uint64_t now_ns)
{
    struct muster_restart *restart = ctx;

    mst_restart_tick(restart->machine, now_ns);
    drain(restart);
}

/* The function must stop: nobody renews the lease any more. Its run ends when it has returned. */
static void hook_poisoned(void *ctx)
{
    struct muster_restart *restart = ctx;

    atomic_store_explicit(&restart->told, 1, memory_order_release);
    if (restart->inside) {
        mst_interrupt_send(&restart->interrupt);
    }
}

static void handle_free(void *ctx)
{
    struct muster_restart *restart = ctx;

    mst_restart_free(restart->machine);
    free(restart);
}

/* --- a run --- */

struct run_settings {
    struct mst_restart_config config;
    int signal; /* 0: none */
};

static muster_status settings_read(struct run_settings *out,
                                   const struct muster_restart_options *given,
                                   struct muster_error *err)
{
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    muster_status status = mst_lib_options(&options, sizeof(options), given,
                                           "MUSTER_RESTART_OPTIONS_INIT", err, "run");
    int64_t number;

    if (status) {
        return status;
    }
    status = options.barrier_timeout_ms == 0
                 ? mst_lib_setting("barrier_timeout", &options.barrier_timeout_ms, NULL, err)
                 : mst_lib_setting_check("barrier_timeout", options.barrier_timeout_ms, err);
    if (status) {
        return status;
    }
    out->config.barrier_timeout_ms = (uint64_t)options.barrier_timeout_ms;
    out->signal = options.interrupt_signal < 0 ? 0 : options.interrupt_signal;
    if (options.interrupt_signal == 0) {
        status = mst_lib_setting("interrupt_signal", &number, NULL, err);
        if (status) {
            return status;
        }
        out->signal = number < 0 ? mst_interrupt_standard() : (int)number;
    }
    return MUSTER_OK;
}

/* The client's handle, made if this is the first run. With the lock. */
static struct muster_restart *handle_get(muster_client *client,
                                         const struct mst_restart_config *config)
{
    struct muster_restart *restart = mst_lib_hook_ctx(client);
    struct mst_page *page = mst_lib_page(client);
    struct mst_lib_hook hook = {.attention = hook_attention,
                                .ended = hook_ended,
                                .deadline_ns = hook_deadline_ns,
                                .tick = hook_tick,
                                .poisoned = hook_poisoned,
                                .release = handle_free};

    if (restart) {
        return restart;
    }
    restart = calloc(1, sizeof(*restart));
    if (!restart) {
        return NULL;
    }
    if (mst_restart_new(&restart->machine, config, &mst_system_mem)) {
        free(restart);
        return NULL;
    }
    restart->client = client;
    restart->pings = page ? &page->pings : &restart->no_page;
    hook.ctx = restart;
    mst_lib_hook(client, &hook);
    return restart;
}

/* With the lock. */
static muster_status run_refuse(muster_client *client, struct muster_error *err)
{
    const struct muster_restart *restart = mst_lib_hook_ctx(client);
    const struct mst_view *view = mst_lib_view(client);
    muster_status status = mst_lib_status(client);

    if (restart && restart->busy) {
        return pthread_equal(restart->interrupt.thread, pthread_self())
                   ? mst_lib_fail(err, MUSTER_EDEADLK, "run: called from within the function", NULL)
                   : mst_lib_refuse(err, "run", "another thread runs one on this client");
    }
    if (status) {
        return mst_lib_fail_again(client, err, "run");
    }
    if (view->generation == 0 || view->rank == MST_RANK_NONE) {
        return mst_lib_refuse(err, "run", "this client is not a rank of the job");
    }
    return MUSTER_OK;
}

/* With the lock: takes the run for this thread. NULL: refused with `status`. */
static struct muster_restart *run_begin(muster_client *client, const struct run_settings *settings,
                                        muster_status *status, struct muster_error *err)
{
    struct muster_restart *restart;

    *status = run_refuse(client, err);
    if (*status) {
        return NULL;
    }
    restart = handle_get(client, &settings->config);
    if (!restart || mst_restart_configure(restart->machine, &settings->config)) {
        *status = mst_lib_fail(err, MUSTER_ENOMEM, "run", NULL);
        return NULL;
    }
    *status = mst_interrupt_arm(&restart->interrupt, settings->signal, err);
    if (*status) {
        return NULL;
    }
    mst_lib_keep(client);
    restart->busy = true;
    restart->finished = false;
    restart->owe_enter = false;
    restart->status = MUSTER_OK;
    restart->error = (struct muster_error){0};
    mst_restart_attention(restart->machine, mst_lib_now_ns(), mst_lib_view(client),
                          mst_lib_stopped(client));
    mst_restart_start(restart->machine, mst_lib_now_ns(), mst_lib_view(client));
    drain(restart);
    return restart;
}

static bool run_ready(void *ctx)
{
    const struct muster_restart *restart = ctx;

    return restart->owe_enter || restart->finished;
}

/* The machine cannot be asked any more. With the lock. */
static void run_poisoned(struct muster_restart *restart)
{
    restart->finished = true;
    restart->status = mst_lib_fail(&restart->error, MUSTER_EINTERNAL, "run", NULL);
}

/* The function, once. With the lock, which is not held while it runs. */
static void run_enter(struct muster_restart *restart, muster_restart_fn *fn, void *arg)
{
    struct mst_page *page = mst_lib_page(restart->client);
    muster_status status;
    bool delivered;

    restart->owe_enter = false;
    restart->inside = true;
    mst_lib_iteration(restart->client, restart->iteration);
    restart->view = (struct muster_view){.generation = restart->entry.generation,
                                         .incarnation = restart->entry.incarnation,
                                         .iteration = restart->iteration,
                                         .rank = restart->entry.rank,
                                         .size = restart->entry.size,
                                         .index = restart->entry.index};
    if (page) {
        atomic_store_explicit(&page->generation, restart->entry.generation, memory_order_relaxed);
        atomic_fetch_add_explicit(&page->entered, 1, memory_order_relaxed);
    }
    mst_lib_unlock(restart->client);
    status = fn(restart, arg);
    mst_lib_lock(restart->client);
    restart->inside = false;
    mst_lib_interrupt(restart->client, false);
    if (restart->client->poisoned) {
        run_poisoned(restart);
        return;
    }
    /* A call of muster that was cut short has said EINTERRUPTED as well. */
    delivered =
        atomic_load_explicit(&restart->delivered, memory_order_relaxed) != 0 || restart->cut;
    mst_restart_returned(restart->machine, mst_lib_now_ns(), status, delivered);
    drain(restart);
}

/* With the lock: the run is over, nothing it asked for may call back into the next one. */
static void run_end(struct muster_restart *restart)
{
    for (size_t i = 0; i < CALLS_MAX && !restart->client->poisoned; i++) {
        if (restart->calls[i].tag != 0) {
            mst_lib_post_drop(restart->client, &restart->calls[i].post);
            restart->calls[i].tag = 0;
        }
    }
    restart->busy = false;
    mst_lib_let_go(restart->client);
}

muster_status muster_restart_run(muster_client *client,
                                 const struct muster_restart_options *options,
                                 muster_restart_fn *fn, void *arg, struct muster_error *err)
{
    struct muster_restart *restart;
    struct run_settings settings = {0};
    struct mst_interrupt interrupt;
    muster_status status = mst_lib_enter(client, err, "run");

    if (status) {
        return status;
    }
    if (!fn) {
        return mst_lib_refuse(err, "run", "fn is NULL");
    }
    status = settings_read(&settings, options, err);
    if (status) {
        return status;
    }
    mst_lib_lock(client);
    restart = run_begin(client, &settings, &status, err);
    if (!restart) {
        mst_lib_unlock(client);
        return status;
    }
    while (!restart->finished) {
        if (restart->owe_enter) {
            run_enter(restart, fn, arg);
            continue;
        }
        (void)mst_lib_wait(client, run_ready, restart, UINT64_MAX);
        if (!run_ready(restart)) {
            run_poisoned(restart);
        }
    }
    run_end(restart);
    status = restart->status;
    if (status < 0 && err) {
        *err = restart->error;
    }
    interrupt = restart->interrupt;
    mst_lib_unlock(client);
    mst_interrupt_disarm(&interrupt);
    return status;
}

/* --- for the function --- */

void muster_restart_view(muster_restart *restart, struct muster_view *out)
{
    *out = restart->view;
}

muster_status muster_restart_check(muster_restart *restart)
{
    if (atomic_load_explicit(&restart->told, memory_order_acquire) == 0) {
        return MUSTER_OK;
    }
    atomic_store_explicit(&restart->delivered, 1, memory_order_relaxed);
    return MUSTER_EINTERRUPTED;
}

muster_status muster_restart_ping(muster_restart *restart)
{
    /* Not one atomic addition: two threads that ping at once may count once, which is progress as
     * well, and costs a nanosecond instead of a locked bus. */
    atomic_store_explicit(restart->pings,
                          atomic_load_explicit(restart->pings, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    return muster_restart_check(restart);
}

/* Whether this is the thread in which the function runs, and the machine can be told. With the
 * lock. */
static bool is_functions(const struct muster_restart *restart)
{
    return restart->inside && pthread_equal(restart->interrupt.thread, pthread_self()) &&
           !restart->client->poisoned;
}

/* The function's own word; it is to return `status`. */
static muster_status report(muster_restart *restart, int code, const char *text,
                            muster_status status)
{
    muster_status refused = mst_lib_enter(restart->client, NULL, "report");

    if (refused) { /* in a forked child above all, whose words would be the parent's */
        return refused;
    }
    mst_lib_lock(restart->client);
    if (is_functions(restart)) {
        mst_restart_failed(restart->machine, mst_lib_now_ns(), code, mst_slice_text(text));
        drain(restart);
    } else {
        status = MUSTER_EINVAL;
    }
    mst_lib_unlock(restart->client);
    return status;
}

muster_status muster_restart_fail(muster_restart *restart, int code, const char *text)
{
    return report(restart, code, text ? text : "", MUSTER_EFAILED);
}

muster_status muster_restart_again(muster_restart *restart)
{
    return report(restart, 0, "asked for a restart", MUSTER_EINTERRUPTED);
}

muster_status muster_restart_leave(muster_restart *restart)
{
    muster_status status = mst_lib_enter(restart->client, NULL, "leave");

    if (status) {
        return status;
    }
    status = MUSTER_EINVAL;
    mst_lib_lock(restart->client);
    if (is_functions(restart)) {
        mst_restart_left(restart->machine, mst_lib_now_ns());
        status = MUSTER_OK;
    }
    mst_lib_unlock(restart->client);
    return status;
}
