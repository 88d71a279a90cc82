/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_MACHINE_H
#define MST_CLIENT_MACHINE_H

/* The insides of the client machine, shared by its files only: client.c takes the inputs in,
 * effects.c says what is to be done. */

#include "base/list.h"
#include "base/panic.h"
#include "base/prng.h"
#include "client/client.h"

enum mst_client_state {
    MST_CLIENT_STATE_IDLE,
    MST_CLIENT_STATE_WAITING,
    MST_CLIENT_STATE_CONNECTING,
    MST_CLIENT_STATE_OPENING,
    MST_CLIENT_STATE_ONLINE,
    MST_CLIENT_STATE_ENDED
};

#define MST_CLIENT_NEVER UINT64_MAX
enum {
    MST_CLIENT_WINDOW_CALLS = MST_WINDOW - 8, /* the rest is for renewals, the view and cancels */
    MST_CLIENT_WINDOW_OWN = MST_WINDOW - 1,   /* one number stays free for OPEN */
    MST_CLIENT_CALLS_MAX = 4096,
    MST_CLIENT_HOST_ROOM = 256
};

struct mst_client_call {
    struct mst_list link; /* in calls, in the order they were made; then in finished or orphans */
    struct mst_list out;  /* in outbox, while it is to be sent */
    struct mst_list cancel_out; /* in cancels, while its CANCEL is to be sent */
    uint64_t tag;
    uint64_t deadline_ns;
    uint64_t give_up_ns; /* after the deadline: how long its names are waited for */
    bool sent;           /* on this connection */
    bool numbered;       /* a write that has its id */
    bool cancelled;      /* the caller asked the service to stop it */
    bool timed_out;
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
    enum mst_client_state state;
    uint64_t now_ns;

    struct mst_client_own open, renew, watch;
    bool admitted; /* the service has opened the session once */
    uint64_t lease_ns;
    uint64_t answered_ns; /* when the last answered renewal was sent */
    uint64_t renew_ns;    /* when the next is due */
    uint64_t heard_ns;    /* when bytes of the service last came */
    bool stopped;

    uint64_t attempt_ns; /* CONNECTING, OPENING: when it is given up. WAITING: when to try again */
    uint64_t backoff_ns;

    struct mst_view view;
    uint64_t view_revision;
    bool has_holder;
    struct mst_who holder;

    uint64_t id_next;
    struct mst_list calls, outbox, cancels, finished, orphans;
    uint32_t call_count, sent_count;

    bool connect_due, disconnect_due, attention_due, ended_due;
    muster_status end_status;
    const struct mst_reply *end_reply;

    bool draining; /* between next and done */
    struct mst_client_call *effect_call;
    struct mst_client_effect effect;
    struct mst_request cancel;
    struct mst_reply made;
    char host[MST_CLIENT_HOST_ROOM];
    unsigned char room[]; /* of open */
};

static inline struct mst_client_call *call_of(struct mst_list *link)
{
    return MST_CONTAINER(link, struct mst_client_call, link);
}

static inline uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t later_by(uint64_t now_ns, uint64_t wait_ns)
{
    return wait_ns > MST_CLIENT_NEVER - now_ns ? MST_CLIENT_NEVER : now_ns + wait_ns;
}

/* When the connection counts as dead although nobody closed it. */
uint64_t mst_client_silence_ns(const struct mst_client *client);

/* Puts a CANCEL for this call, if it was sent, behind the others. */
void mst_client_ask_to_stop(struct mst_client *client, struct mst_client_call *call);

#endif
