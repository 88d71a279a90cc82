/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_COMPLAINT_H
#define MST_SERVICE_SERVER_COMPLAINT_H

/* What the log says of connections. */

#include "service/server/connection.h"

void mst_uv_tell(struct mst_uv_connection *connection, enum mst_level level, const char *event,
                 const char *reason);

/* Whether there may be one more line about refusals: a client can connect as often as it likes, and
 * could fill a disk with them. */
bool mst_uv_may_complain(struct mst_uv_hub *hub);
void mst_uv_complain(struct mst_uv_connection *connection, const char *reason);

/* Closes a socket that becomes no connection. */
void mst_uv_refuse(struct mst_uv_hub *hub, int fd, const char *reason);

#endif
