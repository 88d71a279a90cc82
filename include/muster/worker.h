/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_WORKER_H
#define MUSTER_WORKER_H

/* A worker of a cluster: a process that runs functions for a coordinator (cluster.h).
 *
 *   static muster_status square(muster_task *task, void *arg)
 *   {
 *       const struct muster_part *parts;
 *       size_t count = muster_task_parts(task, &parts);
 *       ...
 *       return muster_task_add(task, &result, sizeof(result), 0);
 *   }
 *
 *   options.role = MUSTER_ROLE_WORKER;
 *   muster_client_open(&client, &options, -1, &err);
 *   muster_worker_open(&worker, client, NULL, &err);
 *   muster_worker_register(worker, "square", 1, MUSTER_FUNCTION_PURE, square, NULL, &err);
 *   status = muster_worker_serve(worker, &err);
 *   muster_worker_close(worker);
 *
 * It obeys only the newest coordinator of its cluster: what it runs for an older one is cancelled.
 * It keeps results while its coordinator is away. docs/cluster.md is the guide. What client.h says
 * of threads, time and errors holds here. */

#include "muster/client.h"
#include "muster/cluster.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A worker, with the functions that it can run. */
typedef struct muster_worker muster_worker;

/* One attempt to run a function, as the function sees it: valid until the function returns. */
typedef struct muster_task muster_task;

/* A function that a worker runs. OK: the value is what muster_task_add gave (nothing added: an
 * empty list). Anything else is an error of the function: muster_task_fail sets its code and text.
 * It must not call exit() or _exit(), and must not keep what it borrows. */
typedef muster_status muster_task_fn(muster_task *task, void *arg);

/* Properties of a function, and where it runs. Without CHILD it runs in this process: a crash in it
 * ends the worker. So does a function that continues after a stop request for longer than the grace
 * (MUSTER_WORKER_EXIT_STUCK), for a thread cannot be stopped. */
enum muster_function_flag {
    MUSTER_FUNCTION_PURE = 1,       /* same arguments, same result, no side effect */
    MUSTER_FUNCTION_IDEMPOTENT = 2, /* may run again at once while its worker is silent */
    MUSTER_FUNCTION_ONCE = 4,       /* no second attempt once one may have begun */
    MUSTER_FUNCTION_THREADS = 8,    /* may run concurrently in this process; else one at a time */
    MUSTER_FUNCTION_CHILD = 16 /* in a long-lived child process, one per slot: a crash costs the
                                  closure one attempt, and nothing else */
};

/* The exit status of a worker that ended itself because a function would not stop. One line on
 * stderr names the function, its closure, and how long it ignored the request. */
#define MUSTER_WORKER_EXIT_STUCK 70

/* Options of a worker. 0 or NULL: the variable that is named first, else the default. */
struct muster_worker_options {
    size_t size;             /* sizeof */
    const char *cluster;     /* MUSTER_CLUSTER_NAME, "default": its coordinator's name */
    uint32_t slots;          /* MUSTER_WORKER_SLOTS, 1: closures that run at once; at most 4096 */
    int64_t cancel_grace_ms; /* MUSTER_WORKER_CANCEL_GRACE, 5 s: from the stop request to the kill,
                                unless the coordinator sets another */
    /* MUSTER_WORKER_SIGNALS, "TERM": each of these signals drains the worker, so that serve returns
     * OK. "" or "none": none. Separated by commas: "TERM,USR1". A handler that was installed before
     * is called as well, and serve restores it when it returns; the default action is not taken. As
     * any handler, it may interrupt a system call of a function (EINTR). */
    const char *signals;
    const char *scratch;  /* TMPDIR, "/tmp": parent of the commands' folders */
    uint64_t reserved[4]; /* zero */
};

#define MUSTER_WORKER_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(struct muster_worker_options), NULL, 0, 0, NULL, NULL,                              \
        {                                                                                          \
            0, 0, 0, 0                                                                             \
        }                                                                                          \
    }

/* Makes a worker of a client of MUSTER_ROLE_WORKER; one per client (EEXISTS). Nothing runs yet. On
 * success the caller owns *out, which must be closed before its client. EINVAL. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status
muster_worker_open(muster_worker **out, muster_client *client,
                   const struct muster_worker_options *options, struct muster_error *err);

/* Registers `fn` under a name of 1 to 255 bytes and a version (at least 1). A name may have several
 * versions. `flags` of enum muster_function_flag. `arg` is passed to each call, in children as it
 * was when serve began. EEXISTS: registered already; EINVAL: also once serve was called. Since 0.1.
 */
MUSTER_API MUSTER_MUST_USE muster_status muster_worker_register(muster_worker *worker,
                                                                const char *name, uint32_t version,
                                                                uint32_t flags, muster_task_fn *fn,
                                                                void *arg,
                                                                struct muster_error *err);

/* The type of an argument that is the standard input of a command, instead of a word of its command
 * line. */
#define MUSTER_PART_STDIN UINT32_C(4294967040)

/* The type of the part that muster_closure_fetch returns for a command that failed. */
#define MUSTER_PART_STDERR UINT32_C(4294967041)

/* The type of a part that goes along with the failure of a function: muster_closure_fetch returns
 * the parts of this type that a failed function has added, and no others. For an error as an
 * object, where code and text are not enough. Since 0.1. */
#define MUSTER_PART_ERROR UINT32_C(4294967042)

/* Options of a registered command. 0 is the default. */
struct muster_command_options {
    size_t size;               /* sizeof */
    uint64_t stdout_bytes_max; /* 16 MiB less 64 KiB, also the maximum: beyond it the command is
                                  killed, and the closure fails with ORIGIN_EXHAUSTED */
    uint64_t reserved[4];      /* zero */
};

#define MUSTER_COMMAND_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(struct muster_command_options), 0,                                                  \
        {                                                                                          \
            0, 0, 0, 0                                                                             \
        }                                                                                          \
    }

/* Registers an external program. `argv`, NULL-terminated and copied, is the beginning of its
 * command line. The arguments of the closure follow, each as one word, byte for byte: no shell sees
 * them. NULL: the closure names the program too, so any process with the job's secret can run
 * anything here.
 *
 * A command runs in a session of its own, in an empty folder that is removed afterwards. Only its
 * three streams are open. MUSTER_TASK_CLOSURE, _ATTEMPT, _KEY, _WORKER and _SLOT are added to the
 * worker's environment. Its standard input is the argument of type MUSTER_PART_STDIN, or empty. The
 * result is one part: its standard output.
 *
 * Exit status 0 is a value, 75 a retryable error, any other one ORIGIN_FUNCTION with that code, a
 * signal ORIGIN_CRASH. The end of its standard error is in the error's text. The last 64 KiB of it
 * are what muster_closure_fetch returns for the failed closure: one part of type
 * MUSTER_PART_STDERR. To stop a command, its whole group gets SIGTERM, and SIGKILL after the grace.
 * Processes that it left running, in any session, are killed at its end, and when the worker dies.
 * Errors as for muster_worker_register. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_worker_register_command(
    muster_worker *worker, const char *name, uint32_t version, uint32_t flags,
    const char *const *argv, const struct muster_command_options *options,
    struct muster_error *err);

/* Runs closures until the worker is drained or its cluster dismissed (OK), it is replaced
 * (EFENCED), or its client is closed (ECANCELLED). With one slot functions run on the calling
 * thread, with several on threads of the worker. If functions with CHILD or commands are registered
 * it forks first: call it before the program starts threads that hold locks those functions need.
 * Once per handle. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_worker_serve(muster_worker *worker,
                                                             struct muster_error *err);

/* Drains the worker: nothing new begins, queued closures are returned, running ones are waited for.
 * Thread: any, and a signal handler. NULL: a no-op. Since 0.1. */
MUSTER_API void muster_worker_drain(muster_worker *worker);

/* Frees the handle; serve must have returned. Allowed after the client was closed (which then ended
 * serve). In a child after fork, and NULL: a no-op. Since 0.1. */
MUSTER_API void muster_worker_close(muster_worker *worker);

/* ---- for functions; on the function's thread unless stated otherwise ---- */

/* Sets *out to the arguments and returns how many there are. Borrowed until the function returns.
 * Since 0.1. */
MUSTER_API size_t muster_task_parts(const muster_task *task, const struct muster_part **out);

/* Appends a part to the result; copied. ELIMIT: the result would be larger than a message (16 MiB
 * less 64 KiB), or have more than 65,536 parts; the attempt then fails with ORIGIN_EXHAUSTED,
 * whatever the function returns. ENOMEM. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_task_add(muster_task *task, const void *data,
                                                         size_t size, uint32_t type);

/* Sets the error of this attempt: a code of the function's own and a line for people (at most 1024
 * bytes; NULL: none). Both return EFAILED, for `return muster_task_fail(...)`. The last call
 * counts, whatever the function returns. Parts that were added are dropped, but for those of type
 * MUSTER_PART_ERROR. muster_task_retry marks the error as retryable: the closure runs again if it
 * has a retry left. Since 0.1. */
MUSTER_API muster_status muster_task_fail(muster_task *task, int code, const char *text);

/* Sets the error of this attempt as muster_task_fail does, and marks it as retryable. Since 0.1. */
MUSTER_API muster_status muster_task_retry(muster_task *task, int code, const char *text);

/* Sets the error of this attempt: the state server of that name (muster_cluster_state_server)
 * failed. Since 0.1. */
MUSTER_API muster_status muster_task_state_failed(muster_task *task, const char *server,
                                                  const char *text);

/* Whether the function must stop: it was cancelled, or its time is over. Its status is then
 * ignored, but it must return within the grace. Costs a load. Thread: any. Since 0.1. */
MUSTER_API bool muster_task_cancelled(const muster_task *task);

/* The request to stop as a descriptor that becomes readable; poll it only. Since 0.1. */
MUSTER_API int muster_task_cancel_fd(muster_task *task);

/* The time left; 0: none; -1: no limit. Thread: any. Since 0.1. */
MUSTER_API int64_t muster_task_left_ms(const muster_task *task);

/* The number of this worker in the cluster; UINT32_MAX: unknown. Thread: any. Since 0.1. */
MUSTER_API uint32_t muster_task_worker(const muster_task *task);

/* The slot of this attempt, from 0. Thread: any. Since 0.1. */
MUSTER_API uint32_t muster_task_slot(const muster_task *task);

/* The number of this attempt, from 1; 0 while a per-worker value is built. Thread: any. Since 0.1.
 */
MUSTER_API uint32_t muster_task_attempt(const muster_task *task);

/* The number of the closure; 0 while a per-worker value is built. Thread: any. Since 0.1. */
MUSTER_API uint64_t muster_task_closure(const muster_task *task);

/* The idempotency key of the closure: the same in each attempt, and that of no other closure of
 * this coordinator. "" while a per-worker value is built. Thread: any. Since 0.1. */
MUSTER_API const char *muster_task_key(const muster_task *task);

/* The host of this worker. Thread: any. Since 0.1. */
MUSTER_API const char *muster_task_host(const muster_task *task);

/* Reports a fraction from 0 to 1, with a text for people (or NULL); the coordinator keeps the
 * newest. Does not wait: while the coordinator does not read, reports are dropped. Since 0.1. */
MUSTER_API void muster_task_progress(muster_task *task, double fraction, const char *text);

/* Sends a line to the coordinator's log, as muster_task_progress. Since 0.1. */
MUSTER_API void muster_task_log(muster_task *task, const char *text);

/* ---- per-worker values ---- */

/* In a builder function: sets the object that muster_task_object returns to the functions that need
 * it. `destroy` (or NULL) is called when it is no longer needed. A second call replaces the object.
 * Objects live in one process, so each child builds its own on first use. EINVAL: this is not a
 * builder. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_task_keep(muster_task *task, void *object,
                                                          void (*destroy)(void *object));

/* In a function with needs: the object of the `need`-th value, in the order of the closure's needs.
 * NULL: there is no such value, or it is empty (muster_task_value: 0 parts). Borrowed until the
 * function returns; other closures share the object. Since 0.1. */
MUSTER_API void *muster_task_object(muster_task *task, size_t need);

/* The parts from the builder of the `need`-th value, and how many there are; see
 * muster_task_object. Since 0.1. */
MUSTER_API size_t muster_task_value(muster_task *task, size_t need, const struct muster_part **out);

/* The first `need` that the function of that name builds, for functions that do not depend on the
 * order. SIZE_MAX: none; the two functions above then find nothing. Since 0.1. */
MUSTER_API size_t muster_task_need(const muster_task *task, const char *builder);

#ifdef __cplusplus
}
#endif

#endif
