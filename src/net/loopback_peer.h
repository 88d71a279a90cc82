/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_NET_LOOPBACK_PEER_H
#define MST_NET_LOOPBACK_PEER_H

/* The user at the other end of a connection to 127.0.0.1. All users of a machine reach a port
 * there, and such a connection has no credentials as a Unix socket has (net/unix_peer.h): the
 * kernel's list of sockets says whose the other one is. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What the kernel is asked through. -1 with errno: it does not say whose a socket is. */
int mst_loopback_peer_open(void);

/* The other end of a connection. */
struct mst_loopback_peer {
    uid_t user;
    uint64_t inode; /* of its socket: process/socket_holder.h */
};

/* That of `connection`, over IPv4. False: it is closed, or cannot be asked for. */
bool mst_loopback_peer(int asks, int connection, struct mst_loopback_peer *out);

#endif
