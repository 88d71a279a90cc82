/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_NET_UNIX_PEER_H
#define MST_NET_UNIX_PEER_H

/* The process at the other end of a Unix socket, as the kernel names it. Each end asks: a listener
 * of a client, since a socket's mode can be opened, and a client of the listener, since any user
 * may listen in a folder like /tmp. */

#include <stdbool.h>

/* It is of this user, or root's. False also where it cannot be asked. */
bool mst_unix_peer_trusted(int fd);

#endif
