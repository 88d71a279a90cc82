/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "io/poll/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"

static muster_status complain(char *error, size_t room, struct mst_slice given, const char *what)
{
    struct mst_text text = mst_text_in(error, room);

    mst_text_add(&text, "address '");
    mst_text_slice(&text, given);
    mst_text_add(&text, "' ");
    mst_text_add(&text, what);
    return MUSTER_EINVAL;
}

static const char *parse_unix(struct mst_endpoint *out, struct mst_slice path)
{
    struct sockaddr_un *address = (struct sockaddr_un *)(void *)&out->address;

    if (path.size == 0) {
        return "has no path";
    }
    if (path.size >= sizeof(address->sun_path)) {
        return "is too long: a socket's path has at most 107 bytes";
    }
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, path.data, path.size);
    out->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path.size + 1);
    return NULL;
}

static bool parse_port(struct mst_slice text, uint16_t *out)
{
    const char *digits = text.data;
    uint32_t port = 0;

    if (text.size == 0 || text.size > 5) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        if (digits[i] < '0' || digits[i] > '9') {
            return false;
        }
        port = port * 10 + (uint32_t)(digits[i] - '0');
    }
    *out = (uint16_t)port;
    return port > 0 && port <= UINT16_MAX;
}

static const char *parse_host(struct mst_endpoint *out, struct mst_slice host, uint16_t port)
{
    struct sockaddr_in *four = (struct sockaddr_in *)(void *)&out->address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)&out->address;
    char text[INET6_ADDRSTRLEN + 1] = {0};

    if (host.size >= sizeof(text)) {
        return "is neither unix:/path nor NUMBER:PORT nor localhost:PORT";
    }
    memcpy(text, host.data, host.size);
    if (mst_slice_equal(host, mst_slice_text("localhost"))) {
        memcpy(text, "127.0.0.1", sizeof("127.0.0.1"));
    }
    if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        out->size = sizeof(*four);
        return ntohl(four->sin_addr.s_addr) >> 24 == 127
                   ? NULL
                   : "is not of this machine: only 127.0.0.0/8 and [::1] are safe without a secret";
    }
    if (inet_pton(AF_INET6, text, &six->sin6_addr) == 1) {
        six->sin6_family = AF_INET6;
        six->sin6_port = htons(port);
        out->size = sizeof(*six);
        return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr)
                   ? NULL
                   : "is not of this machine: only 127.0.0.0/8 and [::1] are safe without a secret";
    }
    return "is neither unix:/path nor NUMBER:PORT nor localhost:PORT";
}

static const char *parse_one(struct mst_endpoint *out, struct mst_slice text)
{
    const char *words = text.data;
    struct mst_slice host = text;
    struct mst_slice number = {0};
    uint16_t port = 0;

    if (text.size >= sizeof(out->text)) {
        return "is too long";
    }
    memcpy(out->text, words, text.size);
    if (mst_slice_starts_with(text, mst_slice_text("unix:"))) {
        return parse_unix(out, mst_slice_of(words + 5, text.size - 5));
    }
    for (size_t i = text.size; i > 0; i--) {
        if (words[i - 1] == ':') {
            host.size = i - 1;
            number = mst_slice_of(words + i, text.size - i);
            break;
        }
    }
    if (!parse_port(number, &port)) {
        return "has no port from 1 to 65535 (unix:/path, or HOST:PORT)";
    }
    if (host.size >= 2 && words[0] == '[' && words[host.size - 1] == ']') {
        host = mst_slice_of(words + 1, host.size - 2);
    }
    return parse_host(out, host, port);
}

muster_status mst_endpoints_parse(struct mst_endpoints *out, const char *text, char *error,
                                  size_t room)
{
    memset(out, 0, sizeof(*out));
    while (*text) {
        size_t size = strcspn(text, ",");
        struct mst_slice one = mst_slice_of(text, size);
        const char *wrong;

        if (out->count == MST_ENDPOINTS_MAX) {
            return complain(error, room, one, "is one too many: 16 are allowed");
        }
        wrong = parse_one(&out->at[out->count], one);
        if (wrong) {
            return complain(error, room, one, wrong);
        }
        out->count++;
        text += size + (text[size] == ',');
    }
    if (out->count == 0) {
        return complain(error, room, mst_slice_text(""), "is empty");
    }
    return MUSTER_OK;
}

int mst_endpoint_connect(const struct mst_endpoint *endpoint, bool *done_out)
{
    int family = endpoint->address.ss_family;
    int one = 1;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0) {
        return -1;
    }
    if (family != AF_UNIX) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    *done_out =
        connect(fd, (const struct sockaddr *)(const void *)&endpoint->address, endpoint->size) == 0;
    if (!*done_out && errno != EINPROGRESS) {
        int error = errno;

        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}
