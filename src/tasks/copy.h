/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_TASKS_COPY_H
#define MST_TASKS_COPY_H

/* A message with all that it borrows, in one piece of memory: of RUN, BUILD, RESULT, BUILT,
 * PROGRESS and LOG. What only HELLO has is left out. */

#include "proto/cluster.h"

/* How much room the copy of `message` needs beside the message itself; 0: none. */
size_t mst_cluster_copy_size(const struct mst_cluster_message *message);

/* `room`: aligned for any type, of that size. */
void mst_cluster_copy(struct mst_cluster_message *out, const struct mst_cluster_message *message,
                      void *room);

#endif
