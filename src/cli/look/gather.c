/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/look/gather.h"

#include "client/shell/items.h"
#include "proto/notice.h"
#include "proto/run_keys.h"
#include "view/clusters.h"

bool mst_cli_gather(muster_client *client, const struct mst_cli_place *place, int64_t timeout_ms,
                    struct mst_status *status, struct muster_error *err)
{
    const struct {
        enum mst_command command;
        const char *prefix; /* of LIST */
        struct mst_items *items;
        const char *what;
    } parts[] = {
        {MST_JOBS, NULL, &status->jobs, "list the jobs"},
        {MST_MEMBERS, NULL, &status->members, "list the members"},
        {MST_ROUNDS, NULL, &status->rounds, "list the rounds"},
        {MST_HOSTS, NULL, &status->hosts, "list the hosts"},
        {MST_FAULTS, NULL, &status->faults, "list the faults"},
        {MST_HISTORY, NULL, &status->history, "list what happened"},
        {MST_LIST, MST_PREEMPT_PREFIX, &status->preemption, "list the notices"},
        {MST_LIST, MST_CLUSTER_STATUS_PREFIX, &status->clusters, "list the clusters"},
        {MST_LIST, MST_RUN_PLAIN_PREFIX, &status->plain, "list the ranks without muster"},
        {MST_LIST, MST_RUN_STOPPED_PREFIX, &status->stopped, "list the ranks that are stopped"},
        {MST_LIST, MST_RUN_FRONT_WAITS_PREFIX, &status->front_waits,
         "list the processes that wait"},
        {MST_LIST, MST_RUN_REPLICA_PREFIX, &status->replicas, "list the nodes with a replica"},
        {MST_LIST, MST_RUN_RESTARTS_KEY, &status->restarts, "list the restarts left"}};

    status->address = place->addr;
    status->job = place->job;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        struct mst_request request = {.command = parts[i].command};

        if (parts[i].prefix) {
            request.list.prefix = mst_slice_text(parts[i].prefix);
        }
        if (mst_lib_items_collect(client, &request, timeout_ms, parts[i].items, err,
                                  parts[i].what) != MUSTER_OK) {
            return false;
        }
    }
    return true;
}
