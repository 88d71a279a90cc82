/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_ADDRESSES_H
#define MST_SERVICE_SERVER_ADDRESSES_H

/* What the service tells its clients of addresses: the list that each gets with the reply to OPEN,
 * and with that to its next renewal once the list has changed; or that it is sent on to. The core
 * knows nothing of addresses. */

#include "service/server/connection.h"
#include "service/server/replica.h"

/* Sets the addresses (at most MST_ENDPOINTS_MAX, with commas; NULL: none to name), with one log
 * line if they change. `elsewhere`: this process does not serve, and sends each client on to the
 * first of them; its core gets neither connections nor requests. That changes only while there is
 * no connection. ENOMEM: nothing has changed. */
muster_status mst_uv_addresses_set(struct mst_uv_hub *hub, const char *addresses, bool elsewhere);

/* What the service says of its process and of its replicas, in lines: view/replicas.h. */
enum { MST_UV_LOOK_ROOM = MST_UV_REPLICA_LOOK_ROOM + 320 };
void mst_uv_addresses_look(const struct mst_uv_hub *hub, struct mst_text *lines);

/* Encodes the reply, with the addresses if it is one that carries them, and that to JOBS with these
 * lines. */
muster_status mst_uv_addresses_answer(struct mst_uv_connection *connection,
                                      const struct mst_reply *reply);

/* Encodes the last reply to a client of a service that is elsewhere; `why` gets the line for
 * people. */
muster_status mst_uv_addresses_send_on(struct mst_uv_connection *connection, char *why,
                                       size_t room);

#endif
