/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_FRONTS_TCPSTORE_MACHINE_H
#define MST_FRONTS_TCPSTORE_MACHINE_H

/* What the files of the front share. tcpstore.c: inputs, effects, sessions. call.c: requests to the
 * service, and the names of its keys. connection.c: the order of a client's requests. store.c: what
 * each does with keys. wait.c: held waits. queue.c: the queues. */

#include "base/blob.h"
#include "base/list.h"
#include "base/time.h"
#include "base/tree.h"
#include "fronts/tcpstore/codec.h"
#include "fronts/tcpstore/tcpstore.h"
#include "proto/follow.h"

enum {
    MST_TCPSTORE_SESSION_CLIENTS = 64, /* of one session: the service bounds what one waits for */
    MST_TCPSTORE_CHUNK = 64,           /* keys of one wait at the service */
    MST_TCPSTORE_READS = 16,           /* of one request at once */
    MST_TCPSTORE_TRIES = 64,           /* of a change that others interfere with */
    MST_TCPSTORE_BACKLOG_MAX = 1 << 20,
    MST_TCPSTORE_PAUSE = 256 << 10, /* bytes of further requests */
    MST_TCPSTORE_OPENING_MS = 10000,
    MST_TCPSTORE_RESERVED_MS = 1000,
    MST_TCPSTORE_SHOWN_MS = 1000, /* then `waits` has it */
    MST_TCPSTORE_LONG_MS = 30000, /* then a line names what is waited for */
    MST_TCPSTORE_PREFIX_ROOM = 48
};

/* The keys of the service. */
enum mst_tcpstore_space {
    MST_TCPSTORE_KEYS,     /* a key and its value */
    MST_TCPSTORE_QUEUES,   /* of a queue that is not empty: where it begins and ends */
    MST_TCPSTORE_ITEMS,    /* its items */
    MST_TCPSTORE_BARRIERS, /* is there once the barrier has opened */
    MST_TCPSTORE_SPACES
};

struct mst_tcpstore;
struct mst_tcpstore_call;

/* An effect in the queue, embedded in what it is about. */
struct mst_tcpstore_out {
    struct mst_list link;
    struct mst_front_effect effect;
    void (*drained)(struct mst_tcpstore *front, struct mst_tcpstore_out *out); /* NULL: nothing */
};

struct mst_tcpstore_session {
    struct mst_list link;
    struct mst_tcpstore_out out; /* OPEN, and later LEAVE */
    uint64_t id, generation;
    struct mst_list connections;
    uint32_t count;
    bool open, leaving;
};

/* A request to the service. It belongs to a list of calls, and is dropped with it. */
typedef void mst_tcpstore_replied(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                                  const struct mst_reply *reply);

struct mst_tcpstore_call {
    struct mst_tcpstore_out out; /* POST, and later DROP */
    struct mst_list in_owner;
    struct mst_tree_node by_tag;
    struct mst_tcpstore_session *session;
    struct mst_request request;
    mst_tcpstore_replied *replied;
    void *owner;
    uint32_t slot;           /* of the owner */
    unsigned char *at, *end; /* room for what the request borrows */
};

struct mst_tcpstore_connection;

/* A change of a queue. It reads where the queue begins and ends, and writes that anew together
 * with the item, if nothing has changed meanwhile.
 *
 *   PUSH, POP: of a request, they die with its connection
 *   GRAB: a pop for a wait, which is released with the item in hand: so no other client can take
 *         it before this one's QUEUE_POP. If nothing waits any more the item goes back.
 *   RETURN: puts an item back at the head */
enum mst_tcpstore_errand_kind {
    MST_TCPSTORE_PUSH,
    MST_TCPSTORE_POP,
    MST_TCPSTORE_GRAB,
    MST_TCPSTORE_RETURN
};

struct mst_tcpstore_errand {
    struct mst_list link; /* of the front's */
    enum mst_tcpstore_errand_kind kind;
    struct mst_tcpstore_connection *connection; /* NULL: it is no longer asked for */
    struct mst_tcpstore_session *session;
    struct mst_list calls;
    struct mst_blob *key, *item;
    uint64_t head, tail, revision; /* 0: there is no queue */
    uint64_t until_ns;             /* GRAB that has the item: of the reservation */
    uint32_t tries;
    bool writing; /* the change is at the service, and may be made */
    bool held;    /* GRAB: it has the item */
};

/* A queue that is not empty, as the watch shows it. */
struct mst_tcpstore_queue {
    struct mst_tree_node node;
    uint64_t length;
    struct mst_blob *key;
};

struct mst_tcpstore_wait {
    struct mst_list link;      /* of the front's, the oldest first; not linked: there is none */
    struct mst_list in_recent; /* likewise of those that no line has named */
    struct mst_list in_hidden; /* likewise of those that `waits` does not have */
    struct mst_list calls;
    enum mst_tcpstore_space space; /* KEYS or BARRIERS */
    struct mst_blob *keys;         /* as the request has them */
    uint64_t count;
    struct mst_slice chunk; /* of `keys`, from the group that is waited for now */
    uint32_t chunk_count;
    uint64_t left;    /* keys from there on */
    uint64_t crossed; /* of the group: those that are queues, which are not empty */
    uint64_t since_ns;
    struct mst_tcpstore_errand *grab;
};

/* What ended a wait for one key. torch's `get` is a WAIT and then a GET: the value that the service
 * gave for the first is the reply to the second, as it was read within the same `get`. */
struct mst_tcpstore_found {
    struct mst_list link; /* of the front's, the oldest first; not linked: there is none */
    struct mst_blob *key; /* as a request has it */
    struct mst_blob *value;
    uint64_t until_ns;
};

/* The request at hand. */
struct mst_tcpstore_work {
    struct mst_list calls;
    size_t offset; /* in the request's list, of what is not asked for */
    uint64_t asked, sent;
    struct mst_blob *values[MST_TCPSTORE_READS];
    bool has[MST_TCPSTORE_READS]; /* an answer */
    int64_t number;               /* ADD: the sum. Of a list: keys so far */
    uint32_t tries;
    struct mst_buffer names; /* LIST_KEYS: as the reply has them */
    struct mst_tcpstore_errand *errand;
};

struct mst_tcpstore_connection {
    struct mst_tree_node by_id;
    struct mst_list in_session;
    struct mst_list in_ready;   /* its next request may begin */
    struct mst_list in_opening; /* it has not said VALIDATE */
    uint64_t id;
    struct mst_tcpstore_session *session; /* NULL: it needs none yet */
    struct mst_tcpstore_reader reader;
    size_t backlog;
    uint32_t nonce;
    uint64_t until_ns; /* of the opening */
    bool busy;         /* with the first request of the reader */
    bool ended;        /* the client sends no more */
    bool paused;
    struct mst_tcpstore_out close, pause;
    struct mst_tcpstore_work work;
    struct mst_tcpstore_wait wait;
    struct mst_tcpstore_errand *held; /* an item that is reserved for its next request */
    struct mst_tcpstore_found found;  /* likewise a value */
};

struct mst_tcpstore {
    struct mst_mem mem;
    struct mst_front_config config;
    uint64_t now_ns;
    uint64_t sessions_made, tags;
    struct mst_tree connections, calls;
    struct mst_list sessions, effects, ready, opening, waits, recent, hidden, errands, found;
    struct mst_tcpstore_out waits_changed;
    struct mst_tcpstore_out *given; /* what `next` returned */
    struct mst_tcpstore_connection *spare;
    struct mst_tree queues;
    struct mst_follow follow; /* of the queues */
    struct mst_list following;
    char prefix[MST_TCPSTORE_SPACES][MST_TCPSTORE_PREFIX_ROOM];
};

/* ---- tcpstore.c ---- */

/* At the end of the effects. */
void mst_tcpstore_emit(struct mst_tcpstore *front, struct mst_tcpstore_out *out,
                       enum mst_front_effect_kind kind);
/* Two pieces, which are copied. False: no memory. */
bool mst_tcpstore_send(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                       struct mst_slice first, struct mst_slice second);
void mst_tcpstore_log(struct mst_tcpstore *front, struct mst_slice line);
/* The connection's session, which is opened if need be; NULL: no memory. */
struct mst_tcpstore_session *mst_tcpstore_session_of(struct mst_tcpstore *front,
                                                     struct mst_tcpstore_connection *connection);

/* ---- call.c ---- */

/* Room for the native name of a key. */
size_t mst_tcpstore_name_size(struct mst_slice key);

/* A call without a request; `room`: for names and lists of it. NULL: no memory. */
struct mst_tcpstore_call *mst_tcpstore_call_new(struct mst_tcpstore *front, size_t room);
/* The native name of a key, in the room of the call. `item`: in ITEMS, of the queue `key`. */
struct mst_slice mst_tcpstore_name(const struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                                   enum mst_tcpstore_space space, struct mst_slice key,
                                   uint64_t item);
/* The name of the same key in another space. */
struct mst_slice mst_tcpstore_name_in(const struct mst_tcpstore *front,
                                      struct mst_tcpstore_call *call, enum mst_tcpstore_space space,
                                      struct mst_slice name, enum mst_tcpstore_space before);
void *mst_tcpstore_room(struct mst_tcpstore_call *call, size_t size);
/* Bytes after a space's prefix are the key again, in `out`, which has room for as many. */
struct mst_slice mst_tcpstore_key_of(struct mst_slice name, unsigned char *out);

void mst_tcpstore_post(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                       struct mst_tcpstore_session *session, struct mst_list *owner_calls,
                       mst_tcpstore_replied *replied, void *owner);
void mst_tcpstore_drop_calls(struct mst_tcpstore *front, struct mst_list *calls);
void mst_tcpstore_reply(struct mst_tcpstore *front, uint64_t tag, const struct mst_reply *reply);

/* ---- connection.c ---- */

void mst_tcpstore_ready(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection);
/* Begins what may begin. */
void mst_tcpstore_go_on(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection);
/* The first request is answered. */
void mst_tcpstore_finish(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection);
/* Disconnects the client; the line begins with who it is. `what`: "it ..." */
void mst_tcpstore_fail(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                       const char *what);
void mst_tcpstore_fail_memory(struct mst_tcpstore *front,
                              struct mst_tcpstore_connection *connection);
/* The service refused what a request needs. */
void mst_tcpstore_fail_reply(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                             const struct mst_reply *reply);
/* Everything of it is let go, and it is closed once its bytes are out. */
void mst_tcpstore_close(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection);
void mst_tcpstore_send_byte(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                            unsigned char byte);
/* The request at hand. */
struct mst_tcpstore_request mst_tcpstore_request_of(struct mst_tcpstore_connection *connection);

/* ---- store.c ---- */

/* Begins a request that needs the service. */
void mst_tcpstore_begin(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                        const struct mst_tcpstore_request *request);
void mst_tcpstore_work_clear(struct mst_tcpstore *front, struct mst_tcpstore_work *work);

/* ---- wait.c ---- */

/* Replaces what the connection waited for. */
void mst_tcpstore_wait_begin(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                             enum mst_tcpstore_space space, struct mst_slice keys, uint64_t count);
/* Without an answer; nothing, where it does not wait. */
void mst_tcpstore_wait_end(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection);
void mst_tcpstore_wait_answer(struct mst_tcpstore *front,
                              struct mst_tcpstore_connection *connection);
/* Shows those that are old enough, and says one line about those that are long by now; when the
 * next one is. */
void mst_tcpstore_waits_tell(struct mst_tcpstore *front);
uint64_t mst_tcpstore_waits_deadline_ns(const struct mst_tcpstore *front);
/* Whether the request, which directly follows the wait, asks for the value that ended it. The value
 * is dropped at the end of any request, and after RESERVED_MS. */
bool mst_tcpstore_found_is_for(const struct mst_tcpstore_connection *connection,
                               const struct mst_tcpstore_request *request);
void mst_tcpstore_found_drop(struct mst_tcpstore *front,
                             struct mst_tcpstore_connection *connection);
void mst_tcpstore_found_expire(struct mst_tcpstore *front);
uint64_t mst_tcpstore_found_deadline_ns(const struct mst_tcpstore *front);
void mst_tcpstore_waits(const void *ctx, void (*each)(void *ctx, const struct mst_front_wait *wait),
                        void *each_ctx);
/* Whether it is of this key alone. */
bool mst_tcpstore_wait_is_for(const struct mst_tcpstore_wait *wait, struct mst_slice key);
/* The queue has items: waits of several keys are closer to their end. */
void mst_tcpstore_wait_cross(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                             struct mst_slice key);

/* ---- queue.c ---- */

int mst_tcpstore_queue_order(const void *key, const struct mst_tree_node *node);
/* A queue that is known to have items; NULL: there is none of this name. */
const struct mst_tcpstore_queue *mst_tcpstore_queue_find(const struct mst_tcpstore *front,
                                                         struct mst_slice key);
/* Its items are reserved for waits of it alone. */
void mst_tcpstore_queue_serve(struct mst_tcpstore *front, struct mst_slice key);
void mst_tcpstore_queues_follow(struct mst_tcpstore *front); /* asks for the next changes */
void mst_tcpstore_queues_clear(struct mst_tcpstore *front);

void mst_tcpstore_queue_push(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                             const struct mst_tcpstore_request *request);
void mst_tcpstore_queue_pop(struct mst_tcpstore *front, struct mst_tcpstore_connection *connection,
                            const struct mst_tcpstore_request *request);
void mst_tcpstore_queue_length(struct mst_tcpstore *front,
                               struct mst_tcpstore_connection *connection,
                               const struct mst_tcpstore_request *request);
/* Of an errand without a connection: it goes on by itself, or ends. */
void mst_tcpstore_errand_leave(struct mst_tcpstore *front, struct mst_tcpstore_errand *errand);
void mst_tcpstore_errand_free(struct mst_tcpstore *front, struct mst_tcpstore_errand *errand);

#endif
