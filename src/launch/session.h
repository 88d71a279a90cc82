/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_SESSION_H
#define MST_LAUNCH_SESSION_H

/* The agent as a client of the service: it tells who is dead, and is told who was given up and what
 * the other nodes say. No thread of its own; the library's looks after it. */

#include "client/shell/follow.h"
#include "launch/hang/stall.h"
#include "launch/hang/waits.h"
#include "launch/process.h"
#include "launch/run.h"

/* The keys that the nodes of a run speak to each other with, and those that only node 0 hears. */
#define MST_SESSION_KEYS "muster/run/"
#define MST_SESSION_NODE_KEYS "muster/run-node/"

/* What the service says. With the client's lock held: short, and no call back. */
struct mst_session_events {
    void (*member)(void *ctx, const struct mst_who *who);
    /* A key under MST_SESSION_KEYS, its name without that. */
    void (*key)(void *ctx, struct mst_slice name, struct mst_slice value);
    void (*key_gone)(void *ctx, struct mst_slice name);
    void (*fault)(void *ctx, const struct mst_item *item);
    void (*node_key)(void *ctx, struct mst_slice name, struct mst_slice value);
    void (*reset)(void *ctx);  /* all there is comes again; what does not is gone */
    void (*listed)(void *ctx); /* that was all there is */
    void (*turn)(void *ctx);   /* that was all for now */
    void (*fenced)(void *ctx); /* this node was given up: the session will say no more */
    void *ctx;
};

struct mst_run_session {
    muster_client *client;
    struct mst_session_events events;
    struct mst_lib_follow follow;
    struct mst_stall stall;
    struct mst_waits waits;
};

#define MST_NOTE_MAX 4096u /* with its end */

/* A key that is written without waiting; a later value takes the place of one under way. */
struct mst_note {
    struct mst_delivery delivery;
    struct mst_run_session *session;
    muster_status status; /* once told */
    bool told;
    bool insert, owned;
    bool counts;            /* it is that of a counter */
    const char *counts_too; /* a key to which 1 is added if this one is written; NULL: none */
    char key[64];
    char value[MST_NOTE_MAX];
};

/* A key that counts what all nodes may do so often only: each who adds 1 to it gets the sum. */
struct mst_counter {
    struct mst_note note;
    uint32_t asked; /* how often, and the answer was not taken yet */
    bool answered;
    int64_t sum;
};

/* How the service is reached, and as what. */
struct mst_session_target {
    const char *addr, *job;
    const char *secret; /* a file; empty: none */
    bool insecure;
    int64_t timeout_ms;
};

/* A client with a session; as an observer it is no member. `err` is one line. */
muster_status mst_session_client(muster_client **out, const struct mst_session_target *target,
                                 struct muster_client_options *options, struct muster_error *err);

/* Opens the session as the job's agent. `index` may be MUSTER_INDEX_ANY; the number it got comes
 * back in `number_out`. `err` is one line. */
muster_status mst_session_open(struct mst_run_session *session,
                               const struct mst_session_target *target, int64_t index,
                               const struct mst_run_options *options, uint32_t *number_out,
                               struct muster_error *err);

/* Begins to tell: of members those of one node, and what all nodes must hear. MST_NODE_NONE: of all
 * members and all nodes. */
void mst_session_watch(struct mst_run_session *session, const struct mst_session_events *events,
                       uint32_t node);
/* From now on everything, and first all there is; `listed` is told when that is over. */
void mst_session_widen(struct mst_run_session *session);
void mst_session_close(struct mst_run_session *session);

/* The process is dead: the service decides its loss now. Does not wait. Thread: any. */
void mst_session_lost(struct mst_run_session *session, struct mst_process *process,
                      enum mst_cause cause, int code);

/* The process makes no progress, or, not `named`, nothing tells which one is why: the service has
 * the ranks of that generation interrupted. Does not wait. */
void mst_session_stalled(struct mst_run_session *session, const struct mst_process *process,
                         bool named, uint64_t generation, const char *text);

/* All ranks of this node wait in muster: whether those of the others do (launch/hang/waits.h). */
bool mst_session_waits(struct mst_run_session *session, const struct mst_monitor *monitor,
                       const struct mst_watched *one, uint64_t now_ns, char *text, size_t room);

/* Whether the service has not taken that word yet. */
bool mst_session_unheard(struct mst_run_session *session);

/* Whether the service has taken all that was said of a process. */
bool mst_session_heard_all(struct mst_run_session *session, const struct mst_process *process);

/* Writes `note` (its key, value, insert and owned are the caller's to set while it is not under
 * way; the value may change at any time through this). Does not wait. */
void mst_session_write(struct mst_run_session *session, struct mst_note *note, const char *value);

/* Adds 1 to the counter. Does not wait: that there is an answer is told as a turn. */
void mst_session_ask(struct mst_run_session *session, struct mst_counter *counter);

/* Takes the next answer, if there is one. */
bool mst_session_answer(struct mst_run_session *session, struct mst_counter *counter,
                        int64_t *sum_out);

/* Whether the service has answered, or never will; then `status_out` is its word. */
bool mst_session_told(struct mst_run_session *session, struct mst_note *note,
                      muster_status *status_out);

/* Whether the service has not answered for so long that ranks stop themselves. */
bool mst_session_silent(struct mst_run_session *session);

#endif
