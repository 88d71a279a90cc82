/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_PEER_H
#define MST_SERVICE_SERVER_PEER_H

/* Who is at the other end of a connected socket, as far as the kernel knows. */

#include <stdbool.h>
#include <stddef.h>

/* For a log: HOST:PORT, or uid and pid of who connected to a Unix socket. */
void mst_uv_peer_name(int fd, char *text, size_t room);

/* Whether it may be here at all: on a Unix socket this user and root. On TCP a uid cannot be asked,
 * which `*tcp_out` says; that is why the user's own socket is the default. */
bool mst_uv_peer_allowed(int fd, bool *tcp_out);

/* It will say nothing more than what is in the socket. */
bool mst_uv_peer_gone(int fd);

#endif
