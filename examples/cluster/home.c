/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* poll */
#include "home.h"

#include <poll.h>

#include <muster/muster.h>

enum { LOOK_MS = 20 };

static const char *const key = "work-is-over";

bool home_is_time(muster_client *client)
{
    muster_value *value = NULL;
    const bool is_time = muster_key_get(client, key, NULL, 0, &value, NULL) == MUSTER_OK;

    muster_value_free(value);
    return is_time;
}

/* Workers that are present or joining, except this process. */
static muster_status count_others(muster_client *client, size_t *out, struct muster_error *err)
{
    struct muster_view me;
    muster_members *members = NULL;
    muster_status status = muster_member_list(client, -1, &members, err);

    *out = 0;
    muster_client_view(client, &me);
    for (size_t i = 0; status == MUSTER_OK && i < muster_members_count(members); i++) {
        const struct muster_member *member = muster_members_get(members, i);
        *out += member->role == MUSTER_ROLE_WORKER && member->index != me.index &&
                member->state != MUSTER_MEMBER_LOST && member->state != MUSTER_MEMBER_LEFT &&
                member->state != MUSTER_MEMBER_ABSENT;
    }
    muster_members_free(members);
    return status;
}

static void drain_those_here(muster_cluster *cluster)
{
    struct muster_cluster_worker worker = MUSTER_CLUSTER_WORKER_INIT;

    for (uint32_t number = 0; muster_cluster_look_worker(cluster, number, &worker); number++) {
        if (muster_cluster_drain_worker(cluster, number, NULL) != MUSTER_OK) {
            return; /* the cluster is closed or superseded; the next call returns why */
        }
    }
}

muster_status home_all(muster_cluster *cluster, muster_client *client, struct muster_error *err)
{
    size_t others = 1;
    muster_status status =
        muster_key_put(client, key, (struct muster_slice){"", 0}, NULL, -1, NULL, err);

    while (status == MUSTER_OK && others > 0) {
        drain_those_here(cluster);
        (void)poll(NULL, 0, LOOK_MS);
        status = count_others(client, &others, err);
    }
    return status;
}
