/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_AGENT_SESSION_H
#define MST_AGENT_SESSION_H

/* The agent as a client of the service: it tells who is dead, and is told who was given up. No
 * thread of its own; the library's looks after it. */

#include "agent/process.h"
#include "agent/run.h"

/* What the service says of a rank's place. With the client's lock held: short, and no call back. */
typedef void mst_session_member_fn(void *ctx, const struct mst_who *who);

struct mst_session {
    muster_client *client;
    mst_session_member_fn *member;
    void *ctx;
    uint64_t revision; /* the watch goes on after it */
    struct mst_lib_post watch;
};

/* Opens the session as the job's agent and begins to watch. `err` is one line. */
muster_status mst_session_open(struct mst_session *session, const char *addr, const char *job,
                               const struct mst_run_options *options, mst_session_member_fn *member,
                               void *ctx, struct muster_error *err);
void mst_session_close(struct mst_session *session);

/* The process is dead: the service decides its loss now. Does not wait. Thread: any. */
void mst_session_lost(struct mst_session *session, struct mst_process *process,
                      enum mst_cause cause, int code);

#endif
