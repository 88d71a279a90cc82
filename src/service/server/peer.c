/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/peer.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/unix_peer.h"

void mst_uv_peer_name(int fd, char *text, size_t room)
{
    struct sockaddr_storage name = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof name;
    struct ucred peer;
    char host[64], port[8];

    (void)snprintf(text, room, "unknown");
    if (getpeername(fd, (struct sockaddr *)&name, &size) != 0) {
        return;
    }
    if (name.ss_family == AF_UNIX) {
        size = sizeof peer;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
            (void)snprintf(text, room, "uid:%u,pid:%d", (unsigned)peer.uid, (int)peer.pid);
        }
    } else if (getnameinfo((struct sockaddr *)&name, size, host, sizeof host, port, sizeof port,
                           NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
        (void)snprintf(text, room, "%s:%s", host, port);
    }
}

bool mst_uv_peer_allowed(int fd, bool *tcp_out)
{
    struct sockaddr_storage name = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof name;

    if (getsockname(fd, (struct sockaddr *)&name, &size) != 0) {
        return false;
    }
    *tcp_out = name.ss_family != AF_UNIX;
    if (*tcp_out) {
        const int on = 1;

        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        return true;
    }
    return mst_unix_peer_trusted(fd);
}

bool mst_uv_peer_gone(int fd)
{
    struct pollfd polled = {.fd = fd, .events = POLLRDHUP};

    return poll(&polled, 1, 0) == 1;
}
