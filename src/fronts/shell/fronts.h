/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_FRONTS_SHELL_FRONTS_H
#define MST_FRONTS_SHELL_FRONTS_H

/* The fronts of a node, in its agent's loop: one port on 127.0.0.1 for all of them, and a native
 * session for each process that speaks to one. The first byte of a connection says which front it
 * is for, as on the service's own listener. All functions are for the thread of the loop. */

#include <uv.h>

#include "fronts/front.h"
#include "muster/client.h"

/* A front, and the first byte of its clients. */
struct mst_fronts_kind {
    const struct mst_front *front;
    unsigned char first;
};

struct mst_fronts_options {
    uv_loop_t *loop;
    const struct mst_fronts_kind *kinds; /* they live as long as the fronts */
    unsigned count;
    struct mst_front_config config;             /* but the seed and the attempt */
    const struct muster_client_options *client; /* of a session, but role and index: borrowed */
    uint32_t node;                              /* the agent's, or MST_NODE_NONE */
    uint16_t port;                              /* 0: a free one */
    /* The pid of the process `index` of the job, as the agent reports its death; 0: not known.
     * `connection`: its descriptor, -1 once it is closed. False: the process is not of this node,
     * as `why` says in one line. */
    bool (*process)(void *ctx, uint32_t index, int connection, uint64_t *pid_out, char *why,
                    size_t room);
    /* The front has observed that the process `index` is unhealthy: the agent reports it as lost to
     * the service, in its own session and so in order with what it reports of the others. False:
     * the agent does not report it, and the process's session does. May be NULL: likewise. */
    bool (*unhealthy)(void *ctx, uint32_t index, int32_t code, struct mst_slice text);
    void (*say)(void *ctx, const char *line);
    void (*changed)(void *ctx); /* mst_fronts_has or _idle may say another thing. May be NULL */
    void (*waits)(void *ctx);   /* likewise mst_fronts_waits */
    /* With `waits`: the index of the process in the job; INDEX_NONE: it is none of this node. */
    uint32_t (*rank)(void *ctx, uint32_t pid);
    void *ctx;
};

struct mst_fronts;

/* Listens for processes of this user, and root's. `port_out`: where. EFAILED: the kernel does not
 * say whose a connection is; ENOMEM, ELIMIT. `err` is one line. */
muster_status mst_fronts_open(struct mst_fronts **out, const struct mst_fronts_options *options,
                              uint16_t *port_out, struct muster_error *err);

/* The processes of the job are started anew: the connections of the earlier ones are closed, their
 * sessions end without a word, and each front begins anew. `err` as above: the fronts are closed.
 */
muster_status mst_fronts_begin(struct mst_fronts *fronts, uint32_t attempt,
                               struct muster_error *err);

/* The number of the node, once it is known, for the sessions from now on. */
void mst_fronts_node(struct mst_fronts *fronts, uint32_t node);

/* The process `index` is dead, and the service is told by the caller; `text`: how it died. */
void mst_fronts_dead(struct mst_fronts *fronts, uint32_t index, const char *text);

/* A notice of preemption is due: the processes save now; `text`: its source. */
void mst_fronts_notice(struct mst_fronts *fronts, const char *text);

/* Whether the process has a session as a member of the job, and has not left. */
bool mst_fronts_has(const struct mst_fronts *fronts, uint32_t index);
bool mst_fronts_any(const struct mst_fronts *fronts); /* some process */

/* Whether nothing is connected, and no process has a session as a member. */
bool mst_fronts_idle(const struct mst_fronts *fronts);

/* The clients that have waited for others for a second or more, as an agent writes them
 * (proto/run_keys.h). `room`: 64 or more. */
void mst_fronts_waits(const struct mst_fronts *fronts, char *value, size_t room);

/* Ends the sessions: each process that has not left does so now. The loop runs once more after it,
 * to close what it has of this. NULL: a no-op. */
void mst_fronts_close(struct mst_fronts *fronts);

#endif
