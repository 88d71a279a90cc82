/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_CONNECTION_H
#define MST_SERVICE_SERVER_CONNECTION_H

/* One connection of the hub, shared by hub.c and pressure.c. */

#include "net/channel.h"
#include "proto/native/native.h"
#include "service/server/hub.h"

#define MST_UV_OUTPUT_MARK 1048576u /* a connection with more unread output is not read */

struct mst_uv_connection {
    uv_poll_t poll;
    struct mst_uv_hub *hub;           /* here begins what each message touches */
    struct mst_native_service *codec; /* NULL before the first bytes */
    struct mst_channel channel;
    int events;    /* that the loop watches */
    bool more;     /* may have whole requests that are not decoded yet */
    bool searches; /* the next of them waits for a turn that has time to search */
    bool draining; /* nothing is read any more; closed once the output is written */
    bool doomed;   /* closed once the current effect is done */
    bool known;    /* to the core: not before the secret is proved, nor after the close */
    bool deferred; /* the core keeps replies for it until there is room */
    struct mst_conn id;
    uint64_t moved_ns;  /* since when it has taken no output to speak of */
    uint64_t came_ns;   /* likewise of a frame that is not whole */
    uint64_t read_ns;   /* when it was read last */
    size_t moved, came; /* bytes since then */
    size_t wants;       /* of the reply that was deferred last, as far as it is known */
    bool drained;       /* took all of its output */
    bool framed;        /* is in the middle of a frame of some size */
    bool idle;          /* was read alone, and had next to nothing to send */
    struct mst_list dirty;
    uint64_t until_ns; /* of the probation */
    uint64_t moves;    /* of the addresses that it was told */
    struct mst_list unproven, probation, ready;
    struct mst_list behind; /* in pressure.behind: has deferred replies, and room of its own */
    struct mst_list parked; /* in pressure.parked: is not read in the middle of a frame */
    struct mst_uv_connection *chain;
};

/* Output that it has not read. */
size_t mst_uv_connection_unread(const struct mst_uv_connection *connection);

/* Closes it, and informs the core; must not be called while an effect is being delivered. */
void mst_uv_connection_refuse(struct mst_uv_connection *connection, const char *reason);

/* Sets the events that the loop watches, after a change of what they depend on. */
void mst_uv_connection_watch(struct mst_uv_connection *connection);

#endif
