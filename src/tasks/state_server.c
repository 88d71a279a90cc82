/* SPDX-License-Identifier: Apache-2.0 */
/* State servers: what functions depend on and the coordinator cannot repair. A report of trouble
 * with one is tolerated unless it is the n-th within the window. */
#include "base/panic.h"
#include "tasks/machine.h"

enum { LIMIT_MAX = 1024 };

struct mst_state_server *mst_state_server_find(const struct mst_cluster *cluster,
                                               struct mst_slice name)
{
    MST_EACH(server, &cluster->state_servers, struct mst_state_server, place) {
        if (mst_slice_equal(server->name, name)) {
            return server;
        }
    }
    return NULL;
}

muster_status mst_cluster_state_server(struct mst_cluster *cluster, struct mst_slice name)
{
    uint32_t limit = cluster->config.transient_limit;
    size_t times = (limit < LIMIT_MAX ? limit : LIMIT_MAX) * sizeof(uint64_t);
    struct mst_state_server *server;

    if (name.size == 0 || name.size > MST_CLUSTER_NAME_MAX) {
        return MUSTER_EINVAL;
    }
    if (mst_state_server_find(cluster, name)) {
        return MUSTER_EEXISTS;
    }
    server = mst_mem_zalloc(&cluster->mem, sizeof(*server) + times + name.size);
    if (!server) {
        return MUSTER_ENOMEM;
    }
    server->limit = (uint32_t)(times / sizeof(uint64_t));
    server->times = (uint64_t *)(server + 1);
    server->name =
        mst_slice_of(memcpy((char *)server->times + times, name.data, name.size), name.size);
    mst_list_append(&cluster->state_servers, &server->place);
    return MUSTER_OK;
}

bool mst_state_tolerates(struct mst_cluster *cluster, struct mst_closure *closure,
                         struct mst_slice name)
{
    struct mst_state_server *server = mst_state_server_find(cluster, name);
    uint64_t since_ns, oldest_ns;

    if (!server || server->limit <= 1) {
        return false;
    }
    /* A ring of the last `limit`; times are shifted by one, so that 0 is none. */
    server->times[server->at] = cluster->now_ns + 1;
    server->at = (server->at + 1) % server->limit;
    oldest_ns = server->times[server->at];
    since_ns = cluster->now_ns > cluster->config.transient_window_ns
                   ? cluster->now_ns - cluster->config.transient_window_ns
                   : 0;
    if (oldest_ns > since_ns) {
        return false;
    }
    closure->hiccup = server;
    return true;
}

void mst_state_reached(struct mst_closure *closure)
{
    struct mst_state_server *server = closure->hiccup;

    if (server) {
        memset(server->times, 0, server->limit * sizeof(uint64_t));
        closure->hiccup = NULL;
    }
}

void mst_state_servers_free(struct mst_cluster *cluster)
{
    struct mst_list *node;

    while ((node = mst_list_take(&cluster->state_servers))) {
        mst_mem_release(&cluster->mem, MST_CONTAINER(node, struct mst_state_server, place));
    }
}
