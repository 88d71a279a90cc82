/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "service/server/addresses.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/panic.h"
#include "base/text.h"
#include "view/replicas.h"

muster_status mst_uv_addresses_set(struct mst_uv_hub *hub, const char *addresses, bool elsewhere)
{
    bool same = addresses && hub->addresses ? strcmp(addresses, hub->addresses) == 0
                                            : addresses == hub->addresses;
    char *copy = addresses ? strdup(addresses) : NULL;

    MST_ASSERT(elsewhere == hub->elsewhere || hub->count == 0);
    MST_ASSERT(!elsewhere || addresses);
    if (addresses && !copy) {
        return MUSTER_ENOMEM;
    }
    free(hub->addresses);
    hub->addresses = copy;
    hub->moves += !same;
    if (!same || elsewhere != hub->elsewhere) {
        mst_uv_log_line(hub->log, MST_INFO, "service", "%s addresses=%s",
                        elsewhere ? "clients-are-sent-on" : "addresses-named",
                        copy ? copy : "none");
    }
    hub->elsewhere = elsewhere;
    return MUSTER_OK;
}

void mst_uv_addresses_look(const struct mst_uv_hub *hub, struct mst_text *lines)
{
    const struct mst_uv_replica *replica = hub->feed.replica;
    char host[HOST_NAME_MAX + 1] = "";
    struct mst_service_process process = {.pid = (uint64_t)getpid()};

    (void)gethostname(host, sizeof host - 1);
    process.host = mst_slice_text(host);
    mst_service_process_write(lines, &process);
    if (replica && mst_uv_replica_role(replica) == MST_UV_REPLICA_LEADS) {
        mst_uv_replica_look(replica, lines);
    }
}

/* Only the leader knows how far the others are, and no core knows of processes. */
static muster_status answer_with_look(struct mst_uv_connection *connection,
                                      const struct mst_reply *reply)
{
    char lines[MST_UV_LOOK_ROOM] = "";
    struct mst_text text = mst_text_in(lines, sizeof lines);
    struct mst_reply told = *reply;

    mst_uv_addresses_look(connection->hub, &text);
    told.value = mst_slice_text(lines);
    return mst_native_service_answer(connection->codec, &told);
}

muster_status mst_uv_addresses_answer(struct mst_uv_connection *connection,
                                      const struct mst_reply *reply)
{
    const struct mst_uv_hub *hub = connection->hub;
    bool carries = reply->command == MST_OPEN ||
                   (reply->command == MST_RENEW && connection->moves != hub->moves);
    struct mst_reply named;

    if (reply->command == MST_JOBS && reply->status == MUSTER_OK) {
        return answer_with_look(connection, reply);
    }
    if (!carries || reply->status != MUSTER_OK || !hub->addresses) {
        return mst_native_service_answer(connection->codec, reply);
    }
    connection->moves = hub->moves;
    named = *reply;
    named.addresses = mst_slice_text(hub->addresses);
    return mst_native_service_answer(connection->codec, &named);
}

muster_status mst_uv_addresses_send_on(struct mst_uv_connection *connection, char *why, size_t room)
{
    const char *addresses = connection->hub->addresses;

    mst_text_print(why, room, "no service here any more; it is at %s", addresses);
    return mst_native_service_send_on(connection->codec, why, mst_slice_text(addresses));
}
