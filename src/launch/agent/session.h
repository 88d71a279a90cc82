/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_AGENT_SESSION_H
#define MST_LAUNCH_AGENT_SESSION_H

/* The agent's own session: what it reports by, and hears the job's notices by. When it ends, as
 * this process stood still for longer than the lease, another one follows. */

#include "client/shell/follow.h"
#include "launch/fronts/front.h"
#include "launch/helper/notices.h"

#define MST_AGENT_LINES 4 /* of other threads, in one turn */

struct mst_agent_session {
    const struct muster_client_options *access;
    const char *host;
    void (*changed)(void *ctx); /* on any thread: look at it again */
    void *ctx;

    muster_client *client; /* NULL: none now */
    bool hears;            /* the job's notices */
    uint64_t again_ns;     /* not before: the next attempt */
    struct mst_lib_follow members, notices;
    struct mst_helper_notices sources;

    pthread_mutex_t lock; /* of what the other threads say; within the client's lock */
    bool ended;
    struct mst_front_notices told;
    char lines[MST_AGENT_LINES][600];
    unsigned line_count;
};

/* After the members above were set. Waits for the service; `err` is one line. */
muster_status mst_agent_session_open(struct mst_agent_session *session, int64_t timeout_ms,
                                     struct muster_error *err);
void mst_agent_session_close(struct mst_agent_session *session);

/* From now on the notices of the job are heard: those that hold, and what comes. */
void mst_agent_session_hear(struct mst_agent_session *session);

/* Opens the next session, asks the sources, says what was to be said. `renewed_out`: the client is
 * another one, or none. When to look again although nothing is told; UINT64_MAX: never. */
uint64_t mst_agent_session_look(struct mst_agent_session *session, bool *renewed_out);

/* The next notice for what began then. False: none. */
bool mst_agent_session_notice(struct mst_agent_session *session, uint64_t since_ns,
                              struct mst_front_notice *out);

#endif
