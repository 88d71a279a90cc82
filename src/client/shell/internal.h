/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_INTERNAL_H
#define MST_CLIENT_SHELL_INTERNAL_H

/* What the library's parts, the program and the agent may do with a client beyond the public API:
 * raw requests, calls without a blocked thread, and hooks for the thread that drives.
 *
 * One lock per client guards its machine, its connection and everything attached to it. A thread
 * that blocks drives: it polls the connection if no other does, feeds the machine and completes
 * other threads' calls on the way. The background thread drives only while no thread waits.
 * Callbacks below run with the lock held on the thread that drives: they must be short, must not
 * block, and may call only what is marked "lock held". */

#include <stdbool.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/list.h"
#include "base/time.h"
#include "muster/client.h"
#include "proto/reply.h"
#include "proto/request.h"

struct mst_page;

/* A reply arrived, or was made here (ETIMEDOUT, ECANCELLED, EFENCED, ...). It is only borrowed. */
typedef void mst_lib_reply_fn(void *ctx, const struct mst_reply *reply);

/* ---- lock held, unless noted ---- */

void mst_lib_lock(muster_client *client);   /* lock not held */
void mst_lib_unlock(muster_client *client); /* also sends what was posted, and wakes waiters */
uint64_t mst_lib_now_ns(void);              /* needs no lock */

/* A call without a blocked thread. The memory is the caller's and must stay until `complete` was
 * called, which happens exactly once, never from within mst_lib_post. */
struct mst_lib_post {
    mst_lib_reply_fn *complete;
    void *ctx;
    bool open;  /* set by the library: not completed yet */
    bool local; /* set by the library, for complete: the status is not from the service */
};

/* Everything in `request` is copied. `deadline_ns` UINT64_MAX: none. ENOMEM, ELIMIT, EFENCED: it
 * was not posted, and complete is not called. */
muster_status mst_lib_post(muster_client *client, const struct mst_request *request,
                           uint64_t deadline_ns, struct mst_lib_post *post);

/* Asks the service to stop the call. `complete` is still called, with the service's decision
 * (ECANCELLED, or an earlier one), also when the connection is lost meanwhile. */
void mst_lib_post_cancel(muster_client *client, struct mst_lib_post *post);

/* Discards the reply: `complete` is not called, the memory is the caller's again, and the service
 * is asked to stop. A post that is not open: a no-op. */
void mst_lib_post_drop(muster_client *client, struct mst_lib_post *post);

/* A function that the driving thread calls later, once. */
struct mst_lib_timer {
    void (*fire)(void *ctx);
    void *ctx;
    struct mst_list link; /* set by the library, as is: */
    uint64_t at_ns;
};
/* Replaces an earlier time. The client's end unsets it. */
void mst_lib_timer_set(muster_client *client, struct mst_lib_timer *timer, uint64_t at_ns);
void mst_lib_timer_stop(struct mst_lib_timer *timer); /* not set: a no-op */

/* Blocks, and drives, until `ready` returns true (checked after each turn) or `deadline_ns` has
 * passed: false. mst_lib_interrupt and closing do not end it. When the client is poisoned meanwhile
 * it returns true, so check mst_lib_status too. */
bool mst_lib_wait(muster_client *client, bool (*ready)(void *ctx), void *ctx, uint64_t deadline_ns);

/* muster_client_open; `replaces`: of an agent that starts another process for each of its ranks
 * that is lost. */
muster_status mst_lib_open(muster_client **out, const struct muster_client_options *options,
                           bool replaces, int64_t timeout_ms, struct muster_error *err);

/* A client for another process of this machine, which does not use muster: the job sees that
 * process. Does not wait: calls are sent once the service is reached, and a rank makes its JOIN
 * itself. It ends, in mst_lib_hook's `ended`, when the service refuses it. */
struct mst_lib_other {
    uint64_t pid;
    uint32_t node; /* of the agent that started it, or MST_NODE_NONE */
    bool looped; /* no thread: the caller's loop drives it by mst_lib_drive; callbacks run there */
};
muster_status mst_lib_open_other(muster_client **out, const struct muster_client_options *options,
                                 const struct mst_lib_other *other, struct muster_error *err);

/* What a loop polls for a client. Zeroed before the first mst_lib_drive. */
struct mst_lib_interest {
    int fd; /* -1: nothing */
    short events;
    uint64_t epoch;    /* changes whenever these do, also when a new socket has the same number */
    uint64_t until_ns; /* when to drive without an event; UINT64_MAX: never */
};

/* Takes what poll found, which may be 0, does what is due, and says what to poll next. After each
 * event, at `until_ns`, and after a call of the client that may have sent something. No lock. */
void mst_lib_drive(muster_client *client, short found, struct mst_lib_interest *interest);

/* muster_client_close, without a word to the service: the session is left to what its agent says of
 * the process, or to its lease. */
void mst_lib_close_unsaid(muster_client *client);

/* OK, or the reason why this handle will never work again: EFENCED and the like (the session
 * ended), ECANCELLED (closing, or left), EINTERNAL (poisoned). */
muster_status mst_lib_status(const muster_client *client);

/* The service's last view; without the iteration. */
const struct mst_view *mst_lib_view(const muster_client *client);
bool mst_lib_stopped(const muster_client *client); /* the self-stop of the lease rule */

/* The service's lease, or its default while that is not known. */
uint64_t mst_lib_lease_ns(const muster_client *client);

/* While on, every public call of the user ends with EINTERRUPTED promptly, also those in progress
 * in other threads and those that were started. Posts and mst_lib_wait continue. */
void mst_lib_interrupt(muster_client *client, bool on);
bool mst_lib_interrupted(const muster_client *client);

/* The parts with a hook in a client: one each. */
enum mst_lib_user {
    MST_USER_RESTART,
    MST_USER_PREEMPT,
    MST_USER_AGENT,
    MST_USER_HEARTBEAT,
    MST_USER_WORKER,
    MST_USER_CLUSTER,
    MST_USER_HELPER,
    MST_USERS
};

/* Any function may be NULL. */
struct mst_lib_hook {
    void (*attention)(void *ctx, uint64_t now_ns, const struct mst_view *view, bool stopped);
    void (*ended)(void *ctx, uint64_t now_ns, muster_status status);
    uint64_t (*deadline_ns)(void *ctx); /* UINT64_MAX: never */
    void (*tick)(void *ctx, uint64_t now_ns);
    /* The user's calls are interrupted, or may wait again. */
    void (*interrupted)(void *ctx, uint64_t now_ns, bool on);
    /* A descriptor that is polled with the connection; `rung` is called when it is readable. -1:
     * none now. */
    int (*event)(void *ctx);
    void (*rung)(void *ctx, uint64_t now_ns);
    void (*paged)(void *ctx); /* the progress page exists now, created for a helper */
    /* The program has closed descriptors of the client. The numbers of this part's may be other
     * files by now: they are not used any more, nor closed. The end of the session follows. */
    void (*disowned)(void *ctx);
    void (*poisoned)(void *ctx); /* after a broken invariant: no machine may be touched any more */
    /* This thread is about to close the client. True: it is inside the function, as a handler of
     * exit() is, and cannot wait for that: the rank leaves at its end. No lock. */
    bool (*closed_within)(void *ctx);
    void (*release)(void *ctx); /* the client is about to be freed; no lock, no thread drives it */
    void *ctx;
};

/* Copied; NULL removes it. The restart's stays from the first run to the end of the client. */
void mst_lib_hook(muster_client *client, enum mst_lib_user user, const struct mst_lib_hook *hook);
void *mst_lib_hook_ctx(const muster_client *client, enum mst_lib_user user); /* NULL: no hook */

/* The progress page of this process, mapped. NULL: there is none, or another client of the process
 * has it. Lives as long as the client. */
struct mst_page *mst_lib_page(muster_client *client);

void mst_lib_log(muster_client *client, enum muster_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- no lock ---- */

/* For a program that must end: after `ns`, no client that is opened from now on waits for the names
 * of missing ranks, nor for the answer to its farewell. Each takes a second where the service does
 * not answer. Call it before there are threads. */
void mst_lib_end_by(uint64_t ns);

/* EINVAL with its text for a handle that is NULL or of the parent process; EDEADLK from a callback
 * of this client; EINTERNAL when poisoned. Every public function begins with it. */
muster_status mst_lib_enter(muster_client *client, struct muster_error *err, const char *what);

/* Fills `err` (may be NULL) with one line built from what was attempted, the status and the reply
 * (may be NULL); returns `status`. */
muster_status mst_lib_fail(struct muster_error *err, muster_status status, const char *what,
                           const struct mst_reply *reply);

/* From an errno of a call that opens or starts something: ENOMEM, else ELIMIT with the system's
 * limit. */
muster_status mst_lib_fail_system(struct muster_error *err, const char *what, int error);
/* ENOMEM: for a thread the system does not distinguish that from a limit. */
muster_status mst_lib_fail_thread(struct muster_error *err, const char *what);

/* The value of a CLIENT or RESTART setting, or of `grace`: the environment's, else the default. Not
 * for TEXT settings. EINVAL with its text for an invalid one. `set_out` (may be NULL): whether the
 * environment has it. */
muster_status mst_lib_setting(const char *name, int64_t *out, bool *set_out,
                              struct muster_error *err);

enum mst_set_by { MST_BY_DEFAULT, MST_BY_ENVIRONMENT, MST_BY_OPTION };

/* A number among the options of a call, and the setting that it overrides. */
struct mst_option {
    const char *name;
    int64_t given; /* 0: the environment's, else the default */
    void *field;   /* where the number goes, if `size` is not 0 */
    size_t size;   /* 4 or 8 bytes */
    int64_t value; /* what was read */
    unsigned how;
    enum mst_set_by by; /* what was read */
};

enum {
    MST_OPTION_NEVER = 1, /* every negative number is -1 */
    MST_OPTION_NS = 2,    /* the field counts nanoseconds */
    MST_OPTION_SAID = 4   /* 0 instead of the default: that is no opinion */
};

#define MST_OPTION(option, number, to, reading)                                                    \
    {                                                                                              \
        .name = (option), .given = (number), .field = (to), .size = sizeof(*(to)),                 \
        .how = (reading)                                                                           \
    }

/* In this order. EINVAL, with its text, for the first one that its setting's row does not allow. */
muster_status mst_lib_numbers(struct mst_option *options, size_t count, struct muster_error *err);

/* The iteration that muster_client_view shows. Lock held. */
void mst_lib_iteration(muster_client *client, uint64_t iteration);

#endif
