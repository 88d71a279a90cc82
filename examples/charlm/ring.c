/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* accept4 */
#include "ring.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"

/* A system call failed, with this errno; 0: the peer closed its end. OK: try again. */
static muster_status broke(struct ring *ring, const char *call, enum ring_end end, int os_errno)
{
    muster_status status = muster_restart_check(ring->restart);
    if (status != MUSTER_OK || os_errno != EINTR) { /* else another signal */
        ring->failure = (struct ring_failure){call, end, os_errno};
        status = status ? status : muster_restart_lost(ring->restart, ring->index[end], -1);
    }
    return status;
}

muster_status ring_move(struct ring *ring, enum ring_end end, void *data, size_t size)
{
    muster_status status = MUSTER_OK;
    for (char *at = data, *stop = at + size; at < stop && !status;) {
        size_t left = (size_t)(stop - at);
        ssize_t moved = end == RING_NEXT ? send(ring->fd[end], at, left, MSG_NOSIGNAL)
                                         : recv(ring->fd[end], at, left, 0);
        if (moved > 0) {
            at += moved;
        } else {
            status = broke(ring, end == RING_NEXT ? "send" : "recv", end, moved < 0 ? errno : 0);
        }
    }
    return status;
}

muster_status ring_open(struct ring *ring, muster_client *client, muster_restart *restart,
                        struct muster_error *err)
{
    struct address next, previous;
    int listener = -1;
    muster_status status = address_exchange(client, restart, &listener, &next, &previous, err);
    *ring = (struct ring){.restart = restart,
                          .index = {next.index, previous.index},
                          .fd = {socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), -1}};
    if (!status && ring->fd[RING_NEXT] < 0) {
        status = muster_restart_fail(restart, errno, "the ring has no socket");
    }
    while (!status && connect(ring->fd[RING_NEXT], (void *)&next.socket, sizeof next.socket) != 0) {
        status = broke(ring, "connect", RING_NEXT, errno);
    }
    while (!status && (ring->fd[RING_PREVIOUS] = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0) {
        status = broke(ring, "accept", RING_PREVIOUS, errno);
    }
    close(listener);
    return status;
}

void ring_close(struct ring *ring)
{
    for (int end = 0; end < 2; end++) {
        if (ring->fd[end] >= 0) {
            close(ring->fd[end]);
        }
    }
    *ring = RING_CLOSED;
}
