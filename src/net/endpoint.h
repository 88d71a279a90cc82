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

/* How long the host of a client's service may answer nothing before the client, which knows several
 * addresses, tries another one. TCP itself waits for a quarter of an hour. */
#define MST_ENDPOINT_VANISHED_MS 2000u

/* A socket that is connecting, or connected (`*done_out`); -1: `*why_out` says why not, or is NULL
 * and errno does. The address was looked up, if it is a name. Behind a Unix socket's path another
 * user may listen by now: that is refused before a byte is sent, as EKEYREJECTED. `hurry`: an
 * attempt over TCP that is not answered for VANISHED_MS fails, as ETIMEDOUT. */
int mst_endpoint_connect(const struct mst_address *address, bool hurry, bool *done_out,
                         const char **why_out);

/* A TCP socket is connected, and its host may vanish: an idle connection to a host that has
 * vanished breaks after about 3 s. TCP_USER_TIMEOUT goes: it would also break a connection whose
 * peer lives and reads nothing. */
void mst_endpoint_guard(int fd);

/* What the peer's kernel owes. False: nothing. `quiet_ms_out`: since when it has sent no
 * acknowledgement although it was asked at least twice; 0: it was not. `since_ms`: since the first
 * of the bytes that it owes was sent. */
bool mst_endpoint_owed(int fd, uint64_t since_ms, uint64_t *quiet_ms_out);

#endif
