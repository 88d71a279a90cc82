/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "net/channel.h"

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/panic.h"

#define RECORD_MAX 17408u   /* what TLS may hold back of a record that is not whole yet */
#define SHAKING_BYTES 4096u /* of a peer that is not trusted, in one go */
#define SEALED_BYTES 65536u /* encrypted at a time: what waits for a slow reader waits in plain */
#define SEALED_PER_SEND 16u /* such pieces, before others have their turn */

static ssize_t fail(int os_errno)
{
    errno = os_errno;
    return -1;
}

static int errno_of(muster_status status)
{
    return status == MUSTER_ENOMEM ? ENOMEM : EPROTO;
}

/* Everything that is whole. The room was chosen so that this is all of it. */
static ssize_t open_records(struct mst_channel *channel, unsigned char *room, size_t size)
{
    muster_status status = MUSTER_OK;
    size_t got = 0;

    while (got < size) {
        size_t part = 0;

        status = mst_tls_read(channel->tls, room + got, size - got, &part);
        if (status != MUSTER_OK) {
            break;
        }
        got += part;
    }
    if (got > 0) {
        channel->over = status != MUSTER_OK && status != MUSTER_MORE;
        return (ssize_t)got;
    }
    if (status == MUSTER_ECANCELLED) {
        return 0;
    }
    return fail(status == MUSTER_MORE ? EAGAIN : errno_of(status));
}

ssize_t mst_channel_receive(struct mst_channel *channel, void *room, size_t size)
{
    struct mst_tls *tls = channel->tls;
    muster_status status;
    size_t least = size;
    ssize_t got;

    if (channel->over) {
        channel->more = false;
        return open_records(channel, room, size); /* finds again what ended it */
    }
    if (tls) {
        MST_ASSERT(size >= MST_CHANNEL_ROOM);
        least = mst_tls_trusted(tls) ? size - RECORD_MAX : SHAKING_BYTES;
    }
    got = recv(channel->fd, room, least, MSG_DONTWAIT);
    channel->more = got > 0 && (size_t)got == least;
    if (got <= 0 || !tls) {
        return got;
    }
    status = mst_tls_feed(tls, mst_slice_of(room, (size_t)got));
    return status == MUSTER_OK ? open_records(channel, room, size) : fail(errno_of(status));
}

static ssize_t send_some(struct mst_channel *channel, struct mst_slice bytes)
{
    ssize_t sent;

    do {
        sent = send(channel->fd, bytes.data, bytes.size, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        sent = 0;
    }
    channel->blocked = sent >= 0 && (size_t)sent < bytes.size;
    return sent;
}

/* False: the socket is dead. */
static bool send_sealed(struct mst_channel *channel)
{
    struct mst_slice sealed = mst_tls_output(channel->tls);
    ssize_t sent;

    if (sealed.size == 0) {
        return true;
    }
    sent = send_some(channel, sealed);
    if (sent > 0) {
        mst_tls_written(channel->tls, (size_t)sent);
    }
    return sent >= 0;
}

ssize_t mst_channel_send(struct mst_channel *channel, struct mst_slice bytes)
{
    const unsigned char *data = bytes.data;
    size_t taken = 0;

    channel->blocked = false;
    if (!channel->tls) {
        return bytes.size > 0 ? send_some(channel, bytes) : 0;
    }
    for (unsigned i = 0; i < SEALED_PER_SEND; i++) {
        size_t left = bytes.size - taken;
        size_t part = left < SEALED_BYTES ? left : SEALED_BYTES;
        muster_status status = MUSTER_MORE;

        /* A little that is already there and what comes now share a packet. */
        if (part > 0 && mst_tls_output(channel->tls).size < SEALED_BYTES) {
            status = mst_tls_write(channel->tls, mst_slice_of(data + taken, part));
            if (status < 0) {
                return fail(errno_of(status));
            }
            taken += status == MUSTER_OK ? part : 0;
        }
        if (!send_sealed(channel)) {
            return -1;
        }
        if (channel->blocked || taken == bytes.size || status != MUSTER_OK) {
            break;
        }
    }
    return (ssize_t)taken;
}

size_t mst_channel_pending(const struct mst_channel *channel)
{
    return channel->tls ? mst_tls_output(channel->tls).size : 0;
}
