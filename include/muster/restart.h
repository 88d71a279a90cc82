/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_RESTART_H
#define MUSTER_RESTART_H

/* Restart of a function in the same processes: when a rank fails, hangs or vanishes, the function
 * is interrupted on all the others, and it is called again with a new view, in which the lost one's
 * replacement or one rank less takes part. */

#include "muster/client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One run of a function; lives as long as muster_restart_run. */
typedef struct muster_restart muster_restart;

/* The user's function. It runs on the thread that called muster_restart_run and may be called many
 * times. OK: this rank is done; the run ends when all are. What muster_restart_check, _fail, _again
 * or _leave returned is to be returned; any other status is a fault of this rank, as after
 * muster_restart_fail with that status. An OK after EINTERRUPTED was delivered counts as
 * interrupted. */
typedef muster_status muster_restart_fn(muster_restart *restart, void *arg);

struct muster_restart_options {
    size_t size;                /* sizeof */
    int64_t barrier_timeout_ms; /* MUSTER_BARRIER_TIMEOUT, 120 s: who does not return is evicted */
    /* MUSTER_INTERRUPT_SIGNAL, SIGRTMIN + 7. Sent to the function's thread so that a blocking
     * system call returns EINTR, again and again until the function has returned. For the run its
     * handler does nothing and has no SA_RESTART, and the calling thread does not block it; both
     * are put back. A signal the application has a handler for is refused with EINVAL. The function
     * must not block it. Negative: no signal, the function is interrupted at muster calls only. */
    int interrupt_signal;
};

#define MUSTER_RESTART_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(struct muster_restart_options), 0, 0                                                \
    }

/* Calls fn until it was done on all ranks of one generation. The client must be a rank. One run at
 * a time per client (EDEADLK from within fn, EINVAL from another thread).
 * Errors: ETOOFEW (fewer than min_size are left), EFAILED (fn failed and no generation followed),
 * EFENCED (this process was given up). Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status
muster_restart_run(muster_client *client, const struct muster_restart_options *options,
                   muster_restart_fn *fn, void *arg, struct muster_error *err);

/* What follows is for fn.
 *
 * Generation, rank, size and iteration of this call of fn; they do not change while it runs. A few
 * loads. Thread: any, while fn runs. Since 0.1. */
MUSTER_API void muster_restart_view(muster_restart *restart, struct muster_view *out);

/* OK, or EINTERRUPTED: clean up and return it. Once EINTERRUPTED, it stays so until fn returned. An
 * atomic load; call it as often as you like. Thread: any, while fn runs. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_check(muster_restart *restart);

/* The same, and says "I made progress": a counter that the node's agent watches. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_ping(muster_restart *restart);

/* Records why fn fails; returns EFAILED, to be returned from fn. The others are interrupted at
 * once, and this rank goes on with them when fn has returned. `text` is copied; NULL: none. Thread:
 * fn's. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_fail(muster_restart *restart, int code,
                                                             const char *text);

/* Asks that all ranks call fn again, without a failure; returns EINTERRUPTED, to be returned from
 * fn. Thread: fn's. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_again(muster_restart *restart);

/* This rank ends here while the job goes on: when fn returns what this returns, the rank leaves the
 * job, the others are interrupted and seal a generation without it, and muster_restart_run returns
 * OK. Thread: fn's. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_leave(muster_restart *restart);

#ifdef __cplusplus
}
#endif

#endif
