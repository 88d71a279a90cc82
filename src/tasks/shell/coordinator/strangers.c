/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that are no worker's yet. */
#include "tasks/shell/coordinator/cluster.h"

#define STRANGER_NS (10 * NS_PER_S)   /* until a connection must be a worker's */
#define COMPLAINTS_NS (10 * NS_PER_S) /* in which there are so many lines at most */

/* There is one. */
static struct mst_coord_peer *oldest(const muster_cluster *cluster)
{
    return MST_CONTAINER(cluster->strangers.next, struct mst_coord_peer, stranger);
}

void mst_coord_stranger_gone(muster_cluster *cluster, struct mst_coord_peer *peer)
{
    if (mst_list_linked(&peer->stranger)) {
        mst_list_remove(&peer->stranger);
        cluster->stranger_count--;
        cluster->stranger_bytes -= peer->bytes;
    }
}

/* ---- lines ---- */

static void count_left_out(muster_cluster *cluster)
{
    if (cluster->complaints > MST_COORD_COMPLAINTS_MAX) {
        mst_coord_say(cluster, MUSTER_LEVEL_WARN,
                      "cluster: connections refused: %u more in the last 10 s",
                      cluster->complaints - MST_COORD_COMPLAINTS_MAX);
    }
    cluster->complaints = 0;
}

void mst_coord_complain(muster_cluster *cluster, const char *line)
{
    uint64_t now_ns = mst_lib_now_ns();

    if (now_ns >= cluster->complaints_until_ns) {
        count_left_out(cluster);
        cluster->complaints_until_ns = now_ns + COMPLAINTS_NS;
    }
    if (cluster->complaints < UINT32_MAX) {
        cluster->complaints++;
    }
    if (cluster->complaints <= MST_COORD_COMPLAINTS_MAX) {
        mst_coord_say(cluster, MUSTER_LEVEL_WARN, "%s", line);
    }
}

/* ---- limits ---- */

static void turn_away(muster_cluster *cluster, struct mst_coord_peer *peer, const char *why)
{
    mst_coord_say_of(cluster, MUSTER_LEVEL_WARN, peer, why);
    mst_coord_break(cluster, peer);
}

void mst_coord_stranger(muster_cluster *cluster, struct mst_coord_peer *peer)
{
    mst_cluster_link_limit(peer->connection, MST_COORD_HELLO_BYTES_MAX);
    mst_list_append(&cluster->strangers, &peer->stranger);
    if (++cluster->stranger_count > MST_COORD_STRANGERS_MAX) {
        turn_away(cluster, oldest(cluster),
                  "closed, for too many connections are no worker's yet and it is the oldest");
    }
}

static struct mst_coord_peer *largest(muster_cluster *cluster)
{
    struct mst_coord_peer *found = oldest(cluster);

    MST_EACH(peer, &cluster->strangers, struct mst_coord_peer, stranger) {
        found = peer->bytes > found->bytes ? peer : found;
    }
    return found;
}

void mst_coord_stranger_sent(muster_cluster *cluster, struct mst_coord_peer *peer)
{
    uint64_t bytes = mst_cluster_link_received(peer->connection);

    if (!mst_list_linked(&peer->stranger)) {
        return;
    }
    cluster->stranger_bytes += bytes - peer->bytes;
    peer->bytes = bytes;
    while (cluster->stranger_bytes > MST_COORD_STRANGERS_BYTES_MAX) {
        turn_away(cluster, largest(cluster),
                  "closed, for connections that are no worker's yet sent too much and it most");
    }
}

void mst_coord_stranger_known(muster_cluster *cluster, struct mst_coord_peer *peer)
{
    mst_coord_stranger_gone(cluster, peer);
    mst_cluster_link_limit(peer->connection, 0);
}

void mst_coord_strangers_tick(muster_cluster *cluster, uint64_t now_ns)
{
    if (now_ns >= cluster->complaints_until_ns) {
        count_left_out(cluster);
    }
    MST_EACH(peer, &cluster->strangers, struct mst_coord_peer, stranger) {
        if (now_ns - peer->since_ns < STRANGER_NS) {
            break; /* in the order of their coming */
        }
        turn_away(cluster, peer,
                  peer->greeted ? "closed, for it claims to be a member that the job does not know"
                                : "sent no HELLO: it is closed");
    }
}

uint64_t mst_coord_strangers_deadline_ns(const muster_cluster *cluster)
{
    uint64_t deadline_ns = NEVER;

    if (!mst_list_empty(&cluster->strangers)) {
        deadline_ns = oldest(cluster)->since_ns + STRANGER_NS;
    }
    if (cluster->complaints > MST_COORD_COMPLAINTS_MAX) {
        deadline_ns = mst_sooner(deadline_ns, cluster->complaints_until_ns);
    }
    return deadline_ns;
}
