/* SPDX-License-Identifier: Apache-2.0 */
/* What the program calls. Where it costs nanoseconds there is no lock and no locked addition. */
#define _GNU_SOURCE
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"
#include "preempt/shell/preempt.h"

enum { HOLDS_LIMIT_MS_MAX = 86400000 };

/* ---- reached ---- */

static bool is_open(void *ctx)
{
    const struct muster_preempt *preempt = ctx;

    return !preempt->closed || preempt->ended;
}

static enum muster_reach answer(const struct muster_preempt *preempt, int64_t step)
{
    if (preempt->ended || preempt->closed || mst_lib_interrupted(preempt->client) ||
        mst_lib_status(preempt->client)) {
        return MUSTER_STOP; /* `closed`: the wait was cut short */
    }
    if (preempt->opened_limit == MST_GATE_OPEN) {
        return MUSTER_GO_ON; /* also of the one step that is not below it */
    }
    return step < preempt->opened_limit ? MUSTER_GO_ON : MUSTER_SAVE_NOW;
}

/* The gate is closed, a save is due, or this member is to stop. */
static enum muster_reach ask(struct muster_preempt *preempt, int64_t step)
{
    muster_client *client = preempt->client;
    enum muster_reach reach = MUSTER_STOP;

    if (!client || client->pid != getpid() || client->poisoned || mst_lib_holds(client)) {
        return MUSTER_STOP;
    }
    mst_lib_lock(client);
    if (!preempt->ended) {
        mst_preempt_waiting(preempt->host.machine, mst_lib_now_ns());
        mst_host_drain(&preempt->host);
        (void)mst_lib_wait_interruptible(client, is_open, preempt, UINT64_MAX);
        if (!client->poisoned) {
            atomic_store(&preempt->last, step); /* a new generation may have forgotten it */
            reach = answer(preempt, step);
        }
    }
    mst_lib_unlock(client);
    return reach;
}

enum muster_reach muster_preempt_reached(muster_preempt *preempt, int64_t step)
{
    _Atomic uint64_t *checks;

    if (!preempt) {
        return MUSTER_STOP;
    }
    if (step < 0) {
        return MUSTER_GO_ON;
    }
    checks = atomic_load_explicit(&preempt->checks, memory_order_relaxed);
    if (preempt->exchanges) {
        (void)atomic_exchange(&preempt->last, step);
    } else {
        atomic_store_explicit(&preempt->last, step, memory_order_relaxed);
        atomic_signal_fence(
            memory_order_seq_cst); /* the other side does the rest as it closes the gate */
    }
    if (step >= atomic_load_explicit(&preempt->limit, memory_order_relaxed)) {
        return ask(preempt, step);
    }
    atomic_store_explicit(checks, atomic_load_explicit(checks, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    return MUSTER_GO_ON;
}

/* ---- saved ---- */

static bool is_saved(void *ctx)
{
    const struct muster_preempt *preempt = ctx;

    return preempt->has_outcome || preempt->ended;
}

/* Lock held. The wait is over without an answer. */
static muster_status unanswered(struct muster_preempt *preempt, const char *what,
                                struct muster_error *err)
{
    muster_client *client = preempt->client;
    muster_status status = mst_lib_status(client);

    if (client->interrupted) {
        return mst_lib_fail(err, MUSTER_EINTERRUPTED, what, NULL);
    }
    if (status) {
        return mst_lib_fail_again(client, err, what);
    }
    (void)mst_lib_fail(err, MUSTER_ETIMEDOUT, what, NULL);
    if (preempt->host.named && err) {
        *err = preempt->error;
    }
    return MUSTER_ETIMEDOUT;
}

/* Lock held. */
static muster_status save(struct muster_preempt *preempt, int64_t step, uint64_t deadline_ns,
                          const char *what, struct muster_error *err)
{
    muster_client *client = preempt->client;

    preempt->has_outcome = preempt->host.named = false;
    preempt->saved_step = step;
    mst_preempt_saved(preempt->host.machine, mst_lib_now_ns(), step);
    mst_host_drain(&preempt->host);
    if (!mst_lib_wait_interruptible(client, is_saved, preempt, deadline_ns) && err &&
        client->was_online) { /* for its text the service is asked who is missing */
        (void)mst_host_wait_names(&preempt->host, is_saved, preempt);
        preempt->host.asks = false;
    }
    if (client->poisoned || !preempt->has_outcome) {
        return unanswered(preempt, what, err);
    }
    if (preempt->error.status && err) {
        *err = preempt->error;
    }
    return preempt->error.status;
}

/* Lock held. */
static muster_status refuse_save(struct muster_preempt *preempt, int64_t step, const char *what,
                                 struct muster_error *err)
{
    muster_client *client = preempt->client;

    if (step < 0) {
        return mst_lib_refuse(err, what, "a step is not below 0");
    }
    if (preempt->saver) {
        return mst_lib_refuse(err, what, "another thread waits for a save already");
    }
    if (mst_lib_status(client)) {
        return mst_lib_fail_again(client, err, what);
    }
    return client->interrupted ? mst_lib_fail(err, MUSTER_EINTERRUPTED, what, NULL) : MUSTER_OK;
}

muster_status muster_preempt_saved(muster_preempt *preempt, int64_t step, int64_t timeout_ms,
                                   struct muster_error *err)
{
    char what[MST_LIB_WHAT_ROOM];
    muster_client *client;
    muster_status status;

    mst_preempt_describe(what, step);
    if (!preempt) {
        return mst_lib_refuse(err, what, "the handle is NULL");
    }
    client = preempt->client;
    status = mst_preempt_enter(client, err, what);
    if (status) {
        return status;
    }
    mst_lib_lock(client);
    status = refuse_save(preempt, step, what, err);
    if (status == MUSTER_OK) {
        uint64_t zero_ns = mst_client_lease_ns(mst_lib_machine(client));

        mst_lib_keep(client);
        preempt->saver = true;
        status = save(preempt, step, mst_lib_deadline_ns(timeout_ms, zero_ns), what, err);
        preempt->saver = false;
        mst_lib_let_go(client);
    }
    mst_lib_unlock(client);
    return status;
}

/* ---- "cannot save now" ---- */

static muster_status hold(muster_preempt *preempt, bool begin, int64_t limit_ms)
{
    muster_client *client = preempt ? preempt->client : NULL;
    muster_status status = preempt ? mst_lib_enter(client, NULL, "hold") : MUSTER_EINVAL;

    if (status) {
        return status;
    }
    mst_lib_lock(client);
    if (preempt->ended) {
        status = MUSTER_OK; /* the next `reached` says STOP */
    } else if (begin && preempt->holds == MST_PREEMPT_HOLDS_MAX) {
        status = MUSTER_ELIMIT;
    } else if (!begin && preempt->holds == 0) {
        status = MUSTER_EINVAL;
    } else if (begin) {
        preempt->holds++;
        mst_preempt_hold_begin(preempt->host.machine, mst_lib_now_ns(), (uint64_t)limit_ms);
        mst_host_drain(&preempt->host);
    } else {
        preempt->holds--;
        mst_preempt_hold_end(preempt->host.machine, mst_lib_now_ns());
        mst_host_drain(&preempt->host);
    }
    client->dirty = true; /* its deadlines */
    mst_lib_unlock(client);
    return status;
}

muster_status muster_preempt_hold_begin(muster_preempt *preempt, int64_t limit_ms)
{
    if (limit_ms < 1) {
        return MUSTER_EINVAL;
    }
    return hold(preempt, true, limit_ms < HOLDS_LIMIT_MS_MAX ? limit_ms : HOLDS_LIMIT_MS_MAX);
}

muster_status muster_preempt_hold_end(muster_preempt *preempt)
{
    return hold(preempt, false, 0);
}

/* ---- what is known ---- */

static void fill(const struct muster_preempt *preempt, const struct mst_preempt_seen *noticed,
                 struct muster_notice *out)
{
    const struct mst_notice *notice = &noticed->notice;
    int64_t left_ms = (noticed->deadline_ns - (int64_t)mst_lib_now_ns()) / (int64_t)NS_PER_MS;
    const struct mst_view *view = mst_lib_view(preempt->client);

    _Static_assert(sizeof(out->source) == sizeof(notice->source), "copied whole");
    _Static_assert(sizeof(out->host) == sizeof(notice->host), "copied whole");
    _Static_assert(sizeof(out->reason) == sizeof(notice->reason), "copied whole");
    out->index = notice->index;
    out->rank = notice->index == view->index ? view->rank : MUSTER_RANK_NONE;
    out->level =
        notice->level == MST_NOTICE_ADVISORY ? MUSTER_NOTICE_ADVISORY : MUSTER_NOTICE_CERTAIN;
    out->assumed = notice->assumed;
    out->left_ms = left_ms;
    out->deadline_unix_ms = mst_clock_ms(CLOCK_REALTIME) + left_ms;
    out->agreed_step = mst_preempt_agreed(preempt->host.machine);
    memcpy(out->source, notice->source, sizeof(out->source));
    memcpy(out->host, notice->host, sizeof(out->host));
    memcpy(out->reason, notice->reason, sizeof(out->reason));
}

bool muster_preempt_notice(muster_preempt *preempt, struct muster_notice *out)
{
    muster_client *client = preempt ? preempt->client : NULL;
    const struct mst_preempt_seen *noticed;

    if (!out) {
        return false;
    }
    *out = (struct muster_notice){.rank = MUSTER_RANK_NONE, .agreed_step = -1};
    if (!client || client->pid != getpid() || client->poisoned || mst_lib_holds(client)) {
        return false;
    }
    mst_lib_lock(client);
    noticed = mst_preempt_noticed(preempt->host.machine);
    if (noticed) {
        fill(preempt, noticed, out);
    }
    mst_lib_unlock(client);
    return noticed != NULL;
}

const char *muster_preempt_sources(muster_preempt *preempt)
{
    return preempt ? preempt->sources_text : "";
}
