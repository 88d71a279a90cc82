/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLUSTER_HOME_H
#define CLUSTER_HOME_H

/* Workers serve one coordinator after another and never end by themselves. Here they are there for
 * one only, and end with it: it leaves a key behind, which newcomers look for, and drains those who
 * are there already. */

#include <stdbool.h>

#include <muster/cluster.h>

/* Whether there is nothing to serve any more. */
bool home_is_time(muster_client *client);

/* Returns when this process is the last of the job's workers. */
muster_status home_all(muster_cluster *cluster, muster_client *client, struct muster_error *err);

#endif
