/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_LISTENER_H
#define MST_SERVICE_SERVER_LISTENER_H

/* The sockets a service listens on: `unix:/path`, HOST:PORT or [::1]:PORT. A Unix socket is the
 * user's alone (mode 0700, the peer's uid is checked); TCP beyond the loopback is refused unless
 * the caller says that it may be: there is a secret, or nobody wants one. */

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

/* EINVAL: no such address, or one that is refused. EEXISTS: somebody else serves there. `err` is
 * one line that names the address. */
muster_status mst_uv_listener_open(struct mst_uv_listener *out, const char *address, bool anywhere,
                                   struct muster_error *err);

/* Also removes the socket's file, unless somebody has put another in its place. */
void mst_uv_listener_close(struct mst_uv_listener *listener);

#endif
