/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "net/endpoint.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"
#include "net/unix_peer.h"
#include "os/descriptors.h"

static muster_status complain(char *error, size_t room, struct mst_slice given, const char *what)
{
    mst_text_print(error, room, "address '%.*s' %s", MST_SLICE_ARGS(given), what);
    return MUSTER_EINVAL;
}

const char *mst_endpoint_parse(struct mst_address *out, struct mst_slice text, bool anywhere)
{
    const char *wrong = mst_address_parse(out, text);

    if (wrong) {
        return wrong;
    }
    if (out->kind != MST_ADDRESS_UNIX && out->port == 0) {
        return "has no port from 1 to 65535";
    }
    if (!anywhere && !mst_address_is_local(out)) {
        return "is not surely of this machine: it needs a secret (MUSTER_SECRET_FILE), or "
               "MUSTER_INSECURE=1 where everybody on the network is trusted";
    }
    return NULL;
}

muster_status mst_endpoints_parse(struct mst_endpoints *out, const char *text, bool anywhere,
                                  char *error, size_t room)
{
    struct mst_slice rest = mst_slice_text(text);

    memset(out, 0, sizeof(*out));
    while (rest.size > 0) {
        struct mst_slice one = mst_slice_cut(&rest, ',');
        const char *wrong;

        if (out->count == MST_ENDPOINTS_MAX) {
            return complain(error, room, one, "is one too many: 16 are allowed");
        }
        wrong = mst_endpoint_parse(&out->at[out->count], one, anywhere);
        if (wrong) {
            return complain(error, room, one, wrong);
        }
        out->count++;
    }
    if (out->count == 0) {
        return complain(error, room, mst_slice_text(""), "is empty");
    }
    return MUSTER_OK;
}

bool mst_endpoints_unknown(const char *text, char *error, size_t room)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct mst_endpoints endpoints;
    struct addrinfo *found = NULL;
    struct mst_text line;

    if (mst_endpoints_parse(&endpoints, text, true, error, room) != MUSTER_OK) {
        return false; /* `error` has what is wrong */
    }
    for (size_t i = 0; i < endpoints.count; i++) {
        const struct mst_address *address = &endpoints.at[i];
        int code = address->kind == MST_ADDRESS_NAME
                       ? getaddrinfo(address->host, NULL, &hints, &found)
                       : 0;

        if (found) {
            freeaddrinfo(found);
            found = NULL;
        }
        if (code == EAI_NONAME) {
            line = mst_text_in(error, room);
            mst_text_format(&line, "the host of '%.*s' is not known: %s",
                            MST_TEXT_ARGS(address->text), gai_strerror(code));
            return true;
        }
    }
    (void)mst_endpoints_parse(&endpoints, text, false, error, room);
    return false;
}

static void set_tcp(int fd, int option, int value)
{
    (void)setsockopt(fd, IPPROTO_TCP, option, &value, sizeof(value));
}

static int refuse(int fd, int os_errno)
{
    (void)close(fd);
    errno = os_errno;
    return -1;
}

int mst_endpoint_connect(const struct mst_address *address, bool hurry, bool *done_out,
                         const char **why_out)
{
    bool local = address->kind == MST_ADDRESS_UNIX;
    int fd = mst_descriptor_beyond_streams(
        socket(address->name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

    *why_out = NULL;
    if (fd < 0) {
        return -1;
    }
    if (!local) {
        set_tcp(fd, TCP_NODELAY, 1);
        if (hurry) {
            set_tcp(fd, TCP_USER_TIMEOUT, MST_ENDPOINT_VANISHED_MS);
        }
    }
    *done_out =
        connect(fd, (const struct sockaddr *)(const void *)&address->name, address->size) == 0;
    if (!*done_out && (local || errno != EINPROGRESS)) { /* a local one is never on its way */
        return refuse(fd, errno);
    }
    if (local && !mst_unix_peer_trusted(fd)) {
        *why_out = "another user listens there";
        return refuse(fd, EKEYREJECTED);
    }
    return fd;
}

void mst_endpoint_guard(int fd)
{
    int one = 1;

    set_tcp(fd, TCP_USER_TIMEOUT, 0);
    set_tcp(fd, TCP_KEEPIDLE, 1);
    set_tcp(fd, TCP_KEEPINTVL, 1);
    set_tcp(fd, TCP_KEEPCNT, 2);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
}

bool mst_endpoint_owed(int fd, uint64_t since_ms, uint64_t *quiet_ms_out)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);
    int bytes = 0;

    *quiet_ms_out = 0;
    if (ioctl(fd, TIOCOUTQ, &bytes) != 0 || bytes <= 0 ||
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
        return false;
    }
    if (info.tcpi_probes > 0) { /* of a peer without room for more, or of one that was idle */
        *quiet_ms_out = info.tcpi_last_ack_recv;
    } else if (info.tcpi_retransmits > 0) {
        *quiet_ms_out = info.tcpi_last_ack_recv < since_ms ? info.tcpi_last_ack_recv : since_ms;
    }
    return true;
}
