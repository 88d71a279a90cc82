/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_CLIENT_H
#define MUSTER_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "muster/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of these headers; muster_version() is the library's. */
#define MUSTER_VERSION_MAJOR 0
#define MUSTER_VERSION_MINOR 1
#define MUSTER_VERSION_PATCH 0
#define MUSTER_VERSION                                                                             \
    (MUSTER_VERSION_MAJOR * 10000u + MUSTER_VERSION_MINOR * 100u + MUSTER_VERSION_PATCH)

/* A process's session with the service, and its place in the job.
 *
 * The following holds for every function of this library that takes a client:
 * - Thread: any thread may call it, several at once; they share one connection. In a child after
 *   fork a handle is dead: every call returns EINVAL and says so, and close only closes the child's
 *   copies of the descriptors.
 * - Closing: do not use a handle after it was closed or freed. muster_client_close ends the calls
 *   that other threads have begun, and waits for them. To begin a call during or after the close is
 *   undefined, as with any freed memory. Only started calls (call.h) may be waited for, cancelled
 *   and freed at any time.
 * - NULL: a NULL handle gives EINVAL; a function without a status returns its empty value.
 * - Descriptors: a client has some, above the standard streams. A program that closes one of them
 *   ends the session: EUNREACHABLE, with a line that says so.
 * - Cancellation: no function is a cancellation point. A thread that is cancelled in a function, or
 *   in a callback inside it, continues until the function has returned. To end a wait early, pass a
 *   `timeout_ms`, or start the call (call.h) and end it with muster_call_cancel.
 * - A callback returns: leaving one by longjmp, an exception or pthread_exit is undefined.
 * - Time: `timeout_ms` is relative; -1 waits without limit. 0 waits only for the service's answer,
 *   for at most one lease. While the service is away, calls wait for it. When it is back, requests
 *   are repeated safely: a write is applied once.
 * - Writes: a write that ends with ETIMEDOUT, ECANCELLED or EINTERRUPTED may or may not have been
 *   applied.
 * - Errors: EINVAL (an argument; `err` says which), ENOMEM, ELIMIT (a limit, which `err` names),
 *   ETIMEDOUT, EUNREACHABLE (the service cannot be reached), EFENCED (this process was replaced;
 *   the job continues without it), EINTERRUPTED (inside muster_restart_run: the job restarts),
 *   EINTERNAL. Each function lists its further errors. `err` may be NULL.
 * - A function that blocks has a non-blocking twin, X_start: call.h.
 * - Ownership: inputs are borrowed for the call. The caller owns what is returned, and frees it
 *   with the `_free` function of its type; `_free(NULL)` is a no-op. */
typedef struct muster_client muster_client;

/* What a process is in its job. */
enum muster_role {
    MUSTER_ROLE_RANK = 0,    /* a member that takes part in generations */
    MUSTER_ROLE_WORKER = 1,  /* known to the job, in no generation */
    MUSTER_ROLE_AGENT = 2,   /* watches the processes of a node */
    MUSTER_ROLE_OBSERVER = 3 /* sees everything, is no member */
};

/* When newcomers are admitted. */
enum muster_grow {
    MUSTER_GROW_DEFAULT = 0, /* MUSTER_GROW, else CHECK */
    MUSTER_GROW_CHECK = 1,   /* at the next check of every rank */
    MUSTER_GROW_FAULT = 2,   /* with the next fault */
    MUSTER_GROW_OFF = 3
};

/* How important a line of the log is. */
enum muster_level {
    MUSTER_LEVEL_ERROR = 0, /* an operator must act */
    MUSTER_LEVEL_WARN = 1,  /* handled, but unexpected */
    MUSTER_LEVEL_INFO = 2,  /* the job's state changed */
    MUSTER_LEVEL_DEBUG = 3
};

#define MUSTER_INDEX_ENV (-1)       /* MUSTER_INDEX, else any */
#define MUSTER_INDEX_ANY (-2)       /* the lowest place that is free */
#define MUSTER_RANK_NONE UINT32_MAX /* in no generation */

/* The identity of this process. A field that is 0 or NULL (`index`: MUSTER_INDEX_ENV) is taken from
 * the environment, else from the default. All members that set size_of_job, min_size, max_size,
 * size_multiple or join_wait_ms must set the same value; a member with another value is refused
 * alone. */
struct muster_client_options {
    size_t size;      /* sizeof: how the ABI grows */
    uint32_t version; /* MUSTER_VERSION; 0: not checked */
    enum muster_role role;
    const char *addr;      /* MUSTER_ADDR: "unix:/path" or "HOST:PORT", several with commas */
    const char *job;       /* MUSTER_JOB, "default" */
    int64_t index;         /* this process's place in the job; never changes */
    uint32_t size_of_job;  /* MUSTER_SIZE: ranks the job starts with */
    uint32_t min_size;     /* MUSTER_MIN_SIZE, 1: ranks that the job needs to continue */
    int64_t join_wait_ms;  /* MUSTER_JOIN_WAIT, no limit: start with min_size after this long */
    enum muster_grow grow; /* MUSTER_GROW */
    const char *host;      /* shown to people; NULL: the system's host name */
    /* Receives one line per event worth knowing. NULL: no log; the library never prints. Called
     * from any thread that drives the connection, never twice at once. A muster call in it on the
     * same client returns EDEADLK. */
    void (*log)(void *ctx, enum muster_level level, const char *line);
    void *log_ctx;
    /* MUSTER_SECRET_FILE, else the descriptor MUSTER_SECRET_FD: the job's secret, 16 to 64 random
     * bytes that only this user can read. With it TCP connections use TLS 1.3 only; Unix sockets
     * need none. Read once, in open. */
    const char *secret_file;
    bool insecure; /* MUSTER_INSECURE: without a secret, use plain TCP to other machines too */
    /* Limits of a generation: at most this many ranks (MUSTER_MAX_SIZE), and a multiple of this
     * number (MUSTER_SIZE_MULTIPLE); 0: no limit. A member beyond them waits as a spare; its open
     * returns too, with muster_view.spare. */
    uint32_t max_size, size_multiple;
};

#define MUSTER_CLIENT_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(struct muster_client_options), MUSTER_VERSION, MUSTER_ROLE_RANK, NULL, NULL,        \
            MUSTER_INDEX_ENV, 0, 0, 0, MUSTER_GROW_DEFAULT, NULL, NULL, NULL, NULL, false, 0, 0    \
    }

/* The membership as this process sees it. */
struct muster_view {
    uint64_t generation;  /* the number of the sealed membership; 0: none yet */
    uint64_t incarnation; /* of this place: a replacement has a larger one */
    uint64_t iteration;   /* of muster_restart_run: the attempt, from 0, the same on all ranks */
    uint32_t rank;        /* in this generation, 0 to size - 1; or MUSTER_RANK_NONE */
    uint32_t size;        /* ranks of this generation */
    uint32_t index;       /* this process's place, which never changes: printed "#2" */
    bool spare; /* it waits as a spare: rank is NONE, size that of the generation without it */
    /* Ranks the job starts with, as its members set it; a generation without lost ranks is smaller.
     * 0: none set it (join_wait_ms). */
    uint32_t size_of_job;
    uint64_t reserved[3]; /* zero */
};

/* Connects, opens a session and claims a place; a rank then waits until it is in a generation (the
 * rendezvous). A place that a living process holds is waited for: this process takes over once the
 * holder is lost.
 *
 * A rank without an index takes it from its launcher (srun, mpirun, torchrun and others; `muster
 * env` shows what it finds), and so it does with the size and the job's name. Variables that
 * contradict each other or are incomplete are refused, never guessed from. The first ranks of a job
 * at an address must set its size (or join_wait_ms): EINVAL. Where `muster run` started another
 * process that opened as a worker, not all ranks can come: EINVAL too, naming it. A process that is
 * both opens its rank first.
 *
 * Without an address, a program started alone becomes a job of one: the library starts `muster
 * serve` as its child. Ranks that their launcher started all on this machine share one service; the
 * first rank starts it, and it ends with the last. One line on stderr says so.
 *
 * On success the caller owns *out; on failure *out is NULL. Options NULL: all from the environment.
 *
 * Errors, beyond the general ones: EUNREACHABLE with the address, when it could not be reached
 * within `timeout_ms`, or at once when the secret differs from the service's; ETIMEDOUT naming the
 * missing ranks; EEXISTS when the place's holder turned out to be alive, with its host and pid;
 * EINVAL also for a library older than the header. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status
muster_client_open(muster_client **out, const struct muster_client_options *options,
                   int64_t timeout_ms, struct muster_error *err);

/* Ends the session and frees the handle. First ends the calls in progress in other threads with
 * ECANCELLED and waits for them, also the started ones (call.h). Interrupts a function that
 * muster_restart_run runs there, and waits for it as well. A rank that closes without
 * muster_member_leave leaves the job; that is no fault. Waits at most a second for the service.
 * NULL: a no-op.
 *
 * Not from the log callback, an abort callback or a callback of muster_client_dispatch: it would
 * wait for itself. From within the function of muster_restart_run (a handler of exit() may do it),
 * the rank only leaves, and not before the process has ended or the function has returned. Its run
 * then ends with ECANCELLED, and the handle must still be closed. Since 0.1. */
MUSTER_API void muster_client_close(muster_client *client);

/* The current view. Costs no round trip. Since 0.1. */
MUSTER_API void muster_client_view(muster_client *client, struct muster_view *out);

/* The library's version, "0.1.0". Static memory. Thread: any. Since 0.1. */
MUSTER_API const char *muster_version(void);

#ifdef __cplusplus
}
#endif

#endif
