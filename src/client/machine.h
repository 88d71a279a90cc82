/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_MACHINE_H
#define MST_CLIENT_MACHINE_H

/* The internals of the client machine, shared by its files only: client.c takes inputs, effects.c
 * makes effects. */

#include "base/list.h"
#include "base/panic.h"
#include "base/prng.h"
#include "base/time.h"
#include "base/tree.h"
#include "client/client.h"

enum mst_client_state {
    MST_CLIENT_STATE_IDLE,
    MST_CLIENT_STATE_WAITING,
    MST_CLIENT_STATE_CONNECTING,
    MST_CLIENT_STATE_OPENING,
    MST_CLIENT_STATE_ONLINE,
    MST_CLIENT_STATE_ENDED
};

enum {
    MST_CLIENT_WINDOW_CALLS = MST_WINDOW - 8, /* the rest is for renewals, the view and cancels */
    MST_CLIENT_WINDOW_OWN = MST_WINDOW - 1,   /* one number stays free for OPEN */
    MST_CLIENT_WAITS_OLD = 240,               /* a service before 0.2 takes 256 of a connection */
    MST_CLIENT_HOST_ROOM = 256
};

/* The part of the window that a call takes while the service has it. A wait takes none, or many
 * waits would block the write that ends one of them. The service limits the number of waits. */
enum mst_client_kind {
    MST_CLIENT_KIND_PROMPT, /* a place in the window: answered at once */
    MST_CLIENT_KIND_WAIT,   /* GET that waits, WAIT, WATCH: nothing, there may be very many */
    MST_CLIENT_KIND_JOIN,   /* ROUND and JOIN: nothing */
    MST_CLIENT_KINDS
};

struct mst_client_call {
    struct mst_list link;  /* in calls, in the order they were made; then in finished or orphans */
    struct mst_list out;   /* in outbox or patient until it is sent; then in sent */
    struct mst_list write; /* in writes, once it is a write that has its id */
    struct mst_list cancel_out; /* in cancels until its CANCEL is sent */
    /* Of the client: by tag and by deadline while it is in calls, by id while it is in sent. */
    struct mst_tree_node in_tags, in_dues, in_ids;
    uint64_t bytes; /* of its memory */
    enum mst_client_kind kind;
    uint64_t place; /* in the order they were made */
    uint64_t tag;
    uint64_t due_ns; /* its deadline; once timed out, the end of the wait for the names */
    bool sent;       /* on this connection */
    bool cancelled;  /* the caller cancelled it */
    bool timed_out;
    bool dropped;         /* in orphans, although it was sent: its answer is discarded */
    muster_status status; /* finished */
    const struct mst_reply *reply;
    struct mst_request request;
    _Alignas(max_align_t) unsigned char room[];
};

/* One of the session's own requests, at most one of each kind at a time. */
struct mst_client_own {
    bool due;     /* to be sent */
    bool waiting; /* sent, not answered */
    uint64_t sent_ns;
    struct mst_request request;
};

struct mst_client {
    struct mst_mem mem;
    struct mst_prng prng;
    uint32_t endpoint_count, endpoint;
    uint32_t tried; /* a bit for each endpoint: attempts since the last back-off */
    enum mst_client_state state;
    uint64_t now_ns;

    struct mst_client_own open, renew, watch;
    bool admitted; /* the service has opened the session once */
    uint64_t lease_ns;
    uint64_t answered_ns; /* when the last answered renewal was sent */
    uint64_t renew_ns;    /* when the next is due */
    uint64_t heard_ns;    /* when the service last sent bytes */
    bool stopped;

    uint64_t attempt_ns; /* CONNECTING, OPENING: the timeout. WAITING: the next try */
    uint64_t backoff_ns;

    struct mst_view view;
    uint64_t view_revision;
    bool has_holder;
    struct mst_who holder;
    uint64_t fault_generation; /* the generation of `fault`; 0: none */
    struct mst_who fault;

    uint64_t id_next;
    struct mst_list calls, writes, cancels, finished, orphans;
    struct mst_list outbox, patient; /* to be sent: those of kind WAIT are in the other one */
    struct mst_list sent;            /* without an answer */
    struct mst_tree tags, dues, ids; /* of the calls: nothing walks over all for one of them */
    uint64_t place_next;
    uint64_t end_ns;
    uint32_t open_count[MST_CLIENT_KINDS], sent_count[MST_CLIENT_KINDS];
    uint64_t wait_bytes; /* of the open calls of kind WAIT */
    uint32_t waits_max;  /* of kind WAIT at the service */

    bool connect_due, disconnect_due, attention_due, ended_due;
    muster_status end_status;
    const struct mst_reply *end_reply;

    bool draining; /* between next and done */
    struct mst_client_call *effect_call;
    struct mst_client_effect effect;
    struct mst_request cancel;
    struct mst_reply made;
    char host[MST_CLIENT_HOST_ROOM];
    char fault_host[MST_CLIENT_HOST_ROOM];
    unsigned char room[]; /* of open */
};

/* index.c: a call is found by its tag and its deadline from now on; once sent, by its id. */
void mst_client_index_init(struct mst_client *client);
void mst_client_put_tag(struct mst_client *client, struct mst_client_call *call);
void mst_client_put_due(struct mst_client *client, struct mst_client_call *call);
void mst_client_put_id(struct mst_client *client, struct mst_client_call *call);

/* NULL: there is none. Of several with one tag the first made. */
struct mst_client_call *mst_client_by_tag(const struct mst_client *client, uint64_t tag);
struct mst_client_call *mst_client_by_id(const struct mst_client *client, uint64_t id);
struct mst_client_call *mst_client_first_due(const struct mst_client *client);
uint64_t mst_client_soonest_ns(const struct mst_client *client); /* its deadline, or NEVER */

static inline struct mst_client_call *call_of(struct mst_list *link)
{
    return MST_CONTAINER(link, struct mst_client_call, link);
}

/* A write that was sent: it keeps its id. */
static inline bool has_number(const struct mst_client_call *call)
{
    return mst_list_linked(&call->write);
}

/* The silence after which a connection counts as dead although it was not closed. */
uint64_t mst_client_silence_ns(const struct mst_client *client);

/* Queues a CANCEL for this call, if it was sent. */
void mst_client_ask_to_stop(struct mst_client *client, struct mst_client_call *call);

#endif
