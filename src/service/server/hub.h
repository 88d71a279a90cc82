/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_HUB_H
#define MST_SERVICE_SERVER_HUB_H

/* The connections of a service and the core between them. In one turn of the loop
 *
 *   resume: requests that the turn before read and did not decode are fed to the core
 *   poll:   every readable connection is read once, into one buffer shared by all, and its requests
 *           are fed to the core
 *   turn:   the core ticks, once; its replies go to the codecs; each connection with output
 *           writes, once
 *
 * so a renewal that has arrived is always fed before the tick that would miss it, and many replies
 * share a write. All inputs of a turn carry the same `now`.
 *
 * A connection that sends more than BATCH requests at a time, or does not read its output, is read
 * no further until it has caught up. pressure.h bounds what all of them hold together.
 *
 * A new connection must send a request within a lease. One that sends nothing more for two leases
 * and has no session left is closed: a host that was switched off does not close its connections.
 * Where there is no room for newcomers, a connection without a request within a second of its
 * begin is closed for them.
 *
 * With a secret, TCP connections speak TLS. A connection that has not proved the secret is a
 * stranger. Strangers together have a bounded cost: a number of connections (the oldest is closed),
 * bytes for each, and reads in one turn; the rest waits in their sockets. */

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/list.h"
#include "base/mem.h"
#include "net/tls.h"
#include "service/core/core.h"
#include "service/server/feed.h"
#include "service/server/links.h"
#include "service/server/log.h"
#include "service/server/pressure.h"
#include "service/server/reserve.h"
#include "service/server/service.h"

#define MST_UV_READ_BYTES 65536u
#define MST_UV_BUCKETS 16384u /* a power of two; ids are consecutive, so chains are even */

struct mst_uv_connection;
struct mst_uv_kept;

struct mst_uv_hub {
    uv_loop_t *loop;
    struct mst_core *core; /* the feed's */
    struct mst_uv_feed feed;
    struct mst_uv_log *log;
    struct mst_uv_kept *kept; /* NULL: no run has a file */
    struct mst_uv_reserve reserve;
    struct mst_mem mem; /* from it */
    struct mst_uv_pressure pressure;
    struct mst_limits limits;
    uint64_t now_ns;      /* of this turn, on the core's clock; 0: not taken yet */
    uint64_t patience_ns; /* with a connection that sends nothing, or does not read its last output:
                             a lease */
    uint64_t last_id;
    uint64_t count;              /* connections */
    uint64_t refused;            /* since the limit was reached */
    struct mst_tls_context *tls; /* of the service; NULL: no secret */
    struct mst_uv_links *links;  /* of a replica: connections of others are handed over to them;
                                    NULL: it is none, and refuses them */
    uint32_t strangers;
    uint32_t strangers_read;      /* in this turn */
    struct mst_list unproven;     /* the strangers, oldest first */
    uint64_t complaints_until_ns; /* log lines about strangers are limited in such a period */
    uint32_t complaints;
    bool stopping;
    bool serves;               /* of several replicas: this one leads */
    bool elsewhere;            /* clients are sent on to `addresses` */
    char *addresses;           /* of the service, for clients: with commas; NULL: none to name */
    uint64_t moves;            /* how often these have changed */
    bool waiting_first;        /* in this turn: waiting replies come before new requests */
    bool recovering;           /* decisions of the replay were logged before */
    struct mst_list dirty;     /* have output that was not offered to the socket in this turn */
    struct mst_list ready;     /* have whole requests that are not decoded yet */
    struct mst_list probation; /* must send a request, or finish, within a time; oldest first */
    struct mst_list quiet;     /* the others, by the time of their last request */
    bool crowded; /* a newcomer finds no room: a connection that has asked nothing gives way */
    struct mst_uv_connection *buckets[MST_UV_BUCKETS];
    unsigned char input[MST_UV_READ_BYTES];
};

/* Recovers what the journal has, if there is one. Any failure: `err` is one line. `log` and `loop`
 * outlive the hub. */
muster_status mst_uv_hub_init(struct mst_uv_hub *hub, uv_loop_t *loop, struct mst_uv_log *log,
                              const struct mst_uv_service_config *config, struct muster_error *err);
void mst_uv_hub_fini(struct mst_uv_hub *hub); /* after the loop has closed all handles */

/* Of this turn. */
uint64_t mst_uv_hub_now_ns(struct mst_uv_hub *hub);

/* Takes over a connected socket. */
void mst_uv_hub_accept(struct mst_uv_hub *hub, int fd);

/* How many connections of a TCP socket may be accepted in one turn: a turn has time for as many
 * handshakes, so that clients with the secret do not become the oldest strangers. */
#define MST_UV_GREETINGS 16u

/* Before the loop polls. */
void mst_uv_hub_resume(struct mst_uv_hub *hub);

/* After everything readable was read. hub->feed.broken: the journal failed, nothing may leave any
 * more, and the service must stop. */
void mst_uv_hub_turn(struct mst_uv_hub *hub);

/* When the next turn is due at the latest, on the clock of uv_hrtime; 0: at once, UINT64_MAX: at
 * the next event. */
uint64_t mst_uv_hub_deadline_ns(const struct mst_uv_hub *hub);

/* All effects that there are, to the codecs: what pressure.h resumed. */
void mst_uv_hub_carry_all(struct mst_uv_hub *hub);

/* Stops reading. Pending output is written, for a short time, and all connections close. */
void mst_uv_hub_stop(struct mst_uv_hub *hub);
void mst_uv_hub_drop_all(struct mst_uv_hub *hub); /* and now */

#endif
