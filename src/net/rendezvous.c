/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "net/rendezvous.h"

#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"

/* The first address of `host` as a number; NULL: any. False: it has none. */
static bool look_up(const char *host, const char *port, struct sockaddr_storage *out,
                    socklen_t *size_out)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;

    if (host == NULL) {
        hints.ai_flags |= AI_PASSIVE;
        hints.ai_family = AF_INET;
    }
    if (getaddrinfo(host, port, &hints, &found) != 0) {
        return false;
    }
    memcpy(out, found->ai_addr, found->ai_addrlen);
    *size_out = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

static uint16_t port_of(const struct sockaddr_storage *address)
{
    struct sockaddr_in four;
    struct sockaddr_in6 six;

    if (address->ss_family == AF_INET) {
        memcpy(&four, address, sizeof four);
        return ntohs(four.sin_port);
    }
    memcpy(&six, address, sizeof six);
    return ntohs(six.sin6_port);
}

uint16_t mst_rendezvous_free_port(const char *host)
{
    struct sockaddr_storage address = {0};
    socklen_t size = 0;
    uint16_t port = 0;
    int fd;

    if (!look_up(host, "0", &address, &size)) {
        return 0;
    }
    fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &size) == 0) {
        port = port_of(&address);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return port;
}

bool mst_rendezvous_split(const char *address, char *host, size_t room, uint16_t *port_out)
{
    const char *colon = strrchr(address, ':');
    size_t size = colon != NULL ? (size_t)(colon - address) : 0;
    unsigned long port;

    if (size == 0 || strlen(colon + 1) - 1 > 4 ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1)) {
        return false;
    }
    port = strtoul(colon + 1, NULL, 10);
    if (address[0] == '[') {
        if (size < 3 || address[size - 1] != ']') {
            return false;
        }
        address++;
        size -= 2;
    } else if (memchr(address, ':', size) != NULL) {
        return false;
    }
    if (port > UINT16_MAX || size >= room) {
        return false;
    }
    memcpy(host, address, size);
    host[size] = '\0';
    *port_out = (uint16_t)port;
    return true;
}

void mst_rendezvous_join(const char *host, uint16_t port, char *address, size_t room)
{
    (void)snprintf(address, room, strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host,
                   (unsigned)port);
}

/* ---- this machine ---- */

static bool number_of(const struct sockaddr *address, char *text, size_t room)
{
    socklen_t size =
        address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

    return getnameinfo(address, size, text, (socklen_t)room, NULL, 0, NI_NUMERICHOST) == 0;
}

/* An interface to somewhere else with an address others can use; `wanted` is a number it must be,
 * or NULL. IPv4 goes before IPv6, whose link-local addresses no other machine can use. */
static bool find_interface(const char *wanted, int family, char *text, size_t room)
{
    struct ifaddrs *all = NULL;
    bool found = false;

    if (getifaddrs(&all) != 0) {
        return false;
    }
    for (const struct ifaddrs *one = all; one != NULL && !found; one = one->ifa_next) {
        if (one->ifa_addr == NULL || one->ifa_addr->sa_family != family ||
            (one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) {
            continue;
        }
        found = number_of(one->ifa_addr, text, room) && strchr(text, '%') == NULL &&
                (wanted == NULL || strcmp(wanted, text) == 0);
    }
    freeifaddrs(all);
    return found;
}

bool mst_rendezvous_interface(char *name, size_t room)
{
    return find_interface(NULL, AF_INET, name, room) || find_interface(NULL, AF_INET6, name, room);
}

/* What the machine's own name stands for, if that is one of its addresses: in a container, and
 * where the name is looked up elsewhere, it need not be. */
static bool by_name(char *text, size_t room)
{
    struct sockaddr_storage address = {0};
    char host[HOST_NAME_MAX + 1] = "", number[INET6_ADDRSTRLEN + 16];
    socklen_t size;

    return gethostname(host, sizeof host - 1) == 0 && look_up(host, "0", &address, &size) &&
           number_of((struct sockaddr *)&address, number, sizeof number) &&
           find_interface(number, address.ss_family, text, room);
}

bool mst_rendezvous_reach(const char *host, char *name, size_t room)
{
    if (strcmp(host, "0.0.0.0") != 0 && strcmp(host, "::") != 0 && strcmp(host, "*") != 0) {
        (void)snprintf(name, room, "%s", host);
        return true;
    }
    if (by_name(name, room) || mst_rendezvous_interface(name, room)) {
        return true;
    }
    (void)snprintf(name, room, "127.0.0.1");
    return false;
}

bool mst_rendezvous_listed(const char *list, const char *name)
{
    struct mst_slice rest = mst_slice_text(list);

    while (rest.size > 0) {
        struct mst_slice one = mst_slice_cut(&rest, ',');

        if (one.size > 0 && mst_slice_is(one, name)) {
            return true;
        }
    }
    return false;
}

bool mst_rendezvous_names(const char *list, const char *host)
{
    struct mst_slice rest = mst_slice_text(list);
    char one[256], number[256];

    if (mst_rendezvous_listed(list, host)) {
        return true;
    }
    while (rest.size > 0) {
        struct mst_slice piece = mst_slice_cut(&rest, ',');

        (void)snprintf(one, sizeof one, "%.*s", MST_SLICE_ARGS(piece));
        if (find_interface(one, AF_INET, number, sizeof number) ||
            find_interface(one, AF_INET6, number, sizeof number)) {
            return true;
        }
    }
    return false;
}
