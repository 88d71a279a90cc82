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
 * It obeys the newest coordinator of its cluster, and that one only: what it runs for an older one
 * is cancelled. A coordinator that is away finds the results when it is back. docs/cluster.md is
 * the guide; what client.h says of threads, time and errors holds here. */

#include "muster/client.h"
#include "muster/cluster.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_worker muster_worker;

/* One attempt to run a function, as the function sees it: valid until it returns. */
typedef struct muster_task muster_task;

/* OK: there is a value, what muster_task_add gave (nothing added: an empty list). Anything else is
 * an error of the function: muster_task_fail gives it a code and a text. It must not call exit() or
 * _exit(), and must not keep what it borrows. */
typedef muster_status muster_task_fn(muster_task *task, void *arg);

/* What a function promises of itself, and where it runs. Without CHILD it runs in this process: a
 * crash in it is the end of the worker, and so is one that goes on for longer than the grace after
 * it was told to stop (MUSTER_WORKER_EXIT_STUCK), for a thread cannot be stopped. */
enum muster_function_flag {
    MUSTER_FUNCTION_PURE = 1,       /* the same arguments, the same result, and nothing else */
    MUSTER_FUNCTION_IDEMPOTENT = 2, /* may be run again at once while its worker is silent */
    MUSTER_FUNCTION_ONCE = 4,       /* never a second attempt once one may have begun */
    MUSTER_FUNCTION_THREADS = 8,    /* may run beside others in this process; else one at a time */
    MUSTER_FUNCTION_CHILD = 16      /* in a child process, one per slot, that lives on: a crash
                                       costs the closure an attempt and nobody else anything */
};

/* The exit status of a worker that ended itself because of a function that would not stop. One line
 * on stderr names the function, its closure, and how long it has ignored that. */
#define MUSTER_WORKER_EXIT_STUCK 70

/* 0 or NULL: what is named first of the environment, else the default. */
struct muster_worker_options {
    size_t size;         /* sizeof */
    const char *cluster; /* MUSTER_CLUSTER_NAME, "default": the name its coordinator has */
    uint32_t slots;      /* MUSTER_WORKER_SLOTS, 1: closures that it runs at once; at most 4096 */
    int64_t cancel_grace_ms; /* MUSTER_WORKER_CANCEL_GRACE, 5 s: from being told to stop to being
                                made to, where the coordinator names no other */
    /* MUSTER_WORKER_SIGNALS, "TERM": each drains the worker, so that serve returns OK. "" or
     * "none": none. With commas: "TERM,USR1". A handler that was there is called as well, and put
     * back by serve when it returns; the default action is not taken. What a function waits in may
     * be cut short by it (EINTR), as by any handler. */
    const char *signals;
    const char *scratch;  /* TMPDIR, "/tmp": where the folders of commands are made */
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
 * success the caller owns *out, which is closed before its client. EINVAL. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status
muster_worker_open(muster_worker **out, muster_client *client,
                   const struct muster_worker_options *options, struct muster_error *err);

/* Offers `fn` under a name of 1 to 255 bytes and a version (at least 1); a name may be offered in
 * several versions. `flags` of enum muster_function_flag; `arg` is given to each call, in children
 * as it was when serve began. EEXISTS: it is offered already; EINVAL: also once serve was called.
 * Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_worker_register(muster_worker *worker,
                                                                const char *name, uint32_t version,
                                                                uint32_t flags, muster_task_fn *fn,
                                                                void *arg,
                                                                struct muster_error *err);

/* The type of an argument that is the standard input of a command, instead of a word of it. */
#define MUSTER_PART_STDIN UINT32_C(4294967040)

/* The type of the part that muster_closure_fetch has of a command that failed. */
#define MUSTER_PART_STDERR UINT32_C(4294967041)

struct muster_command_options {
    size_t size;               /* sizeof */
    uint64_t stdout_bytes_max; /* 16 MiB less 64 KiB, which is also the most: beyond it the command
                                  is killed, and the closure fails with ORIGIN_EXHAUSTED */
    uint64_t reserved[4];      /* zero */
};

#define MUSTER_COMMAND_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(struct muster_command_options), 0,                                                  \
        {                                                                                          \
            0, 0, 0, 0                                                                             \
        }                                                                                          \
    }

/* Offers an external program. `argv`, NULL-ended and copied, is how its command line begins; the
 * arguments of the closure follow, each a word of its own, byte for byte: no shell sees them. NULL:
 * the closure names the program too, so that whoever has the job's secret can run anything here.
 *
 * A command runs in a session of its own, in an empty folder that is removed afterwards, with
 * nothing open but its three streams, and with MUSTER_TASK_CLOSURE, _ATTEMPT, _KEY, _WORKER and
 * _SLOT beside the environment of the worker. Its standard input is the argument of type
 * MUSTER_PART_STDIN, or empty. The result is one part: its standard output. Exit status 0 is a
 * value, 75 an error that another try may cure, another one ORIGIN_FUNCTION with that code, a
 * signal ORIGIN_CRASH; the end of its standard error is in the error's text, and the last 64 KiB of
 * it are what muster_closure_fetch lends of the closure although that failed: one part of type
 * MUSTER_PART_STDERR. To stop it, its whole group gets SIGTERM, and SIGKILL after the grace; what
 * it left running, in whichever session, is killed at its end, and when the worker dies. Errors as
 * for muster_worker_register. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_worker_register_command(
    muster_worker *worker, const char *name, uint32_t version, uint32_t flags,
    const char *const *argv, const struct muster_command_options *options,
    struct muster_error *err);

/* Runs closures until the worker is drained (OK), given up (EFENCED), or its client is closed
 * (ECANCELLED). With one slot functions run on the calling thread, with several on threads of the
 * worker's own. Where functions with CHILD or commands are registered it forks first: call it
 * before the program starts threads of its own that hold locks those functions need. Once per
 * handle. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_worker_serve(muster_worker *worker,
                                                             struct muster_error *err);

/* Asks serve to end softly: nothing new begins, what has not begun is given back, what runs is
 * waited for. Thread: any, and a signal handler. NULL: a no-op. Since 0.1. */
MUSTER_API void muster_worker_drain(muster_worker *worker);

/* Frees the handle; serve has returned. Also after its client was closed, which is what ended serve
 * then. In a child after fork, and NULL: a no-op. Since 0.1. */
MUSTER_API void muster_worker_close(muster_worker *worker);

/* ---- what a function may do: on its own thread, unless said otherwise ---- */

/* The arguments: how many, and the first of them. Borrowed until the function returns. Since 0.1.
 */
MUSTER_API size_t muster_task_parts(const muster_task *task, const struct muster_part **out);

/* Appends a part to the result; copied. ELIMIT: the result would be larger than a message may be
 * (16 MiB less 64 KiB), or of more than 65,536 parts; then it fails with ORIGIN_EXHAUSTED, whatever
 * the function returns. ENOMEM. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_task_add(muster_task *task, const void *data,
                                                         size_t size, uint32_t type);

/* The error that this attempt ends with: a code of the function's own and a line for people (at
 * most 1024 bytes; NULL: none). Both return EFAILED, for `return muster_task_fail(...)`; the last
 * one called counts, whatever the function returns. After _retry another try may do, if the closure
 * has one left. Since 0.1. */
MUSTER_API muster_status muster_task_fail(muster_task *task, int code, const char *text);
MUSTER_API muster_status muster_task_retry(muster_task *task, int code, const char *text);

/* Likewise: the state server of that name (muster_cluster_state_server) failed it. Since 0.1. */
MUSTER_API muster_status muster_task_state_failed(muster_task *task, const char *server,
                                                  const char *text);

/* Whether it is to stop: cancelled, or its time is over. What it then returns is of no interest,
 * but that it returns within the grace is. Costs a load. Thread: any. Since 0.1. */
MUSTER_API bool muster_task_cancelled(const muster_task *task);

/* The same as a descriptor that becomes readable, to be polled and nothing else. Since 0.1. */
MUSTER_API int muster_task_cancel_fd(muster_task *task);

/* What is left of its time; 0: it is over; -1: there is no limit. Thread: any. Since 0.1. */
MUSTER_API int64_t muster_task_left_ms(const muster_task *task);

/* Who and what: the number of this worker in the cluster (UINT32_MAX: not known), the slot (from
 * 0), which attempt this is (from 1), the closure's number, and its idempotency key: the same in
 * each attempt, and unlike that of any other closure of this coordinator. While a per-worker value
 * is built the last three are 0, 0 and "". Thread: any. Since 0.1. */
MUSTER_API uint32_t muster_task_worker(const muster_task *task);
MUSTER_API uint32_t muster_task_slot(const muster_task *task);
MUSTER_API uint32_t muster_task_attempt(const muster_task *task);
MUSTER_API uint64_t muster_task_closure(const muster_task *task);
MUSTER_API const char *muster_task_key(const muster_task *task);
MUSTER_API const char *muster_task_host(const muster_task *task);

/* How far it is, 0 to 1, with a word for people (or NULL): the coordinator's user can ask for the
 * newest. And a line for the coordinator's log. Neither waits: while a coordinator does not read
 * they are left out. Since 0.1. */
MUSTER_API void muster_task_progress(muster_task *task, double fraction, const char *text);
MUSTER_API void muster_task_log(muster_task *task, const char *text);

/* ---- values that each worker has for itself ---- */

/* In the function that builds one: what muster_task_object gives to those that need it. `destroy`
 * (or NULL) is called when it is needed no more. Again: instead of the one before. Objects live in
 * a process, so each child builds its own the first time it needs one. EINVAL: nothing is built
 * here. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_task_keep(muster_task *task, void *object,
                                                          void (*destroy)(void *object));

/* In a function that needs some: the object of the `need`-th, in the order in which the closure
 * names them, and the parts that its builder gave. NULL, or 0 parts: there is no such, or it has
 * none. Borrowed until the function returns; the object is shared with other closures. Since 0.1.
 */
MUSTER_API void *muster_task_object(muster_task *task, size_t need);
MUSTER_API size_t muster_task_value(muster_task *task, size_t need, const struct muster_part **out);

/* Which `need` is the first one that the function of that name builds, where the order is not to
 * matter. SIZE_MAX: none is; the two above then find nothing. Since 0.1. */
MUSTER_API size_t muster_task_need(const muster_task *task, const char *builder);

#ifdef __cplusplus
}
#endif

#endif
