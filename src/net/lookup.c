/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "net/lookup.h"

#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/system.h"
#include "os/thread.h"

#define THREAD_STACK ((size_t)512 * 1024) /* name services run code that is not ours */

struct mst_lookup {
    atomic_uint owners; /* the caller and the thread */
    atomic_bool over;
    atomic_int event; /* -1: disowned */
    int code;         /* of getaddrinfo */
    struct addrinfo *found;
    char host[MST_ADDRESS_TEXT];
    char port[8];
};

void mst_lookup_drop(struct mst_lookup *lookup)
{
    if (!lookup || atomic_fetch_sub(&lookup->owners, 1) != 1) {
        return;
    }
    if (lookup->found) {
        freeaddrinfo(lookup->found);
    }
    if (atomic_load(&lookup->event) >= 0) {
        (void)close(lookup->event);
    }
    free(lookup);
}

void mst_lookup_disown(struct mst_lookup *lookup)
{
    atomic_store(&lookup->event, -1);
}

static void *look_up(void *argument)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG};
    struct mst_lookup *lookup = argument;

    lookup->code = getaddrinfo(lookup->host, lookup->port, &hints, &lookup->found);
    atomic_store(&lookup->over, true);
    mst_system_event_ring(lookup->event);
    mst_lookup_drop(lookup);
    return NULL;
}

struct mst_lookup *mst_lookup_start(const struct mst_address *address)
{
    struct mst_lookup *lookup = calloc(1, sizeof(*lookup));
    int error;

    if (!lookup) {
        errno = ENOMEM;
        return NULL;
    }
    atomic_init(&lookup->event, mst_system_event());
    if (lookup->event < 0) {
        error = errno;
        free(lookup);
        errno = error;
        return NULL;
    }
    atomic_init(&lookup->owners, 2);
    memcpy(lookup->host, address->host, sizeof(lookup->host));
    (void)snprintf(lookup->port, sizeof(lookup->port), "%u", (unsigned)address->port);
    error = mst_thread_start(NULL, THREAD_STACK, look_up, lookup);
    if (error != 0) {
        (void)close(lookup->event);
        free(lookup);
        errno = error;
        return NULL;
    }
    return lookup;
}

int mst_lookup_fd(const struct mst_lookup *lookup)
{
    return lookup->event;
}

bool mst_lookup_is_over(const struct mst_lookup *lookup)
{
    return atomic_load(&lookup->over);
}

const char *mst_lookup_take(const struct mst_lookup *lookup, uint32_t turn,
                            struct mst_address *address)
{
    const struct addrinfo *one = lookup->found;
    uint32_t count = 0;

    if (lookup->code != 0) {
        return gai_strerror(lookup->code);
    }
    for (const struct addrinfo *each = one; each; each = each->ai_next) {
        count++;
    }
    for (turn = count > 0 ? turn % count : 0; turn > 0; turn--) {
        one = one->ai_next;
    }
    if (!one || one->ai_addrlen > sizeof(address->name)) {
        return "the name has no address";
    }
    memcpy(&address->name, one->ai_addr, one->ai_addrlen);
    address->size = one->ai_addrlen;
    return NULL;
}
