/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_NET_CHANNEL_H
#define MST_NET_CHANNEL_H

/* A connected socket, in plain or under TLS: plain bytes on this side of it, either way. It never
 * blocks. Both shells use it, so neither knows which of the two it has. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/slice.h"
#include "net/tls.h"

/* What receive needs at least: under TLS what one call has taken in comes out in one piece. */
#define MST_CHANNEL_ROOM 65536u

struct mst_channel {
    int fd;
    struct mst_tls *tls; /* NULL: plain */
    bool blocked;        /* the socket took less than there is: wait until it is writable */
    bool more;           /* the socket may have more than the last receive took */
    bool over; /* receive again, without waiting for the socket: it says what the end is */
};

/* Bytes that came: how many; 0: the peer will send no more; -1 and errno: EAGAIN, nothing for now
 * (under TLS there may be output all the same); EPROTO and ENOMEM, which mst_tls_reason explains;
 * or the socket's error. */
ssize_t mst_channel_receive(struct mst_channel *channel, void *room, size_t size);

/* Takes of `bytes` what can be sent now: how many; those are the channel's business from then on.
 * During a handshake 0, and what belongs to that is sent. -1 and errno: the connection is dead. */
ssize_t mst_channel_send(struct mst_channel *channel, struct mst_slice bytes);

/* Taken, but not yet given to the socket. */
size_t mst_channel_pending(const struct mst_channel *channel);

#endif
