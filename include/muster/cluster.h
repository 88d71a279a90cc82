/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_CLUSTER_H
#define MUSTER_CLUSTER_H

/* The coordinator of a cluster: named functions are scheduled here and run on workers, which come,
 * go and crash; each result counts once.
 *
 *   status = muster_cluster_open(&cluster, client, NULL, -1, &err);
 *   for (i = 0; i < count; i++)
 *       status = muster_cluster_schedule(cluster, "square", &part, 1, NULL, -1, &closure[i], &err);
 *   status = muster_cluster_join(cluster, -1, &err);
 *   status = muster_closure_fetch(closure[0], -1, &parts, &part_count, &err);
 *
 * A *closure* is one scheduled call; each try of it is an *attempt*. While a worker is lost, frozen
 * or cut off its closures run elsewhere, and the user learns nothing of it but a line in the log.
 * An error of a function ends the *series*: what is queued is cancelled, what runs is stopped, and
 * then exactly one call of schedule, join or done returns EFAILED (ESTATE: a state server failed);
 * after it all is as good as new. docs/cluster.md is the guide; worker.h the other side; what
 * client.h says of threads, time and errors holds here.
 *
 * - The coordinator has a thread of its own: it makes progress whatever the program does.
 * - One coordinator acts at a time: it holds a *term*. Who is fenced, or whose key is gone, is
 *   superseded: all calls end with EFENCED, and the workers obey the next one.
 * - Errors, besides the general ones: ECANCELLED (it was closed meanwhile), EFENCED (superseded),
 *   ETOOFEW (fewer than min_workers for recovery_max_ms), EFAILED and ESTATE as above.
 * - After fork a handle is dead in the child, as a client is. */

#include "muster/client.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_cluster muster_cluster;       /* the coordinator */
typedef struct muster_closure muster_closure;       /* one scheduled call, and what comes of it */
typedef struct muster_per_worker muster_per_worker; /* a value on each worker */
typedef struct muster_dataset muster_dataset;       /* what per-worker iterators are made from */

/* An argument or a result is a list of these. */
struct muster_part {
    const void *data; /* may be NULL when size is 0 */
    size_t size;
    uint32_t type; /* yours: muster never looks at it */
};

/* Whose fault it is that there is no value. New ones may be added. */
enum muster_origin {
    MUSTER_ORIGIN_NONE = 0,      /* there is a value */
    MUSTER_ORIGIN_FUNCTION = 1,  /* it returned an error: code and text are its own */
    MUSTER_ORIGIN_CRASH = 2,     /* its process ended in it: the exit status, or minus the signal */
    MUSTER_ORIGIN_LOST = 3,      /* its worker was lost, and it must not run twice (once) */
    MUSTER_ORIGIN_STATE = 4,     /* a registered state server failed it: `state_server` */
    MUSTER_ORIGIN_INPUT = 5,     /* a per-worker value it needs could not be built: `cause` */
    MUSTER_ORIGIN_CANCELLED = 6, /* by a call, or with its series */
    MUSTER_ORIGIN_DEADLINE = 7,  /* one of its three limits of time */
    MUSTER_ORIGIN_EXHAUSTED = 8, /* a limit of memory or of output */
    MUSTER_ORIGIN_POISON = 9,    /* it cost so many workers as options.poison says */
    MUSTER_ORIGIN_UNKNOWN = 10,  /* no worker has such a function, or such a version */
    MUSTER_ORIGIN_ARGUMENT = 11, /* the worker could not take its arguments */
    MUSTER_ORIGIN_INTERNAL = 12, /* a bug of muster */
    MUSTER_ORIGIN_RETRYABLE = 14 /* FUNCTION, and another try may do: its retries are used up */
};

#define MUSTER_WORKER_NONE UINT32_C(4294967295)

/* Why there is no value: decided by structure, never by text. */
struct muster_failure {
    enum muster_origin origin;
    int32_t code;
    uint32_t worker;                    /* its number, or MUSTER_WORKER_NONE */
    uint32_t attempt;                   /* from 1; 0: none began */
    uint64_t incarnation;               /* of the worker */
    uint64_t closure;                   /* its number */
    const char *text;                   /* one line; "" */
    const char *state_server;           /* ORIGIN_STATE: its name; "" */
    const struct muster_failure *cause; /* NULL: none. At most 8 deep */
};

/* What a failure does to the others. */
enum muster_cluster_policy {
    MUSTER_CLUSTER_FAIL_FAST = 0, /* the first one ends the series, and is delivered */
    MUSTER_CLUSTER_COLLECT = 1,   /* everything runs; then join delivers all of them at once */
    MUSTER_CLUSTER_ISOLATE = 2    /* they are in their closures only, and none is delivered */
};

/* 0 or NULL: MUSTER_CLUSTER_<NAME> of the environment, else the default. */
struct muster_cluster_options {
    size_t size;      /* sizeof */
    const char *name; /* "default": letters, digits, '.', '_' and '-', at most 64 */
    enum muster_cluster_policy policy;
    uint32_t queue_limit; /* 262,144 closures; with so many schedule waits */
    uint64_t queue_bytes; /* 1 GiB of arguments; likewise */
    uint32_t min_workers; /* 0: join waits for workers without end; else see recovery_max_ms */
    uint32_t poison;      /* 3: workers that a closure may cost */
    uint32_t prefetch;    /* 1: closures that a worker has ready per slot, at least */
    /* 3: so many reports of one state server within a minute are fatal; -1: the first one is */
    int32_t transient_limit;
    int64_t recovery_max_ms; /* 1 h: a worker that stays away so long is given up, and with fewer
                                than min_workers for so long all calls end with ETOOFEW */
    int64_t cancel_grace_ms; /* 5 s: of an attempt that is cancelled or over its time, until it is
                                killed */
    int64_t series_grace_ms; /* 30 s: of all attempts, when a series ends */
    int64_t start_delay_ms;  /* 0: worker i takes its first closure i times this after the start */
    int64_t start_delay_max_ms; /* 0: no limit; the longest such wait */
    int64_t unknown_grace_ms;   /* 30 s: for a worker to come that has the function */
    int64_t watchdog_ms; /* 0: off; without a closure that ends for so long, one line says so */
    /* HOST:PORT, with a number as host, to listen on for workers of other machines. NULL: the
     * address by which this machine reaches the service, and any port. Listened to when the service
     * is reached by TCP, or there is a secret, or MUSTER_INSECURE. */
    const char *listen;
    uint64_t reserved[4]; /* zero */
};

#define MUSTER_CLUSTER_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(struct muster_cluster_options), NULL, MUSTER_CLUSTER_FAIL_FAST, 0, 0, 0, 0, 0, 0,   \
            0, 0, 0, 0, 0, 0, 0, NULL,                                                             \
        {                                                                                          \
            0, 0, 0, 0                                                                             \
        }                                                                                          \
    }

/* Becomes the coordinator of the cluster of that name in the client's job: waits until there is no
 * other one, at most `timeout_ms`. A coordinator that died is replaced once the service knows that:
 * its workers drop what they run for it. On success the caller owns *out, which is closed before
 * its client; on failure *out is NULL. The client may have any role; one that is a member is
 * noticed sooner when it dies. Options NULL: all from the environment. ETIMEDOUT: another
 * coordinator has the term; EEXISTS: this client has one already; EINVAL also for what cannot be
 * listened on. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_open(
    muster_cluster **out, muster_client *client, const struct muster_cluster_options *options,
    int64_t timeout_ms, struct muster_error *err);

/* Cancels what is there, lets the workers go and gives the term up; no thread, socket or file is
 * left. Calls of other threads end with ECANCELLED and are waited for; closures and values that are
 * still held say ECANCELLED from now on, unless their outcome was looked at before; they are to be
 * released all the same. NULL: a no-op. Not from the client's log callback. Since 0.1. */
MUSTER_API void muster_cluster_close(muster_cluster *cluster);

/* A soft end: admits nothing more (schedule says ECANCELLED), and waits until all that is queued
 * and running has ended; then only fetch and close are of use. ETIMEDOUT: it goes on, and the call
 * may be repeated. EFAILED, ESTATE: a failure is delivered. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_drain(muster_cluster *cluster,
                                                              int64_t timeout_ms,
                                                              struct muster_error *err);

/* ---- scheduling ---- */

/* What is said of one closure. 0, false and NULL are the defaults. */
struct muster_closure_options {
    size_t size;               /* sizeof */
    uint32_t version;          /* of the function, exactly; 0: any */
    uint64_t group;            /* of those that are cancelled together; 0: none */
    int64_t start_ms;          /* from its admission, to begin by */
    int64_t run_ms;            /* of each attempt */
    int64_t total_ms;          /* from its admission to its end */
    int32_t error_retries;     /* 0, of an error that the function calls retryable */
    int32_t crash_retries;     /* 1; -1: none. A lost worker costs none of these */
    int32_t exhausted_retries; /* 1; -1: none */
    bool idempotent;           /* it may run again at once when its worker is out of reach */
    bool once;                 /* never a second attempt once one may have begun */
    bool pure;                 /* the same arguments, the same result, and nothing else */
    const char *key; /* of idempotency, for the function; NULL: made of cluster, term and number */
    /* Per-worker values: the function finds the entries of its own worker, by place. Borrowed for
     * the call. */
    muster_per_worker *const *needs;
    size_t need_count;
    uint64_t reserved[4]; /* zero */
};

#define MUSTER_CLOSURE_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(struct muster_closure_options), 0, 0, 0, 0, 0, 0, 0, 0, false, false, false, NULL,  \
            NULL, 0,                                                                               \
        {                                                                                          \
            0, 0, 0, 0                                                                             \
        }                                                                                          \
    }

struct muster_closure_call {
    const char *function;
    const struct muster_part *parts; /* the arguments; copied */
    size_t count;
    const struct muster_closure_options *options; /* NULL: the defaults */
};

/* Admits a closure. Waits while the queue is full or a series is being ended; with a timeout of 0
 * it does not: ELIMIT, the queue is full. Unless OK nothing was admitted and nothing of it will
 * run. `out`: the caller's, to be released; NULL: the result is of no interest, and not kept.
 * EFAILED, ESTATE: the failure of an earlier closure is delivered; ETIMEDOUT; ELIMIT also for a
 * name, a key, needs or arguments larger than a message may have. `err` names the limit. Thread:
 * any. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_schedule(
    muster_cluster *cluster, const char *function, const struct muster_part *parts, size_t count,
    const struct muster_closure_options *options, int64_t timeout_ms, muster_closure **out,
    struct muster_error *err);

/* The same for many, in their order: `*admitted` (may be NULL) of them, the first ones, are
 * admitted, all if OK. `out`: NULL, or room for `count` handles, of which so many are set. Since
 * 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_schedule_many(
    muster_cluster *cluster, const struct muster_closure_call *calls, size_t count,
    int64_t timeout_ms, muster_closure **out, size_t *admitted, struct muster_error *err);

/* Waits until everything that was admitted before this call has ended. OK: with a value each (or
 * under ISOLATE anyhow). EFAILED, ESTATE: a failure is delivered; nothing of its series is queued
 * or running any more. Thread: any. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_join(muster_cluster *cluster,
                                                             int64_t timeout_ms,
                                                             struct muster_error *err);

/* Whether everything has ended. Waits only for the end of a series whose failure it delivers. Makes
 * muster_cluster_fd quiet. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_done(muster_cluster *cluster, bool *out,
                                                             struct muster_error *err);

/* All that a delivered error was: the first 64 in the order in which they came. */
struct muster_failures {
    const struct muster_failure *items;
    size_t kept;
    uint64_t count; /* how many there were */
};

/* Those of the error that was delivered last and not yet taken; NULL: there are none. The caller's.
 * Thread: any. Since 0.1. */
MUSTER_API struct muster_failures *muster_cluster_failures(muster_cluster *cluster);
MUSTER_API void muster_failures_free(struct muster_failures *failures); /* NULL: a no-op */

/* ---- what comes of a closure ---- */

/* Waits until it has ended, whatever with: OK. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_closure_wait(muster_closure *closure,
                                                             int64_t timeout_ms,
                                                             struct muster_error *err);

/* Its result: waits for it, and lends it from the handle until that is released. A function without
 * a result has 0 parts. EFAILED: it failed, see muster_closure_failure; ESTATE: by a state server;
 * ECANCELLED: it, its series or the cluster was. Of a command that failed there is one part of type
 * MUSTER_PART_STDERR (worker.h), if it wrote there: the end of that; else none. ETIMEDOUT: it has
 * not ended yet; a timeout of 0 does not wait. Once it is here it stays, whatever becomes of the
 * workers. Thread: any. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_closure_fetch(muster_closure *closure,
                                                              int64_t timeout_ms,
                                                              const struct muster_part **parts,
                                                              size_t *count,
                                                              struct muster_error *err);

/* Waits until all have ended: each[i] is then what fetch of it returns. OK: all have values; else
 * the first other status, with its text. `each` may be NULL. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_closure_fetch_many(muster_closure *const *closures,
                                                                   size_t count, int64_t timeout_ms,
                                                                   muster_status *each,
                                                                   struct muster_error *err);

/* Waits until one of them has ended: `*index` is the first such. All of one cluster; `count` is at
 * least 1. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_closure_fetch_any(muster_closure *const *closures,
                                                                  size_t count, int64_t timeout_ms,
                                                                  size_t *index,
                                                                  struct muster_error *err);

/* Why it has no value; borrowed from the handle. false: it has one, or has not ended. Since 0.1. */
MUSTER_API bool muster_closure_failure(muster_closure *closure, struct muster_failure *out);

enum muster_closure_state {
    MUSTER_CLOSURE_QUEUED = 1,
    MUSTER_CLOSURE_RUNNING = 2, /* with a worker */
    MUSTER_CLOSURE_VALUE = 3,
    MUSTER_CLOSURE_FAILED = 4
};

struct muster_closure_progress {
    enum muster_closure_state state;
    uint32_t attempts;
    uint32_t worker; /* it is with, or where it ran; or MUSTER_WORKER_NONE */
    uint64_t number;
    double fraction; /* of its progress; below 0: it said none */
    char text[128];  /* of its progress */
};

/* How it stands now. Since 0.1. */
MUSTER_API void muster_closure_look(muster_closure *closure, struct muster_closure_progress *out);

/* Its number: from 1, in the order of admission. Since 0.1. */
MUSTER_API uint64_t muster_closure_number(const muster_closure *closure);

/* Asks it to stop, and makes it after cancel_grace_ms; not waited for. What has ended is not
 * changed. Since 0.1. */
MUSTER_API void muster_closure_cancel(muster_closure *closure);
MUSTER_API void muster_cluster_cancel_group(muster_cluster *cluster, uint64_t group);
MUSTER_API void muster_cluster_cancel_all(muster_cluster *cluster); /* per-worker values stay */

/* The handle is the library's again, and a result is dropped; the closure runs all the same. Also
 * after the cluster was closed. NULL: a no-op. Since 0.1. */
MUSTER_API void muster_closure_release(muster_closure *closure);

/* A descriptor for event loops, the handle's: readable when a closure may have ended or a failure
 * is due, until the next muster_cluster_done. Call that first, then look with a timeout of 0. -1:
 * there are no descriptors left. Since 0.1. */
MUSTER_API int muster_cluster_fd(muster_cluster *cluster);

/* ---- per-worker values ---- */

struct muster_per_worker_options {
    size_t size;          /* sizeof */
    uint32_t version;     /* of the function that builds it; 0: any */
    bool eager;           /* build it as soon as a worker is there; else before its first use */
    uint64_t reserved[4]; /* zero */
};

#define MUSTER_PER_WORKER_OPTIONS_INIT                                                             \
    {                                                                                              \
        sizeof(struct muster_per_worker_options), 0, false,                                        \
        {                                                                                          \
            0, 0, 0, 0                                                                             \
        }                                                                                          \
    }

/* A value that each worker has for itself, such as a loaded model or its shard of the data:
 * `function` builds it there, and builds it again when the worker was lost and is back. Closures
 * name it in their options.needs. Returns at once; what a builder fails with, the closures that
 * need it fail with. On success the caller owns *out. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_per_worker(
    muster_cluster *cluster, const char *function, const struct muster_part *parts, size_t count,
    const struct muster_per_worker_options *options, muster_per_worker **out,
    struct muster_error *err);

/* The parts that its builder gave on the worker of that number; waits for them. Borrowed from the
 * handle until the next call with it. Does not make it be built. EFAILED: the builder failed;
 * ELOST: the worker is away, and the value with it. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status
muster_per_worker_fetch(muster_per_worker *value, uint32_t worker, int64_t timeout_ms,
                        const struct muster_part **parts, size_t *count, struct muster_error *err);

/* The workers drop it once no closure needs it any more. NULL: a no-op. Since 0.1. */
MUSTER_API void muster_per_worker_drop(muster_per_worker *value);

/* A function with its arguments, kept: each muster_dataset_iterate makes a per-worker value of it
 * that begins anew. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_dataset(
    muster_cluster *cluster, const char *function, const struct muster_part *parts, size_t count,
    const struct muster_per_worker_options *options, muster_dataset **out,
    struct muster_error *err);
MUSTER_API MUSTER_MUST_USE muster_status muster_dataset_iterate(muster_dataset *dataset,
                                                                muster_per_worker **out,
                                                                struct muster_error *err);
MUSTER_API void muster_dataset_drop(muster_dataset *dataset); /* its iterators stay */

/* ---- state servers ---- */

/* A process that functions depend on and muster cannot repair. What muster_task_state_failed says
 * of it is counted: fewer than transient_limit reports within a minute are tried again, then ESTATE
 * is delivered and names it. It counts anew once a closure that was tried again has a value.
 * EEXISTS. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_state_server(muster_cluster *cluster,
                                                                     const char *name,
                                                                     struct muster_error *err);

/* What to end the program with: muster_exit_code, but for ESTATE MUSTER_RESTART_EXIT_CODE where
 * that is set, so that whoever starts it knows that all is to be started again. Thread: any. Since
 * 0.1. */
MUSTER_API int muster_cluster_exit_code(muster_status status);

/* ---- what goes on ---- */

struct muster_cluster_counts {
    size_t size;                          /* sizeof */
    uint64_t queued, running;             /* now */
    uint64_t values, failures, cancelled; /* ended, since the start */
    uint64_t retried, put_back, late; /* attempts: failed and tried again; taken from a worker that
                                         was lost; results that came when they no longer counted */
    uint64_t queued_bytes;
    uint64_t series;   /* the number of this one */
    uint64_t admitted; /* since the start */
    uint64_t term;
    uint32_t workers, workers_present; /* ever; now */
    uint32_t slots, slots_free;
    int64_t oldest_ms; /* that a closure has been queued; -1: none is */
    char oldest_function[64];
    char oldest_waits[64]; /* why it does, in words */
    uint64_t reserved[4];
};

#define MUSTER_CLUSTER_COUNTS_INIT                                                                 \
    {                                                                                              \
        sizeof(struct muster_cluster_counts), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,   \
            "", "",                                                                                \
        {                                                                                          \
            0, 0, 0, 0                                                                             \
        }                                                                                          \
    }

/* out->size is set by the caller. Costs no round trip. Since 0.1. */
MUSTER_API void muster_cluster_look(muster_cluster *cluster, struct muster_cluster_counts *out);

enum muster_worker_state {
    MUSTER_WORKER_ABSENT = 0,
    MUSTER_WORKER_PRESENT = 1,
    MUSTER_WORKER_SILENT = 2, /* its connection broke; a member it still is */
    MUSTER_WORKER_LOST = 3,
    MUSTER_WORKER_LEFT = 4,
    MUSTER_WORKER_DRAINING = 5
};

struct muster_cluster_worker {
    size_t size;            /* sizeof */
    uint32_t number, index; /* in the cluster; its place in the job */
    uint64_t incarnation, pid;
    enum muster_worker_state state;
    uint32_t slots, running, prefetched, losses;
    uint64_t done;
    int64_t longest_ms; /* that a closure has been running on it; -1: none is */
    char longest_function[64];
    char host[64];
    uint64_t reserved[4];
};

#define MUSTER_CLUSTER_WORKER_INIT                                                                 \
    {                                                                                              \
        sizeof(struct muster_cluster_worker), 0, 0, 0, 0, MUSTER_WORKER_ABSENT, 0, 0, 0, 0, 0, 0,  \
            "", "",                                                                                \
        {                                                                                          \
            0, 0, 0, 0                                                                             \
        }                                                                                          \
    }

/* false: there is no worker of that number. They count from 0, and keep it for life. Since 0.1. */
MUSTER_API bool muster_cluster_look_worker(muster_cluster *cluster, uint32_t number,
                                           struct muster_cluster_worker *out);

/* Asks a worker to take nothing new, end what it runs, and leave. ENOTFOUND. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_drain_worker(muster_cluster *cluster,
                                                                     uint32_t number,
                                                                     struct muster_error *err);

#ifdef __cplusplus
}
#endif

#endif
