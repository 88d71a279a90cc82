/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_STATUS_H
#define MUSTER_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MUSTER_API __attribute__((visibility("default")))
#define MUSTER_MUST_USE __attribute__((warn_unused_result))
#else
#define MUSTER_API
#define MUSTER_MUST_USE
#endif

/* The result of a call. Negative is failure, always. Codes are grouped by what is lost, because
 * that is what the caller must rebuild. New codes may be added: treat an unknown negative code as a
 * failed call. */
typedef enum muster_status {
    MUSTER_OK = 0,
    MUSTER_MORE = 1, /* not an error: needs more input */

    /* the call; the handle is fine */
    MUSTER_EINVAL = -1,
    MUSTER_ENOMEM = -2,
    MUSTER_ELIMIT = -3,
    MUSTER_ETIMEDOUT = -4,
    MUSTER_EDEADLK = -5, /* it would wait for itself: called from a callback of muster */
    MUSTER_EEXISTS = -6, /* the key exists; a living process holds the place */
    MUSTER_ENOTFOUND = -7,
    MUSTER_ECONFLICT = -8, /* compare-and-set: the key is not as expected */
    MUSTER_ERANGE = -9,    /* a sum beyond int64, or not a number */
    MUSTER_ESTALE = -10,   /* the round is over, its result no longer kept */
    MUSTER_ECANCELLED = -11,
    MUSTER_EINTERRUPTED = -12, /* the job restarts: clean up and return from the function */
    MUSTER_EPREEMPTED = -13,
    MUSTER_EMISMATCH = -14, /* an all-equal round: the contributions differ */
    MUSTER_ELOST = -15,     /* a participant of this round was lost */
    MUSTER_ETOOFEW = -16,   /* fewer than min_size ranks are left */
    MUSTER_EFAILED = -17,   /* the function failed, or a retry limit was reached */
    MUSTER_EINTERNAL = -18, /* a bug in muster: the handle is unusable, the process lives */
    MUSTER_ENOSPACE = -19,  /* the service's disk is full: nothing was changed */

    MUSTER_EUNHEALTHY = -22, /* a failed health check or too many own faults: this rank leaves */
    MUSTER_ESTATE = -23,     /* a state server that closures depend on failed */

    /* the session: the service was not reached, or speaks another protocol */
    MUSTER_EUNREACHABLE = -20,
    MUSTER_EPROTO = -21,

    /* the membership: this process was replaced; the job continues without it */
    MUSTER_EFENCED = -40
} muster_status;

/* Borrowed bytes; `data` may be NULL when `size` is 0. */
struct muster_slice {
    const void *data;
    size_t size;
};

/* Which rule ended a run of muster_restart_run, where its status alone does not tell: EFAILED has
 * several meanings, and a callback may return any status. New values may be added. */
enum muster_why {
    MUSTER_WHY_STATUS = 0, /* the status says it all */

    /* on all ranks */
    MUSTER_WHY_ITERATIONS = 1, /* iterations_max */
    MUSTER_WHY_STALLED = 2,    /* stalled_max */
    MUSTER_WHY_ABORTED = 3,    /* a rank called muster_restart_abort */
    MUSTER_WHY_ASSIGNMENT = 7, /* the assignment could not be worked out */

    /* on this rank alone, while the others continue */
    MUSTER_WHY_FAULTS = 4,       /* faults_max */
    MUSTER_WHY_UNHEALTHY = 5,    /* its health check failed */
    MUSTER_WHY_FINALIZE = 6,     /* its finalize failed */
    MUSTER_WHY_SUSPECT = 8,      /* it delayed the others in two attempts in a row */
    MUSTER_WHY_WAIT_CHECK = 9,   /* its wait_check failed */
    MUSTER_WHY_PRECONDITION = 10 /* its precondition failed; nothing was started */
};

/* Filled by a call only when it fails; every function accepts NULL instead. Owned by the caller. */
struct muster_error {
    muster_status status;
    int os_errno;   /* 0: the operating system was not involved */
    char text[484]; /* one line: what was attempted, what happened, which members, what to do */
    enum muster_why why; /* of muster_restart_run; else 0 */
};

/* The name of a status as in this header, "MUSTER_ETIMEDOUT"; "MUSTER_?" if unknown. Static memory.
 * Thread: any. Since 0.1. */
MUSTER_API const char *muster_status_name(muster_status status);

/* The meaning of a status in a few words. Static memory. Thread: any. Since 0.1. */
MUSTER_API const char *muster_status_text(muster_status status);

/* The exit code for a program: 0 for OK, 75 (saved, run me again) for EPREEMPTED, 1 for everything
 * else. Thread: any. Since 0.1. */
MUSTER_API int muster_exit_code(muster_status status);

#ifdef __cplusplus
}
#endif

#endif
