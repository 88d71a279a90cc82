/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_LOOK_NODES_H
#define MST_CLI_LOOK_NODES_H

/* Nodes and hosts in `muster status`. The members are in the order of MEMBERS, by role and index;
 * the hosts in that of HOSTS. */

#include "cli/print.h"
#include "proto/reply.h"

/* The rank was lost together with its node, and neither is back: the line of the node names it. */
bool mst_cli_node_took(const struct mst_item *members, size_t count, uint32_t index);

/* A line for each node that is lost: which ranks it took that are still missing. */
void mst_cli_nodes_print(const struct mst_item *members, size_t count);

/* A line for each host that lost something. */
void mst_cli_hosts_print(const struct mst_item *hosts, size_t count);

#endif
