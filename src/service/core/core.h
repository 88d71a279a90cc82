/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_CORE_H
#define MST_SERVICE_CORE_CORE_H

/* The coordination service without its environment: members, keys, rounds and watches of several
 * jobs. Inputs carry the time; outputs are effects. It uses no socket, clock, thread, environment
 * or random source, so the same inputs give the same effects and digest.
 *
 * The shell calls: open, request, close for connections; tick once per loop turn after everything
 * readable was fed; then next and done until nothing is left. `now_ns` is monotonic and never
 * smaller than in the call before. Only admission can fail: a request reserves all it may ever need
 * or changes nothing. Ticks, closes and losses never allocate. */

#include <stdint.h>

#include "base/mem.h"
#include "base/table.h"
#include "proto/limits.h"
#include "proto/reply.h"
#include "proto/request.h"

/* Raised whenever the core decides anything differently: a journal of other rules cannot be
 * replayed. */
#define MST_CORE_RULES 3u

struct mst_core;

enum mst_level { MST_ERROR = 0, MST_WARN = 1, MST_INFO = 2, MST_DEBUG = 3 };

/* One decision, as the log, the narration of a test and a replay print it:
 * "job: event key=value ...". Valid during the call. */
struct mst_trace {
    uint64_t now_ns;
    enum mst_level level;
    struct mst_slice job; /* empty: the service itself */
    const char *text;
};

struct mst_core_config {
    uint64_t lease_ns;
    struct mst_limits limits;
    uint64_t history; /* incidents that are remembered of each job; 0: none */
    /* A rank that works this much longer in a step than the median rank is a straggler; 0: none. */
    uint64_t straggler_percent;
    uint64_t waiting_bytes_max; /* of the gets, waits and watches of one connection that wait; 0: no
                                   limit */
    void (*trace)(void *ctx,
                  const struct mst_trace *line); /* observer: must not call back. May be NULL */
    void *trace_ctx;
    /* Observer: an incident of that job is remembered, or its cause is known better; it may read
     * the history and nothing else. `ctx` is that of the trace. May be NULL. */
    void (*incident)(void *ctx, const struct mst_core *core, struct mst_slice job);
    /* Drawn at random by a shell with remote clients; reaches no effect, and is not stored. Only
     * the value at the core's creation counts. */
    struct mst_table_secret secret;
};

enum mst_effect_type {
    MST_EFFECT_REPLY = 1,
    MST_EFFECT_HANGUP = 2 /* close this connection after what was sent before, for `reason` */
};

struct mst_effect {
    enum mst_effect_type type;
    struct mst_conn conn;
    const struct mst_reply *reply; /* REPLY: everything it borrows lives until mst_core_done */
    const char *reason;            /* HANGUP */
};

/* ENOMEM, or EINVAL for a config that makes no sense. */
muster_status mst_core_new(struct mst_core **out, const struct mst_core_config *config,
                           const struct mst_mem *mem);
void mst_core_free(struct mst_core *core);

/* A connection was accepted; `conn` was never used before. ENOMEM or ELIMIT: close it. EPROTO: it
 * is open already, which only a damaged record can say. */
muster_status mst_core_open(struct mst_core *core, uint64_t now_ns, struct mst_conn conn);

/* A request arrived. A reply to this connection reports its outcome: the return value is OK, or
 * ENOMEM when there is no memory even for a refusal; then the shell closes the connection and the
 * session continues. A request on a connection without a session (other than OPEN) is answered
 * EPROTO and followed by HANGUP. */
muster_status mst_core_request(struct mst_core *core, uint64_t now_ns, struct mst_conn conn,
                               const struct mst_request *request);

/* The connection is lost. Decides nothing about the member: it is silent, and its lease continues.
 */
void mst_core_close(struct mst_core *core, uint64_t now_ns, struct mst_conn conn);

void mst_core_tick(struct mst_core *core, uint64_t now_ns);
uint64_t mst_core_deadline_ns(
    const struct mst_core *core); /* when to tick at the latest; UINT64_MAX: never */

/* The next effect; NULL: none. One at a time: done before the next next. */
const struct mst_effect *mst_core_next(struct mst_core *core);
/* The same if it is the answer to this request; else NULL. */
const struct mst_effect *mst_core_answer(struct mst_core *core, struct mst_conn conn, uint64_t id);
void mst_core_done(struct mst_core *core, const struct mst_effect *effect);

/* All effects at once, unseen: nobody waits for the replies to inputs that are fed again. */
void mst_core_drop_effects(struct mst_core *core);

/* Instead of done: this reply waits in the core, and is made again, from the state of that moment,
 * after the connection was resumed. So a slow reader costs no copies. Order is not kept: a
 * connection's deferred replies come after its later ones. */
void mst_core_defer(struct mst_core *core, const struct mst_effect *effect);
void mst_core_resume_deferred(struct mst_core *core, struct mst_conn conn);

/* Whether the next effect is a page, for which records have to be looked at: and that it waits as
 * if it had been deferred, without looking at any. */
bool mst_core_next_searches(const struct mst_core *core);
struct mst_conn mst_core_defer_next(struct mst_core *core);

/* Bytes that exist only for undelivered replies, and are in no count of the state: of all
 * connections, and this one's share. */
uint64_t mst_core_pinned(const struct mst_core *core);
uint64_t mst_core_pinned_by(const struct mst_core *core, struct mst_conn conn);

/* The incidents that are remembered of a job, oldest first and as HISTORY lists them. An item lives
 * until `take` returns. */
void mst_core_history(const struct mst_core *core, struct mst_slice job,
                      void (*take)(void *ctx, const struct mst_item *item), void *ctx);

/* How many records were visited for replies, ever: the cost of searches. */
uint64_t mst_core_walked(const struct mst_core *core);

/* Whether a session of a node's agent lives (the helper of a single rank does not count): a service
 * started by another node's run ends only when none does. */
bool mst_core_has_agent(const struct mst_core *core);

/* ---- for a journal: what to keep of an input, and how to begin again ----
 *
 * A journal keeps the inputs; the same inputs give the same state, whenever effects are drained.
 * snapshot.h lists what a snapshot keeps of the state. */

/* The effect on the state of the inputs since the last mst_core_weigh. */
enum mst_weight {
    MST_WEIGHT_NONE = 0,   /* changed nothing durable: need not be recorded */
    MST_WEIGHT_ALONG = 1,  /* recorded, not waited for: renewals, reads, connections */
    MST_WEIGHT_PROMISE = 2 /* its effects may leave only when it is durable: a revision, the outcome
                              of a write, a round's contribution or end, a seal, a loss */
};
enum mst_weight mst_core_weigh(struct mst_core *core); /* the largest, and back to NONE */

/* Whether the last mst_core_request was refused for lack of room (ENOMEM, ELIMIT), by a reply or by
 * its return value: it changed only what admission changes. The shell asks right after the request
 * and records the answer. A replay then calls mst_core_request_refused instead, so that it reaches
 * the same state without the same shortage. That one never allocates and has no effect.
 * mst_core_refused reports a shortage of the replay itself: it cannot continue. */
bool mst_core_refused(const struct mst_core *core);
void mst_core_request_refused(struct mst_core *core, uint64_t now_ns, struct mst_conn conn,
                              const struct mst_request *request);

/* Whether it was applied, but without its text, for lack of memory. A replay leaves the text out of
 * the request. */
bool mst_core_wordless(const struct mst_core *core);
muster_status mst_core_request_wordless(struct mst_core *core, uint64_t now_ns,
                                        struct mst_conn conn, const struct mst_request *request);

/* The service recovers, at a time that continues from the last input. All connections are gone,
 * with their waits and undelivered effects. Every session has at least a whole lease from now;
 * deadlines of rounds keep their remaining time. `config` is taken as a whole, and may have another
 * lease and other limits. ENOMEM or EINVAL: nothing was changed. */
muster_status mst_core_resume(struct mst_core *core, uint64_t now_ns,
                              const struct mst_core_config *config);

/* While `why` is not NULL (borrowed, one line that names the disk), requests for durable changes
 * are refused with ENOSPACE and `why` as the reply's value: a new session, becoming ready, a new
 * contribution, and all commands with a kept outcome, unless it is kept already. Renewals, reads,
 * watches, resuming and repeats continue. Time decides nothing either: when `why` is NULL again,
 * leases and deadlines are as if the service had slept. This is no input: inputs in between need
 * not have been recorded, so afterwards a journal continues with a snapshot. */
void mst_core_hold(struct mst_core *core, const char *why);

/* Sessions that are not over, whether connected or not. */
uint64_t mst_core_sessions(const struct mst_core *core);

/* Whether this connection carries a session. */
bool mst_core_in_session(struct mst_core *core, struct mst_conn conn);

void mst_core_check(const struct mst_core *core);      /* asserts every invariant */
uint64_t mst_core_digest(const struct mst_core *core); /* same inputs, same digest */

#endif
