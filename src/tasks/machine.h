/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_TASKS_MACHINE_H
#define MST_TASKS_MACHINE_H

/* What the files of the coordinator's machine share.
 * coordinator.c: the configuration, the inputs of every machine, the end. alarm.c: its times.
 * queue.c: functions and what is queued for them. closure.c: admission, settling, what the user
 * sees. series.c: failures and their delivery, cancelling. workers.c: the workers. link.c: their
 * connections. dispatch.c: which worker runs what next. loss.c: what becomes of a worker's runs
 * when it is away. poison.c: closures that cost workers. result.c: what becomes of an attempt.
 * value.c: per-worker values. state_server.c: reports of state servers. effect.c: the outputs.
 * check.c: the invariants. counts.c: what status and metrics show. */

#include "base/histogram.h"
#include "base/list.h"
#include "base/prng.h"
#include "base/table.h"
#include "base/time.h"
#include "base/tree.h"
#include "tasks/coordinator.h"

enum {
    MST_CLUSTER_KEPT = 64,                 /* failures of a series */
    MST_CLUSTER_PREFETCH_MAX = 256,        /* of each slot */
    MST_CLUSTER_PREFETCH_NS = 1000000,     /* of work, of each slot */
    MST_CLUSTER_PREFETCH_BYTES = 16 << 20, /* of arguments, which lie here twice until then */
    MST_CLUSTER_RECALL_NS = 5000000,       /* prefetched for so long: an idle worker may take it */
    MST_CLUSTER_SLOTS_MAX = 65536,
    MST_CLUSTER_LINES_MAX = 1024, /* not yet given out; more are dropped */
    MST_CLUSTER_STUCK_MAX = 16,   /* lines of the watchdog at once, of what runs */
    MST_CLUSTER_WAITS_MAX = 10    /* and of what is queued */
};

/* From the end of a grace to hanging up on a worker that does not answer. */
#define MST_CLUSTER_MARGIN_NS (UINT64_C(2) * NS_PER_S)

/* ---- times: one tree of them ---- */

struct mst_task_alarm {
    struct mst_tree_node node;
    uint64_t due_ns, order;
    void (*ring)(struct mst_cluster *cluster, struct mst_task_alarm *alarm);
};

/* ---- failures ---- */

/* A copy of a failure and of its causes, with its texts behind it. */
struct mst_task_failure {
    uint32_t references;
    uint32_t depth;
    struct mst_failure chain[]; /* [0].cause is [1], and so on */
};

/* ---- functions ---- */

/* A function as it is asked for: by name, and exact or any version. */
struct mst_kind {
    struct mst_table_node node;
    struct mst_list all;
    struct mst_list ready;         /* something is queued, and perhaps a worker can run it */
    struct mst_list fifo;          /* closures as they were admitted */
    struct mst_tree again;         /* those that came back, by number */
    struct mst_task_alarm unknown; /* no worker has it */
    uint64_t created_ns;
    uint32_t *places; /* by worker: 1 + its place in the worker's list; 0: it does not have it */
    uint32_t room;    /* of places */
    uint32_t version;
    uint32_t providers; /* connected ones */
    uint32_t run_ns;    /* measured; 0: not yet */
    uint64_t unable;    /* the last round of taking back in which no idle worker had it */
    bool stuck;         /* no worker has room for it, until one has */
    bool resolved;      /* a worker had it once */
    struct mst_slice name;
    char bytes[];
};

/* ---- closures ---- */

enum mst_where {
    MST_WHERE_FIFO = 0,
    MST_WHERE_AGAIN = 1,
    MST_WHERE_ALONE = 2,   /* waits for a worker of its own */
    MST_WHERE_BACKOFF = 3, /* until its alarm */
    MST_WHERE_HELD = 4,    /* until it is known what became of workers that it may have cost */
    MST_WHERE_RUNNING = 5, /* presumed to have begun */
    MST_WHERE_PREFETCHED = 6,
    MST_WHERE_VALUE = 7,
    MST_WHERE_FAILED = 8
};

struct mst_task_result {
    struct mst_parts parts;
    struct mst_part items[];
};

struct mst_progress {
    uint64_t reported_ns;
    double fraction;
    struct mst_slice text;
    char bytes[];
};

/* One allocation: behind it the parts, the needs, the bytes of the parts, and of the key. */
struct mst_closure {
    struct mst_table_node node; /* by number */
    struct mst_list live;       /* those that are not settled, by number; or those that are */
    union {
        struct mst_list list;      /* FIFO, RUNNING, PREFETCHED */
        struct mst_tree_node tree; /* AGAIN, ALONE */
    } place;
    struct mst_list owed;        /* of its worker: CANCEL if it is stopping, else TAKE_BACK */
    struct mst_task_alarm alarm; /* the next that is due of its deadlines, backoff, grace */
    struct mst_kind *kind;
    struct mst_task_worker *worker; /* RUNNING, PREFETCHED; ALONE: which it waits for, or NULL */
    struct mst_task_result *result;
    struct mst_task_failure *failure;
    struct mst_state_server *hiccup; /* its last report that was tolerated is of this one */
    struct mst_progress *progress;
    struct mst_task_losses *lost; /* the first of the `losses`; NULL: none */
    uint64_t number, series, group;
    uint64_t start_ns, total_ns; /* when it must have begun, ended; NEVER */
    uint64_t run_limit_ns, stop_ms;
    uint64_t admitted_ns, sent_ns, begun_ns;
    uint64_t grace_ns; /* the end of: backoff, or the waiting for an answer to CANCEL; NEVER */
    size_t bytes;
    uint32_t part_count, need_count, key_size;
    uint32_t attempt, ran_on;
    uint32_t load_ns; /* as presumed when it was sent */
    uint32_t error_left, crash_left, exhausted_left;
    uint16_t retries;
    uint16_t losses;    /* workers that it cost, alone or with others */
    uint16_t suspects;  /* workers that went silent in it; lost or not is not known yet */
    uint8_t where;      /* enum mst_where */
    uint8_t origin;     /* FAILED: enum mst_origin */
    uint8_t stopping;   /* asked to stop: enum mst_origin, what it will have failed of */
    bool alone, blamed; /* run it alone; the last worker it cost died of it alone */
    bool begun;         /* once at least */
    bool idempotent, once;
    bool released;
    bool ending;   /* stopping because the series ends */
    bool recalled; /* it was asked for, or is to be */
    bool held;     /* its worker, which comes back, listed it */
};

static inline const struct mst_part *mst_closure_parts(const struct mst_closure *closure)
{
    return (const struct mst_part *)(closure + 1);
}

static inline const uint64_t *mst_closure_needs(const struct mst_closure *closure)
{
    return (const uint64_t *)(mst_closure_parts(closure) + closure->part_count);
}

static inline struct mst_slice mst_closure_key(const struct mst_closure *closure)
{
    const uint64_t *behind = mst_closure_needs(closure) + closure->need_count;

    return mst_slice_of((const char *)behind + closure->bytes, closure->key_size);
}

static inline struct mst_attempt mst_closure_attempt(const struct mst_closure *closure)
{
    return (struct mst_attempt){.closure = closure->number, .attempt = closure->attempt};
}

/* ---- workers ---- */

/* For what there is room at a worker: for nothing, for prefetching, in a slot. */
enum mst_room { MST_ROOM_NONE = 0, MST_ROOM_SPARE = 1, MST_ROOM_SLOT = 2 };

/* A worker as the coordinator sees it: a place of the job and what fills it. */
struct mst_task_worker {
    struct mst_table_node node; /* by index */
    struct mst_list member;     /* of all */
    struct mst_list place;      /* of by_room */
    struct mst_list todo;       /* something is owed to it */
    struct mst_list owed;       /* closures */
    struct mst_list running, prefetched;
    struct mst_task_link *link; /* NULL: not connected */
    struct mst_closure *reserved;
    struct mst_task_alarm silent; /* its runs are put back */
    struct mst_task_alarm away;   /* it is given up */
    struct mst_task_alarm start;  /* it may begin */
    char *host;
    size_t host_size;
    struct mst_cluster_message *hello; /* a copy, with its functions; NULL: not yet */
    struct mst_attempt *orphans;       /* to be cancelled; one allocation */
    uint64_t *orphaned_values;         /* to be dropped; one allocation */
    uint64_t *blamed;                  /* closures that ran when it went silent */
    uint64_t overdue_ns;               /* when the time of the first of those was over; NEVER */
    uint64_t incarnation, pid, load_ns, load_bytes, done;
    uint64_t results;    /* of this incarnation that came in */
    uint64_t connection; /* the last one of this incarnation */
    uint64_t heard_ns;   /* when its last message came */
    uint32_t number, index;
    uint32_t slots, orphan_count, orphaned_value_count, blamed_count, blamed_room;
    uint32_t running_count, prefetched_count;
    uint32_t losses;
    enum mst_room room;
    enum mst_worker_state state; /* as the membership says */
    struct mst_worker_end end;   /* of the last one that was lost */
    bool ever, returned;         /* it was connected; another incarnation was */
    bool draining;
    bool alone; /* what it runs is to run alone */
    bool blamed_shared;
    bool owe_welcome, owe_drain, owe_builds;
};

struct mst_task_link {
    struct mst_table_node node;        /* by connection */
    struct mst_list all, todo;         /* todo: to be refused or closed */
    struct mst_task_worker *worker;    /* NULL: not yet */
    struct mst_cluster_message *hello; /* a copy, held until its member is known */
    uint64_t connection;
    muster_status refused; /* REFUSED is owed to it; OK: it is not */
    bool closing;          /* no further message is taken from it */
};

/* ---- per-worker values ---- */

struct mst_entry {
    enum mst_closure_state state; /* ABORTED, RUNNING: being built; VALUE, FAILED */
    bool held;                    /* ABORTED, and yet its worker listed it */
    struct mst_task_result *result;
    struct mst_task_failure *failure;
};

struct mst_value {
    struct mst_table_node node;
    struct mst_list place; /* in the order of registration; or of the dropped ones */
    struct mst_kind *kind;
    struct mst_entry *entries; /* by worker */
    uint64_t number;
    uint32_t room;   /* of entries */
    uint32_t users;  /* closures that need it */
    uint32_t cursor; /* of the dropping */
    bool lazy, dropped;
    struct mst_parts parts;
    struct mst_part items[];
};

struct mst_state_server {
    struct mst_list place;
    uint64_t *times; /* of the last reports: a ring of `limit` - 1 */
    uint32_t limit, at;
    struct mst_slice name;
};

/* ---- the machine ---- */

/* The end of the cluster's work: undismissed -> asked -> recording -> dismissed
 *                                               ^           |
 *                                               +- refused <+ */
enum mst_dismissal {
    MST_UNDISMISSED = 0,
    MST_DISMISSAL_ASKED = 1, /* what is queued and runs ends first */
    MST_DISMISSAL_RECORDING = 2,
    MST_DISMISSAL_REFUSED = 3, /* until it is asked for again */
    MST_DISMISSED = 4          /* each worker is drained as soon as it is connected */
};

struct mst_failures {
    uint32_t kept;
    uint64_t count;
    struct mst_failure first[MST_CLUSTER_KEPT];
    uint64_t closures[MST_CLUSTER_KEPT];
    struct mst_task_failure *copies[MST_CLUSTER_KEPT];
};

struct mst_saying {
    struct mst_list place;
    struct mst_cluster_effect effect;
    const struct mst_task_worker *about; /* NULL: none; its host is looked up when it is said */
    char text[];
};

struct mst_cluster {
    struct mst_mem mem;
    struct mst_cluster_config config;
    uint64_t now_ns, born_ns;
    struct mst_prng prng;
    muster_status end; /* OK: it goes on */
    enum mst_dismissal dismissal;
    bool closed;     /* no admission any more */
    bool draining;   /* closed, and the rest ends first */
    bool hanging_up; /* closed, and nothing is left */

    struct mst_tree alarms;
    uint64_t alarm_order;
    struct mst_task_alarm recall; /* prefetched beside idle workers */
    struct mst_task_alarm watchdog, too_few;
    uint64_t progress_ns; /* the last one */

    struct mst_table closures;
    struct mst_list live, settled;
    struct mst_cluster_counts counts; /* those that no other state tells */
    bool full;                        /* a caller got MORE */

    struct mst_table kinds_by_name;
    struct mst_kind *last_kind;
    struct mst_list kinds, ready;
    struct mst_tree alone;

    bool ending;
    struct mst_failures pending, delivered;

    struct mst_table workers_by_index;
    struct mst_list members;
    struct mst_task_worker **workers; /* by number, which each has from its first HELLO on */
    uint32_t worker_count, worker_room;
    uint32_t connected, prefetched_count;
    uint64_t slots;
    uint64_t recall_ns; /* until it is looked again */
    uint64_t recalls;   /* rounds of it */
    struct mst_list by_room[MST_ROOM_SLOT + 1];
    struct mst_list todo; /* workers */
    struct mst_table links;
    uint32_t hellos; /* held */
    struct mst_list all_links, links_todo;

    struct mst_table values_by_number;
    struct mst_list values_all, values_dropped;
    uint64_t values_made;
    struct mst_list state_servers;

    struct mst_list lines;
    uint32_t line_count;
    bool changed;
    bool owe_unknown; /* to hang up on one for which there was no memory */
    bool out;
    uint64_t unknown_connection;
    struct mst_cluster_effect effect;
    struct mst_cluster_message message;
    struct mst_saying *said;
    struct mst_histogram timers[MST_TIMERS];
};

/* alarm.c */
void mst_alarm_at(struct mst_cluster *cluster, struct mst_task_alarm *alarm, uint64_t due_ns);
mst_tree_order mst_alarm_order;
struct mst_task_alarm *mst_alarm_due(struct mst_cluster *cluster, uint64_t now_ns); /* taken out */

/* copy.c */
/* A larger copy of the array, with zeros behind; the old one is released. NULL: nothing is done. */
void *mst_array_grow(const struct mst_mem *mem, void *array, uint32_t count, uint32_t room,
                     size_t size);
struct mst_task_failure *mst_failure_copy(const struct mst_mem *mem,
                                          const struct mst_failure *failure);
void mst_failure_drop(const struct mst_mem *mem, struct mst_task_failure *failure);
struct mst_slice mst_failure_text(enum mst_origin origin);
struct mst_task_result *mst_result_new(const struct mst_mem *mem, const struct mst_parts *parts);
bool mst_parts_size(const struct mst_parts *parts, size_t *out); /* false: too large */

char *mst_parts_copy(struct mst_part *to, char *bytes, const struct mst_parts *parts);

/* queue.c */
struct mst_kind *mst_kind_of(struct mst_cluster *cluster, struct mst_slice name, uint32_t version);
void mst_kinds_free(struct mst_cluster *cluster);
bool mst_kinds_room(struct mst_cluster *cluster, uint32_t workers);
void mst_kinds_offered(struct mst_cluster *cluster, struct mst_task_worker *worker);
void mst_kinds_withdrawn(struct mst_cluster *cluster, struct mst_task_worker *worker);
/* A failure that says so of a function that no worker has. NULL: no memory. */
struct mst_task_failure *mst_kind_unknown(const struct mst_cluster *cluster,
                                          const struct mst_kind *kind);
void mst_kinds_unstick(struct mst_cluster *cluster,
                       const struct mst_task_worker *worker); /* it has room */
void mst_queue_append(struct mst_cluster *cluster, struct mst_closure *closure);
void mst_queue_return(struct mst_cluster *cluster, struct mst_closure *closure);
void mst_queue_remove(struct mst_cluster *cluster, struct mst_closure *closure);
struct mst_closure *mst_queue_head(const struct mst_kind *kind);
mst_tree_order mst_queue_order;

/* closure.c */
struct mst_closure *mst_closure_find(const struct mst_cluster *cluster, uint64_t number);
/* The closure of an attempt that this worker has; NULL: it is not the current one. */
struct mst_closure *mst_closure_current(const struct mst_cluster *cluster,
                                        const struct mst_task_worker *worker,
                                        struct mst_attempt attempt);
/* Why nothing more is admitted, or not this whatever is queued. OK: `*bytes` are those of the
 * parts. */
muster_status mst_closure_refusal(const struct mst_cluster *cluster,
                                  const struct mst_closure_call *call, size_t *bytes);
bool mst_closure_settled(const struct mst_closure *closure);
bool mst_closure_out(const struct mst_closure *closure);
void mst_closure_alarm(struct mst_cluster *cluster, struct mst_closure *closure);
void mst_closure_due(struct mst_cluster *cluster, struct mst_task_alarm *alarm);
/* Settles it, wherever it is. `failure` is taken; NULL: the plain text of its origin. */
void mst_closure_fail(struct mst_cluster *cluster, struct mst_closure *closure,
                      enum mst_origin origin, struct mst_task_failure *failure);
void mst_closure_value(struct mst_cluster *cluster, struct mst_closure *closure,
                       struct mst_task_result *result);
/* With a worker, it comes back, to run again or to be what it was asked to be. */
void mst_closure_back(struct mst_cluster *cluster, struct mst_closure *closure,
                      uint64_t backoff_ns);
void mst_closure_failure(const struct mst_closure *closure, const struct mst_cluster *cluster,
                         struct mst_failure *out);
void mst_closures_free(struct mst_cluster *cluster);

/* series.c */
void mst_series_failed(struct mst_cluster *cluster, const struct mst_closure *closure);
void mst_series_free(struct mst_cluster *cluster);
void mst_series_stop(struct mst_cluster *cluster, struct mst_closure *closure,
                     enum mst_origin origin, uint64_t grace_ns);
void mst_series_settle_all(struct mst_cluster *cluster);

/* workers.c */
struct mst_task_worker *mst_task_worker_find(const struct mst_cluster *cluster, uint32_t index);
void mst_task_worker_update(struct mst_cluster *cluster,
                            struct mst_task_worker *worker); /* which list it is in */
bool mst_task_worker_number(struct mst_cluster *cluster,
                            struct mst_task_worker *worker); /* false: no memory */
void mst_task_worker_todo(struct mst_cluster *cluster, struct mst_task_worker *worker);
void mst_task_worker_owe(struct mst_cluster *cluster, struct mst_closure *closure); /* its worker */
bool mst_task_worker_usable(const struct mst_task_worker *worker);
bool mst_task_worker_here(const struct mst_task_worker *worker); /* a member, heard or not */
uint32_t mst_task_worker_place(const struct mst_task_worker *worker, const struct mst_kind *kind);
void mst_workers_few(struct mst_cluster *cluster); /* for too long, and the cluster is over */
void mst_workers_free(struct mst_cluster *cluster);

/* link.c */
struct mst_task_link *mst_link_of(const struct mst_cluster *cluster, uint64_t connection);
void mst_link_close(struct mst_cluster *cluster, struct mst_task_link *link); /* from our side */
void mst_link_break(struct mst_cluster *cluster,
                    struct mst_task_link *link); /* as if it had broken */
void mst_link_member(struct mst_cluster *cluster, struct mst_task_worker *worker);
void mst_link_forget(struct mst_cluster *cluster, struct mst_task_link *link);
void mst_links_free(struct mst_cluster *cluster);

/* loss.c */
void mst_loss_silent(struct mst_cluster *cluster, struct mst_task_worker *worker, bool now);
void mst_loss_lost(struct mst_cluster *cluster, struct mst_task_worker *worker, bool crashed,
                   struct mst_worker_end end);
void mst_loss_given_up(struct mst_cluster *cluster, struct mst_task_worker *worker);
/* Its HELLO has come. `whole`: what it does not hold never reached it, or its result came back. */
void mst_loss_back(struct mst_cluster *cluster, struct mst_task_worker *worker, bool whole);
/* How it goes on with one that may have cost workers. */
bool mst_loss_judge(struct mst_cluster *cluster, struct mst_closure *closure);

/* poison.c */
/* It cost that worker, or a child of it. */
void mst_poison_add(struct mst_cluster *cluster, struct mst_closure *closure,
                    const struct mst_task_worker *worker, struct mst_worker_end end, bool child);
struct mst_task_failure *
mst_poison_failure(const struct mst_cluster *cluster,
                   const struct mst_closure *closure); /* NULL: no memory */

/* dispatch.c */
bool mst_dispatch_next(struct mst_cluster *cluster);
void mst_dispatch_promote(struct mst_cluster *cluster, struct mst_task_worker *worker);
void mst_dispatch_leave(struct mst_cluster *cluster, struct mst_closure *closure);
void mst_dispatch_recall(struct mst_cluster *cluster, struct mst_task_alarm *alarm);
void mst_dispatch_watch(struct mst_cluster *cluster);

/* result.c */
void mst_result_heard(struct mst_cluster *cluster, struct mst_task_worker *worker,
                      const struct mst_cluster_message *message);
void mst_result_progress(struct mst_cluster *cluster, struct mst_task_worker *worker,
                         const struct mst_cluster_message *message);

/* value.c */
struct mst_value *mst_value_find(const struct mst_cluster *cluster, uint64_t number);
void mst_value_use(struct mst_cluster *cluster, const struct mst_closure *closure);
void mst_value_leave(struct mst_cluster *cluster, const struct mst_closure *closure);
bool mst_values_room(struct mst_cluster *cluster, uint32_t workers);
void mst_values_lost(struct mst_cluster *cluster, const struct mst_task_worker *worker);
void mst_values_back(struct mst_cluster *cluster, struct mst_task_worker *worker);
/* The message that makes a value there; false: nothing is to be built. */
bool mst_value_build_next(struct mst_cluster *cluster, struct mst_task_worker *worker);
bool mst_value_build_for(struct mst_cluster *cluster, struct mst_task_worker *worker,
                         const struct mst_closure *closure);
bool mst_value_drop_next(struct mst_cluster *cluster);
void mst_value_built(struct mst_cluster *cluster, struct mst_task_worker *worker,
                     const struct mst_cluster_message *message);
void mst_values_free(struct mst_cluster *cluster);

/* state_server.c */
struct mst_state_server *mst_state_server_find(const struct mst_cluster *cluster,
                                               struct mst_slice name);
/* A closure failed of this server: whether that is tolerated. */
bool mst_state_tolerates(struct mst_cluster *cluster, struct mst_closure *closure,
                         struct mst_slice name);
/* It has a value: the server that failed it was reached after all, so what was reported before is
 * over. */
void mst_state_reached(struct mst_closure *closure);
void mst_state_servers_free(struct mst_cluster *cluster);

/* effect.c */
void mst_effect_message(struct mst_cluster *cluster, const struct mst_task_worker *worker,
                        enum mst_cluster_message_type type);
void mst_effect_say(struct mst_cluster *cluster, enum mst_cluster_line line,
                    const struct mst_task_worker *worker, uint64_t closure, uint64_t count,
                    struct mst_slice text);

void mst_lines_free(struct mst_cluster *cluster);

/* counts.c */
enum mst_cluster_wait mst_closure_waits(const struct mst_cluster *cluster,
                                        const struct mst_closure *closure); /* for what */

/* coordinator.c */
void mst_cluster_over(struct mst_cluster *cluster, muster_status status);

#endif
