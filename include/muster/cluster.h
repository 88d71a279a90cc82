/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_CLUSTER_H
#define MUSTER_CLUSTER_H

/* The coordinator of a cluster. It schedules named functions on workers, which may join, leave and
 * crash; each result counts once.
 *
 *   status = muster_cluster_open(&cluster, client, NULL, -1, &err);
 *   for (i = 0; i < count; i++)
 *       status = muster_cluster_schedule(cluster, "square", &part, 1, NULL, -1, &closure[i], &err);
 *   status = muster_cluster_join(cluster, -1, &err);
 *   status = muster_closure_fetch(closure[0], -1, &parts, &part_count, &err);
 *   status = muster_cluster_dismiss(cluster, -1, &err);
 *
 * A *closure* is one scheduled call (a task); each run of it is an *attempt*. While a worker is
 * lost, frozen or cut off, its closures run elsewhere; only a line in the log reports it. An error
 * of a function ends the *series*: queued closures are cancelled, running ones are stopped. Then
 * exactly one call of schedule, join or done returns EFAILED (ESTATE: a state server failed).
 * Afterwards the cluster is usable as before. docs/cluster.md is the guide, worker.h the other
 * side. What client.h says of threads, time and errors holds here.
 *
 * - The coordinator has a thread of its own: it makes progress whatever the program does.
 * - One coordinator acts at a time: it holds a *term*, which is the fencing token. A coordinator
 *   that is fenced, or whose key is gone, is superseded: all its calls end with EFENCED, and the
 *   workers obey the next one.
 * - Signals end no wait. A wait that ended with ETIMEDOUT has changed nothing and may be repeated:
 *   where a program's signal handlers must run meanwhile, as in another language, wait in pieces of
 *   50 ms or so.
 * - Errors, besides the general ones: ECANCELLED (it was closed meanwhile), EFENCED (superseded),
 *   ETOOFEW (fewer than min_workers for recovery_max_ms), EFAILED and ESTATE as above.
 * - After fork a handle is dead in the child, as a client is. */

#include "muster/client.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_cluster muster_cluster;       /* the coordinator */
typedef struct muster_closure muster_closure;       /* one scheduled call and its outcome */
typedef struct muster_per_worker muster_per_worker; /* a value on each worker */
typedef struct muster_dataset muster_dataset;       /* the source of per-worker iterators */

/* One of the byte strings of which arguments and results are lists. */
struct muster_part {
    const void *data; /* may be NULL when size is 0 */
    size_t size;
    uint32_t type; /* the user's: muster never reads it */
};

/* The origin of a failure. New ones may be added. */
enum muster_origin {
    MUSTER_ORIGIN_NONE = 0,      /* there is a value */
    MUSTER_ORIGIN_FUNCTION = 1,  /* it returned an error: code and text are its own */
    MUSTER_ORIGIN_CRASH = 2,     /* its process ended in it: the exit status, or minus the signal */
    MUSTER_ORIGIN_LOST = 3,      /* its worker was lost, and it must not run twice (once) */
    MUSTER_ORIGIN_STATE = 4,     /* a registered state server failed: `state_server` */
    MUSTER_ORIGIN_INPUT = 5,     /* a per-worker value it needs could not be built: `cause` */
    MUSTER_ORIGIN_CANCELLED = 6, /* by a call, or with its series */
    MUSTER_ORIGIN_DEADLINE = 7,  /* one of its three time limits */
    MUSTER_ORIGIN_EXHAUSTED = 8, /* a limit of memory or of output */
    MUSTER_ORIGIN_POISON = 9,    /* it cost as many workers as options.poison allows */
    MUSTER_ORIGIN_UNKNOWN = 10,  /* no worker has this function, or this version */
    MUSTER_ORIGIN_ARGUMENT = 11, /* the worker could not accept its arguments */
    MUSTER_ORIGIN_INTERNAL = 12, /* a bug of muster */
    MUSTER_ORIGIN_RETRYABLE = 14 /* FUNCTION, retryable, no retry left */
};

#define MUSTER_WORKER_NONE UINT32_C(4294967295)

/* Why there is no value, as fields: programs need not parse the text. */
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

/* The effect of a failure on other closures. */
enum muster_cluster_policy {
    MUSTER_CLUSTER_FAIL_FAST = 0, /* the first failure ends the series, and is delivered */
    MUSTER_CLUSTER_COLLECT = 1,   /* everything runs; then join delivers all failures at once */
    MUSTER_CLUSTER_ISOLATE = 2    /* failures stay in their closures, none is delivered */
};

/* Options of a coordinator. 0 or NULL: MUSTER_CLUSTER_<NAME> of the environment, else the default.
 */
struct muster_cluster_options {
    size_t size;      /* sizeof */
    const char *name; /* "default": letters, digits, '.', '_' and '-', at most 64 */
    enum muster_cluster_policy policy;
    uint32_t queue_limit; /* 262,144 closures; at this limit schedule waits */
    uint64_t queue_bytes; /* 1 GiB of arguments; likewise */
    uint32_t min_workers; /* 0: join waits for workers without limit; else see recovery_max_ms */
    uint32_t poison;      /* 3: workers that a closure may cost */
    uint32_t prefetch;    /* 1: closures that are queued at a worker per slot, at least */
    /* 3: this many reports of one state server within a minute are fatal; -1: the first one is */
    int32_t transient_limit;
    int64_t recovery_max_ms; /* 1 h: a worker that is away for this long is lost for good; with
                                fewer than min_workers for this long all calls end with ETOOFEW */
    int64_t cancel_grace_ms; /* 5 s: from the cancellation or time limit of an attempt until it is
                                killed */
    int64_t series_grace_ms; /* 30 s: the same for all attempts at the end of a series */
    int64_t start_delay_ms;  /* 0: worker i takes its first closure after i times this */
    int64_t start_delay_max_ms; /* 0: no limit; upper bound of that delay */
    /* 30 s: wait for a worker that has the function; not when all processes of the job are here */
    int64_t unknown_grace_ms;
    int64_t watchdog_ms; /* 0: off; logs one line when no closure ends for this long */
    /* HOST:PORT, with a numeric host: the listen address for workers on other machines. NULL: the
     * address by which this machine reaches the service, and any port. It listens if the service is
     * reached by TCP, or there is a secret, or MUSTER_INSECURE. */
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

/* Becomes the coordinator of the cluster of that name in the client's job. Waits until there is no
 * other one, at most `timeout_ms`. A dead coordinator is replaced once the service knows of its
 * loss; its workers drop what they run for it. On success the caller owns *out, which must be
 * closed before its client; on failure *out is NULL. The client may have any role; the death of a
 * client that is a member is detected sooner. Options NULL: all from the environment. ETIMEDOUT:
 * another coordinator has the term; EEXISTS: this client has one already; EINVAL also for an
 * address that cannot be listened on. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_open(
    muster_cluster **out, muster_client *client, const struct muster_cluster_options *options,
    int64_t timeout_ms, struct muster_error *err);

/* Cancels all closures, releases the workers and gives up the term; no thread, socket or file is
 * left. Calls of other threads end with ECANCELLED and are waited for. Closures and values that are
 * still held return ECANCELLED from now on, unless their outcome was read before; release them all
 * the same. NULL: a no-op. Not from the client's log callback. Since 0.1. */
MUSTER_API void muster_cluster_close(muster_cluster *cluster);

/* Drains the cluster: admits nothing more (schedule returns ECANCELLED), and waits until all queued
 * and running closures have ended; afterwards only fetch and close are useful. ETIMEDOUT: the drain
 * continues, and the call may be repeated. EFAILED, ESTATE: a failure is delivered. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_drain(muster_cluster *cluster,
                                                              int64_t timeout_ms,
                                                              struct muster_error *err);

/* Dismisses the cluster: its work in this job is over. Drains it as above. Then all its workers
 * end, and muster_worker_serve returns OK there: also those that are started later, restarted, or
 * out of reach now. For that a record stays in the job, the key muster/cluster/NAME/dismissed;
 * `muster run` keeps it as long as the run. Returns once the record is written and every worker
 * that was connected has ended. ETIMEDOUT, naming what is waited for: the dismissal continues, and
 * the call may be repeated. EFAILED, ESTATE: a failure is delivered; ELIMIT, ENOSPACE: the service
 * cannot keep the record, and no worker was dismissed. In these cases call it again. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_dismiss(muster_cluster *cluster,
                                                                int64_t timeout_ms,
                                                                struct muster_error *err);

/* Whether the cluster was dismissed: by this coordinator, or before it was opened. A coordinator
 * that was killed when its work was done finds that out here in its next process; schedule then
 * returns ECANCELLED, and dismiss OK. Since 0.1. */
MUSTER_API bool muster_cluster_dismissed(muster_cluster *cluster);

/* ---- scheduling ---- */

/* Options of one closure. 0, false and NULL are the defaults. */
struct muster_closure_options {
    size_t size;               /* sizeof */
    uint32_t version;          /* of the function, exactly; 0: any */
    uint64_t group;            /* for muster_cluster_cancel_group; 0: none */
    int64_t start_ms;          /* from its admission to its start, at most */
    int64_t run_ms;            /* of each attempt */
    int64_t total_ms;          /* from its admission to its end, at most */
    int32_t error_retries;     /* 0; retries after errors that the function marks as retryable */
    int32_t crash_retries;     /* 1; -1: none. A lost worker costs none of these */
    int32_t exhausted_retries; /* 1; -1: none */
    bool idempotent;           /* may run again at once when its worker is out of reach */
    bool once;                 /* no second attempt once one may have begun */
    bool pure;                 /* same arguments, same result, no side effect */
    const char *key; /* idempotency key, for the function; NULL: made of cluster, term and number */
    /* Per-worker values: the function finds the entries of its own worker, by position. Borrowed
     * for the call. */
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

/* One of the calls of muster_cluster_schedule_many. */
struct muster_closure_call {
    const char *function;
    const struct muster_part *parts; /* the arguments; copied */
    size_t count;
    const struct muster_closure_options *options; /* NULL: the defaults */
};

/* Admits a closure. Waits while the queue is full or a series is ending; with a timeout of 0 it
 * does not wait: ELIMIT, the queue is full. Unless it returns OK nothing was admitted and nothing
 * will run. The caller owns *out and releases it; `out` NULL: the result is not kept. EFAILED,
 * ESTATE: the failure of an earlier closure is delivered; ETIMEDOUT; ELIMIT also for a name, a key,
 * needs or arguments larger than a message. `err` names the limit. Thread: any. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_schedule(
    muster_cluster *cluster, const char *function, const struct muster_part *parts, size_t count,
    const struct muster_closure_options *options, int64_t timeout_ms, muster_closure **out,
    struct muster_error *err);

/* Admits many closures, in their order. The first `*admitted` (may be NULL) of them are admitted;
 * all if OK. `out`: NULL, or room for `count` handles, of which as many are set. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_schedule_many(
    muster_cluster *cluster, const struct muster_closure_call *calls, size_t count,
    int64_t timeout_ms, muster_closure **out, size_t *admitted, struct muster_error *err);

/* Waits until all closures admitted before this call have ended. OK: each has a value (under
 * ISOLATE always OK). EFAILED, ESTATE: a failure is delivered; nothing of its series is queued or
 * running any more. Thread: any. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_join(muster_cluster *cluster,
                                                             int64_t timeout_ms,
                                                             struct muster_error *err);

/* Whether all closures have ended. Waits only for the end of a series whose failure it delivers.
 * Clears muster_cluster_fd. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_done(muster_cluster *cluster, bool *out,
                                                             struct muster_error *err);

/* The failures behind a delivered error: the first 64, in order of arrival. */
struct muster_failures {
    const struct muster_failure *items;
    size_t kept;
    uint64_t count; /* how many there were */
};

/* The failures of the last delivered error, unless already taken; NULL: none. The caller owns them.
 * Thread: any. Since 0.1. */
MUSTER_API struct muster_failures *muster_cluster_failures(muster_cluster *cluster);

/* Frees the failures. NULL: a no-op. Since 0.1. */
MUSTER_API void muster_failures_free(struct muster_failures *failures);

/* ---- the outcome of a closure ---- */

/* Waits until the closure has ended. OK, whatever its outcome. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_closure_wait(muster_closure *closure,
                                                             int64_t timeout_ms,
                                                             struct muster_error *err);

/* Waits for the result and returns it, borrowed from the handle until that is released. A function
 * without a result has 0 parts. EFAILED: it failed, see muster_closure_failure; ESTATE: a state
 * server failed; ECANCELLED: the closure, its series or the cluster was cancelled. A failed
 * closure may have parts all the same (worker.h): of type MUSTER_PART_ERROR those that its function
 * has added, or the builder of the value that it needs; of type MUSTER_PART_STDERR the end of a
 * command's standard error. ETIMEDOUT: it has not ended yet; a timeout of 0 does not wait. A result
 * stays available, whatever happens to the workers. Thread: any. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_closure_fetch(muster_closure *closure,
                                                              int64_t timeout_ms,
                                                              const struct muster_part **parts,
                                                              size_t *count,
                                                              struct muster_error *err);

/* Waits until all have ended: each[i] is then what fetch of it returns. OK: all have values;
 * otherwise the first other status, with its text. `each` may be NULL. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_closure_fetch_many(muster_closure *const *closures,
                                                                   size_t count, int64_t timeout_ms,
                                                                   muster_status *each,
                                                                   struct muster_error *err);

/* Waits until one of them has ended: `*index` is the first such. All must belong to one cluster;
 * `count` is at least 1. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_closure_fetch_any(muster_closure *const *closures,
                                                                  size_t count, int64_t timeout_ms,
                                                                  size_t *index,
                                                                  struct muster_error *err);

/* Why a closure has no value. Borrowed from the handle. false: it has a value, or has not ended.
 * Since 0.1. */
MUSTER_API bool muster_closure_failure(muster_closure *closure, struct muster_failure *out);

/* How far a closure is. */
enum muster_closure_state {
    MUSTER_CLOSURE_QUEUED = 1,
    MUSTER_CLOSURE_RUNNING = 2, /* with a worker */
    MUSTER_CLOSURE_VALUE = 3,
    MUSTER_CLOSURE_FAILED = 4
};

/* What muster_closure_look finds. */
struct muster_closure_progress {
    enum muster_closure_state state;
    uint32_t attempts;
    uint32_t worker; /* its worker now or last; or MUSTER_WORKER_NONE */
    uint64_t number;
    double fraction; /* of its progress; negative: none reported */
    char text[128];  /* of its progress */
};

/* The current state of the closure. Since 0.1. */
MUSTER_API void muster_closure_look(muster_closure *closure, struct muster_closure_progress *out);

/* The number of a closure: from 1, in the order of admission. Since 0.1. */
MUSTER_API uint64_t muster_closure_number(const muster_closure *closure);

/* Cancels a closure: requests a stop, and kills the attempt after cancel_grace_ms; does not wait. A
 * closure that has ended is not changed. Since 0.1. */
MUSTER_API void muster_closure_cancel(muster_closure *closure);

/* Cancels all closures of a group, as muster_closure_cancel. Since 0.1. */
MUSTER_API void muster_cluster_cancel_group(muster_cluster *cluster, uint64_t group);

/* Cancels all closures, as muster_closure_cancel; per-worker values stay. Since 0.1. */
MUSTER_API void muster_cluster_cancel_all(muster_cluster *cluster);

/* Returns the handle to the library and drops the result; the closure runs all the same. Allowed
 * after the cluster was closed. NULL: a no-op. Since 0.1. */
MUSTER_API void muster_closure_release(muster_closure *closure);

/* A descriptor for event loops, owned by the handle: readable when a closure may have ended or a
 * failure is due, until the next muster_cluster_done. Call that first, then look with a timeout of
 * 0. -1: no descriptor is left. Since 0.1. */
MUSTER_API int muster_cluster_fd(muster_cluster *cluster);

/* ---- per-worker values ---- */

/* Options of a per-worker value. 0 and NULL are the defaults. */
struct muster_per_worker_options {
    size_t size;          /* sizeof */
    uint32_t version;     /* of the function that builds it; 0: any */
    bool eager;           /* build it as soon as a worker is present; else before its first use */
    uint64_t reserved[4]; /* zero */
};

#define MUSTER_PER_WORKER_OPTIONS_INIT                                                             \
    {                                                                                              \
        sizeof(struct muster_per_worker_options), 0, false,                                        \
        {                                                                                          \
            0, 0, 0, 0                                                                             \
        }                                                                                          \
    }

/* Makes a value that each worker has for itself, such as a loaded model or its shard of the data.
 * `function` builds it there, and builds it again after the worker was lost and came back. Closures
 * name it in their options.needs. Returns at once; an error of the builder becomes the error of the
 * closures that need the value. On success the caller owns *out. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_per_worker(
    muster_cluster *cluster, const char *function, const struct muster_part *parts, size_t count,
    const struct muster_per_worker_options *options, muster_per_worker **out,
    struct muster_error *err);

/* Waits for the parts from its builder on the worker of that number. Borrowed from the handle until
 * the next call that asks for them: one with `parts` NULL only waits, so several threads may. Does
 * not start the build. EFAILED: the builder failed, with its parts of type MUSTER_PART_ERROR;
 * ELOST: the worker is away, and the value with it. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status
muster_per_worker_fetch(muster_per_worker *value, uint32_t worker, int64_t timeout_ms,
                        const struct muster_part **parts, size_t *count, struct muster_error *err);

/* Drops the value: the workers free it once no closure needs it. NULL: a no-op. Since 0.1. */
MUSTER_API void muster_per_worker_drop(muster_per_worker *value);

/* Keeps a function with its arguments as a dataset: each muster_dataset_iterate makes a new
 * per-worker value of it, from the beginning. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_dataset(
    muster_cluster *cluster, const char *function, const struct muster_part *parts, size_t count,
    const struct muster_per_worker_options *options, muster_dataset **out,
    struct muster_error *err);

/* Makes a new per-worker value of the dataset, from its beginning. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_dataset_iterate(muster_dataset *dataset,
                                                                muster_per_worker **out,
                                                                struct muster_error *err);

/* Drops the dataset; its iterators stay. NULL: a no-op. Since 0.1. */
MUSTER_API void muster_dataset_drop(muster_dataset *dataset);

/* ---- state servers ---- */

/* Names a process that functions depend on and muster cannot repair. muster counts the reports of
 * muster_task_state_failed. With fewer than transient_limit reports within a minute, closures are
 * retried; otherwise ESTATE is delivered and names the server. The count restarts once a retried
 * closure has a value. EEXISTS. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_state_server(muster_cluster *cluster,
                                                                     const char *name,
                                                                     struct muster_error *err);

/* The exit code for the program: muster_exit_code, but for ESTATE MUSTER_RESTART_EXIT_CODE where
 * that is set, so that the launcher knows to restart everything. Thread: any. Since 0.1. */
MUSTER_API int muster_cluster_exit_code(muster_status status);

/* ---- status ---- */

/* What muster_cluster_look finds: the closures and workers of a cluster, in numbers. */
struct muster_cluster_counts {
    size_t size;                          /* sizeof */
    uint64_t queued, running;             /* now */
    uint64_t values, failures, cancelled; /* ended, since the start */
    uint64_t retried, put_back, late;     /* attempts: failed and retried; taken from a lost worker;
                                             results that arrived too late to count */
    uint64_t queued_bytes;
    uint64_t series;   /* the number of this one */
    uint64_t admitted; /* since the start */
    uint64_t term;
    uint32_t workers, workers_present; /* ever; now */
    uint32_t slots, slots_free;
    int64_t oldest_ms; /* wait of the oldest queued closure; -1: none */
    char oldest_function[64];
    char oldest_waits[64]; /* why it waits, in words */
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

/* The state of the cluster in numbers. Set out->size before the call. Costs no round trip. Since
 * 0.1. */
MUSTER_API void muster_cluster_look(muster_cluster *cluster, struct muster_cluster_counts *out);

/* Whether a worker is present. */
enum muster_worker_state {
    MUSTER_WORKER_ABSENT = 0,
    MUSTER_WORKER_PRESENT = 1,
    MUSTER_WORKER_SILENT = 2, /* its connection broke; still a member */
    MUSTER_WORKER_LOST = 3,
    MUSTER_WORKER_LEFT = 4,
    MUSTER_WORKER_DRAINING = 5
};

/* What muster_cluster_look_worker finds: one worker. */
struct muster_cluster_worker {
    size_t size;            /* sizeof */
    uint32_t number, index; /* in the cluster; its place in the job */
    uint64_t incarnation, pid;
    enum muster_worker_state state;
    uint32_t slots, running, prefetched, losses;
    uint64_t done;
    int64_t longest_ms; /* run time of its longest-running closure; -1: none */
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

/* The state of one worker. false: there is no worker of that number. Numbers count from 0 and never
 * change. Since 0.1. */
MUSTER_API bool muster_cluster_look_worker(muster_cluster *cluster, uint32_t number,
                                           struct muster_cluster_worker *out);

/* Drains a worker: it takes nothing new, finishes what it runs, and leaves. ENOTFOUND. Since 0.1.
 */
MUSTER_API MUSTER_MUST_USE muster_status muster_cluster_drain_worker(muster_cluster *cluster,
                                                                     uint32_t number,
                                                                     struct muster_error *err);

#ifdef __cplusplus
}
#endif

#endif
