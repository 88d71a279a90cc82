/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_SESSION_H
#define MST_LAUNCH_SESSION_H

/* The agent as a client of the service: it reports deaths, and follows losses and the keys
 * of the other nodes. No thread of its own; the library's looks after it. */

#include "client/shell/follow.h"
#include "launch/hang/stall.h"
#include "launch/hang/waits.h"
#include "launch/process.h"
#include "launch/run.h"
#include "launch/shared.h"
#include "proto/run_keys.h"

/* The keys that the nodes of a run speak to each other with, and those that only node 0 hears. */
#define MST_SESSION_KEYS MST_RUN_KEY_PREFIX
#define MST_SESSION_NODE_KEYS "muster/run-node/"

struct mst_run_session {
    muster_client *client;
    struct mst_shared *shared;     /* its loop is woken by answers */
    struct mst_lib_follow follow;  /* `take`, `over` and `ctx` are the caller's to set */
    struct mst_lib_follow notices; /* likewise */
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
    const char *with_key;   /* one that is put before it, in the same step; NULL: none */
    char with_value[8];
    char key[64];
    char value[MST_NOTE_MAX];
};

/* A key that counts what all nodes may do so often only: each addition of 1 returns the sum. */
struct mst_counter {
    struct mst_note note;
    uint32_t asked; /* how often, and the answer was not taken yet */
    bool answered;
    int64_t sum;
};

struct mst_run_job;

/* What a client of the job's service is opened with: where it is, and what the job is. */
void mst_session_access(struct muster_client_options *options, const struct mst_run_job *job);
void mst_session_shape(struct muster_client_options *options, const struct mst_run_options *run);

/* A client of the job's service, which is at job->nodes.addr. `err` is one line. */
muster_status mst_session_client(muster_client **out, const struct mst_run_job *job,
                                 int64_t timeout_ms, struct muster_client_options *options,
                                 struct muster_error *err);

/* Opens the session as the job's agent. `index` may be MUSTER_INDEX_ANY; `number_out` is the number
 * that it got. `err` is one line. */
muster_status mst_session_open(struct mst_run_session *session, struct mst_run_job *job,
                               int64_t index, int64_t timeout_ms, uint32_t *number_out,
                               struct muster_error *err);

/* Follows the members of one node, and the keys for all nodes. MST_NODE_NONE: all members, all keys
 * of the nodes, the faults, and changes of the view. */
void mst_session_watch(struct mst_run_session *session, uint32_t node);
/* Follows all from now on. It begins with MST_ITEM_RESET: all that there is comes again. */
void mst_session_widen(struct mst_run_session *session);
/* Follows the keys of preemption, from all that there are, as a process that takes notices:
 * `notices` is the caller's to fill. */
void mst_session_notices(struct mst_run_session *session);
void mst_session_close(struct mst_run_session *session);

/* The process is dead or unhealthy: the service decides its loss now. Does not wait. Thread: any.
 */
void mst_session_lost(struct mst_run_session *session, struct mst_process *process,
                      enum mst_cause cause, int code);

/* The process is gone, and no other is started in its place: ranks that wait for one go on. */
void mst_session_last(struct mst_run_session *session, struct mst_process *process);

/* Whether the service has taken all that was said of a process. */
bool mst_session_heard_all(struct mst_run_session *session, const struct mst_process *process);

/* Writes `note` (its key, value, insert and owned are the caller's to set while it is not under
 * way; the value may change at any time through this). Does not wait. */
void mst_session_write(struct mst_run_session *session, struct mst_note *note, const char *value);

/* Whenever `note` is written from now on, `key` is put before it in the same step. */
void mst_session_put_with(struct mst_run_session *session, struct mst_note *note, const char *key,
                          const char *value);

/* Adds 1 to the counter. Does not wait: an answer wakes the loop. */
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
