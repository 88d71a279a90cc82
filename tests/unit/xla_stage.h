/* SPDX-License-Identifier: Apache-2.0 */
#ifndef XLA_STAGE_H
#define XLA_STAGE_H

/* Fronts of several nodes over the real core of the service, and clients that speak to them by
 * nghttp2: everything of a job of JAX but sockets. */

#include <nghttp2/nghttp2.h>

#include "core_service.h"
#include "failing_mem.h"
#include "fronts/xla/message.h"
#include "fronts/xla/xla.h"

enum {
    STAGE_FRONTS_MAX = 2,
    STAGE_CLIENTS_MAX = 16,
    STAGE_CALLS_MAX = 4096,
    STAGE_SESSIONS_MAX = 16,
    STAGE_LINE_MAX = 4096
};

struct stage;

/* A call of a client, and its answer. */
struct stage_call {
    struct stage_client *client;
    int32_t stream;
    unsigned char *request;
    size_t request_size, sent;
    bool done;
    int status;                                             /* grpc-status; -1: none came */
    int http;                                               /* :status */
    char text[STAGE_LINE_MAX], details[STAGE_LINE_MAX * 2]; /* as they came */
    unsigned char *reply;
    size_t reply_size;
    uint32_t reset; /* RST_STREAM: its code */
};

struct stage_client {
    struct stage *stage;
    uint32_t front;
    uint64_t connection;
    nghttp2_session *h2;
    bool closed;  /* by the front */
    bool paused;  /* the front reads nothing of it */
    bool deaf;    /* does not read */
    bool holds;   /* its requests do not end */
    size_t piece; /* bytes that are given at once; 0: as they come */
    unsigned char *unread;
    size_t unread_size;
    bool told; /* to the front */
};

struct stage_session {
    uint32_t front;
    uint64_t number; /* of the front */
    uint32_t client; /* of the core */
    uint32_t index;
    uint64_t join; /* its request; 0: it is sealed */
    bool failed, left;
    enum mst_cause cause;
    int32_t code;
    char text[512];
};

struct stage {
    struct core_service service;
    uint64_t now_ns;
    struct mst_front_config config;
    struct failing_mem memory; /* of the fronts, all of it given back in the end */
    void *fronts[STAGE_FRONTS_MAX];
    uint32_t front_count;
    struct stage_client clients[STAGE_CLIENTS_MAX];
    uint32_t client_count;
    struct stage_session sessions[STAGE_SESSIONS_MAX];
    uint32_t session_count;
    struct stage_post *posts;
    struct stage_reply *replies, **last_reply;
    struct stage_call *calls[STAGE_CALLS_MAX];
    uint32_t call_count;
    bool draining;
    uint64_t connections;
    unsigned logs;
    bool may_lack; /* memory: a front may close a connection, or never answer */
    /* Of connections that are no client's. */
    void (*send)(struct stage *stage, uint64_t connection, struct mst_slice bytes);
    void (*close)(struct stage *stage, uint64_t connection);
};

/* `fronts` nodes of a job of `size`. */
void stage_init(struct stage *stage, uint32_t fronts, uint32_t size);
void stage_init_with(struct stage *stage, uint32_t fronts, const struct mst_front_config *config);
void stage_fini(struct stage *stage);

struct stage_client *stage_connect(struct stage *stage, uint32_t front);
void stage_close(struct stage_client *client);

/* One of X's methods, or with a path of its own. `timeout`: as in "50S"; NULL: none. */
struct stage_call *stage_call(struct stage_client *client, enum mst_xla_wire wire,
                              enum mst_xla_method method, const struct mst_xla_request *request,
                              const char *timeout);
struct stage_call *stage_call_raw(struct stage_client *client, const char *path,
                                  const char *encoding, const char *timeout, struct mst_slice body);
void stage_cancel(struct stage_call *call);
/* The message of a reply; false: it is none. */
bool stage_reply(const struct stage_call *call, enum mst_xla_wire wire, enum mst_xla_method method,
                 struct mst_xla_reply *reply);

/* Whatever the client has to say reaches its front, and the other way. */
void stage_flow(struct stage *stage);
void stage_pass(struct stage *stage, uint64_t ms);

void stage_dead(struct stage *stage, uint32_t front, uint32_t index, const char *text);

/* What its agent reports to the service. */
void stage_lose(struct stage *stage, uint32_t front, uint32_t index);
/* Native calls that wait. */
unsigned stage_posts(const struct stage *stage);

/* A window of 1 GiB for what it reads. */
void stage_widen(struct stage_client *client);
/* What came while it was deaf, and from now on. */
void stage_listen(struct stage_client *client);

/* Drains a front; for inputs that a test makes by itself. */
void stage_drain(struct stage *stage, uint32_t front);
struct stage_session *stage_session(struct stage *stage, uint32_t front, uint64_t number);

#endif
