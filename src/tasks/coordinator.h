/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_TASKS_COORDINATOR_H
#define MST_TASKS_COORDINATOR_H

/* The closure coordinator, as a pure machine in the user's process: it holds the queue, hands work
 * to the workers and settles each closure once. docs/design/cluster.md draws its states.
 *
 * Two sides. The user's calls change it and return at once: OK, or MORE (look again after CHANGED).
 * The workers' side is fed with the job's membership and with the messages of their connections.
 *
 * Inputs carry now_ns; next and done drain effects, one at a time. Where an input finds no memory
 * nothing of it has happened, but for a message of a worker: its connection is then closed, as if
 * it had broken. */

#include "base/mem.h"
#include "proto/cluster.h"
#include "proto/cluster_status.h"
#include "proto/request.h"

struct mst_cluster;

enum mst_cluster_policy {
    MST_CLUSTER_FAIL_FAST = 0, /* the first failure cancels the rest of the series */
    MST_CLUSTER_COLLECT = 1,   /* everything runs; join reports all failures */
    MST_CLUSTER_ISOLATE = 2    /* failures are in their closures only */
};

struct mst_cluster_config {
    struct mst_slice name;
    uint64_t term;
    uint32_t queue_limit; /* closures; 0: no limit */
    uint64_t queue_bytes; /* of their arguments; 0: no limit */
    enum mst_cluster_policy policy;
    uint32_t prefetch;        /* beyond a worker's slots, at least; short functions get more */
    uint32_t poison;          /* workers that a closure may cost; 0: any */
    uint32_t min_workers;     /* fewer than these for recovery_max: everything fails */
    uint32_t transient_limit; /* so many reports within the window are fatal; 0: each is */
    uint64_t transient_window_ns;
    uint64_t recovery_max_ns;
    uint64_t silent_ns;                          /* from a broken connection to the putting back */
    uint64_t cancel_grace_ns;                    /* of one attempt */
    uint64_t series_grace_ns;                    /* of all, when a series ends */
    uint64_t start_delay_ns, start_delay_max_ns; /* 0: no delay; no limit */
    uint64_t unknown_grace_ns;
    uint32_t
        workers_expected; /* once so many are connected, no other is waited for; 0: not known */
    uint64_t backoff_ns, backoff_max_ns; /* between attempts of a closure that failed */
    uint64_t watchdog_ns;                /* 0: off */
    uint64_t seed;                       /* of the jitter */
    bool dismissed;                      /* by an earlier coordinator */
};

enum mst_cluster_effect_type {
    MST_CLUSTER_SEND = 1,    /* `message` on `connection` */
    MST_CLUSTER_CLOSE = 2,   /* hang up, after what was sent; the machine has forgotten it */
    MST_CLUSTER_CHANGED = 3, /* a caller that got MORE may look again; once for many changes */
    MST_CLUSTER_SAY = 4,     /* a line for the user: `line` */
    MST_CLUSTER_RECORD = 5   /* write the record of the dismissal; answer with recorded */
};

enum mst_cluster_line {
    MST_CLUSTER_LINE_JOINED = 1, /* worker `index` is number `worker` */
    MST_CLUSTER_LINE_LOST = 2,   /* and `count` closures with it, which run elsewhere */
    MST_CLUSTER_LINE_BACK = 3,
    MST_CLUSTER_LINE_SILENT = 4,
    MST_CLUSTER_LINE_DRAINED = 5,
    MST_CLUSTER_LINE_REFUSED = 6,  /* a malformed message of a worker: `text` is the reason */
    MST_CLUSTER_LINE_GIVEN_UP = 7, /* it stayed away for recovery_max */
    MST_CLUSTER_LINE_LATE = 8,     /* a result of an attempt that is not current was dropped */
    MST_CLUSTER_LINE_STUCK = 9,    /* the watchdog: `closure` has been running for `count` ms; what
                                      else is known of it: `text` */
    MST_CLUSTER_LINE_TEXT = 10,    /* LOG of a function: `closure`, `text` */
    MST_CLUSTER_LINE_WAITS = 11, /* the watchdog: `closure` is queued since `count` ms, as `text` */
    MST_CLUSTER_LINE_UNBUILT =
        12 /* the per-worker value `count` could not be built there: `text` */
};

struct mst_cluster_effect {
    enum mst_cluster_effect_type type;
    uint64_t connection;
    const struct mst_cluster_message *message; /* borrowed until done */
    enum mst_cluster_line line;
    uint32_t index, worker;
    uint64_t closure, count;
    struct mst_slice host, text;
};

/* EINVAL for a configuration that makes no sense; ENOMEM. */
muster_status mst_cluster_new(struct mst_cluster **out, uint64_t now_ns,
                              const struct mst_cluster_config *config, const struct mst_mem *mem);
void mst_cluster_free(struct mst_cluster *cluster);

/* ---- the user's side ---- */

struct mst_closure_options {
    uint32_t version;  /* of the function, exactly; 0: any */
    uint64_t group;    /* cancelled together; 0: none */
    uint64_t start_ns; /* from its admission, to begin by; 0: none */
    uint64_t run_ns;   /* of each attempt; 0: none */
    uint64_t total_ns; /* from its admission to its end; 0: none */
    uint32_t error_retries, crash_retries, exhausted_retries;
    bool idempotent, once, pure; /* in addition to its function's flags */
    struct mst_slice key;        /* of idempotency; empty: made of name, term, number */
};

struct mst_closure_call {
    struct mst_slice function;
    struct mst_parts parts;
    const uint64_t *needs; /* per-worker values */
    uint32_t need_count;
    const struct mst_closure_options *options; /* NULL: the defaults */
};

/* Admits a closure: OK with its number. MORE: the queue is full, or a series is being ended.
 * EFAILED: a failure is pending, see mst_cluster_deliver. EINVAL: a need that is none; ELIMIT:
 * larger than a message may be; ETOOFEW: too few workers for too long; EFENCED: superseded;
 * ECANCELLED: it was closed; ENOMEM. Unless OK nothing was admitted. */
muster_status mst_cluster_schedule(struct mst_cluster *cluster, uint64_t now_ns,
                                   const struct mst_closure_call *call, uint64_t *number);

/* The limits of a call: the longest name, key and so on that a message has, and the queue's two. */
enum mst_cluster_limit {
    MST_CLUSTER_LIMIT_NONE = 0,
    MST_CLUSTER_LIMIT_NAME = 1,
    MST_CLUSTER_LIMIT_KEY = 2,
    MST_CLUSTER_LIMIT_NEEDS = 3,
    MST_CLUSTER_LIMIT_PARTS = 4,
    MST_CLUSTER_LIMIT_BYTES = 5,
    MST_CLUSTER_LIMIT_QUEUE = 6,
    MST_CLUSTER_LIMIT_QUEUE_BYTES = 7
};

struct mst_cluster_excess {
    enum mst_cluster_limit limit;
    uint64_t most, asked;
};

/* The limit that the call would go over now: why it was refused with ELIMIT, or with MORE. NONE
 * after MORE: a series is being ended. */
struct mst_cluster_excess mst_cluster_excess(const struct mst_cluster *cluster,
                                             const struct mst_closure_call *call);

/* Is everything up to `number` settled? OK; MORE; EFAILED as above; or why the end came. */
muster_status mst_cluster_joined(const struct mst_cluster *cluster, uint64_t number);

/* Takes the pending failure: the first call ends the series (everything queued is cancelled, what
 * runs is asked, then made to stop). MORE: not yet ended. EFAILED: *out goes to this
 * caller alone; borrowed until the next call. OK: there is none (any more). COLLECT: once nothing
 * is queued or running; the count is how many there were. */
struct mst_cluster_failures {
    const struct mst_failure *first; /* in the order in which they came; at most 64 */
    const uint64_t *closures;
    uint32_t kept;
    uint64_t count;
};
muster_status mst_cluster_deliver(struct mst_cluster *cluster, uint64_t now_ns,
                                  struct mst_cluster_failures *out);

enum mst_closure_state {
    MST_CLOSURE_UNKNOWN = 0, /* no such number, or released */
    MST_CLOSURE_QUEUED = 1,
    MST_CLOSURE_RUNNING = 2, /* with a worker */
    MST_CLOSURE_VALUE = 3,
    MST_CLOSURE_FAILED = 4,
    MST_CLOSURE_ABORTED = 5 /* per-worker values only: not built, or lost with its worker */
};

struct mst_closure_look {
    enum mst_closure_state state;
    struct mst_parts parts;     /* VALUE; borrowed until the next input */
    struct mst_failure failure; /* FAILED, and ABORTED by a loss */
    uint32_t attempts;
    uint32_t worker; /* RUNNING, and where it ran; or MST_WORKER_NONE */
    double fraction; /* of its progress; less than 0: none reported */
    struct mst_slice text;
};

void mst_cluster_look(const struct mst_cluster *cluster, uint64_t number,
                      struct mst_closure_look *out);

/* The result is needed no more: it is dropped, or will not be kept. The closure runs all the same.
 */
void mst_cluster_release(struct mst_cluster *cluster, uint64_t now_ns, uint64_t number);

/* No effect on what is settled or unknown. 0 as group: everything; per-worker values stay. */
void mst_cluster_cancel(struct mst_cluster *cluster, uint64_t now_ns, uint64_t number);
void mst_cluster_cancel_group(struct mst_cluster *cluster, uint64_t now_ns, uint64_t group);

/* A value per worker: `function` runs on each worker that needs it, before the first closure that
 * does (lazy) or as soon as the worker is there; again whenever the worker comes back. */
muster_status mst_cluster_value_new(struct mst_cluster *cluster, uint64_t now_ns,
                                    struct mst_slice function, uint32_t version,
                                    const struct mst_parts *parts, bool lazy, uint64_t *number);
void mst_cluster_value_look(const struct mst_cluster *cluster, uint64_t number, uint32_t worker,
                            struct mst_closure_look *out);
void mst_cluster_value_drop(struct mst_cluster *cluster, uint64_t now_ns, uint64_t number);

/* A dependency by name: reports of it (MST_ORIGIN_STATE) are counted, and fatal from a number on.
 * A report that names none of them is the function's own error. EEXISTS, ENOMEM. */
muster_status mst_cluster_state_server(struct mst_cluster *cluster, struct mst_slice name);

void mst_cluster_drain_worker(struct mst_cluster *cluster, uint64_t now_ns, uint32_t number);

/* No admission from now on; `drain`: what is queued and runs ends first, else it is cancelled.
 * Connections are closed at the end: mst_cluster_joined(UINT64_MAX) then says ECANCELLED. */
void mst_cluster_close(struct mst_cluster *cluster, uint64_t now_ns, bool drain);

/* Ends the cluster's work for good: no admission from now on, and what is queued and runs ends
 * first. RECORD follows. Workers that come later, or that are out of reach, find the record. Only
 * when it is written is a worker drained: should this process die before, its successor still has
 * all of them. */
void mst_cluster_dismiss(struct mst_cluster *cluster, uint64_t now_ns);

/* The answer to RECORD. Not OK: no worker was dismissed, and mst_cluster_dismiss asks again. */
void mst_cluster_recorded(struct mst_cluster *cluster, uint64_t now_ns, muster_status status);

/* OK: the record is written, and no worker is connected any more; MORE: not yet; EFAILED as above;
 * or why the end came. */
muster_status mst_cluster_dismissed(const struct mst_cluster *cluster);

/* Another coordinator has the term: nothing more is sent, all calls end with `status`. */
void mst_cluster_superseded(struct mst_cluster *cluster, uint64_t now_ns, muster_status status);

/* ---- the workers' side ---- */

enum mst_worker_state {
    MST_WORKER_ABSENT = 0,
    MST_WORKER_PRESENT = 1,
    MST_WORKER_SILENT = 2,
    MST_WORKER_LOST = 3,
    MST_WORKER_LEFT = 4,
    MST_WORKER_DRAINING = 5
};

/* The cause of a loss, from the membership. Of a present worker: how its predecessor ended. */
struct mst_worker_end {
    enum mst_cause cause;
    int32_t code;
};

/* The membership of a place of the job. Repeats are harmless; ENOMEM: call it again. */
muster_status mst_cluster_member(struct mst_cluster *cluster, uint64_t now_ns, uint32_t index,
                                 uint64_t incarnation, enum mst_worker_state state,
                                 struct mst_worker_end end, struct mst_slice host);

/* From a connection; these are numbered from 1 as they are accepted. The first message must be
 * HELLO, by a present member; the HELLO of one that is still unknown is held until it is known. */
void mst_cluster_message(struct mst_cluster *cluster, uint64_t now_ns, uint64_t connection,
                         const struct mst_cluster_message *message);
void mst_cluster_gone(struct mst_cluster *cluster, uint64_t now_ns, uint64_t connection);

/* ---- as every machine ---- */

void mst_cluster_tick(struct mst_cluster *cluster, uint64_t now_ns);
uint64_t mst_cluster_deadline_ns(const struct mst_cluster *cluster); /* UINT64_MAX: never */
const struct mst_cluster_effect *mst_cluster_next(struct mst_cluster *cluster);
void mst_cluster_done(struct mst_cluster *cluster, const struct mst_cluster_effect *effect);
void mst_cluster_check(const struct mst_cluster *cluster);
uint64_t mst_cluster_digest(const struct mst_cluster *cluster);

/* ---- counts, at any time ---- */

struct mst_cluster_counts {
    uint64_t queued, running, values, failures, cancelled, retried, put_back, late, lies;
    uint64_t failed[MST_ORIGINS]; /* failures, by origin */
    uint64_t queued_bytes, series, admitted;
    uint32_t workers, present; /* ever; now */
    uint32_t slots, slots_free;
    uint64_t hungry;            /* closures that would keep all slots busy */
    uint64_t oldest, oldest_ns; /* queued, and for how long; 0: none */
    enum mst_cluster_wait oldest_waits;
    struct mst_slice oldest_function;
};
void mst_cluster_counts(const struct mst_cluster *cluster, uint64_t now_ns,
                        struct mst_cluster_counts *out);

struct mst_cluster_worker {
    uint32_t index;
    uint64_t incarnation, pid;
    struct mst_slice host;
    enum mst_worker_state state;
    uint32_t slots, running, prefetched, losses;
    uint64_t done, oldest, oldest_run_ns; /* the closure that runs longest; 0: none */
    struct mst_slice oldest_function;
};
bool mst_cluster_worker_at(const struct mst_cluster *cluster, uint64_t now_ns, uint32_t number,
                           struct mst_cluster_worker *out);

/* With the bounds mst_cluster_time_bounds. */
const struct mst_histogram *mst_cluster_histogram(const struct mst_cluster *cluster,
                                                  enum mst_cluster_timer timer);

#endif
