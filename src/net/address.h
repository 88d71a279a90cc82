/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_NET_ADDRESS_H
#define MST_NET_ADDRESS_H

/* Where a service listens or is found: "unix:/path", "HOST:PORT" or "[::1]:PORT". One parser for
 * both sides, and one rule for what may be spoken there in plain. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/slice.h"

#define MST_ADDRESS_TEXT 160u
#define MST_ADDRESSES_TEXT (16u * MST_ADDRESS_TEXT) /* a list of them, as long as one may be */

enum mst_address_kind {
    MST_ADDRESS_UNIX = 1, /* the user's own; its file's mode and the peer's uid protect it */
    MST_ADDRESS_NUMBER,   /* an IP address, or "localhost" */
    MST_ADDRESS_NAME      /* of a host: `name` is empty until it is looked up */
};

struct mst_address {
    enum mst_address_kind kind;
    uint16_t port; /* 0: the service takes a free one */
    socklen_t size;
    struct sockaddr_storage name;
    char host[MST_ADDRESS_TEXT]; /* without brackets; for a Unix socket its path */
    char text[MST_ADDRESS_TEXT]; /* as it was written */
};

/* NULL, or what is wrong with it, as the end of a sentence: "has no path". */
const char *mst_address_parse(struct mst_address *out, struct mst_slice text);

/* Whether no other machine can reach it or read its traffic: a Unix socket, 127.0.0.0/8,
 * ::1. A name is never local: what it means is known only when it is used. */
bool mst_address_is_local(const struct mst_address *address);
bool mst_address_is_loopback(const struct sockaddr *name);

/* Whether one of `list`, which has commas between its addresses, is no Unix socket. */
bool mst_addresses_speak_tcp(const char *list);

#endif
