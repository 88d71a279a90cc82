/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_TASKS_SHELL_LISTENER_H
#define MST_TASKS_SHELL_LISTENER_H

/* Where a coordinator listens: a Unix socket in the user's runtime directory, for the workers of
 * this machine, and a TCP port for those of others. */

#include <stdbool.h>
#include <stddef.h>

#include "muster/status.h"
#include "net/socket_dir.h"

#define MST_CLUSTER_ADDRESSES_ROOM 400u

struct mst_cluster_listener {
    int unix_fd, tcp_fd; /* -1: none. To be asked for connections when readable */
    char path[MST_SOCKET_PATH_MAX];
    char addresses[MST_CLUSTER_ADDRESSES_ROOM]; /* for the workers: "unix:PATH,HOST:PORT" */
};

struct mst_cluster_listen {
    bool tcp;
    bool anywhere;       /* there is a secret, or the user declared that none is needed */
    const char *address; /* HOST:PORT to listen on; NULL: any port, and any address if `anywhere`,
                            else only this machine's own */
    int reached_by;      /* a socket whose own address others can reach; -1: none */
};

/* EINVAL: `err` has one line about what cannot be listened on. */
muster_status mst_cluster_listener_open(struct mst_cluster_listener *out,
                                        const struct mst_cluster_listen *how,
                                        struct muster_error *err);
/* The socket's file goes as well. Not open, or abandoned: a no-op. */
void mst_cluster_listener_close(struct mst_cluster_listener *listener);
void mst_cluster_listener_abandon(struct mst_cluster_listener *listener); /* in a forked child */

/* The next connection that waits at `fd`, of a peer that may talk to us: a Unix socket's must be of
 * this user, or root. -1: there is none. -2: there is one and no descriptor for it: wait a while.
 */
int mst_cluster_listener_accept(int fd);

#endif
