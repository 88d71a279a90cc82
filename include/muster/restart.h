/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_RESTART_H
#define MUSTER_RESTART_H

/* Restart of a function in the same processes: when a rank fails, hangs or vanishes, the function
 * is interrupted on all the others, and it is called again with a new view, in which the lost one's
 * replacement, a spare, or one rank less takes part. docs/restart.md is the guide.
 *
 * One attempt of a rank, all on the thread that called muster_restart_run but the abort callbacks:
 *
 *   initialize, health_check, the function                       --all are done--> completion
 *     --a fault anywhere--> abort (on a thread of its own, while the function runs)
 *     --the function has returned--> finalize, health_check, and the next generation is sealed */

#include "muster/assignment.h"
#include "muster/client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One run of a function. It is the function's and the callbacks', and of threads that they wait
 * for: not to be used when muster_restart_run has returned. */
typedef struct muster_restart muster_restart;

/* The user's function. It runs on the thread that called muster_restart_run and may be called many
 * times. OK: this rank is done; the run ends when all are. What muster_restart_check, _fail, _again
 * or _leave returned is to be returned; any other status is a fault of this rank, as after
 * muster_restart_fail with that status: ELOST and EFENCED, which calls of muster return to the
 * peers of a rank that was lost or failed, only where nothing of the kind has happened. An OK after
 * EINTERRUPTED was delivered counts as interrupted. `arg` is passed again as it is, with what a
 * failed attempt did to it.
 *
 * exit() in it, or in any other thread meanwhile, with status 0 or 75 leaves the job as
 * muster_restart_leave does, and waits at most a second for the service; with another status it is
 * a death, as is _exit, or the end of the process without muster_client_close: MUSTER_FAULT_EXIT.
 * It and the callbacks must return: to leave them by longjmp, an exception or pthread_exit is
 * undefined, and a forked child must not return from them. A cancellation of the thread waits until
 * the run has returned. A run on another client within it is possible, but neither the interruption
 * of this one nor its progress reaches through. */
typedef muster_status muster_restart_fn(muster_restart *restart, void *arg);

/* A callback of one kind; several are called in the order in which they are listed. OK, or it has
 * failed; a positive number counts as EFAILED. */
typedef muster_status muster_restart_callback(muster_restart *restart, void *arg);
struct muster_restart_hook {
    muster_restart_callback *call;
    void *arg;
};
struct muster_restart_hooks {
    const struct muster_restart_hook *list; /* copied */
    size_t count;
};

/* 0 or NULL: MUSTER_<NAME> of the environment, else the default. A default that does not fit what
 * is set shrinks with it (hard_timeout to 3/4 of barrier_timeout, grace to 1/8 of it, soft_timeout
 * to 2/3 of hard_timeout, health_timeout to half of it); what contradicts then is refused, each
 * rule with its own text: soft_timeout < hard_timeout, hard_timeout + grace < barrier_timeout,
 * settle < soft_timeout, settle < barrier_timeout, and with a health_command health_timeout <
 * hard_timeout. */
struct muster_restart_options {
    size_t size;                /* sizeof */
    int64_t barrier_timeout_ms; /* 120 s: who does not come to the seal is evicted */
    /* SIGRTMIN + 7. Sent to the function's thread so that a blocking system call returns EINTR,
     * again and again until the function has returned, and never inside an atomic section. For the
     * run its handler does nothing and has no SA_RESTART, and the calling thread does not block it;
     * both are put back. A signal that the application has a handler for, or that is a notice of
     * preemption, is refused with EINVAL. The function must not block it. Negative: no signal, the
     * function is interrupted at muster calls and by abort callbacks only. */
    int interrupt_signal;

    /* Switches the whole off (MUSTER_ENABLED=0): muster_restart_run calls the function once and
     * returns what it returned. Nothing is created, `client` may be NULL; check says OK, callbacks
     * are not called. The options are validated all the same. */
    bool disabled;
    /* RANK and WORLD_SIZE are left as they are (MUSTER_EXPORT=0). Else they are set at each entry,
     * RANK is taken out on a spare, and at the end of the run both are as they were. */
    bool keep_environment;

    /* No progress for this long: the rank is interrupted with all others, and goes on (60 s). And
     * for this long: its agent ends its process (90 s). Progress is muster_restart_ping and _step
     * once one of them was called in the attempt, else any call of muster. The clock starts with
     * the first such call of an attempt; with the start of the function when it is set here or in
     * the environment; or when all other ranks have waited for this one alone for soft_timeout. A
     * rank that was told to stop and has not returned after hard_timeout, or spends it in abort,
     * finalize and health check, is ended as well. Negative: never. */
    int64_t soft_timeout_ms, hard_timeout_ms;
    int64_t settle_ms;             /* 0: between a fault and the interruption, for more faults */
    int64_t completion_timeout_ms; /* none: after the first rank is done; then all begin again */
    int64_t grace_ms;              /* MUSTER_GRACE, 5 s: from SIGTERM to SIGKILL */

    /* When restarting is given up, on all ranks together: muster_restart_run returns EFAILED. */
    uint32_t iterations_max; /* attempts that ended by a fault, request or leave; 0: no limit */
    /* Attempts in a row without progress, 16; negative: no limit. An attempt has made progress when
     * a step larger than any before was told (muster_restart_step). One that begins further back
     * than the last one that made progress went back to an old checkpoint: it has made progress
     * when it advanced from where it began, and from then on the steps before it do not count.
     * Where no steps are told, an attempt has made progress when a rank pinged, or when it lasted
     * for soft_timeout. One that a rank asked to end (_again, _leave) does not count. */
    int32_t stalled_max;
    /* Own faults that a rank may have; with one more it leaves alone (EUNHEALTHY). 0: no limit. One
     * that was only interrupted has none. */
    uint32_t faults_max;

    /* Who runs the function, and as what rank; NULL: every member, in the order of its index. */
    const struct muster_assignment *assignment;

    struct muster_restart_hooks
        precondition;                       /* once, before anything: what it returns is returned */
    struct muster_restart_hooks initialize; /* before each attempt; failing is a fault */
    /* After `initialize`, where failing is a fault; and after `finalize`, where it ends this rank
     * with EUNHEALTHY. Local to the rank: it must not wait for peers. */
    struct muster_restart_hooks health_check;
    /* On a thread of its own, once per interrupted attempt, while the function may still run: makes
     * its blocking calls return (shuts sockets down, aborts communicators). The signal begins when
     * they have returned, or after a second. They may look at the view, the faults and the steps;
     * calls of muster that wait return EDEADLK in them. Failing is only logged. */
    struct muster_restart_hooks abort;
    struct muster_restart_hooks finalize;   /* after the function; failing ends this rank with it */
    struct muster_restart_hooks completion; /* after success, on spares too; only logged */
    struct muster_restart_hooks terminate; /* on a rank whose run ends with an error; only logged */

    /* Health checks that need no code, before health_check's own. */
    /* Run by sh -c; healthy when it exits with 0 within the time. What it leaves behind in its
     * process group is killed. A program that ignores SIGCHLD cannot have one. */
    const char *health_command;
    int64_t health_timeout_ms; /* 30 s, of the command */
    const char *health_folder; /* a file can be written and removed there */
};

#define MUSTER_RESTART_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(struct muster_restart_options), 0, 0, false, false, 0, 0, 0, 0, 0, 0, 0, 0, NULL,   \
            {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, NULL, 0,  \
            NULL                                                                                   \
    }

/* Calls fn until it was done on all ranks of one generation. The client must be a rank; a spare
 * waits in here, cheaply, until it is needed, and returns OK without having called fn when the
 * others are done (muster_client_view then says `spare`). One run at a time per client (EDEADLK
 * from within fn, EINVAL from another thread); the next one begins with iteration 0.
 *
 * Returns what fn returned (OK or EPREEMPTED) when all were done. Errors that are the same on all
 * ranks: ETOOFEW (fewer than min_size are left; the client is whole, and the next run waits until
 * the missing ones are back, or for barrier_timeout: then it is ETOOFEW again), EFAILED (restarting
 * was given up, or muster_restart_abort), what the assignment failed with. Of this rank alone,
 * while the others go on: EUNHEALTHY (a health check, or faults_max), what finalize failed with,
 * EFAILED (it held the others up in two attempts in a row), EFENCED (this process was given up),
 * ECANCELLED (the client is closed), ENOMEM, ENOSPACE or ELIMIT (the service has no room, and this
 * rank has left the job). Nothing was started: EINVAL (an option), ENOMEM, what `precondition`
 * returned. Thread: any; it is fn's from then on. Since 0.1.
 */
MUSTER_API MUSTER_MUST_USE muster_status
muster_restart_run(muster_client *client, const struct muster_restart_options *options,
                   muster_restart_fn *fn, void *arg, struct muster_error *err);

/* What follows is for fn and the callbacks.
 *
 * Generation, rank, size and iteration of this attempt; they do not change while it runs. A few
 * loads. All ranks of a generation are told the same iteration, a newcomer too. Thread: any, while
 * fn runs. Since 0.1. */
MUSTER_API void muster_restart_view(muster_restart *restart, struct muster_view *out);

/* OK, or EINTERRUPTED: clean up and return it. Once EINTERRUPTED, it stays so until fn returned. An
 * atomic load and a counter; call it as often as you like. Thread: any, while fn runs. Since 0.1.
 */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_check(muster_restart *restart);

/* The same, and says "I made progress": a counter that the node's agent watches. While fn's thread
 * waits in a blocking call of muster it need not. Thread: any, while fn runs. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_ping(muster_restart *restart);

/* The same, and how far: the first step and the largest of an attempt, on any rank, tell progress
 * from running in circles (stalled_max). Of two threads that tell one at once the smaller may
 * count. Thread: any, while fn runs. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_step(muster_restart *restart, int64_t step);

/* Records why fn fails; returns EFAILED, to be returned from fn. The others are interrupted at
 * once, and this rank goes on with them when fn has returned. `text` is copied; NULL: none. The
 * first word of an attempt counts, but for that of abort. As the next three: EINVAL, and nothing is
 * told, from another thread, a forked child, and where no attempt is in progress (abort, finalize
 * and what follows). Thread: fn's, in fn, initialize and the health check before it. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_fail(muster_restart *restart, int code,
                                                             const char *text);

/* Asks that all ranks call fn again, without a failure; returns EINTERRUPTED, to be returned from
 * fn. Thread: fn's. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_again(muster_restart *restart);

/* This rank ends here while the job goes on: when fn returns what this returns, the rank leaves the
 * job, the others are interrupted and seal a generation without it, and muster_restart_run returns
 * OK. Thread: fn's, in fn itself. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_leave(muster_restart *restart);

/* Ends the run on all ranks: muster_restart_run returns EFAILED with this text everywhere. Returns
 * EFAILED, to be returned from fn. Thread: fn's. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_abort(muster_restart *restart, int code,
                                                              const char *text);

/* What stands between the two is not interrupted: a short local write, never a wait for a peer. In
 * it check and ping say OK, no signal is sent, abort callbacks wait, and blocking calls of muster
 * return EDEADLK. Nests. begin: OK, or EINTERRUPTED when the interruption came first: the section
 * is not entered and must not be ended. end: EINTERRUPTED when it came meanwhile. A section longer
 * than soft_timeout is a fault; after hard_timeout the process is ended. What is still open when fn
 * returns is ended with it. Costs an atomic operation each. EINVAL: from another thread; an end
 * without a begin. ELIMIT: a million deep. Thread: fn's. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_atomic_begin(muster_restart *restart);
MUSTER_API muster_status muster_restart_atomic_end(muster_restart *restart);

/* A long phase without calls of muster, such as a compilation: between the two soft_timeout and
 * hard_timeout do not count; instead `limit_ms`, after which it is a soft timeout that names the
 * phase, and after limit_ms + hard_timeout - soft_timeout the process is ended; -1: no limit, hangs
 * are not looked for. Nests, at most 8 deep (ELIMIT): the innermost counts. What is still open when
 * fn returns is ended with it. `name` is copied, at most 31 bytes of it. Both: OK or EINTERRUPTED
 * as check; the section is begun and ended all the same. EINVAL: from another thread, no name, a
 * limit of 0, an end without a begin. Thread: fn's. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_restart_section_begin(muster_restart *restart,
                                                                      const char *name,
                                                                      int64_t limit_ms);
MUSTER_API muster_status muster_restart_section_end(muster_restart *restart);

/* Why an attempt ended. */
enum muster_fault_kind {
    MUSTER_FAULT_EXIT = 1,         /* its process ended; code: the status */
    MUSTER_FAULT_SIGNAL = 2,       /* its process was killed; code: the signal */
    MUSTER_FAULT_GONE = 3,         /* its process is gone, the status unknown */
    MUSTER_FAULT_UNRESPONSIVE = 4, /* nothing was heard of it, or its host, for a whole lease */
    MUSTER_FAULT_FAILED = 5,       /* fn or initialize failed; code and text are its own */
    MUSTER_FAULT_EVICTED = 6,      /* it did not come to the seal in time */
    MUSTER_FAULT_LEFT = 7,         /* it left */
    MUSTER_FAULT_SOFT_TIMEOUT = 8, /* no progress; the text says where it stands, after a name */
    MUSTER_FAULT_HARD_TIMEOUT = 9, /* none for so long that its agent ended it; code: the signal */
    MUSTER_FAULT_UNHEALTHY = 10,   /* its health check failed */
    MUSTER_FAULT_AGAIN = 11,       /* it asked for a restart */
    MUSTER_FAULT_ABORTED = 12      /* it asked that all end */
};

struct muster_fault {
    enum muster_fault_kind kind;
    /* Whose; the rank in the generation that ended, or MUSTER_RANK_NONE. Both are that where ranks
     * make no progress and nothing tells which of them is why. */
    uint32_t index, rank;
    int code;
    uint64_t generation; /* that ended */
    uint64_t incarnation;
    uint64_t pid;
    int64_t after_ms;     /* from the sealing of that generation to the fault */
    int64_t wall_ms;      /* when, since 1970-01-01 UTC, on this machine's clock */
    int64_t detector;     /* the agent that told it; -1: the rank itself or the service */
    char host[64];        /* cut if longer */
    char text[256];       /* one line; cut if longer */
    uint64_t reserved[4]; /* zero */
};

/* The sealed record: why the attempt before this one ended, the same on all ranks, the first cause
 * first; 8 at most are told, `muster_restart_fault_count` says how many there were. 0 at the first
 * entry, and when it only was for newcomers. From abort, finalize and the health check after a
 * fault: what is known so far, which is at most the first fault, and of that not the text, unless
 * it is this rank's own. Thread: fn's, and that of the abort callbacks. Since 0.1. */
MUSTER_API uint32_t muster_restart_fault_count(muster_restart *restart);
/* false: there is no such one. */
MUSTER_API bool muster_restart_fault(muster_restart *restart, uint32_t number,
                                     struct muster_fault *out);
/* "soft-timeout"; static memory. Thread: any. */
MUSTER_API const char *muster_fault_kind_name(enum muster_fault_kind kind);

#ifdef __cplusplus
}
#endif

#endif
