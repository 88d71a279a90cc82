/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_RESTART_H
#define MUSTER_RESTART_H

/* Restart of a function in the same processes. When a rank fails, hangs or vanishes, the function
 * is interrupted on all other ranks. Then it is called again with a new view: the lost rank is
 * replaced by a new process or a spare, or the job runs with one rank less. docs/restart.md is the
 * guide.
 *
 * One attempt of a rank; everything but the abort callbacks runs on the thread that called
 * muster_restart_run:
 *
 *     initialize, health_check, the function                       --all are done--> completion
 *       --a fault anywhere--> abort (on a thread of its own, while the function runs)
 *       --the function has returned--> finalize, health_check, and the next generation is sealed */

#include "muster/assignment.h"
#include "muster/client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One run of a function. Valid for the function, the callbacks and threads that they wait for; not
 * after muster_restart_run has returned. */
typedef struct muster_restart muster_restart;

/* The user's function. It runs on the thread that called muster_restart_run and may be called many
 * times. OK: this rank is done; the run ends when all ranks are. It must return what
 * muster_restart_check, _fail, _again or _leave returned. Any other status is a fault of this rank,
 * as after muster_restart_fail with that status. ELOST and EFENCED are no fault where a peer was
 * lost or failed: calls of muster return them then. An OK after EINTERRUPTED was delivered counts
 * as interrupted. `arg` is passed again unchanged, with whatever a failed attempt did to it.
 *
 * exit() in the function, or in another thread meanwhile, with status 0 or 75 leaves the job as
 * muster_restart_leave does, and waits at most a second for the service. exit() with another
 * status, _exit, or the end of the process without muster_client_close is a loss:
 * MUSTER_FAULT_EXIT.
 *
 * The function and the callbacks must return: leaving them by longjmp, an exception or pthread_exit
 * is undefined, and a forked child must not return from them. A cancellation of the thread waits
 * until the run has returned. A run on another client inside the function is possible, but the
 * interruption and progress of this run do not reach it. */
typedef muster_status muster_restart_fn(muster_restart *restart, void *arg);

/* A callback; several of one kind are called in the order of their list. OK, or it has failed; a
 * positive number counts as EFAILED. */
typedef muster_status muster_restart_callback(muster_restart *restart, void *arg);
/* One callback, and the argument that it is passed. */
struct muster_restart_hook {
    muster_restart_callback *call;
    void *arg;
};
/* Callbacks of one kind, in the order in which they are called. */
struct muster_restart_hooks {
    const struct muster_restart_hook *list; /* copied */
    size_t count;
};

/* Options of a run. 0 or NULL: MUSTER_<NAME> of the environment, else the default. A default that
 * does not fit a value that is set shrinks with it: hard_timeout to 3/4 of barrier_timeout, grace
 * to 1/8 of it, soft_timeout to 2/3 of hard_timeout, health_timeout to half of it. Remaining
 * contradictions are refused, each rule with its own text: soft_timeout < hard_timeout,
 * hard_timeout + grace < barrier_timeout, settle < soft_timeout, settle < barrier_timeout, and with
 * a health_command health_timeout < hard_timeout. */
struct muster_restart_options {
    size_t size;                /* sizeof */
    int64_t barrier_timeout_ms; /* 120 s: a rank that misses the seal is evicted */
    /* SIGRTMIN + 7. Sent to the function's thread so that a blocking system call returns EINTR;
     * repeated until the function has returned; never sent inside an atomic section, nor, for half
     * of hard_timeout, in a write of stdout or stderr, which would lose what stdio has buffered.
     * During the run its handler is empty and has no SA_RESTART, and the calling thread does not
     * block it; both are restored afterwards. EINVAL: a signal for which the application has a
     * handler (but see keep_handler), or that is a preemption notice. The function must not block
     * it. Negative: no signal; only muster calls and abort callbacks interrupt the function. */
    int interrupt_signal;

    /* Disables restarts (MUSTER_ENABLED=0): muster_restart_run calls the function once and returns
     * its status. Nothing is created and `client` may be NULL. check returns OK, and no callback is
     * called. The options are validated all the same. */
    bool disabled;
    /* Leaves RANK and WORLD_SIZE unchanged (MUSTER_EXPORT=0). Otherwise they are set at each entry,
     * RANK is unset on a spare, and the end of the run restores both. */
    bool keep_environment;

    /* soft_timeout, 60 s: without progress for this long, all ranks are interrupted, and the rank
     * continues. hard_timeout, 90 s: without progress for this long, the agent kills the process.
     * Progress is muster_restart_ping and _step once one of them was called in the attempt,
     * otherwise any call of muster. The clock starts with the first such call of an attempt; with
     * the start of the function when a timeout is set here or in the environment; or when all other
     * ranks have waited for this one alone for soft_timeout. An interrupted rank that has not
     * returned after hard_timeout, or spends it in abort, finalize and the health check, is killed
     * as well. Negative: never. */
    int64_t soft_timeout_ms, hard_timeout_ms;
    int64_t settle_ms;             /* 0: from a fault to the interruption, to collect more faults */
    int64_t completion_timeout_ms; /* no limit: after the first rank is done; then all restart */
    int64_t grace_ms;              /* MUSTER_GRACE, 5 s: from SIGTERM to SIGKILL */

    /* Limits of restarting, for all ranks together: beyond them muster_restart_run returns EFAILED.
     */
    uint32_t iterations_max; /* attempts that ended by a fault, request or leave; 0: no limit */
    /* Attempts in a row without progress, 16; negative: no limit. An attempt has made progress when
     * it reached a larger step than any before (muster_restart_step). An attempt that begins
     * further back than the last one with progress has returned to an old checkpoint: it has made
     * progress when it advanced from where it began, and from then on the earlier steps do not
     * count. Without steps, an attempt has made progress when a rank pinged, or when it lasted for
     * soft_timeout. An attempt that a rank asked to end (_again, _leave) does not count. */
    int32_t stalled_max;
    /* Own faults that a rank may have; with one more it leaves alone (EUNHEALTHY). 0: no limit. A
     * rank that was only interrupted has none, and neither has one that failed because a peer died:
     * a failure that was reported while the rank was interrupted does not count, nor one that
     * another rank's death followed within 250 ms. */
    uint32_t faults_max;

    /* Which members run the function, and as which rank; NULL: all, in the order of the index. */
    const struct muster_assignment *assignment;

    struct muster_restart_hooks
        precondition;                       /* once, before anything else; its status is returned */
    struct muster_restart_hooks initialize; /* before each attempt; a failure is a fault */
    /* After `initialize`, where a failure is a fault; and after `finalize`, where a failure ends
     * this rank with EUNHEALTHY. Local to the rank: it must not wait for peers. */
    struct muster_restart_hooks health_check;
    /* On a thread of its own, once per interrupted attempt, while the function may still run: makes
     * its blocking calls return (shuts sockets down, aborts communicators). The signal follows when
     * these callbacks have returned, or after a second. They may read the view, the faults and the
     * steps; calls of muster that wait return EDEADLK in them. A failure is only logged. */
    struct muster_restart_hooks abort;
    struct muster_restart_hooks
        finalize; /* after the function; a failure ends this rank with its status */
    struct muster_restart_hooks
        completion; /* after success, on spares too; failures are only logged */
    struct muster_restart_hooks
        terminate; /* on a rank whose run ends with an error; failures are only logged */

    /* Health checks that need no code, before health_check's own. */
    /* Run by sh -c; healthy when it exits with status 0 in time. What is left of its process group
     * is killed. Does not work in a program that ignores SIGCHLD. */
    const char *health_command;
    int64_t health_timeout_ms; /* 30 s, for the command */
    const char *health_folder; /* must allow to create and remove a file */

    /* MUSTER_REPLACE_WAIT, else 60 s where the client's min_size is its size_of_job, else not at
     * all. A lost rank that `muster run` starts again is waited for: when all others have returned,
     * the next generation begins with the replacement, or without it after this long. Each further
     * loss starts the time again. The longest time that a rank asks for counts. Negative: no wait.
     */
    int64_t replace_wait_ms;

    /* The application's own handler of interrupt_signal stays and is called at each interruption,
     * on the function's thread: a language runtime raises its exception there. Installed before the
     * run, without SA_RESTART, and kept for the whole run; EINVAL without one. A signal may also
     * come late, when the function has returned: muster_restart_interrupted says so. */
    bool keep_handler;
    /* Every 50 ms while the run waits for the service or for peers: for the seal, for a seat as a
     * spare, after fn was done. A language runtime runs its signal handlers here, so that Ctrl-C
     * ends a wait. A failure ends this rank with its status: it leaves the job as after
     * muster_restart_leave, and waits at most a second for the service. If the wait was just over,
     * an attempt is not begun any more, but a run that has ended returns its own result. */
    struct muster_restart_hooks wait_check;
};

#define MUSTER_RESTART_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(struct muster_restart_options), 0, 0, false, false, 0, 0, 0, 0, 0, 0, 0, 0, NULL,   \
            {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, NULL, 0,  \
            NULL, 0, false,                                                                        \
        {                                                                                          \
            NULL, 0                                                                                \
        }                                                                                          \
    }

/* Calls fn until it is done on all ranks of one generation. The client must be a rank. A spare
 * waits in here at little cost until it is needed; it returns OK without having called fn when the
 * others are done (muster_client_view then says `spare`). One run at a time per client (EDEADLK
 * from within fn, EINVAL from another thread); the next run begins with iteration 0.
 *
 * Returns the status of fn (OK or EPREEMPTED) when all were done. err->why tells the meanings of a
 * status apart. Errors, the same on all ranks:
 * - ETOOFEW: fewer than min_size are left, after replace_wait. The client stays usable; the next
 * run waits until the missing ranks are back, or for barrier_timeout, then ETOOFEW again.
 * - EFAILED: a restart limit was reached, or muster_restart_abort was called.
 * - The status with which the assignment failed.
 *
 * Errors of this rank alone, while the others continue: EUNHEALTHY (a health check, or faults_max),
 * the status of finalize, EFAILED (it delayed the others in two attempts in a row), EFENCED (this
 * process was replaced), ECANCELLED (the client is closed), ENOMEM, ENOSPACE or ELIMIT (the service
 * has no room, and this rank has left the job).
 *
 * Nothing was started: EINVAL (an option), ENOMEM, the status of `precondition`. Thread: any; it
 * belongs to fn from then on. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status
muster_restart_run(muster_client *client, const struct muster_restart_options *options,
                   muster_restart_fn *fn, void *arg, struct muster_error *err);

/* ---- for fn and the callbacks ---- */

/* Generation, rank, size and iteration of this attempt; constant while it runs. All ranks of a
 * generation see the same iteration, a newcomer too. Costs a few loads. Thread: any, while fn runs.
 * Since 0.1. */
MUSTER_API void muster_restart_view(muster_restart *restart, struct muster_view *out);

/* Whether the function may continue: OK, or EINTERRUPTED: clean up and return it. Once returned,
 * EINTERRUPTED stays until fn has returned. Costs an atomic load and a counter; call it as often as
 * you like. Thread: any, while fn runs. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_check(muster_restart *restart);

/* Whether check would return EINTERRUPTED now; false in an atomic section, and when the attempt is
 * over. Unlike check it is no sign of progress and delivers nothing. For signal handlers and
 * monitors: async-signal-safe, one atomic load. NULL: false. Thread: any, while the run lasts.
 * Since 0.1. */
MUSTER_API bool muster_restart_interrupted(const muster_restart *restart);

/* A sign of life as check is one, but delivers nothing: a function that knows nothing of an
 * interruption may still end as if there were none. For the watchdog of a language runtime. NULL: a
 * no-op. Thread: any, while fn runs. Since 0.1. */
MUSTER_API void muster_restart_alive(muster_restart *restart);

/* hard_timeout_ms as it is in this run, also where it was not set; -1: never. A time-out of the
 * application that is longer never comes. NULL: -1. Thread: any, while fn runs. Since 0.1. */
MUSTER_API int64_t muster_restart_hard_timeout_ms(const muster_restart *restart);

/* Like muster_restart_check, and reports progress: a counter that the node's agent watches. Not
 * needed while fn's thread waits in a blocking call of muster. Thread: any, while fn runs. Since
 * 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_ping(muster_restart *restart);

/* Like ping, with the step reached: the first and the largest step of an attempt, on any rank, tell
 * progress from repetition (stalled_max). If two threads report at once, the smaller step may
 * count. Thread: any, while fn runs. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_step(muster_restart *restart, int64_t step);

/* Records why fn fails; returns EFAILED, to be returned from fn. The other ranks are interrupted at
 * once; this rank continues with them when fn has returned. `text` is copied; NULL: none. The first
 * report of an attempt counts, except that abort always does. This and the next three return EINVAL
 * and report nothing from another thread, from a forked child, and where no attempt is in progress
 * (abort, finalize and later). Thread: fn's, in fn, initialize and the health check before it.
 *
 * In a callback outside of an attempt (precondition, finalize, the health check after it,
 * wait_check, completion, terminate) it reports nothing by itself: if the callback then fails,
 * `code` and `text` are its reason, in the record, in err->text or in the log. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_fail(muster_restart *restart, int code,
                                                             const char *text);

/* Makes all ranks call fn again, without a failure; returns EINTERRUPTED, to be returned from fn.
 * Thread: fn's. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_again(muster_restart *restart);

/* Ends this rank while the job continues: when fn returns the status of this call, the rank leaves
 * the job, the others are interrupted and seal a generation without it, and muster_restart_run
 * returns OK. In initialize and the health check before fn, fn and further callbacks before it are
 * not called in this attempt. Thread: fn's, in fn, initialize and the health check before it. Since
 * 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_leave(muster_restart *restart);

/* Ends the run on all ranks: muster_restart_run returns EFAILED with this text everywhere. Returns
 * EFAILED, to be returned from fn. Thread: fn's. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_abort(muster_restart *restart, int code,
                                                              const char *text);

/* Reports that the connection of this rank to #index broke: a socket was reset or closed, a
 * library's call says so. The end of the peer is probably being reported already. This call waits
 * for the interruption that follows, and returns EINTERRUPTED, to be returned from fn. If nothing
 * has interrupted this rank after `timeout_ms`, it is a fault of #index: all ranks are interrupted,
 * #index as well, and continue in their processes. The record then has MUSTER_FAULT_FAILED about
 * #index, with the code ELOST, and a text that names both ends. This rank has no fault, unless
 * #index is no rank of its generation, and no report of this kind is recorded beside another fault,
 * but for a death that follows it.
 *
 * timeout_ms: 0: a fault at once; negative: 3/2 of the lease, within which the loss of a host is
 * known. The wait is not limited while the service is away, and it is no hang. `index` is not a
 * rank: exchange it with the address (muster_view.index).
 *
 * EFAILED: this rank has reported a fault itself. ELOST: restarts are disabled. EINVAL: from
 * another thread or a forked child, where no attempt is in progress, or about this rank itself.
 * EDEADLK: in an atomic section. Thread: fn's, in fn, initialize and the health check before it.
 * Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_lost(muster_restart *restart,
                                                             uint32_t index, int64_t timeout_ms);

/* Begins an atomic section, which is not interrupted: a short local write, never a wait for a peer.
 * Inside it check and ping return OK, no signal is sent, abort callbacks wait, and blocking calls
 * of muster return EDEADLK. Sections nest. begin: OK, or EINTERRUPTED when the interruption came
 * first; then the section is not entered and must not be ended. end: EINTERRUPTED when the
 * interruption came meanwhile. A section longer than soft_timeout is a fault; after hard_timeout
 * the process is killed. The return of fn ends open sections. Each call costs an atomic operation.
 * EINVAL: from another thread; an end without a begin. ELIMIT: a million deep. Thread: fn's. Since
 * 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_atomic_begin(muster_restart *restart);
/* Ends an atomic section: muster_restart_atomic_begin. Since 0.1. */
MUSTER_API muster_status muster_restart_atomic_end(muster_restart *restart);

/* Begins a section, a long phase without calls of muster, such as a compilation. Inside it
 * `limit_ms` replaces soft_timeout and hard_timeout: after `limit_ms` follows a soft timeout that
 * names the phase, and after limit_ms + hard_timeout - soft_timeout the process is killed. -1: no
 * limit, no hang detection. Sections nest, at most 8 deep (ELIMIT): the innermost counts. The
 * return of fn ends open sections. `name` is copied, at most 31 bytes of it. Both return OK or
 * EINTERRUPTED as check; the section is begun and ended all the same. EINVAL: from another thread,
 * no name, a limit of 0, an end without a begin. Thread: fn's. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_section_begin(muster_restart *restart,
                                                                      const char *name,
                                                                      int64_t limit_ms);
/* Ends a section: muster_restart_section_begin. Since 0.1. */
MUSTER_API muster_status muster_restart_section_end(muster_restart *restart);

/* Why an attempt ended. */
enum muster_fault_kind {
    MUSTER_FAULT_EXIT = 1,         /* its process ended; code: the status */
    MUSTER_FAULT_SIGNAL = 2,       /* its process was killed; code: the signal */
    MUSTER_FAULT_GONE = 3,         /* its process ended, status unknown */
    MUSTER_FAULT_UNRESPONSIVE = 4, /* it, or its host, was silent for a whole lease */
    /* fn or initialize failed; code and text are its own. Or, with the code MUSTER_ELOST, the
     * connection of a peer to it broke; the text names both (muster_restart_lost) */
    MUSTER_FAULT_FAILED = 5,
    MUSTER_FAULT_EVICTED = 6,      /* it missed the seal */
    MUSTER_FAULT_LEFT = 7,         /* it left */
    MUSTER_FAULT_SOFT_TIMEOUT = 8, /* no progress; the text says where it is stuck */
    MUSTER_FAULT_HARD_TIMEOUT = 9, /* no progress until its agent killed it; code: the signal */
    MUSTER_FAULT_UNHEALTHY = 10,   /* its health check or its heartbeats to JAX's front failed */
    MUSTER_FAULT_AGAIN = 11,       /* it asked for a restart */
    MUSTER_FAULT_ABORTED = 12      /* it asked all ranks to end */
};

/* One fault, as the record of an attempt has it. */
struct muster_fault {
    enum muster_fault_kind kind;
    /* The member, and its rank in the generation that ended (or MUSTER_RANK_NONE). Both are
     * MUSTER_RANK_NONE where ranks make no progress and the cause is unknown. */
    uint32_t index, rank;
    int code;
    uint64_t generation; /* that ended */
    uint64_t incarnation;
    uint64_t pid;
    int64_t after_ms;     /* from the seal of that generation to the fault */
    int64_t wall_ms;      /* time since 1970-01-01 UTC, on this machine's clock */
    int64_t detector;     /* the agent that reported it; -1: the rank itself or the service */
    char host[64];        /* cut if longer */
    char text[256];       /* one line; cut if longer */
    uint64_t reserved[4]; /* zero */
};

/* Why the attempt before this one ended: a sealed record, the same on all ranks, the first cause
 * first: the death of a rank stands before the failures of its peers that were reported up to 250
 * ms before it, since their connections to it may have broken first. At most 8 faults are kept;
 * `muster_restart_fault_count` returns how many there were. 0 at the first entry, and after a
 * restart for newcomers only. In abort, finalize and the health check after a fault the record is
 * incomplete: at most the first fault, without its text unless it is this rank's own. Thread: fn's,
 * and that of the abort callbacks. Since 0.1. */
MUSTER_API uint32_t muster_restart_fault_count(muster_restart *restart);
/* A fault of that record, from 0. false: there is no such fault. Since 0.1. */
MUSTER_API bool muster_restart_fault(muster_restart *restart, uint32_t number,
                                     struct muster_fault *out);
/* The name of a kind of fault, "soft-timeout". Static memory. Thread: any. Since 0.1. */
MUSTER_API const char *muster_fault_kind_name(enum muster_fault_kind kind);

#ifdef __cplusplus
}
#endif

#endif
