/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_HANDLE_H
#define MST_CLIENT_SHELL_HANDLE_H

/* The insides of a client handle, for the files of this folder. */

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/panic.h"
#include "base/table.h"
#include "base/text.h"
#include "client/shell/driver/driver.h"
#include "client/shell/internal.h"
#include "net/tls.h"

/* A thread that blocks in mst_lib_wait. */
struct mst_lib_waiter {
    struct mst_list link;
    pthread_cond_t wake;
    bool (*ready)(void *ctx);
    void *ctx;
    bool interruptible; /* a call of the user: ends when the client is interrupted or closing */
    bool until_signal;
    bool signalled; /* until_signal: a signal was handled on its thread, or may have been */
    bool driving;
};

/* What the background thread is doing.
 *
 *   DRIVES --a caller takes the seat--> PARKED --after a rest in which callers stayed off--> DRIVES
 */
enum mst_lib_background { MST_LIB_DRIVES, MST_LIB_PARKED };

/* round.c: the calls of each name of rounds in a generation. */
#define MST_LIB_TAKEN 16u /* names in one request */
struct mst_lib_counters {
    uint64_t generation;
    struct mst_table by_name;
    struct mst_lib_counter *all;
    struct mst_list taken; /* those whose last result is here, and the service does not know it */
    uint64_t last_place;   /* in that list */
    struct mst_slice names[MST_LIB_TAKEN]; /* of a request, until it is posted */
};

struct mst_lib_alone;  /* alone.c: the service of a job of one */
struct mst_lib_helper; /* helper.c: an agent for this process alone */

/* secret.c: the source of a secret. */
struct mst_lib_secret {
    const char *file; /* borrowed; NULL or "": none */
    int64_t fd;       /* preferred to the file; -1: none */
    bool insecure;
    bool keep; /* also for a helper that may be started */
};

/* The user's calls that may be open at once, blocking or started, and do not wait for keys or
 * changes: the library's own requests find room beside them. */
#define MST_LIB_CALLS_MAX (MST_CLIENT_CALLS_MAX - 96)

struct muster_client {
    pthread_mutex_t lock;
    struct muster_client *outer; /* the other client in whose callback the lock was taken */
    pid_t pid;                   /* of the process that opened it */
    enum mst_role role;
    bool fixed_size; /* the job needs as many ranks as it starts with */
    struct mst_driver *driver;

    /* The seat: the thread that polls the connection. At most one does, except for the moment in
     * which the background thread has lost the seat and has not noticed yet. */
    struct mst_list waiters;
    bool driven; /* by a waiter */
    bool caller_polls, background_polls;
    uint64_t until_ns; /* when the thread in poll wakes by itself */
    uint64_t epoch;    /* of the driver's interest that it polls */
    int caller_event;
    int background_event;
    enum mst_lib_background background;
    int rest_ms;                /* of the background thread, PARKED; 0: it drives */
    uint32_t left, left_before; /* how often callers have left the seat; before its rest */
    pthread_t thread;
    bool thread_runs;
    bool thread_ready; /* and holds the page, if there is one */
    bool dirty;        /* something was posted since the last turn */
    bool hurry;        /* a call was started, for which no thread blocks: no rest */
    bool page_held;    /* by the background thread, or that failed */
    bool page_ours;    /* held: only this client writes there */

    unsigned keepers; /* calls that will take the lock again: closing waits for them */
    bool closing;     /* the user's calls may not wait any more */
    bool exiting;     /* exit() was called inside of a function, which never returns */
    bool stop_thread;
    bool looped; /* there is no thread: a loop of the program drives */
    atomic_bool poisoned;
    bool interrupted;
    bool ended;
    bool closed;              /* only its lock and its flags may be used */
    muster_status end_status; /* OK: the session lives, or will */
    char end_text[400];       /* why it ended, in words */

    /* start.c */
    uint32_t open_calls;         /* of the user: CALLS_MAX at most */
    uint32_t references;         /* of the handle and of the started calls: start.c */
    struct mst_list calls;       /* started and not freed */
    struct mst_list over;        /* finished, in that order: to be dispatched */
    struct mst_list dispatchers; /* threads in muster_client_dispatch */
    size_t over_count;
    int call_event; /* readable while a call is to be dispatched; -1: none yet */

    int lost_fd; /* a descriptor of the library that the program has closed; 0: none */

    struct mst_lib_hook hooks[MST_USERS];
    struct mst_list timers; /* that are set */
    struct mst_page *page;
    int agent_fd; /* a pidfd of the agent, where that is not the parent; -1: none */
    struct mst_lib_helper *helper;
    uint64_t iteration;
    uint64_t heard; /* the completed-run count that this process knows */
    struct mst_lib_counters counters;
    struct mst_lib_alone *alone;

    uint64_t opened_ns;
    uint64_t outages; /* of the connection to the service */
    char *addr, *job, *host;
    struct mst_tls_context *tls;  /* for TCP; NULL: no secret */
    char secret_name[300];        /* its source, for texts */
    struct mst_lib_secret secret; /* as given; its file is: */
    char *secret_path;            /* NULL: none */
    const char *secret_file;      /* for the helper: that path... */
    int secret_fd;                /* ...or a copy that can be read again; -1: none */
    int trouble_errno;
    char trouble[400]; /* why the last attempt to connect failed; "" */
    bool insecure;
    bool listened_to;  /* a rank of the job has listened for preemption notices */
    bool shares;       /* the service that the ranks of this machine started */
    bool service_gone; /* that one, or the one for this process alone, has ended */
    bool was_online;   /* at the last look, and no trouble since */
    bool trouble_logged, holder_logged;
    void (*log)(void *ctx, enum muster_level level, const char *line);
    void *log_ctx;
};

/* The client whose lock this thread took last and holds; `outer`: the one before. */
extern _Thread_local struct muster_client *mst_lib_holding;

/* A thread's part in a run of a function. */
struct mst_lib_thread {
    struct mst_page *page;  /* of the function's thread: shows its calls; NULL: another thread */
    const char *waits_for;  /* the name of its next wait; NULL: none */
    unsigned waits;         /* nested: a log callback may call another client */
    const char *no_waiting; /* why its blocking calls return EDEADLK; NULL: they do not */
    bool waits_at_once;     /* for what it starts: so it was with the last call */
};
extern _Thread_local struct mst_lib_thread mst_lib_thread;

/* call.c: around each wait. The page of the function's thread shows that it waits in muster, so the
 * wait does not count as a hang. */
void mst_lib_wait_shown(void);
void mst_lib_wait_over(void);

/* EDEADLK with that reason. */
muster_status mst_lib_forbidden(struct muster_error *err, const char *what);

/* Whether this thread holds its lock: from a callback no call may be made. */
bool mst_lib_holds(const struct muster_client *client);

/* Builds for tests abort where a thread lacks the lock that it needs, even without a race; others
 * do not check. */
#ifdef MUSTER_CHECK_LOCKS
#define MST_LIB_HELD(held) MST_ASSERT(held)
#else
#define MST_LIB_HELD(held) ((void)0)
#endif

/* Its machine, under its lock. */
static inline struct mst_client *mst_lib_machine(const struct muster_client *client)
{
    MST_LIB_HELD(mst_lib_holds(client));
    return mst_driver_client(client->driver);
}

/* client.c: as the public API shows it. */
struct muster_view mst_lib_view_shown(const struct mst_view *view);

/* client.c: logs when the service is out of reach or back. Lock held. */
void mst_lib_look(struct muster_client *client);

/* secret.c */
struct mst_lib_wanted;
muster_status mst_lib_secret_find(struct mst_lib_wanted *wanted, struct muster_error *err);
bool mst_lib_secret_given(const struct mst_lib_secret *secret);
/* Reads the secret and prepares TLS, if one of the addresses needs it. */
muster_status mst_lib_secret_use(const struct mst_lib_secret *secret, const char *addr,
                                 struct muster_client *client, struct muster_error *err);
/* A separate context for the cluster's connections, on either side. NULL: there is no secret. No
 * lock; not from two threads at once. */
muster_status mst_lib_secret_tls(struct muster_client *client, enum mst_tls_side side,
                                 struct mst_tls_context **out, struct muster_error *err);

/* call.c: any call of muster is a sign of life of the function. */
void mst_lib_alive(void);

/* panic.c: the lock that this thread holds beside a client's. After a broken invariant `poison`
 * marks what it guards and releases it. NULL: none. */
struct mst_lib_guard {
    void (*poison)(void *ctx, const char *words);
    void *ctx;
};
extern _Thread_local struct mst_lib_guard mst_lib_guard;

/* drive.c */
/* The hooks that have `member`: `for`, with `hook` in turn. */
/* NOLINTBEGIN(bugprone-macro-parentheses): as in base/list.h */
#define MST_LIB_HOOKS(hook, client, member)                                                        \
    for (const struct mst_lib_hook *hook = (client)->hooks; hook < (client)->hooks + MST_USERS;    \
         hook++)                                                                                   \
        if (hook->member)
/* NOLINTEND(bugprone-macro-parentheses) */

/* close.c: makes these calls, two at most, and waits for their answers until then: the last
 * requests of a client. Lock held. */
void mst_lib_farewell(muster_client *client, const struct mst_request *requests, unsigned count,
                      uint64_t until_ns);

/* close.c: of mst_lib_end_by; UINT64_MAX: never. */
uint64_t mst_lib_end_ns(void);

/* The service is gone, or its connection disowned: every call fails with that reason. Lock held. */
bool mst_lib_cut_off(const struct muster_client *client);

muster_status mst_lib_background_start(struct muster_client *client, struct muster_error *err);
void mst_lib_background_ring(struct muster_client *client); /* lock held */
void mst_lib_background_stop(struct muster_client *client); /* lock not held */
void mst_lib_wake_ready(struct muster_client *client);      /* lock held */
/* Poll found a descriptor of the library closed. If the client's are closed too, its session ends,
 * and none of its descriptors is used any more. Lock held. */
void mst_lib_disown(struct muster_client *client);

/* Lock held. A call that takes the lock more than once keeps the handle meanwhile: closing waits
 * for it. */
void mst_lib_keep(struct muster_client *client);
void mst_lib_let_go(struct muster_client *client);

/* Like mst_lib_wait, but ends when the client is interrupted or closing. */
bool mst_lib_wait_interruptible(struct muster_client *client, bool (*ready)(void *ctx), void *ctx,
                                uint64_t deadline_ns);

/* EINVAL with "what: " and the formatted text. */
muster_status mst_lib_refuse(struct muster_error *err, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
uint64_t mst_lib_deadline_ns(int64_t timeout_ms, uint64_t zero_ns);
/* The rest of `timeout_ms` until its deadline, for one more call: at least 1, because 0 and -1 have
 * meanings of their own; those are returned unchanged. */
int64_t mst_lib_left_ms(int64_t timeout_ms, uint64_t deadline_ns);

/* drive.c: like mst_lib_wait, but also ends, without `ready`, when a signal was handled on this
 * thread, or may have been. */
bool mst_lib_wait_until_signal(struct muster_client *client, bool (*ready)(void *ctx), void *ctx,
                               uint64_t deadline_ns);

/* "put 'x'": the attempt, for texts. */
#define MST_LIB_WHAT_ROOM 200
void mst_lib_describe(char what[MST_LIB_WHAT_ROOM], const char *verb, const char *name);

/* Copies the caller's options over the defaults in `out`: the caller's struct may be older and
 * shorter, or NULL. It begins with its size, which the macro `init` sets. */
muster_status mst_lib_options(void *out, size_t size, const void *given, const char *init,
                              struct muster_error *err, const char *what);

/* EINVAL with its text for NULL with a size. */
muster_status mst_lib_bytes(struct mst_slice bytes, struct muster_error *err, const char *what);

/* drive.c: a thread in poll looks again at what it polls, and for how long. Lock held. */
void mst_lib_wake_poller(struct muster_client *client);

/* drive.c: no thread blocks for what was just posted: the background thread drives at once, without
 * its rest. Lock held. */
void mst_lib_hurry(struct muster_client *client);

/* start.c: the started calls. Ends them all; lock held. */
void mst_lib_calls_end(struct muster_client *client, muster_status status);
/* The client is closed from now on; their handles stay, finished. Lock not held. */
void mst_lib_calls_close(struct muster_client *client);
/* Drops a reference, and the lock. */
void mst_lib_release(struct muster_client *client);

/* error.c: " rank 1 (#2, silent 12.4 s, node b3), ... and 3 more" of `all`. */
void mst_lib_add_names(struct mst_text *text, const struct mst_detail *detail, uint32_t all);

/* error.c: the reason for which the session is over. Lock held. */
muster_status mst_lib_fail_again(struct muster_client *client, struct muster_error *err,
                                 const char *what);

/* heard.c: `heard` of the last client of the job that this process closed: for a process that opens
 * a client for each run. */
uint64_t mst_lib_heard(const char *job);
void mst_lib_heard_keep(const char *job, uint64_t heard);

/* round.c */
void mst_lib_counters_init(struct mst_lib_counters *counters);
void mst_lib_counters_free(struct mst_lib_counters *counters);

#endif
