/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_TASKS_SHELL_COORDINATOR_CLUSTER_H
#define MST_TASKS_SHELL_COORDINATOR_CLUSTER_H

/* The insides of a muster_cluster.
 *
 *   cluster.c    opening and closing
 *   options.c    what a handle was given
 *   term.c       the key that is the term, and the job's members: what hangs in the client
 *   loop.c       the thread: connections, the machine's effects, waiting threads
 *   strangers.c  connections that are no worker's yet
 *   calls.c      schedule, join, done and other calls about the whole
 *   closures.c   the handle of a closure
 *   values.c     per-worker values and datasets
 *   copies.c     failures and outcomes in the structs that users see
 *   words.c      error texts and log lines
 *
 * Two locks. The client's guards what hangs in the client; the cluster's, taken inside of it or
 * alone, guards everything else. A thread that changes the machine carries its effects out as far
 * as memory goes: it encodes messages and wakes waiters. The cluster's thread writes the bytes.
 * While that sleeps, and unless a caller has written a moment ago, the caller writes them itself: a
 * single closure then costs no thread switch, and one write carries many closures in a row. */

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/panic.h"
#include "base/table.h"
#include "client/shell/follow.h"
#include "client/shell/handle.h"
#include "muster/cluster.h"
#include "proto/cluster_status.h"
#include "tasks/coordinator.h"
#include "tasks/publisher.h"
#include "tasks/shell/link.h"
#include "tasks/shell/listener.h"
#include "tasks/shell/parts.h"

/* The options of the caller, else the environment, else the defaults. */
struct mst_coord_settings {
    struct mst_cluster_config config; /* without its term and seed; its name is `name` */
    char name[256];
    char listen[160]; /* "": any */
};

/* A worker's connection. No id comes twice. */
struct mst_coord_peer {
    struct mst_list link;     /* among all */
    struct mst_list dirty;    /* has something to write */
    struct mst_list stranger; /* no worker's yet: it was not welcomed */
    struct mst_table_node by_id;
    struct mst_cluster_link *connection;
    uint64_t id;
    uint64_t since_ns; /* a stranger; or it is being closed */
    uint64_t bytes;    /* a stranger: that it sent */
    bool greeted;      /* the machine knows of it */
    bool broken;       /* its end is to be reported to the machine */
    bool closing;      /* the machine has forgotten it: what was sent is still written */
};

/* A thread in a call. */
struct mst_coord_waiter {
    struct mst_list link;
    pthread_cond_t wake;
    bool (*ready)(void *ctx);
    void *ctx;
};

/* The term, under the client's lock. */
struct mst_coord_term {
    struct mst_lib_post claim;   /* inserts the key... */
    struct mst_lib_follow rival; /* ...or waits for it to go */
    struct mst_lib_follow watch;
    struct mst_lib_post status; /* puts what `muster status` shows */
    struct mst_lib_post record; /* looks for that of a dismissal, and later puts it */
    bool dismissed;             /* it is there */
    bool decided;               /* `granted`, and OK: `number` */
    bool over;                  /* nothing is posted any more */
    bool seen;                  /* the key, by the watch */
    muster_status granted;
    uint64_t number;
    char key[MST_CLUSTER_LABEL_ROOM], status_key[MST_CLUSTER_LABEL_ROOM];
    char record_key[MST_CLUSTER_LABEL_ROOM];
    char value[MST_CLUSTER_ADDRESSES_ROOM + 300];
};

struct mst_coord_said { /* a log line */
    struct mst_list link;
    enum muster_level level;
    char text[];
};

struct muster_cluster {
    atomic_uint holders; /* of the memory: the handle's, and one for each of its things */
    pid_t pid;
    struct mst_coord_settings settings;
    /* NULL: it was closed. Changed under both locks; a call compares it before it has any. */
    muster_client *_Atomic client;
    struct mst_coord_term term;
    struct mst_cluster_listener listener;
    struct mst_tls_context *tls; /* the thread's */

    pthread_mutex_t lock;
    struct mst_cluster *machine; /* NULL: not yet, or no more */
    struct mst_list waiters;
    pthread_cond_t nobody; /* the last visitor of a cluster that is closing has left */
    uint64_t changes;      /* counts what waiters may want to look at */
    uint64_t last;         /* the number of the closure that was admitted last */
    uint32_t visitors;
    int ready; /* muster_cluster_fd's event; -1: not asked for */
    struct muster_failures *failures;
    struct mst_cluster_publisher publisher;
    atomic_bool poisoned;
    bool closing, interrupted, superseded;
    bool publishing; /* a put is not answered yet */
    bool recording;  /* the machine waits for the record of the dismissal, which is not posted */
    bool dismissed;
    muster_status unrecorded; /* why the last record could not be written; OK */

    /* The thread. */
    bool thread_runs, stop;
    bool asleep;  /* in epoll, and its event was not rung */
    bool deaf;    /* no descriptors: listens again at hears_ns */
    bool trouble; /* a peer is broken or closing */
    pthread_t thread;
    uint64_t until_ns, hears_ns;
    uint64_t written_ns; /* by a caller in its place */
    int epoll, event;
    struct mst_list peers; /* a forked child walks it, whatever a thread was doing to it */
    struct mst_table peers_by_id;
    uint64_t peers_ever;
    uint32_t stranger_count;
    uint64_t stranger_bytes; /* that they sent, all together */
    uint32_t complaints;     /* lines about connections, since complaints_until_ns began to run */
    uint64_t complaints_until_ns;
    struct mst_list dirty, strangers, said;
    void *room;
};

/* Its machine, under the cluster's lock. NULL: not yet, or no more. */
static inline struct mst_cluster *mst_coord_machine(const muster_cluster *cluster)
{
    MST_LIB_HELD(mst_lib_guard.ctx == cluster && mst_lib_guard.poison);
    return cluster->machine;
}

/* ---- options.c ---- */

muster_status mst_coord_settings_read(struct mst_coord_settings *out,
                                      const struct muster_cluster_options *given,
                                      struct muster_error *err);

/* ---- cluster.c ---- */

void mst_coord_hold(muster_cluster *cluster);
void mst_coord_let_go(muster_cluster *cluster);

/* ---- term.c; client's lock held ---- */

void mst_coord_term_claim(muster_cluster *cluster);
bool mst_coord_term_decided(void *cluster); /* one way or the other */
void mst_coord_term_watch(muster_cluster *cluster);
/* Gives the key back, if it was ours: waits a moment for the service's word. */
void mst_coord_term_leave(muster_cluster *cluster);
void mst_coord_term_drop(muster_cluster *cluster); /* no reply is of interest any more */
void mst_coord_hook_in(muster_cluster *cluster);
/* Puts the publisher's text. */
void mst_coord_term_publish(muster_cluster *cluster, size_t size);
/* Puts the record of the dismissal. */
void mst_coord_term_record(muster_cluster *cluster);

/* ---- loop.c ---- */

void mst_coord_lock(muster_cluster *cluster);
void mst_coord_unlock(muster_cluster *cluster);
void mst_coord_poison(muster_cluster *cluster); /* lock held: the machine is used no more */

/* ELIMIT: no descriptors or epoll watches; ENOMEM: also no thread. */
muster_status mst_coord_loop_start(muster_cluster *cluster, struct muster_error *err);
void mst_coord_loop_farewell(muster_cluster *cluster); /* no lock: a moment, for the workers */
void mst_coord_loop_stop(muster_cluster *cluster);     /* no lock; connections are closed */
void mst_coord_loop_abandon(muster_cluster *cluster);  /* in a forked child */
/* The program has closed its descriptors: they are used no more, nor closed. It is poisoned. Lock
 * held. */
void mst_coord_disown(muster_cluster *cluster);

/* Lock held: after each input of the machine. */
void mst_coord_turn(muster_cluster *cluster);

void mst_coord_hurry(muster_cluster *cluster); /* lock held: a deadline may be nearer */

/* Lock held. OK: `ready` says so; ETIMEDOUT: the deadline passed; or why the call is to end. */
muster_status mst_coord_wait(muster_cluster *cluster, bool (*ready)(void *ctx), void *ctx,
                             uint64_t deadline_ns);
void mst_coord_wake(muster_cluster *cluster); /* lock held: waiters that are ready */

void mst_coord_say(muster_cluster *cluster, enum muster_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void mst_coord_say_of(muster_cluster *cluster, enum muster_level level,
                      const struct mst_coord_peer *peer, const char *what);

/* Nothing is read from it any more. Its end is reported to the machine at the end of the turn. */
void mst_coord_break(muster_cluster *cluster, struct mst_coord_peer *peer);

/* ---- strangers.c; lock held ----
 *
 * A connection is a stranger until its HELLO was answered with WELCOME. Until then it must not cost
 * much: the number of strangers, the bytes of each and of all together, and the time are limited.
 */

enum {
    MST_COORD_STRANGERS_MAX = 4096, /* as many as may come at once when a job starts */
    /* Of a HELLO: 400,000 attempts that a worker still has after its connection broke, which are
     * those of 1,500 slots. */
    MST_COORD_HELLO_BYTES_MAX = 4 << 20,
    MST_COORD_STRANGERS_BYTES_MAX = 64 << 20,
    MST_COORD_COMPLAINTS_MAX = 20 /* lines about connections in 10 s; the rest is counted */
};

void mst_coord_stranger(muster_cluster *cluster, struct mst_coord_peer *peer); /* a new one */
/* It sent something: where all together sent too much, the one that sent most is closed. */
void mst_coord_stranger_sent(muster_cluster *cluster, struct mst_coord_peer *peer);
void mst_coord_stranger_known(muster_cluster *cluster, struct mst_coord_peer *peer); /* WELCOME */
void mst_coord_stranger_gone(muster_cluster *cluster, struct mst_coord_peer *peer);
/* A warning that any process can cause that may connect: limited in number. */
void mst_coord_complain(muster_cluster *cluster, const char *line);
void mst_coord_strangers_tick(muster_cluster *cluster, uint64_t now_ns);
uint64_t mst_coord_strangers_deadline_ns(const muster_cluster *cluster); /* UINT64_MAX: none */

/* ---- calls.c ---- */

/* Every public call: OK, with the lock held and a visitor counted; or its error. */
muster_status mst_coord_enter(muster_cluster *cluster, bool blocks, struct muster_error *err,
                              const char *what);
muster_status mst_coord_leave(muster_cluster *cluster, muster_status status); /* returns it */

/* The error of this status, and returns it; OK: nothing. */
muster_status mst_coord_fail(muster_status status, const char *what, struct muster_error *err);

muster_status mst_coord_parts_check(const struct muster_part *parts, size_t count, const char *what,
                                    struct muster_error *err);

/* ---- words.c ---- */

/* The limit that a call is over, with its value, what was asked for and what to do. ELIMIT. */
muster_status mst_coord_fail_limit(const struct mst_cluster_excess *excess, const char *what,
                                   struct muster_error *err);
/* Lock held. A call was not admitted: as mst_coord_fail, and of ELIMIT and ETIMEDOUT the limit that
 * it is over as well. */
muster_status mst_coord_refuse(muster_cluster *cluster, const struct mst_closure_call *call,
                               muster_status status, const char *what, struct muster_error *err);

muster_status mst_coord_status_of(enum mst_origin origin);
/* "join: closure 17: the function failed with code 3 on worker 2: text"; returns its status. */
muster_status mst_coord_say_failure(const struct muster_failure *failure, uint64_t count,
                                    const char *what, struct muster_error *err);
void mst_coord_say_line(muster_cluster *cluster, const struct mst_cluster_effect *effect);

/* ---- copies.c: each is one piece of memory; NULL: there is none ---- */

struct muster_failures *mst_coord_failures_copy(const struct mst_cluster_failures *failures);

/* The end of a closure, or of a per-worker value, kept for the user. */
struct mst_coord_outcome {
    muster_status status;
    enum mst_closure_state state;
    uint32_t attempts, worker;
    const struct muster_failure *failure; /* NULL: a value */
    struct mst_parts parts;
};
struct mst_coord_outcome *mst_coord_outcome_of(const struct mst_closure_look *look,
                                               uint64_t number);

/* ---- closures.c ---- */

/* A million of them may be queued: it is small until it has ended. */
struct muster_closure {
    muster_cluster *cluster; /* its memory is held */
    uint64_t number;
    struct mst_coord_outcome *outcome; /* once it was looked at after its end */
};

/* Cluster's lock held, or not. NULL: no memory. */
muster_closure *mst_closure_new(muster_cluster *cluster);
void mst_closure_unmake(muster_closure *closure); /* it was not admitted; NULL: a no-op */

/* ---- values.c ---- */

uint64_t mst_per_worker_number(const muster_per_worker *value, const muster_cluster *cluster);

#endif
