/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_NET_ENDPOINT_H
#define MST_NET_ENDPOINT_H

/* Where a service is: the addresses of MUSTER_ADDR, one or several with commas. */

#include <stdbool.h>
#include <stdint.h>

#include "muster/status.h"
#include "net/address.h"

#define MST_ENDPOINTS_MAX 16u

struct mst_endpoints {
    struct mst_address at[MST_ENDPOINTS_MAX];
    uint32_t count;
};

/* EINVAL: `error` says in one line what is wrong. `anywhere`: there is a secret, or MUSTER_INSECURE
 * says that none is needed; without, only addresses of this machine are taken, and no names. */
muster_status mst_endpoints_parse(struct mst_endpoints *out, const char *text, bool anywhere,
                                  char *error, size_t room);

/* One of them: NULL, or what is wrong with it, as the end of a sentence. */
const char *mst_endpoint_parse(struct mst_address *out, struct mst_slice text, bool anywhere);

/* Of addresses that mst_endpoints_parse did not take without a secret: whether one names a host
 * that nobody knows, and the words for that. Else `error` is as the parser has it. Blocks, as the
 * resolver does. */
bool mst_endpoints_unknown(const char *text, char *error, size_t room);

/* A socket that is connecting, or connected (`*done_out`); -1: `*why_out` says why not, or is NULL
 * and errno does. The address was looked up, if it is a name. Behind a Unix socket's path another
 * user may listen by now: that is refused before a byte is sent, as EKEYREJECTED. */
int mst_endpoint_connect(const struct mst_address *address, bool *done_out, const char **why_out);

#endif
