/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/complaint.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/time.h"
#include "service/server/peer.h"

#define PERIOD_NS NS_PER_S
#define COMPLAINTS 20u /* lines about refusals in one PERIOD_NS */

void mst_uv_tell(struct mst_uv_connection *connection, enum mst_level level, const char *event,
                 const char *reason)
{
    char peer[80];

    if (mst_uv_log_wants(connection->hub->log, level)) {
        mst_uv_peer_name(connection->channel.fd, peer, sizeof peer);
        mst_uv_log_line(connection->hub->log, level, "service",
                        "%s conn=%" PRIu64 " peer=%s reason=\"%s\"", event, connection->id.id, peer,
                        reason);
    }
}

bool mst_uv_may_complain(struct mst_uv_hub *hub)
{
    uint64_t now_ns = mst_uv_hub_now_ns(hub);

    if (now_ns >= hub->complaints_until_ns) {
        if (hub->complaints > COMPLAINTS) {
            mst_uv_log_line(hub->log, MST_WARN, "service", "strangers-refused more=%u",
                            (unsigned)(hub->complaints - COMPLAINTS));
        }
        hub->complaints = 0;
        hub->complaints_until_ns = now_ns + PERIOD_NS;
    }
    return hub->complaints++ < COMPLAINTS;
}

void mst_uv_complain(struct mst_uv_connection *connection, const char *reason)
{
    if (mst_uv_may_complain(connection->hub)) {
        mst_uv_tell(connection, MST_WARN, "connection-refused", reason);
    }
}

void mst_uv_refuse(struct mst_uv_hub *hub, int fd, const char *reason)
{
    char peer[80];

    if (mst_uv_may_complain(hub)) {
        mst_uv_peer_name(fd, peer, sizeof peer);
        mst_uv_log_line(hub->log, MST_WARN, "service", "connection-refused peer=%s reason=\"%s\"",
                        peer, reason);
    }
    close(fd);
}
