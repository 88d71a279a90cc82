/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_LISTENER_H
#define MST_SERVICE_SERVER_LISTENER_H

/* The sockets a service listens on: `unix:/path`, HOST:PORT or [::1]:PORT. A Unix socket is for its
 * user only (mode 0700, and the uid of the peer is checked). TCP beyond the loopback is refused
 * unless the caller allows it: with a secret, or deliberately without one. */

#include <stdbool.h>
#include <sys/types.h>

#include "muster/status.h"
#include "net/address.h"

#define MST_UV_ADDRESS_MAX MST_ADDRESS_TEXT

struct mst_uv_listener {
    int fd;
    char address[MST_UV_ADDRESS_MAX]; /* as MUSTER_ADDR takes it, with the port that it got */
    const char *path;                 /* inside `address`; NULL: not a Unix socket */
    dev_t device;
    ino_t inode;
};

/* EINVAL: no valid address, or one that is refused. EEXISTS: another process serves there. `err` is
 * one line that names the address. */
muster_status mst_uv_listener_open(struct mst_uv_listener *out, const char *address, bool anywhere,
                                   struct muster_error *err);

/* Also removes the file of the socket, unless another process has replaced it. */
void mst_uv_listener_close(struct mst_uv_listener *listener);

#endif
