/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLUSTER_HOME_H
#define CLUSTER_HOME_H

/* Workers serve one coordinator after another and never end by themselves. Here they serve only
 * one, and end with it: it leaves a key, which newcomers look for, and drains the present workers.
 */

#include <stdbool.h>

#include <muster/cluster.h>

/* Whether the work is over. */
bool home_is_time(muster_client *client);

/* Returns when this process is the last of the job's workers. */
muster_status home_all(muster_cluster *cluster, muster_client *client, struct muster_error *err);

#endif
