/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LIB_HANDLE_H
#define MST_LIB_HANDLE_H

/* The insides of a client handle, for the files of this folder. */

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/text.h"
#include "io/poll/driver.h"
#include "lib/internal.h"

/* A thread that blocks in mst_lib_wait. */
struct mst_lib_waiter {
    struct mst_list link;
    pthread_cond_t wake;
    bool (*ready)(void *ctx);
    void *ctx;
    bool interruptible; /* the user's: ends when the client is interrupted or closing */
    bool driving;
};

/* What the background thread is doing.
 *
 *   DRIVES --a caller takes the seat--> RESTS --a moment later, nobody waits--> DRIVES
 *                                        ^ |somebody waits
 *            the last caller goes: kicked| v
 *                                       PARKED */
enum mst_lib_background { MST_LIB_DRIVES, MST_LIB_RESTS, MST_LIB_PARKED };

struct mst_lib_counter; /* round.c: how often a round's name was called in this generation */
struct mst_lib_alone;   /* alone.c: the service of a job of one */

struct muster_client {
    pthread_mutex_t lock;
    struct muster_client *outer; /* the other client in whose callback the lock was taken */
    pid_t pid;                   /* of the process that opened it */
    enum mst_role role;
    struct mst_driver *driver;

    /* The seat: who polls the connection. At most one thread does, apart from the moment in which
     * the background thread has been kicked off it and has not noticed yet. */
    struct mst_list waiters;
    bool driven; /* by a waiter */
    bool caller_polls, background_polls;
    uint64_t until_ns; /* when the thread in poll wakes by itself */
    uint64_t epoch;    /* what it polls */
    int caller_event, background_event;
    enum mst_lib_background background;
    pthread_t thread;
    bool thread_runs;
    bool thread_ready; /* and holds the page, if there is one */
    bool dirty;        /* something was posted since the last turn */

    unsigned keepers; /* who must find the handle when they take the lock again */
    bool closing;     /* no user may wait any more */
    bool stop_thread;
    atomic_bool poisoned;
    bool interrupted;
    bool ended;
    muster_status end_status; /* OK: the session lives, or will */
    char end_text[400];       /* why it ended, in words */

    struct mst_lib_hook hook;
    struct mst_page *page;
    uint64_t iteration;
    struct mst_lib_counter *counters;
    uint64_t counters_generation;
    struct mst_lib_alone *alone;

    uint64_t opened_ns;
    char *addr, *job, *host;
    struct mst_tls_context *tls; /* for TCP; NULL: no secret */
    char secret_name[300];       /* where it is from */
    char trouble[400];           /* why the last attempt to connect failed; "" */
    int trouble_errno;
    bool shares;       /* the service that the ranks of this machine start for themselves */
    bool service_gone; /* that one, or the one of its own, has ended */
    bool was_online;   /* at the last look, and no trouble since */
    bool trouble_told; /* to the log */
    bool holder_told;
    void (*log)(void *ctx, enum muster_level level, const char *line);
    void *log_ctx;
};

/* The client whose lock this thread took last and holds; `outer` leads to the ones before. */
extern _Thread_local struct muster_client *mst_lib_holding;

/* Whether this thread holds its lock: from a callback no call may be made. */
bool mst_lib_holds(const struct muster_client *client);

/* client.c: tells the log when the service is gone or back. Lock held. */
void mst_lib_look(struct muster_client *client);

/* secret.c */
struct mst_lib_secret {
    const char *file; /* borrowed; NULL or "": none */
    int64_t fd;       /* before the file; -1: none */
    bool insecure;
};
muster_status mst_lib_secret_find(struct mst_lib_secret *out,
                                  const struct muster_client_options *options,
                                  struct muster_error *err);
bool mst_lib_secret_given(const struct mst_lib_secret *secret);
/* Reads it and makes the client ready for TLS, if one of the endpoints needs that. */
muster_status mst_lib_secret_use(const struct mst_lib_secret *secret,
                                 const struct mst_endpoints *endpoints,
                                 struct muster_client *client, struct muster_error *err);

/* drive.c */
muster_status mst_lib_background_start(struct muster_client *client);
void mst_lib_background_stop(struct muster_client *client); /* lock not held */
void mst_lib_wake_ready(struct muster_client *client);      /* lock held */

/* Lock held. A call that takes the lock more than once keeps the handle until it lets go of it:
 * closing waits for that. */
void mst_lib_keep(struct muster_client *client);
void mst_lib_let_go(struct muster_client *client);

/* Like mst_lib_wait, but ends early when the user's calls are to end. */
bool mst_lib_wait_interruptible(struct muster_client *client, bool (*ready)(void *ctx), void *ctx,
                                uint64_t deadline_ns);

/* call.c: what mst_lib_call does, and whether the status is the service's. */
struct mst_lib_outcome {
    mst_lib_reply_fn *on_reply;
    void *ctx;
    bool local;
};
muster_status mst_lib_call_full(struct muster_client *client, const struct mst_request *request,
                                int64_t timeout_ms, struct mst_lib_outcome *outcome,
                                struct muster_error *err, const char *what);
/* EINVAL with "what: why". */
muster_status mst_lib_refuse(struct muster_error *err, const char *what, const char *why);
uint64_t mst_lib_deadline_ns(int64_t timeout_ms, uint64_t zero_ns);
/* What is left of `timeout_ms` until its deadline, for one more call: 1 at least, because 0 and -1
 * mean something else; those stay as they are. */
int64_t mst_lib_left_ms(int64_t timeout_ms, uint64_t deadline_ns);

/* "put 'x'": what is attempted, for the texts. */
#define MST_LIB_WHAT_ROOM 200
void mst_lib_describe(char what[MST_LIB_WHAT_ROOM], const char *verb, const char *name);

/* Puts the caller's options over the standard ones in `out`: the caller's struct may be older and
 * shorter, or NULL. It begins with its size; `init` is the macro that sets it. */
muster_status mst_lib_options(void *out, size_t size, const void *given, const char *init,
                              struct muster_error *err, const char *what);

/* EINVAL with its text for bytes that are not there. */
muster_status mst_lib_bytes(struct muster_slice bytes, struct muster_error *err, const char *what);

/* error.c: the session is over: why. Lock held. */
muster_status mst_lib_fail_again(struct muster_client *client, struct muster_error *err,
                                 const char *what);

/* round.c */
void mst_lib_counters_free(struct muster_client *client);

/* alone.c: starts a service for this process alone; `*addr_out` is its address and `*job_out` the
 * name under which the commands find it, both the caller's. */
muster_status mst_lib_alone_start(struct mst_lib_alone **out, char **addr_out, char **job_out,
                                  struct muster_error *err, const char *what);
/* Whether the service is still running; false: `err` says how it ended. */
bool mst_lib_alone_runs(struct mst_lib_alone *alone, struct muster_error *err, const char *what);
void mst_lib_alone_stop(struct mst_lib_alone *alone);    /* NULL: no-op */
void mst_lib_alone_abandon(struct mst_lib_alone *alone); /* in a forked child */

#endif
