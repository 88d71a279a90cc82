/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_PEER_H
#define MST_SERVICE_SERVER_PEER_H

/* The peer of a connected socket, as far as the kernel knows it. */

#include <stdbool.h>
#include <stddef.h>

/* For a log: HOST:PORT, or uid and pid of the peer of a Unix socket. */
void mst_uv_peer_name(int fd, char *text, size_t room);

/* Whether it may connect: on a Unix socket this user and root may. TCP does not tell the uid, which
 * `*tcp_out` reports; so the socket of the user is the default. */
bool mst_uv_peer_allowed(int fd, bool *tcp_out);

/* It will send nothing beyond what is in the socket. */
bool mst_uv_peer_gone(int fd);

#endif
