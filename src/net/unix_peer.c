/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "net/unix_peer.h"

#include <sys/socket.h>
#include <unistd.h>

bool mst_unix_peer_trusted(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}
