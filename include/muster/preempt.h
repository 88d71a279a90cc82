/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_PREEMPT_H
#define MUSTER_PREEMPT_H

/* Preemption: one notice on any member, and all save the same step before the deadline.
 *
 *   for (step = first; step < last; step++) {
 *       if (muster_preempt_reached(preempt, step) == MUSTER_SAVE_NOW) {
 *           save(step);
 *           status = muster_preempt_saved(preempt, step, -1, &err);
 *           if (status == MUSTER_EPREEMPTED) break;
 *       }
 *       train(step);
 *   }
 *   return muster_exit_code(status);
 *
 * A save counts when all have saved: let it not replace the one before until muster_preempt_saved
 * has returned OK or EPREEMPTED (examples/preempt/train.c; docs/restart.md, "Checkpoints").
 *
 * When a notice is due (MUSTER_PREEMPT_WINDOW before its deadline, or at once) the libraries of all
 * ranks agree on one step: 1 + the largest for which any of them has already answered *no*. No rank
 * has to be inside of a call for that. Who does not answer within MUSTER_PREEMPT_AGREE_TIMEOUT is
 * left out, and named in the log as frozen. Each generation begins anew; a later notice starts
 * another agreement. docs/preemption.md is the guide; what client.h says of threads, time and
 * errors holds here. Nothing here has a twin X_start: `reached` and `saved` are where a program
 * stops, and the others are rare, so that a thread of its own will do. */

#include "muster/client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A process's part in it: sources of notices, and what is agreed. One per client. */
typedef struct muster_preempt muster_preempt;

#define MUSTER_INDEX_ALL UINT32_C(4294967293) /* of a notice: the whole job */

enum muster_notice_level {
    MUSTER_NOTICE_CERTAIN = 0, /* the process ends at the deadline */
    MUSTER_NOTICE_ADVISORY = 1 /* it may: told to the program, and nothing is agreed for it */
};

/* Who stops after the save. The choice of a job: if any member says ALL, it is ALL. */
enum muster_preempt_leave {
    MUSTER_PREEMPT_LEAVE_DEFAULT = 0, /* MUSTER_PREEMPT_LEAVE, else ALL */
    MUSTER_PREEMPT_LEAVE_ALL = 1,     /* the whole job saves and stops */
    MUSTER_PREEMPT_LEAVE_NOTICED = 2  /* who was noticed leaves, the others go on */
};

/* What a source of the user's own has found out about this process. */
struct muster_notice_given {
    int64_t in_ms; /* until the end; -1: not known, MUSTER_PREEMPT_GRACE is assumed */
    enum muster_notice_level level;
    char reason[256]; /* for people; ends with NUL */
};

/* A source of the user's own. OK: *out, which was zero, is a notice for this process; MUSTER_MORE:
 * there is none; an error: it is not known now, and the first of a row of them is logged. It is
 * called every period_ms, after a notice as well, on a thread that all sources of the handle share;
 * it may block, but muster_preempt_close waits for its return; it must not call into this handle.
 */
struct muster_preempt_source {
    const char *name; /* of the notice's source, at most 23 bytes; copied */
    muster_status (*poll)(void *ctx, struct muster_notice_given *out);
    void *ctx;
    int64_t period_ms; /* 0: a second */
};

/* 0 or NULL: MUSTER_<NAME> of the environment, else the default. */
struct muster_preempt_options {
    size_t size; /* sizeof */
    /* MUSTER_PREEMPT_SIGNALS, "TERM": each is a notice for this process with MUSTER_PREEMPT_GRACE
     * until its deadline. "": none. With commas: "TERM,USR1". A handler that was there is called
     * as well, the default action is not taken any more; a child after fork has what was there
     * before. What muster run or the helper ends this process by is no notice, and does what it
     * did before. Where they are told not to take `signals` (MUSTER_PREEMPT_SOURCES), NULL means
     * none. EINVAL: the signal by which muster_restart_run interrupts a function that runs. */
    const char *signals;
    const struct muster_preempt_source *sources; /* copied */
    size_t source_count;
    int64_t window_ms;        /* MUSTER_PREEMPT_WINDOW, 15 min: a notice is due so long before */
    int64_t agree_timeout_ms; /* MUSTER_PREEMPT_AGREE_TIMEOUT, 2 s; at most 1/4 of what is left */
    int64_t grace_ms;         /* MUSTER_PREEMPT_GRACE, 30 s: assumed where no deadline is known */
    enum muster_preempt_leave leave;
};

#define MUSTER_PREEMPT_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(struct muster_preempt_options), NULL, NULL, 0, 0, 0, 0,                             \
            MUSTER_PREEMPT_LEAVE_DEFAULT                                                           \
    }

/* Takes part from now on; a notice that is there already counts as well, unless its deadline has
 * passed. Does not wait for the service. Where nobody gives this process notices by itself, one
 * warning in the log says so. On success the caller owns *out, which is closed before its client.
 * Options NULL: all from the environment. EINVAL also for a client that is no rank, EEXISTS when
 * this client has a handle already. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status
muster_preempt_open(muster_preempt **out, muster_client *client,
                    const struct muster_preempt_options *options, struct muster_error *err);

/* Takes no part any more: who agrees on a step without this member does not wait for it. Signal
 * handlers are put back, unless somebody has installed another one over ours since: that one stays,
 * and may go on calling ours. Other threads' calls with this handle must be over. NULL: a no-op.
 * After muster_client_close only this may be called, besides muster_preempt_reached, which says
 * STOP. Since 0.1. */
MUSTER_API void muster_preempt_close(muster_preempt *preempt);

/* GO_ON: compute this step. SAVE_NOW: save before this step, then call muster_preempt_saved with
 * it: from the first step that is not below the agreed one. STOP: this member was fenced, the
 * session is over, or the attempt of muster_restart_run is interrupted: return. */
enum muster_reach { MUSTER_GO_ON = 0, MUSTER_SAVE_NOW = 1, MUSTER_STOP = -1 };

/* To be asked before each step; steps count up, skipping some is fine, step >= 0 (below it: GO_ON).
 * Costs two memory operations while there is no notice. While the members agree it waits until
 * the step is known (MUSTER_PREEMPT_AGREE_TIMEOUT at the longest), or it is to STOP. Thread: one at
 * a time. Since 0.1. */
MUSTER_API enum muster_reach muster_preempt_reached(muster_preempt *preempt, int64_t step);

/* Reports that this member has saved `step`, and waits for the others' saves.
 * OK: saved by all, and this member goes on: others leave, it was not noticed (LEAVE_NOTICED).
 * EPREEMPTED: saved by all, leave now: muster_exit_code gives 75. Under muster_restart_run the
 * function returns it where all leave; where only the noticed do, muster_restart_leave.
 * ESTALE: not this step: the agreement was held again, or the notice withdrawn; go on, and ask
 * `reached`. EMISMATCH: members have saved different steps, `err` lists who saved what. ELOST: one
 * was lost before it had saved, `err` names it. ETIMEDOUT: `timeout_ms` or the deadline is over,
 * `err` names who is missing. EFAILED: one had passed the agreed step while it was frozen, `err`
 * names it: all others have saved. EINVAL: no save is due. After `timeout_ms` alone the call may be
 * repeated with the same step. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_preempt_saved(muster_preempt *preempt, int64_t step,
                                                              int64_t timeout_ms,
                                                              struct muster_error *err);

/* "Cannot save now": an agreement is postponed until _end, at most for `limit_ms` (at least 1) from
 * the outermost _begin; then it goes on as if _end had been called. Regions nest; a member that is
 * in none is asked again as well. _begin: ELIMIT beyond 1000 of them; _end without _begin: EINVAL.
 * Thread: that of `reached`. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_preempt_hold_begin(muster_preempt *preempt,
                                                                   int64_t limit_ms);
MUSTER_API muster_status muster_preempt_hold_end(muster_preempt *preempt);

/* What is known of a notice. */
struct muster_notice {
    uint32_t index; /* of the member, or MUSTER_INDEX_ALL */
    uint32_t rank;  /* it has now; MUSTER_RANK_NONE: none, not known, or all */
    enum muster_notice_level level;
    bool assumed;             /* the deadline is an assumption (MUSTER_PREEMPT_GRACE) */
    int64_t left_ms;          /* until the deadline, now; negative: it has passed */
    int64_t deadline_unix_ms; /* the same by this machine's clock */
    int64_t agreed_step;      /* -1: none yet */
    char source[24];          /* "signals", "file", "slurm", "hand", ... */
    char host[64];            /* that it is about; "" where nobody said */
    char reason[256];
};

/* The notice with the first deadline of those that are there, certain ones first. false: there is
 * none. Costs a lock and no round trip; the program needs no call for it to be there. Thread: any.
 * Since 0.1. */
MUSTER_API bool muster_preempt_notice(muster_preempt *preempt, struct muster_notice *out);

/* Who gives notices for this process: "signals,slurm,mine"; "" if nobody does, so that only `muster
 * preempt` and muster_preempt_announce can. The handle's. Thread: any. Since 0.1. */
MUSTER_API const char *muster_preempt_sources(muster_preempt *preempt);

/* Waits until every member that was noticed, but this one, is lost or has left. OK also when the
 * service has gone away, and at once when there is no notice. A notice for the whole job means all
 * of its ranks. Each who waits is told of all members: one of a job is to do it, not all. Since
 * 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_preempt_wait_exit(muster_preempt *preempt,
                                                                  int64_t timeout_ms,
                                                                  struct muster_error *err);

/* Gives notice by hand: the member `index`, or with MUSTER_INDEX_ALL the whole job, ends in
 * `in_ms`; -1: not known, MUSTER_PREEMPT_GRACE is assumed. An earlier notice that is still to be
 * acted upon stays as it is: OK. Where no rank listens yet (muster_preempt_open) it is given all
 * the same, and the log has a warning. `reason` is one line for people, or NULL. Any client may, an
 * observer's too. Waits for the service. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_preempt_announce(muster_client *client,
                                                                 uint32_t index, int64_t in_ms,
                                                                 const char *reason,
                                                                 struct muster_error *err);

/* Takes it back; before all have saved for it they go on instead. OK also when there was none.
 * Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_preempt_withdraw(muster_client *client,
                                                                 uint32_t index,
                                                                 struct muster_error *err);

#ifdef __cplusplus
}
#endif

#endif
