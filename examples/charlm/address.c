/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* getaddrinfo */
#include "address.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The address of this machine that it would use to reach the first node. It sends nothing. */
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

static int listen_at(struct sockaddr_in *address)
{
    socklen_t length = sizeof *address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = own_address()};
    if (fd >= 0 && (bind(fd, (struct sockaddr *)address, length) != 0 || listen(fd, 1) != 0 ||
                    getsockname(fd, (struct sockaddr *)address, &length) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

muster_status address_exchange(muster_client *client, muster_restart *restart, int *listener,
                               struct address *next, struct address *previous,
                               struct muster_error *err)
{
    struct muster_round_options options = MUSTER_ROUND_OPTIONS_INIT;
    muster_round_result *all = NULL;
    struct muster_view view;
    struct address mine = {0};
    muster_restart_view(restart, &view);
    mine.index = view.index;
    *listener = listen_at(&mine.socket);
    *next = *previous = mine;
    if (*listener < 0) {
        return muster_restart_fail(restart, errno, "the ring cannot listen");
    }
    options.reduce = MUSTER_REDUCE_GATHER;
    muster_status status = muster_round_join(
        client, "ring", &options, (struct muster_slice){&mine, sizeof mine}, -1, &all, err);
    if (status == MUSTER_OK) { /* in the order of the ranks */
        const uint32_t before = (view.rank + view.size - 1) % view.size;
        memcpy(next, muster_round_part(all, (view.rank + 1) % view.size, NULL).data, sizeof *next);
        memcpy(previous, muster_round_part(all, before, NULL).data, sizeof *previous);
    }
    muster_round_free(all);
    return status;
}
