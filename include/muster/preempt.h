/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_PREEMPT_H
#define MUSTER_PREEMPT_H

/* Preemption: when any member receives a notice, all ranks save the same step before the deadline.
 *
 *     for (step = first; step < last; step++) {
 *         if (muster_preempt_reached(preempt, step) == MUSTER_SAVE_NOW) {
 *             save(step);
 *             status = muster_preempt_saved(preempt, step, -1, &err);
 *             if (status == MUSTER_EPREEMPTED) break;
 *         }
 *         train(step);
 *     }
 *     return muster_exit_code(status);
 *
 * A save counts when all ranks have saved. Keep the previous save until muster_preempt_saved has
 * returned OK or EPREEMPTED (examples/preempt/train.c; docs/restart.md, "Checkpoints").
 *
 * When a notice is due (MUSTER_PREEMPT_WINDOW before its deadline, or at once), the libraries of
 * all ranks agree on one step: 1 + the largest step for which any rank has already answered *no*.
 * No rank has to be inside a call for that. A rank that does not answer within
 * MUSTER_PREEMPT_AGREE_TIMEOUT is left out; the log names it as frozen. Each generation begins
 * anew, and a later notice starts another agreement.
 *
 * docs/preemption.md is the guide. What client.h says of threads, time and errors holds here. No
 * function here has a twin X_start: `reached` and `saved` are the points where a program stops, and
 * the others are rare, so use a thread for them. */

#include "muster/client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A process's part in the agreement: its notice sources and the agreed step. One per client. */
typedef struct muster_preempt muster_preempt;

#define MUSTER_INDEX_ALL UINT32_C(4294967293) /* of a notice: the whole job */

/* How certain a notice is. */
enum muster_notice_level {
    MUSTER_NOTICE_CERTAIN = 0, /* the process ends at the deadline */
    MUSTER_NOTICE_ADVISORY = 1 /* it may end: reported to the program, no step is agreed */
};

/* The ranks that stop after the save. One value per job: if any member sets ALL, it is ALL. */
enum muster_preempt_leave {
    MUSTER_PREEMPT_LEAVE_DEFAULT = 0, /* MUSTER_PREEMPT_LEAVE, else ALL */
    MUSTER_PREEMPT_LEAVE_ALL = 1,     /* the whole job saves and stops */
    MUSTER_PREEMPT_LEAVE_NOTICED = 2  /* noticed members leave, the others continue */
};

/* A notice for this process, from a source of the user's own. */
struct muster_notice_given {
    int64_t in_ms; /* until the end; -1: unknown, MUSTER_PREEMPT_GRACE is assumed */
    enum muster_notice_level level;
    char reason[256]; /* for people; ends with NUL */
};

/* A notice source of the user's own. OK: *out, zeroed before the call, is a notice for this
 * process. MUSTER_MORE: no notice. An error: unknown at present; the first error in a row is
 * logged. `poll` is called every period_ms, after a notice as well, on a thread that all sources of
 * the handle share. It may block, but muster_preempt_close waits for its return. It must not call
 * into this handle. */
struct muster_preempt_source {
    const char *name; /* name of the notice's source, at most 23 bytes; copied */
    muster_status (*poll)(void *ctx, struct muster_notice_given *out);
    void *ctx;
    int64_t period_ms; /* 0: a second */
};

/* Options of preemption. 0 or NULL: MUSTER_<NAME> of the environment, else the default. */
struct muster_preempt_options {
    size_t size; /* sizeof */
    /* MUSTER_PREEMPT_SIGNALS, "TERM": each of these signals is a notice for this process with
     * MUSTER_PREEMPT_GRACE until its deadline. Separated by commas: "TERM,USR1"; "": none. A
     * handler that was installed before is called as well; the default action is no longer taken. A
     * child after fork has the handler from before. The signal with which muster run or the helper
     * ends this process is no notice, and does what it did before. NULL means none where the
     * sources exclude `signals` (MUSTER_PREEMPT_SOURCES). EINVAL: the signal by which
     * muster_restart_run interrupts a running function. */
    const char *signals;
    const struct muster_preempt_source *sources; /* copied */
    size_t source_count;
    int64_t window_ms;        /* MUSTER_PREEMPT_WINDOW, 15 min: a notice is due this long before its
                                 deadline */
    int64_t agree_timeout_ms; /* MUSTER_PREEMPT_AGREE_TIMEOUT, 2 s; at most 1/4 of the time left */
    int64_t grace_ms;         /* MUSTER_PREEMPT_GRACE, 30 s: assumed where no deadline is known */
    enum muster_preempt_leave leave;
};

#define MUSTER_PREEMPT_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(struct muster_preempt_options), NULL, NULL, 0, 0, 0, 0,                             \
            MUSTER_PREEMPT_LEAVE_DEFAULT                                                           \
    }

/* Takes part from now on. An existing notice counts as well, unless its deadline has passed. Does
 * not wait for the service. Warns once in the log if no source gives this process notices. On
 * success the caller owns *out, which must be closed before its client. Options NULL: all from the
 * environment. EINVAL also for a client that is no rank, EEXISTS when this client has a handle
 * already. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status
muster_preempt_open(muster_preempt **out, muster_client *client,
                    const struct muster_preempt_options *options, struct muster_error *err);

/* Takes no part any more: later agreements do not wait for this member. Restores the signal
 * handlers, unless another handler was installed over ours since; that one stays, and may still
 * call ours. Other threads' calls with this handle must be over. NULL: a no-op. After
 * muster_client_close only this may be called, besides muster_preempt_reached, which returns STOP.
 * Since 0.1. */
MUSTER_API void muster_preempt_close(muster_preempt *preempt);

/* What to do before a step. GO_ON: compute this step. SAVE_NOW: save before this step, then call
 * muster_preempt_saved with it; returned from the first step that is not below the agreed one.
 * STOP: return, for this member was fenced, the session is over, or the attempt of
 * muster_restart_run is interrupted. */
enum muster_reach { MUSTER_GO_ON = 0, MUSTER_SAVE_NOW = 1, MUSTER_STOP = -1 };

/* Whether this step is to be saved first; call it before each step. Steps count up and may skip
 * numbers; step >= 0 (below it: GO_ON). Without a notice it costs two memory operations. During an
 * agreement it waits until the step is known (at most MUSTER_PREEMPT_AGREE_TIMEOUT) or it must
 * STOP. Thread: one at a time. Since 0.1.
 */
MUSTER_API enum muster_reach muster_preempt_reached(muster_preempt *preempt, int64_t step);

/* Reports that this member has saved `step`, and waits for the saves of the others.
 * - OK: all have saved, and this member continues: others leave, it was not noticed
 *   (LEAVE_NOTICED).
 * - EPREEMPTED: all have saved, leave now: muster_exit_code gives 75. Under muster_restart_run the
 *   function returns this status where all leave; where only the noticed members do, it returns
 *   the status of muster_restart_leave.
 * - ESTALE: not this step: the agreement was repeated, or the notice withdrawn. Continue, and call
 *   `reached`.
 * - EMISMATCH: members have saved different steps; `err` lists them.
 * - ELOST: a member was lost before it had saved; `err` names it.
 * - ETIMEDOUT: `timeout_ms` or the deadline is over; `err` names the missing members. After
 *   `timeout_ms` alone the call may be repeated with the same step.
 * - EFAILED: a member had passed the agreed step while it was frozen; `err` names it. All others
 *   have saved.
 * - EINVAL: no save is due.
 *
 * Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_preempt_saved(muster_preempt *preempt, int64_t step,
                                                              int64_t timeout_ms,
                                                              struct muster_error *err);

/* Marks a region in which the program cannot save. An agreement is postponed until _end, at most
 * for `limit_ms` (at least 1) from the outermost _begin; then it proceeds as after _end. Regions
 * nest. Members outside a region are asked again as well. _begin: ELIMIT beyond 1000 regions; _end
 * without _begin: EINVAL. Thread: that of `reached`. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_preempt_hold_begin(muster_preempt *preempt,
                                                                   int64_t limit_ms);

/* Ends a region: muster_preempt_hold_begin. Since 0.1. */
MUSTER_API muster_status muster_preempt_hold_end(muster_preempt *preempt);

/* A notice. */
struct muster_notice {
    uint32_t index; /* of the member, or MUSTER_INDEX_ALL */
    uint32_t rank;  /* its current rank; MUSTER_RANK_NONE: none, unknown, or all */
    enum muster_notice_level level;
    bool assumed;             /* the deadline is an assumption (MUSTER_PREEMPT_GRACE) */
    int64_t left_ms;          /* until the deadline, now; negative: it has passed */
    int64_t deadline_unix_ms; /* the same by this machine's clock */
    int64_t agreed_step;      /* -1: none yet */
    char source[24];          /* "signals", "file", "slurm", "hand", ... */
    char host[64];            /* of the noticed member; "": unknown */
    char reason[256];
};

/* The notice with the earliest deadline, certain ones first. false: there is none. Costs a lock and
 * no round trip; notices arrive without any call of the program. Thread: any. Since 0.1. */
MUSTER_API bool muster_preempt_notice(muster_preempt *preempt, struct muster_notice *out);

/* The notice sources of this process: "signals,slurm,mine". "": none, so only `muster preempt` and
 * muster_preempt_announce can notify it. Owned by the handle. Thread: any. Since 0.1. */
MUSTER_API const char *muster_preempt_sources(muster_preempt *preempt);

/* Waits until every noticed member except this one is lost or has left. OK also when the service
 * has gone away, and at once when there is no notice. A notice for the whole job means all of its
 * ranks. Every waiter receives events for all members, so call this on one rank only. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_preempt_wait_exit(muster_preempt *preempt,
                                                                  int64_t timeout_ms,
                                                                  struct muster_error *err);

/* Gives notice from a program: the member `index`, or with MUSTER_INDEX_ALL the whole job, ends in
 * `in_ms`; -1: unknown, MUSTER_PREEMPT_GRACE is assumed. An earlier notice that is still pending
 * stays as it is: OK. If no rank listens yet (muster_preempt_open) the notice is given all the
 * same, and the log has a warning. `reason` is one line for people, or NULL. Any client may call
 * it, also an observer. Waits for the service. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_preempt_announce(muster_client *client,
                                                                 uint32_t index, int64_t in_ms,
                                                                 const char *reason,
                                                                 struct muster_error *err);

/* Withdraws the notice. If not all have saved for it yet, they continue instead. OK also when there
 * was none. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_preempt_withdraw(muster_client *client,
                                                                 uint32_t index,
                                                                 struct muster_error *err);

#ifdef __cplusplus
}
#endif

#endif
