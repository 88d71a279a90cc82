/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "net/loopback_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct question {
    struct nlmsghdr head;
    struct inet_diag_req_v2 of;
};

struct answer {
    struct nlmsghdr head;
    struct inet_diag_msg says;
    char more[512];
};

static bool names_of(int connection, struct sockaddr_in *own, struct sockaddr_in *other)
{
    socklen_t own_size = sizeof *own, other_size = sizeof *other;

    return getsockname(connection, (struct sockaddr *)(void *)own, &own_size) == 0 &&
           getpeername(connection, (struct sockaddr *)(void *)other, &other_size) == 0 &&
           own->sin_family == AF_INET && other->sin_family == AF_INET;
}

bool mst_loopback_peer(int asks, int connection, struct mst_loopback_peer *out)
{
    struct sockaddr_in own = {0}, other = {0};
    struct question question = {
        .head = {.nlmsg_len = sizeof question,
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST},
        .of = {.sdiag_family = AF_INET,
               .sdiag_protocol = IPPROTO_TCP,
               .idiag_states = ~0u,
               .id.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}};
    struct answer answer;
    ssize_t got;

    if (!names_of(connection, &own, &other)) {
        return false;
    }
    question.of.id.idiag_sport = other.sin_port;
    question.of.id.idiag_src[0] = other.sin_addr.s_addr;
    question.of.id.idiag_dport = own.sin_port;
    question.of.id.idiag_dst[0] = own.sin_addr.s_addr;
    if (send(asks, &question, sizeof question, 0) != (ssize_t)sizeof question) {
        return false;
    }
    got = recv(asks, &answer, sizeof answer, MSG_DONTWAIT); /* it is there when send returns */
    if (got < (ssize_t)offsetof(struct answer, more) ||
        answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY) {
        return false;
    }
    *out = (struct mst_loopback_peer){answer.says.idiag_uid, answer.says.idiag_inode};
    /* A socket that was closed has no inode any more, and its user reads as root. */
    return answer.says.id.idiag_sport == other.sin_port &&
           answer.says.id.idiag_dport == own.sin_port &&
           answer.says.idiag_state == TCP_ESTABLISHED && answer.says.idiag_inode != 0;
}

/* A connection of this process to itself. */
static bool answers(int asks)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof here;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), server = -1;
    struct mst_loopback_peer peer;
    bool known;

    if (listener >= 0 && client >= 0 &&
        bind(listener, (const struct sockaddr *)(const void *)&here, size) == 0 &&
        listen(listener, 1) == 0 &&
        getsockname(listener, (struct sockaddr *)(void *)&here, &size) == 0 &&
        connect(client, (const struct sockaddr *)(const void *)&here, size) == 0) {
        server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    }
    known = server >= 0 && mst_loopback_peer(asks, server, &peer) && peer.user == geteuid();
    for (int i = 0; i < 3; i++) {
        int fd = (int[]){server, client, listener}[i];

        if (fd >= 0) {
            (void)close(fd);
        }
    }
    return known;
}

int mst_loopback_peer_open(void)
{
    int asks = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);

    if (asks >= 0 && !answers(asks)) {
        (void)close(asks);
        errno = EOPNOTSUPP;
        return -1;
    }
    return asks;
}
