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
 * What holds for every function of this library that takes a client:
 * - Thread: any thread may call it, several at once; they share one connection. A handle is dead in
 *   a child after fork: every call there returns EINVAL and says so, and close only closes the
 *   child's copies of its descriptors.
 * - Closing: a handle that is closed or freed is used no more. What other threads have begun with a
 *   client when muster_client_close is called is ended and waited for; to begin a call meanwhile,
 *   or later, is undefined, as with any memory that was freed. Only calls that were started
 * (call.h) may be waited for, cancelled and freed at any time.
 * - NULL: a handle that is NULL is EINVAL; where there is no status, what an empty one would say.
 * - Descriptors: a client has some, above those of the standard streams. A program that closes one
 *   of them ends the session: EUNREACHABLE, with a line that says so.
 * - Cancellation: no function is a cancellation point. A thread that is cancelled in one (or in a
 *   callback that runs in one) goes on until it has returned. A wait that must end earlier is given
 *   a `timeout_ms`, or is started (call.h) and ended with muster_call_cancel.
 * - A callback returns: leaving one by longjmp, an exception or pthread_exit is undefined.
 * - Time: `timeout_ms` is relative; -1 waits without limit. 0 waits for nothing but the service's
 *   own answer, which is given up after one lease. While the service is away calls wait for it, and
 *   what was sent is repeated safely when it is back: a write is applied once.
 * - A write that ends with ETIMEDOUT, ECANCELLED or EINTERRUPTED may or may not have been applied.
 * - Errors: EINVAL (an argument; `err` says which), ENOMEM, ELIMIT (a limit, which `err` names),
 *   ETIMEDOUT, EUNREACHABLE (the service cannot be reached), EFENCED (this process was given up: a
 *   newer one goes on), EINTERRUPTED (inside muster_restart_run: the job restarts), EINTERNAL. What
 *   a function can return beyond these is said there. `err` may be NULL.
 * - A function that blocks has a twin, X_start, that does not: call.h.
 * - The inputs are borrowed for the call. What is returned is the caller's, and freed with the
 *   `_free` function of its type; `_free(NULL)` is a no-op. */
typedef struct muster_client muster_client;

enum muster_role {
    MUSTER_ROLE_RANK = 0,    /* one of the job's group */
    MUSTER_ROLE_WORKER = 1,  /* known to the job, in no generation */
    MUSTER_ROLE_AGENT = 2,   /* watches the processes of a node */
    MUSTER_ROLE_OBSERVER = 3 /* sees everything and is no member */
};

/* When newcomers are let in. */
enum muster_grow {
    MUSTER_GROW_DEFAULT = 0, /* MUSTER_GROW, else CHECK */
    MUSTER_GROW_CHECK = 1,   /* at the next check of every rank */
    MUSTER_GROW_FAULT = 2,   /* with the next fault */
    MUSTER_GROW_OFF = 3
};

enum muster_level {
    MUSTER_LEVEL_ERROR = 0, /* somebody must act */
    MUSTER_LEVEL_WARN = 1,  /* handled, but unexpected */
    MUSTER_LEVEL_INFO = 2,  /* the job's state changed */
    MUSTER_LEVEL_DEBUG = 3
};

#define MUSTER_INDEX_ENV (-1)       /* MUSTER_INDEX, else any */
#define MUSTER_INDEX_ANY (-2)       /* the lowest place that is free */
#define MUSTER_RANK_NONE UINT32_MAX /* in no generation */

/* Who this process is. A field that is 0 or NULL (`index`: MUSTER_INDEX_ENV) is taken from the
 * environment, else from the default. All members of a job must agree on size_of_job, min_size,
 * max_size, size_multiple and join_wait_ms where they name them: who names another value is refused
 * alone. */
struct muster_client_options {
    size_t size;      /* sizeof: how the ABI grows */
    uint32_t version; /* MUSTER_VERSION; 0: not checked */
    enum muster_role role;
    const char *addr;      /* MUSTER_ADDR: "unix:/path" or "HOST:PORT", several with commas */
    const char *job;       /* MUSTER_JOB, "default" */
    int64_t index;         /* this process's place in the job, for life */
    uint32_t size_of_job;  /* MUSTER_SIZE: ranks the job starts with */
    uint32_t min_size;     /* MUSTER_MIN_SIZE, 1: ranks below which it does not go on */
    int64_t join_wait_ms;  /* MUSTER_JOIN_WAIT, wait for all: start with min_size after this long */
    enum muster_grow grow; /* MUSTER_GROW */
    const char *host;      /* shown to people; NULL: the system's host name */
    /* Receives one line per event worth knowing; NULL: nothing is told, the library never prints.
     * Called from any thread that drives the connection, never twice at once. A muster call in it
     * on the same client returns EDEADLK. */
    void (*log)(void *ctx, enum muster_level level, const char *line);
    void *log_ctx;
    /* MUSTER_SECRET_FILE, else the descriptor MUSTER_SECRET_FD: the job's secret, 16 to 64 random
     * bytes that only this user can read. With it TCP connections speak TLS 1.3 and nothing else;
     * Unix sockets need none. It is read once, in open. */
    const char *secret_file;
    bool insecure; /* MUSTER_INSECURE: without a secret, speak plain TCP to other machines too */
    /* At most so many ranks are in a generation (MUSTER_MAX_SIZE), and a multiple of so many
     * (MUSTER_SIZE_MULTIPLE); 0: no limit. Whoever is beyond waits as a spare; its open returns
     * too, with muster_view.spare. */
    uint32_t max_size, size_multiple;
};

#define MUSTER_CLIENT_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(struct muster_client_options), MUSTER_VERSION, MUSTER_ROLE_RANK, NULL, NULL,        \
            MUSTER_INDEX_ENV, 0, 0, 0, MUSTER_GROW_DEFAULT, NULL, NULL, NULL, NULL, false, 0, 0    \
    }

/* Where this process stands. */
struct muster_view {
    uint64_t generation;  /* the number of the sealed membership; 0: in none yet */
    uint64_t incarnation; /* of this place: a replacement has a larger one */
    uint64_t iteration;   /* of muster_restart_run: the attempt, from 0, the same on all ranks */
    uint32_t rank;        /* in this generation, 0 to size - 1; or MUSTER_RANK_NONE */
    uint32_t size;        /* ranks of this generation */
    uint32_t index;       /* this process's place, for life: printed "#2" */
    bool spare; /* it waits for a seat: rank is NONE, size that of the generation without it */
    uint64_t reserved[4]; /* zero */
};

/* Connects, opens a session and claims a place; a rank then waits until it is in a generation. A
 * place held by a living process is waited for: this process takes over when the holder's loss is
 * decided. A rank that is told no index takes it from its launcher (srun, mpirun, torchrun and
 * others: `muster env` shows what is found), the size and the job's name too unless they are given;
 * variables that contradict each other or tell only half are refused, never guessed from. The first
 * ranks of a job at an address must name its size (or join_wait_ms): EINVAL. Without
 * an address, a program started alone becomes a job of one: the library starts `muster serve` as
 * its child; ranks that their launcher started all on this machine share one service that the first
 * of them starts and that ends with the last of them. One line on stderr says so.
 *
 * On success the caller owns *out; on failure *out is NULL. Options NULL: all from the environment.
 * Errors, beyond the general ones: EUNREACHABLE with the address that was tried when it could not
 * be reached within `timeout_ms`, or at once when the secret is not the service's; ETIMEDOUT naming
 * who is missing; EEXISTS when the place's holder turned out to be alive, with its host and pid;
 * EINVAL also for a library older than the header. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status
muster_client_open(muster_client **out, const struct muster_client_options *options,
                   int64_t timeout_ms, struct muster_error *err);

/* Ends the session and frees the handle. Calls in progress in other threads are ended with
 * ECANCELLED first and waited for, those that were started as well (call.h); a function that
 * muster_restart_run runs there is interrupted, and waited for as well. A rank that closes without
 * muster_member_leave leaves: that is no fault. Waits at most a second for the service. NULL: a
 * no-op. Not from the log callback, an abort callback or one of muster_client_dispatch: it would
 * wait for itself. From within the function, as a handler of exit() may do it, the rank only
 * leaves, and not before the process has ended or the function has returned: then its run ends with
 * ECANCELLED, and the handle is still to be closed. Since 0.1. */
MUSTER_API void muster_client_close(muster_client *client);

/* Where this process stands now. Costs no round trip. Since 0.1. */
MUSTER_API void muster_client_view(muster_client *client, struct muster_view *out);

/* The library's version, "0.1.0". Static memory. Thread: any. Since 0.1. */
MUSTER_API const char *muster_version(void);

#ifdef __cplusplus
}
#endif

#endif
