/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_FRONTS_XLA_MACHINE_H
#define MST_FRONTS_XLA_MACHINE_H

/* The insides of the front. A connection has calls, which are streams of HTTP/2. A call is answered
 * at once, or waits in a list: of a native call (an op), or of its task. A task is a process of
 * JAX, and has one session at a time. */

#include <nghttp2/nghttp2.h>

#include "base/buffer.h"
#include "base/list.h"
#include "base/text.h"
#include "base/time.h"
#include "base/tree.h"
#include "fronts/front.h"
#include "fronts/xla/message.h"
#include "proto/follow.h"
#include "proto/status.h"
#include "proto/words.h"

/* Codes of gRPC. */
enum mst_xla_code {
    MST_XLA_OK = 0,
    MST_XLA_CANCELLED = 1,
    MST_XLA_UNKNOWN = 2,
    MST_XLA_INVALID_ARGUMENT = 3,
    MST_XLA_DEADLINE_EXCEEDED = 4,
    MST_XLA_NOT_FOUND = 5,
    MST_XLA_ALREADY_EXISTS = 6,
    MST_XLA_RESOURCE_EXHAUSTED = 8,
    MST_XLA_FAILED_PRECONDITION = 9,
    MST_XLA_ABORTED = 10,
    MST_XLA_OUT_OF_RANGE = 11,
    MST_XLA_UNIMPLEMENTED = 12,
    MST_XLA_INTERNAL = 13,
    MST_XLA_UNAVAILABLE = 14,
    MST_XLA_CODE_LAST = 16
};

enum {
    MST_XLA_TEXT_MAX = 2048,
    MST_XLA_HEADERS_MAX = 16384, /* bytes of a request's */
    MST_XLA_STREAMS_MAX = 100000,
    MST_XLA_WINDOW = 1 << 20, /* of a stream, in bytes */
    MST_XLA_WINDOW_ALL = 4 << 20,
    MST_XLA_BACKLOG_MAX = 1 << 20,
    MST_XLA_BODIES_MAX = 256 << 20 /* of one connection's unfinished requests */
};

struct mst_xla;
struct mst_xla_task;
struct mst_xla_op;

/* What waits to be taken from the front, inside of what it is about. */
struct mst_xla_effect {
    struct mst_list queue;
    struct mst_front_effect out;
};

struct mst_xla_connection {
    struct mst_tree_node by_id;
    struct mst_list dirty; /* of those that may have output */
    struct mst_xla *front;
    uint64_t id;
    nghttp2_session *h2;
    struct mst_list calls;
    uint32_t call_count;
    size_t bodies;             /* bytes */
    struct mst_xla_task *task; /* the last one that registered on it */
    size_t backlog;            /* that waits for its reader; while it is large, nothing is read */
    size_t burst;              /* given since that was known */
    bool paused;
    struct mst_xla_effect pause;
    bool ending; /* reads nothing more, and is closed when all is out */
    bool closed; /* by its client */
};

struct mst_xla_call {
    struct mst_list in_connection;
    struct mst_list waits; /* of an op or a task; in none once it is answered */
    struct mst_xla_connection *connection;
    struct mst_xla_op *op; /* that it waits for */
    uint64_t timeout_ns;   /* of the client; 0: it said none */
    int32_t stream;
    enum mst_xla_method method;
    enum mst_xla_wire wire;
    uint8_t encoding; /* of its message, see gzip.h */
    bool bad_method, bad_type, has_type, whole, answered;
    uint32_t header_bytes;
    /* What was received of its message; then its reply, of which so much is sent. */
    unsigned char *bytes;
    size_t size, room, sent;
};

/* An error, and what its details say. */
struct mst_xla_error {
    enum mst_xla_code code;
    bool plain; /* no details */
    bool has_source;
    struct mst_xla_origin origin; /* of has_source */
    bool has_barrier, has_mismatch;
    struct mst_xla_barrier_error barrier;
    struct mst_xla_mismatch mismatch;
    const char *encodings; /* that are understood; NULL: not said */
    char text[MST_XLA_TEXT_MAX];
};

typedef void mst_xla_replied(struct mst_xla *front, struct mst_xla_op *op,
                             const struct mst_reply *reply);

/* A native call. What its request points at is behind it. */
struct mst_xla_op {
    struct mst_xla_effect effect; /* POST, later DROP */
    struct mst_tree_node by_tag, by_name;
    struct mst_list in_task;
    struct mst_list calls; /* that wait for it */
    struct mst_xla_task *task;
    mst_xla_replied *replied;
    struct mst_request request;
    bool stays; /* goes on when none of its calls is left */
    bool dropped;
    uint64_t counter;
    struct mst_slice name; /* as the client has it: a key or a barrier */
    /* GetKeyValueDir, DeleteKeyValue: what came so far. */
    struct mst_buffer listed, after;
    uint32_t listed_count;
    struct mst_slice folder;
    struct mst_write *write;  /* the only one, kept with the op... */
    struct mst_write *writes; /* ...or of a page */
    bool last;
    /* Of a round: rounds that it says are taken; then this one is such a round itself. */
    struct mst_list carried;
    struct mst_slice *names;
    bool taken;
    size_t used, room;
    unsigned char bytes[];
};

enum mst_xla_stage {
    MST_XLA_ABSENT = 0, /* never registered, or it has left */
    MST_XLA_OPENING,
    MST_XLA_HERE,
    MST_XLA_LEAVING, /* waits for the others */
    MST_XLA_FAILED
};

struct mst_xla_task {
    struct mst_tree_node by_index;
    struct mst_xla *front;
    uint32_t index;
    enum mst_xla_stage stage;
    uint64_t incarnation, session, generation;
    struct mst_xla_connection *connection; /* NULL: it is closed */
    enum mst_xla_wire wire;
    struct mst_list registering, polls, leaving; /* calls */
    struct mst_list ops;
    struct mst_tree gets, rounds; /* ops by key and name, while they wait */
    struct mst_tree counts;       /* of rounds of GetAliveTasks, by name */
    struct mst_list taken;        /* rounds whose result the client has: the service may forget */
    uint32_t taken_count;
    uint64_t beat_ns, beat_every_ns; /* 0: it has said no time */
    uint64_t gone_ns;                /* its connection is closed: it has failed then */
    bool has_left;                   /* not in a generation any more, but it was */
    struct mst_xla_error error;      /* of FAILED */
    struct mst_xla_effect open, leave, fail;
};

/* Another task of the job, as the service reports it. */
struct mst_xla_peer {
    struct mst_tree_node by_index;
    uint32_t index, state; /* MST_XLA_CONNECTED, ... */
    uint64_t incarnation;
    struct mst_xla_error *error; /* NULL: none */
};

struct mst_xla {
    struct mst_mem mem;
    nghttp2_mem h2_mem;
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    struct mst_front_config config;
    uint64_t now_ns;
    struct mst_tree connections, tasks, ops, peers;
    struct mst_list effects, dirty;
    bool bursts;         /* of some connection more output waits for the next tick */
    uint64_t generation; /* the newest */
    uint64_t next_tag, next_session;
    struct mst_front_effect out; /* the last one given */
    void *spent;                 /* what it borrowed alone */
    unsigned char *chunk;        /* output on its way out */

    /* What the job's tasks share. */
    bool has_error;
    struct mst_xla_error error; /* the first one */
    bool noticed;
    struct mst_xla_task *watcher; /* whose session watches; NULL: none */
    struct mst_xla_op *watch;
    struct mst_follow follow;
    struct mst_list watching; /* calls of WatchTasks */
    uint64_t version;         /* of the peers, as WatchTasks numbers them */
    /* The longest time between heartbeats of a task of the job; 0: none has said one. It counts for
     * tasks that have not said theirs, as one that is frozen before its first. */
    uint64_t beat_every_ns;

    struct mst_native_arena arena;
};

/* ---- effects ---- */

void mst_xla_emit(struct mst_xla *front, struct mst_xla_effect *effect,
                  enum mst_front_effect_kind kind);
void mst_xla_log(struct mst_xla *front, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A native call, with space for `size` bytes that its request points at. NULL: no memory. It is
 * made by mst_xla_op_post. */
struct mst_xla_op *mst_xla_op_new(struct mst_xla_task *task, enum mst_command command, size_t size,
                                  mst_xla_replied *replied);
void *mst_xla_op_room(struct mst_xla_op *op, size_t size);
struct mst_slice mst_xla_op_keep(struct mst_xla_op *op, struct mst_slice bytes);
/* With the request as it is now; in `replied` the same op again. */
void mst_xla_op_post(struct mst_xla_op *op);
/* The call waits for it. */
void mst_xla_op_wait(struct mst_xla_op *op, struct mst_xla_call *call);
void mst_xla_op_drop(struct mst_xla_op *op);
/* One that was not made, or is over. */
void mst_xla_op_free(struct mst_xla_op *op);
/* The next call that waits, which waits no longer; NULL: none. */
struct mst_xla_call *mst_xla_next_waiting(struct mst_list *waiting);

/* ---- connections ---- */

muster_status mst_xla_connection_new(struct mst_xla *front, uint64_t id);
void mst_xla_connection_free(struct mst_xla_connection *connection);
void mst_xla_connection_received(struct mst_xla_connection *connection, struct mst_slice bytes);
void mst_xla_connection_written(struct mst_xla_connection *connection, size_t backlog);
/* Bytes for it, in the front's chunk or in nghttp2's; empty: none now. */
struct mst_slice mst_xla_connection_output(struct mst_xla_connection *connection);
void mst_xla_connection_touch(struct mst_xla_connection *connection);
bool mst_xla_connection_bursts(const struct mst_xla_connection *connection);
muster_status mst_xla_callbacks_new(struct mst_xla *front);

/* ---- calls ---- */

void mst_xla_call_header(struct mst_xla_call *call, struct mst_slice name, struct mst_slice value);
void mst_xla_call_data(struct mst_xla_call *call, struct mst_slice bytes);
void mst_xla_call_whole(struct mst_xla_call *call);
void mst_xla_call_free(struct mst_xla_call *call);

void mst_xla_answer(struct mst_xla_call *call, const struct mst_xla_reply *reply);
void mst_xla_refuse(struct mst_xla_call *call, const struct mst_xla_error *error);
struct mst_xla_error mst_xla_error_of(enum mst_xla_code code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* All that wait in the list. */
void mst_xla_answer_all(struct mst_list *waiting, const struct mst_xla_reply *reply);
void mst_xla_refuse_all(struct mst_list *waiting, const struct mst_xla_error *error);
/* Of a native call that failed for a reason that no method has a word of its own for. */
struct mst_xla_error mst_xla_error_native(const char *attempt, const struct mst_reply *reply);
/* Of a round: with the tasks that are lost or missing. */
struct mst_xla_error mst_xla_error_round(enum mst_xla_code code, const char *words,
                                         const struct mst_reply *reply);

/* A submission to nghttp2 of what the call was answered with; connection.c. */
void mst_xla_submit_reply(struct mst_xla_call *call);
void mst_xla_submit_error(struct mst_xla_call *call, enum mst_xla_code code, struct mst_slice text,
                          struct mst_slice details, const char *encodings);

/* ---- the methods ---- */

typedef void mst_xla_serve(struct mst_xla_call *call, struct mst_xla_task *task,
                           const struct mst_xla_request *request);
mst_xla_serve mst_xla_heartbeat, mst_xla_poll, mst_xla_shutdown, mst_xla_report, mst_xla_watch,
    mst_xla_insert, mst_xla_get, mst_xla_increment, mst_xla_list, mst_xla_delete, mst_xla_barrier,
    mst_xla_alive;
void mst_xla_register(struct mst_xla_call *call, const struct mst_xla_request *request);
void mst_xla_serve_call(struct mst_xla_call *call, const struct mst_xla_request *request);

struct mst_xla_task *mst_xla_task_at(const struct mst_xla *front, uint32_t index);
/* The connection is closed: a task that was on it may have died. */
void mst_xla_task_unconnected(struct mst_xla_task *task,
                              const struct mst_xla_connection *connection);
void mst_xla_task_free(struct mst_xla_task *task);
/* Its session is over for good, or it leaves it: nothing of it waits any longer. */
enum mst_xla_end {
    MST_XLA_KEEPS,    /* the session: the agent ends it */
    MST_XLA_LEAVES,   /* others have failed as well */
    MST_XLA_REPORTS,  /* the failure, and leaves */
    MST_XLA_UNHEALTHY /* the same, but the front has observed the failure */
};
void mst_xla_task_fail(struct mst_xla_task *task, const struct mst_xla_error *error,
                       enum mst_xla_end end);
void mst_xla_task_dead(struct mst_xla_task *task, struct mst_slice text);
void mst_xla_task_opened(struct mst_xla_task *task, uint64_t generation);
void mst_xla_task_ended(struct mst_xla_task *task, muster_status status, struct mst_slice text);
void mst_xla_task_tick(struct mst_xla_task *task);
uint64_t mst_xla_task_deadline_ns(const struct mst_xla_task *task);
/* The first error of the job reaches all tasks that poll. */
void mst_xla_propagate(struct mst_xla *front, const struct mst_xla_error *error);
void mst_xla_notice(struct mst_xla *front);

void mst_xla_keys_init(struct mst_xla_task *task);
void mst_xla_rounds_init(struct mst_xla_task *task);
void mst_xla_rounds_fini(struct mst_xla_task *task);

/* ---- the members ---- */

void mst_xla_members_begin(struct mst_xla_task *task);
void mst_xla_members_stop(struct mst_xla_task *task);
void mst_xla_members_tick(struct mst_xla *front);
/* The state of a task has changed. */
void mst_xla_members_set(struct mst_xla *front, uint32_t index, uint32_t state,
                         uint64_t incarnation, const struct mst_xla_error *error);
void mst_xla_members_free(struct mst_xla *front);

#endif
