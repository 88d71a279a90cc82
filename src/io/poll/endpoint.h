/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_IO_POLL_ENDPOINT_H
#define MST_IO_POLL_ENDPOINT_H

/* Where a service is: "unix:/path" or "HOST:PORT" ("[::1]:PORT"), several with commas. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "muster/status.h"

#define MST_ENDPOINTS_MAX 16u
#define MST_ENDPOINT_TEXT 160u

struct mst_endpoint {
    struct sockaddr_storage address;
    socklen_t size;
    char text[MST_ENDPOINT_TEXT]; /* as it was written */
};

struct mst_endpoints {
    struct mst_endpoint at[MST_ENDPOINTS_MAX];
    uint32_t count;
};

/* EINVAL: `error` says in one line what is wrong. Numbers and "localhost" only: no name is looked
 * up. An address that is not this machine's own is refused: nothing protects it yet. */
muster_status mst_endpoints_parse(struct mst_endpoints *out, const char *text, char *error,
                                  size_t room);

/* A socket that is connecting, or connected (`*done_out`); -1: errno says why not. */
int mst_endpoint_connect(const struct mst_endpoint *endpoint, bool *done_out);

#endif
