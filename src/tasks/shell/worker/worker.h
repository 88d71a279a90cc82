/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_TASKS_SHELL_WORKER_WORKER_H
#define MST_TASKS_SHELL_WORKER_WORKER_H

/* The insides of a muster_worker: the shell around the machine of tasks/worker.h.
 *
 *   worker.c    options, functions
 *   serve.c     the loop: connection, the machine's effects, the end
 *   watch.c     the coordinator's key, and the end of the session
 *   run.c       functions in this process
 *   task.c      what a function may do
 *   values.c    per-worker values of this process
 *   child.h     functions in other processes: children and commands
 *
 * One lock guards the machine and all else. A thread that has news for the machine (the one that
 * polls, or one on which a function returned) takes the lock, feeds it and carries out the effects;
 * so a run that follows another on the same thread costs no hand-over. With one slot the serving
 * thread runs functions itself, and while one takes long (STAND_IN_NS) a second thread stands in at
 * the loop. Locks are taken in the order: worker's, client's, watch's. */

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/buffer.h"
#include "base/list.h"
#include "client/shell/follow.h"
#include "client/shell/handle.h"
#include "client/shell/signals.h"
#include "muster/worker.h"
#include "proto/cluster_status.h"
#include "tasks/shell/link.h"
#include "tasks/worker.h"

enum {
    MST_WORK_SLOTS_MAX = 4096,
    MST_WORK_FUNCTIONS_MAX = 4096,
    MST_WORK_NAME_MAX = 255,
    MST_WORK_ADDRESS_MAX = 1024,
    MST_WORK_WORD_MAX = 256 /* of a failure that is made here */
};

/* What fits into a message, with room for what else is in it. */
#define MST_WORK_RESULT_MAX ((size_t)16 * 1024 * 1024 - 65536)

enum mst_work_place { MST_WORK_HERE, MST_WORK_CHILD, MST_WORK_COMMAND };

struct mst_work_function {
    char *name;
    uint32_t version, flags;
    enum mst_work_place place;
    muster_task_fn *fn;
    void *arg;
    char **argv; /* of a command; NULL: the closure names it */
    uint64_t stdout_max;
};

/* Memory that this process shares with its children. */
struct mst_work_flags {
    atomic_bool stop;  /* the run in the slot is to stop */
    atomic_bool begun; /* the slot's child has looked at what it was sent */
};

#define MST_WORK_NO_MEMORY "the worker has no memory for it"

/* The result of a function. */
struct mst_work_result {
    struct mst_part *parts;
    uint32_t count, room;
    size_t bytes;
    bool too_large, too_many;
    enum mst_origin origin; /* NONE: no failure was reported */
    int32_t code;
    char *text, *state;
};

/* A value of this process: made by BUILD, used by runs, freed once it is dropped and unused. */
struct mst_work_value {
    struct mst_list link;
    uint64_t number;
    uint32_t function;
    struct mst_parts parts; /* of the builder, copied */
    enum { MST_WORK_NOT_BUILT, MST_WORK_BUILDING, MST_WORK_BUILT, MST_WORK_BUILD_FAILED } state;
    struct mst_work_result result;
    void *object;
    void (*destroy)(void *object);
    uint32_t users;
    bool dropped;
};

struct mst_work_values {
    struct mst_list all, garbage;
};

/* A function's view of its run: RUN or BUILD. It outlives a lock, so it copies what may change. */
struct muster_task {
    const struct mst_cluster_message *message;
    struct muster_worker *owner;
    struct mst_work_result result;
    char *given_key, made_key[MST_CLUSTER_LABEL_MAX + 48]; /* NULL: the made one */
    struct mst_work_value **needs, *few_needs[4];
    struct mst_work_value *builds; /* what it keeps an object for; NULL */
    const struct mst_work_function *functions;
    struct mst_work_flags *flags;
    int cancel_fd;
    uint32_t worker, slot;
    const char *host;
    uint64_t deadline_ns; /* 0: none */
};

/* A run or a build, from the machine's effect to its answer. */
struct mst_work_job {
    struct mst_list link; /* waits for a thread, for a child, or to be answered */
    const struct mst_cluster_message *message;
    const struct mst_work_function *function;
    uint32_t slot;
    bool active, running;
    bool asked; /* to stop */
    uint64_t asked_ns, deadline_ns;
    /* Its failure, where no function reports one. */
    enum mst_origin origin;
    int32_t code;
    char word[MST_WORK_WORD_MAX];
};

/* child.c */
struct mst_work_child {
    struct mst_cluster_link *link;
    bool lives;      /* it was asked for, and its end is not reported yet */
    bool doomed;     /* it was killed, or hung up: its end is reported soon */
    uint32_t number; /* the worker's, and the term, as the child knows them */
    uint64_t term;
    struct mst_work_values known; /* those that it was sent, by their numbers alone */
    uint32_t tries;               /* of the job: children that ended before they had looked at it */
};

/* command.c */
struct mst_work_command {
    bool lives;
    int out, error;           /* our ends; -1 */
    struct mst_buffer output; /* of the standard output: all */
    struct mst_buffer tail;   /* of the standard error: the end */
    bool too_much;
    uint64_t began_ns;
};

/* Runs one function at a time, at one of the places. */
struct mst_work_slot {
    struct mst_work_job job;
    int cancel_fd; /* an event: the job is asked to stop */
    struct mst_work_child child;
    struct mst_work_command command;
};

struct mst_work_news {
    bool any; /* of the coordinator */
    uint64_t term;
    char address[MST_WORK_ADDRESS_MAX];
    size_t address_size;
    bool dismissed;      /* the cluster was, by its coordinator */
    muster_status ended; /* OK: the session lives */
};

struct mst_work_watch {
    struct muster_worker *worker;
    struct mst_lib_follow follow; /* under the client's lock */
    char key[MST_CLUSTER_LABEL_ROOM], record_key[MST_CLUSTER_LABEL_ROOM];
    pthread_mutex_t lock; /* of the news */
    struct mst_work_news news;
};

struct muster_worker {     // NOLINT(clang-analyzer-optin.performance.Padding): by meaning
    muster_client *client; /* NULL: it was closed after serve */
    pid_t pid;
    char *cluster, *scratch;
    uint32_t slots;
    uint64_t cancel_grace_ns;
    uint64_t signals;
    struct mst_work_function *functions;
    uint32_t function_count;
    uint32_t places; /* where they run: bits of enum mst_work_place */
    bool served;
    atomic_bool drain;
    atomic_int wake;  /* an event: look around; -1 */
    atomic_bool lost; /* the program has closed the descriptors: none is used any more */

    /* Of serve. */
    uint32_t index; /* the member's */
    pthread_mutex_t lock;
    pthread_cond_t work; /* for the threads: there is a job */
    struct mst_worker *machine;
    struct mst_work_watch watch;
    struct mst_signals signalled;
    int epoll;
    struct mst_cluster_link *link;
    uint64_t link_serial;
    bool connected, drained;
    bool link_lost; /* the machine does not know yet */
    struct mst_tls_context *tls;
    void *room;
    struct mst_work_slot *slot;   /* so many as `slots` */
    struct mst_work_flags *flags; /* likewise */
    uint32_t active;              /* of them: not answered yet */
    uint64_t term;                /* of the coordinator that is obeyed */
    struct mst_list waiting;      /* jobs for a thread */
    struct mst_list owed;         /* jobs to be answered with their own failure */
    struct mst_work_values values;
    uint64_t until_ns; /* when the thread that polls wakes by itself; 0: none polls */
    uint64_t flushed_ns;
    bool ended;
    muster_status end_status;

    /* Threads: of several slots; or the one that stands in. */
    pthread_t *threads;
    uint32_t thread_count;
    uint32_t idle_threads;
    bool stop_threads;
    bool inside; /* the serving thread, in a function */
    bool standing_in;
    uint64_t turn; /* counts those functions */
    uint64_t armed_turn;
    bool armed;
    int timer, leave; /* of the thread that stands in: go in a moment; leave now. -1: none */

    /* orders.c, supervisor.c */
    int supervisor; /* our end of its socket; -1: there is none */
    pid_t supervisor_pid;

    /* In a child. */
    struct mst_cluster_link *home; /* to the worker; NULL: this is it */
    uint32_t home_number;          /* the worker's, in the cluster */
};

/* The worker whose lock this thread holds. */
extern _Thread_local const struct muster_worker *mst_work_holding;

/* Its machine, under the worker's lock. */
static inline struct mst_worker *mst_work_machine(const struct muster_worker *worker)
{
    MST_LIB_HELD(mst_work_holding == worker);
    return worker->machine;
}

/* The keys of epoll: the event in the upper half, a slot in the lower. */
enum mst_work_event {
    MST_WORK_EVENT_WAKE = 1,
    MST_WORK_EVENT_LINK,
    MST_WORK_EVENT_SIGNAL,
    MST_WORK_EVENT_SUPERVISOR,
    MST_WORK_EVENT_CHILD,
    MST_WORK_EVENT_COMMAND
};

static inline uint64_t mst_work_key(enum mst_work_event event, uint32_t slot)
{
    return (uint64_t)event << 32 | slot;
}

/* ---- serve.c; lock held ---- */

void mst_work_lock(struct muster_worker *worker);
void mst_work_unlock(struct muster_worker *worker);
/* Carries out what the machine wants, and answers what is owed. */
void mst_work_drain(struct muster_worker *worker, uint64_t now_ns);
void mst_work_flush(struct muster_worker *worker);
/* One wait for something to happen; the lock is released meanwhile. `block` false: only looks.
 * `leave`: it ends, and looks at nothing, when that event rings; -1: none. */
void mst_work_turn(struct muster_worker *worker, bool block, int leave);
/* The loop handles `event` of that slot when `fd` is readable. False: errno. */
bool mst_work_watch_fd(struct muster_worker *worker, int fd, enum mst_work_event event,
                       uint32_t slot);
/* The job is over with this failure; it is answered at the next drain. */
void mst_work_owe(struct muster_worker *worker, struct mst_work_job *job, enum mst_origin origin,
                  int32_t code, const char *word);
/* The job is over: answers it. `result` NULL: with the failure that is given. */
void mst_work_answer(struct muster_worker *worker, struct mst_work_job *job,
                     const struct mst_failure *failure, struct mst_parts parts, uint64_t run_ns);

/* The worker ends with `status`; the line says why. */
void mst_work_fail(struct muster_worker *worker, muster_status status, const char *line);

/* No lock: all of it, from the beginning to the end. */
muster_status mst_work_serve(struct muster_worker *worker, struct muster_error *err);

/* ---- watch.c ---- */

/* Client's lock held: it has this worker, and reports its own end. So before serve and after it. */
void mst_work_watch_claim(struct muster_worker *worker);
muster_status mst_work_watch_start(struct muster_worker *worker, struct muster_error *err);
void mst_work_watch_stop(struct muster_worker *worker);
/* Hands what came to the machine; worker's lock held. Whether the cluster was dismissed. */
bool mst_work_watch_take(struct muster_worker *worker, uint64_t now_ns);

/* ---- run.c ---- */

/* Destroys dropped values; lock held. True: there was one, and the lock was released for it. */
bool mst_work_collect(struct muster_worker *worker);
muster_status mst_work_threads_start(struct muster_worker *worker, struct muster_error *err);
void mst_work_threads_stop(struct muster_worker *worker); /* lock not held */
/* lock held */
void mst_work_enqueue(struct muster_worker *worker, struct mst_work_job *job);
struct mst_work_job *mst_work_take(struct muster_worker *worker); /* NULL: none can run now */
void mst_work_run(struct muster_worker *worker, struct mst_work_job *job);
void mst_work_stop_here(struct muster_worker *worker, struct mst_work_job *job, bool kill);

/* A report, PROGRESS or LOG, of the run in that slot; lock held. Left out while the coordinator
 * does not read. */
void mst_work_report(struct muster_worker *worker, uint32_t slot,
                     enum mst_cluster_message_type type, double fraction, struct mst_slice text);
/* The same from the function; lock not held. */
void mst_work_task_report(const struct muster_task *task, enum mst_cluster_message_type type,
                          double fraction, struct mst_slice text);

/* ---- task.c ---- */

/* `message`: the job's, or the BUILD of a value that it needs. ENOMEM. */
muster_status mst_work_task_init(struct muster_task *task, struct muster_worker *worker,
                                 const struct mst_work_job *job,
                                 const struct mst_cluster_message *message);
void mst_work_task_fini(struct muster_task *task);
/* NULL: a value; else *failure, which borrows from the task. */
const struct mst_failure *mst_work_task_failure(const struct muster_task *task,
                                                muster_status status, struct mst_failure *failure);
/* A copy of `data` as one more part. ELIMIT: then the result counts as too large; ENOMEM. */
muster_status mst_work_result_add(struct mst_work_result *result, struct mst_slice data,
                                  uint32_t type);
/* The attempt failed: what goes along with the failure stays, the value does not. */
void mst_work_result_failed(struct mst_work_result *result);
struct mst_failure mst_work_result_failure(const struct mst_work_result *result); /* borrows */
void mst_work_result_fini(struct mst_work_result *result);

static inline struct mst_parts mst_work_result_parts(const struct mst_work_result *result)
{
    return (struct mst_parts){.items = result->parts, .count = result->count};
}

/* ---- values.c; the caller has the table for itself ---- */

void mst_work_values_init(struct mst_work_values *values);
struct mst_work_value *mst_work_value_find(struct mst_work_values *values, uint64_t number);
/* The value of BUILD: the one that is there, else a new one. NULL: no memory. */
struct mst_work_value *mst_work_value_add(struct mst_work_values *values,
                                          const struct mst_cluster_message *build);
/* Its builder returned `status`; the result moves from the task into it. */
void mst_work_value_built(struct mst_work_value *value, struct muster_task *task,
                          muster_status status);
/* A command has made it of these parts. */
void mst_work_value_set(struct mst_work_value *value, struct mst_parts parts);
void mst_work_value_let_go(struct mst_work_values *values, struct mst_work_value *value);
void mst_work_value_drop(struct mst_work_values *values, uint64_t number);
/* One of those that are to be destroyed, without the lock; NULL: none. */
struct mst_work_value *mst_work_value_garbage(struct mst_work_values *values);
void mst_work_value_destroy(struct mst_work_value *value);
void mst_work_values_sweep(struct mst_work_values *values); /* destroys them all */
void mst_work_values_fini(struct mst_work_values *values);

/* ---- children.c: in a child, answers go home ---- */

void mst_work_home_answer(struct muster_worker *worker, const struct mst_work_job *job,
                          const struct mst_failure *failure, struct mst_parts parts,
                          uint64_t run_ns);
void mst_work_home_report(struct muster_worker *worker, const struct muster_task *task,
                          enum mst_cluster_message_type type, double fraction,
                          struct mst_slice text);

#endif
