/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "tasks/shell/link.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/text.h"
#include "net/address.h"
#include "net/endpoint.h"
#include "proto/cluster/cluster.h"

enum { REASON_ROOM = 256, PEER_ROOM = MST_ADDRESS_TEXT };

/* A peer that vanishes silently is noticed also where the membership does not tell: a route may be
 * broken between two hosts that both reach the service. */
enum { SILENT_MS = 30000, PROBE_AFTER_S = 5, PROBE_EACH_S = 5, PROBES = 4 };

enum stage { CONNECTING, SHAKING_HANDS, UP, DEAD };

struct mst_cluster_link {
    struct mst_mem mem;
    enum stage stage;
    struct mst_channel channel; /* fd -1: none */
    struct mst_tls_context *tls;
    bool connects; /* and was not accepted */
    bool mute;     /* the socket takes nothing any more: what it still has can be read */
    struct mst_cluster_codec *codec;
    const char *left; /* of the addresses: those not tried yet */
    char *addresses;
    uint64_t received;
    int epoll, enrolled; /* the descriptor that it knows; -1: none */
    uint32_t events;
    uint64_t key;
    char peer[PEER_ROOM];
    char reason[REASON_ROOM];
};

/* ---- epoll ---- */

static uint32_t wanted(const struct mst_cluster_link *link)
{
    if (link->stage == CONNECTING) {
        return EPOLLOUT;
    }
    return link->channel.blocked && !link->mute ? EPOLLIN | EPOLLOUT : EPOLLIN;
}

static int enrol_again(struct mst_cluster_link *link)
{
    struct epoll_event event = {.events = wanted(link), .data.u64 = link->key};
    int op = link->enrolled < 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;

    if (link->epoll < 0 || link->channel.fd < 0 ||
        (link->enrolled >= 0 && link->events == event.events)) {
        return 0;
    }
    if (epoll_ctl(link->epoll, op, link->channel.fd, &event) != 0) {
        return errno;
    }
    link->enrolled = link->channel.fd;
    link->events = event.events;
    return 0;
}

/* Not left to close: a forked child may hold the descriptor too. */
static void close_socket(struct mst_cluster_link *link)
{
    if (link->channel.fd < 0) {
        return;
    }
    if (link->enrolled >= 0) {
        (void)epoll_ctl(link->epoll, EPOLL_CTL_DEL, link->channel.fd, NULL);
        link->enrolled = -1;
    }
    (void)close(link->channel.fd);
    mst_tls_free(link->channel.tls);
    link->channel = (struct mst_channel){.fd = -1};
}

int mst_cluster_link_enrol(struct mst_cluster_link *link, int epoll, uint64_t key)
{
    link->epoll = epoll;
    link->key = key;
    return enrol_again(link);
}

int mst_cluster_link_fd(const struct mst_cluster_link *link, uint32_t *events_out)
{
    *events_out = wanted(link);
    return link->channel.fd;
}

/* ---- words ---- */

static void say(struct mst_cluster_link *link, const char *what, int os_errno)
{
    char words[128];
    struct mst_text text = mst_text_in(link->reason, sizeof link->reason);

    mst_text_add(&text, what);
    if (os_errno != 0) {
        mst_text_format(&text, "%s%s", *what ? ": " : "",
                        strerror_r(os_errno, words, sizeof words));
    }
}

static muster_status die(struct mst_cluster_link *link, muster_status status, const char *what,
                         int os_errno)
{
    say(link, what, os_errno);
    close_socket(link);
    link->stage = DEAD;
    return status;
}

static muster_status out_of_memory(struct mst_cluster_link *link)
{
    return die(link, MUSTER_ENOMEM, "out of memory", 0);
}

static muster_status codec_failed(struct mst_cluster_link *link, muster_status status)
{
    return status == MUSTER_ENOMEM ? out_of_memory(link)
                                   : die(link, status, link->codec->stream.reason, 0);
}

static void name_peer(struct mst_cluster_link *link)
{
    struct sockaddr_storage name = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof name;
    struct ucred peer;
    char host[64], port[8];

    (void)snprintf(link->peer, sizeof link->peer, "an unknown peer");
    if (getpeername(link->channel.fd, (struct sockaddr *)&name, &size) != 0) {
        return;
    }
    if (name.ss_family == AF_UNIX) {
        size = sizeof peer;
        if (getsockopt(link->channel.fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
            (void)snprintf(link->peer, sizeof link->peer, "process %d", (int)peer.pid);
        }
    } else if (getnameinfo((struct sockaddr *)&name, size, host, sizeof host, port, sizeof port,
                           NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
        (void)snprintf(link->peer, sizeof link->peer,
                       name.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    }
}

/* ---- the stream ---- */

static bool is_tcp(int fd)
{
    struct sockaddr_storage name = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof name;

    return getsockname(fd, (struct sockaddr *)&name, &size) == 0 && name.ss_family != AF_UNIX;
}

static void tune(int fd)
{
    const int on = 1, after = PROBE_AFTER_S, each = PROBE_EACH_S, count = PROBES;
    const unsigned silent = SILENT_MS;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &after, sizeof after);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &each, sizeof each);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent, sizeof silent);
}

/* There is a stream. OK; ENOMEM: it is dead. */
static muster_status greet(struct mst_cluster_link *link)
{
    bool tcp = is_tcp(link->channel.fd);

    if (tcp) {
        tune(link->channel.fd);
    }
    if (!tcp || !link->tls) {
        link->stage = UP;
        return MUSTER_OK;
    }
    link->stage = SHAKING_HANDS;
    return mst_tls_new(&link->channel.tls, link->tls) == MUSTER_OK ? MUSTER_OK
                                                                   : out_of_memory(link);
}

/* ---- connecting ---- */

/* MORE: try the next one. */
static muster_status try_one(struct mst_cluster_link *link, struct mst_slice text)
{
    struct mst_address address;
    const char *wrong = mst_address_parse(&address, text);
    const char *why;
    bool done = false;

    if (!wrong && address.kind == MST_ADDRESS_NAME) {
        wrong = "is a name, not a number";
    }
    if (wrong) {
        say(link, wrong, 0);
        return MUSTER_MORE;
    }
    (void)snprintf(link->peer, sizeof link->peer, "%s", address.text);
    link->channel.fd = mst_endpoint_connect(&address, false, &done, &why);
    if (link->channel.fd < 0) {
        say(link, why ? why : "", why ? 0 : errno);
        return MUSTER_MORE;
    }
    link->stage = CONNECTING;
    return done ? greet(link) : MUSTER_OK;
}

static muster_status try_addresses(struct mst_cluster_link *link)
{
    while (*link->left) {
        struct mst_slice one = mst_slice_of(link->left, strcspn(link->left, ","));
        muster_status status;

        link->left += one.size;
        link->left += *link->left == ',';
        status = try_one(link, one);
        if (status != MUSTER_MORE) {
            return status;
        }
    }
    link->stage = DEAD; /* the reason is that of the last one */
    return MUSTER_EUNREACHABLE;
}

static muster_status finish_connecting(struct mst_cluster_link *link)
{
    socklen_t size = sizeof(int);
    int error = 0;

    if (getsockopt(link->channel.fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
        error = errno;
    }
    if (error == 0) {
        return greet(link);
    }
    say(link, "", error);
    close_socket(link);
    return try_addresses(link);
}

/* ---- making and freeing ---- */

static struct mst_cluster_link *make(struct mst_tls_context *tls, const struct mst_mem *mem)
{
    struct mst_cluster_codec_limits limits = mst_cluster_codec_limits_default;
    struct mst_cluster_link *link = mst_mem_zalloc(mem, sizeof *link);

    if (!link) {
        return NULL;
    }
    link->mem = *mem;
    link->tls = tls;
    link->channel.fd = -1;
    link->epoll = -1;
    link->enrolled = -1;
    limits.output_bytes_max = SIZE_MAX / 4; /* the machines bound what is under way */
    if (mst_cluster_codec_new(&link->codec, &limits, mem) != MUSTER_OK) {
        mst_cluster_link_free(link);
        return NULL;
    }
    return link;
}

/* The addresses without what is for people behind them. NULL: no memory. */
static char *copy_addresses(struct mst_slice addresses, const struct mst_mem *mem)
{
    char *copy = mst_mem_zalloc(mem, addresses.size + 1);

    if (copy && addresses.size > 0) {
        memcpy(copy, addresses.data, addresses.size);
        copy[strcspn(copy, " ")] = '\0';
    }
    return copy;
}

muster_status mst_cluster_link_connect(struct mst_cluster_link **out, struct mst_slice addresses,
                                       struct mst_tls_context *tls, const struct mst_mem *mem,
                                       struct muster_error *err)
{
    struct mst_cluster_link *link = make(tls, mem);
    muster_status status;

    if (link) {
        link->left = link->addresses = copy_addresses(addresses, mem);
    }
    if (!link || !link->addresses) {
        mst_cluster_link_free(link);
        return mst_fail(err, MUSTER_ENOMEM, 0, "connecting to the coordinator: out of memory");
    }
    link->connects = true;
    say(link, "there is no address", 0);
    status = try_addresses(link);
    if (status != MUSTER_OK) {
        (void)mst_fail(err, status, 0, "connecting to %s: %s",
                       link->peer[0] ? link->peer : "the coordinator", link->reason);
        mst_cluster_link_free(link);
        return status;
    }
    *out = link;
    return MUSTER_OK;
}

muster_status mst_cluster_link_adopt(struct mst_cluster_link **out, int fd,
                                     struct mst_tls_context *tls, const struct mst_mem *mem)
{
    struct mst_cluster_link *link = make(tls, mem);

    if (!link) {
        (void)close(fd);
        return MUSTER_ENOMEM;
    }
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    link->channel.fd = fd;
    name_peer(link);
    if (greet(link) != MUSTER_OK) {
        mst_cluster_link_free(link);
        return MUSTER_ENOMEM;
    }
    *out = link;
    return MUSTER_OK;
}

void mst_cluster_link_free(struct mst_cluster_link *link)
{
    struct mst_mem mem;

    if (!link) {
        return;
    }
    mem = link->mem;
    close_socket(link);
    mst_cluster_codec_free(link->codec);
    mst_mem_release(&mem, link->addresses);
    mst_mem_release(&mem, link);
}

void mst_cluster_link_disown(struct mst_cluster_link *link)
{
    if (link && link->channel.fd >= 0) {
        mst_tls_free(link->channel.tls);
        link->channel = (struct mst_channel){.fd = -1};
        link->epoll = link->enrolled = -1;
        link->stage = DEAD;
        say(link, "its descriptor was closed by this program", 0);
    }
}

/* ---- bytes ---- */

void mst_cluster_link_flush(struct mst_cluster_link *link)
{
    while (!link->mute && (link->stage == UP || link->stage == SHAKING_HANDS)) {
        struct mst_slice output = mst_native_stream_output(&link->codec->stream);
        ssize_t taken;

        link->channel.blocked = false;
        if (output.size == 0 && mst_channel_pending(&link->channel) == 0) {
            break;
        }
        taken = mst_channel_send(&link->channel, output);
        if (taken < 0) { /* what the socket still has can be read, and then it ends */
            say(link, "", errno);
            link->mute = true;
            (void)shutdown(link->channel.fd, SHUT_RDWR);
            break;
        }
        if (taken > 0) {
            mst_native_stream_written(&link->codec->stream, (size_t)taken);
        }
        if (link->channel.blocked || (taken == 0 && mst_channel_pending(&link->channel) == 0)) {
            break; /* the socket is full, or the handshake goes on when the peer answers */
        }
    }
    (void)enrol_again(link);
}

/* The peer ends it, or the socket does. */
static muster_status ended(struct mst_cluster_link *link, ssize_t got)
{
    int os_errno = errno;

    if (got == 0 && link->stage == SHAKING_HANDS) {
        return die(link, MUSTER_EUNREACHABLE,
                   mst_tls_cut_short(link->connects ? MST_TLS_CLIENT : MST_TLS_SERVICE), 0);
    }
    if (got < 0 && os_errno == EPROTO && link->channel.tls) {
        char reason[REASON_ROOM];

        (void)snprintf(reason, sizeof reason, "%s", mst_tls_reason(link->channel.tls));
        (void)mst_channel_send(&link->channel, mst_slice_of(NULL, 0)); /* the alert: tells why */
        return die(link, MUSTER_EPROTO, reason, 0);
    }
    if (got < 0) {
        return die(link, MUSTER_EUNREACHABLE, "", os_errno);
    }
    if (link->mute) {
        close_socket(link); /* the reason is the write's that failed */
        link->stage = DEAD;
        return MUSTER_EUNREACHABLE;
    }
    return die(link, MUSTER_EUNREACHABLE,
               mst_native_stream_end(&link->codec->stream) != MUSTER_OK
                   ? "closed by the peer within a message"
                   : "closed by the peer",
               0);
}

static muster_status take_in(struct mst_cluster_link *link, void *room, bool *again_out)
{
    ssize_t got = mst_channel_receive(&link->channel, room, MST_CLUSTER_LINK_ROOM);
    bool nothing = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    muster_status status = MUSTER_OK;

    if (got <= 0 && !nothing) {
        return ended(link, got);
    }
    if (link->stage == SHAKING_HANDS && mst_tls_trusted(link->channel.tls)) {
        link->stage = UP;
    }
    if (got > 0) {
        link->received += (uint64_t)got;
        status = mst_native_stream_lend(&link->codec->stream, mst_slice_of(room, (size_t)got));
        *again_out = link->channel.more || link->channel.over;
    }
    return status == MUSTER_OK ? status : codec_failed(link, status);
}

muster_status mst_cluster_link_ready(struct mst_cluster_link *link, uint32_t events, void *room,
                                     bool *again_out)
{
    muster_status status = MUSTER_OK;

    *again_out = false;
    if (link->stage == DEAD) {
        return MUSTER_EUNREACHABLE;
    }
    if (link->stage == CONNECTING && events != 0) {
        status = finish_connecting(link);
    } else if ((events & ~(uint32_t)EPOLLOUT) != 0) {
        status = take_in(link, room, again_out);
    }
    if (status == MUSTER_OK) {
        mst_cluster_link_flush(link);
    }
    return status;
}

muster_status mst_cluster_link_await(struct mst_cluster_link *link, int timeout_ms, void *room,
                                     bool *again_out)
{
    struct pollfd polled = {.fd = link->channel.fd, .events = (short)wanted(link)};

    if (polled.fd >= 0) {
        (void)poll(&polled, 1, timeout_ms);
    }
    return mst_cluster_link_ready(link, (uint32_t)polled.revents, room, again_out);
}

void mst_cluster_link_limit(struct mst_cluster_link *link, size_t message_bytes_max)
{
    mst_native_stream_limit(&link->codec->stream,
                            message_bytes_max > 0
                                ? message_bytes_max
                                : mst_cluster_codec_limits_default.frame_bytes_max);
}

uint64_t mst_cluster_link_received(const struct mst_cluster_link *link)
{
    return link->received;
}

bool mst_cluster_link_up(const struct mst_cluster_link *link)
{
    return link->stage == UP;
}

muster_status mst_cluster_link_next(struct mst_cluster_link *link, struct mst_cluster_message *out)
{
    muster_status status = mst_cluster_codec_next(link->codec, out);

    if (status == MUSTER_MORE) { /* the beginning of a message lies in the lent room */
        muster_status kept = mst_native_stream_keep(&link->codec->stream);

        status = kept == MUSTER_OK ? status : kept;
    }
    return status < 0 && link->stage != DEAD ? codec_failed(link, status) : status;
}

muster_status mst_cluster_link_send(struct mst_cluster_link *link,
                                    const struct mst_cluster_message *message)
{
    if (link->stage == DEAD || link->mute) {
        return MUSTER_OK;
    }
    return mst_cluster_codec_send(link->codec, message);
}

size_t mst_cluster_link_pending(const struct mst_cluster_link *link)
{
    if (link->stage == DEAD || link->mute) {
        return 0;
    }
    return mst_native_stream_output(&link->codec->stream).size +
           mst_channel_pending(&link->channel);
}

const char *mst_cluster_link_peer(const struct mst_cluster_link *link)
{
    return link->peer;
}

const char *mst_cluster_link_reason(const struct mst_cluster_link *link)
{
    return link->reason;
}
