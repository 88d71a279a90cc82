/* SPDX-License-Identifier: Apache-2.0 */
/* What a replica says of itself and of the others. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/panic.h"
#include "base/text.h"
#include "service/server/replica/part.h"
#include "view/replicas.h"

/* ---- for people ---- */

const char *mst_uv_replica_trouble(const struct mst_uv_replica *replica)
{
    struct mst_replica_status status = {.leader = 0};

    if (replica->machine) {
        mst_replica_status_of(replica->machine, &status);
    }
    return replica->role == MST_UV_REPLICA_LEADS || status.leader != 0
               ? NULL
               : "no replica is known to lead";
}

void mst_uv_replica_figures(const struct mst_uv_replica *replica, struct mst_replica_figures *out)
{
    struct mst_replica_status status;

    out->there = replica->machine != NULL;
    if (!replica->machine) {
        return;
    }
    mst_replica_status_of(replica->machine, &status);
    out->leads = replica->role == MST_UV_REPLICA_LEADS;
    out->term = status.term;
    out->voters = mst_replica_servers_voters(status.servers);
    out->elections = status.elections;
    out->commits = replica->commits;
    for (size_t i = 0; out->leads && i < status.servers->count; i++) {
        const bool self = status.servers->of[i].id == status.id;

        out->heard += self || status.of[i].heard;
        if (!self && status.last - status.of[i].match > out->lag) {
            out->lag = status.last - status.of[i].match;
        }
    }
}

void mst_uv_replica_look(const struct mst_uv_replica *replica, struct mst_text *lines)
{
    struct mst_replica_status status;

    mst_replica_status_of(replica->machine, &status);
    for (size_t i = 0; i < status.servers->count; i++) {
        const bool self = status.servers->of[i].id == status.id;
        const struct mst_replica_look look = {
            .there = self                 ? MST_REPLICA_THERE_LEADS
                     : status.of[i].heard ? MST_REPLICA_THERE_FOLLOWS
                                          : MST_REPLICA_THERE_AWAY,
            .behind = self ? 0 : status.last - status.of[i].match,
            .address = mst_slice_text(status.servers->of[i].address)};
        mst_replica_look_write(lines, &look);
        if (status.servers->of[i].role != MST_REPLICA_VOTER) {
            mst_replica_standby_write(lines, look.address);
        }
    }
}

/* ---- where the service is ---- */

/* Each address of the list, with its size; NULL: that was the last. */
const char *mst_uv_next_address(const char **list, size_t *size)
{
    const char *at = *list;

    while (*at == ',') {
        at++;
    }
    *size = strcspn(at, ",");
    *list = at + *size;
    return *size > 0 ? at : NULL;
}

bool mst_uv_is_address(const char *address, const char *at, size_t size)
{
    return strlen(address) == size && strncmp(address, at, size) == 0;
}

bool mst_uv_replica_moved(struct mst_uv_replica *replica)
{
    bool moved = replica->moved;

    replica->moved = false;
    return moved;
}

static void add_address(struct mst_uv_replica *replica, const char *address, size_t size)
{
    size_t used = strlen(replica->addresses);
    const char *list = replica->addresses, *at;
    size_t other;

    while ((at = mst_uv_next_address(&list, &other))) {
        if (other == size && strncmp(at, address, size) == 0) {
            return;
        }
    }
    (void)snprintf(replica->addresses + used, sizeof replica->addresses - used, "%s%.*s",
                   used > 0 ? "," : "", (int)size, address);
}

const char *mst_uv_replica_addresses(struct mst_uv_replica *replica)
{
    const bool leads = replica->role == MST_UV_REPLICA_LEADS;
    struct mst_replica_status status = {.leader = 0};
    const char *list = replica->list, *at;
    size_t size;

    replica->addresses[0] = '\0';
    if (replica->machine) {
        mst_replica_status_of(replica->machine, &status);
    }
    if (leads) {
        add_address(replica, replica->self, strlen(replica->self));
    } else if (status.leader != 0) {
        add_address(replica, status.leader_address, strlen(status.leader_address));
    }
    for (size_t i = 0; status.servers && i < status.servers->count; i++) {
        const char *address = status.servers->of[i].address;

        if (strcmp(address, replica->self) != 0) {
            add_address(replica, address, strlen(address));
        }
    }
    while ((at = mst_uv_next_address(&list, &size))) {
        if (!mst_uv_is_address(replica->self, at, size)) {
            add_address(replica, at, size);
        }
    }
    if (replica->addresses[0] == '\0') {
        add_address(replica, replica->self, strlen(replica->self));
    }
    return replica->addresses;
}

struct mst_uv_links *mst_uv_replica_links(struct mst_uv_replica *replica)
{
    return replica->links;
}
