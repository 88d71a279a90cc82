/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_ORPHAN_H
#define MST_CLIENT_SHELL_ORPHAN_H

struct muster_client;

/* From now on this process is killed when the agent of its page ends, unless that is its parent. */
void mst_lib_orphan_watch(struct muster_client *client);

#endif
