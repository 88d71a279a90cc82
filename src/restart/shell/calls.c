/* SPDX-License-Identifier: Apache-2.0 */
/* What the function calls. Where it costs nanoseconds there is no lock, no thread-local variable
 * and no locked addition: two threads that ping at once may count once, which is progress as well.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <string.h>

#include "restart/shell/restart.h"

static void count(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* Slow, and once per attempt at most in a function that then returns. */
static muster_status told(muster_restart *restart)
{
    atomic_store_explicit(&restart->delivered, 1, memory_order_relaxed);
    return MUSTER_EINTERRUPTED;
}

static inline muster_status look(muster_restart *restart)
{
    return mst_atomic_told(&restart->atomic) ? told(restart) : MUSTER_OK;
}

bool mst_run_is_mine(const struct muster_restart *restart)
{
    return pthread_equal(restart->interrupt.thread, pthread_self());
}

void muster_restart_view(muster_restart *restart, struct muster_view *out)
{
    if (out) {
        *out = restart ? restart->view : (struct muster_view){.rank = MUSTER_RANK_NONE};
    }
}

muster_status muster_restart_check(muster_restart *restart)
{
    if (!restart) {
        return MUSTER_EINVAL;
    }
    count(&restart->page->checks);
    return look(restart);
}

bool muster_restart_interrupted(const muster_restart *restart)
{
    return restart && mst_atomic_told(&restart->atomic);
}

int64_t muster_restart_hard_timeout_ms(const muster_restart *restart)
{
    return restart ? restart->settings.hard_ms : -1;
}

void muster_restart_alive(muster_restart *restart)
{
    if (restart) {
        count(&restart->page->checks);
    }
}

muster_status muster_restart_ping(muster_restart *restart)
{
    if (!restart) {
        return MUSTER_EINVAL;
    }
    count(&restart->page->pings);
    return look(restart);
}

muster_status muster_restart_step(muster_restart *restart, int64_t step)
{
    struct mst_page *page;
    int64_t best;

    if (!restart) {
        return MUSTER_EINVAL;
    }
    page = restart->page;
    best = atomic_load_explicit(&restart->best_step, memory_order_relaxed);
    atomic_store_explicit(&page->step, step, memory_order_relaxed);
    /* Of two threads at once the smaller one may stay: the next step puts that right. */
    if (step > best) {
        if (best == MST_RUN_NO_STEP) {
            atomic_store_explicit(&restart->first_step, step, memory_order_relaxed);
            mst_page_first_step(page, step);
        }
        atomic_store_explicit(&restart->best_step, step, memory_order_relaxed);
    }
    count(&page->pings);
    return look(restart);
}

/* --- what the function reports --- */

/* A callback outside of an attempt has no fault to report, but gives the reason of its own failure:
 * the first one counts. */
static bool say(struct muster_restart *restart, enum mst_cause kind, int code, const char *text)
{
    struct mst_run_trouble *said = mst_run_is_mine(restart) ? restart->saying : NULL;

    if (!said || kind != MST_CAUSE_FAULT) {
        return false;
    }
    if (said->status == MUSTER_OK) {
        said->status = MUSTER_EFAILED;
        said->code = code;
        (void)mst_slice_copy(said->text, sizeof(said->text), mst_slice_text(text));
    }
    return true;
}

/* In its thread alone, and where it runs or is prepared. Returns what the function is to return. */
static muster_status report(muster_restart *restart, enum mst_cause kind, int code,
                            const char *text, muster_status status)
{
    muster_status refused;

    if (!restart) {
        return MUSTER_EINVAL;
    }
    if (restart->settings.disabled) {
        return status;
    }
    refused = mst_lib_enter(restart->client, NULL, "report");
    if (refused) { /* above all in a forked child, which would speak for its parent */
        return refused;
    }
    if (say(restart, kind, code, text)) {
        return status;
    }
    mst_lib_lock(restart->client);
    if (!restart->attempt || !mst_run_is_mine(restart) || restart->client->poisoned) {
        status = MUSTER_EINVAL;
    } else if (kind == MST_CAUSE_LEFT) {
        restart->left = true;
        mst_restart_left(restart->host.machine, mst_lib_now_ns());
    } else {
        restart->failed = true;
        mst_run_report(restart, kind, code, text);
    }
    mst_lib_unlock(restart->client);
    return status;
}

muster_status muster_restart_fail(muster_restart *restart, int code, const char *text)
{
    return report(restart, MST_CAUSE_FAULT, code, text ? text : "", MUSTER_EFAILED);
}

muster_status muster_restart_again(muster_restart *restart)
{
    return report(restart, MST_CAUSE_AGAIN, 0, "asked for a restart", MUSTER_EINTERRUPTED);
}

muster_status muster_restart_abort(muster_restart *restart, int code, const char *text)
{
    return report(restart, MST_CAUSE_ABORTED, code, text ? text : "", MUSTER_EFAILED);
}

muster_status muster_restart_leave(muster_restart *restart)
{
    return report(restart, MST_CAUSE_LEFT, 0, "", MUSTER_OK);
}

/* --- a broken connection --- */

static bool is_told(void *ctx)
{
    const struct muster_restart *restart = ctx;

    return mst_atomic_told(&restart->atomic);
}

/* A lost host is known to be lost after its lease; half of it more for the news of that. */
static uint64_t wait_of(const struct muster_restart *restart, int64_t timeout_ms)
{
    return timeout_ms >= 0 ? (uint64_t)timeout_ms
                           : mst_lib_lease_ns(restart->client) / 2 * 3 / NS_PER_MS;
}

/* With the lock. */
static muster_status wait_lost(struct muster_restart *restart, uint32_t index, int64_t timeout_ms)
{
    muster_client *client = restart->client;

    if (!restart->attempt || !mst_run_is_mine(restart) || index == restart->view.index ||
        index == MUSTER_RANK_NONE) {
        return MUSTER_EINVAL;
    }
    if (restart->failed) { /* this rank is the cause, and has said so */
        return MUSTER_EFAILED;
    }
    mst_restart_lost(restart->host.machine, mst_lib_now_ns(), index, wait_of(restart, timeout_ms));
    mst_host_drain(&restart->host);
    (void)mst_lib_wait(client, is_told, restart, UINT64_MAX);
    return client->poisoned ? MUSTER_EINTERNAL : told(restart);
}

muster_status muster_restart_lost(muster_restart *restart, uint32_t index, int64_t timeout_ms)
{
    muster_status status;

    if (!restart) {
        return MUSTER_EINVAL;
    }
    if (restart->settings.disabled) {
        return MUSTER_ELOST;
    }
    status = mst_lib_enter(restart->client, NULL, "lost");
    if (status) {
        return status;
    }
    if (mst_lib_thread.no_waiting) {
        return MUSTER_EDEADLK;
    }
    mst_lib_lock(restart->client);
    status = wait_lost(restart, index, timeout_ms);
    mst_lib_unlock(restart->client);
    return status;
}

/* --- atomic sections --- */

/* In the page, from the outermost beginning to its end. */
static void show_atomic(struct muster_restart *restart, bool inside)
{
    if ((atomic_load_explicit(&restart->page->atomic, memory_order_relaxed) % 2 != 0) != inside) {
        count(&restart->page->atomic);
        mst_lib_thread.no_waiting =
            inside ? "called inside an atomic section, which cannot be interrupted: end it first"
                   : NULL;
    }
}

muster_status muster_restart_atomic_begin(muster_restart *restart)
{
    muster_status status;

    if (!restart || !mst_run_is_mine(restart)) {
        return MUSTER_EINVAL;
    }
    count(&restart->page->checks);
    status = mst_atomic_begin(&restart->atomic);
    if (status == MUSTER_OK) {
        show_atomic(restart, true);
    }
    return status == MUSTER_EINTERRUPTED ? told(restart) : status;
}

muster_status muster_restart_atomic_end(muster_restart *restart)
{
    muster_status status;

    if (!restart || !mst_run_is_mine(restart)) {
        return MUSTER_EINVAL;
    }
    count(&restart->page->checks);
    status = mst_atomic_end(&restart->atomic);
    if (status != MUSTER_EINVAL) {
        show_atomic(restart, mst_atomic_inside(&restart->atomic));
    }
    return status == MUSTER_EINTERRUPTED ? told(restart) : status;
}

/* --- long phases --- */

/* The innermost one; a reader of the page may see a name half written. */
static void section_show(muster_restart *restart, uint64_t change)
{
    struct mst_page *page = restart->page;
    uint64_t section = atomic_load_explicit(&page->section, memory_order_relaxed);

    mst_page_measure(page, mst_lib_now_ns());
    if (restart->depth > 0) {
        const struct mst_run_section *innermost = &restart->sections[restart->depth - 1];

        memcpy(page->section_name, innermost->name, sizeof(page->section_name));
        atomic_store_explicit(&page->section_limit_ms, innermost->limit_ms, memory_order_relaxed);
    }
    atomic_store_explicit(&page->section, section + change, memory_order_release);
}

muster_status muster_restart_section_begin(muster_restart *restart, const char *name,
                                           int64_t limit_ms)
{
    struct mst_run_section *section;

    if (!restart || !mst_run_is_mine(restart) || !name || limit_ms == 0 || limit_ms < -1) {
        return MUSTER_EINVAL;
    }
    if (restart->depth >= MST_RUN_SECTIONS_MAX) {
        return MUSTER_ELIMIT;
    }
    section = &restart->sections[restart->depth++];
    *section = (struct mst_run_section){.limit_ms = limit_ms};
    (void)mst_slice_copy(section->name, sizeof(section->name), mst_slice_text(name));
    section_show(restart, restart->depth == 1 ? 1 : 2);
    return muster_restart_check(restart);
}

muster_status muster_restart_section_end(muster_restart *restart)
{
    if (!restart || !mst_run_is_mine(restart) || restart->depth == 0) {
        return MUSTER_EINVAL;
    }
    restart->depth--;
    section_show(restart, restart->depth == 0 ? 1 : 2);
    return muster_restart_check(restart);
}

void mst_run_close_sections(struct muster_restart *restart)
{
    mst_atomic_close(&restart->atomic);
    show_atomic(restart, false);
    if (restart->depth > 0) {
        restart->depth = 0;
        section_show(restart, 1);
    }
}
