/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LIB_ORPHAN_H
#define MST_LIB_ORPHAN_H

#include <stdint.h>
#include <sys/types.h>

struct muster_client;

/* When the process was started, in ticks since the machine was; 0: it has ended, or cannot be seen.
 */
uint64_t mst_lib_process_start(pid_t pid);

/* From now on this process is killed when the agent of its page ends, which is not its parent. */
void mst_lib_orphan_watch(struct muster_client *client);
void mst_lib_orphan_end(struct muster_client *client);

#endif
