/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_TASKS_WORKER_H
#define MST_TASKS_WORKER_H

/* The worker's side, as a pure machine: which coordinator to follow, what to run, what to send.
 * It follows the largest term that it has seen. Runs of another term are cancelled, and no run of
 * the new term begins before the last of the old one has stopped. When the connection breaks, runs
 * that have begun continue, and their results are sent when the same term is back; no other run
 * begins meanwhile, for the coordinator may have sent it to other workers.
 *
 * Runs begin in the order in which they came: only the first `slots` of those that are not answered
 * may have begun, which is what the coordinator presumes. A run whose value is still being built,
 * or whose function is inline and must not run twice at once (no THREADS, CHILD or COMMAND), lets
 * those behind it pass, within this window. A value is built in a slot, like a run.
 *
 * Inputs carry now_ns; next and done drain effects, one at a time. A message that finds no memory
 * costs the connection, as if it had broken. */

#include "base/mem.h"
#include "proto/cluster.h"

struct mst_worker;

struct mst_worker_config {
    struct mst_slice cluster;
    uint32_t index;
    uint64_t incarnation, pid;
    struct mst_slice host;
    uint32_t slots;
    const struct mst_function *functions; /* copied */
    uint32_t function_count;
    uint64_t cancel_grace_ns;            /* where the coordinator names none */
    uint64_t backoff_ns, backoff_max_ns; /* of connecting: 100 ms, 10 s */
    uint64_t results_max; /* bytes kept for a coordinator that is away; more: the oldest go */
    uint64_t result_max;  /* bytes of one result; more: EXHAUSTED; 0: any */
    uint64_t seed;
};

enum mst_worker_effect_type {
    MST_WORKER_CONNECT = 1, /* to `address`; answer with connected or gone */
    MST_WORKER_HANG_UP = 2, /* close the connection, after what was sent; no answer */
    MST_WORKER_SEND = 3,    /* `message` */
    MST_WORKER_START = 4,   /* run `message` (RUN) in slot `slot`; answer with finished */
    MST_WORKER_STOP = 5,    /* ask what is in `slot` to stop; `kill`: make it. Its answer is owed */
    MST_WORKER_BUILD = 6,   /* make the value of `message` (BUILD) in `slot`; answer with built */
    MST_WORKER_DROP = 7,    /* the value `message->value` is needed no more; no answer */
    MST_WORKER_END = 8,     /* it has drained, or was ended: `status`. The last one */
    MST_WORKER_SAY = 9      /* a line for the log: `text` */
};

struct mst_worker_effect {
    enum mst_worker_effect_type type;
    /* Borrowed: SEND until done; START until it is answered; BUILD until its DROP is done. */
    const struct mst_cluster_message *message;
    struct mst_slice address;
    uint32_t slot;
    bool kill;
    bool drained; /* HANG_UP: nothing is left to do here but to see that what was sent comes in */
    uint64_t deadline_ns; /* START: of this run, on this clock; 0: none */
    muster_status status;
    struct mst_slice text;
};

/* EINVAL: a configuration that makes no sense; ENOMEM. */
muster_status mst_worker_new(struct mst_worker **out, uint64_t now_ns,
                             const struct mst_worker_config *config, const struct mst_mem *mem);
void mst_worker_free(struct mst_worker *worker);

/* The key of the coordinator: its term and address. Term 0: there is none; an owned key does not
 * come back under its term, so what ran for it is cancelled. */
void mst_worker_coordinator(struct mst_worker *worker, uint64_t now_ns, uint64_t term,
                            struct mst_slice address);
void mst_worker_connected(struct mst_worker *worker, uint64_t now_ns);
void mst_worker_gone(struct mst_worker *worker, uint64_t now_ns);
void mst_worker_message(struct mst_worker *worker, uint64_t now_ns,
                        const struct mst_cluster_message *message);

/* The run in `slot` ended. `failure` NULL: a value. Copied. */
void mst_worker_finished(struct mst_worker *worker, uint64_t now_ns, uint32_t slot,
                         const struct mst_failure *failure, struct mst_parts parts,
                         uint64_t run_ns);
void mst_worker_built(struct mst_worker *worker, uint64_t now_ns, uint64_t value,
                      const struct mst_failure *failure, struct mst_parts parts);

/* A value is lost although the worker is not (its child crashed): it is built again from the same
 * BUILD. */
void mst_worker_value_lost(struct mst_worker *worker, uint64_t now_ns, uint64_t value);

void mst_worker_progress(struct mst_worker *worker, uint64_t now_ns, uint32_t slot, double fraction,
                         struct mst_slice text);
void mst_worker_log(struct mst_worker *worker, uint64_t now_ns, uint32_t slot,
                    struct mst_slice text);

/* Takes nothing new, hands back what has not begun, ends what has and hands its results in (a
 * coordinator that is away has 2 s to come back for them): then END with OK. */
void mst_worker_drain(struct mst_worker *worker, uint64_t now_ns);

/* This incarnation was given up, or the session is over: everything stops, then END. */
void mst_worker_ended(struct mst_worker *worker, uint64_t now_ns, muster_status status);

/* Its number in the cluster; MST_WORKER_NONE: the coordinator has given it none yet. */
uint32_t mst_worker_number(const struct mst_worker *worker);

void mst_worker_tick(struct mst_worker *worker, uint64_t now_ns);
uint64_t mst_worker_deadline_ns(const struct mst_worker *worker);
const struct mst_worker_effect *mst_worker_next(struct mst_worker *worker);
void mst_worker_done(struct mst_worker *worker, const struct mst_worker_effect *effect);
void mst_worker_check(const struct mst_worker *worker);
uint64_t mst_worker_digest(const struct mst_worker *worker);

#endif
