/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* accept4 */
#include "ring.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CHUNK_FLOATS = 8192, CHUNK_BYTES = CHUNK_FLOATS * (int)sizeof(float) };

/* ---- one call that may be interrupted ---- */

/* The reaction to a failed `call` with `error` (0: the peer closed the socket). OK: try again. */
static muster_status after_failure(struct ring *ring, const char *call, uint32_t peer_index,
                                   int error)
{
    muster_status status = muster_restart_check(ring->restart);
    if (error == EINTR && status == MUSTER_OK) {
        return MUSTER_OK; /* some other signal */
    }
    ring->call = call;
    ring->peer_index = peer_index;
    ring->os_errno = error;
    ring->end = error == EINTR ? RING_CUT_SHORT : RING_PEER_GONE;
    return status == MUSTER_OK ? MUSTER_ELOST : status;
}

static muster_status receive(struct ring *ring, void *data, size_t size)
{
    char *at = data;
    while (size > 0) {
        ssize_t got = recv(ring->from_previous, at, size, 0);
        if (got > 0) {
            at += got;
            size -= (size_t)got;
            continue;
        }
        muster_status status =
            after_failure(ring, "recv", ring->previous_index, got == 0 ? 0 : errno);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
}

static muster_status transmit(struct ring *ring, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t put = send(ring->to_next, at, size, MSG_NOSIGNAL);
        if (put >= 0) {
            at += put;
            size -= (size_t)put;
            continue;
        }
        muster_status status = after_failure(ring, "send", ring->next_index, errno);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
}

/* ---- opening ---- */

/* A rank publishes its address and its index under this name, in the key space of the generation:
 * addresses of older generations cannot be found there. */
static void key_of(char key[32], uint32_t rank)
{
    (void)snprintf(key, 32, "ring/%" PRIu32, rank);
}

/* The address of this machine that the other ranks can reach: the one it would use to reach the
 * first node. On a single machine that is loopback. It sends nothing. */
static struct in_addr own_address(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM};
    struct addrinfo *first = NULL;
    const char *name = getenv("MASTER_ADDR");
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && name && getaddrinfo(name, "9", &hints, &first) == 0 &&
        connect(fd, first->ai_addr, first->ai_addrlen) == 0) {
        (void)getsockname(fd, (struct sockaddr *)&address, &length);
    }
    if (first) {
        freeaddrinfo(first);
    }
    if (fd >= 0) {
        close(fd);
    }
    return address.sin_addr;
}

static muster_status publish(muster_client *client, const struct muster_view *view, int listener,
                             struct muster_error *err)
{
    struct muster_key_options options = MUSTER_KEY_OPTIONS_INIT;
    options.generation = view->generation;
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    address.sin_addr = own_address();
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        (void)snprintf(err->text, sizeof err->text, "listen: %s", strerror(errno));
        return MUSTER_EFAILED;
    }
    char key[32];
    char value[48];
    char host[INET_ADDRSTRLEN];
    key_of(key, view->rank);
    int size = snprintf(value, sizeof value, "%u %" PRIu32 " %s", ntohs(address.sin_port),
                        view->index, inet_ntop(AF_INET, &address.sin_addr, host, sizeof host));
    struct muster_slice slice = {value, (size_t)size};
    return muster_key_put(client, key, slice, &options, -1, NULL, err);
}

/* The published address of a rank; waits for it. */
static muster_status look_up(muster_client *client, const struct muster_view *view, uint32_t rank,
                             struct sockaddr_in *address, uint32_t *index, struct muster_error *err)
{
    struct muster_key_options options = MUSTER_KEY_OPTIONS_INIT;
    options.generation = view->generation;
    muster_value *value = NULL;
    char key[32];
    key_of(key, rank);
    muster_status status = muster_key_get(client, key, &options, -1, &value, err);
    if (status != MUSTER_OK) {
        return status;
    }
    char *end = NULL;
    *address = (struct sockaddr_in){.sin_family = AF_INET};
    address->sin_port = htons((uint16_t)strtoul(muster_value_data(value), &end, 10));
    *index = (uint32_t)strtoul(end, &end, 10);
    (void)inet_pton(AF_INET, *end == ' ' ? end + 1 : end, &address->sin_addr);
    muster_value_free(value);
    return MUSTER_OK;
}

static muster_status connect_next(struct ring *ring, const struct sockaddr_in *address)
{
    int one = 1;
    ring->to_next = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (ring->to_next < 0) {
        return after_failure(ring, "socket", ring->next_index, errno);
    }
    (void)setsockopt(ring->to_next, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    /* Called again after a signal, Linux continues the pending connection. */
    while (connect(ring->to_next, (const struct sockaddr *)address, sizeof *address) != 0) {
        muster_status status = after_failure(ring, "connect", ring->next_index, errno);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
}

static muster_status accept_previous(struct ring *ring, int listener)
{
    while ((ring->from_previous = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0) {
        muster_status status = after_failure(ring, "accept", ring->previous_index, errno);
        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
}

static muster_status open_with(struct ring *ring, muster_client *client, int listener,
                               struct muster_error *err)
{
    struct muster_view view;
    muster_restart_view(ring->restart, &view);
    uint32_t next = (view.rank + 1) % view.size;
    uint32_t previous = (view.rank + view.size - 1) % view.size;
    struct sockaddr_in unused;
    struct sockaddr_in address;
    muster_status status = publish(client, &view, listener, err);
    if (status == MUSTER_OK) {
        status = look_up(client, &view, next, &address, &ring->next_index, err);
    }
    if (status == MUSTER_OK) {
        status = look_up(client, &view, previous, &unused, &ring->previous_index, err);
    }
    if (status == MUSTER_OK) {
        status = connect_next(ring, &address);
    }
    return status == MUSTER_OK ? accept_previous(ring, listener) : status;
}

void ring_init(struct ring *ring)
{
    *ring = (struct ring){.to_next = -1, .from_previous = -1};
}

muster_status ring_open(struct ring *ring, muster_client *client, muster_restart *restart,
                        struct muster_error *err)
{
    struct muster_view view;
    muster_restart_view(restart, &view);
    ring_init(ring);
    ring->restart = restart;
    ring->rank = view.rank;
    ring->size = view.size;
    if (view.size == 1) {
        return MUSTER_OK;
    }
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0) {
        (void)snprintf(err->text, sizeof err->text, "socket: %s", strerror(errno));
        return MUSTER_EFAILED;
    }
    muster_status status = open_with(ring, client, listener, err);
    close(listener);
    return status;
}

void ring_close(struct ring *ring)
{
    if (ring->to_next >= 0) {
        close(ring->to_next);
    }
    if (ring->from_previous >= 0) {
        close(ring->from_previous);
    }
    ring_init(ring);
}

/* ---- the collective operations ---- */

muster_status ring_share(struct ring *ring, uint32_t root, void *data, size_t size)
{
    bool receives = ring->rank != root;
    bool sends = ring->size > 1 && (ring->rank + 1) % ring->size != root;
    muster_status status = MUSTER_OK;
    for (size_t at = 0; at < size && status == MUSTER_OK; at += CHUNK_BYTES) {
        size_t part = size - at < CHUNK_BYTES ? size - at : CHUNK_BYTES;
        char *chunk = (char *)data + at;
        if (receives) {
            status = receive(ring, chunk, part);
        }
        if (sends && status == MUSTER_OK) {
            status = transmit(ring, chunk, part);
        }
    }
    return status;
}

/* The partial sum runs from rank 0 to the last one, chunk by chunk so that all work at once; the
 * last one then has the total and shares it. Both are lines and no circle, so no rank can wait for
 * itself with full socket buffers. */
muster_status ring_sum(struct ring *ring, float *total, size_t count, const float *const *mine,
                       size_t mine_count)
{
    muster_status status = MUSTER_OK;
    for (size_t at = 0; at < count && status == MUSTER_OK; at += CHUNK_FLOATS) {
        size_t part = count - at < CHUNK_FLOATS ? count - at : CHUNK_FLOATS;
        float *sum = total + at;
        if (ring->rank == 0) {
            memset(sum, 0, part * sizeof *sum);
        } else {
            status = receive(ring, sum, part * sizeof *sum);
        }
        for (size_t k = 0; k < mine_count; k++) {
            for (size_t i = 0; i < part; i++) {
                sum[i] += mine[k][at + i];
            }
        }
        if (ring->rank + 1 < ring->size && status == MUSTER_OK) {
            status = transmit(ring, sum, part * sizeof *sum);
        }
    }
    return status == MUSTER_OK ? ring_share(ring, ring->size - 1, total, count * sizeof *total)
                               : status;
}
