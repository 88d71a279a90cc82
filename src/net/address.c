/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "net/address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static const char no_port[] = "has no port (unix:/path, HOST:PORT or [::1]:PORT)";
static const char no_host[] = "is neither unix:/path nor HOST:PORT nor [::1]:PORT";

static bool is_unix(struct mst_slice text)
{
    return mst_slice_starts_with(text, mst_slice_text("unix:"));
}

static const char *parse_unix(struct mst_address *out, struct mst_slice path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *bytes = path.data;

    if (path.size == 0) {
        return "has no path";
    }
    if (bytes[0] != '/') {
        return "has a path that does not begin with a slash";
    }
    if (path.size >= sizeof address.sun_path) {
        return "is too long: a socket's path has at most 107 bytes";
    }
    memcpy(address.sun_path, bytes, path.size);
    memcpy(&out->name, &address, sizeof address);
    out->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path.size + 1);
    out->kind = MST_ADDRESS_UNIX;
    memcpy(out->host, bytes, path.size);
    return NULL;
}

static bool parse_port(struct mst_slice text, uint16_t *out)
{
    uint64_t port = 0;
    bool good = text.size <= 5 && mst_slice_number(text, UINT16_MAX, &port);

    *out = (uint16_t)port;
    return good;
}

static bool parse_four(struct mst_address *out)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(out->port)};
    const char *text = strcmp(out->host, "localhost") == 0 ? "127.0.0.1" : out->host;

    if (inet_pton(AF_INET, text, &four.sin_addr) != 1) {
        return false;
    }
    memcpy(&out->name, &four, sizeof four);
    out->size = sizeof four;
    return true;
}

/* getaddrinfo and not inet_pton: "fe80::1%eth0" names a link. */
static bool parse_six(struct mst_address *out)
{
    struct addrinfo hints = {.ai_family = AF_INET6,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char port[8];

    (void)snprintf(port, sizeof port, "%u", (unsigned)out->port);
    if (!strchr(out->host, ':') || getaddrinfo(out->host, port, &hints, &found) != 0) {
        return false;
    }
    memcpy(&out->name, found->ai_addr, found->ai_addrlen);
    out->size = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

static bool is_host_name(const char *text)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

    return *text != '\0' && *text != '-' && *text != '.' && text[strspn(text, allowed)] == '\0' &&
           text[strspn(text, "0123456789.")] != '\0'; /* digits and dots: a mistyped number */
}

static const char *parse_host(struct mst_address *out, struct mst_slice host)
{
    const char *bytes = host.data;
    bool bracketed = host.size >= 2 && bytes[0] == '[' && bytes[host.size - 1] == ']';

    if (bracketed) {
        bytes++;
        host.size -= 2;
    }
    memcpy(out->host, bytes, host.size);
    out->kind = MST_ADDRESS_NUMBER;
    if (bracketed ? parse_six(out) : parse_four(out)) {
        return NULL;
    }
    out->kind = MST_ADDRESS_NAME;
    return !bracketed && is_host_name(out->host) ? NULL : no_host;
}

const char *mst_address_parse(struct mst_address *out, struct mst_slice text)
{
    const char *words = text.data;
    size_t colon = text.size;

    memset(out, 0, sizeof *out);
    if (text.size >= sizeof out->text) {
        return "is too long";
    }
    if (mst_slice_has_nul(text)) {
        return "has a byte 0 in it"; /* what comes behind it would be nowhere */
    }
    memcpy(out->text, words, text.size);
    if (is_unix(text)) {
        return parse_unix(out, mst_slice_from(text, 5));
    }
    while (colon > 0 && words[colon - 1] != ':') {
        colon--;
    }
    if (colon == 0 || !parse_port(mst_slice_from(text, colon), &out->port)) {
        return no_port;
    }
    return parse_host(out, mst_slice_of(words, colon - 1));
}

bool mst_address_is_loopback(const struct sockaddr *name)
{
    struct sockaddr_in6 six;
    struct sockaddr_in four;

    if (name->sa_family == AF_INET) {
        memcpy(&four, name, sizeof four);
        return ntohl(four.sin_addr.s_addr) >> 24 == 127;
    }
    if (name->sa_family == AF_INET6) {
        memcpy(&six, name, sizeof six);
        return IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
    }
    return false;
}

bool mst_address_is_local(const struct mst_address *address)
{
    switch (address->kind) {
    case MST_ADDRESS_UNIX:
        return true;
    case MST_ADDRESS_NUMBER:
        return mst_address_is_loopback((const struct sockaddr *)(const void *)&address->name);
    case MST_ADDRESS_NAME:
        break;
    }
    return false;
}

bool mst_addresses_speak_tcp(const char *list)
{
    struct mst_slice rest = mst_slice_text(list);

    while (rest.size > 0) {
        struct mst_slice one = mst_slice_cut(&rest, ',');

        if (one.size > 0 && !is_unix(one)) {
            return true;
        }
    }
    return false;
}
