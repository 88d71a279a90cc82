/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/http_host.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define NAME_ROOM 264u

static bool is_own_name(const char *name, const char *given)
{
    unsigned char address[sizeof(struct in6_addr)];
    char own[NAME_ROOM] = "";
    size_t size = strlen(name);

    if (name[0] == '[' && size > 2 && name[size - 1] == ']') {
        char bare[NAME_ROOM];

        (void)snprintf(bare, sizeof bare, "%.*s", (int)(size - 2), name + 1);
        return inet_pton(AF_INET6, bare, address) == 1;
    }
    (void)gethostname(own, sizeof own - 1);
    return inet_pton(AF_INET, name, address) == 1 || strcasecmp(name, "localhost") == 0 ||
           (given && strcasecmp(name, given) == 0) ||
           (own[0] != '\0' && strcasecmp(name, own) == 0);
}

bool mst_http_host_is_own(const char *host, const char *given)
{
    char name[NAME_ROOM];
    const char *port = strrchr(host, ':');
    size_t size = strlen(host);

    if (port && port[1 + strspn(port + 1, "0123456789")] == '\0') { /* else part of an address */
        size = (size_t)(port - host);
    }
    (void)snprintf(name, sizeof name, "%.*s", (int)size, host);
    return size < sizeof name && is_own_name(name, given);
}
