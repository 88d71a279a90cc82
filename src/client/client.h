/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_CLIENT_H
#define MST_CLIENT_CLIENT_H

/* The client's side of a session, as a pure machine: opening and resuming, numbering and repeating
 * requests, deadlines, the lease and the self-stop, reconnecting with back-off. It exchanges
 * requests and replies with the service; bytes are a codec's business, sockets the shell's.
 *
 *   IDLE --connect--> CONNECTING --connected--> OPENING --reply OPEN--> OPEN
 *                        ^   |failed               |lost                 |lost
 *                        +---+---- back-off -------+---------------------+
 *   OPENING, OPEN --sent on--> CONNECTING, to the endpoint that was named
 *   any --reply FENCED / refused--> ENDED
 *
 * Shape as the core's: inputs carry now_ns; next/done drain effects. */

#include "base/mem.h"
#include "proto/limits.h"
#include "proto/reply.h"
#include "proto/request.h"

struct mst_client;

#define MST_CLIENT_ENDPOINTS_MAX 32u
#define MST_CLIENT_ENDPOINT_NEW UINT32_MAX

struct mst_client_config {
    uint64_t seed;           /* of the jitter in the back-off; different in each process */
    struct mst_open open;    /* the identity; the slices are copied */
    uint32_t endpoint_count; /* 1 to ENDPOINTS_MAX; CONNECT effects go round */
    uint64_t end_ns;         /* latest time to wait for the names of missing ranks; 0: no limit */
    struct mst_limits limits;
};

enum mst_client_effect_type {
    MST_CLIENT_CONNECT = 1, /* connect to `endpoint`; connected() or disconnected() must follow */
    MST_CLIENT_SEND = 2,    /* give `request` to the codec of the current connection */
    MST_CLIENT_DONE = 3, /* call `tag` ended: `reply`; its status may be local (ETIMEDOUT, ...) */
    MST_CLIENT_ATTENTION = 4,  /* mst_client_view or mst_client_stopped changed; level-triggered */
    MST_CLIENT_DISCONNECT = 5, /* close the current connection; no disconnected() is owed for it */
    MST_CLIENT_ENDED =
        6 /* the session is over for good: `status`, and `reply` if the service sent one */
};

struct mst_client_effect {
    enum mst_client_effect_type type;
    uint32_t endpoint;
    const struct mst_request *request;
    uint64_t tag;
    const struct mst_reply *reply; /* borrowed until done */
    muster_status status;
    bool local; /* DONE: the status is local, not from the service */
};

muster_status mst_client_new(struct mst_client **out, const struct mst_client_config *config,
                             const struct mst_mem *mem);
void mst_client_free(struct mst_client *client);

/* Start to connect. Once, first. */
void mst_client_start(struct mst_client *client, uint64_t now_ns);

/* Open calls: of those that do not wait for a key or a change, this many; of those that do, this
 * much memory. */
#define MST_CLIENT_CALLS_MAX 4096u
#define MST_CLIENT_WAIT_BYTES_MAX (UINT64_C(64) << 20)

/* A new call: id and oldest are set here, everything it borrows is copied. `deadline_ns` ends the
 * wait with ETIMEDOUT (UINT64_MAX: never). `tag` is the caller's, unique among open calls. Beyond
 * the window, and beyond the limit of waits at the service, calls queue here. They are sent in the
 * order of their creation, except that queued waits do not delay other calls. ENOMEM, EFENCED after
 * ENDED, ELIMIT: CALLS_MAX are open, or WAIT_BYTES_MAX. */
muster_status mst_client_call(struct mst_client *client, uint64_t now_ns,
                              const struct mst_request *request, uint64_t deadline_ns,
                              uint64_t tag);

/* Asks the service to stop the call. It ends with the service's reply (the decided one, or
 * ECANCELLED), also when the connection is lost meanwhile: the request is then repeated and
 * cancelled again. Only a call that was never sent, or the end of the session, ends it here. The
 * restart machine depends on this: a local ECANCELLED while the service had answered OK would leave
 * this rank at a seal that the others never reach. */
void mst_client_cancel(struct mst_client *client, uint64_t now_ns, uint64_t tag);

/* Drops this call: it ends without a DONE, and the service is notified if it knows the call. A
 * write that was sent may have been applied. */
void mst_client_drop(struct mst_client *client, uint64_t now_ns, uint64_t tag);

void mst_client_connected(struct mst_client *client, uint64_t now_ns);
void mst_client_disconnected(struct mst_client *client,
                             uint64_t now_ns); /* or the attempt failed */

/* An agent: what the renewals from now on say of its ranks. `list` is borrowed until the next call
 * of this or the end of the client, and may change in between. */
void mst_client_report(struct mst_client *client, const struct mst_rank_progress *list,
                       uint32_t count);

/* The list of endpoints is another one: of `count`, and the earlier number of endpoint i is was[i],
 * or ENDPOINT_NEW. The current one must be among them; it goes on under its new number. */
void mst_client_endpoints(struct mst_client *client, uint32_t count, const uint32_t was[]);

/* What is at the current endpoint does not serve, and says that the service is at `endpoint`. The
 * next attempt goes there: at once, or after a back-off if that one was tried since the last
 * back-off (two that send a client to each other would keep it busy). */
void mst_client_sent_on(struct mst_client *client, uint64_t now_ns, uint32_t endpoint);

/* The service sent bytes, a complete reply or not: the connection is alive, even if the answer to a
 * renewal is delayed behind them. They do not extend the lease. */
void mst_client_heard(struct mst_client *client, uint64_t now_ns);

/* A DONE or ENDED effect that follows borrows from `reply`: drain the effects while it lives. */
void mst_client_reply(struct mst_client *client, uint64_t now_ns, const struct mst_reply *reply);

/* The request `id` of the last SEND could not be encoded (ELIMIT, ENOMEM): nothing of it was sent.
 * The call ends with `status`. */
void mst_client_refused(struct mst_client *client, uint64_t now_ns, uint64_t id,
                        muster_status status);

/* The session can never be resumed, as its owner knows: ENDED with `status`. */
void mst_client_give_up(struct mst_client *client, uint64_t now_ns, muster_status status);

void mst_client_tick(struct mst_client *client, uint64_t now_ns);
uint64_t mst_client_deadline_ns(const struct mst_client *client);
const struct mst_client_effect *mst_client_next(struct mst_client *client);
void mst_client_done(struct mst_client *client, const struct mst_client_effect *effect);

/* Whether the service may answer the request much later. */
bool mst_client_waits(const struct mst_request *request);

/* Whether it waits for a key or a change, so that there may be very many of them. */
bool mst_client_piles_up(const struct mst_request *request);

/* The generation whose keys the request names; 0: the job's keys, or none. */
uint64_t mst_client_key_space(const struct mst_request *request);

/* The newest view from the service; generation 0 before the first. */
const struct mst_view *mst_client_view(const struct mst_client *client);

/* The lease rule: 0.8 of the lease have passed since the last answered renewal was sent. The rank
 * must stop. It may continue when this is false again and the session was not ended. */
bool mst_client_stopped(const struct mst_client *client);

/* Whether the session is open on a living connection; the lease from the service, 0 before. */
bool mst_client_online(const struct mst_client *client);
uint64_t mst_client_lease_ns(const struct mst_client *client);

/* The holder of the place that this session claims and waits for; NULL: none, or unknown. */
const struct mst_who *mst_client_holder(const struct mst_client *client);

/* The first fault of the generation of mst_client_view, at the time of this session's interruption;
 * NULL: none, or unknown. The host's name may be truncated. Valid until the next input. */
const struct mst_who *mst_client_first_fault(const struct mst_client *client);

void mst_client_check(const struct mst_client *client);
uint64_t mst_client_digest(const struct mst_client *client);

#endif
